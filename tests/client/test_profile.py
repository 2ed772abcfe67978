"""The user's logins: what is kept of them, and which server a run goes to."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
import yaml

from runner.client import profile
from runner.client.problems import LoginNeededError
from runner.client.profile import Logins, ProfileEntry
from runner.core import addresses
from runner.core.errors import ConfigError, UsageError
from runner.store.settings import Settings

A, B = "https://a.example:8443", "unix:///run/rai/server.sock"
PIN = addresses.fingerprint_of(b"x")
ADA = ProfileEntry(A, "rai_1_x", PIN, "kernels", "ada")
BEA = ProfileEntry(B, "rai_2_y", "", "tests", "bea: [x]")

ORIGINAL = """\
# my credentials
profile:
  firstname: Ada   # me
  access_key: "0123"
  team: {name: kernels}

# further down
dockerhub: {username: ada, password: '=='}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "profile"


def test_the_first_login_is_the_host_and_the_next_one_is_not(file):
    assert profile.keep(ADA, file) == Logins(A, {A: ADA})
    assert profile.keep(BEA, file) == Logins(A, {A: ADA, B: BEA})
    assert profile.read(file) == Logins(A, {A: ADA, B: BEA})


def test_the_file_is_for_its_user_only(file):
    before = os.umask(0)
    try:
        profile.keep(ADA, file)
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(file.parent.iterdir()) == [file]


def test_a_file_that_others_may_read_is_closed_with_a_warning(file):
    profile.keep(ADA, file)
    file.chmod(0o644)
    with pytest.warns(UserWarning, match=r"others could read .* \(mode 0644\)"):
        assert profile.read(file).host == A
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_link_to_the_file_stays_one(file, tmp_path):
    (tmp_path / "dotfiles").mkdir()
    target = tmp_path / "dotfiles" / "profile"
    file.symlink_to(target)
    profile.keep(ADA, file)
    assert file.is_symlink()
    assert profile.read(target).host == A


def test_what_else_is_in_the_file_stays_byte_for_byte(file):
    file.write_text(ORIGINAL)
    profile.keep(ADA, file)
    text = file.read_text()
    assert text.startswith(ORIGINAL)
    profile.keep(BEA, file)
    assert file.read_text().startswith(ORIGINAL)
    assert yaml.safe_load(file.read_text())["profile"]["firstname"] == "Ada"
    profile.forget(A, file)
    profile.forget(B, file)
    assert file.read_text() == ORIGINAL


def test_what_follows_our_keys_stays_too(file):
    file.write_text(f"host: {A}\nservers: {{}}\n\n# credentials\nprofile:\n  a: b\n")
    profile.keep(BEA, file)
    assert "# credentials\nprofile:\n  a: b\n" in file.read_text()
    assert profile.read(file) == Logins(A, {B: BEA})


@pytest.mark.parametrize(
    "raw",
    [
        # A login would change more of these than its own keys.
        b"{profile: {firstname: Ada}}\n",
        b"host: &h https://b.example\nother: *h\n",
        b"profile: x\n...\n",
        # These are not ours.
        b"export RAI_TEAM_NAME=kernels\nexport RAI_USER_NAME=ada\n",
        *(b"[profile]\nname=ada\n", b"a: [1, 2\n", b"\xff\xfe\xfa", b"- a\n- b\n"),
        b"a: 1\na: 2\n",
    ],
)
def test_a_file_that_a_login_would_damage_stays_as_it_is(file, raw):
    file.write_bytes(raw)
    assert profile.read(file) == Logins()
    with pytest.raises(ConfigError):
        profile.keep(ADA, file)
    assert file.read_bytes() == raw


def test_a_login_that_cannot_be_read_any_more_is_said(file):
    profile.keep(ADA, file)
    file.write_text(file.read_text() + "  x: [\n")
    with pytest.warns(UserWarning, match="no login is read"):
        assert profile.read(file) == Logins()


def test_odd_values_are_passed_over(file):
    file.write_text(
        f"host: [1]\nservers:\n  {A}: {{token: [1], team: t}}\n  ftp://x: {{}}\n"
        f"  {B}: text\n  here: {{token: x}}\n"
    )
    file.chmod(0o600)
    assert profile.read(file) == Logins("", {A: ProfileEntry(A, team="t")})


def test_logging_out_removes_the_host_with_its_login(file):
    profile.keep(ADA, file)
    profile.keep(BEA, file)
    profile.forget(B, file)
    assert profile.read(file) == Logins(A, {A: ADA})
    profile.forget(A, file)
    assert profile.read(file) == Logins()
    profile.forget(A, file)


def chosen(on=None, server=None, **environ: str) -> ProfileEntry | None:
    settings = Settings(Path("/home"), server=server)
    return profile.chosen(on, settings, {**os.environ, **environ})


@pytest.fixture
def both() -> None:
    file = profile.path()
    file.parent.mkdir(exist_ok=True)
    profile.keep(ADA, file)
    profile.keep(BEA, file)


def test_without_a_login_a_run_stays_here():
    assert chosen() is None


@pytest.mark.usefixtures("both")
def test_an_option_counts_before_the_setting_and_that_before_the_host():
    assert chosen() == ADA
    assert chosen(server=B) == BEA
    assert chosen("A.example:8443", server=B) == ADA
    assert chosen("here") is None
    assert chosen(server="here") is None
    assert chosen(B, server="here") == BEA


@pytest.mark.usefixtures("both")
def test_a_server_without_a_login_asks_for_one():
    with pytest.raises(LoginNeededError, match=r"rai login https://c\.example"):
        chosen("https://c.example")


def test_what_is_no_address_is_a_usage_error():
    with pytest.raises(UsageError, match="http:// is for this machine only"):
        chosen("http://c.example")


def test_the_environment_serves_a_program_without_a_file():
    url = "https://ci.example"
    found = chosen(server=url, RAI_TOKEN=" rai_9_z\n", RAI_FINGERPRINT=PIN.lower())
    assert found == ProfileEntry(url, "rai_9_z", PIN)
    assert chosen(url, RAI_TOKEN="rai_9_z") == ProfileEntry(url, "rai_9_z")
    with pytest.raises(ConfigError, match="RAI_FINGERPRINT"):
        chosen(server=url, RAI_TOKEN="x", RAI_FINGERPRINT="ab:cd")


@pytest.mark.usefixtures("both")
def test_a_token_of_the_environment_goes_to_no_other_server_than_the_settings_name():
    assert chosen(A, server=B, RAI_TOKEN="rai_9_z") == ADA
    assert chosen(server=B, RAI_TOKEN="rai_9_z").token == "rai_9_z"

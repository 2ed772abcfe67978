"""`rai config`: each setting with its value and what says it, and the site's policy."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from runner.cli import config
from runner.cli.config import ConfigEntry
from runner.execution.prepare import NONE_GIVEN, Options
from runner.store import settings
from tests.cli.test_cli import rai
from tests.kit import policies


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point the settings to an empty file, without environment variables."""
    for name in [name for name in os.environ if name.startswith("RAI_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "rai" / "config.yml"
    file.parent.mkdir()
    file.touch()
    return file


def entry(key: str, options: Options = NONE_GIVEN) -> ConfigEntry:
    (found,) = [e for e in config.listed(options) if e.key == key]
    return found


def test_what_says_a_value_stands_beside_it(file, monkeypatch):
    assert entry("engine") == ConfigEntry("engine", "auto", "default")
    file.write_text("# mine\ngpu_wait: 90s\nengine: local\n")
    assert entry("engine") == ConfigEntry("engine", "local", f"file:{file}:3")
    assert entry("gpu_wait") == ConfigEntry("gpu_wait", "1m30s", f"file:{file}:2")
    monkeypatch.setenv("RAI_ENGINE", "docker")
    assert entry("engine") == ConfigEntry("engine", "docker", "variable:RAI_ENGINE")
    given = entry("engine", Options(engine="bare"))
    assert given == ConfigEntry("engine", "bare", "option:--engine")


def test_every_setting_is_listed_as_a_file_would_say_it(file):
    listed = config.listed()
    assert [e.key for e in listed] == [s.key for s in settings.SETTINGS]
    text = "".join(f"{e.key}: {e.value}\n" for e in listed if e.value)
    file.write_text(text)
    assert [e.value for e in config.listed()] == [e.value for e in listed]


def test_a_bound_that_is_turned_off_is_none(file):
    file.write_text("keep_for: 0\n")
    assert entry("keep_for").value == "none"


def test_each_image_in_place_of_another_is_a_line(file):
    file.write_text('images:\n  "a/*": b/c\n')
    assert entry("images.a/*") == ConfigEntry("images.a/*", "b/c", f"file:{file}:2")


@pytest.mark.root
@pytest.mark.programs
def test_the_policy_follows_with_its_lines(tmp_path):
    text = """\
limits: {time: 2h}
profile: strict
strict_limits: true
images: ["debian:*", gcc]
data: [files.lab]
private: [10.1.0.0/16]
"""
    done = policies.under(tmp_path / "site", text, ["config", "--json"], {})
    found = [e for e in json.loads(done.stdout) if e["key"].startswith("policy.")]
    assert [(e["key"], e["value"], e["origin"][-2:]) for e in found] == [
        ("policy.limits.time", "2h", ":1"),
        ("policy.profile", "strict", ":2"),
        ("policy.strict_limits", "true", ":3"),
        ("policy.images", "debian:*, gcc", ":4"),
        ("policy.data", "files.lab", ":5"),
        ("policy.private", "10.1.0.0/16", ":6"),
    ]
    shown = policies.under(tmp_path / "site", text, ["config", "--show-origin"], {})
    assert "file:/etc/rai/policy.yml:1\tpolicy.limits.time=2h\n" in shown.stdout
    doctor = policies.under(tmp_path / "site", text, ["doctor"], {})
    assert "/etc/rai/policy.yml is in force" in doctor.stdout


def test_one_value_is_printed_alone_and_an_unknown_key_is_refused():
    assert rai("config", "engine").stdout == "auto\n"
    refused = rai("config", "engnie")
    assert refused.returncode == 2
    assert "there is no setting 'engnie'" in refused.stderr


def test_a_command_for_servers_says_that_runs_go_to_slurm(monkeypatch):
    monkeypatch.setenv("RAI_SERVER", "slurm:gpu")
    refused = rai("queue")
    assert refused.returncode == 2
    assert "runs go to Slurm, not to a server" in refused.stderr


def test_a_name_that_is_no_partition_is_not_taken_for_a_server(tmp_path):
    assert rai("init", tmp_path).returncode == 0
    refused = rai("run", tmp_path, "--on", "slurm:-x")
    assert refused.returncode == 2
    assert "slurm:-x names no partition of Slurm" in refused.stderr

"""What `rai doctor --fix` offers, and what it runs. Nothing here runs as root."""

from __future__ import annotations

import io
import sys
import tracemalloc
from pathlib import Path

import pytest
from msgspec.structs import replace

from runner.cli.doctor import run_remedies
from runner.core import ImageAction, ImagePlan
from runner.engines import doctor
from runner.engines.doctor import Finding, Health
from runner.engines.remedies import (
    FORBIDDING,
    INSTALLERS,
    Needs,
    Remedy,
    look,
    remedies,
)

FINE = Needs("/home/me/my runs", "/bin/rai", "/venv/python", user="me")


def lines(**changes) -> list[tuple[str, bool]]:
    return [(r.line, r.root) for r in remedies(replace(FINE, **changes))]


def test_a_machine_that_lacks_nothing_needs_nothing():
    assert remedies(FINE) == []


@pytest.mark.parametrize(
    ("changes", "line", "root"),
    [
        ({"home_exists": False}, "mkdir -p '/home/me/my runs'", False),
        ({"home_usable": False}, "chmod u+rwx '/home/me/my runs'", False),
        (
            {"home_usable": False, "home_own": False},
            "chown -R me '/home/me/my runs'",
            True,
        ),
        ({"docker_denied": True}, "usermod -aG docker me", True),
        (
            {"sandbox": False, "bubblewrap": False, "installer": "dnf"},
            "dnf install -y bubblewrap",
            True,
        ),
        ({"image": ImageAction.BUILD}, "/bin/rai image build", False),
        (
            {"numpy_missing_in": "/rai"},
            "/venv/python -m pip install -e '/rai[project]'",
            False,
        ),
        (
            {"shell": "fish", "completion": "/h/c/rai.fish"},
            "mkdir -p /h/c && /bin/rai --show-completion fish > /h/c/rai.fish",
            False,
        ),
    ],
)
def test_each_need_has_the_command_that_meets_it(changes, line, root):
    assert lines(**changes) == [(line, root)]


def test_kernel_settings_are_changed_only_where_no_sandbox_works():
    forbids = tuple((name, after) for name, (_, after) in FORBIDDING.items())

    assert lines(forbids=forbids) == []
    assert len(lines(forbids=forbids, sandbox=False)) == len(FORBIDDING)
    assert set(INSTALLERS) == {"apt-get", "dnf", "zypper", "pacman", "apk"}


def test_the_facts_are_those_of_the_folder_the_findings_and_the_shell(tmp_path):
    denied = Finding(
        "engine docker", Health.MISSING, "you may not open the engine's socket, /x"
    )
    local = Finding("engine local", Health.MISSING, "no sandbox")
    plan = ImagePlan(ImageAction.PULL, "gcc:12", "a test")
    environ = {"SHELL": "/usr/bin/fish", "HOME": str(tmp_path)}

    found = look([denied, local], tmp_path / "absent", tmp_path, plan, environ)

    assert (found.home_exists, found.docker_denied, found.sandbox) == (0, 1, 0)
    assert (found.image, found.image_name) == (ImageAction.PULL, "gcc:12")
    assert found.completion == f"{tmp_path}/.config/fish/completions/rai.fish"
    Path(found.completion).parent.mkdir(parents=True)
    Path(found.completion).touch()
    assert not look([], tmp_path, tmp_path, None, environ).completion


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def made(tmp_path) -> Path:
    return tmp_path / "made"


@pytest.mark.parametrize(
    ("typed", "yes", "root", "runs"),
    [
        ("y\n", False, False, True),
        ("n\n", False, False, False),
        (None, True, False, True),
        (None, False, False, False),
        (None, True, True, False),
    ],
)
def test_it_asks_first_and_runs_nothing_as_root_unasked(
    typed, yes, root, runs, made, monkeypatch, capsys
):
    if typed is not None:
        monkeypatch.setattr(sys, "stdin", Terminal(typed))
        monkeypatch.setattr(sys, "stderr", Terminal())
    else:
        monkeypatch.setattr(sys, "stdin", io.StringIO())
    offered = Remedy("make a file", f"touch {made}", root)

    assert run_remedies([offered], yes=yes)

    assert made.exists() is runs
    assert f"touch {made}" in capsys.readouterr().out


def test_what_fails_is_told_with_its_last_lines(capsys):
    failing = Remedy("fail", "echo it is broken >&2; exit 7")

    assert not run_remedies([failing], yes=True)

    assert "it is broken" in (said := capsys.readouterr().err)
    assert "exit status 7" in said


def test_what_fails_cannot_steer_the_terminal_or_speak_for_rai(capsys):
    failing = Remedy("fail", "printf '\\033]0;title\\007\\033[2J✱ done\\n'; exit 1")

    assert not run_remedies([failing], yes=True)

    assert not {"\033", "\007", "✱"} & set(capsys.readouterr().err)


def test_of_much_that_a_remedy_prints_only_the_end_is_kept(capsys):
    noisy = "seq -f '%.0f of a long build' 800000 >&2; false"
    tracemalloc.start()
    try:
        assert not run_remedies([Remedy("build the image", noisy)], yes=True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    said = capsys.readouterr().err.splitlines()
    assert said[-2:] == [
        "    800000 of a long build",
        "It failed, with exit status 1.",
    ]
    assert peak < 8 << 20


@pytest.mark.parametrize(
    ("states", "said"),
    [
        ({"engine docker": "ok", "engine bare": "note"}, "uses the docker engine"),
        ({"engine docker": "missing", "engine local": "note"}, "uses the local engine"),
        ({"engine local": "missing", "engine bare": "note"}, "without isolation"),
        ({"engine bare": "missing"}, "No engine works here"),
        ({"engine docker": "ok", "policy": "missing"}, "until the policy is mended"),
    ],
)
def test_the_last_line_says_what_a_run_would_use(states, said):
    found = [Finding(name, Health(state), "") for name, state in states.items()]
    assert said in doctor.conclusion(found)

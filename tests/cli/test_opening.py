"""`--open`: a file in a browser, or where it is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from runner.terminal.browser import show
from tests.kit.waiting import until

UNSET = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "SSH_CONNECTION", "SSH_TTY")


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a page on a machine without a display and without browsers."""
    for name in UNSET:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr("webbrowser._tryorder", None)
    monkeypatch.setattr("webbrowser._browsers", {})
    (tmp_path / "bin").mkdir()
    file = tmp_path / "a report;touch $(y).html"
    file.touch()
    return file


def program(folder: Path, name: str, text: str) -> Path:
    path = folder / "bin" / name
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o755)
    return path


def seen(path: Path) -> str:
    """Wait until a browser wrote what it was given."""
    return until(lambda: path.exists() and path.read_text())


LASTS = """
import time
until = time.monotonic() + 60
while not pathlib.Path({!r}).exists() and time.monotonic() < until:
    time.sleep(0.01)
pathlib.Path({!r}).write_text("left")
"""
WRITES = "import sys, pathlib; pathlib.Path({!r}).write_text(sys.argv[-1])"


def test_without_a_browser_it_says_where_the_file_is(page, capsys):
    show(page)

    assert str(page) in capsys.readouterr().out


@pytest.mark.parametrize("over_ssh", [False, True])
def test_the_browser_that_the_user_names_gets_the_files_address(
    over_ssh, page, tmp_path, monkeypatch
):
    if over_ssh:
        monkeypatch.setenv("SSH_CONNECTION", "192.0.2.1 1 192.0.2.2 22")
    given = tmp_path / "given"
    browser = program(tmp_path, "mine", WRITES.format(str(given)))
    monkeypatch.setenv("BROWSER", str(browser))

    show(page)

    assert seen(given) == page.as_uri()


def test_a_browser_of_the_terminal_is_not_started_unasked(
    page, tmp_path, monkeypatch, capsys
):
    given = tmp_path / "given"
    program(tmp_path, "lynx", WRITES.format(str(given)))
    monkeypatch.setenv("TERM", "xterm")

    show(page)

    assert str(page) in capsys.readouterr().out
    assert not given.exists()


@pytest.mark.parametrize("name", ["CI", "SSH_CONNECTION"])
def test_where_nobody_sits_none_is_started(name, page, tmp_path, monkeypatch, capsys):
    given = tmp_path / "given"
    program(tmp_path, "firefox", WRITES.format(str(given)))
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv(name, "1")

    show(page)

    assert str(page) in capsys.readouterr().out
    assert not given.exists()


def test_a_browser_that_does_not_end_holds_nobody(page, tmp_path, monkeypatch):
    given, leave, ended = (tmp_path / name for name in ("given", "leave", "ended"))
    browser = program(
        tmp_path,
        "mine",
        f"{WRITES.format(str(given))}\n{LASTS.format(str(leave), str(ended))}",
    )
    monkeypatch.setenv("BROWSER", str(browser))
    monkeypatch.setattr("runner.terminal.browser.WAIT_S", 0.1)

    show(page)

    assert not ended.exists()
    assert seen(given) == page.as_uri()
    leave.touch()
    assert seen(ended) == "left"

"""A run whose terminal is closed, or that is told to quit, ends as a cancelled one."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import struct
import subprocess
import tarfile
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pytest

from runner import pack
from tests.kit.program import RAI, Forked, rai
from tests.kit.waiting import running, until

pytestmark = pytest.mark.programs

SLEEP = f"sleep 60.{os.getpid()}"
SPEC = {"commands": {"build": [f"sh -c 'echo kept > kept; echo started; {SLEEP}'"]}}
ENGINES = ["bare", pytest.param("local", marks=pytest.mark.local)]
ENDED_S = 30


class Terminal:
    """A terminal, and a program that leads a session on it, with all it showed."""

    def __init__(self, *argv: str, columns: int = 80) -> None:
        self._screen, self._inner = os.openpty()
        size = struct.pack("HHHH", 24, columns, 0, 0)
        fcntl.ioctl(self._inner, termios.TIOCSWINSZ, size)
        self._before = termios.tcgetattr(self._inner)
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), self._inner)
        self.child: Forked | subprocess.Popen[bytes]
        if argv[0] == RAI:
            self.child = Forked(*argv[1:], **streams, session=True)
        else:
            self.child = subprocess.Popen(
                argv, **streams, start_new_session=True, preexec_fn=control
            )
        self.seen, self._at = b"", 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self.child.kill()
        self.child.wait()

    def until(self, text: bytes) -> None:
        """Read the screen until it has shown a text after what was waited for."""
        deadline = time.monotonic() + ENDED_S
        while (found := self.seen.find(text, self._at)) < 0:
            left = max(0.0, deadline - time.monotonic())
            assert self._read(left), f"the terminal lacks {text!r}: {self.seen!r}"
        self._at = found + len(text)

    def end(self) -> int:
        """Read the screen until the program has ended; return its exit code."""
        deadline = time.monotonic() + ENDED_S
        while self.child.poll() is None:
            assert time.monotonic() < deadline, self.seen
            self._read(0.02)
        while self._read(0):
            pass
        return self.child.wait()

    def restored(self) -> bool:
        """Whether the terminal is as it was, with nothing typed for the next shell."""
        same = termios.tcgetattr(self._inner) == self._before
        return same and fcntl.ioctl(self._inner, termios.FIONREAD, bytes(4)) == bytes(4)

    def type(self, keys: bytes) -> None:
        """Type something."""
        os.write(self._screen, keys)

    def close(self) -> None:
        """Close the window."""
        for handle in {self._screen, self._inner} - {-1}:
            os.close(handle)
        self._screen = self._inner = -1

    def _read(self, wait_s: float) -> bool:
        ready, _, _ = select.select([self._screen], [], [], wait_s)
        if ready:
            self.seen += os.read(self._screen, 65536)
        return bool(ready)


def control() -> None:
    """Let a new process lead its terminal, with the usual signals."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    (tmp_path / "rai_build.yml").write_text(json.dumps(SPEC))
    return [RAI, "run", "-p", str(tmp_path)]


@pytest.fixture
def started() -> Iterator[Callable[..., Terminal]]:
    """Return what starts a program on a terminal, and maybe types what starts rai."""
    with ExitStack() as opened:

        def start(*argv: str, keys: bytes = b"") -> Terminal:
            terminal = opened.enter_context(Terminal(*argv))
            terminal.type(keys)
            terminal.until(b"started\r\n")
            return terminal

        yield start


def ended() -> dict[str, object]:
    """Wait for the only run to end, and give its record."""
    until(lambda: (runs := listed()) and all(r["exit_code"] is not None for r in runs))
    (record,) = listed()
    return record


def listed() -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(rai("runs", "--json").stdout)
    return found


def is_cancelled_and_kept(record: dict[str, object], home: Path) -> bool:
    """Tell whether a run ended on request, with its build folder and no process."""
    build = home / "rai" / "runs" / str(record["id"]) / "build.tar.zst"
    assert (record["state"], record["exit_code"]) == ("cancelled", 130)
    with (
        pack.open_tar(build) as stream,
        tarfile.open(fileobj=stream, mode="r|") as tar,
    ):
        assert "build/kept" in [member.name for member in tar]
    assert running(SLEEP) == []
    return True


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_a_run_whose_terminal_is_closed_is_cancelled(
    words, started, home, engine, term, monkeypatch
):
    monkeypatch.setenv("TERM", term)
    terminal = started(*words, "--engine", engine)
    if term == "xterm":
        terminal.until(" s · CPU ".encode())  # the live line

    terminal.close()

    assert terminal.child.wait(ENDED_S) == 130
    assert is_cancelled_and_kept(ended(), home)


def test_the_shell_of_a_closed_terminal_passes_the_signal_on_and_once_is_enough(
    words, started, home
):
    shell = ("env", "HISTFILE=", "bash", "--norc", "--noprofile", "-i")
    line = " ".join([*words, "--engine", "bare"])
    terminal = started(*shell, keys=f"{line}\n".encode())

    terminal.close()

    assert is_cancelled_and_kept(ended(), home)


def test_a_run_under_nohup_outlives_its_terminal(words, started, tmp_path):
    closed = tmp_path / "closed"
    wait = f"echo started; until [ -e {closed} ]; do sleep 0.01; done"
    spec = {"commands": {"build": [f"sh -c '{wait}; echo end'"]}}
    (tmp_path / "rai_build.yml").write_text(json.dumps(spec))
    line = " ".join(words)
    shell = f"trap '' HUP; exec {line} --engine bare"
    terminal = started("sh", "-c", shell)

    terminal.close()
    closed.touch()

    assert terminal.child.wait(ENDED_S) == 0
    assert ended()["state"] == "done"


def test_the_build_folder_is_unpacked_though_the_terminal_is_closed(
    words, started, tmp_path
):
    output = tmp_path.with_name(f"{tmp_path.name}-out")
    terminal = started(*words, "--engine", "bare", "-o", str(output))

    terminal.close()

    assert terminal.child.wait(ENDED_S) == 130
    assert (output / "kept").read_text() == "kept\n"

"""`rai shell` on a real terminal."""

from __future__ import annotations

import re
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from runner.store.paths import Home, RunPaths
from tests.execution.test_hangup import Terminal
from tests.kit.program import RAI, rai

pytestmark = pytest.mark.programs

SPEC = "commands: {build: ['sh -c \"echo first > out.txt; exit 7\"']}\n"


Shell = Callable[..., Terminal]


@pytest.fixture
def shell() -> Iterator[Shell]:
    """Return what starts `rai shell` in a wide window; all close at the end."""
    with ExitStack() as opened:

        def start(*words: str | Path, rai: Sequence[str] = (RAI,)) -> Terminal:
            argv = [*rai, "shell", *map(str, words)]
            return opened.enter_context(Terminal(*argv, columns=300))

        yield start


@pytest.fixture(autouse=True)
def usual_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAI_ENGINE", "bare")
    monkeypatch.setenv("NO_COLOR", "1")


PROJECT = {"rai_build.yml": SPEC, "note.txt": "the note\n"}


@pytest.fixture
def run(project: Path, home: Path) -> RunPaths:
    """A run that failed."""
    done = rai("run", "-p", project)
    assert done.returncode == 1, done.stderr
    (folder,) = (home / "rai" / "runs").glob("[0-9a-f]*")
    return Home(home / "rai").run(folder.name)


def files(run: RunPaths) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in run.root.iterdir() if p.is_file()}


def left(run: RunPaths) -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"rai-shell-{run.id}*"))


@pytest.mark.parametrize(
    "engine", ["bare", pytest.param("local", marks=pytest.mark.local)]
)
def test_a_shell_is_where_the_run_ended_and_changes_nothing_of_it(
    engine, run, shell, tmp_path
):
    before = files(run)
    window = shell(run.id, "--engine", engine, "-o", tmp_path / "kept")

    window.until(b"comes back to")
    window.until(b"rai:")
    window.type(b"cat out.txt $RAI_SOURCE_DIR/note.txt; echo changed >> out.txt\n")
    window.until(b"first\r\nthe note\r\n")
    window.type(b"exit 0\n")

    assert window.end() == 0, window.seen
    assert (tmp_path / "kept" / "out.txt").read_text() == "first\nchanged\n"
    assert files(run) == before
    assert window.restored()
    assert left(run) == []


@pytest.mark.parametrize(
    ("words", "status"),
    [(["true"], 0), (["sh", "-c", "exit 7"], 1), (["no-such-program"], 1)],
)
def test_a_command_takes_the_shells_place_and_decides_the_status(
    words, status, run, shell
):
    window = shell("latest", "--", *words)
    assert window.end() == status, window.seen
    assert window.restored()
    if words[0] == "sh":
        assert b"The shell ended with exit status 7." in window.seen


def test_a_shell_of_a_project_is_as_its_next_run_would_be(project, shell, home):
    window = shell("-p", project, "-e", "TOKEN=abc", "--", "env")
    assert window.end() == 0, window.seen
    assert b"/build is empty" in window.seen
    assert b"\r\nTOKEN=abc\r\n" in window.seen
    assert list((home / "rai" / "runs").glob("[0-9a-f]*")) == []


def test_a_shell_has_the_variables_of_commands_that_have_one_value(project, shell):
    (project / "rai_build.yml").write_text(
        "rai: {image: gcc}\n"
        "env: {BATCH: 100}\n"
        "commands:\n"
        "  build:\n"
        "    - {run: ls, env: {BATCH: 10000, ONE: a b, TWO: c}}\n"
        "    - {run: pwd, env: {TWO: d}}\n"
    )
    window = shell("-p", project, "--", "env")
    assert window.end() == 0, window.seen
    assert b"\r\nBATCH=100\r\n" in window.seen
    assert b"\r\nONE=a b\r\n" in window.seen
    assert b"\r\nTWO=" not in window.seen


def test_without_a_terminal_it_says_what_to_do_and_ends_with_two(run):
    done = rai("shell", run.id)
    assert (done.returncode, done.stdout) == (2, "")
    assert "rai shell needs a terminal, but stdin is not one" in done.stderr
    assert "ssh -t" in done.stderr


HOSTILE = (
    "import fcntl, sys, termios\n"
    "sys.stdout.write('\\x1b]0;title\\x07\\x1b]52;c;eA==\\x07\\x1b[6n\\x1b[?1049hready')\n"
    "sys.stdout.flush()\n"
    "for key in b'echo typed by the program':\n"
    "    try: fcntl.ioctl(0, termios.TIOCSTI, bytes([key]))\n"
    "    except OSError: pass\n"
)


@pytest.mark.parametrize(
    "engine", ["bare", pytest.param("local", marks=pytest.mark.local)]
)
def test_a_program_can_neither_type_here_nor_steer_this_terminal(engine, run, shell):
    window = shell(run.id, "--engine", engine, "--", "python", "-c", HOSTILE)

    assert window.end() == 0, window.seen

    assert window.restored()
    assert b"\x1b[?1049hready" in window.seen
    for bad in (b"\x1b]", b"\x1b[6n"):
        assert bad not in window.seen
    assert b"\x1b[?1049l" in window.seen.partition(b"ready")[2]


@pytest.mark.lengthy
@pytest.mark.parametrize("how", ["TERM", "keys", "hangup", "time"])
def test_the_terminal_is_given_back_and_nothing_stays_at_every_end(
    how, run, shell, monkeypatch, tmp_path
):
    line, rai = "stty raw -echo; echo ready; sleep 60", (RAI,)
    if how == "time":
        policy = "import runner.execution.shell as s; s.TIME_S = 1.0"
        (tmp_path / "sitecustomize.py").write_text(policy)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        rai = (sys.executable, "-m", "runner.cli.main")
    window = shell(run.id, "--", "sh", "-c", line, rai=rai)
    window.until(b"ready")

    if how == "TERM":
        window.child.send_signal(signal.SIGTERM)
    elif how == "keys":
        window.type(b"\x1d\x1d\x1d")
    elif how == "hangup":
        window.child.send_signal(signal.SIGHUP)

    assert window.end() == (5 if how == "time" else 130), window.seen
    assert b"Ctrl-C" not in window.seen
    assert window.restored()
    assert left(run) == []


def test_a_killed_shell_leaves_nothing_after_the_next_command(run, shell):
    window = shell(run.id, "--", "sh", "-c", "echo ready; cat")
    window.until(b"ready")
    window.child.kill()
    window.child.wait()
    assert left(run) != []

    rai("ps")

    assert left(run) == []


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        ("source.tar.zst", "cannot be run again: {file} is absent; -p DIR takes"),
        ("parcel.json", "parcel.json: No such file"),
        ("build.tar.zst", "/build is empty"),
    ],
)
def test_what_of_the_run_is_gone_is_told(gone, said, run, shell):
    (run.root / gone).unlink()
    window = shell(run.id, "--", "true")
    status = window.end()
    seen = " ".join(re.sub(rb"\s+", b" ", window.seen).decode().split())
    assert said.format(file=run.root / gone) in seen
    assert status == (0 if gone == "build.tar.zst" else 2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--gpus", "1", "--image", "x"], "--gpus, --image: the run decides that"),
        (["-o", "/"], "/ exists already"),
        (["-e", "NAME=x"], "NAME is not a masked value of the run"),
        (["--engine", "docker"], "cannot be run again with the docker engine"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(
    words, said, run, shell, monkeypatch
):
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    window = shell(run.id, *words)
    assert window.end() == (11 if "docker" in words else 2), window.seen
    assert said in " ".join(window.seen.decode().split())

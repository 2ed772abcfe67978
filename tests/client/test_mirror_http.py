"""`rai run --on` against the server's own application, whose runs the test plays."""

from __future__ import annotations

import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runner.cli.main import _status
from runner.core import Stream
from runner.core.wire import FILES, QueueState
from runner.execution import places
from runner.store import runs
from runner.store.paths import Home
from tests.kit import begun
from tests.kit.program import Forked
from tests.kit.recorded import on_terminal, profile_of, told_of_its_end
from tests.kit.waiting import until
from tests.kit.web import WebServer, serving

pytestmark = pytest.mark.programs


class Stage:
    """A server, its address, and the home of somebody who is logged in there."""

    def __init__(self, web: WebServer, home: Path, token: str) -> None:
        self.web, self.home, self.token = web, Home(home), token
        self.url = f"unix://{web.socket}"

    def run(self) -> str:
        """Wait for the one run of the server that waits; return its id."""
        until(lambda: len(runs.names(self.home)) == 1)
        (name,) = runs.names(self.home)
        until(lambda: self.web.store.run(name) is not None)
        return name

    def say_why(self) -> None:
        """Set the reason why the one run waits."""
        self.web.store.wait_reason({self.run(): "the GPU is in use"})

    def end(self, run: str) -> None:
        self.web.end(run)
        told_of_its_end(self.web, run, self.token)

    def copied(self, run: str) -> bool:
        """Whether the copy has what the host has."""
        served, copy = self.web.runs.paths(run).root, self.home.run(run).root
        return all((served / n).read_bytes() == (copy / n).read_bytes() for n in FILES)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    with serving(tmp_path) as web:
        token = web.token("blue")
        made = Stage(web, tmp_path / "home", token)
        profile = profile_of(tmp_path, made.url, token)
        monkeypatch.setenv("RAI_PROFILE_FILE", profile)
        monkeypatch.setenv("RAI_HOME", str(made.home.root))
        monkeypatch.delenv("CI", raising=False)
        yield made


@pytest.fixture
def project(tmp_path: Path) -> str:
    folder = begun.project(tmp_path / "project", "./program")
    (folder / "data").write_bytes(random.Random(1).randbytes(200_000))
    return str(folder)


def beside(play: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=play)
    thread.start()
    return thread


def test_a_run_goes_to_the_server_and_comes_back_whole(stage, project, capfd):
    def play() -> None:
        run = stage.run()
        stage.web.begin(run)
        stage.web.runs.say(run, b"hello\n")
        stage.web.runs.say(run, b"oh\n", Stream.STDERR)
        stage.web.runs.write(run, "build.tar.zst", b"built")
        stage.end(run)

    thread = beside(play)
    assert _status(["run", "-p", project]) == 0
    thread.join()

    told = capfd.readouterr()
    assert told.out == "hello\n"
    assert "oh\n" in told.err
    run = stage.run()
    assert f"✱ Running on {stage.web.socket} as ann of blue." in told.err
    assert f"✱ Run {run} done" in told.err
    assert stage.copied(run)
    paths = stage.home.run(run)
    assert paths.build.read_bytes() == b"built"
    assert runs.read(paths) == runs.read(stage.web.runs.paths(run))
    assert not places.active(paths)
    for command in ("show", "attach", "wait"):
        assert _status([command, run]) == 0


def test_a_build_file_that_is_wrong_is_refused_before_anything_is_sent(
    stage, project, capfd
):
    Path(project, "rai_build.yml").write_text("commands: 3\n")
    assert _status(["run", "-p", project]) == 2
    assert stage.web.store.unfinished() == []
    assert runs.names(stage.home) == set()


def test_a_client_that_is_killed_again_and_again_has_every_byte_in_the_end(
    stage, project
):
    assert _status(["run", "-p", project, "-d"]) == 0
    run = stage.run()
    stage.web.begin(run)
    chance, stop = random.Random(5), threading.Event()

    def talk() -> None:
        n = 0
        while not stop.wait(0.002):
            stage.web.runs.say(run, b"line %d\n" % n, list(Stream)[n % 2])
            n += 1

    thread = beside(talk)
    for _ in range(2):
        with Forked("attach", run, stdout=subprocess.PIPE) as client:
            client.stdout.readline()
            time.sleep(chance.uniform(0, 0.2))
            client.send_signal(signal.SIGKILL)
        served, copy = stage.web.runs.paths(run), stage.home.run(run)
        for name in FILES:
            had = (copy.root / name).read_bytes()
            assert (served.root / name).read_bytes().startswith(had)
    stop.set()
    thread.join()
    stage.end(run)
    assert _status(["wait", run]) == 0
    assert stage.copied(run)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_cancels_a_run_that_nobody_can_be_asked_about(stage, project, number):
    with Forked("run", "-p", project, stderr=subprocess.PIPE) as client:
        stage.say_why()
        until(lambda: "Waiting: the GPU is in use." in client.stderr.readline())
        client.send_signal(number)
        assert client.wait(30) == 130
        assert "cancelled" in client.stderr.read()
    assert stage.web.store.run(stage.run()).state is QueueState.ENDED


def test_a_terminal_that_closes_leaves_the_run(stage, project):
    with Forked("run", "-p", project, stderr=subprocess.PIPE) as client:
        try:
            stage.say_why()
            assert any("Waiting" in line for line in client.stderr)
            client.send_signal(signal.SIGHUP)
            client.wait(30)
        finally:
            client.kill()
    run = stage.run()
    assert stage.web.store.run(run).state is QueueState.WAITING
    assert places.active(stage.home.run(run))


def test_secrets_and_the_masked_file_reach_the_server_and_no_file_here(stage, project):
    words = ["run", "-p", project, "-d", "-e", "TOKEN=hunter2222"]
    assert _status(words) == 0
    run = stage.run()
    row = stage.web.store.run(run)
    assert row is not None
    assert "hunter2222" in row.secrets
    for file in stage.home.run(run).root.iterdir():
        assert b"hunter2222" not in file.read_bytes(), file


@pytest.mark.parametrize(
    ("answer", "status"), [(b"c\n", 130), (b"d\n", 130), (b"\n", 0)]
)
def test_ctrl_c_on_a_terminal_asks_whether_to_leave_or_to_cancel(
    stage, project, answer, status
):
    with on_terminal("run", "-p", project) as terminal:
        terminal.until(b"Waiting")
        terminal.type(b"\x03")
        terminal.until(b"watching? ")
        terminal.type(answer)
        run = stage.run()
        if answer == b"d\n":
            terminal.until(b"goes on")
        elif answer == b"\n":
            stage.web.begin(run)
            stage.end(run)
            terminal.until(b"done in")
        else:
            terminal.until(b"cancelled")
        assert terminal.child.wait(30) == status
    ended = stage.web.store.run(run).state is QueueState.ENDED
    assert ended is (answer != b"d\n")


def test_while_it_waits_a_terminal_shows_its_place_in_a_line_that_is_redrawn(
    stage, project
):
    with on_terminal("run", "-p", project) as terminal:
        terminal.until(b"\r\x1b[2K")
        terminal.until(b"Waiting")
        run = stage.run()
        stage.web.begin(run)
        stage.web.runs.say(run, b"hello\n")
        terminal.until(b"hello")
        stage.end(run)
        assert terminal.child.wait(30) == 0
        terminal.until(b"done in")
        assert terminal.seen.count(b"\nWaiting") == 0

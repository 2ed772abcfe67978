"""Every way in which a run ends: what is recorded, what is kept, what is left behind.

The table in docs/runs.md is made of what is seen here, by
`python -m tests.execution.test_ends`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from runner.store.paths import Home, RunPaths
from runner.system import machine
from tests.execution.test_hangup import Terminal
from tests.kit import program
from tests.kit.daemon import Daemon, daemon, problem
from tests.kit.program import RAI, run_program

pytestmark = [pytest.mark.programs, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "runs.md"
HEADS = ("How it ended", "Exit status", "State", "Reason", "Output", "Build folder")
SOON_S = 60.0
WORK = "sh -c 'echo kept > kept; echo working; sleep 600'"
STUBBORN = (
    "sh -c 'trap : TERM; echo kept > kept; echo working; while :; do sleep 1; done'"
)
QUICK = "sh -c 'echo kept > kept; echo working'"


class Scene:
    """One run of one project, and what was done to it."""

    def __init__(self, folder: Path, engine: str = "local") -> None:
        self.engine = engine
        self.home = Home(folder / "home")
        self.environ = {**os.environ, "RAI_HOME": str(self.home.root)}
        self.project = folder / "project"
        self.project.mkdir()

    def write(self, *commands: str | dict[str, object], **limits: object) -> None:
        spec = {
            "rai": {"version": 0.2, "image": "debian:bookworm-slim"},
            "resources": {"limits": limits},
            "commands": {"build": list(commands)},
        }
        (self.project / "rai_build.yml").write_text(json.dumps(spec))

    def words(self, *more: str) -> list[str]:
        return [RAI, "run", "-p", str(self.project), "--engine", self.engine, *more]

    def rai(self, *words: str) -> subprocess.CompletedProcess[str]:
        return program.rai(*words, env=self.environ)

    def start(self) -> subprocess.Popen[bytes]:
        """Start an attached run in a session of its own, and wait until it works."""
        child = subprocess.Popen(
            self.words(),
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_usual_signals,
        )
        self.until(lambda: self.run is not None and self.working())
        return child

    def detach(self) -> None:
        """Start a detached run, and wait until it works."""
        done = subprocess.run(
            self.words("--detach"), env=self.environ, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
        self.until(self.working)

    @property
    def run(self) -> RunPaths | None:
        """The first run of the home folder."""
        found = self.home.runs.glob("*/holder.json")
        first = min(found, key=lambda holder: holder.stat().st_mtime_ns, default=None)
        return RunPaths(first.parent) if first else None

    def keep(self) -> None:
        """Copy the home folder from the disk that goes away to below it."""
        copy = self.home.root.with_name("copy")
        shutil.copytree(self.home.root, copy)
        self.home = Home(copy)
        self.environ["RAI_HOME"] = str(copy)

    def working(self) -> bool:
        # The event comes after the output: a worker that is killed between the two
        # leaves output that no command's is.
        run = self.run
        return run.events.exists() and b'"Output"' in run.events.read_bytes()

    def until_told(self, number: int) -> None:
        """Wait for the run's first events."""
        self.until(lambda: self.run is not None and len(_events(self.run)) >= number)

    def holder(self) -> int:
        pid: int = json.loads(self.run.holder.read_text())["process"]["pid"]
        return pid

    def until(self, true: Callable[[], object]) -> None:
        deadline = time.monotonic() + SOON_S
        while not true():
            assert time.monotonic() < deadline, self.run and self.run.events.read_text()
            time.sleep(0.02)

    def seen(self, exit_code: int | None) -> tuple[str, ...]:
        """Return what is known of the run afterwards: a row of the table."""
        waited = self.rai("wait", self.run.id).returncode
        record = json.loads(self.rai("show", self.run.id, "--json").stdout)
        logged = self.rai("logs", self.run.id).stdout
        status = "returned" if exit_code is None else _status(exit_code)
        verdict = record["verdict"]
        assert waited == record["exit_code"]
        return (
            status,
            record["state"],
            f"{verdict['reason']} ({record['exit_code']})",
            "kept" if "working" in logged else "none",
            "kept" if self.run.build.exists() else "none",
        )

    def leftovers(self) -> list[str]:
        """Run another project, and return what is left of the first run after that."""
        run, name = self.run, self.run.id
        self.write("true")
        again = run_program(self.words(), env=self.environ)
        assert again.returncode == 0, again.stderr
        found = [str(path) for path in Path(tempfile.gettempdir()).glob(f"rai-{name}*")]
        # Other tests' groups come and go meanwhile, which os.walk passes over.
        for folder, below, _ in os.walk("/sys/fs/cgroup"):
            found += [f"{folder}/{one}" for one in below if f"rai-{name}" in one]
        found += [str(path) for path in run.root.glob(".*")]
        mounts = Path("/proc/self/mounts").read_text()
        found += [line for line in mounts.splitlines() if name in line]
        if self.engine == "docker":
            for kind in (["ps", "-a"], ["volume", "ls"]):
                words = ["docker", *kind, "-q", "--filter", f"label=rai.run={name}"]
                found += run_program(words, env=self.environ, check=True).stdout.split()
        return found


def _usual_signals() -> None:
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


def _status(exit_code: int) -> str:
    if exit_code < 0:
        return f"signal {-exit_code}"
    return str(exit_code)


Act = Callable[[Scene], int | None]
ENDS: dict[str, tuple[str, Act]] = {}
"""How a run may end: the engine that shows it, and what is done to the run."""


def end(title: str, engine: str = "local") -> Callable[[Act], Act]:
    def keep(act: Act) -> Act:
        ENDS[title] = (engine, act)
        return act

    return keep


def _finished(
    scene: Scene, *commands: str | dict[str, object], **limits: object
) -> int:
    scene.write(*commands, **limits)
    done = subprocess.run(
        scene.words(), env=scene.environ, capture_output=True, check=False
    )
    return done.returncode


def _signalled(scene: Scene, number: int, times: int = 1, command: str = WORK) -> int:
    scene.write(command)
    child = scene.start()
    for _ in range(times):
        child.send_signal(number)
        time.sleep(0.05)
    return child.wait(timeout=SOON_S)


def _on_terminal(scene: Scene, act: Callable[[Terminal], object]) -> int:
    """Run on a terminal of its own, and do something to that."""
    scene.write(WORK)
    words = ("env", f"RAI_HOME={scene.home.root}", *scene.words())
    with Terminal(*words) as terminal:
        terminal.until(b"working\r\n")
        act(terminal)
        return terminal.child.wait(timeout=SOON_S)


@end("All commands succeed")
def _(scene: Scene) -> int | None:
    return _finished(scene, QUICK)


@end("A command fails")
def _(scene: Scene) -> int | None:
    return _finished(scene, QUICK, "false", "true")


@end("A wrong answer")
def _(scene: Scene) -> int | None:
    right = {"run": "echo Correctness: 0.1", "expect": {"correctness": 0.8898}}
    return _finished(scene, QUICK, right, "true")


@end("A time limit")
def _(scene: Scene) -> int | None:
    return _finished(scene, WORK, time="2s")


@end("Its image does not exist", "docker")
def _(scene: Scene) -> int | None:
    (scene.project / "Dockerfile").write_text("FROM no.such.host.invalid/image\n")
    spec = {"commands": {"build": [QUICK]}}
    (scene.project / "rai_build.yml").write_text(json.dumps(spec))
    words = scene.words()
    return subprocess.run(
        words, env=scene.environ, capture_output=True, check=False
    ).returncode


@end("Ctrl-C")
def _(scene: Scene) -> int | None:
    return _on_terminal(scene, lambda terminal: terminal.type(b"\x03"))


@end("Ctrl-C twice")
def _(scene: Scene) -> int | None:
    return _signalled(scene, signal.SIGINT, times=2, command=STUBBORN)


@end("SIGTERM")
def _(scene: Scene) -> int | None:
    return _signalled(scene, signal.SIGTERM)


@end("SIGQUIT")
def _(scene: Scene) -> int | None:
    return _on_terminal(scene, lambda terminal: terminal.type(b"\x1c"))


@end("A closed terminal")
def _(scene: Scene) -> int | None:
    return _on_terminal(scene, Terminal.close)


@end("`rai cancel`")
def _(scene: Scene) -> int | None:
    scene.write(WORK)
    child = scene.start()
    assert scene.rai("cancel", "latest").returncode == 0
    return child.wait(timeout=SOON_S)


@end("`kill -9`")
def _(scene: Scene) -> int | None:
    return _signalled(scene, signal.SIGKILL)


@end("`kill -9`, in a container", "docker")
def _(scene: Scene) -> int | None:
    return _signalled(scene, signal.SIGKILL)


@end("Detached: its terminal or login ends")
def _(scene: Scene) -> int | None:
    scene.write("sh -c 'echo kept > kept; echo working; sleep 2'")
    client = subprocess.Popen(
        ["sh", "-c", shlex.join(scene.words("--detach")) + "; sleep 600"],
        env=scene.environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    scene.until(lambda: scene.run is not None and scene.working())
    os.killpg(client.pid, signal.SIGKILL)
    client.wait()
    return None


@end("Detached: `rai cancel`")
def _(scene: Scene) -> int | None:
    scene.write(WORK)
    scene.detach()
    assert scene.rai("cancel", "latest").returncode == 0
    return None


@end("Detached: `kill -9` of its worker")
def _(scene: Scene) -> int | None:
    scene.write(WORK)
    scene.detach()
    os.kill(scene.holder(), signal.SIGKILL)
    return None


@end("The machine is switched off")
def _(scene: Scene) -> int | None:
    scene.write(WORK)
    scene.detach()
    os.kill(scene.holder(), signal.SIGKILL)
    # What is found after the next start: another boot than the holder's.
    boot = machine.this_process().boot
    text = scene.run.holder.read_text()
    scene.run.holder.write_text(text.replace(boot, "the one before"))
    return None


@end("Its container is removed", "docker")
def _(scene: Scene) -> int | None:
    scene.write(WORK)
    child = scene.start()
    mine = ["--filter", f"label=rai.run={scene.run.id}"]
    listed = run_program(["docker", "ps", "-q", *mine], check=True)
    removing = ["docker", "rm", "-f", *listed.stdout.split()]
    subprocess.run(removing, capture_output=True, check=True)
    return child.wait(timeout=SOON_S)


def _by_own_daemon(scene: Scene, what: Callable[[Daemon], object]) -> int:
    """Run by a Docker daemon of the test's own, and do something to that."""
    if why := problem():
        pytest.skip(f"no daemon of its own: {why}")
    with daemon("debian:bookworm-slim") as own:
        scene.environ["DOCKER_HOST"] = own.url
        scene.write(WORK)
        child = scene.start()
        what(own)
        status = child.wait(timeout=2 * SOON_S)
        own.start()
        assert scene.leftovers() == []
        del scene.environ["DOCKER_HOST"]
    return status


@end("Its Docker daemon is killed", "docker")
def _(scene: Scene) -> int | None:
    return _by_own_daemon(scene, lambda own: own.signal(signal.SIGKILL))


@contextmanager
def _small_disk(folder: Path, size: str) -> Iterator[None]:
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("this user cannot mount a small disk")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@end("The disk of its record is full")
def _(scene: Scene) -> int | None:
    scene.write("sh -c 'echo kept > kept; echo working; sleep 3; seq 1000000'")
    with _small_disk(scene.home.root, "300m"):
        child = scene.start()
        filling = scene.home.root / "filling"
        with suppress(OSError), filling.open("wb", 0) as file:
            while True:
                file.write(bytes(1 << 20))
        status = child.wait(timeout=SOON_S)
        filling.unlink()
        scene.keep()
    return status


def _named() -> list[object]:
    return [
        pytest.param(title, marks=getattr(pytest.mark, engine), id=title)
        for title, (engine, _) in ENDS.items()
    ]


def documented() -> dict[str, tuple[str, ...]]:
    """Return the rows of the table by their titles; a row may have several."""
    rows = re.findall(r"^\| (.+) \|$", PAGE.read_text(), re.M)
    cells = [row.split(" | ") for row in rows]
    return {
        title: tuple(others)
        for titles, *others in cells
        for title in titles.split("; ")
        if title in ENDS
    }


@pytest.mark.parametrize("title", _named())
def test_a_run_ends_as_the_page_says_and_leaves_nothing(title, tmp_path):
    engine, act = ENDS[title]
    scene = Scene(tmp_path, engine)

    seen = scene.seen(act(scene))

    assert seen == documented()[title]
    assert "" not in seen
    assert scene.leftovers() == []


KILLED = [
    pytest.param("local", marks=pytest.mark.local),
    pytest.param("docker", marks=pytest.mark.docker),
]


@pytest.mark.parametrize("engine", KILLED)
def test_a_worker_killed_after_any_of_its_events_leaves_a_record_and_nothing_else(
    engine, tmp_path
):
    told, number = [], 0
    while "Finished" not in told:
        number += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        scene = Scene(folder, engine)
        scene.write("echo one", "sh -c 'echo kept > kept'")
        client = subprocess.Popen(
            scene.words("--detach"),
            env=scene.environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        scene.until_told(number)
        with suppress(ProcessLookupError):
            os.kill(scene.holder(), signal.SIGKILL)
        client.wait()
        scene.rai("wait", scene.run.id)
        told = [json.loads(line)["event"] for line in _events(scene.run)]

        record = json.loads(scene.rai("show", scene.run.id, "--json").stdout)

        whole = [each["outcome"] for each in record["commands"]] == ["ok", "ok"]
        assert record["state"] == ("done" if "Finished" in told else "lost")
        assert whole or record["state"] == "lost"
        assert scene.leftovers() == []
    assert number > 10


def _events(run: RunPaths) -> list[bytes]:
    """Return the whole lines of a run's events."""
    if not run.events.exists():
        return []
    lines = run.events.read_bytes().splitlines(keepends=True)
    return [line for line in lines if line.endswith(b"\n")]


def test_the_page_has_every_end_and_no_other():
    assert documented().keys() == ENDS.keys()


def table() -> str:
    """Return the table of what is seen now: a row for the ends that are alike."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for title, (engine, act) in ENDS.items():
        with tempfile.TemporaryDirectory() as folder:
            scene = Scene(Path(folder), engine)
            alike.setdefault(scene.seen(act(scene)), []).append(title)
            print(title, scene.leftovers(), file=sys.stderr)
    lines = [f"| {' | '.join(HEADS)} |", f"|{'---|' * len(HEADS)}"]
    for seen, titles in alike.items():
        lines.append(f"| {' | '.join(('; '.join(titles), *seen))} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the table into the page."""
    text = PAGE.read_text()
    old = re.search(r"^\| How it ended .*\n(\|.*\n)+", text, re.M)
    assert old
    PAGE.write_text(text[: old.start()] + table() + text[old.end() :])


if __name__ == "__main__":
    main()

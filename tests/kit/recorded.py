"""A small run as a server has it, and the answers in which it sends it."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from msgspec.structs import replace

from runner.client.api import NONE
from runner.client.problems import RefusedError, UnreachableError
from runner.client.profile import ProfileEntry
from runner.core import Machine, Reason, RunRequest, State, Stream, Verdict
from runner.core import events as ev
from runner.core.request import to_json
from runner.core.wire import (
    FILES,
    MOST_TAIL_BYTES,
    Me,
    QueueState,
    Refusal,
    RemoteRun,
    Scope,
    TailHeader,
    to_line,
)
from runner.pack import BUILD as BUILD_FOLDER
from runner.pack import BuildWriter
from runner.store import claim, runs
from runner.store.paths import Home, RunPaths
from tests.execution.test_hangup import Terminal
from tests.kit.fake_engine import tar_of
from tests.kit.program import RAI
from tests.kit.waiting import until
from tests.kit.web import WebServer

URL = "https://gpu.example.org"
TEAM = "team-1"
ID = "0123456789"
BUILD = b"an archive, as far as the copy knows"
MACHINE = Machine("host", "Linux", "cpu", 1, 1, "3.11", "0.1")
SPEC = "rai:\n  version: 0.2\n  image: debian\ncommands:\n  build:\n    - echo 1\n"
GOOD = Verdict(True, True, None, Reason.DONE)


def remote(state: QueueState = QueueState.ENDED, **facts: Any) -> RemoteRun:
    """Return the run as its server shows it."""
    made = RemoteRun(ID, state, TEAM, 1000.0, reason=Reason.DONE, ended_at=1010.0)
    return replace(made, **facts)


def recorded(
    folder: Path, verdict: Verdict | None = GOOD, lines: int = 3, run: str = ID
) -> RunPaths:
    """Make a run's folder as a worker does; without a verdict it has not ended."""
    paths = RunPaths(folder / run)
    paths.root.mkdir(parents=True)
    with runs.Recorder(paths) as recorder:
        recorder.keep(ev.Created(run, "/home/me/p", "rai_build.yml", None, MACHINE))
        recorder.keep(ev.Packing())
        for state in (State.PACKED, State.PREPARING, State.RUNNING):
            recorder.keep(ev.StateChanged(state))
        recorder.keep(ev.CommandStarted(0, "echo 1"))
        for n in range(lines):
            data = f"line {n} é\n".encode()
            recorder.keep(ev.Output(0, Stream.STDOUT, data))
            recorder.keep(ev.Output(0, Stream.STDERR, b"\0" + data))
        recorder.keep(ev.CommandFinished(0, 0, 0.1))
        if verdict is not None:
            recorder.keep(ev.StateChanged(State.COLLECTING))
            recorder.keep(ev.Collected(str(paths.build), 1, 1))
            recorder.keep(ev.Finished(verdict))
    return paths


def handed_over(home: Path, run: str = ID) -> RunPaths:
    """Make the folder that a client has of a run which it handed over."""
    paths = Home(home).run(run)
    paths.root.mkdir(parents=True)
    parcel = RunRequest("/home/me/p", "rai_build.yml", SPEC, "0" * 64)
    paths.parcel.write_bytes(to_json(parcel))
    paths.source.write_bytes(b"source")
    claim.hand_over(paths, "server", URL, "gpu.example.org", TEAM)
    return paths


def sizes(paths: RunPaths) -> dict[str, int]:
    """Return how many bytes of each file a folder has."""
    found = {name: paths.root / name for name in FILES}
    return {n: p.stat().st_size if p.exists() else 0 for n, p in found.items()}


def said(run: RemoteRun, *parts: bytes, **facts: Any) -> bytes:
    """Return an answer with these bytes of stdout, stderr and the events."""
    return to_line(TailHeader(run, *map(len, parts), **facts)) + b"".join(parts)


def answer(
    served: RunPaths,
    have: Mapping[str, int],
    run: RemoteRun | None = None,
    build: int | None = None,
    most: int = MOST_TAIL_BYTES,
) -> bytes:
    """Return what a server answers of a run, which ended as ``run`` says."""
    parts, left = [], most
    for name in FILES:
        data = (served.root / name).read_bytes()[have[name] :]
        parts.append(data[: max(left, 0)])
        left -= len(data)
    if left < 0:
        going = remote(QueueState.RUNNING, id=served.id)
        return said(going, *parts, latest="{}", more=True)
    return said(run or remote(id=served.id), *parts, over=True, build=build)


class FakeServer:
    """A server's client without HTTP: it plays what the test says, cut as it says.

    ``plays`` returns what is sent to one who has so many bytes of each file, ``cuts``
    after how many bytes each answer breaks off; when there are no more they are whole.
    ``away`` is how many requests are to find nobody, ``knows`` whether it has the run.
    """

    patience = NONE

    def __init__(
        self,
        plays: Callable[[Mapping[str, int]], bytes],
        cuts: Iterator[int] | None = None,
        team: str = TEAM,
        away: float = 0,
    ) -> None:
        self.entry = ProfileEntry(URL, "token", team=TEAM)
        self.team, self.away, self.knows = team, away, True
        self.cancelled = self.followed = 0
        self.build: bytes | None = BUILD
        self._plays, self._cuts = plays, cuts or iter(())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def close(self) -> None:
        pass

    def play(self, run: str, have: Mapping[str, int]) -> bytes:
        return self._plays(have)

    @contextmanager
    def tail(
        self, run: str, have: Mapping[str, int], wait_s: int
    ) -> Iterator[io.BufferedReader]:
        self.reach()
        if not self.knows:
            raise RefusedError(Refusal(404, "no such run"))
        self.followed += 1
        data, cut = self.play(run, have), next(self._cuts, None)
        yield io.BufferedReader(io.BytesIO(data if cut is None else data[:cut]))  # type: ignore[arg-type]

    def cancel(self, run: str) -> RemoteRun:
        self.reach()
        self.cancelled += 1
        return remote()

    def me(self) -> Me:
        self.reach()
        return Me("ann", self.team, "student", "t", (Scope.RUN,), None)

    def download(self, run: str, name: str, path: Path, most_bytes: int) -> int:
        if self.build is None:
            raise RefusedError(Refusal(404, "there is none"))
        return path.write_bytes(self.build)

    def reach(self) -> None:
        if self.away:
            self.away -= 1
            raise UnreachableError(f"{URL} cannot be reached: no route to host")


def archive_of(folder: Path) -> bytes:
    """Return the archive of a build folder with one file, as an engine keeps it."""
    with BuildWriter(folder / "made.tar.zst", BUILD_FOLDER) as writer:
        writer.write(tar_of({"build/made": b"made"}))
    return (folder / "made.tar.zst").read_bytes()


def told_of_its_end(web: WebServer, run: str, token: str) -> None:
    """Wait until a server whose store was changed below it has looked there again."""
    until(lambda: run.encode() not in web.ask("GET", "/api/v1/queue", token).body)


def profile_of(folder: Path, url: str, token: str) -> str:
    """Write the profile of somebody whose runs go to a server; return its name."""
    file = folder / "profile"
    text = f"host: {url}\nservers:\n  {url}: {{token: {token}, team: {TEAM}}}\n"
    file.write_text(text)
    file.chmod(0o600)
    return str(file)


@contextmanager
def on_terminal(*words: str) -> Iterator[Terminal]:
    """Run rai on a terminal of its own; end it afterwards."""
    terminal = Terminal(RAI, *words)
    try:
        yield terminal
    finally:
        terminal.close()
        terminal.child.kill()
        terminal.child.wait()

"""A small run as a server has it, and the answers in which it sends it."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from runner.core import Machine, Reason, State, Stream, Verdict
from runner.core import events as ev
from runner.core.request import RunRequest, to_json
from runner.remote.problems import RefusedError, UnreachableError
from runner.remote.profile import ProfileEntry
from runner.store import claim, runs
from runner.store.paths import Home, RunPaths
from runner.wire.accounts import Me, Scope
from runner.wire.refusals import Refusal
from runner.wire.remote_runs import QueueState, RemoteRun
from runner.wire.tail import FILES, MOST_TAIL_BYTES, TailHeader, to_line

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
    """

    def __init__(
        self,
        plays: Callable[[Mapping[str, int]], bytes],
        cuts: Iterator[int] | None = None,
        team: str = TEAM,
    ) -> None:
        self.entry = ProfileEntry(URL, "token", team=team)
        self._plays, self._cuts, self._team = plays, cuts or iter(()), team
        self.cancelled = 0
        self.followed = 0
        self.knows = True
        self.build: bytes | None = BUILD

    def __enter__(self) -> FakeServer:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @contextmanager
    def tail(
        self, run: str, have: Mapping[str, int], wait_s: int
    ) -> Iterator[io.BufferedReader]:
        self._check()
        self.followed += 1
        data = self._plays(have)
        cut = next(self._cuts, None)
        yield io.BufferedReader(io.BytesIO(data if cut is None else data[:cut]))  # type: ignore[arg-type]

    def cancel(self, run: str) -> RemoteRun:
        self._check()
        self.cancelled += 1
        return remote()

    def me(self) -> Me:
        return Me("ann", self._team, "student", "t", (Scope.RUN,), None)

    def download(self, run: str, name: str, path: Path, most_bytes: int) -> int:
        if self.build is None:
            raise RefusedError(Refusal(404, "none"))
        path.write_bytes(self.build)
        return len(self.build)

    def _check(self) -> None:
        if not self.knows:
            raise RefusedError(Refusal(404, "no such run"))


class AwayServer(FakeServer):
    """A server that is not reached, as often as ``times`` says."""

    def __init__(self, plays: Callable[[Mapping[str, int]], bytes], times: int) -> None:
        super().__init__(plays)
        self.left = times

    @contextmanager
    def tail(
        self, run: str, have: Mapping[str, int], wait_s: int
    ) -> Iterator[io.BufferedReader]:
        if self.left:
            self.left -= 1
            raise UnreachableError("connection refused")
        with super().tail(run, have, wait_s) as stream:
            yield stream

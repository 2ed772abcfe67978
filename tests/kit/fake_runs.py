"""The runs of a server for tests: real folders, whose life the test decides.

``start`` keeps a run's files, and unless ``begins`` is off a worker takes it at once.
What happens then is up to the test: ``say``, ``write``, ``end``, ``lose``. Faults are
``dying``, so many workers end before they claim their run, and ``failing``, so many
starts fail after they were made; ``refusal`` is the answer to new runs, and while
``gate`` is cleared starts take as long.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from msgspec.structs import replace

from runner.core import Machine, Problem, Reason, RunRequest, State, Stream, Verdict
from runner.core import events as ev
from runner.core.request import Answer, to_json
from runner.core.wire import Capacity, ServerGpu
from runner.server.decision import RunStatus
from runner.server.folders import READABLE
from runner.server.workers import NotBegunError
from runner.store import runs
from runner.store.paths import Home, RunPaths

NONE = RunRequest("/project", "rai_build.yml", "")
MACHINE = Machine("fake", "Linux", "a CPU", 4, 8 << 30, "3.11", "0")
GATE_S = 30.0
"""A start that the test forgot to let go fails, rather than to hang."""


class FakeRuns:
    """ServerRuns over a folder, with GPUs named GPU-0, GPU-1, ..."""

    def __init__(self, folder: Path, gpus: int = 0, cores: int = 4) -> None:
        self.home = Home(folder)
        self.known: dict[str, RunStatus] = {}
        self.ended: Callable[[], None] = lambda: None
        self.asked: list[tuple[str, RunRequest]] = []
        self.workers: list[str] = []
        """The runs that a worker took, one item for each time: none may be twice."""
        self.cancels: list[str] = []
        self.removed: list[str] = []
        self.looked = True
        self.dying = self.failing = 0
        self.begins = True
        self.refusal: Answer | None = None
        self.problems: tuple[Problem, ...] = ()
        self.disk_free = 100 << 30
        self.unenforced: tuple[str, ...] = ()
        self.gate = threading.Event()
        self.gate.set()
        self.gpus = tuple(ServerGpu(f"GPU-{n}", "a GPU") for n in range(gpus))
        self.cores = cores
        self._recorders: dict[str, runs.Recorder] = {}
        self._lock = threading.RLock()

    # What a server asks of it.

    def capacity(self) -> Capacity | None:
        if not self.looked:
            return None
        return Capacity(
            "0",
            ("local",),
            self.gpus,
            self.problems,
            self.disk_free,
            MACHINE.memory_bytes,
            self.cores,
            unenforced=self.unenforced,
        )

    def start(
        self,
        run_id: str,
        asked: RunRequest = NONE,
        source: Path = Path(__file__),
    ) -> Answer:
        assert self.gate.wait(GATE_S), "the test never let the start go"
        with self._lock:
            self.asked.append((run_id, asked))
            found = self.known.get(run_id)
            if found is None or not found.claimed:
                if self.refusal is not None:
                    return self.refusal
                if self.dying:
                    self.dying -= 1
                    raise NotBegunError("its worker ended before it began the run")
                self._keep(run_id, to_json(asked.kept), source)
            if self.failing:
                self.failing -= 1
                raise OSError("the disk failed")
            return Answer()

    def look(self, ids: Sequence[str]) -> dict[str, RunStatus]:
        with self._lock:
            return {one: self.known[one] for one in ids if one in self.known}

    def cancel(self, run_id: str) -> None:
        self.cancels.append(run_id)

    def open(self, run_id: str, name: str) -> BinaryIO | None:
        path = self.paths(run_id).root / name
        if name not in READABLE or not path.is_file():
            return None
        return path.open("rb")

    def remove(self, ids: Sequence[str]) -> None:
        with self._lock:
            for one in ids:
                if one not in self.known or not self.known[one].ended:
                    continue
                del self.known[one]
                shutil.rmtree(self.paths(one).root)
                self.removed.append(one)

    # What the test decides.

    def paths(self, run_id: str) -> RunPaths:
        """Return the paths of a run's folder."""
        return self.home.run(run_id)

    def begin(self, run_id: str, gpus: Sequence[str] = (), at: float = 1.0) -> None:
        """Have a worker take a run, which begins its first command."""
        with self._lock:
            paths = self.paths(run_id)
            paths.root.mkdir(parents=True, exist_ok=True)
            found = self.known.get(run_id) or RunStatus(run_id, False, False)
            self.known[run_id] = replace(
                found,
                claimed=True,
                state=State.RUNNING,
                started_at=at,
                gpus=tuple(gpus),
            )
            self.workers.append(run_id)
            recorder = self._recorders[run_id] = runs.Recorder(paths)
            recorder.__enter__()
            recorder.keep(
                ev.Created(run_id, "/project", "rai_build.yml", None, MACHINE)
            )
            for state in (State.PACKED, State.PREPARING, State.RUNNING):
                recorder.keep(ev.StateChanged(state))
            recorder.keep(ev.CommandStarted(0, "./program"))

    def say(self, run_id: str, data: bytes, stream: Stream = Stream.STDOUT) -> None:
        """Have a run's command print something."""
        self._recorders[run_id].keep(ev.Output(0, stream, data))

    def tick(self, run_id: str, elapsed_s: float) -> None:
        """Write what the command uses to latest.json."""
        self._recorders[run_id].keep(ev.Tick(0, elapsed_s, 0.5, 1 << 20))

    def write(self, run_id: str, name: str, data: bytes) -> None:
        """Write a file of a run's folder, such as build.tar.zst."""
        (self.paths(run_id).root / name).write_bytes(data)

    def end(
        self, run_id: str, reason: Reason = Reason.DONE, kept_bytes: int = 0
    ) -> None:
        """End a run, with its record."""
        with self._lock:
            ok = reason is Reason.DONE
            recorder = self._recorders.pop(run_id)
            recorder.keep(ev.CommandFinished(0, reason.exit_code, 1.0))
            recorder.keep(ev.Finished(Verdict(True, ok, None, reason)))
            recorder.__exit__(None, None, None)
            assert recorder.record is not None
            self.known[run_id] = replace(
                self.known[run_id],
                ended=True,
                state=recorder.record.state,
                reason=reason,
                ended_at=recorder.record.ended_at,
                bytes=kept_bytes,
            )

    def lose(self, run_id: str) -> None:
        """Have a run's worker die without a record."""
        with self._lock:
            self._recorders.pop(run_id).__exit__(KeyError, None, None)
            self.paths(run_id).record.unlink(missing_ok=True)
            lost = replace(self.known[run_id], state=State.LOST)
            self.known[run_id] = replace(lost, reason=Reason.RUNNER_LOST)

    def forget(self, run_id: str) -> None:
        """Forget a run that no worker took, as a server does that restarts."""
        with self._lock:
            assert not self.known[run_id].claimed
            del self.known[run_id]
            shutil.rmtree(self.paths(run_id).root)

    def put_out(self, uuid: str, why: str) -> None:
        """Take a GPU out of service, for this reason; "" brings it back."""
        self.gpus = tuple(
            replace(one, out=why) if one.uuid == uuid else one for one in self.gpus
        )

    def close(self) -> None:
        """Close the files of the runs that have not ended."""
        for recorder in self._recorders.values():
            recorder.__exit__(KeyError, None, None)
        self._recorders.clear()

    def _keep(self, run_id: str, parcel: bytes, source: Path) -> None:
        paths = self.paths(run_id)
        paths.root.mkdir(parents=True, exist_ok=True)
        paths.parcel.write_bytes(parcel)
        paths.source.write_bytes(source.read_bytes())
        self.known[run_id] = RunStatus(run_id, False, False)
        if self.begins:
            self.begin(run_id)

"""An engine whose every run Slurm carries to a node, and its folder back.

The run's own folder is the only channel, as for any run on Slurm: an order and a
worker go there, and events, output and the latest Tick come back. What a test gives as
functions is called before, and its answers are carried.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from msgspec.structs import replace

from runner import places
from runner.core import Step, Workspace
from runner.core.cancel import Cancel
from runner.core.errors import EngineError
from runner.core.events import BuildFolder, Created, Event, Finished
from runner.core.request import RunRequest
from runner.places.slurm import hand_over
from runner.places.slurm.submission import JobNeeds
from runner.store import latest, runs
from runner.store.paths import Home, RunPaths
from runner.store.tail import Tail
from runner.wire.addresses import SlurmTarget

POLL_S = 0.02
PIECE_BYTES = 1 << 20
NEEDS = JobNeeds(memory_bytes=2000 << 20, time_s=600)
WORKER = (sys.executable, str(Path(__file__).with_name("carrying.py")))
WORK, BUILD, FAULT = "work.pickle", "build.tar", "fault"


@dataclass
class Known:
    """A function that returns bytes that are known already, as a file."""

    data: bytes

    def __call__(self) -> BinaryIO:
        return io.BytesIO(self.data)


@dataclass
class Rounds:
    """A function that returns the steps of one round after another."""

    left: list[tuple[Step, ...]]

    def __call__(self) -> tuple[Step, ...]:
        return self.left.pop(0) if self.left else ()


def never(index: int) -> bool:
    return False


class CarriedEngine:
    """Stands for an engine, of which it knows the class and its arguments."""

    def __init__(self, kind: type, **arguments: Any) -> None:
        self._made = kind, arguments
        self._here = kind(**arguments)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # while it is copied
            raise AttributeError(name)
        return getattr(self._here, name)

    def run(self, work: Workspace, cancel: Cancel) -> Iterator[Event]:
        """Do as the engine does, on a node."""
        paths = runs.create(Home(Path(os.environ["RAI_HOME"])))
        carried = replace(
            work,
            open_source=_known(work.open_source()),
            open_build=work.open_build and _known(work.open_build()),
            is_wrong=never,
            more=work.more and Rounds(list(iter(work.more, ()))),
        )
        given = {n: v for n, v in vars(self).items() if not n.startswith("_")}
        (paths.root / WORK).write_bytes(pickle.dumps((self._made, given, carried)))
        asked = RunRequest("/project", "rai_build.yml", "")
        answer = hand_over(paths, SlurmTarget(), asked, NEEDS, worker=WORKER)
        assert answer.reason is None, answer.problems
        yield from _followed(paths, cancel)
        yield from _pieces(paths.root / BUILD)


def _known(file: BinaryIO) -> Known:
    with closing(file):
        return Known(file.read())


def _followed(paths: RunPaths, cancel: Cancel) -> Iterator[Event]:
    """Yield a run's events as they come, as ``rai attach`` shows them."""
    tail, told, asked, ended = Tail(paths), 0.0, False, False
    while True:
        over = not places.active(paths)
        for _, event in tail.events():
            ended = ended or isinstance(event, Finished)
            if not isinstance(event, (Created, Finished)):
                yield event
        if (tick := latest.read(paths)) and tick[0] > told:
            told, event = tick
            yield event
        if cancel.requested and not asked:
            asked = True
            places.cancel(paths)
        if over:
            break
        time.sleep(POLL_S)
    if (fault := paths.root / FAULT).exists():
        raise EngineError(fault.read_text())
    assert ended, paths.worker_log.read_text()


def _pieces(tar: Path) -> Iterator[Event]:
    with tar.open("rb") as file:
        while data := file.read(PIECE_BYTES):
            yield BuildFolder(data)

"""Whether the judge's reference takes on each GPU what it takes at this site.

At the start of a server, and then each hour, the reference is measured alone on every
GPU that a milestone has a time for. A GPU on which it lies outside the band measures
submissions wrongly: it is out until staff let it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from runner.core import Reason, RunRequest
from runner.core.errors import RaiError
from runner.core.milestone import HeldKind, Milestone, MilestoneRun, Reference, Trust
from runner.core.wire import Capacity, QueueState, ServerGpu
from runner.server import messages
from runner.server.database import Store
from runner.server.folders import ServerRuns
from runner.server.judging import Launch, queued
from runner.server.scheduling import STAFF
from runner.server.workers import GpusOut
from runner.spec import milestones
from runner.store import removal
from runner.store import runs as records
from runner.submit import host, judging, planning, staging
from runner.submit.staging import StagedParts, StagingArea

EVERY_S = 3600.0
FOLDER = "references"
TEAM, PERSON = "rai", "reference"
"""Whose the runs are; no invitation makes this person."""


class References:
    """The checks of one server; a step that has something to do has a thread."""

    def __init__(
        self,
        store: Store,
        runs: ServerRuns,
        uploads: Path,
        folders: Sequence[Path],
        out: GpusOut,
    ) -> None:
        self._store, self._runs, self._out = store, runs, out
        self._uploads, self._folders = uploads, folders
        self._next: dict[str, float] = {}
        self._going: dict[str, tuple[str, MilestoneRun, Reference]] = {}
        self._busy = False

    def step(
        self,
        now: float,
        facts: Capacity,
        going: set[str],
        launch: Launch,
    ) -> None:
        """Begin the checks that are due, and take in those that have ended."""
        if self._busy or facts.in_slurm:
            return
        ended = [u for u, (run, *_) in self._going.items() if run not in going]
        due = [
            gpu
            for gpu in facts.gpus
            if not gpu.out
            and gpu.uuid not in self._going
            and not 0 < self._next.get(gpu.uuid, 0.0) - now <= EVERY_S
        ]
        if ended or due:
            self._busy = True
            launch(partial(self._work, ended, due, now))

    def _work(self, ended: list[str], due: list[ServerGpu], now: float) -> None:
        try:
            for uuid in ended:
                self._take_in(uuid, now)
            for gpu in due:
                self._next[gpu.uuid] = now + EVERY_S
                self._begin(gpu, now)
        except Exception as error:
            messages.fault("reference_failed", error)
        finally:
            self._busy = False

    def _begin(self, gpu: ServerGpu, now: float) -> None:
        """Queue a run that measures the reference on a GPU, if its time is known."""
        found = self._known(gpu.name)
        if found is None:
            return
        milestone, stage, reference = found
        job, _ = planning.job(milestone, host.architecture(gpu), gpu.name)
        with removal.folder(self._uploads / FOLDER) as folder:
            parts = StagedParts(staging.judge_files(), (), job)
            staged = StagingArea(folder).stage(stage, parts)
            asked = RunRequest(
                "the judge's reference",
                staging.BUILD_FILE,
                staging.build_text(stage),
                user=PERSON,
                gpus=gpu.uuid,
                title=f"reference on {gpu.name}",
                inner=True,
            )
            given = self._store, self._uploads, staged, asked, TEAM, STAFF.name
            row = queued(*given, now, since=now)
        self._store.add_run(row)
        self._going[gpu.uuid] = row.id, stage, reference

    def _known(self, name: str) -> tuple[Milestone, MilestoneRun, Reference] | None:
        """Return a milestone with a time for a model of GPU, and what measures it."""
        for each in milestones.names(self._folders):
            try:
                found = milestones.find(each, self._folders)
            except RaiError:
                continue  # whoever submits to it is told
            reference, last = found.reference(name), found.runs[-1]
            if found.trust is Trust.RANKED and reference and last.gpu:
                holds = tuple(h for h in last.holds if h.kind is not HeldKind.BUILD)
                return found, replace(last, holds=holds), reference
        return None

    def _take_in(self, uuid: str, now: float) -> None:
        """Put a GPU out on which the reference lay outside the band."""
        run, stage, reference = self._going[uuid]
        row = self._store.run(run)
        if row is not None and row.state is not QueueState.ENDED:
            return
        del self._going[uuid]
        paths = self._runs.paths(run)
        record = records.read(paths)
        if record is None or judging.reason(record) is not Reason.DONE:
            messages.step("reference_unmeasured", run=run, gpu=uuid)
            return
        with removal.folder(self._uploads / FOLDER) as folder:
            ms = judging.measured(stage, paths, folder / "taken").reference_ms or 0.0
        messages.step("reference", run=run, gpu=uuid, ms=round(ms, 4))
        if abs(ms - reference.ms) > reference.band * reference.ms:
            why = f"the reference took {ms:.3f} ms in run {run}; this site expects"
            why += f" {reference.ms:g} ms, within {reference.band:.0%}"
            self._out.odd(uuid, why, now)

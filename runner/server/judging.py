"""What judges submissions: their runs one after another, by the server's own queue.

All that counts is in the store. A step of a submission, which notes how its last run
ended and queues the next or gives the verdict, is one transaction that finds the row as
it was before, so a server may be killed anywhere, and the next one goes on. What a step
wrote in vain is an upload that nobody needs.

What a team sent, and what a run built, is taken for hostile: the folder of each run is
made here, of the judge's own files and of what was checked.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from msgspec import json
from msgspec.structs import replace

from runner import pack
from runner.core import Problem, Reason, RunRequest, Severity, work
from runner.core.errors import BusyError, RaiError, UsageError
from runner.core.measurement import MeasurementHost
from runner.core.milestone import Milestone, MilestoneRun
from runner.core.request import to_json
from runner.core.wire import Capacity, QueueState, StageRun, Submission
from runner.core.work import NO_SECRETS
from runner.server import messages
from runner.server.admission import digest
from runner.server.database import Store
from runner.server.folders import ServerRuns
from runner.server.paths import upload_path
from runner.server.scheduling import REHEARSED, SUBMITTED, QueueRow
from runner.server.uploads import keep
from runner.spec import milestones
from runner.store import removal
from runner.store import runs as records
from runner.submit import files, host, judging, outcome, planning, staging, standings
from runner.submit.files import Submitted
from runner.submit.staging import StagedParts, StagingArea

FOLDER = "judged"
"""Where uploads are unpacked and runs are staged, below the folder of the uploads."""

AGAIN_S = 10.0
"""A step that failed is tried again after this."""

AT_ONCE = 2
"""Steps at a time: each has what a team sent in memory."""

MOST_TRIES = 5
"""So often a step may fail before the verdict is that the server did."""

MOST_WHY = 4000
LATER = (Reason.BUSY, Reason.DISK_FULL, Reason.BAD_CONFIG)

Launch = Callable[[Callable[[], None]], None]
"""Begins some work, in a thread of its own."""


class Judging:
    """The judging of one server, by milestones of ours and of a site's ``folders``."""

    def __init__(
        self, store: Store, runs: ServerRuns, uploads: Path, folders: Sequence[Path]
    ) -> None:
        self._store, self._runs = store, runs
        self._uploads, self._folders = uploads, folders
        self._known: tuple[int, list[Submission]] = (-1, [])
        self._under_way: set[int] = set()
        self._not_before: dict[int, float] = {}
        self._tries: dict[int, int] = {}

    def step(
        self,
        now: float,
        facts: Capacity,
        going: set[str],
        launch: Launch,
    ) -> None:
        """Begin steps of submissions that wait for none of the runs ``going``."""
        changes = self._store.changes()
        if self._known[0] != changes:
            self._known = changes, self._store.unjudged()[::-1]
        for one in self._known[1]:
            waits = one.going is not None and one.going.run in going
            soon = abs(self._not_before.get(one.number, now) - now) <= AGAIN_S
            early = soon and now < self._not_before.get(one.number, now)
            if len(self._under_way) >= AT_ONCE:
                break
            if not (waits or early or one.number in self._under_way):
                self._under_way.add(one.number)
                launch(partial(self._take_on, one, now, facts))

    def _take_on(self, one: Submission, now: float, facts: Capacity) -> None:
        """Take a step of a submission; one that fails is taken again later."""
        try:
            self._step(one, now, facts)
            self._not_before.pop(one.number, None)
            self._tries.pop(one.number, None)
        except Exception as error:
            self._not_before[one.number] = now + AGAIN_S
            passing = isinstance(error, RaiError) and error.reason in LATER
            self._tries[one.number] = self._tries.get(one.number, 0) + (not passing)
            messages.fault("judging_failed", error, submission=one.number)
            if self._tries[one.number] >= MOST_TRIES:
                self._end(one, Reason.INTERNAL, "the server failed to judge it", now)
        finally:
            self._under_way.discard(one.number)

    def _step(self, one: Submission, now: float, facts: Capacity) -> None:
        milestone = milestones.find(one.milestone, self._folders)
        stages = host.stages(milestone, gpu=facts.in_slurm or bool(facts.gpus))
        with removal.folder(self._uploads / FOLDER) as folder:
            after = one
            if one.going is not None:
                row = self._store.run(one.going.run)
                if row is not None and row.state is not QueueState.ENDED:
                    return
                after = self._ended(one, one.going, row, milestone, folder)
            stage = standings.following(stages, after.runs)
            if stage is None:
                last = after.runs[-1]
                self._end(one, last.reason or Reason.INTERNAL, last.why, now, after)
                return
            try:
                run = self._staged(after, stage, milestone, folder, facts, now)
            except RaiError as error:
                if isinstance(error, BusyError) or error.reason in LATER:
                    raise
                self._end(one, error.reason, str(error), now, after)
                return
        waits = StageRun(stage.name, run.id)
        if self._store.judge(one, replace(after, runs=(*after.runs, waits)), run):
            messages.step(
                "submission_run", submission=one.number, run=run.id, stage=stage.name
            )

    def _end(
        self,
        one: Submission,
        reason: Reason,
        why: str,
        now: float,
        after: Submission | None = None,
    ) -> None:
        """Record the verdict of a submission."""
        done = replace(
            after or one,
            reason=reason,
            message=why[:MOST_WHY],
            ended_at=max(now, one.received_at),
            charged=one.charged and reason in standings.CHARGED,
        )
        if self._store.judge(one, done):
            messages.step("submission_ended", submission=one.number, reason=reason)

    def _ended(
        self,
        one: Submission,
        going: StageRun,
        row: QueueRow | None,
        milestone: Milestone,
        folder: Path,
    ) -> Submission:
        """Return a submission whose last run has ended, with how it did."""
        stage, paths = milestone.run(going.name), self._runs.paths(going.run)
        record = records.read(paths)
        measured = None
        if record is None or (row is not None and row.reason is Reason.CANCELLED):
            reason = (row and row.reason) or Reason.RUNNER_LOST
            why = row.why if row and row.why else f"{stage.name} left no record"
        else:
            sent = self._submitted(one, milestone, folder)
            gpus = record.gpu.gpus if record.gpu else ()
            sliced = (host.SLICE,) if any(gpu.parent for gpu in gpus) else ()
            rehearsed = (outcome.REHEARSED,) if one.rehearsal else ()
            known = MeasurementHost(
                *("", ""),
                why_not_ranked=(*rehearsed, *sliced),
                runs=standings.latest(one.runs),
                golden=staging.golden(milestone).digest,
                sources={file.path: file.sha256 for file in sent.team},
                commit=one.commit,
            )
            found = judging.of_run(milestone, stage, paths, record, folder, known)
            reason, why = found.reason, found.message
            measured = found.measurement.brief if found.measurement else None
        over = replace(going, reason=reason, why=why[:MOST_WHY])
        return replace(one, runs=(*one.runs[:-1], over), measured=measured)

    def _staged(
        self,
        one: Submission,
        stage: MilestoneRun,
        milestone: Milestone,
        folder: Path,
        facts: Capacity,
        now: float,
    ) -> QueueRow:
        """Make the folder of a run, and keep it as an upload; return the run.

        Raises:
            RaiError: what the team sent is wrong, or what an earlier run built is.
        """
        submitted = self._submitted(one, milestone, folder)
        milestone = files.placed(submitted.project, milestone)
        gpu = facts.gpus[0] if facts.gpus else None
        known = (host.architecture(gpu), gpu.name) if gpu else ("", "")
        its = submitted.plan, submitted.digests
        job, problems = planning.job(milestone, *known, *its)
        if problems:
            raise UsageError(*problems)
        done = {run.name: run.run for run in one.runs if run.reason is Reason.DONE}
        builds = {name: self._runs.paths(run).build for name, run in done.items()}
        area = StagingArea(folder)
        parts = StagedParts(staging.golden(milestone), submitted.team, job)
        staged = area.stage(stage, parts, builds)
        same = [other for other in facts.gpus if gpu and other.name == gpu.name]
        alike = len(same) == len(facts.gpus)
        one_of_them = next((g for g in same if not g.out), gpu)
        asked = RunRequest(
            one.project,
            staging.BUILD_FILE,
            (staged / staging.BUILD_FILE).read_text(),
            user=one.person,
            gpus=("1" if alike or not one_of_them else one_of_them.uuid)
            if stage.gpu
            else None,
            title=f"{milestone.name}: {stage.name}",
            inner=stage is not milestone.runs[-1],
        )
        # That of the receipt, so that the earlier one goes first all along.
        made = queued(
            *(self._store, self._uploads, staged, asked, one.team, one.role, now),
            since=one.received_at,
        )
        priority = REHEARSED if one.rehearsal else SUBMITTED
        return replace(made, priority=priority, submission=one.number)

    def _submitted(
        self, one: Submission, milestone: Milestone, folder: Path
    ) -> Submitted:
        """Return what a team sent, looked at anew.

        Raises:
            RaiError: it is not what its client should have sent.
        """
        sent, into = upload_path(self._uploads, one.team, one.sha256), folder / ".sent"
        if not into.exists():
            pack.unpack(sent, into, files.caps(milestone), called="the submission")
        found = files.look(into, files.placed(into, milestone))
        wrong = [p for p in found.problems if p.severity is Severity.ERROR]
        if wrong:
            raise UsageError(*(Problem(p.message, hint=p.hint) for p in wrong))
        # Its registry is not sent: its client looked at it.
        if found.plan is not None and found.plan.registry:
            none = {"registry_files": (), "registry": work.digest_of_set({})}
            found = replace(found, plan=replace(found.plan, **none))
        return found


def queued(
    store: Store,
    uploads: Path,
    staged: Path,
    asked: RunRequest,
    team: str,
    role: str,
    now: float,
    *,
    since: float,
) -> QueueRow:
    """Return a run of a folder that was staged, which is kept as a team's upload.

    ``asked`` needs no digests.
    """
    file = staged.parent / ".packed"
    packed = staging.packed(staged, file)
    asked = replace(
        asked,
        sha256=packed.sha256,
        upload=keep(store, uploads, team, file, now),
    )
    return QueueRow(
        id=secrets.token_hex(5),
        team=team,
        person=asked.user,
        role=role,
        digest=digest(asked),
        sha256=asked.upload,
        queued_at=since,
        project=asked.project,
        gpus=int(asked.gpus is not None),
        priority=SUBMITTED,
        parcel=to_json(asked),
        secrets=json.encode(NO_SECRETS).decode(),
    )

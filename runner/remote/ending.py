"""The end of a run on a server, in the run's folder of its client."""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from runner import files
from runner.core import Reason, RunRecord, State, Verdict, record
from runner.core.errors import RaiError
from runner.remote.problems import shown
from runner.store import latest, runs, sealed
from runner.store.paths import RunPaths
from runner.wire.remote_runs import QueueState, RemoteRun

NOT_FETCHED = "the build folder was not fetched"
NOT_SERVED = (Reason.INTERNAL, Reason.RUNNER_LOST, Reason.GPU_ERROR)
GOING = {
    QueueState.WAITING: State.QUEUED,
    QueueState.STARTING: State.PREPARING,
    QueueState.RUNNING: State.RUNNING,
}
STATES = {Reason.CANCELLED: State.CANCELLED, Reason.RUNNER_LOST: State.LOST}


class ServersWord(Struct, frozen=True):
    """How a run ended, where its events do not tell."""

    reason: Reason
    why: str
    at: float


def word_of(run: RemoteRun) -> ServersWord:
    """Return what a server says of the end of a run."""
    reason = run.reason or Reason.RUNNER_LOST
    why, at = shown(run.why), run.ended_at or time.time()
    if reason is Reason.DONE:
        # The run's events would say so, if they were all there.
        return ServersWord(Reason.RUNNER_LOST, "its events end before it does", at)
    said = "stopped on request" if reason is Reason.CANCELLED else "the server ended it"
    return ServersWord(reason, why or said, at)


def listed(run: RemoteRun, now: float) -> RunRecord:
    """Return what a server's list says of a run, as a record; its texts are escaped."""
    state, verdict = GOING.get(run.state, State.DONE), None
    if run.state is QueueState.ENDED:
        reason = run.reason or Reason.RUNNER_LOST
        state, done = STATES.get(reason, State.DONE), reason is Reason.DONE
        served = reason not in NOT_SERVED
        verdict = Verdict(served, done, None, reason, shown(run.why))
    began, ended = (
        None if at is None else min(max(at, 0.0), now)
        for at in (run.queued_at, run.ended_at)
    )
    project = shown(run.project)
    return RunRecord(run.id, project, "", began or 0.0, state, verdict, ended)


def record_end(
    paths: RunPaths, word: ServersWord, notes: Sequence[str] = ()
) -> RunRecord:
    """Write the record of a run that has ended, last of all.

    Its events tell how it ended, if they tell of an end, else the ``word`` does.
    ``notes`` are added to the warnings.

    Raises:
        RaiError: the folder has neither events nor a parcel.
    """
    known = record.fold(runs.stamped(paths)) or sealed.begun(paths)
    if known is None:
        raise RaiError(f"{paths.root} is no run: it has no events and no parcel")
    ended = replace(known, id=paths.id)
    if not ended.state.final:
        ended = _ended(ended, word)
    ended = replace(ended, warnings=(*ended.warnings, *notes))
    latest.remove(paths)
    with files.naming(paths.record):
        files.write(paths.record, record.to_json(ended))
    return ended


def _ended(known: RunRecord, word: ServersWord) -> RunRecord:
    reason = word.reason
    verdict = Verdict(reason not in NOT_SERVED, False, None, reason, word.why)
    return record.end(known, STATES.get(reason, State.DONE), word.at, verdict)

"""What came of a submission: its reason, in words, and the measurement. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from runner.core import Reason, RunRecord
from runner.core.measurement import (
    CheckedValues,
    MeasuredEntry,
    MeasuredGpu,
    Measurement,
)
from runner.core.milestone import TIMED_BY, HeldKind, Milestone, MilestoneRun, Trust
from runner.core.quantities import brief
from runner.core.wire import Decision, Submission
from runner.report.phrases import words
from runner.submit.host import architecture

ACCEPTED = {
    Trust.RANKED: "accepted",
    Trust.CHECKED: "correct",
    Trust.RECORDED: "recorded",
    Trust.TIMED: "accepted",
}
"""What a submission is called that ended well, by what its outcome is worth."""

MOST_MS = 1e9
"""A harness that prints more has printed no time."""

REHEARSED = "a rehearsal"


def verdict(one: Submission) -> str:
    """Return in a few words how a submission ended, or what it does now."""
    if one.decided is not None:
        what = "counted" if one.decided is Decision.COUNT else "annulled"
        return f"{what} by staff: {one.decided_why}"
    if one.reason is None:
        return one.going.name if one.going else "received"
    return ACCEPTED[one.trust] if one.reason is Reason.DONE else words(one.reason)


class SubmissionOutcome(Struct, frozen=True):
    """How a submission ended.

    ``reason`` owns the exit status; ``message`` says why in a sentence. ``runs`` are
    the ids of its runs by what they did, ``last`` the id of the one to look at,
    ``uncounted`` says why it does not count, ``listed`` what lists it.
    """

    milestone: Milestone
    reason: Reason
    message: str
    runs: Mapping[str, str]
    uncounted: tuple[str, ...] = ()
    measurement: Measurement | None = None
    record: RunRecord | None = None
    listed: str = "counted: rai ranking"

    @property
    def accepted(self) -> bool:
        """Whether it ended well, by what its milestone asks."""
        return self.reason is Reason.DONE

    @property
    def last(self) -> str:
        """The id of the run that tells most: the last one."""
        return list(self.runs.values())[-1]


def of_the_team(run: MilestoneRun, milestone: Milestone) -> bool:
    """Whether a failure of this run is the team's, and not the judge's.

    The last run of a milestone that is judged is the judge's; so is one that holds
    nothing of the team. In an assignment the team's code is part of what fails.
    """
    judged = milestone.trust in (Trust.RANKED, Trust.CHECKED)
    judged = judged and run is milestone.runs[-1]
    holds = run.held(HeldKind.TEAM) or run.held(HeldKind.BUILD)
    return bool(holds) and not judged


def failed(
    record: RunRecord, run: MilestoneRun, milestone: Milestone, line: str = ""
) -> tuple[Reason, str]:
    """Return how a submission ended that was not measured, after its last run.

    A command that fails is the judge's fault where the run is the judge's. ``line`` is
    the one in which it says why, "" if there is none.
    """
    verdict = record.verdict
    if verdict is None:
        return Reason.RUNNER_LOST, f"{run.name} did not run to its end"
    reason = verdict.reason
    why = line if line and reason is Reason.COMMAND_FAILED else verdict.message
    message = f"{run.name}: {why}"
    if reason is Reason.DONE:
        return reason, ""
    if reason is Reason.CANCELLED:
        return reason, verdict.message
    if reason is Reason.COMMAND_FAILED and not of_the_team(run, milestone):
        return Reason.INTERNAL, f"the judge failed: {message}"
    if reason.machinery and verdict.served and of_the_team(run, milestone):
        # Only the program's output says that the machine failed: anybody can print it.
        return Reason.COMMAND_FAILED, message
    return reason, message


def judged(measurement: Measurement, trust: Trust) -> tuple[Reason, str]:
    """Return the reason of a measurement, and why in words.

    A wrong result counts before a fault of the kernels, a fault before kernels that are
    too slow to be checked, and these before what only this machine can mend: others on
    the GPU, heat, clocks that are not steady.
    """
    if not measurement.entries and trust is Trust.TIMED:
        text = (
            "the assignment is wrong: its harness ended well and printed no `Op Time:`"
        )
        return Reason.INTERNAL, f"{text} above 0; tell its staff"
    if not measurement.entries:
        return Reason.INTERNAL, "the judge failed: it measured nothing"
    if trust is Trust.RANKED and measurement.gpu is None:
        return Reason.INTERNAL, "the judge failed: it measured on no GPU"
    refused: dict[Reason, list[MeasuredEntry]] = {}
    for entry in measurement.entries:
        if not entry.accepted:
            reason = _reason(entry, trust, alone=not measurement.others)
            refused.setdefault(reason, []).append(entry)
    first = (Reason.WRONG_ANSWER, Reason.GPU_FAULT, Reason.TIME_LIMIT)
    for reason in (*first, Reason.BUSY):
        if found := refused.get(reason):
            several = len(measurement.entries) > 1
            return reason, "; ".join(_why(entry, named=several) for entry in found)
    if trust is Trust.TIMED:
        (entry,) = measurement.entries
        return Reason.DONE, f"{brief((entry.ms or 0.0) / 1000)}, {TIMED_BY}"
    if trust is not Trust.RANKED:
        values = sum(entry.checked.values for entry in measurement.entries)
        return Reason.DONE, f"{values:,} numbers checked"
    several = len(measurement.entries) > 1
    figures = (_figures(entry, named=several) for entry in measurement.entries)
    return Reason.DONE, "; ".join(figures)


def timed(record: RunRecord, milestone: Milestone) -> Measurement:
    """Return what a harness printed in a run that ended well; no entry without a time.

    The time is that of the last command that printed one: the sum of its Op Times.
    """
    sums = (
        sum(time for one in command.findings.inferences for time in one.op_times_s)
        for command in reversed(record.first_round)
    )
    ms = 1000 * next((seconds for seconds in sums if seconds), 0.0)
    entry = MeasuredEntry(milestone.name, True, (), True, CheckedValues(0, 0), ms=ms)
    given = record.gpu.gpus[0] if record.gpu and record.gpu.gpus else None
    gpu = MeasuredGpu(given.name, given.uuid) if given else None
    known = architecture(given) if given else ""
    accuracy: Any = milestone.accuracy
    entries = (entry,) if 0 < ms <= MOST_MS else ()
    return Measurement(1, milestone.name, accuracy, known or None, "", gpu, entries)


def _reason(refused: MeasuredEntry, trust: Trust, *, alone: bool) -> Reason:
    if refused.correct:
        return Reason.BUSY
    if refused.wrong is None and refused.fault:
        return Reason.GPU_FAULT
    if refused.wrong is None and trust is Trust.RANKED:  # not all was checked
        return Reason.TIME_LIMIT if alone else Reason.BUSY
    return Reason.WRONG_ANSWER


def _why(refused: MeasuredEntry, *, named: bool) -> str:
    why = "; ".join(refused.why)
    return f"{refused.variant}: {why}" if named else why


def _figures(entry: MeasuredEntry, *, named: bool) -> str:
    """Return an accepted entry's time, and its ratio with the interval."""
    name = f"{entry.variant} " if named else ""
    if entry.ms is None or entry.ratio is None or entry.interval is None:
        return entry.variant
    low, high = entry.interval
    ratio = f"{entry.ratio:.3f} of the reference ({low:.3f} to {high:.3f})"
    return f"{name}{entry.ms:.3f} ms, {ratio}"


def plain(ended: SubmissionOutcome) -> dict[str, object]:
    """Return what came of a submission that was not measured, for JSON."""
    return {
        "milestone": ended.milestone.name,
        "accepted": ended.accepted,
        "reason": ended.reason.value,
        "exit_code": ended.reason.exit_code,
        "message": ended.message,
        "runs": dict(ended.runs),
        "why_not_ranked": list(ended.uncounted),
    }


def sentence(outcome: SubmissionOutcome) -> str:
    """Return what came of a submission, in a sentence, and whether it counts."""
    milestone, good = outcome.milestone, ACCEPTED[outcome.milestone.trust]
    what = "Rehearsal of" if REHEARSED in outcome.uncounted else "Submission to"
    about = f"{what} {milestone.name}"
    if outcome.reason is Reason.CANCELLED:
        return f"{about} cancelled: {outcome.message}."
    if not outcome.accepted:
        how = f": not {good}" if outcome.measurement else " ended"
        return f"{about}{how}: {outcome.message.rstrip('.')}."
    text = f"{about}: {good}{f': {outcome.message}' if outcome.message else ''}"
    if outcome.uncounted:
        return f"{text}; not counted: {'; '.join(outcome.uncounted)}."
    if milestone.trust is Trust.RECORDED:
        return f"{text}."
    return f"{text}; {outcome.listed} {milestone.name}."

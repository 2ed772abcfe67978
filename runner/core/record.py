"""A run's record: a fold of its events, its JSON, and a sum of repeated commands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from runner.core import events as ev
from runner.core import screen
from runner.core.build_spec import Check
from runner.core.errors import Reason, State, Verdict, transition
from runner.core.run import CommandRecord, Outcome, RunRecord
from runner.core.work import Stream

MOST_ROUNDS = 1000
"""Of one run. Each round of each command has an entry in the record."""

MOST_WORK = 3 * 10**8
"""The most entries of records that are passed to make one of events, some seconds.

A run of 10,000 commands, repeats included, takes less.
"""


def fold(stamped: Iterable[tuple[float, ev.Event]]) -> RunRecord | None:
    """Return the record that these events add up to; None if there are none.

    An event that cannot follow those before it, in a file that is damaged, ends it. So
    does more than a run has: an event takes the longer, the more there is before it.
    """
    record: RunRecord | None = None
    work = 0
    for at, event in stamped:
        try:
            record = begin(at, event) if record is None else advance(record, at, event)
        except ValueError:
            break
        if record is not None and not isinstance(event, ev.Output):
            data = len(record.data) + len(record.missing_data)
            work += len(record.commands) + len(record.warnings) + data
            if work > MOST_WORK:
                break
    return record


def begin(at: float, event: ev.Event) -> RunRecord | None:
    """Return the record that a run's first event begins."""
    if not isinstance(event, ev.Created):
        return None
    return RunRecord(
        event.run_id,
        event.project,
        event.spec_file,
        created_at=at,
        git=event.git,
        machine=event.machine,
        replays=event.replays,
        env_given=event.env_given,
        only=event.only,
        title=event.title,
        inner=event.inner,
        beside=event.beside,
        repeat=event.repeat,
    )


def advance(record: RunRecord, at: float, event: ev.Event) -> RunRecord:
    """Return the record after one more event."""
    match event:
        case ev.StateChanged(state):
            return replace(record, state=transition(record.state, state))
        case ev.EngineChosen(engine, profile, limits):
            return replace(record, engine=engine, profile=profile, limits=limits)
        case ev.Packed(sha256, size, _):
            return replace(record, archive_sha256=sha256, archive_bytes=size)
        case ev.Warned(text):
            return replace(record, warnings=(*record.warnings, text))
        case ev.DataReady(name, directory, _, md5):
            file = f"{directory}/{name}"
            sums = {**record.data_md5, file: md5} if md5 else record.data_md5
            return replace(record, data=(*record.data, file), data_md5=sums)
        case ev.DataMissing(name, directory):
            missing = (*record.missing_data, f"{directory}/{name}")
            return replace(record, missing_data=missing)
        case ev.ImageReady(image):
            return replace(record, image=image)
        case ev.GpuGiven(use):
            return replace(record, gpu=use)
        case ev.Usage(peak):
            return replace(record, peak_memory_bytes=peak)
        case ev.Collected(_, size, _):
            return replace(record, build_bytes=size)
        case ev.Finished(verdict):
            cancelled = verdict.reason is Reason.CANCELLED
            state = State.CANCELLED if cancelled else State.DONE
            return end(record, state, at, verdict)
        case ev.CommandStarted(index, text, name, repeats, round):
            started = CommandRecord(
                index, text, name, Outcome.RUNNING, repeats=repeats, round=round
            )
            return replace(record, commands=(*record.commands, started))
        case ev.CommandSkipped(index, text, why, name):
            skipped = CommandRecord(index, text, name, Outcome.SKIPPED, why=why)
            return replace(record, commands=(*record.commands, skipped))
        case ev.CommandFinished():
            return _ended(record, event)
        case ev.Found(index, findings):
            return _amend(record, index, findings=findings)
        case ev.Checked(index, checks):
            return _checked(record, index, checks)
        case ev.Profiled(index, files):
            return _amend(record, index, profile_files=files)
        case ev.Output(_, Stream.STDOUT, _, offset, length):
            most = max(offset + length, record.stdout_bytes)
            return replace(record, stdout_bytes=most)
        case ev.Output(_, _, _, offset, length):
            most = max(offset + length, record.stderr_bytes)
            return replace(record, stderr_bytes=most)
        case _:
            return record


def lost(record: RunRecord, at: float) -> RunRecord:
    """Return the record of a run whose rai process died."""
    reason = Reason.RUNNER_LOST
    verdict = Verdict(False, False, None, reason, "the rai process died")
    return end(record, State.LOST, at, verdict)


def end(record: RunRecord, state: State, at: float, verdict: Verdict) -> RunRecord:
    """Return the record of a run that ended, in a final state and with a verdict."""
    commands = tuple(
        replace(c, outcome=Outcome.UNFINISHED) if c.outcome is Outcome.RUNNING else c
        for c in record.commands
    )
    # The clock may have been set back since, but not before the run began.
    at = max(at, record.created_at)
    return replace(record, state=state, ended_at=at, verdict=verdict, commands=commands)


def to_json(record: RunRecord) -> bytes:
    """Return the bytes of record.json."""
    return msgspec.json.format(screen.json_bytes(record), indent=2) + b"\n"


def from_json(data: bytes) -> RunRecord:
    """Parse record.json; raise ValueError if it is not one."""
    return msgspec.json.decode(data, type=RunRecord)


def plain(value: object) -> Any:  # noqa: ANN401 - JSON values have no narrower type
    """Return structs as dicts, lists, strings and numbers, for ``--json``."""
    built = msgspec.to_builtins(value, enc_hook=str)
    if isinstance(value, RunRecord):
        built["synthetic"] = value.synthetic
        built["samples"] = msgspec.to_builtins(samples(value))
        built["exit_code"] = value.verdict.reason.exit_code if value.verdict else None
    return built


def _ended(record: RunRecord, event: ev.CommandFinished) -> RunRecord:
    ok = event.exit_code == 0 and event.reason is None
    return _amend(
        record,
        event.index,
        outcome=Outcome.OK if ok else Outcome.FAILED,
        exit_code=event.exit_code,
        reason=event.reason,
        wall_s=event.wall_s,
        cpu_s=event.cpu_s,
        oom_killed=event.oom_killed,
    )


def _checked(record: RunRecord, index: int, checks: tuple[Check, ...]) -> RunRecord:
    wrong = not all(check.holds for check in checks)
    at = _place(record, index)
    if wrong and at is not None and record.commands[at].outcome is Outcome.OK:
        record = _amend(record, index, outcome=Outcome.WRONG)
    return _amend(record, index, checks=checks)


def _amend(record: RunRecord, index: int, **changes: Any) -> RunRecord:  # noqa: ANN401
    at = _place(record, index)
    if at is None:
        return record
    changed, commands = replace(record.commands[at], **changes), record.commands
    return replace(record, commands=(*commands[:at], changed, *commands[at + 1 :]))


def _place(record: RunRecord, index: int) -> int | None:
    """Return where a command stands in the record; None if it does not.

    It is one of the last nearly always, and a run may have thousands.
    """
    places = range(len(record.commands) - 1, -1, -1)
    return next((at for at in places if record.commands[at].index == index), None)


MOST_SECONDS = 1e12
"""A program that prints a longer time has none, and sums of times stay finite."""


class Spread(Struct, frozen=True):
    """How many values there are, their median, the smallest and the largest."""

    n: int
    median: float
    smallest: float
    largest: float


class CommandSamples(Struct, frozen=True):
    """A command that was repeated, and what its rounds took in seconds.

    ``number`` is its place in the build file, from 1. ``op_time_s`` sums the op times
    that it printed in a round; it is None if it printed none.
    """

    number: int
    name: str | None
    text: str
    wall_s: Spread
    op_time_s: Spread | None = None


def samples(run: RunRecord) -> tuple[CommandSamples, ...]:
    """Return the samples of each command that was repeated; of rounds that ended well.

    A command that has fewer than two of them is left out.
    """
    repeats: dict[int, list[CommandRecord]] = {}
    for one in run.commands:
        if one.repeats is not None and one.outcome is Outcome.OK:
            repeats.setdefault(one.repeats, []).append(one)
    found = []
    for first in run.first_round:
        if first.index not in repeats or first.outcome is not Outcome.OK:
            continue
        rounds, printed = [first, *repeats[first.index]], []
        for one in rounds:
            times = [t for i in one.findings.inferences for t in i.op_times_s]
            if times and min(times) >= 0 and max(times) < MOST_SECONDS:
                printed.append(sum(times))
        walls = spread([one.wall_s or 0.0 for one in rounds])
        assert walls is not None
        sample = first.index + 1, first.name, first.text, walls, spread(printed)
        found.append(CommandSamples(*sample))
    return tuple(found)


def spread(values: Sequence[float]) -> Spread | None:
    """Return how values spread; None if there are none."""
    if not values:
        return None
    ordered, half = sorted(values), len(values) // 2
    median = ordered[half] / 2 + ordered[~half] / 2
    return Spread(len(ordered), median, ordered[0], ordered[-1])

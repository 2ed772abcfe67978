"""Run the steps of a job in order, for every engine alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence

from runner.core import Reason, Step, Workspace
from runner.core.cancel import Cancel
from runner.core.events import (
    STOPPED,
    CommandFinished,
    CommandSkipped,
    CommandStarted,
    Event,
    RoundEnded,
)

Execute = Callable[[Step, float], Generator[Event, None, CommandFinished]]
"""Run one step for at most the given seconds; return how it ended."""


def in_order(work: Workspace, cancel: Cancel, execute: Execute) -> Iterator[Event]:
    """Run the steps one after another and stop at the first failure.

    A command may take its own timeout or the rest of the job's time, whichever is less.
    A command that fails, or whose answer is wrong, does not end the job with
    ``keep_going``, or if it has ``continue_on_error``; a limit or a cancel always does.

    While nothing ended the job, rounds of further steps follow until ``work.more`` has
    none. Each round may take the job's time again.
    """
    stop = yield from _round(work.steps, work, cancel, execute)
    rounds = 0
    while stop is None and work.more is not None and not cancel.requested:
        yield RoundEnded(rounds)  # a caller that measures two jobs in turn pauses here
        steps = () if cancel.requested else work.more()
        if not steps:
            return
        stop = yield from _round(steps, work, cancel, execute)
        rounds += 1


def _round(
    steps: Sequence[Step], work: Workspace, cancel: Cancel, execute: Execute
) -> Generator[Event, None, str | None]:
    """Run steps; return why no others may follow, None if they may.

    Steps that have no turn are skipped in the first round, and else left out.
    """
    deadline = time.monotonic() + work.limits.time_s
    stop: str | None = None
    for step in steps:
        index, command = step.index, step.command
        skip = step.skip or stop or (STOPPED if cancel.requested else None)
        if skip:
            if step.repeats is None:
                yield CommandSkipped(index, command.text, skip, command.name)
            continue
        yield CommandStarted(
            index, command.text, command.name, step.repeats, step.round
        )
        left = max(deadline - time.monotonic(), 0.0)
        finished = yield from execute(step, min(left, command.timeout_s or left))
        yield finished
        stop = _stops(finished, step, work)
    return stop


def _stops(finished: CommandFinished, step: Step, work: Workspace) -> str | None:
    if finished.reason is Reason.CANCELLED:
        return STOPPED
    if finished.reason is not None:
        words = finished.reason.replace("_", " ")
        return f"command {step.index + 1} exceeded its {words}"
    if work.keep_going or step.command.continue_on_error:
        return None
    if finished.exit_code:
        return f"command {step.index + 1} failed"
    # Asked only now: what it printed is compared while its end is handled.
    wrong = work.is_wrong(step.index)
    return f"the answer of command {step.index + 1} is wrong" if wrong else None

"""Run the steps of a job in order, for every engine alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator

from runner.core import Reason, Step, Workspace
from runner.core.cancel import Cancel
from runner.core.events import (
    STOPPED,
    CommandFinished,
    CommandSkipped,
    CommandStarted,
    Event,
)

Execute = Callable[[Step, float], Generator[Event, None, CommandFinished]]
"""Run one step for at most the given seconds; return how it ended."""


def in_order(work: Workspace, cancel: Cancel, execute: Execute) -> Iterator[Event]:
    """Run the steps one after another and stop at the first failure.

    A command may take its own timeout or the rest of the job's time, whichever is less.
    A command that fails, or whose answer is wrong, does not end the job with
    ``keep_going``, or if it has ``continue_on_error``; a limit or a cancel always does.
    """
    deadline = time.monotonic() + work.limits.time_s
    stop: str | None = None
    for step in work.steps:
        skip = step.skip or stop or (STOPPED if cancel.requested else None)
        if skip:
            yield CommandSkipped(step.index, step.command.text, skip, step.command.name)
            continue
        yield CommandStarted(step.index, step.command.text, step.command.name)
        left = max(deadline - time.monotonic(), 0.0)
        finished = yield from execute(step, min(left, step.command.timeout_s or left))
        yield finished
        stop = _stops(finished, step, work)


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

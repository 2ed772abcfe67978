"""The order of the steps of a job: the same for every engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator

from runner.core import Reason, Step, Workspace
from runner.core.cancel import Cancel
from runner.core.events import CommandFinished, CommandSkipped, CommandStarted, Event

Execute = Callable[[Step, float], Generator[Event, None, CommandFinished]]
"""Runs one step for at most the given seconds; returns how it ended."""


def in_order(work: Workspace, cancel: Cancel, execute: Execute) -> Iterator[Event]:
    """Run the steps one after another and stop at the first failure.

    A command's own limit is its timeout or what is left of the job's time, whichever
    is less. A limit or a cancel ends the job even with ``keep_going``; a plain failure
    does not then, nor where the command says ``continue_on_error``.
    """
    deadline = time.monotonic() + work.limits.time_s
    stop: str | None = None
    for step in work.steps:
        skip = (
            step.skip or stop or ("the run was cancelled" if cancel.requested else None)
        )
        if skip:
            yield CommandSkipped(step.index, step.command.text, skip, step.command.name)
            continue
        yield CommandStarted(step.index, step.command.text, step.command.name)
        left = max(deadline - time.monotonic(), 0.0)
        finished = yield from execute(step, min(left, step.command.timeout_s or left))
        yield finished
        stop = _stops(finished, step, work.keep_going)


def _stops(finished: CommandFinished, step: Step, keep_going: bool) -> str | None:
    if finished.reason is Reason.CANCELLED:
        return "the run was cancelled"
    if finished.reason is not None:
        words = finished.reason.replace("_", " ")
        return f"command {step.index + 1} met its {words}"
    if finished.exit_code == 0 or keep_going or step.command.continue_on_error:
        return None
    return f"command {step.index + 1} failed"

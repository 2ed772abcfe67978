"""`rai run --on slurm --repeat N --array`: N runs as an array of jobs."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from runner.cli import attach, common, copies, remotely, running
from runner.terminal.streams import say

if TYPE_CHECKING:
    from runner.cli.ci import CiSession
    from runner.core.cancel import Cancel
    from runner.session.prepare import Prepared
    from runner.session.run import StartedRun
    from runner.slurm.target import SlurmTarget
    from runner.store.paths import RunPaths
    from runner.terminal.console import Console

POLL_S = 0.05


def refuse(
    repeat: int, to: remotely.Destination | None, given: Mapping[str, object]
) -> None:
    """Refuse what has no meaning for samples that are runs of their own.

    Raises:
        UsageError: carries every problem.
    """
    from runner.core import Problem
    from runner.core.errors import UsageError
    from runner.core.samples import MOST_ROUNDS
    from runner.slurm.target import SlurmTarget

    problems = [
        Problem(f"{option} is not for --array, whose samples are runs of their own")
        for option, value in given.items()
        if value
    ]
    if not isinstance(to, SlurmTarget):
        hint = "add --on slurm, or leave it out"
        problems.append(Problem("--array is for runs on Slurm", hint=hint))
    if not 2 <= repeat <= MOST_ROUNDS:
        text = f"--array needs --repeat N, from 2 to {MOST_ROUNDS:,}"
        problems.append(Problem(text))
    if problems:
        raise UsageError(*problems)


def run(
    prepared: Prepared,
    to: SlurmTarget,
    samples: int,
    console: Console,
    reported: CiSession,
    *,
    detach: bool,
    as_json: bool,
) -> int:
    """Submit the samples, show how each ends, and return the command's exit status.

    Raises:
        RaiError: Slurm refuses them, or they were cancelled before.
    """
    from runner.core import record

    sending = remotely.ClusterRun(to, prepared, console)
    started = sending.start_array(samples, warnings=detach)
    ids = [one.id for one in started]
    if detach:
        text = "The samples go on by themselves. Wait for them: rai wait RUN..."
        console.line(text, "green")
        if as_json:
            common.print_json([{"id": one} for one in ids])
        else:
            say("\n".join(ids))
        return 0
    _watch(started, console, reported)
    done = [one.record for one in started]
    if as_json:
        common.print_json([record.plain(one) for one in done])
    else:
        from runner import report
        from runner.core.samples import across
        from runner.terminal.tables import blocks

        blocks(report.sample_tables(across(done), "samples"))
    statuses = [one.verdict.reason.exit_code if one.verdict else 10 for one in done]
    return next(filter(None, statuses), 0)


def _watch(
    started: Sequence[StartedRun], console: Console, reported: CiSession
) -> None:
    """Show how each sample ends, in their order; Ctrl-C and SIGTERM cancel them all."""
    from runner.terminal.messages import told

    left, cancelled = [one.paths for one in started], False
    with _stopped_by_signals(console) as cancel:
        for number, one in enumerate(started, 1):
            with copies.KeptCopy(one.paths, console) as copy:
                while _goes_on(one.paths, copy):
                    if cancel.requested and not cancelled:
                        cancelled = True
                        # The last first, so that none begins meanwhile.
                        for paths in reversed(left):
                            attach.cancel(paths, console)
                    time.sleep(POLL_S)
            console.close()
            common.home()  # records a sample that was lost
            text, colour = told(one.record)
            console.line(f"Sample {number} of {len(started)}: {text}", colour)
            running.report(one, reported)
            left.remove(one.paths)


def _goes_on(paths: RunPaths, copy: copies.KeptCopy) -> bool:
    from runner import places

    if not places.active(paths):
        return False
    copy.look(begun=paths.events.exists())
    return True


@contextmanager
def _stopped_by_signals(console: Console) -> Iterator[Cancel]:
    """Request a cancel on the first Ctrl-C or SIGTERM; interrupt on the second.

    A terminal that closes leaves the runs as they are.
    """
    from runner.core.cancel import Cancel

    cancel = Cancel()

    def stop(number: int, frame: FrameType | None) -> None:
        if cancel.requested:
            raise KeyboardInterrupt
        cancel.request()
        console.line("Stopping; press Ctrl-C again to leave the samples.", "yellow")

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield cancel
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

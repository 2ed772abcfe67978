"""Slurm's programs, started with little of this process's environment."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

from runner import process
from runner.core import Problem, Reason
from runner.core.cancel import Cancel
from runner.core.errors import BusyError, EngineError
from runner.core.screen import printable
from runner.process import Completed
from runner.slurm import jobs, partition, submission
from runner.slurm.partition import Partition

ANSWERS_WITHIN_S = 60.0
"""More than the patience of Slurm's programs, with their usual settings."""

NEEDED = ("sbatch", "squeue", "scancel", "sinfo")
SHOWN = 500
MOST_LISTED_BYTES = 4 << 20
"""How much of sinfo's output is read at most."""


class NoAnswerError(BusyError):
    """Slurm's controller does not answer."""

    def __init__(self, text: str) -> None:
        super().__init__(text, advice="Try again later; `scontrol ping` shows it.")


def check() -> None:
    """Raise EngineError (no_engine) if Slurm cannot be asked from this machine."""
    lacking = [name for name in NEEDED if shutil.which(name) is None]
    if lacking:
        text = f"Slurm's programs are not on this machine: {', '.join(lacking)}"
        problem = Problem(text, hint="run it on a login node of the cluster")
        raise EngineError(problem, reason=Reason.NO_ENGINE)


def call(
    argv: Sequence[str],
    *,
    input: bytes | None = None,
    cancel: Cancel | None = None,
    within_s: float = ANSWERS_WITHIN_S,
) -> Completed:
    """Run one of Slurm's programs, whatever its exit status.

    Raises:
        EngineError: it is not there (no_engine), or was cancelled.
        NoAnswerError: it does not end, as where the controller does not answer.
    """
    check()
    env = jobs.environment(submission.environment(os.environ))
    try:
        return process.run(
            list(argv), input=input, timeout_s=within_s, env=env, cancel=cancel
        )
    except EngineError as error:
        if error.reason is Reason.CANCELLED:
            raise
        raise NoAnswerError(str(error)) from error


def answer(argv: Sequence[str], cancel: Cancel | None = None) -> bytes:
    """Return what one of Slurm's programs prints.

    Raises:
        NoAnswerError: it fails; carries what it said.
    """
    done = call(argv, cancel=cancel)
    if done.exit_code:
        raise NoAnswerError(f"Slurm does not answer: {said(done)}")
    return done.stdout


def said(done: Completed) -> str:
    """Return the last line that a program wrote on stderr."""
    text = done.stderr.decode(errors="replace").strip()
    last = printable(text.rpartition("\n")[2][:SHOWN])
    return last or f"exit status {done.exit_code}"


def partition_of(name: str, cancel: Cancel | None = None) -> Partition | None:
    """Return what a partition allows, "" for the default one; None if it is not there.

    Raises:
        RaiError: Slurm does not answer.
    """
    name = name or os.environ.get("SBATCH_PARTITION", "")
    printed = answer(partition.listing(name), cancel)[:MOST_LISTED_BYTES]
    return partition.parse(printed.decode(errors="replace"), name)

"""What sbatch is given for a run: its command line, its environment and the script.

The options are those of sbatch of Slurm 20.11 and newer. GPUs are asked for by
``--gres``, which every plugin that chooses nodes knows.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence

from msgspec import Struct

from runner.core.errors import NotAllowedError
from runner.core.needs import JobNeeds
from runner.core.problem import Problem
from runner.core.units import MIB
from runner.core.variables import PASSED
from runner.slurm.jobs import NAME
from runner.slurm.options import SlurmOptions
from runner.slurm.target import SlurmTarget

LOG = "worker.log"
"""The file of a run's folder that has what its job printed."""

OF_SBATCH = frozenset(
    (
        *("SLURM_CONF", "SLURM_CONF_SERVER", "SBATCH_ACCOUNT", "SBATCH_CONSTRAINT"),
        *("SBATCH_PARTITION", "SBATCH_QOS", "SBATCH_RESERVATION"),
    )
)
"""How sbatch finds its cluster, and a user's defaults of what rai may leave open."""

MOST_CORES = 1_000_000
"""More would not fit into Slurm's numbers, and count as another one."""

MOST_MINUTES = 100 * 365 * 24 * 60
"""A longer time is asked for as this one, for the same reason."""

_EXCLUDE = "--exclude="


class Submission(Struct, frozen=True):
    """The command line of sbatch, and the script that it reads from its stdin."""

    argv: tuple[str, ...]
    script: bytes


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment for sbatch and for the job, which inherits it.

    ``--export=NONE``, or a list of names, would start a login shell on the node, and
    ``NIL`` is a name to Slurm before 24.05; so sbatch itself is given no more than
    the job may have.
    """
    known = PASSED | OF_SBATCH
    return {name: value for name, value in environ.items() if name in known}


def submission(
    needs: JobNeeds,
    options: SlurmOptions,
    target: SlurmTarget,
    *,
    run_id: str,
    folder: str,
    worker: Sequence[str],
) -> Submission:
    """Return how a run's worker is handed to Slurm; ``folder`` is the run's.

    ``worker`` is the command line of the worker, whose Python the options may replace.

    Raises:
        NotAllowedError: the folder's name cannot be given to sbatch, or no node has so
            many cores.
    """
    check_folder(folder)
    if needs.cores and needs.cores > MOST_CORES:
        text = f"the run asks for {needs.cores:,} cores, and no node has so many"
        problem = Problem(text, hint="lower resources.cpu.cores")
        raise NotAllowedError(problem, advice="")
    wanted = {
        "job-name": NAME + run_id,
        "output": f"{_unexpanded(folder)}/{LOG}",
        "chdir": "/",
        "open-mode": "append",
        "export": "ALL",
        "nodes": "1",
        "ntasks": "1",
        "cpus-per-task": _number(needs.cores or options.cores),
        "mem": f"{math.ceil(needs.memory_bytes / MIB)}M",
        "time": span(needs.time_s),
        "gres": _gpus(needs),
        "partition": target.partition,
        "account": options.account,
        "qos": options.qos,
        "constraint": options.constraint,
    }
    asked = [f"--{name}={value}" for name, value in wanted.items() if value]
    if needs.alone:
        asked.append("--exclusive")
    extra = [word for word in options.extra if not word.startswith(_EXCLUDE)]
    # Of an option that is given twice sbatch heeds the second.
    if left_out := _excluded(options.extra):
        extra.append(_EXCLUDE + ",".join(left_out))
    argv = ("sbatch", "--parsable", "--no-requeue", *asked, *extra)
    command = (options.python or worker[0], *worker[1:])
    return Submission(argv, _script(run_id, command))


def check_folder(folder: str) -> None:
    """Raise NotAllowedError for a name that sbatch would read otherwise.

    Slurm takes a backslash in the name of an output file as a sign not to expand it.
    """
    odd = [c for c in folder if not c.isprintable() or c == "\\"]
    if odd:
        text = f"the folder {folder!r} has {odd[0]!r} in its name, which sbatch"
        hint = "set `home` (RAI_HOME) to a folder without it"
        raise NotAllowedError(Problem(f"{text} does not take", hint=hint), advice="")


def span(time_s: float) -> str:
    """Return a time as sbatch reads it, in whole minutes and at least one."""
    whole = min(max(math.ceil(time_s / 60), 1), MOST_MINUTES)
    hours, minutes = divmod(whole, 60)
    days, hours = divmod(hours, 24)
    return f"{days}-{hours:02}:{minutes:02}:00"


def _script(run_id: str, worker: Sequence[str]) -> bytes:
    # The worker takes the shell's place, so that signals to the job reach it.
    command = f"exec {shlex.join(worker)}"
    return f"#!/bin/sh\n# Run {run_id} of rai.\n{command}\n".encode()


def _unexpanded(path: str) -> str:
    """Return a path with `%` written so that sbatch does not expand it."""
    return path.replace("%", "%%")


def _number(value: int | None) -> str:
    return str(value) if value else ""


def _gpus(needs: JobNeeds) -> str:
    if not needs.gpus:
        return ""
    model = f"{needs.gpu_model}:" if needs.gpu_model else ""
    return f"gpu:{model}{needs.gpus}"


def _excluded(extra: Sequence[str]) -> list[str]:
    return [w.removeprefix(_EXCLUDE) for w in extra if w.startswith(_EXCLUDE)]

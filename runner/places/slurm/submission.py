"""What sbatch is given for a run, and what it answers.

The options are those of sbatch of Slurm 20.11 and newer, the answers those of its
slurm_strerror. GPUs are asked for by ``--gres``, which every plugin that chooses nodes
knows.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence

from msgspec import Struct

from runner.core.ending import Reason
from runner.core.errors import NotAllowedError, RaiError
from runner.core.limits import Limits
from runner.core.problem import Problem
from runner.core.quantities import size_text
from runner.core.screen import printable
from runner.core.units import MIB
from runner.core.variables import PASSED
from runner.places.slurm.jobs import NAME
from runner.wire.addresses import SlurmTarget

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

MOST_TEXT = 2000
"""The most characters of what sbatch printed that are read, and shown."""

_NUMBER = re.compile(r"([0-9]{1,12})(?:;[\w.-]{1,100})?", re.ASCII)
_PREFIX = re.compile(
    r"^sbatch: (?:error: )?(?:Batch job submission failed: )?", re.MULTILINE
)


class JobNeeds(Struct, frozen=True):
    """What is asked for a run, the worker's own needs and its staging included.

    ``gpu_optional`` is whether the run goes on without GPUs where there are none.
    ``cores`` is None for what is usual there. ``alone`` asks for a machine without
    other jobs.
    """

    memory_bytes: int
    time_s: float
    gpus: int = 0
    gpu_optional: bool = False
    cores: int | None = None
    alone: bool = False


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment for Slurm's programs, and for a job.

    Times are in UTC. A job inherits it: ``--export=NONE``, or a list of names, would
    start a login shell on the node, and ``NIL`` is a name to Slurm before 24.05; so
    sbatch itself is given no more than the job may have.
    """
    known = PASSED | OF_SBATCH
    kept = {name: value for name, value in environ.items() if name in known}
    return kept | {"TZ": "UTC", "SLURM_TIME_FORMAT": "standard", "LC_ALL": "C"}


def submission(
    needs: JobNeeds,
    extra: Sequence[str],
    target: SlurmTarget,
    *,
    folder: str,
    worker: Sequence[str],
) -> tuple[list[str], bytes]:
    """Return the command line of sbatch for a run, and the script that it reads.

    ``folder`` is the run's, whose name is its id, ``worker`` the command line of its
    worker, ``extra`` the user's words for sbatch.

    Raises:
        NotAllowedError: the folder's name cannot be given to sbatch, or no node has so
            many cores.
    """
    # Slurm takes a backslash in the name of an output file as a sign not to expand it.
    odd = [c for c in folder if not c.isprintable() or c == "\\"]
    if odd:
        text = f"the folder {folder!r} has {odd[0]!r} in its name, which sbatch"
        hint = "set `home` (RAI_HOME) to a folder without it"
        raise NotAllowedError(Problem(f"{text} does not take", hint=hint), advice="")
    if needs.cores and needs.cores > MOST_CORES:
        text = f"the run asks for {needs.cores:,} cores, and no node has so many"
        problem = Problem(text, hint="lower resources.cpu.cores")
        raise NotAllowedError(problem, advice="")
    run_id = folder.rpartition("/")[2]
    wanted = {
        "job-name": f"{NAME}{run_id}",
        "output": f"{folder.replace('%', '%%')}/{LOG}",
        "chdir": "/",
        "open-mode": "append",
        "export": "ALL",
        "nodes": "1",
        "ntasks": "1",
        "cpus-per-task": str(needs.cores) if needs.cores else "",
        "mem": f"{math.ceil(needs.memory_bytes / MIB)}M",
        "time": str(minutes(needs.time_s)),
        "gres": f"gpu:{needs.gpus}" if needs.gpus else "",
        "partition": target.partition,
    }
    asked = [f"--{name}={value}" for name, value in wanted.items() if value]
    if needs.alone:
        asked.append("--exclusive")
    left_out = [w.removeprefix(_EXCLUDE) for w in extra if w.startswith(_EXCLUDE)]
    if left_out:
        asked.append(_EXCLUDE + ",".join(left_out))
    # Of an option that is given twice sbatch heeds the second.
    argv = ["sbatch", "--parsable", "--no-requeue", *extra, *asked]
    # The worker takes the shell's place, so that signals to the job reach it.
    script = f"#!/bin/sh\n# Run {run_id} of rai.\nexec {shlex.join(worker)}\n"
    return argv, script.encode()


def minutes(time_s: float) -> int:
    """Return a time in whole minutes, of which a job has one at least."""
    return min(max(math.ceil(time_s / 60), 1), MOST_MINUTES)


class UncertainError(RaiError):
    """Slurm may have taken a job after all: sbatch had sent it, but got no answer."""


_UNANSWERED = re.compile(
    r"socket timed out|zero bytes were transmitted|transport endpoint"
    r"|unexpected message received|connection (?:reset|timed out)",
    re.IGNORECASE,
)
_CASES = (
    (
        r"no partition specified|invalid partition",
        Reason.USAGE,
        "name one: --on slurm:PARTITION; `sinfo` lists them",
    ),
    (
        r"invalid (?:account|qos|feature|node name)|requested reservation"
        r"|(?:unrecognized|invalid|ambiguous) option|option .* requires an argument",
        Reason.BAD_CONFIG,
        "the setting `slurm` has words for sbatch",
    ),
    (
        r"invalid generic resource|invalid gres",
        Reason.NO_GPU,
        "`sinfo -o '%P %N %G'` lists GPUs; `--gpus 0` runs only what needs none",
    ),
    (
        r"memory specification can ?not be satisfied|more processors requested"
        r"|cpu count per node can not|requested time limit is invalid"
        r"|requested node configuration is not available",
        Reason.NOT_ALLOWED,
        f"lower resources.limits.memory ({size_text(Limits().memory_bytes)} by default)"
        ", limits.time, cpu.cores or gpu; `sinfo -o '%P %l %N %c %m %G'` lists the time"
        " of each partition and each node's cores, MiB and GPUs",
    ),
    (
        r"(?:QOS|Assoc)\w*Submit\w*Limit|Reached MaxJobs|temporarily unable to accept",
        Reason.BUSY,
        "wait until one of your jobs has ended",
    ),
    (
        r"required partition not available|requested partition configuration not",
        Reason.BUSY,
        "try again later, or name another partition: --on slurm:PARTITION",
    ),
    (
        rf"{_UNANSWERED.pattern}|unable to contact slurm controller|connection refused"
        r"|unable to establish (?:config|control)|could not establish a configuration",
        Reason.BUSY,
        "try again later; `scontrol ping` shows whether the controller is up",
    ),
    (
        r"cannot stat file|s_p_parse_file|could not load",
        Reason.NO_ENGINE,
        "ask those who keep the cluster, or set SLURM_CONF",
    ),
    # Any other text: it may be a site's own plugin, which says what it wants.
    ("", Reason.NOT_ALLOWED, ""),
)
"""Texts of sbatch, what they mean, and what to do: the first that is found counts."""


def number(answer: str) -> str | None:
    """Return the number of the job from what ``sbatch --parsable`` printed.

    A site's own plugins may print lines before it.
    """
    lines = [line.strip() for line in answer[-MOST_TEXT:].splitlines()]
    found = _NUMBER.fullmatch(next((line for line in reversed(lines) if line), ""))
    return found[1] if found else None


def failure(said: str) -> RaiError:
    """Return why sbatch took no job, from what it printed to stderr."""
    said = said[:MOST_TEXT] + ("..." if len(said) > MOST_TEXT else "")
    lines = (line.strip() for line in _PREFIX.sub("", said).splitlines())
    text = "; ".join(dict.fromkeys(filter(None, lines)))
    reason, hint = next(
        (reason, hint)
        for pattern, reason, hint in _CASES
        if re.search(pattern, text, re.IGNORECASE)
    )
    words = f"Slurm did not take the run: {text or 'sbatch does not say why'}"
    problem = Problem(printable(words), hint=hint)
    kind = UncertainError if _UNANSWERED.search(text) else RaiError
    return kind(problem, reason=reason, advice="")

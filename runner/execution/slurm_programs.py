"""Slurm's programs: what sbatch is given, and what squeue says of this user's jobs."""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from msgspec import Struct, json
from msgspec.structs import replace

from runner.core import MIB, Limits, Problem, Reason
from runner.core.addresses import SlurmTarget
from runner.core.errors import BusyError, Cancel, EngineError, NotAllowedError, RaiError
from runner.core.quantities import size_text
from runner.core.screen import printable
from runner.core.work import PASSED
from runner.execution import slurm_jobs
from runner.execution.slurm_jobs import NAME, Partition, SlurmJob
from runner.store.paths import Home
from runner.store.removal import alone
from runner.system import files, process
from runner.system.process import Completed

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


ANSWERS_WITHIN_S = 60.0
"""More than the patience of Slurm's programs, with their usual settings."""

NEEDED = ("sbatch", "squeue", "scancel", "sinfo")
MOST_LISTED_BYTES = 4 << 20
"""How much of sinfo's output is read at most."""

INTERVAL_S = 1.0
AWAY_S = 10.0
"""So long nobody asks again where the controller does not answer."""

SHARE = 10
"""A query that takes long is followed by a pause of so many times its length."""

REMEMBERED_S = 0.3
"""So long a process keeps an answer, and so may look at many runs."""

AWAITED_S = 0.05
MOST_BYTES = 64 << 20


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
    env = environment(os.environ)
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
        text = done.stderr.decode(errors="replace").strip()
        last = slurm_jobs.shown(text.rpartition("\n")[2])
        why = last or f"exit status {done.exit_code}"
        raise NoAnswerError(f"Slurm does not answer: {why}")
    return done.stdout


def partition_of(name: str, cancel: Cancel | None = None) -> Partition | None:
    """Return what a partition allows, "" for the default one; None if it is not there.

    Raises:
        RaiError: Slurm does not answer.
    """
    name = name or os.environ.get("SBATCH_PARTITION", "")
    printed = answer(slurm_jobs.partition_listing(name), cancel)[:MOST_LISTED_BYTES]
    return slurm_jobs.partition(printed.decode(errors="replace"), name)


class QueueLook(Struct, frozen=True):
    """An answer of squeue: this user's jobs of runs, by their names.

    ``trouble`` says why there is none; the jobs are then those of the last answer.
    ``took_s`` is how long it took, ``at`` the file system's time before the query.
    """

    jobs: dict[str, tuple[SlurmJob, ...]] = {}
    trouble: str = ""
    took_s: float = 0.0
    at: float = 0.0

    def of(self, name: str) -> tuple[SlurmJob, ...] | None:
        """Return the jobs of a name; None where Slurm does not answer."""
        return None if self.trouble else self.jobs.get(name, ())

    def fresh(self, now_s: float) -> bool:
        """Whether it need not be asked again; ``now_s`` is the file system's time."""
        pause_s = min(max(INTERVAL_S, SHARE * self.took_s), AWAY_S)
        return 0 <= now_s - self.at < (AWAY_S if self.trouble else pause_s)


_memory: dict[Home, tuple[QueueLook, float]] = {}
_lock = threading.Lock()


def look(home: Home) -> QueueLook:
    """Return the last answer; ask, if it is old and nobody else asks."""
    with _lock:
        known, read_s = _memory.get(home, (None, 0.0))
        if known is None or time.monotonic() - read_s > REMEMBERED_S:
            try:
                known = _looked(home)
            except OSError as error:  # read-only, full, or away: no run is lost for it
                known = QueueLook(trouble=files.problem(error).message)
            _memory[home] = known, time.monotonic()
    return known


def ask(home: Home) -> QueueLook:
    """Ask anew, and return an answer that knows all that was done before."""
    try:
        at = files.time_there(home.root)
    except OSError:  # read-only, or full
        at = time.time()
    found = _asked(home, at)
    with _lock:
        _memory.pop(home, None)
    return found


def forget(home: Home) -> None:
    """Discard the last answer, as after a change: the next look asks again."""
    home.slurm.unlink(missing_ok=True)
    with _lock:
        _memory.pop(home, None)


def _looked(home: Home) -> QueueLook:
    until = time.monotonic() + ANSWERS_WITHIN_S
    while True:
        kept = _read(home)
        if kept.fresh(files.time_there(home.root)):
            return kept
        with alone(home.slurm.with_name(f"{home.slurm.name}.lock")) as asks:
            if asks:
                kept, at = _read(home), files.time_there(home.root)
                return kept if kept.fresh(at) else _asked(home, at)
        # Another process asks. An empty answer would say that there are no jobs.
        if kept.at:
            return kept
        if time.monotonic() > until:
            return QueueLook(trouble="another process waits for Slurm's answer")
        time.sleep(AWAITED_S)


def _asked(home: Home, at: float) -> QueueLook:
    began = time.monotonic()
    try:
        named: dict[str, tuple[SlurmJob, ...]] = {}
        printed = answer(["squeue", *slurm_jobs.ARGUMENTS, f"--user={os.geteuid()}"])
        for job in slurm_jobs.parse(printed):
            if job.name.startswith(slurm_jobs.NAME):
                named[job.name] = (*named.get(job.name, ()), job)
        found = QueueLook(named, "", time.monotonic() - began, at)
    except (RaiError, ValueError) as error:
        wrong = isinstance(error, ValueError)
        why = f"Slurm's answer cannot be read: {error}" if wrong else str(error)
        found = replace(_read(home), trouble=why, at=at)
    with suppress(OSError):  # on a full disk each process asks by itself
        files.write(home.slurm, json.encode(found), private=True)
    return found


def _read(home: Home) -> QueueLook:
    try:
        data = files.read_below(home.root, home.slurm.name, MOST_BYTES)
        return json.decode(data, type=QueueLook)
    except (OSError, ValueError):
        return QueueLook()

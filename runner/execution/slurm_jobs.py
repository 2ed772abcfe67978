"""Jobs and partitions as squeue and sinfo list them, and what follows for a run.

Others choose the names of their jobs, which may hold line ends and whatever separates
fields. Each field therefore has a fixed width in bytes, so that no name can look like
the line of another job. squeue cuts and fills its fields so, but for lists of nodes
(%N), which it never cuts: the node is that of the batch script (%B).

Slurm may start a job twice after its controller was killed, forget one, or use a number
again. So the run's folder decides who runs it, and jobs are known by their name.
Nothing is asked or changed here. Format strings and states are those of the manual
pages of squeue and sinfo of Slurm 20.11 and newer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import Enum, auto

from msgspec import Struct

from runner.core import Reason, Verdict
from runner.core.screen import printable
from runner.store.claim import Standing

NAME = "rai-"
"""What the names of rai's jobs begin with; the run's id follows."""

MOST_JOBS = 100_000
"""How many jobs are read at most."""


class JobStage(Enum):
    """How far a job has come."""

    WAITING = auto()
    """It has no node yet, or has to wait for one again."""

    GOING = auto()
    """It has a node: its processes may run there."""

    OVER = auto()
    """None of its processes runs any more."""


class SlurmJob(Struct, frozen=True):
    """A job; ``state`` and ``reason`` are Slurm's words, such as PENDING, Resources.

    ``start_at`` is when it started, or should start, in seconds since 1970; None where
    Slurm does not say. ``node`` is "" until it has one. Texts are as
    Slurm wrote them: names are others' and unsafe to show as they are.
    """

    number: str
    name: str
    state: str
    reason: str = ""
    start_at: float | None = None
    node: str = ""


_FIELDS = {
    "number": ("i", 24),
    "state": ("T", 16),
    "start": ("S", 20),
    "node": ("B", 64),
    "reason": ("r", 128),
    "name": ("j", 48),
}
"""Fields by squeue's letters, with their widths in bytes."""

_FORMAT = "".join(f"%{width}{letter}|" for letter, width in _FIELDS.values())
ARGUMENTS = ("--noheader", "--all", "--states=all", f"--format={_FORMAT}")
"""What squeue is called with. ``--all`` shows partitions that are hidden, too."""

_LINE = sum(width + 1 for _, width in _FIELDS.values()) + 1
MOST_BYTES = MOST_JOBS * _LINE
"""How much of squeue's output is read at most."""

_ROW = re.compile(
    b"".join(rb"(.{%d})\|" % width for _, width in _FIELDS.values()) + b"\n", re.DOTALL
)
_NUMBER = re.compile(r"\d{1,10}(?:[_+]\d{1,10}|_\[.{0,22})?", re.ASCII)
_STATE = re.compile(r"[A-Z_]{1,16}|\?", re.ASCII)
_NOTHING = frozenset({"", "N/A", "n/a", "None", "Unknown", "(null)"})

_LONGEST = 120
"""How many characters of a reason are shown."""

_NEVER = re.compile(
    r"(?:AccountNotAllowed|BadConstraints|DependencyNeverSatisfied|MaxMemPerLimit"
    r"|Partition(?:Config|TimeLimit)|QOSNotAllowed|Reservation(?:Deleted|Invalid)"
    # A limit that the job exceeds by itself, whatever else runs.
    r"|(?:Assoc|QOS)?(?:Min\w+|Max\w*(?:Wall|PerJob|PerNode)\w*))\Z"
    # What newer versions write in place of some codes.
    r"|uid \d+ not in group permitted to use this partition"
    r"|Job's (?:account|QOS) not (?:permitted|known)"
    r"|Reservation .{1,100} (?:was deleted|is invalid)"
)
"""Reasons that only a change of the job or of the cluster's settings would end."""

_WAITING = frozenset(
    (
        *("PENDING", "REQUEUED", "REQUEUED_CRON", "REQUEUE_FED", "REQUEUE_HOLD"),
        *("RESV_DEL_HOLD", "SPECIAL_EXIT"),
    )
)
_OVER = frozenset(
    (
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
        *("OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
    )
)


def stage(state: str) -> JobStage:
    """Return how far a job in a state has come.

    A state that is not known counts as GOING, so that no job is taken for lost because
    of a newer Slurm's word. COMPLETING does too: processes may still be ending.
    """
    if state in _WAITING:
        return JobStage.WAITING
    return JobStage.OVER if state in _OVER else JobStage.GOING


def never_starts(reason: str) -> bool:
    """Return whether a job with this reason waits for good.

    What administrators may end without touching the job or the cluster's settings,
    such as holds, used up budgets and nodes that are down, is not for good.
    """
    return _NEVER.match(reason) is not None


def why_waits(reason: str) -> str:
    """Return why a job waits, by Slurm's reason."""
    if reason in _NOTHING:
        return "Slurm has not considered it yet"
    return f"Slurm says {shown(reason)}"


def shown(text: str) -> str:
    """Return words of Slurm on one line, bounded, without what steers a terminal."""
    line = " ".join(text[: 4 * _LONGEST].split())
    cut = f"{line[:_LONGEST]}..." if len(line) > _LONGEST else line
    return printable(cut)


def parse(output: bytes) -> tuple[SlurmJob, ...]:
    """Return the jobs that squeue printed by ARGUMENTS, in its order.

    Raise ValueError if it is anything else, has no end, or has more than MOST_JOBS: a
    job that is missing by mistake would be taken for lost.
    """
    if len(output) > MOST_BYTES:
        raise ValueError(f"squeue lists more than {MOST_JOBS} jobs")
    if len(output) % _LINE:
        raise ValueError("the output of squeue is not complete, or of another format")
    starts = range(0, len(output), _LINE)
    return tuple(_job(output[start : start + _LINE]) for start in starts)


def _job(line: bytes) -> SlurmJob:
    cut = _ROW.fullmatch(line)
    found = cut.groups() if cut else [b""] * len(_FIELDS)
    texts = [text.decode(errors="replace").rstrip(" ") for text in found]
    field = dict(zip(_FIELDS, texts, strict=True))
    if not (_NUMBER.fullmatch(field["number"]) and _STATE.fullmatch(field["state"])):
        raise ValueError(f"no job of squeue: {line[:60]!r}")
    start_at = _time(field.pop("start"))
    known = {key: "" if text in _NOTHING else text for key, text in field.items()}
    return SlurmJob(**known, start_at=start_at)


def _time(text: str) -> float | None:
    """Return a time of UTC; None where Slurm has none (N/A, Unknown, NONE)."""
    try:
        found = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S")
    except ValueError:
        return None
    return found.replace(tzinfo=UTC).timestamp()


SILENT_S = 12.0
"""A worker that gave no sign of life for so long is gone, where Slurm has no job."""

ENDED_S = 5.0
"""So long after its last sign of life a worker's record has to be there."""

FORGOTTEN_S = 10.0
"""A run that Slurm does not list for so long after it was handed over was forgotten."""

COMPLETING = "COMPLETING"
GONE = "rai's worker ended without a record"
UNSHARED = (
    "the node could not write into the run's folder: RAI_HOME has to be on a file"
    " system that the login node and the nodes share"
)
CANCELLED = Verdict(
    True, False, None, Reason.CANCELLED, "stopped on request, before it began"
)


def fate(
    jobs: Sequence[SlurmJob] | None, *, claimed: bool, silent_s: float, handed_s: float
) -> Standing:
    """Return what becomes of a run without a record.

    ``jobs`` are all of its name that Slurm lists; None where Slurm does not answer.
    ``claimed`` is whether a worker claimed it. When Slurm was asked, its worker, or the
    client that hands it over, had given a sign of life ``silent_s`` before, and it had
    been handed over ``handed_s`` before.
    """
    on = Standing.ELSEWHERE if claimed else Standing.WAITS
    if jobs is None:
        return on
    stages = {stage(job.state) for job in jobs}
    if JobStage.GOING in stages:
        # The last processes of a job on a node that is down cannot be seen to end.
        ending = all(job.state == COMPLETING for job in jobs)
        gone = ending and silent_s > SILENT_S
    elif claimed:
        over = stages == {JobStage.OVER}
        gone = silent_s > (ENDED_S if over else SILENT_S)
    elif jobs:
        gone = not any(
            stage(job.state) is JobStage.WAITING and not never_starts(job.reason)
            for job in jobs
        )
    else:
        # The client may be packing, and Slurm's answer older than the job.
        gone = handed_s >= FORGOTTEN_S and silent_s >= SILENT_S
    return Standing.GONE if gone else on


def verdict(
    jobs: Sequence[SlurmJob] | None, number: str, *, begun: bool, log: str, said: str
) -> Verdict:
    """Return the verdict on a run that nobody runs any more, never a success.

    ``jobs`` are all of its name that Slurm lists; None where Slurm does not answer.
    ``number`` is its job's, "" if it had none; ``begun`` whether there is an event of
    it; ``said`` the last that its worker printed, and ``log`` where, "" if its node
    made no such file.
    """
    reason, where = Reason.RUNNER_LOST, f"Slurm's job {number}" if number else "Slurm"
    if waits := [job for job in jobs or () if never_starts(job.reason)]:
        reason = Reason.NOT_ALLOWED
        text = f"Slurm would never start it: {shown(waits[0].reason)}"
    elif not number and not jobs:
        text = "it was never handed to Slurm: the client ended before"
    elif jobs is None:
        text = f"{where}: {GONE}, and Slurm does not answer"
    elif not jobs:
        text = f"{where} is not known to Slurm any more"
    else:
        job = jobs[-1]
        reached, words = stage(job.state), GONE
        if reached is JobStage.OVER:
            why = f", reason {shown(job.reason)}" if job.reason else ""
            reason = how_ended(job.state, job.reason)
            words = f"state {shown(job.state)}{why}"
        elif reached is JobStage.WAITING:
            words = f"{GONE}, and its job waits again"
        text = f"{where}{f' on {job.node}' if job.node else ''}: {words}"
        if reason is not Reason.RUNNER_LOST:
            return Verdict(True, False, None, reason, text)
        if not begun and log:
            text += f"; no worker took the run: {said or 'see ' + log}"
        elif not begun and reached is JobStage.OVER:
            text += f"; {UNSHARED}"
    return Verdict(False, False, None, reason, text)


def how_ended(state: str, reason: str = "") -> Reason:
    """Return why a run ended, by its job's last state and reason."""
    match state:
        case "TIMEOUT" | "DEADLINE":
            return Reason.TIME_LIMIT
        case "OUT_OF_MEMORY":
            return Reason.MEMORY_LIMIT
        case "CANCELLED":
            return Reason.CANCELLED
        case "FAILED" if never_starts(reason):
            return Reason.NOT_ALLOWED
        case _:
            return Reason.RUNNER_LOST


_NAME_WIDTH, _TIME_WIDTH, _GRES_WIDTH = 100, 20, 400
"""In characters; a longer value is cut."""

# "gpu:4", "gpu:h100:4(S:0-1,3)", "gpu:(null):1", "gpu:1g.10gb:7"
_GPU = re.compile(
    r"(?:^|,)gpu(?::(?:[\w.-]+?|\(null\)))?(?::no_consume)?:(\d{1,6})(?![\w.:])",
    re.ASCII,
)
_PLACES = re.compile(r"\((?:S|IDX|CNT)[^)]*\)?")
"""Which sockets or numbers a field of GPUs means: ``(S:0-1,3)``."""

_SPAN = re.compile(r"(?:(\d{1,6})-)?(?:(\d{1,6}):)?(\d{1,6}):(\d\d)", re.ASCII)


class Partition(Struct, frozen=True):
    """The longest time of a job, if it has a bound, and the most GPUs of a node."""

    time_s: float = math.inf
    gpus: int = 0


def partition_listing(name: str = "") -> list[str]:
    """Return the command that lists a partition, or several set off by ``,``."""
    fields = f"Partition:{_NAME_WIDTH},Time:{_TIME_WIDTH},Gres:{_GRES_WIDTH}"
    chosen = [f"--partition={name}"] if name else []
    return ["sinfo", "--noheader", *chosen, f"--Format={fields}"]


def partition(text: str, name: str = "") -> Partition | None:
    """Return what was listed; None if there is no such partition.

    Without a name it is the default one, or all together where none is.
    """
    found = []
    for line in text.splitlines():
        label, rest = line[:_NAME_WIDTH].strip(), line[_NAME_WIDTH:]
        time_s = _s(rest[:_TIME_WIDTH].strip())
        if label and time_s:
            found.append((label, time_s, gpus(rest[_TIME_WIDTH:])))
    default = [one for one in found if one[0].endswith("*")]
    if default and not name:
        found = default
    if not found:
        return None
    return Partition(max(one[1] for one in found), max(one[2] for one in found))


def gpus(gres: str) -> int:
    """Return how many GPUs a node has, by its Gres field, whatever their models."""
    return sum(int(number) for number in _GPU.findall(_PLACES.sub("", gres)))


def _s(time: str) -> float | None:
    """Return a time such as ``1-02:00:00``, ``30:00``; None for any other word."""
    if time == "infinite":
        return math.inf
    if not (found := _SPAN.fullmatch(time)):
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60.0 + seconds

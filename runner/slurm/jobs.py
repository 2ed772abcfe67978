"""Jobs as squeue lists them.

Others choose the names of their jobs, which may hold line ends and whatever separates
fields. Each field therefore has a fixed width in bytes, so that no name can look like
the line of another job. squeue cuts and fills its fields so, but for lists of nodes
(%N), which it never cuts: the node is that of the batch script (%B).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from enum import Enum, auto

from msgspec import Struct

from runner.core.screen import printable

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

FORMAT = "".join(f"%{width}{letter}|" for letter, width in _FIELDS.values())
"""What squeue prints of each job."""

ARGUMENTS = ("--noheader", "--all", "--states=all", f"--format={FORMAT}")
"""What squeue is called with. ``--all`` shows partitions that are hidden, too."""

_LINE = sum(width + 1 for _, width in _FIELDS.values()) + 1
MOST_BYTES = MOST_JOBS * _LINE
"""How much of squeue's output is read at most."""

_NUMBER = re.compile(r"\d{1,10}(?:[_+]\d{1,10}|_\[.{0,22})?", re.ASCII)
_STATE = re.compile(r"[A-Z_]{1,16}|\?", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", re.ASCII)
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
    {
        "PENDING",
        "REQUEUED",
        "REQUEUED_CRON",
        "REQUEUE_FED",
        "REQUEUE_HOLD",
        "RESV_DEL_HOLD",
        "SPECIAL_EXIT",
    }
)
_OVER = frozenset(
    {
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REVOKED",
        "TIMEOUT",
    }
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


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for squeue: times in UTC, all jobs of this cluster.

    A user's SQUEUE_* would filter the jobs, and SLURM_CLUSTERS name other clusters.
    """
    kept = {
        name: value
        for name, value in environ.items()
        if not name.startswith("SQUEUE_") and name != "SLURM_CLUSTERS"
    }
    return kept | {"TZ": "UTC", "SLURM_TIME_FORMAT": "standard", "LC_ALL": "C"}


def parse(output: bytes) -> tuple[SlurmJob, ...]:
    """Return the jobs that squeue printed by ARGUMENTS, in its order.

    Raise ValueError if it is anything else, has no end, or has more than MOST_JOBS: a
    job that is missing by mistake would be taken for lost.
    """
    if len(output) > MOST_BYTES:
        raise ValueError(f"squeue lists more than {MOST_JOBS} jobs")
    if len(output) % _LINE:
        raise ValueError("the output of squeue is not complete, or of another format")
    return tuple(
        _job(output[start : start + _LINE]) for start in range(0, len(output), _LINE)
    )


def _job(line: bytes) -> SlurmJob:
    field = dict(zip(_FIELDS, _cut(line), strict=True))
    if not (_NUMBER.fullmatch(field["number"]) and _STATE.fullmatch(field["state"])):
        raise ValueError(f"no job of squeue: {line[:60]!r}")
    return SlurmJob(
        number=field["number"],
        name=field["name"],
        state=field["state"],
        reason="" if field["reason"] in _NOTHING else field["reason"],
        start_at=_time(field["start"]),
        node="" if field["node"] in _NOTHING else field["node"],
    )


def _cut(line: bytes) -> Iterator[str]:
    start = 0
    for _, width in _FIELDS.values():
        end = start + width
        if line[end : end + 1] != b"|":
            raise ValueError(f"no line of squeue: {line[:60]!r}")
        yield line[start:end].decode(errors="replace").rstrip(" ")
        start = end + 1
    if line[start:] != b"\n":
        raise ValueError(f"no line of squeue: {line[:60]!r}")


def _time(text: str) -> float | None:
    """Return a time of UTC; None where Slurm has none (N/A, Unknown, NONE)."""
    if not _TIME.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None

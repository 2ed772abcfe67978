"""Submissions and milestones at a server, as its interface shows and its store keeps.

A milestone's file itself is sent as it is, so that its client reads what the server
reads.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from runner.core.ending import Reason
from runner.core.measurement import Measurement
from runner.core.milestone import Trust

Line = Annotated[str, Meta(max_length=4096)]
RunId = Annotated[str, Meta(pattern="^[0-9a-f]{10}$")]
Moment = Annotated[float, Meta(ge=0, le=1e11)]
"""Seconds since 1970, of a year that a calendar has."""


class Decision(StrEnum):
    """What staff decided about a submission, whatever its verdict is."""

    COUNT = "count"
    ANNUL = "annul"


class SubmissionRequest(Struct, frozen=True):
    """`PUT /api/v1/submissions/{key}`: what was uploaded is a submission.

    ``upload`` is the SHA-256 of the upload, ``project`` the client's folder as shown,
    ``commit`` its commit, "" for none.
    """

    milestone: Line
    upload: Line
    rehearsal: bool = False
    project: Line = ""
    commit: Line = ""


class StageRun(Struct, frozen=True):
    """A run of a submission by its id, and how it ended; ``reason`` is None before."""

    name: Line
    run: RunId
    reason: Reason | None = None
    why: str = ""


class Submission(Struct, frozen=True):
    """A submission, from its receipt to its verdict. Times are seconds since 1970.

    ``received_at`` is the server's time, at which its bytes were whole and durable;
    ``late_s`` is how long that is after the deadline, 0.0 in time. It is the team's
    ``attempt`` of ``attempts``; one that is not ``charged`` uses none. ``runs`` are in
    the order of their starts, repeated ones too. ``reason`` and ``message`` are the
    verdict, None and "" before; ``measured`` has no samples. Staff may have ``decided``
    about it, and why is told. ``rerun_of`` is the number of the submission that it
    measures again. Once its term is ``closed`` the server no longer keeps its bytes and
    runs for good. ``counts`` says whether it is the one that counts now, ``points``
    what it would earn, and ``marks`` what staff may want to look at; the store keeps
    none of the three.
    """

    number: int
    key: str
    team: str
    person: str
    role: str
    milestone: str
    trust: Trust
    term: str
    sha256: str
    project: str
    commit: str
    received_at: Moment
    late_s: Moment
    attempt: int
    attempts: int | None
    rehearsal: bool
    charged: bool
    chosen: bool = False
    runs: tuple[StageRun, ...] = ()
    reason: Reason | None = None
    message: str = ""
    ended_at: Moment | None = None
    measured: Measurement | None = None
    decided: Decision | None = None
    decided_why: str = ""
    rerun_of: int | None = None
    closed: bool = False
    counts: bool = False
    points: float | None = None
    marks: tuple[str, ...] = ()

    @property
    def going(self) -> StageRun | None:
        """The run that it waits for; None before the first, and between two."""
        last = self.runs[-1] if self.runs else None
        return last if last and last.reason is None else None

    @property
    def may_count(self) -> bool:
        """Whether it ended well, and nothing speaks against its counting."""
        if self.rehearsal or self.rerun_of is not None:
            return False
        if self.decided is not None:
            return self.decided is Decision.COUNT
        uncounted = self.measured is not None and not self.measured.counts
        return self.reason is Reason.DONE and not uncounted


class SubmissionPage(Struct, frozen=True):
    """`GET /api/v1/submissions?milestone=&all=`, the newest first."""

    submissions: tuple[Submission, ...]


class MilestoneView(Struct, frozen=True):
    """A milestone, and what the asking team did for it; ``last`` is its latest one."""

    name: str
    title: str
    trust: Trust
    deadline: Moment | None = None
    closed: bool = False
    attempts: int | None = None
    used: int = 0
    last: Submission | None = None


class MilestonePage(Struct, frozen=True):
    """`GET /api/v1/milestones`.

    ``gpu`` and ``architecture`` are those of the GPU that is measured on, "" where that
    is not known.
    """

    milestones: tuple[MilestoneView, ...]
    gpu: str = ""
    architecture: str = ""


class TeamStanding(Struct, frozen=True):
    """A team's place on a board.

    ``name`` is the team's for itself and for staff, and else the name that the board
    gives it for the term; then times are those of days, and there is no variant and no
    number. Where it was measured again, time, ratio and interval are of
    these ``reruns``: their medians, and their range.
    """

    rank: int
    name: str
    own: bool
    variant: str
    ms: float | None
    ratio: float | None
    interval: tuple[float, float] | None
    late_s: float
    received_at: Moment
    number: int
    reruns: int = 0


class Board(Struct, frozen=True, rename={"accuracy": "class"}):
    """What compares: one milestone, class, model of GPU and engine; the best first."""

    accuracy: str
    gpu: str
    engine: str
    standings: tuple[TeamStanding, ...]


class StandingsPage(Struct, frozen=True):
    """`GET /api/v1/standings/{milestone}`."""

    milestone: str
    title: str
    trust: Trust
    deadline: Moment | None
    boards: tuple[Board, ...]

"""A milestone: its layers, what a team sends, what is run and what it is worth."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct, field

from runner.core.build_spec import DataResource, Limits
from runner.core.quantities import MIB

Size = Annotated[
    int, Meta(ge=1, le=1_000_000, description="a whole number from 1 to 1000000")
]


class Shape(Struct, frozen=True, forbid_unknown_fields=True):
    """B images of C channels and H x W pixels; M maps of K x K weights, stride 1.

    x is B x C x H x W, k is M x C x K x K, y is B x M x (H - K + 1) x (W - K + 1).
    """

    B: Size
    M: Size
    C: Size
    H: Size
    W: Size
    K: Size

    def __str__(self) -> str:
        return f"B{self.B} M{self.M} C{self.C} H{self.H} W{self.W} K{self.K}"


class LayerShape(Struct, frozen=True):
    """A convolution of an edition's network, by its name."""

    name: str
    shape: Shape


class Trust(StrEnum):
    """What an outcome is worth."""

    RANKED = "ranked"
    """No host code of the team runs; the judge measures and checks all of y."""

    CHECKED = "checked"
    """The team's host code runs in a sandbox of its own; the judge checks what it
    returns. No time counts."""

    RECORDED = "recorded"
    """What the team's own program printed."""

    TIMED = "timed"
    """The staff's harness checks and times, in one process with the team's code."""

    @property
    def ranks(self) -> bool:
        """Whether times count."""
        return self in (Trust.RANKED, Trust.TIMED)


TIMED_BY = "timed by the staff's harness, in one process with the team's code"
"""Stands wherever such a time is shown."""


class Counted(StrEnum):
    """Which of a team's submissions counts, of those that ended well."""

    BEST = "best"
    """That of the least ratio; of those without a time the latest."""

    LATEST = "latest"
    CHOSEN = "chosen"
    """The one that the team chose; until it does, the latest."""


class RequiredFile(Struct, frozen=True):
    """A file that must be there, relative to the project. ``kind`` is `pdf`."""

    path: str
    kind: str = "pdf"
    most_bytes: int = 32 * MIB


class TeamParts(Struct, frozen=True):
    """The files of a project that are the team's.

    ``patterns`` (``core.globs``) are of names relative to the folder ``below``, "" for
    the project. ``whole`` is a whole project, as `rai run` would pack it.
    """

    below: str = ""
    patterns: tuple[str, ...] = ()
    whole: bool = False
    most_files: int = 2000
    most_bytes: int = 64 * MIB


class HeldKind(StrEnum):
    """What a run can hold."""

    JOB = "job"
    """`job.json`, at the top."""

    TEAM = "team"
    """The team's files, in `team/`; at the top where the image is the project's."""

    BUILD = "build"
    """Files of an earlier run's build folder, in the folder ``into``."""

    GOLDEN = "golden"
    """The judge's files, in `runner/judge/`."""

    STAFF = "staff"
    """The files of an assignment's `staff/`, at the top, its build file too."""


class Held(Struct, frozen=True):
    """One thing that a run holds.

    ``patterns`` are of file names, relative to the judge's folder or to the build
    folder of the run ``of``, whose files together have at most ``most_bytes``.
    """

    kind: HeldKind
    of: str = ""
    patterns: tuple[str, ...] = ()
    into: str = ""
    most_bytes: int = 64 * MIB


class MilestoneRun(Struct, frozen=True):
    """One run of a milestone, in the image of the golden Dockerfile's ``target``.

    With ``own_image`` the Dockerfile is the project's, or the staff's where it holds
    theirs; then the commands are those of their build file, and not here.
    ``gpu`` says whether it gets the one GPU that it then needs. ``env`` are variables
    of its commands.
    """

    name: str
    target: str
    commands: tuple[str, ...]
    holds: tuple[Held, ...] = ()
    gpu: bool = False
    limits: Limits = Limits()
    data: tuple[DataResource, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    own_image: bool = False

    def held(self, kind: HeldKind) -> tuple[Held, ...]:
        """Return what it holds of a kind."""
        return tuple(held for held in self.holds if held.kind is kind)


class Reference(Struct, frozen=True):
    """What the reference kernel takes on a GPU, of all layers, in milliseconds.

    ``band`` is by how much of it a measurement may differ.
    """

    gpu: str
    ms: float
    band: float = 0.05


class ReportedKind(StrEnum):
    """What a report can show of a program."""

    OUTPUT = "output"
    RUN_TIME = "run time"
    ACCURACY = "accuracy"
    CORRECTNESS = "correctness"
    OP_TIMES = "op times"
    KERNELS = "kernels"
    """Those that together take most of the GPU's time."""

    API_CALLS = "API calls"
    TIMELINE = "timeline"
    ANALYSIS = "analysis"
    """What bounds each kernel."""


class ReportItem(Struct, frozen=True):
    """Something that a milestone's report must show of a program.

    ``script`` is the program's file name. ``images`` is the size of the batch, None for
    any; ``variants`` how many variants it must have at least. ``command`` is a command
    line for a build file that gives it.
    """

    kind: ReportedKind
    script: str
    command: str
    images: int | None = None
    variants: int = 1


class Points(Struct, frozen=True):
    """What a submission earns that is accepted, and as fast as ``ms`` or ``ratio``."""

    points: float
    ms: float | None = None
    ratio: float | None = None


class EntryCount(Struct, frozen=True):
    """How many entries of plan.json a milestone measures."""

    least: int = 0
    most: int = 0

    def __str__(self) -> str:
        if self.least == self.most:
            return f"exactly {self.least}"
        return f"{self.least} to {self.most}"


class Milestone(Struct, frozen=True):
    """A milestone of an edition.

    ``accuracy`` is the class that entries are held to (`fp32`, `tf32`, `half`).
    ``deadline`` has a zone; None is no deadline. What comes within ``grace_s`` of it is
    in time, and what comes within ``late_s`` is taken as late. ``attempts`` is None
    where they are not counted, ``counts`` None for the usual way. ``points`` are what
    is earned, times ``late_factor`` where it is late. ``rules`` are the numbers that
    differ from the judge's own defaults. ``report`` is what a report must
    show. ``file`` says where it was read, ``sha256`` is of that file; ``folder`` is its
    own folder with `staff/` and `handout/`, "" where it has none.
    """

    name: str
    title: str
    edition: str
    trust: Trust
    team: TeamParts
    runs: tuple[MilestoneRun, ...]
    accuracy: str = "fp32"
    layers: tuple[LayerShape, ...] = ()
    required: tuple[RequiredFile, ...] = ()
    entries: EntryCount = EntryCount()
    deadline: datetime | None = None
    grace_s: float = 0.0
    late_s: float = 0.0
    attempts: int | None = None
    counts: Counted | None = None
    points: tuple[Points, ...] = ()
    late_factor: float = 1.0
    rules: Mapping[str, float] = field(default_factory=dict)
    references: tuple[Reference, ...] = ()
    report: tuple[ReportItem, ...] = ()
    file: str = ""
    sha256: str = ""
    folder: str = ""

    @property
    def planned(self) -> bool:
        """Whether the team's launches come from plan.json."""
        return self.entries.most > 0

    @property
    def images(self) -> int:
        """The number of images of a call; 0 without layers."""
        return self.layers[0].shape.B if self.layers else 0

    @property
    def counting(self) -> Counted:
        """Which of a team's submissions counts: where times do, usually the best."""
        usual = Counted.BEST if self.trust.ranks else Counted.LATEST
        return self.counts or usual

    def late_s_at(self, at: float) -> float:
        """Return how late a time is, in seconds; 0.0 until the grace is over."""
        late = at - self.deadline.timestamp() if self.deadline else 0.0
        return late if late > self.grace_s else 0.0

    def closed(self, at: float) -> bool:
        """Whether nothing is taken any more at a time, not as late either."""
        return self.late_s_at(at) > self.late_s

    def earned(
        self, ms: float | None, ratio: float | None, *, late: bool
    ) -> float | None:
        """Return the points of an accepted submission; None where none are given.

        ``ms`` and ``ratio`` are None where no time counts.
        """
        if not self.points:
            return None

        def reached(wanted: float | None, found: float | None) -> bool:
            return wanted is None or (found is not None and found <= wanted)

        steps = (
            step.points
            for step in self.points
            if reached(step.ms, ms) and reached(step.ratio, ratio)
        )
        return max(steps, default=0.0) * (self.late_factor if late else 1.0)

    def run(self, name: str) -> MilestoneRun:
        """Return a run by its name; raise KeyError if there is none."""
        for run in self.runs:
            if run.name == name:
                return run
        raise KeyError(name)

    def reference(self, gpu: str) -> Reference | None:
        """Return what is known of the reference kernel on a GPU, by its name."""
        return next((r for r in self.references if r.gpu == gpu), None)

"""What differs between two runs, as data; `rai diff --json` prints it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from runner.core import RunRecord
from runner.figures.comparison import Change, FigureChange


class DiffSide(Struct, frozen=True):
    """One of two runs, and what its folder says beside the record.

    ``spec`` is the text of the build file, ``files`` a checksum of each packed file;
    None if they were not read or are not there.
    """

    record: RunRecord
    tag: str = ""
    spec: str | None = None
    files: Mapping[str, str] | None = None


class Affected(StrEnum):
    """Which figures of two runs cannot be compared."""

    TIMES = "times"
    RESULTS = "results"
    MEMORY = "memory"


NOT_COMPARABLE = Change.NOT_COMPARABLE
"""The verdict on a figure that a hard mismatch affects."""


class Difference(Struct, frozen=True):
    """One fact of both runs; "" stands for what a run does not have."""

    what: str
    before: str
    after: str

    @property
    def same(self) -> bool:
        """Whether it does not differ."""
        return self.before == self.after


class Mismatch(Struct, frozen=True):
    """A difference that makes figures of two runs not comparable.

    ``means`` says how. Where it is ``hard``, the figures that it affects say nothing
    about the code. ``command_number`` is that of the only command that it is of, from
    1 in the later run; None if it is of all.
    """

    what: str
    before: str
    after: str
    means: str
    affects: tuple[Affected, ...]
    hard: bool = False
    command_number: int | None = None


class DiffedRun(Struct, frozen=True):
    """One of the two runs: what it was, and how it ended.

    ``exit_code`` is that of its reason; both are None before its end.
    """

    id: str
    tag: str | None
    project: str
    title: str
    created_at: float
    state: str
    reason: str | None
    exit_code: int | None
    commit: str | None


class CommandChange(Struct, frozen=True):
    """A command of both runs, or of one; ``before`` and ``after`` are its numbers.

    ``ended`` are its outcome and exit status in words; "" where it is absent.
    """

    command: str
    before: int | None
    after: int | None
    ended_before: str
    ended_after: str

    @property
    def same(self) -> bool:
        """Whether both runs have it, and it ended alike."""
        both = self.before is not None and self.after is not None
        return both and self.ended_before == self.ended_after


class InferenceChange(Struct, frozen=True):
    """One network of a command in both runs, or in one.

    ``command_number`` is the command's place in the later run, from 1, or in the
    earlier one if only that has it; ``number`` counts the command's networks, those of
    the later run first. Op times are in seconds, medians of the rounds, () where it is
    absent or printed none. ``result`` is the correctness, accuracy or agreement
    in words, the least of the rounds.
    """

    command_number: int
    command: str
    number: int
    model_before: str
    model_after: str
    variant: str
    batch_size: int | None
    op_times_before_s: tuple[float, ...]
    op_times_after_s: tuple[float, ...]
    result_before: str
    result_after: str

    @property
    def same(self) -> bool:
        """Whether both runs printed the same."""
        return (
            self.op_times_before_s == self.op_times_after_s
            and self.result_before == self.result_after
            and self.model_before == self.model_after
        )


class ProfileRowChange(Struct, frozen=True):
    """A row of a profiler's table: total times in seconds, None where it is absent."""

    name: str
    before_s: float | None
    after_s: float | None
    calls_before: int
    calls_after: int

    @property
    def change_s(self) -> float:
        """How much longer it takes in all; below 0 if less."""
        return (self.after_s or 0.0) - (self.before_s or 0.0)

    @property
    def same(self) -> bool:
        """Whether both tables have the row with the same time and calls."""
        return self.before_s == self.after_s and self.calls_before == self.calls_after


class ProfileChange(Struct, frozen=True):
    """A profiler's table of both runs, or of one; the most changed rows first.

    ``command_number`` is that of the later run, or of the earlier one if only that has
    the command.
    """

    command_number: int
    command: str
    tool: str
    section: str
    rows: tuple[ProfileRowChange, ...]


class TextChange(Struct, frozen=True):
    """How a text changed, as lines that begin with "+", "-", " " or "@@".

    ``left_out`` counts the lines that are not here, as there are too many.
    """

    lines: tuple[str, ...] = ()
    left_out: int = 0


class FilesChange(Struct, frozen=True):
    """The packed files that differ, by name; ``left_out`` counts those not named."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    left_out: int = 0


class RunDiff(Struct, frozen=True):
    """What differs between two runs, in the order in which it is shown.

    ``paired`` is whether their rounds were measured in turn, ``rounds`` the fewest
    rounds of a side. ``ends``, ``project`` and ``surroundings`` are facts of how the
    runs ended, of what went in, and of where they took place, equal ones too; ``spec``
    and ``files`` are None if a run's build file, or packed files, were not read.
    """

    before: DiffedRun
    after: DiffedRun
    mismatches: tuple[Mismatch, ...]
    commands: tuple[CommandChange, ...]
    figures: tuple[FigureChange, ...]
    paired: bool
    rounds: int
    inferences: tuple[InferenceChange, ...]
    profiles: tuple[ProfileChange, ...]
    ends: tuple[Difference, ...]
    project: tuple[Difference, ...]
    surroundings: tuple[Difference, ...]
    spec: TextChange | None
    files: FilesChange | None

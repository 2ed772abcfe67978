"""How the tables of a profiler's SQLite file are laid out."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from runner.core.trace import LaneKind, TracedGpu

GPU = "GPU activities"
API = "API calls"

MEMORY = {
    1: "pageable",
    2: "pinned",
    3: "device",
    4: "array",
    5: "managed",
    6: "static of the device",
    7: "static, managed",
}
"""CUPTI's kinds of memory."""


class LaunchColumns(Struct, frozen=True):
    """The columns of a launch's configuration."""

    grid: tuple[str, str, str]
    block: tuple[str, str, str]
    registers: str
    static_shared: str
    dynamic_shared: str

    @property
    def columns(self) -> tuple[str, ...]:
        """Return all of them."""
        one = (self.registers, self.static_shared, self.dynamic_shared)
        return (*self.grid, *self.block, *one)


class Records(Struct, frozen=True):
    """One table of spans.

    ``name`` is the column of the name's number, in the layout's table of names or, if
    there are any, in ``names``. ``lane`` are the columns whose values tell lanes apart:
    device, context and stream, or a thread. ``process`` is the column that tells
    processes apart, "" for a file of one. ``facts`` are further columns of a span, each
    with the words and the spelling for a reader.
    """

    table: str
    kind: LaneKind
    name: str
    lane: tuple[str, ...]
    link: str = ""
    process: str = ""
    names: Mapping[int, str] = {}
    other_names: str = ""
    shape: LaunchColumns | None = None
    facts: tuple[tuple[str, str, str], ...] = ()
    start: str = "start"
    end: str = "end"
    optional: bool = True

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that the table must have."""
        found = [self.start, self.end, self.name, *self.lane, self.link, self.process]
        if self.shape is not None:
            found += self.shape.columns
        found += [column for _, column, _ in self.facts]
        return tuple(column for column in found if column)


class Process(Struct, frozen=True):
    """A process of a file: its name on lanes, and the command line that it ran."""

    title: str
    command: str = ""


class TraceLayout(Struct, frozen=True):
    """What a file has, as its program laid it out; found out from the file.

    ``processes`` are by the value of their column, None in a file of one process.
    """

    tool: str
    records: tuple[Records, ...]
    names: tuple[str, str, str]
    processes: Mapping[int | None, Process]
    gpus: tuple[TracedGpu, ...] = ()
    problems: tuple[str, ...] = ()

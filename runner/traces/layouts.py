"""How the tables of a profiler's SQLite file are laid out."""

from __future__ import annotations

import re
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


_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_WORDS = frozenset({"coalesce", "IN"})


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
    """One table of spans; columns may be expressions of columns.

    ``name`` is the column of the name's number in the layout's table of names, or, if
    there is ``other_names``, in ``names``; the former is what the rest are called.
    ``versioned_names`` end like cudaMalloc_v3020. ``lane`` are the columns whose values
    tell lanes apart: device, context and stream, or a thread. ``process`` is the column
    that tells processes apart, "" for a file of one. ``facts`` are further columns of a
    span, each with the words and the spelling for a reader. ``only`` is the condition
    of the rows that are spans.
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
    versioned_names: bool = False
    facts: tuple[tuple[str, str, str], ...] = ()
    only: str = ""
    start: str = "start"
    end: str = "end"
    optional: bool = True

    @property
    def columns(self) -> frozenset[str]:
        """Return the columns that the table must have."""
        used = [self.start, self.end, self.name, *self.lane, self.link, self.process]
        used += self.shape.columns if self.shape is not None else ()
        used += [self.only, *(column for _, column, _ in self.facts)]
        return frozenset(_IDENTIFIER.findall(" ".join(used))) - _WORDS


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

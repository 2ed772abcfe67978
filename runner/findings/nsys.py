"""Read the tables of `nsys stats` and `nsys profile --stats=true`, 2020 to 2024.

Only the tables by time are read: those by size have no times, and NVTX ranges are not
times of the GPU. SECTIONS gives the sections of all versions the same names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from runner.core import ProfileRow
from runner.findings.units import EXPONENTS, UNSIGNED, scaled

TOOL = "nsys"
API = "CUDA API"
KERNELS = "GPU kernels"
MEMORY = "GPU memory operations (by time)"
RUNTIME = "OS runtime"

SECTIONS: tuple[tuple[re.Pattern[str], str | None], ...] = (
    (re.compile(r"by size|KiB|mem_?size", re.IGNORECASE), None),
    (re.compile(r"CUDA API (?:Stat|Summ)|cuda_?api_?sum"), API),
    (re.compile(r"Kernel (?:Stat|Summ)|gpu_?kern_?sum"), KERNELS),
    (re.compile(r"Memory Operation Stat|MemOps Summ|gpu_?mem_?time_?sum"), MEMORY),
    (re.compile(r"Operating System Runtime|OS Runtime Summ|osrt_?sum"), RUNTIME),
)
"""A pattern for titles, and the section's name; the first that matches decides."""

_TITLE = re.compile(
    r"(?:\*\* )?[A-Z][\w/ ()-]{0,60} (?:Statistics|Summary)(?: \([\w/ ]+\))*:?"
    r"|\[[0-9]+/[0-9]+\] Executing '\w+' stats report"
    r"|(?:Processing|Running) \[.{0,400}/reports/\w+\.py.{0,200}"
)
_COLUMN = re.compile(
    r"(?P<name>Time ?\(%\)|Total Time|Num Calls|Calls|Instances|Operations|Count"
    r"|Average|Avg|Median|Med|Minimum|Min|Maximum|Max|StdDev|GridXYZ|BlockXYZ|Name"
    r"|Operation)"
    r"(?: ?\((?P<unit>ns|us|µs|ms|s|sec)\))?(?:\s+|$)"
)
_CALLS = frozenset({"Num Calls", "Calls", "Instances", "Operations", "Count"})
_AVERAGE = frozenset({"Average", "Avg"})
_LEAST = frozenset({"Minimum", "Min"})
_MOST = frozenset({"Maximum", "Max"})
_PERCENT = re.compile(r"[0-9]{1,3}\.[0-9]{1,3}")
_WHOLE = re.compile(r"[0-9]{1,18}")
_NUMBER = re.compile(UNSIGNED)
_CUDA = re.compile(r"cuda|cu[A-Z]")


class Columns(Struct, frozen=True):
    """The columns of one table, from its header, and the unit of its times."""

    names: tuple[str, ...]
    unit: str = "ns"

    def row(self, line: str) -> ProfileRow | None:
        """Parse one row; None if a column holds something else."""
        cells = line.split(None, len(self.names) - 1)
        if len(cells) != len(self.names) or not _PERCENT.fullmatch(cells[0]):
            return None
        numbers = [cell.replace(",", "") for cell in cells[1:-1]]
        if float(cells[0]) > 100 or not all(map(_NUMBER.fullmatch, numbers)):
            return None
        calls = self._cell(numbers, _CALLS)
        if calls is None or not _WHOLE.fullmatch(calls):
            return None
        return ProfileRow(
            name=cells[-1],
            percent=float(cells[0]),
            total_s=scaled(numbers[0], self.unit),
            calls=int(calls),
            avg_s=self._seconds(numbers, _AVERAGE),
            min_s=self._seconds(numbers, _LEAST),
            max_s=self._seconds(numbers, _MOST),
        )

    def section(self, names: Sequence[str]) -> str:
        """Return the section of an untitled table, by its columns and first name."""
        if "Instances" in self.names:
            return KERNELS
        if "Operations" in self.names or "Count" in self.names:
            return MEMORY
        return API if _CUDA.match(names[0]) else RUNTIME

    def _cell(self, numbers: list[str], names: frozenset[str]) -> str | None:
        pairs = zip(self.names[1:-1], numbers, strict=True)
        return next((cell for name, cell in pairs if name in names), None)

    def _seconds(self, numbers: list[str], names: frozenset[str]) -> float | None:
        cell = self._cell(numbers, names)
        return None if cell is None else scaled(cell, self.unit)


def title(line: str) -> tuple[str | None] | None:
    """Return the section that a title names, in a tuple; None if it is not a title."""
    if _TITLE.fullmatch(line) is None:
        return None
    return (next((name for form, name in SECTIONS if form.search(line)), None),)


def header(line: str) -> Columns | None:
    """Parse a table's header; None for other lines and for tables without times."""
    names: list[str] = []
    unit, end = "ns", 0
    while (match := _COLUMN.match(line, end)) is not None and match.end() > end:
        names += [match["name"]] * (3 if match["name"].endswith("XYZ") else 1)
        unit = match["unit"] or unit
        end = match.end()
    timed = len(names) > 3 and names[0].startswith("Time") and names[1] == "Total Time"
    if end != len(line) or not timed or names[-1] not in ("Name", "Operation"):
        return None
    return Columns(tuple(names), unit if unit in EXPONENTS else "ns")

"""Format activities and API calls in the order of their start, as nvprof did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from nvprof import units
from nvprof.layout import quoted

MEMORY = {
    1: "Pageable",
    2: "Pinned",
    3: "Device",
    4: "Array",
    5: "Managed",
    6: "Device Static",
    7: "Managed Static",
}
"""nvprof's names for CUPTI's kinds of memory."""

LEGEND = (
    "Regs: Number of registers used per CUDA thread. This number includes registers"
    " used internally by the CUDA driver and/or tools and can be more than what the"
    " compiler shows.",
    "SSMem: Static shared memory allocated per CUDA block.",
    "DSMem: Dynamic shared memory allocated per CUDA block.",
)
LEGEND_MEMORY = (
    "SrcMemType: The type of source memory accessed by memory operation/copy",
    "DstMemType: The type of destination memory accessed by memory operation/copy",
)


class Activity(NamedTuple):
    """A line of a trace; fields that do not apply are None."""

    start: int
    duration: int
    name: str
    correlation: int
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    registers: int | None = None
    static_shared: int | None = None
    dynamic_shared: int | None = None
    bytes: int | None = None
    source: int | None = None
    destination: int | None = None
    device: int | None = None
    context: int | None = None
    stream: int | None = None
    launched: str | None = None

    @property
    def shown(self) -> str:
        """Return its name with its correlation or, for a call, the launched kernel."""
        if self.grid is not None:
            return f"{self.name} [{self.correlation}]"
        if self.launched is not None:
            return f"{self.name} ({self.launched} [{self.correlation}])"
        return self.name


class Extent(NamedTuple):
    """The greatest values of a trace, which determine columns and units."""

    copies: bool
    start: int
    duration: int
    static_shared: int = 0
    dynamic_shared: int = 0
    bytes: int = 0


COLUMNS = (
    ("Grid Size", 21),
    ("Block Size", 16),
    ("Regs*", 10),
    ("SSMem*", 10),
    ("DSMem*", 10),
    ("Size", 10),
    ("Throughput", 12),
    ("SrcMemType", 12),
    ("DstMemType", 12),
    ("Device", 17),
    ("Context", 10),
    ("Stream", 10),
)
COPIES = frozenset({"Size", "Throughput", "SrcMemType", "DstMemType"})
"""Columns that are only shown if there are copies or sets."""


def gpu_text(
    lines: Iterable[Activity], extent: Extent, devices: dict[int, str], unit: str
) -> Iterator[str]:
    """Yield the lines of a trace of GPU activities, and API calls if included."""
    columns = [each for each in COLUMNS if extent.copies or each[0] not in COPIES]
    head = "".join(f"{name:>{width}}" for name, width in columns)
    yield f"   Start  Duration{head}  Name"
    start, duration = _time_units(extent, unit)
    if start:
        yield f"{start:>8}{duration:>10}"
    for line in lines:
        cells = _cells(line, devices)
        row = "".join(f"{cells.get(name, '-'):>{width}}" for name, width in columns)
        yield (
            f"{_time(line.start, start):>8}"
            f"{units.column(_time(line.duration, duration))}"
            f"{row}  {line.shown}"
        )
    yield ""
    yield from LEGEND
    if extent.copies:
        yield from LEGEND_MEMORY


def _cells(line: Activity, devices: dict[int, str]) -> dict[str, str]:
    cells: dict[str, str] = {}
    if line.grid is not None and line.block is not None:
        cells["Grid Size"] = "({} {} {})".format(*line.grid)
        cells["Block Size"] = "({} {} {})".format(*line.block)
        cells["Regs*"] = str(line.registers)
        cells["SSMem*"] = units.size(line.static_shared or 0)
        cells["DSMem*"] = units.size(line.dynamic_shared or 0)
    if line.bytes is not None:
        cells["Size"] = units.size(line.bytes)
        rate = units.rate(line.bytes, line.duration)
        cells["Throughput"] = f"{units.size(rate)}/s"
        for name, kind in (
            ("SrcMemType", line.source),
            ("DstMemType", line.destination),
        ):
            cells[name] = MEMORY.get(kind or 0, "-")
    if line.device is not None:
        cells["Device"] = device_name(line.device, devices)[:15]
        cells["Context"], cells["Stream"] = str(line.context), str(line.stream)
    return cells


def device_name(number: int, devices: dict[int, str]) -> str:
    """Return a GPU's name with its number, such as `NVIDIA H200 (0)`."""
    return f"{devices.get(number) or 'GPU'} ({number})"


def api_text(lines: Iterable[Activity], extent: Extent, unit: str) -> Iterator[str]:
    """Yield the lines of a trace of API calls."""
    yield "   Start  Duration  Name"
    start, duration = _time_units(extent, unit)
    if start:
        yield f"{start:>8}{duration:>10}"
    for line in lines:
        yield (
            f"{_time(line.start, start):>8}"
            f"{units.column(_time(line.duration, duration))}"
            f"  {line.shown}"
        )


def _time_units(extent: Extent, unit: str) -> tuple[str, str]:
    """Return the units of Start and Duration; empty if each value has its own."""
    if unit == "auto":
        return "", ""
    if unit != "col":
        return unit, unit
    return (
        units.common([extent.start], units.TIMES),
        units.common([extent.duration], units.TIMES),
    )


def _time(ns: int, unit: str) -> str:
    return units.bare(ns / units.TIMES[unit]) if unit else units.time(ns)


GPU_CSV = (
    '"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z",'
    '"Registers Per Thread","Static SMem","Dynamic SMem","Size","Throughput",'
    '"SrcMemType","DstMemType","Device","Context","Stream","Name","Correlation_ID"'
)
API_CSV = '"Start","Duration","Name","Correlation_ID"'


def gpu_csv(
    lines: Iterable[Activity], extent: Extent, devices: dict[int, str], unit: str
) -> Iterator[str]:
    """Yield the lines of a trace of GPU activities as comma-separated values."""
    start, duration = _time_units(extent, "col" if unit == "auto" else unit)
    static = units.common([extent.static_shared], units.SIZES)
    dynamic = units.common([extent.dynamic_shared], units.SIZES)
    size = units.common([extent.bytes], units.SIZES)
    yield GPU_CSV
    yield f"{start},{duration},,,,,,,,{static},{dynamic},{size},GB/s,,,,,,,"
    for line in lines:
        cells = [_scaled(line.start, units.TIMES[start])]
        cells.append(_scaled(line.duration, units.TIMES[duration]))
        cells += _shape(line)
        cells.append(_scaled(line.static_shared, units.SIZES[static]))
        cells.append(_scaled(line.dynamic_shared, units.SIZES[dynamic]))
        cells += _copied(line, units.SIZES[size])
        where = ["", "", ""]
        if line.device is not None:
            where = [
                quoted(device_name(line.device, devices)),
                quoted(str(line.context)),
                quoted(str(line.stream)),
            ]
        cells += [*where, quoted(line.name), str(line.correlation)]
        yield ",".join(cells)


def _shape(line: Activity) -> list[str]:
    if line.grid is None or line.block is None:
        return [""] * 7
    return [str(each) for each in (*line.grid, *line.block, line.registers)]


def _copied(line: Activity, unit: int) -> list[str]:
    if line.bytes is None:
        return [""] * 4
    rate = units.rate(line.bytes, line.duration) / units.SIZES["GB"]
    kinds = [MEMORY.get(kind or 0, "") for kind in (line.source, line.destination)]
    words = [quoted(kind) if kind else "" for kind in kinds]
    return [_scaled(line.bytes, unit), f"{rate:.6f}", *words]


def _scaled(value: int | None, unit: int) -> str:
    return "" if value is None else f"{value / unit:.6f}"


def api_csv(lines: Iterable[Activity], extent: Extent, unit: str) -> Iterator[str]:
    """Yield the lines of a trace of API calls as comma-separated values."""
    start, duration = _time_units(extent, "col" if unit == "auto" else unit)
    yield API_CSV
    yield f"{start},{duration},,"
    for line in lines:
        yield (
            f"{_scaled(line.start, units.TIMES[start])},"
            f"{_scaled(line.duration, units.TIMES[duration])},"
            f"{quoted(line.name)},{line.correlation}"
        )

"""Format the summary as nvprof did, as a table or comma-separated values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nvprof import units
from nvprof.summary import Row

HEAD = (
    "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name"
)
CSV_HEAD = '"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"'
NO_KERNELS = "No kernels were profiled."
NO_CALLS = "No API activities were profiled."

Table = tuple[str, Sequence[Row]]
"""A section's name, `GPU activities`, and its rows."""


def text(tables: Sequence[Table], unit: str = "auto") -> Iterator[str]:
    """Yield the lines of tables with one header."""
    if not any(rows for _, rows in tables):
        return
    yield HEAD
    one = fixed(tables, unit)
    if one:
        total, each = one
        yield f"{'%':>25}{total:>10}{'':10}{each:>10}{each:>10}{each:>10}"
    for name, rows in tables:
        label = f"{name}:"
        for row in rows:
            yield _line(label, row, one)
            label = ""


def _line(label: str, row: Row, one: tuple[str, str] | None) -> str:
    times = (row.total, row.average, row.least, row.most)
    if one is None:
        share, (total, *rest) = f"{row.percent:.2f}%", [units.time(ns) for ns in times]
    else:
        by = [one[0], one[1], one[1], one[1]]
        share = f"{row.percent:.2f}"
        total, *rest = [
            units.bare(ns / units.TIMES[unit]) for ns, unit in zip(times, by)
        ]
    average, least, most = rest
    return (
        f"{label:>16}{share:>9}"
        + "".join(map(units.column, (total, row.calls, average, least, most)))
        + f"  {row.name}"
    )


def csv(tables: Sequence[Table], unit: str = "auto") -> Iterator[str]:
    """Yield the lines of tables as comma-separated values, with a row of units."""
    if not any(rows for _, rows in tables):
        return
    total, each = fixed(tables, "col" if unit == "auto" else unit) or ("ns", "ns")
    yield CSV_HEAD
    yield f",%,{total},,{each},{each},{each},"
    for name, rows in tables:
        for row in rows:
            times = ",".join(
                f"{ns / units.TIMES[each]:.6f}"
                for ns in (row.average, row.least, row.most)
            )
            whole = row.total / units.TIMES[total]
            yield (
                f"{quoted(name)},{row.percent:.6f},{whole:.6f},{row.calls},"
                f"{times},{quoted(row.name)}"
            )


def fixed(tables: Sequence[Table], unit: str) -> tuple[str, str] | None:
    """Return the units of Time and of Avg, Min and Max; None for a unit per value."""
    if unit == "auto":
        return None
    if unit != "col":
        return unit, unit
    every = [row for _, rows in tables for row in rows]
    return (
        units.common((row.total for row in every), units.TIMES),
        units.common((row.most for row in every), units.TIMES),
    )


def quoted(name: str) -> str:
    """Quote a text as a comma-separated value."""
    return '"' + name.replace('"', '""') + '"'

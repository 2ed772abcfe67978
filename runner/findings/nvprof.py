"""Parse nvprof's rows, in its two layouts and as logs paste them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from runner.core import ProfileRow
from runner.findings.units import UNSIGNED, scaled, seconds

TOOL = "nvprof"
GPU = "GPU activities"
API = "API calls"

_PID = r"(?:=*[0-9]*==\s*)?"
_TIME = r"[0-9]{1,9}(?:\.[0-9]{1,9})?(?:ns|us|ms|s)"
_HALF = (
    rf"(?P<calls>[0-9]{{1,12}})\s+({_TIME})\s+({_TIME})\s+({_TIME})\s+(?P<name>\S.*)"
)
_ROW = re.compile(rf"(?P<percent>[0-9]{{1,3}}\.[0-9]{{2}})%\s+({_TIME})\s+{_HALF}")
_FIRST_HALF = re.compile(rf"[0-9]{{1,3}}\.[0-9]{{2}}%\s+{_TIME}")
_SECOND_HALF = re.compile(_HALF)
_UNITS = re.compile(r"%\s+(ns|us|ms|s)\s+(ns|us|ms|s)(?:\s+\2){2}")
_BARE = rf"({UNSIGNED}(?:e[+-][0-9]{{2}})?)"
_BARE_ROW = re.compile(
    rf"(?P<percent>[0-9]{{1,3}}\.[0-9]{{2}})\s+{_BARE}\s+(?P<calls>[0-9]{{1,12}})"
    rf"\s+{_BARE}\s+{_BARE}\s+{_BARE}\s+(?P<name>\S.*)"
)
_RESULT = re.compile(rf"{_PID}Profiling result:")
_CALLS = re.compile(rf"{_PID}API calls:")
_HEADER = re.compile(r"(?:Type\s+)?Time\(%\)\s+Time\s+Calls\s+Avg\s+Min\s+Max\s+Name")
_API_NAME = re.compile(r"cu(?:da)?[A-Z]\w*")
_TIMES = (2, 4, 5, 6)
_LABEL = re.compile(r"(GPU activities|API calls|OpenACC \(excl\)|OpenMP \(incl\)):\s*")


def opening(line: str) -> str | None:
    """Return the section that a line opens; "" for a header, which may open any."""
    if _RESULT.fullmatch(line):
        return GPU
    if _CALLS.fullmatch(line):
        return API
    return "" if _HEADER.fullmatch(line) else None


def section(names: Sequence[str]) -> str:
    """Return the section of a table that begins with its header, by most of its names.

    No function of the API has a space in its name: one was added by the log.
    """
    calls = sum(
        _API_NAME.fullmatch(name.replace(" ", "")) is not None for name in names
    )
    return API if 2 * calls > len(names) else GPU


def label(line: str) -> tuple[str, str] | None:
    """Split a row into the section of its Type column and the rest."""
    match = _LABEL.match(line)
    return (match[1], line[match.end() :]) if match else None


def row(line: str) -> ProfileRow | None:
    """Parse one row, without its Type; columns are separated by any white space."""
    match = _ROW.fullmatch(line)
    return None if match is None else _read(match, *map(seconds, match.group(*_TIMES)))


def units(line: str) -> Callable[[str], ProfileRow | None] | None:
    """Return a parser of rows for a table whose units are below its header."""
    match = _UNITS.fullmatch(line)
    if match is None:
        return None
    total, each = match.groups()

    def bare(line: str) -> ProfileRow | None:
        row = _BARE_ROW.fullmatch(line)
        if row is None:
            return None
        first, *others = row.group(*_TIMES)
        return _read(row, scaled(first, total), *(scaled(n, each) for n in others))

    return bare


def _read(
    match: re.Match[str], total: float, average: float, least: float, most: float
) -> ProfileRow | None:
    if float(match["percent"]) > 100:
        return None
    return ProfileRow(
        name=match["name"],
        percent=float(match["percent"]),
        total_s=total,
        calls=int(match["calls"]),
        avg_s=average,
        min_s=least,
        max_s=most,
    )


def half(line: str) -> bool:
    """Whether a line is one half of a row, as in text copied from a PDF."""
    return _FIRST_HALF.fullmatch(line) is not None or _is_second_half(line)


def paired(one: str, other: str) -> ProfileRow | None:
    """Parse two halves of a row, in either order; None if they do not match.

    They match if the calls times their average is the total.
    """
    whole = f"{other} {one}" if _is_second_half(one) else f"{one} {other}"
    found = row(whole)
    if found is None or found.avg_s is None:
        return None
    slack = found.calls * 1e-9 + 1e-3 * found.total_s
    agree = abs(found.total_s - found.calls * found.avg_s) <= slack
    return found if agree else None


def _is_second_half(line: str) -> bool:
    return _SECOND_HALF.fullmatch(line) is not None

"""Mends lines that delivery has cut in two.

A relayed log prints each raw read, trimmed, on a line of its own: `Op Time: 0.0` and
`21169`, or `1384.19` and `ms`, are one figure. Two lines are joined only where the
whole is exactly what a program prints: six decimals for seconds, two for CPU times,
a known model's name. Where that cannot be known the lines stay apart.
"""

from __future__ import annotations

import re

from runner.findings import nsys, nvprof
from runner.findings.timing import SHELL, plausible, read_gnu

_LONGEST = 200
_MODELS = frozenset({"baseline", "ece408", "ece408-high", "ece408-low"})
_SHARE = r"(?:0\.[0-9]{1,4}|1\.0|[01])"
_METRIC = r"(?:(?:np|numpy)\.float(?:32|64)\()?[01]\.[0-9]{1,18}\)?"
_WHOLE = re.compile(
    r"Op Time:\s*[0-9]{1,9}\.[0-9]{6}"
    r"|(?:Op Time|Layer [0-9] OpTime):\s*"
    r"[0-9]{1,9}(?:\.[0-9]{1,9})?(?:e[+-]?[0-9]{2})? ?ms"
    rf"|Correctness:\s*{_SHARE}(?:\s+Model:\s*(?P<model>\S+))?"
    rf"|Agreement:\s*{_SHARE}[0-9]*\s+Model:\s*\S+\s+\(synthetic\)"
    rf"|EvalMetric:\s*\{{'accuracy':\s*{_METRIC}\}}"
    rf"|Test Accuracy:\s*{_SHARE}"
)
_TABLE = re.compile(
    r"(?:Name|Operation|result:|calls:|report)$|Statistics|Summary|/reports/"
)
_FIRST_LETTERS = frozenset("0123456789OLCAETrus=P*[")
_ENDS_OF_GNU = ("elapsed", "CPU", ")k")


def mended(first: str, second: str) -> str | None:
    """Give the line that two stripped lines were before the cut, or None."""
    if first[:1] not in _FIRST_LETTERS or not second:
        return None
    if len(first) + len(second) > _LONGEST:
        return None
    for whole in (first + second, f"{first} {second}"):
        if _printed(whole, first, second):
            return whole
    return None


def _printed(whole: str, first: str, second: str) -> bool:
    if whole[0].isdigit():
        return whole.endswith(_ENDS_OF_GNU) and _timed(whole, second)
    match = _WHOLE.fullmatch(whole)
    if match is None:
        return SHELL.fullmatch(whole) is not None or _opens_table(whole, first)
    # A name that is whole already takes nothing more, unless a known one needs it.
    named = "Model:" in first and not first.endswith("Model:")
    return match["model"] is None or not named or match["model"] in _MODELS


def _timed(whole: str, second: str) -> bool:
    """GNU time's percentage tells whether digits before its line belong to it."""
    joined = read_gnu(whole)
    if joined is None or not plausible(joined):
        return False
    alone = read_gnu(second)
    return alone is None or not plausible(alone)


def _opens_table(whole: str, first: str) -> bool:
    if _TABLE.search(whole) is None:
        return False
    if nvprof.opening(whole) is not None or nsys.header(whole) is not None:
        return True
    titled = nsys.title(whole)
    return titled is not None and titled[0] is not None and nsys.title(first) is None

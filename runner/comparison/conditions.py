"""Parse the conditions of a gate: ``op_time>3%``, ``correctness<0.85``.

    METRIC>N%    the metric rises by more than N percent
    METRIC<-N%   it falls by more than N percent
    METRIC>N     a sample lies above N: a time (5ms), a size (2GiB), or a share (0.85)
    METRIC<N     a sample lies below N

METRIC is a name of ``metrics``, such as command[final].wall. Without its key it stands
for every command that has the metric.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from msgspec import Struct

from runner.comparison.metrics import Unit, parsed
from runner.core import Problem, quantities
from runner.core.errors import UsageError

OPTION = "--fail-if"
KINDS = (
    "op_time",
    "correctness",
    "command",
    "command.wall",
    "command.cpu",
    "kernel",
    "peak_memory",
)
"""The metrics that a condition may name, without key."""

MOST_CONDITIONS = 100
LONGEST = 500
"""The most characters of one."""

_LONGEST_QUOTED = 40

_FORM = re.compile(r"(?P<metric>.*)(?P<sign>[<>])(?P<limit>[^<>]*)", re.DOTALL)
_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,15})?|\.[0-9]{1,15}")
_EXAMPLE = f'{OPTION} "op_time>3%"'


class Condition(Struct, frozen=True):
    """One condition that fails a run.

    ``text`` is as it was written, ``metric`` names one or several metrics. It fails
    ``above`` the limit, else below it. A ``relative`` limit is a ratio of after by
    before, 1.03 for 3 %; another is in the metric's unit.
    """

    text: str
    metric: str
    above: bool
    limit: float
    relative: bool


class _Wrong(Struct, frozen=True):
    """What is wrong at a place of a condition, from 0."""

    at: int
    what: str
    hint: str = ""


def parse(texts: Iterable[str]) -> tuple[Condition, ...]:
    """Return the conditions that are written so, each once.

    Raises:
        UsageError: some are wrong; carries every problem with its column.
    """
    given = tuple(dict.fromkeys(texts))
    if len(given) > MOST_CONDITIONS:
        text = f"{OPTION} is given {len(given)} times; at most {MOST_CONDITIONS} count"
        raise UsageError(text)
    found, problems = list[Condition](), list[Problem]()
    for text in given:
        one, wrong = _condition(text)
        found += [one] if one else []
        problems += [_problem(text, each) for each in wrong]
    if problems:
        raise UsageError(*problems)
    return tuple(found)


def _problem(text: str, wrong: _Wrong) -> Problem:
    shown = text if len(text) <= LONGEST else _cut(text)
    return Problem(
        f'{OPTION} "{shown}", column {wrong.at + 1}: {wrong.what}', None, wrong.hint
    )


def _condition(text: str) -> tuple[Condition | None, list[_Wrong]]:
    if len(text) > LONGEST:
        what = f"it has {len(text)} characters; a condition has at most {LONGEST}"
        return None, [_Wrong(LONGEST, what)]
    form = _FORM.fullmatch(text)
    if form is None:
        hint = f"write the whole of it in quotes: {_EXAMPLE}"
        return None, [_Wrong(len(text), "expected > or < and a limit", hint)]
    at, metric = _stripped(form, "metric")
    place, written = _stripped(form, "limit")
    above = form["sign"] == ">"
    unit, wrong = _metric(at, metric)
    limit, relative, more = _limit(place, written, above, unit)
    wrong += more
    if wrong:
        return None, wrong
    return Condition(text, metric, above, limit, relative), []


def _stripped(form: re.Match[str], group: str) -> tuple[int, str]:
    """Return a part without the spaces around it, and where it begins."""
    part = form[group]
    return form.start(group) + len(part) - len(part.lstrip()), part.strip()


def _metric(at: int, name: str) -> tuple[Unit | None, list[_Wrong]]:
    try:
        return parsed(name).unit, []
    except ValueError:
        pass
    known = ", ".join(KINDS)
    if not name:
        return None, [_Wrong(at, "expected the name of a metric", f"one of {known}")]
    kind = re.split(r"[\[.]", name, maxsplit=1)[0]
    if kind in KINDS:
        where = f"{kind}[KEY]" + {"command": ".wall", "kernel": ".NAME"}.get(kind, "")
        part = _cut(name[len(kind) :])
        hint = f"write {where}, where KEY is a command's name or number"
        return None, [_Wrong(at + len(kind), f"{part!r} is no part", hint)]
    close = difflib.get_close_matches(kind, KINDS, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known are {known}"
    return None, [_Wrong(at, f"{_cut(kind)!r} is no metric", hint)]


def _limit(
    at: int, text: str, above: bool, unit: Unit | None
) -> tuple[float, bool, list[_Wrong]]:
    """Return a limit, and whether it is relative; ``unit`` is None if unknown."""
    if text.startswith("="):
        hint = "a limit itself never fails: write > or < alone"
        return 0, False, [_Wrong(at, "'=' has no place here", hint)]
    if text.endswith("%"):
        ratio, wrong = _relative(at, text[:-1].rstrip(), above)
        return ratio, True, wrong
    value = _absolute(text, unit)
    if value is None:
        what = f"{_cut(text)!r} is no limit" if text else "expected a limit"
        hint = f"write {_EXAMPLES[unit]}"
        if unit in _UNITS and _NUMBER.fullmatch(text):
            hint = f"write {text}% or {text}{_UNITS[unit]}"
        return 0, False, [_Wrong(at, what, hint)]
    if unit is Unit.SHARE and value > 1:
        what = f"{text} is no share"
        return 0, False, [_Wrong(at, what, "write one from 0 to 1")]
    return value, False, []


_EXAMPLES = {
    Unit.SECONDS: "a percentage such as 3%, or a time such as 0.5s or 20ms",
    Unit.BYTES: "a percentage such as 10%, or a size such as 2GiB",
    Unit.SHARE: "a share from 0 to 1 such as 0.85, or a percentage such as -1%",
    None: "a percentage such as 3%, or a value with its unit",
}
_UNITS: dict[Unit | None, str] = {Unit.SECONDS: "s", Unit.BYTES: "MiB"}


def _relative(at: int, text: str, above: bool) -> tuple[float, list[_Wrong]]:
    size = text.removeprefix("-") if text.startswith("-") else text.removeprefix("+")
    if not _NUMBER.fullmatch(size):
        hint = "write a number before the %, such as 3%"
        return 0, [_Wrong(at, f"{_cut(text + '%')!r} is no percentage", hint)]
    falls = text.startswith("-")
    if above and falls:
        hint = f"a rise is written >{size}%, a fall <-{size}%"
        return 0, [_Wrong(at, "a rise is never negative", hint)]
    if not above and not falls:
        hint = f"a fall is written <-{size}%, and what a value must reach without %"
        return 0, [_Wrong(at, "a fall is always negative", hint)]
    if falls and float(size) >= 100:
        return 0, [_Wrong(at, "nothing falls by more than 100 %", "write less")]
    return 1 + (float(size) / 100 if above else -float(size) / 100), []


def _absolute(text: str, unit: Unit | None) -> float | None:
    """Return a value; None if it is none, or a time or a size without its unit."""
    if _NUMBER.fullmatch(text):
        return None if unit in _UNITS else float(text)
    if unit is Unit.SECONDS:
        return quantities.duration_s(text)
    return quantities.size_bytes(text) if unit is Unit.BYTES else None


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_QUOTED else f"{text[:_LONGEST_QUOTED]}..."

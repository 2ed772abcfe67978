"""Figures as text: names shortened, results told good from bad."""

from __future__ import annotations

import math
import re
from datetime import datetime
from enum import StrEnum

from msgspec.structs import replace

from runner.core import (
    LIMITS,
    Command,
    CommandRecord,
    GitState,
    GpuProcess,
    GpuState,
    ImagePlan,
    ImageUsed,
    Limits,
    Outcome,
    Reason,
    State,
    quantities,
)
from runner.core.build_spec import Check
from runner.core.quantities import brief, size
from runner.core.record import Spread
from runner.figures.table import one_line
from runner.report.blocks import Table

GAP = 2
"""The number of spaces between two columns."""

NARROWEST = 16
_LEAST_ARGUMENTS = 8
"""Fewer characters of template arguments are not worth showing."""


def fitted(table: Table, width: int) -> Table:
    """Shorten the table's names so that its lines are no wider than ``width``."""
    columns = range(len(table.heads))
    widest = [
        max(map(len, each)) for each in zip(table.heads, *table.rows, strict=True)
    ]
    others = sum(widest[i] + GAP for i in columns if i not in table.names)
    room = max(NARROWEST, width - others)
    rows = tuple(
        tuple(shortened(c, room) if i in table.names else c for i, c in enumerate(row))
        for row in table.rows
    )
    return replace(table, rows=rows)


def shortened(name: str, width: int) -> str:
    """Shorten a function's name to ``width``; drop the least important parts first.

    These are, in order: the parameters, ``void``, the end of the template arguments,
    the namespaces, and the end of the name itself.
    """
    if len(name) <= width:
        return name
    body, parameters = _split(name, "()")
    tail = "(...)" if parameters else ""
    if len(body) + len(tail) > width:
        body = body.removeprefix("void ")
    if len(body) + len(tail) <= width:
        return body + tail
    function, arguments = _split(body, "<>")
    own = function.rpartition("::")[2] if "<" not in function else function
    for head in (function, own):
        room = width - len(head) - len("<...>") - len(tail)
        if arguments and room >= 0:
            kept = arguments[:room].rstrip(", ") if room >= _LEAST_ARGUMENTS else ""
            return f"{head}<{kept}...>{tail}"
        if not arguments and len(head) + len(tail) <= width:
            return head + tail
    return f"{own[: width - 3]}..."


def _split(text: str, brackets: str) -> tuple[str, str]:
    """Split off the contents of the brackets at the end; "" if there are none."""
    depth = 0
    for place in range(len(text) - 1, -1, -1):
        depth += (text[place] == brackets[1]) - (text[place] == brackets[0])
        if depth == 0:
            inner = text[place + 1 : -1]
            return (text[:place], inner) if inner else (text, "")
    return text, ""


class Sign(StrEnum):
    """What a value means for the reader; each display shows it in its own way."""

    NONE = ""
    GOOD = "good"
    BAD = "bad"
    CARE = "care"
    FAINT = "faint"


_RESULTS = frozenset(
    {"outcome", "state", "status", "reason", "result", "answer", "answers"}
)
_GOOD = frozenset({"ok", "done", "passed", "right", "correct", "there", Outcome.OK})
_FAINT = frozenset({Outcome.SKIPPED.value, State.QUEUED.value, "older"})
_BAD = frozenset(
    {
        *(Outcome.FAILED, Outcome.UNFINISHED, State.LOST),
        *("wrong", "no", "not", "missing", "none", "error", "cannot"),
    }
)
_VERDICTS = {
    "faster": Sign.GOOD,
    "slower": Sign.BAD,
    "not comparable": Sign.CARE,
    "inconclusive": Sign.FAINT,
    "not enough samples": Sign.FAINT,
}
_CARE = ("warning", "missing data", "note", "not accepted", "never ranked")
_ENDS = tuple(reason.value for reason in Reason if reason is not Reason.DONE)
_WORD = re.compile(r"[a-z_]+")


def sign(head: str, value: str) -> Sign:
    """Return what a value below a head means."""
    if head == "exit":
        return Sign.NONE if not value else Sign.GOOD if value == "0" else Sign.BAD
    if head == "verdict":
        return _VERDICTS.get(value, Sign.NONE)
    if head in _CARE:
        return Sign.CARE
    if head not in _RESULTS:
        return Sign.NONE
    found = _WORD.match(value)
    word = found.group() if found else ""
    if head == "state" and word == State.DONE:
        return Sign.NONE  # it ended, well or badly
    if value.lower().replace(" ", "_").startswith(_ENDS):
        return Sign.BAD
    for words, meaning in ((_GOOD, Sign.GOOD), (_BAD, Sign.BAD), (_FAINT, Sign.FAINT)):
        if word in words:
            return meaning
    return Sign.NONE


def seconds(value: float | None) -> str:
    """Format a time span: 0.012 s, 4.2 s, 3 min 20 s."""
    if value is None:
        return ""
    if value < 1:
        return f"{value:.3f} s"
    if value < 120:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def spread(found: Spread | None) -> str:
    """Return a median, and the ends if there were several rounds."""
    if found is None:
        return ""
    ends = dict.fromkeys((brief(found.smallest), brief(found.largest)))
    around = f" ({' to '.join(ends)})" if len(ends) > 1 else ""
    return f"{brief(found.median)}{around}"


def titled(name: str | None, command: str) -> str:
    """Return a command's first line, after its name if it has one."""
    line = one_line(command)
    return f"{name}: {line}" if name else line


def in_round(command: CommandRecord) -> str:
    """Describe the round of a repeat, after other words; "" for the first one."""
    return f" in round {command.round + 1}" if command.round else ""


def words(reason: Reason) -> str:
    """Return a reason as words."""
    return reason.value.replace("_", " ").replace("gpu", "GPU")


def late_text(late_s: float) -> str:
    """Return how late something is, in minutes that have begun; "" if it is not."""
    return quantities.duration_text(60.0 * math.ceil(late_s / 60)) if late_s else ""


def allowed(reason: Reason, command: Command, limits: Limits, wall_s: float) -> str:
    """Describe the limit that a command exceeded, and its value."""
    own_s = command.timeout_s
    if reason is Reason.TIME_LIMIT and own_s is not None and own_s <= wall_s:
        return f"exceeded its timeout of {quantities.duration_text(own_s)}"
    limit = next((limit for limit in LIMITS if limit.reason is reason), None)
    return reason.met.format(limit.written(limits)) if limit else ""


def mismatch(check: Check) -> str:
    """Describe a check that does not hold: what was expected and found, and where."""
    found = f", found {check.found}" if check.found else ", which was not printed"
    where = f" ({check.place})" if check.place else ""
    return f"expected {check.expected}{found}{where}"


def condition(state: GpuState) -> list[str]:
    """Describe a GPU's state: clock, temperature, power, throttling and problem."""
    facts = []
    if state.sm_clock_mhz is not None:
        most = state.sm_clock_most_mhz
        of = f" of {most}" if most is not None else ""
        facts.append(f"{state.sm_clock_mhz}{of} MHz")
    if state.temperature_c is not None:
        facts.append(f"{state.temperature_c} °C")
    if state.power_w is not None:
        facts.append(f"{state.power_w:.0f} W")
    if state.throttle:
        facts.append(f"throttled: {', '.join(state.throttle)}")
    return [*facts, state.problem] if state.problem else facts


def processes(found: tuple[GpuProcess, ...]) -> str:
    """List processes, each with its id and memory."""
    return ", ".join(
        f"{p.name or 'process'} ({p.pid}{'' if p.memory_bytes is None else ', '}"
        f"{size(p.memory_bytes)})"
        for p in found
    )


def named_by(image: ImageUsed | ImagePlan) -> str:
    """Describe what named an image in place of the build file's; "" if nothing did."""
    if not image.named_by:
        return ""
    return f"named by {image.named_by}, in place of " + (
        image.asked or "one that the project builds"
    )


def ago(span_s: float) -> str:
    """Format how long ago something was."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if span_s >= length:
            return f"{int(span_s // length)} {unit} ago"
    return "just now"


def commit(state: GitState | None) -> str:
    """Describe a project's commit, and whether its files differ from it."""
    return state.commit[:12] + _CHANGED[state.dirty] if state else ""


_CHANGED = {True: ", with changes", False: "", None: ", changes unknown"}


def date(at: float) -> str:
    """Format a time as a date of this machine's time zone: 2026-11-22 07:02:44."""
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def day(at: float, now: float) -> str:
    """Format a time to the minute; with its year if that is not this one."""
    then = datetime.fromtimestamp(at).astimezone()
    this = then.year == datetime.fromtimestamp(now).astimezone().year
    return then.strftime("%b %d %H:%M" if this else "%Y-%m-%d %H:%M")


def elsewhere(run_id: str, away: str) -> str:
    """Report that a run's machine cannot be seen from this one, and what to do."""
    return (
        f"whether it still runs on {away} cannot be seen from here; if that machine is"
        f" gone for good, remove the run: rai rm --force {run_id}"
    )

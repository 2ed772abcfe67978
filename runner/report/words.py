"""Figures as text."""

from __future__ import annotations

from datetime import datetime

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
    Reason,
    quantities,
)
from runner.core.expectations import Check
from runner.core.quantities import brief
from runner.core.samples import Spread
from runner.figures.commands import one_line


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


def size(value: float | None) -> str:
    """Format a number of bytes with a binary unit."""
    if value is None:
        return ""
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


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

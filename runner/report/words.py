"""A report's words for figures."""

from __future__ import annotations

from runner.core import (
    Command,
    GpuProcess,
    GpuState,
    Inference,
    Limits,
    Reason,
)


def seconds(value: float | None) -> str:
    """Write a time span as a person would: 0.012 s, 4.2 s, 3 min 20 s."""
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


def brief(value: float | None) -> str:
    """Write a short time to four digits, as profilers do: 992.0 ns, 16.60 ms."""
    if value is None:
        return ""
    for unit, scale in (("ns", 1e9), ("us", 1e6), ("ms", 1e3)):
        if value * scale < 999.95:
            return f"{value * scale:#.4g} {unit}"
    return f"{value:#.4g} s" if value < 999.95 else f"{value:.0f} s"


def size(value: float | None) -> str:
    """Write a number of bytes with a binary unit."""
    if value is None:
        return ""
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def one_line(command: str) -> str:
    """Give a command's first line, and a sign of more."""
    first, more, _ = command.partition("\n")
    return f"{first} ..." if more else first


def words(reason: Reason) -> str:
    """Write a reason as a person would say it."""
    return reason.value.replace("_", " ").replace("gpu", "GPU")


def allowed(reason: Reason, command: Command, limits: Limits, wall_s: float) -> str:
    """Say which limit a command met, and what it was."""
    own = command.timeout_s is not None and command.timeout_s <= wall_s
    match reason:
        case Reason.TIME_LIMIT if own:
            return f"took longer than its own timeout, {seconds(command.timeout_s)}"
        case Reason.TIME_LIMIT:
            return f"took the run past its limit, {seconds(limits.time_s)}"
        case Reason.MEMORY_LIMIT:
            return f"needed more memory than {size(limits.memory_bytes)}"
        case Reason.OUTPUT_LIMIT:
            return f"wrote more than {size(limits.output_bytes)} to one stream"
        case Reason.DISK_LIMIT:
            return f"wrote more than {size(limits.disk_bytes)} to the build folder"
        case Reason.PIDS_LIMIT:
            return f"needed more than {limits.pids} processes"
        case _:
            return ""


def condition(state: GpuState) -> list[str]:
    """Say how a GPU stood: its clock, temperature and power, and what holds it back."""
    said = []
    if state.sm_clock_mhz is not None:
        most = state.sm_clock_most_mhz
        of = f" of {most}" if most is not None else ""
        said.append(f"{state.sm_clock_mhz}{of} MHz")
    if state.temperature_c is not None:
        said.append(f"{state.temperature_c} °C")
    if state.power_w is not None:
        said.append(f"{state.power_w:.0f} W")
    if state.throttle:
        said.append(f"held back by {', '.join(state.throttle)}")
    return [*said, state.problem] if state.problem else said


def processes(found: tuple[GpuProcess, ...]) -> str:
    """List programs, each with its process id and memory."""
    return ", ".join(
        f"{p.name or 'process'} ({p.pid}{'' if p.memory_bytes is None else ', '}"
        f"{size(p.memory_bytes)})"
        for p in found
    )


def ago(span_s: float) -> str:
    """Write how long ago something was."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if span_s >= length:
            return f"{int(span_s // length)} {unit} ago"
    return "just now"


def outcome(inference: Inference) -> str:
    """Say what an inference's answer was; a synthetic one never as an accuracy."""
    if inference.agreement is not None:
        return f"agreement {inference.agreement:g} (synthetic)"
    if inference.correctness is not None:
        return f"correctness {inference.correctness:g}"
    if inference.accuracy is not None:
        return f"accuracy {inference.accuracy:g}"
    return ""

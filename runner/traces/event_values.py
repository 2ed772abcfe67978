"""The values of trace events, as bounded numbers and words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import overload

from runner.traces.event_stream import EventArgs, Number
from runner.traces.words import LONGEST_TITLE, dimensions, spelled, triple, whole

GPU_PID = 1 << 22
"""nvprof's trace numbers GPUs as processes from here."""

Detail = (
    tuple[
        int,
        tuple[int, int, int],
        tuple[int, int, int],
        int | None,
        int | None,
        int | None,
    ]
    | int
    | None
)
"""GPU, grid, block, registers, static and dynamic shared memory; or bytes."""


def facts(detail: Detail) -> Iterator[tuple[str, str]]:
    """Yield what is shown of a span's configuration, label and words."""
    if isinstance(detail, int):
        yield "size", spelled(detail, "bytes")
    if not isinstance(detail, tuple):
        return
    _, grid, block, registers, static, dynamic = detail
    yield "grid", dimensions(grid)
    yield "block", dimensions(block)
    for label, value, how in (
        ("registers", registers, "number"),
        ("static shared memory", static, "bytes"),
        (
            "shared memory" if static is None else "dynamic shared memory",
            dynamic,
            "bytes",
        ),
    ):
        if value is not None:
            yield label, spelled(value, how)


def launch(args: EventArgs, pid: Number) -> Detail:
    """Return a launch's configuration, or a copy's bytes."""
    grid, block = args.grid, args.block
    if grid is None or block is None:
        return whole(args.bytes)
    gpu = args.device
    if gpu is None:
        gpu = pid - GPU_PID if isinstance(pid, int) and pid >= GPU_PID else 0
    shared = args.dynamic_shared if args.shared is None else args.shared
    return (
        whole(gpu) or 0,
        triple(grid),
        triple(block),
        whole(args.registers),
        whole(args.static_shared),
        whole(shared),
    )


def stream_title(args: EventArgs) -> str:
    """Return the title of a stream, "" if the event does not say."""
    if args.device is None or args.stream is None:
        return ""
    return f"GPU {args.device}, stream {short(args.stream)}"


@overload
def short(value: int | str | None) -> int | str | None: ...
@overload
def short(value: Number) -> Number: ...
def short(value: Number) -> Number:
    """Return what tells processes or threads apart, bounded."""
    return value[:LONGEST_TITLE] if isinstance(value, str) else value


def nanoseconds(value: Number, most: float) -> int | None:
    """Return a time of microseconds in nanoseconds, None for one that cannot be."""
    if isinstance(value, str):
        value = _float(value)
    if value is None or not 0 <= value <= most:
        return None
    return int(value * 1000 + 0.5)


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None

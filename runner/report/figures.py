"""The findings in a program's output, as blocks."""

from __future__ import annotations

from runner.core import Findings, Inference, TimeUsage
from runner.report.blocks import Block, Table
from runner.report.profiles import profile
from runner.report.words import outcome, size


def figures(found: Findings) -> list[Block]:
    """Return all findings in a program's output: figures, and faults of a GPU."""
    return [*printed(found), *map(profile, found.profiles), *faults(found)]


def printed(found: Findings) -> list[Block]:
    """Return the figures that networks, time and memory checkers printed."""
    blocks: list[Block] = []
    if found.inferences:
        blocks.append(_inferences(found.inferences))
    if found.time_usage:
        rows = tuple(_usage(u) for u in found.time_usage)
        heads = ("user", "system", "elapsed", "peak memory")
        blocks.append(Table("Time", heads, rows, frozenset({0, 1, 2, 3})))
    if found.memory_errors:
        counts = tuple((str(errors),) for errors in found.memory_errors)
        blocks.append(Table("Memory checks", ("errors",), counts, frozenset({0})))
    return blocks


def faults(found: Findings) -> list[Block]:
    """Return the GPU faults that the program reported."""
    rows = tuple((f.kind.words, f.line) for f in found.gpu_faults)
    return [Table("GPU faults", ("what", "as it was printed"), rows)] if rows else []


def _inferences(found: tuple[Inference, ...]) -> Table:
    """Return the table of inferences, with layer times if any has them."""
    layers = any(one.layer_times_s for one in found)
    heads = ("model", "op times", "sum", *(("layer times",) if layers else ()))
    rows = tuple(
        (
            one.model or "",
            _sum(one.op_times_s),
            f"{sum(one.op_times_s):.6f} s" if one.op_times_s else "",
            *((_sum(one.layer_times_s),) if layers else ()),
            outcome(one),
        )
        for one in found
    )
    numbers = frozenset(range(1, len(heads)))
    return Table("Inferences", (*heads, "result"), rows, numbers)


def _sum(times: tuple[float, ...]) -> str:
    return " + ".join(f"{time:.6f}" for time in times)


def _usage(usage: TimeUsage) -> tuple[str, ...]:
    peak = None if usage.max_rss_kb is None else 1024 * usage.max_rss_kb
    times = (usage.user_s, usage.system_s, usage.elapsed_s)
    return (*(f"{t:.2f} s" for t in times), size(peak))

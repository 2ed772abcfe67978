"""What was found in a program's output, as blocks."""

from __future__ import annotations

from runner.core import Findings, Inference, TimeUsage
from runner.report.blocks import Block, Table
from runner.report.profiles import profile
from runner.report.words import outcome, size


def figures(found: Findings) -> list[Block]:
    """Give what was found in a program's output: figures, and faults of a GPU."""
    return [*printed(found), *map(profile, found.profiles), *faults(found)]


def printed(found: Findings) -> list[Block]:
    """Give what the networks printed, and the time that was measured."""
    blocks: list[Block] = []
    if found.inferences:
        rows = tuple(_inference(i) for i in found.inferences)
        heads = ("model", "op times", "sum", "result")
        blocks.append(Table("Inferences", heads, rows, frozenset({1, 2})))
    if found.time_usage:
        rows = tuple(_usage(u) for u in found.time_usage)
        heads = ("user", "system", "elapsed", "peak memory")
        blocks.append(Table("Time", heads, rows, frozenset({0, 1, 2, 3})))
    return blocks


def faults(found: Findings) -> list[Block]:
    """Give what was told of faults of a GPU."""
    rows = tuple((f.kind.words, f.line) for f in found.gpu_faults)
    return [Table("GPU faults", ("what", "as it was printed"), rows)] if rows else []


def _inference(inference: Inference) -> tuple[str, ...]:
    times = inference.op_times_s
    return (
        inference.model or "",
        " + ".join(f"{t:.6f}" for t in times),
        f"{sum(times):.6f} s" if times else "",
        outcome(inference),
    )


def _usage(usage: TimeUsage) -> tuple[str, ...]:
    peak = None if usage.max_rss_kb is None else 1024 * usage.max_rss_kb
    times = (usage.user_s, usage.system_s, usage.elapsed_s)
    return (*(f"{t:.2f} s" for t in times), size(peak))

"""The findings in a program's output, as blocks."""

from __future__ import annotations

from runner.core import Findings, Inference, Source, TimeUsage
from runner.report.blocks import Block, Pairs, Table
from runner.report.profiles import profile
from runner.report.words import outcome, size


def figures(found: Findings) -> list[Block]:
    """Return all findings in a program's output: figures, and faults of a GPU."""
    return [
        *(*_commands(found), *printed(found)),
        *(*map(profile, found.profiles), *faults(found)),
    ]


def printed(found: Findings) -> list[Block]:
    """Return the figures that networks, time and memory checkers printed."""
    blocks: list[Block] = []
    if found.inferences:
        blocks.append(_inferences(found.inferences))
    if found.time_usage:
        heads = ("user", "system", "elapsed", "peak memory")
        rows = [_usage(usage) for usage in found.time_usage]
        sources = [usage.source for usage in found.time_usage]
        blocks.append(_sourced("Time", heads, rows, sources, {0, 1, 2, 3}))
    if found.memory_errors:
        counts = tuple((str(errors),) for errors in found.memory_errors)
        blocks.append(Table("Memory checks", ("errors",), counts, frozenset({0})))
    if missing := incomplete(found):
        blocks.append(Pairs((("incomplete", missing),)))
    return blocks


def incomplete(found: Findings) -> str:
    """Return what is not among the figures of an output; "" if they all are."""
    parts = []
    if found.unsearched:
        parts.append(f"{size(found.unsearched)} of the output were not searched")
    if found.left_out:
        parts.append(f"{found.left_out} figures are left out, as there are too many")
    return "; ".join(parts)


def faults(found: Findings) -> list[Block]:
    """Return the GPU faults that the program reported."""
    rows = tuple((f.kind.words, f.line) for f in found.gpu_faults)
    return [Table("GPU faults", ("what", "as it was printed"), rows)] if rows else []


def _inferences(found: tuple[Inference, ...]) -> Table:
    """Return the table of inferences, with layer times if any has them."""
    layers = any(one.layer_times_s for one in found)
    heads = ("model", "op times", "sum", *(("layer times",) if layers else ()))
    rows = [
        (
            one.model or "",
            _sum(one.op_times_s),
            f"{sum(one.op_times_s):.6f} s" if one.op_times_s else "",
            *((_sum(one.layer_times_s),) if layers else ()),
            outcome(one),
        )
        for one in found
    ]
    sources = [one.source for one in found]
    numbers = set(range(1, len(heads)))
    return _sourced("Inferences", (*heads, "result"), rows, sources, numbers)


def _sourced(
    title: str,
    heads: tuple[str, ...],
    rows: list[tuple[str, ...]],
    sources: list[Source],
    right: set[int],
) -> Table:
    """Return a table of figures with what they are of: what is known of any."""
    about = [_about(source) for source in sources]
    known = [i for i in range(len(_ABOUT)) if any(cells[i] for cells in about)]
    before = [i for i in known if i < _UNDER]
    after = [i for i in known if i == _UNDER]

    def cells(one: tuple[str, ...], row: tuple[str, ...]) -> tuple[str, ...]:
        return (*(one[i] for i in before), *row, *(one[i] for i in after))

    numbers = {n for n, i in enumerate(before) if _ABOUT[i] in ("#", "batch")}
    return Table(
        title,
        cells(_ABOUT, heads),
        tuple(cells(one, row) for one, row in zip(about, rows, strict=True)),
        frozenset(numbers | {len(before) + i for i in right}),
    )


_ABOUT = ("#", "variant", "batch", "under")
_UNDER = _ABOUT.index("under")


def _about(source: Source) -> tuple[str, ...]:
    numbers = (source.number, source.batch_size)
    number, size = ("" if n is None else str(n) for n in numbers)
    return (number, source.variant, size, ", ".join(source.under))


def _commands(found: Findings) -> list[Block]:
    """Return the commands that a log names before their output."""
    sources = [
        *(one.source for one in found.inferences),
        *(one.source for one in found.time_usage),
        *(one.source for one in found.profiles),
    ]
    named = {source.number: source.command for source in sources}
    rows = sorted((n, command) for n, command in named.items() if n is not None)
    cells = tuple((str(number), command) for number, command in rows)
    return [Table("Commands", ("#", "command"), cells, frozenset({0}))] if rows else []


def _sum(times: tuple[float, ...]) -> str:
    return " + ".join(f"{time:.6f}" for time in times)


def _usage(usage: TimeUsage) -> tuple[str, ...]:
    peak = None if usage.max_rss_kb is None else 1024 * usage.max_rss_kb
    times = (usage.user_s, usage.system_s, usage.elapsed_s)
    return (*(f"{t:.2f} s" for t in times), size(peak))

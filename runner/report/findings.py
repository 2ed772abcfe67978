"""Figures and a measured submission as blocks."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from runner.core import (
    Findings,
    ProfileFile,
    ProfileRow,
    ProfileTable,
    RunRecord,
    Source,
    TimeUsage,
)
from runner.core.measurement import (
    MeasuredEntry,
    MeasuredLayer,
    Measurement,
)
from runner.core.milestone import TIMED_BY, Trust
from runner.core.quantities import brief, size
from runner.figures import table
from runner.figures.table import NetworkFigures, one_line
from runner.report.blocks import Block, Pairs, Table, filled
from runner.report.phrases import date, seconds, spread

_READERS = {"nvprof": "nvprof -i", "nsys": "nsys stats"}

MOST = 90.0
"""The shown rows of a profile take together more than this share of the time."""


def figures(found: Findings) -> list[Block]:
    """Return all findings in a program's output: figures, and faults of a GPU."""
    sources = [one.source for one in found.inferences]
    sources += [one.source for one in found.time_usage]
    sources += [one.source for one in found.profiles]
    named = {source.number: source.command for source in sources}
    rows = sorted((n, command) for n, command in named.items() if n is not None)
    cells = [(str(number), command) for number, command in rows]
    blocks: list[Block] = []
    if cells:
        blocks.append(filled("Commands", ("#", "command"), cells, ("#",)))
    usages = [(one.source.number or 0, one) for one in found.time_usage]
    return [*blocks, *shown(found, table.networks_of(found), usages)]


def shown(
    found: Findings,
    networks: Sequence[NetworkFigures],
    usages: Sequence[tuple[int, TimeUsage]],
    files: Sequence[Table] = (),
) -> list[Block]:
    """Return the tables of the figures, of profiles and their files, and of faults.

    ``usages`` come with the numbers of their commands, 0 where that is not known.
    """
    blocks = [*_networks(networks), *_times(usages)]
    if found.memory_errors:
        counts = [(str(errors),) for errors in found.memory_errors]
        blocks.append(filled("Memory checks", ("errors",), counts, ("errors",)))
    if missing := incomplete(found):
        blocks.append(Pairs((("incomplete", missing),)))
    faults = [(f.kind.words, f.line) for f in found.gpu_faults]
    blocks += [*map(profile, found.profiles), *files]
    if faults:
        blocks.append(filled("GPU faults", ("what", "as it was printed"), faults))
    return blocks


def incomplete(found: Findings) -> str:
    """Return what is not among the figures of an output; "" if they all are."""
    parts = []
    if found.unsearched:
        parts.append(f"{size(found.unsearched)} of the output were not searched")
    if found.left_out:
        parts.append(f"{found.left_out} figures are left out, as there are too many")
    return "; ".join(parts)


def _networks(networks: Sequence[NetworkFigures]) -> list[Block]:
    heads = ("#", "model", "variant", "images", "op times", "sum", "layer times")
    rows = [
        (
            str(one.number or ""),
            one.model,
            one.variant,
            str(one.images or ""),
            " + ".join(brief(time.median) for time in one.op_times_s),
            spread(one.op_time_s) if len(one.op_times_s) > 1 else "",
            " + ".join(brief(time.median) for time in one.layer_times_s),
            one.result,
            ", ".join(one.under),
        )
        for one in networks
    ]
    numbers = ("#", "images", *heads[4:])
    all_heads = (*heads, "result", "under")
    return [filled("Inferences", all_heads, rows, numbers)] if rows else []


def _times(usages: Sequence[tuple[int, TimeUsage]]) -> list[Block]:
    """Return what programs printed of their times, each time that one did."""
    cells = [
        (
            str(number or ""),
            *map(brief, (one.user_s, one.system_s, one.elapsed_s)),
            size(None if one.max_rss_kb is None else 1024 * one.max_rss_kb),
        )
        for number, one in usages
    ]
    heads = ("#", "user", "system", "elapsed", "peak memory")
    return [filled("Time", heads, cells, heads)] if cells else []


def profile_files(record: RunRecord) -> list[Table]:
    """Return the files that profilers wrote, with the command that reads each."""
    rows = [
        (str(c.index + 1), file.path, size(file.size_bytes), _reader(record.id, file))
        for c in record.commands
        for file in c.profile_files
    ]
    heads = ("#", "file", "size", f"after `rai pull {record.id}`")
    return [filled("Profiles", heads, rows, ("#", "size"))] if rows else []


def _reader(run_id: str, file: ProfileFile) -> str:
    ncu = file.tool == "ncu" or file.path.endswith(".ncu-rep")
    program = "ncu -i" if ncu else _READERS.get(file.tool, file.tool)
    return f"{program} {shlex.quote(f'build-{run_id}/{file.path}')}"


def profile(found: ProfileTable) -> Table:
    """Return the rows that take most of the time, with a running sum, and the rest.

    The rest is summed up in one row; a single row is shown as it is.
    """
    ordered = sorted(found.rows, key=lambda row: -row.percent)
    count = until([row.percent for row in ordered])
    if len(ordered) - count == 1:
        count += 1
    rows, reached = [], 0.0
    rest = [summed(ordered[count:])] if ordered[count:] else []
    for row in (*ordered[:count], *rest):
        reached += row.percent
        times = (f"{row.percent:.2f} %", f"{min(reached, 100.0):.2f} %")
        cells = (brief(row.total_s), str(row.calls), brief(row.avg_s), row.name)
        rows.append((*times, *cells))
    heads = ("time", "sum", "total", "calls", "average", "name")
    title = f"{found.tool}: {found.section}{_whose(found.source)}"
    return Table(title, heads, tuple(rows), frozenset(range(5)), frozenset({5}))


def _whose(source: Source) -> str:
    """Return what a table is of, for its title."""
    about = [f"variant {source.variant}"] if source.variant else []
    about += [f"batch {source.batch_size}"] if source.batch_size is not None else []
    more = f" ({', '.join(about)})" if about else ""
    if source.number is None:
        return more
    return f" of command {source.number}, `{one_line(source.command)}`{more}"


def until(percents: Sequence[float]) -> int:
    """Return how many shares, the largest first, together pass what is shown."""
    reached = 0.0
    for count, percent in enumerate(percents, 1):
        reached += percent
        # Rounding keeps a sum of printed percentages that is 90 from exceeding 90.
        if round(reached, 9) > MOST:
            return count
    return len(percents)


def summed(rest: Sequence[ProfileRow]) -> ProfileRow:
    """Return one row for those that are not shown."""
    return ProfileRow(
        f"and {len(rest)} more",
        sum(row.percent for row in rest),
        sum(row.total_s for row in rest),
        sum(row.calls for row in rest),
    )


_ENTRY = ("variant", "result", "time", "ratio", "95 % interval", "scored")
_UNTIMED = 2
"""The columns of an entry without a time."""

_LAYER = ("variant", "layer", "time", "reference", "floor", "error")
_CLOCKS = ("variant", "layer", "samples", "median", "to", "reference", "median", "to")


def measured(found: Measurement) -> list[Block]:
    """Return the outcome as blocks: the submission, each entry, why it does not count.

    A variant that is wrong has no time.
    """
    blocks: list[Block] = [Pairs(tuple(row for row in _head(found) if row[1]))]
    if found.entries:
        shown = len(_ENTRY) if found.gpu else _UNTIMED
        shown = _UNTIMED + 1 if _by_staff(found) else shown
        rows = tuple(_entry(entry)[:shown] for entry in found.entries)
        blocks.append(Table("Variants", _ENTRY[:shown], rows, frozenset({2, 3, 4, 5})))
    pairs = [(e.variant, la) for e in found.entries if e.correct for la in e.layers]
    if pairs:
        rows = tuple(_layer(*pair) for pair in pairs)
        blocks.append(Table("Layers", _LAYER, rows, frozenset({2, 3, 4, 5})))
        rows = tuple(_clocks(*pair) for pair in pairs)
        title = "SM clocks during the samples and the references, in MHz"
        blocks.append(Table(title, _CLOCKS, rows, frozenset(range(2, 8))))
    if refused := tuple(_refused(found)):
        blocks.append(Pairs(refused))
    return blocks


def _head(found: Measurement) -> Iterator[tuple[str, str]]:
    """Yield the facts of a submission, "" for those that it does not have."""
    host = found.host
    title = f"{host.title} ({found.milestone})" if host else found.milestone
    yield "submission", f"{title}, class {found.accuracy}"
    if gpu := found.gpu:
        memory = size(gpu.memory_bytes or None)
        driver = f"driver {gpu.driver}" if gpu.driver else ""
        about = (gpu.name, found.architecture or "", memory, driver, gpu.uuid)
        yield "GPU", ", ".join(filter(None, about))
    yield "", _condition(found)
    if host is None:
        return
    yield "trust", TIMED_BY if _by_staff(found) else ""
    yield "date", date(host.at) if host.at else ""
    for name, run in host.runs.items():
        yield f"{name} run", run
    yield "engine", host.engine
    yield "image", host.image
    yield "commit", host.commit


def _by_staff(found: Measurement) -> bool:
    return found.host is not None and found.host.trust == Trust.TIMED


def _condition(found: Measurement) -> str:
    """Return temperature, power, throttling, and for how long the GPU was held."""
    facts = [
        f"{_span(before, after)} {unit}"
        for (before, after), unit in ((found.celsius, "°C"), (found.watts, "W"))
        if before is not None or after is not None
    ]
    if found.throttled:
        facts.append(f"throttled: {', '.join(found.throttled)}")
    if found.held_s:
        facts.append(f"held for {seconds(found.held_s)}")
    if found.waited_s >= 1:
        facts.append(f"after a wait of {seconds(found.waited_s)}")
    return ", ".join(facts)


def _span(before: float | None, after: float | None) -> str:
    values = [f"{value:.0f}" for value in (before, after) if value is not None]
    return " to ".join(dict.fromkeys(values))


def timed(
    ms: float | None, ratio: float | None, interval: tuple[float, float] | None
) -> tuple[str, str, str]:
    """Return the cells of a time, its ratio and the interval; "" for what is None."""
    low, high = interval or (0.0, 0.0)
    return (
        _ms(ms),
        "" if ratio is None else f"{ratio:.4f}",
        f"{low:.4f} to {high:.4f}" if interval else "",
    )


def _entry(entry: MeasuredEntry) -> tuple[str, ...]:
    figures = *timed(entry.ms, entry.ratio, entry.interval), _ms(entry.score_ms)
    shown = figures if entry.correct else ("",) * len(figures)
    return entry.variant, _result(entry), *shown


def _result(entry: MeasuredEntry) -> str:
    """Return "correct", or what is wrong first."""
    if entry.correct:
        return "correct" if entry.accepted else "not accepted"
    if entry.wrong is None:
        return "failed" if entry.fault else "not checked"
    image = entry.wrong.what == "y"
    return (
        f"wrong: image {entry.wrong.image}" if image else f"wrong: {entry.wrong.layer}"
    )


def _layer(variant: str, layer: MeasuredLayer) -> tuple[str, ...]:
    return (
        variant,
        layer.name,
        _ms(layer.ms),
        _ms(layer.reference_ms),
        _ms(layer.floor_ms or None),
        "" if layer.error is None else f"{layer.error:.1e}",
    )


def _clocks(variant: str, layer: MeasuredLayer) -> tuple[str, ...]:
    clocks = (*layer.sm_mhz, *layer.reference_mhz)
    # 0 is of a clock that is not known.
    return (variant, layer.name, *(f"{mhz:.0f}" if mhz else "" for mhz in clocks))


def _refused(found: Measurement) -> Iterator[tuple[str, str]]:
    """Yield why entries are not accepted, and why the outcome does not count."""
    for entry in found.entries:
        for sentence in entry.why:
            yield "not accepted", f"{entry.variant}: {sentence}"
    if not found.entries:
        yield "not accepted", "nothing was measured"
    for reason in found.host.why_not_ranked if found.host else ():
        yield "not counted", reason


def _ms(value: float | None) -> str:
    return brief(None if value is None else value / 1000)

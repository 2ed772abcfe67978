"""A measured submission as blocks: what was right, how fast, and whether it counts."""

from __future__ import annotations

from collections.abc import Iterator

from runner.core.measurement import (
    MeasuredEntry,
    MeasuredLayer,
    Measurement,
    MeasurementHost,
)
from runner.core.milestone import TIMED_BY, Trust
from runner.core.quantities import brief
from runner.report.blocks import Block, Pairs, Table
from runner.report.words import date, seconds, size

_UNKNOWN = 0.0
_ENTRY = ("variant", "result", "time", "ratio", "95 % interval", "scored")
_UNTIMED = 2
"""The columns of an entry without a time."""

_LAYER = ("variant", "layer", "time", "reference", "floor", "error")
_CLOCKS = ("variant", "layer", "samples", "median", "to", "reference", "median", "to")


def measured(found: Measurement) -> list[Block]:
    """Return the outcome as blocks: the submission, each entry, why it does not count.

    A variant that is wrong has no time.
    """
    blocks: list[Block] = [Pairs(tuple(_head(found)))]
    if found.entries:
        shown = len(_ENTRY) if found.gpu else _UNTIMED
        shown = _UNTIMED + 1 if _by_staff(found) else shown
        rows = tuple(_entry(entry)[:shown] for entry in found.entries)
        heads = _ENTRY[:shown]
        blocks.append(Table("Variants", heads, rows, frozenset({2, 3, 4, 5})))
    pairs = [(e.variant, la) for e in found.entries if e.correct for la in e.layers]
    if pairs:
        rows = tuple(_layer(*pair) for pair in pairs)
        blocks.append(Table("Layers", _LAYER, rows, frozenset({2, 3, 4, 5})))
        rows = tuple(_clocks(*pair) for pair in pairs)
        title = "SM clocks during the samples and the references, in MHz"
        blocks.append(Table(title, _CLOCKS, rows, frozenset(range(2, 8))))
    if refused := [*_refused(found), *_uncounted(found.host)]:
        blocks.append(Pairs(tuple(refused)))
    return blocks


def _head(found: Measurement) -> Iterator[tuple[str, str]]:
    host = found.host
    title = f"{host.title} ({found.milestone})" if host else found.milestone
    yield "submission", f"{title}, class {found.accuracy}"
    if gpu := found.gpu:
        memory = size(gpu.memory_bytes or None)
        driver = f"driver {gpu.driver}" if gpu.driver else ""
        about = (gpu.name, found.architecture or "", memory, driver, gpu.uuid)
        yield "GPU", ", ".join(filter(None, about))
    if condition := _condition(found):
        yield "", condition
    if host is None:
        return
    if _by_staff(found):
        yield "trust", TIMED_BY
    if host.at:
        yield "date", date(host.at)
    for name, run in host.runs.items():
        yield f"{name} run", run
    if host.engine:
        yield "engine", host.engine
    if host.image:
        yield "image", host.image
    if host.commit:
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
        _error(layer.error),
    )


def _clocks(variant: str, layer: MeasuredLayer) -> tuple[str, ...]:
    clocks = (*layer.sm_mhz, *layer.reference_mhz)
    shown = ("" if mhz == _UNKNOWN else f"{mhz:.0f}" for mhz in clocks)
    return (variant, layer.name, *shown)


def _refused(found: Measurement) -> Iterator[tuple[str, str]]:
    for entry in found.entries:
        for sentence in entry.why:
            yield "not accepted", f"{entry.variant}: {sentence}"
    if not found.entries:
        yield "not accepted", "nothing was measured"


def _uncounted(host: MeasurementHost | None) -> Iterator[tuple[str, str]]:
    if host is None:
        return
    for reason in host.why_not_ranked:
        yield "not counted", reason


def _ms(value: float | None) -> str:
    return brief(None if value is None else value / 1000)


def _error(value: float | None) -> str:
    return "" if value is None else f"{value:.1e}"

"""The layers of the networks that a project describes, and how fast each was."""

from __future__ import annotations

from collections.abc import Iterator

from runner.analysis import LayerAnalysis
from runner.core.kernel_shapes import LayeredNetwork, NetworkLayer
from runner.report.blocks import Table
from runner.report.document.commands import script
from runner.report.document.nouns import Report
from runner.report.document.tables import giga, of_run, with_runs
from runner.report.words import brief

MOST_NETWORKS = 20
MOST_RATES = 500


def shapes(report: Report) -> Iterator[Table]:
    """Yield the layers of each network, if only the batch differs of the largest."""
    alike: dict[object, list[tuple[str, LayeredNetwork]]] = {}
    for one in report.shapes:
        for network in one.networks:
            if network.layers:
                alike.setdefault(_without_batch(network), []).append((one.run, network))
    for every in list(alike.values())[:MOST_NETWORKS]:
        largest = max((n for _, n in every), key=lambda one: one.batch_size or 0)
        scripts = ", ".join(dict.fromkeys(n.script for _, n in every if n.script))
        title = f"{largest.name}: {scripts}" if scripts else largest.name
        runs = {run for run, _ in every}
        yield _shapes(
            title if len(runs) > 1 else of_run(report, runs.pop(), title), largest
        )


def _without_batch(network: LayeredNetwork) -> object:
    layers = tuple(
        (one.name, one.kind, one.input[1:], one.output[1:], one.weights)
        for one in network.layers
    )
    return network.name, layers


def _shapes(title: str, network: LayeredNetwork) -> Table:
    heads = ("layer", "kind", "input", "output", "weights", "operations", "bytes")
    rows = tuple(map(_layer, network.layers))
    return Table(title, heads, rows, frozenset({5, 6}))


def _layer(layer: NetworkLayer) -> tuple[str, ...]:
    return (
        layer.name,
        layer.kind,
        *(_shape(one) for one in (layer.input, layer.output, layer.weights)),
        _count(layer.flops),
        _count(layer.bytes),
    )


def _shape(sizes: tuple[int, ...]) -> str:
    return " x ".join(map(str, sizes))


def _count(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def rates(report: Report) -> Iterator[Table]:
    """Yield what each layer reached by its Op Time, and how near its bound that is."""
    found = [(one.run, layer) for one in report.layers for layer in one.layers]
    if not found:
        return
    heads = (
        *("script", "variant", "images", "layer", "Op Time", "GFLOP/s", "GB/s"),
        *("bound by", "of the bound"),
    )
    shown = found[:MOST_RATES]
    rows = tuple(_rate(layer) for _, layer in shown)
    right = frozenset({2, 4, 5, 6, 8})
    repeated = any(run.rounds > 1 for run in report.runs)
    title = f"Rates by Op Time{', of the first round' if repeated else ''}"
    table = Table(title, heads, rows, right)
    yield with_runs(report, table, [run for run, _ in shown])


def _rate(one: LayerAnalysis) -> tuple[str, ...]:
    return (
        script(one.command),
        one.variant,
        "" if one.batch_size is None else str(one.batch_size),
        one.layer,
        brief(one.op_time_s),
        giga(one.flops_per_s),
        giga(one.bytes_per_s),
        one.bound.by if one.bound else "",
        f"{one.bound.percent:.1f} %" if one.bound else "",
    )

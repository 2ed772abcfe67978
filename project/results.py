"""Write RESULTS.md from the measured rows.

python results.py [--gpu NAME] [--drop]

Rows that were measured with other code than that in the tree are left out.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import judged
from course.editions import EDITIONS
from course.errors import UsageError
from course.variants import RTOL, Variant, number, usual
from lab import code_hash, goals, ledger, trials
from lab.float64 import WORST, promised
from lab.goals import NONE, Result, model_ms
from lab.ledger import EMPTY, FORWARD, Row
from lab.measurement import BURST_MS, BURSTS
from lab.trials import IMAGES, LAYERS, MAIN
from milestones import milestone
from plans import kernels
from plans.kernels import VARIANTS

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "project" / "RESULTS.md"
PLOTS = ROOT / "docs" / "kernels"  # tools/plots.py draws them
GPU = "NVIDIA H200"  # the GPU of the goals
COLUMNS = (
    "* error: ||y - reference|| / ||reference|| against float64, the larger of both "
    "layers",
    "* by element: the worst |y - reference| / sum |x||k| of an output; class fp32 "
    f"keeps it at most {WORST:.0e}, but for kernels without that in the table above",
    "* MHz: the SM clock during the samples, least to most",
    "* times cuDNN: cuDNN's sum divided by ours, in the same class, measured in turns",
    "* share of model: the sum of the layers' times by a model, divided by the sum. By "
    "the model a layer takes its bytes divided by the rate of a copy, or its "
    "multiplications divided by the peak rate of their unit, whichever is longer. It "
    "is no bound: a kernel that mostly writes, or needs fewer multiplications than "
    "the formula, can exceed 100%.",
)
"""The columns of the table of variants that need an explanation."""
TURNS = (
    "In turns with cuDNN a kernel has a small share of the time, so the GPU is cool. "
    f"Back to back it is called for {BURSTS * BURST_MS / 1000:g} s, after as long a "
    "warm-up, with nothing between, and the L2 cache as the call before left it. MHz "
    "is the median SM clock during the samples."
)
FORWARD_TEXT = (
    "All layers, in turns with PyTorch, whose time is that of its fastest way: eager, "
    "compiled, compiled with `max-autotune`, in NCHW and NHWC, at few images also as "
    "a CUDA graph. Images and weights are on the GPU. Ours reads images as bytes, "
    "PyTorch as floats, four times as many bytes; the weights of our dense layer are "
    "split into halves once, untimed. `folded` is another network: the second "
    "convolution and the dense layer are multiplied beforehand, which PyTorch could "
    "do too."
)
ARCHITECTURES = {
    "sm_75": "T4",
    "sm_80": "A100",
    "sm_86": "RTX 3060",
    "sm_89": "RTX 4090",
    "sm_90": "H100, H200",
    "sm_100": "B200",
    "sm_120": "RTX 5090",
}
SIZES = (100, IMAGES)  # numbers of images for which it is said what serves

Table = list[Sequence[str]]


def wrapped(text: str) -> str:
    """Wrap a paragraph or a list item to 120 columns."""
    indent = "  " if text.startswith("* ") else ""
    filled = textwrap.fill(
        text,
        width=120,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return f"{filled}\n"


def table(rows: Table) -> str:
    """Format a Markdown table whose first row is the header."""
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def page(kept: Sequence[Row], gpu: str = GPU) -> str:
    """Return RESULTS.md of the rows that are kept."""
    rows = ledger.latest(kept, gpu)
    found = goals.results(rows)
    verdicts = judged.by_variant(rows)
    parts = [
        "# Results\n",
        wrapped(
            "`make results` writes this page from the rows in "
            "[measurements/](measurements); `make gpu` measures them, as described in "
            "[docs/kernels.md](../docs/kernels.md#what-a-time-means)."
        ),
        "## What serves where\n",
        wrapped(
            "The fastest kernels of each class by GPU, for both layers and two numbers "
            f"of images of {MAIN}; then what each supports of all editions' layers at "
            "these numbers. "
            "Other kernels serve the rest. Where nothing is measured, no kernel is "
            "known to be the fastest."
        ),
        table(serving_table(kept)),
        table(parts_table(kept)),
        f"## The variants, {IMAGES:,} images of {MAIN}\n",
        "Times are medians.\n",
        "".join(map(wrapped, (*COLUMNS, *([judged.COLUMN] if verdicts else ())))),
        table(ladder_table(found, VARIANTS, verdicts)),
        slower(found, VARIANTS),
        judged.refused(verdicts.values()),
        f"![The variants against the model]({_link(PLOTS / 'results.svg')})\n",
        "## The goals\n",
        table(goal_table(rows)),
        f"## In turns and back to back, {IMAGES:,} images of {MAIN}\n",
        wrapped(TURNS),
        table(turns_table(rows)),
        "## Every edition\n",
        f"The fastest of each class, {IMAGES:,} images.\n",
        table(edition_table(rows)),
        "## Batch sizes\n",
        *(
            f"An empty kernel takes {1000 * row['median_ms']:.3g} us.\n"
            for row in rows
            if row["what"] == EMPTY
        ),
        table(size_table(found)),
        f"![The time per image]({_link(PLOTS / 'sizes.svg')})\n",
        "## The forward pass\n",
        wrapped(FORWARD_TEXT),
        table(forward_table(rows)),
        "## The machine\n",
        *machine_lines(rows),
    ]
    return "\n".join(filter(None, parts))


def serving_table(kept: Iterable[Row]) -> Table:
    """Return the table of what computes each layer on each GPU."""
    shapes = {
        f"{layer.name}, {images:,}": replace(layer.shape, B=images)
        for images in SIZES
        for layer in list(trials.layers(EDITIONS[MAIN]))[: len(LAYERS)]
    }
    measured = {(r["machine"].get("architecture"), r["machine"]["gpu"]) for r in kept}
    alike: dict[tuple[str, ...], list[str]] = {}
    for accuracy, gpu in product(kernels.BEST, ARCHITECTURES):
        best = kernels.best(accuracy)
        there = usual(gpu)
        named = (
            NONE if best.refusal(s, there) else f"`{best.of(s, there).name}`"
            for s in shapes.values()
        )
        alike.setdefault((accuracy, *named), []).append(gpu)
    shown: Table = [["class", "GPU", *shapes, "measured on"]]
    for (accuracy, *named), gpus in alike.items():
        on = ", ".join(sorted(name for gpu, name in measured if gpu in gpus))
        served = ", ".join(f"{ARCHITECTURES[gpu]} ({gpu})" for gpu in gpus)
        shown.append([accuracy, served, *named, on or NONE])
    return shown


def parts_table(kept: Iterable[Row]) -> Table:
    """Return the table of what each choice of the fastest kernels supports."""
    heads = "kernel,class,GPUs,layers,not those where,by element,measured on"
    shown: Table = [heads.split(",")]
    layers = [replace(la.shape, B=n) for n in SIZES for la in trials.all_layers()]
    measured = {(r.get("part"), r["class"], r["machine"]["gpu"]) for r in kept}
    parts = [part for name in kernels.BEST.values() for part in VARIANTS[name].parts]
    for (name, accuracy), part in {(p.name, p.accuracy): p for p in parts}.items():
        refused = [why for shape in layers if (why := part.refusal(shape))]
        only = ", ".join(t[:-1] for t in part.targets if t.endswith("a"))
        on = ", ".join(sorted(gpu for *of, gpu in measured if of == [name, accuracy]))
        shown.append(
            [
                *(f"`{name}`", accuracy),
                f"only {only}" if only else f"from {min(part.targets, key=number)} on",
                f"{len(layers) - len(refused)} of {len(layers)}",
                *(refused[:1] or [NONE]),
                *(f"at most {WORST:.0e}" if promised(part) else NONE, on or NONE),
            ]
        )
    return shown


def turns_table(rows: Iterable[Row]) -> Table:
    """Return the table of times in turns and back to back, and of slow paths."""
    heads = "class,kernel,layer,in turns ms,MHz,back to back ms,MHz,cuDNN's MHz"
    shown: Table = [[*heads.split(","), "error", "by element"]]
    for row in rows:
        named = f"`{row['variant']}`" + ("" if row["ok"] else f": {row['why']}")
        timed: list[tuple[str, Row, Row | None, Row | None]] = []
        if row.get("wide"):
            timed.append(
                (f"{named}, every image left to the slow path", row, None, None)
            )
        if steady := row.get("back_to_back"):
            timed.append((named, row, steady, row["peer"]))
        if "triton" in row:
            timed.append(("Triton's `tl.dot`, tf32x3", row["triton"], None, None))
        for kernel, times, steady, peer in timed:
            shown.append(
                [
                    *(row["class"], kernel, row["layer"]),
                    *(_n(times.get("median_ms")), _mhz(times)),
                    *(_n((steady or {}).get("median_ms")), _mhz(steady), _mhz(peer)),
                    *(_n(times.get(key), ".1e") for key in ("error", "by_element")),
                ]
            )
    return shown


def _n(value: float | None, form: str = ".3f") -> str:
    return NONE if value is None else format(value, form)


def _mhz(times: Row | None) -> str:
    return f"{times['mhz'][0]:.0f}" if times and "mhz" in times else NONE


def ladder_table(
    found: Iterable[Result],
    variants: Mapping[str, Variant],
    verdicts: Mapping[str, Row] | None = None,
) -> Table:
    """Return the table of all variants, including wrong and slow ones.

    ``verdicts`` are the judge's rows by variant; without any, its columns are left out.
    """
    heads = "step,variant,class,idea,conv1 ms,conv2 ms,sum ms"
    tail = "error,by element,MHz,times cuDNN,share of model,correct"
    more = judged.HEADS if verdicts else ()
    rows: Table = [[*heads.split(","), *more, *tail.split(",")]]
    main = {r.variant: r for r in found if r.images == IMAGES}
    for step, (name, variant) in enumerate(variants.items(), 1):
        result = main.get(name)
        cells = _measured(result)
        if verdicts:
            sum_ms = result.ms if result and not result.why else None
            cells[3:3] = judged.cells(verdicts.get(name), sum_ms)
        head = str(step), _named(name), variant.accuracy, variant.idea
        rows.append([*head, *cells])
    return rows


def _measured(result: Result | None) -> list[str]:
    """Return a variant's measured cells."""
    if result is None:
        return [NONE] * 8 + [goals.NOT_MEASURED]
    layers = [_n(result.by_layer.get(name, {}).get("median_ms")) for name in LAYERS]
    if result.why:
        return [*layers, *[NONE] * 6, f"no: {result.why}"]
    clocks = [mhz for row in result.rows for mhz in row["mhz"]]
    return [
        *(*layers, _n(result.ms), _n(result.error, ".1e")),
        *(_n(result.by_element, ".1e"), f"{min(clocks):.0f} to {max(clocks):.0f}"),
        *(_n(result.times, ".2f"), f"{result.model_ms / result.ms:.0%}", "yes"),
    ]


def slower(found: Iterable[Result], variants: Mapping[str, Variant]) -> str:
    """Return a list of the variants that are slower than their predecessor."""
    ms = {r.variant: r.ms for r in found if r.images == IMAGES and not r.why}
    lines = []
    pairs = ((v, variants[v.after]) for v in variants.values() if v.after)
    for v, before in pairs:
        alike = before.accuracy == v.accuracy and {v.name, before.name} <= ms.keys()
        if alike and ms[v.name] > ms[before.name]:
            lines.append(
                f"`{v.name}` is slower than `{before.name}`, its predecessor: "
                f"{ms[v.name]:.3f} ms instead of {ms[before.name]:.3f} ms."
            )
    return "".join(f"* {line}\n" for line in lines)


def goal_table(rows: Sequence[Row]) -> Table:
    """Return the table of goals and verdicts."""
    judged = ([v.name, v.goal, v.reached, v.verdict] for v in goals.verdicts(rows))
    return [["class", "goal", "reached", "verdict"], *judged]


def edition_table(rows: Iterable[Row]) -> Table:
    """Return the table of the fastest rows of each class, edition and layer."""
    heads = "class,edition,model,layer,C x H x W,M x K x K,kernel,ms,error,by element"
    shown: Table = [[*heads.split(","), "cuDNN ms", "times cuDNN", "share of model"]]
    best = goals.per_layer(rows)
    order = list(RTOL)
    named = ("class", "edition", "model", "layer")
    best.sort(key=lambda r: (order.index(r["class"]), *(r[key] for key in named)))
    for row in best:
        peer = row["peer"] or {}
        shown.append(
            [
                *(row[key] for key in named),
                "{C} x {H} x {W}".format(**row["shape"]),
                "{M} x {K} x {K}".format(**row["shape"]),
                *(f"`{row.get('part', row['variant'])}`", _n(row["median_ms"])),
                *(_n(row["error"], ".1e"), _n(row["by_element"], ".1e")),
                *(_n(peer.get("median_ms")), _n(row["times_peer"], ".2f")),
                f"{model_ms(row) / row['median_ms']:.0%}",
            ]
        )
    return shown


def fastest_by_size(found: Iterable[Result]) -> list[Result]:
    """Return the fastest correct result of each class and number of images."""
    order = list(RTOL)
    right = [result for result in found if result.why is None]
    right.sort(key=lambda r: (order.index(r.accuracy), r.images, -r.ms))
    # The last of a key stays.
    return list({(r.accuracy, r.images): r for r in right}.values())


def size_table(found: Iterable[Result]) -> Table:
    """Return the table of the fastest results of each class and number of images."""
    heads = "class,images,variant,conv1 ms,conv2 ms,sum ms,us per image"
    shown: Table = [[*heads.split(","), "cuDNN ms", "times cuDNN"]]
    for best in fastest_by_size(found):
        times = [*(row["median_ms"] for row in best.rows), best.ms]
        shown.append(
            [
                *(best.accuracy, f"{best.images:,}", f"`{best.variant}`"),
                *(_n(ms, ".4g") for ms in times),
                f"{1000 * best.ms / best.images:.4f}",
                *(_n(best.peer_ms, ".4g"), _n(best.times, ".2f")),
            ]
        )
    return shown


def forward_table(rows: Iterable[Row]) -> Table:
    """Return the table of forward passes compared with PyTorch's fastest way."""
    heads = "images,variant,ms,MHz,error,PyTorch ms,its way,times,correct"
    shown: Table = [heads.split(",")]
    for row in rows:
        if row["what"] != FORWARD:
            continue
        cells = [NONE] * 6
        if row["ok"]:
            peer = row["peer"]
            cells = [_n(row["median_ms"]), _mhz(row), _n(row["error"], ".1e")]
            cells += [_n(peer["median_ms"]), peer["way"], _n(row["times_peer"], ".2f")]
        right = "yes" if row["ok"] else f"no: {row['why']}"
        shown.append([f"{row['images']:,}", f"`{row['variant']}`", *cells, right])
    return shown


def machine_lines(rows: Iterable[Row]) -> list[str]:
    """Return a list of the machines, versions and commits of the rows."""
    runs: dict[str, list[Row]] = {}
    for row in rows:
        runs.setdefault(row["run"], []).append(row)
    return [_machine(run) for run in runs.values()]


def _machine(rows: Sequence[Row]) -> str:
    """Describe one run."""
    machine, rates = rows[-1]["machine"], rows[-1].get("rates")
    driver = f"driver {machine.get('driver')}"
    whose = "" if rates else " of the judge"
    clocks = [mhz for r in rows for mhz in r.get("mhz") or ()]
    heat = [r["machine"]["celsius"] for r in rows if r["machine"].get("celsius")]
    others = max(r["machine"].get("others", 0) for r in rows)
    parts = [
        f"{rows[-1]['at']}, commit {rows[-1]['commit']}: {len(rows)} rows{whose}",
        f"{machine['gpu']} {machine.get('uuid') or ''}".rstrip(),
        ", ".join(filter(None, [driver, machine.get("compiler"), machine.get("peer")])),
    ]
    if clocks:
        parts.append(
            f"{min(clocks):.0f} to {max(clocks):.0f} of {machine['sm_mhz_max']:.0f} MHz"
        )
    if heat:
        parts.append(f"{min(heat):.0f} to {max(heat):.0f} °C")
    parts.append(f"other processes on the GPU: {others or 'none'}")
    if rates:
        tflops = rates["fma_tflops"], rates["half_tflops"]
        parts.append(
            f"copy {rates['copy_gbps'] / 1000:.2f} TB/s, "
            "FMA {:.1f} and halves on tensor cores {:.0f} TFLOP/s".format(*tflops)
        )
    return wrapped("* " + "; ".join(parts) + ".")


def _named(name: str) -> str:
    """Return a variant's name, linked to its page if it has one."""
    path = ROOT / "docs" / "kernels" / f"{name}.md"
    return f"[`{name}`]({_link(path)})" if path.exists() else f"`{name}`"


def _link(path: Path) -> str:
    return f"../{path.relative_to(ROOT).as_posix()}"


def main() -> None:
    """Write RESULTS.md."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--gpu", default=GPU, help=f"the GPU of the rows (default: {GPU})")
    add("--drop", action="store_true", help="remove rows that are not shown")
    words = parser.parse_args()
    gpu, kept = words.gpu, list(ledger.read())
    if stale := code_hash.stale(kept):
        again = "\n  ".join(dict.fromkeys(map(code_hash.again, stale)))
        milestone.warn(f"{len(stale)} rows are of other code; run:\n  {again}")
    kept = [row for row in kept if row not in stale]
    if words.drop:
        ledger.keep_only(kept)
    if not ledger.latest(kept, gpu):
        known = ", ".join(sorted({row["machine"]["gpu"] for row in kept})) or "none"
        raise UsageError(
            f"no rows of {gpu} in measurements/; there are rows of {known}"
        )
    PAGE.write_text(page(kept, gpu), encoding="utf-8")


if __name__ == "__main__":
    milestone.run(main)

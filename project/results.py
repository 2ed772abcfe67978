"""Write RESULTS.md from the measured rows.

python results.py [--gpu NAME] [--drop]

Rows that were measured with other code than that in the tree are left out.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import judged
from course.errors import UsageError
from course.variants import RTOL, Variant
from lab import code_hash, goals, ledger
from lab.goals import Result, floor_ms
from lab.ledger import FORWARD, Row
from lab.trials import IMAGES, LAYERS, MAIN
from milestones import milestone
from plans.kernels import VARIANTS

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "project" / "RESULTS.md"
PLOTS = ROOT / "docs" / "kernels"  # tools/plots.py draws them
GPU = "NVIDIA H200"  # the GPU of the goals
NONE = "–"
PROGRAMS = ("compiler", "peer")  # of a machine, with their versions
SWEEPS = f"The last `bench.py --sweep` of each variant, {IMAGES:,} images of {MAIN}.\n"
COLUMNS = (
    "* error: ||y - reference|| / ||reference|| against float64, the larger of both "
    "layers",
    "* times cuDNN: cuDNN's sum divided by ours, in the same class, measured in turns",
    "* share of floor: the sum of the layers' floors divided by the sum. A layer's "
    "floor is its bytes divided by the rate of a copy, or its multiplications divided "
    "by the peak rate of their unit, whichever is larger. A kernel that needs fewer "
    "multiplications than the formula can exceed 100%.",
)
"""The columns of the table of variants that need an explanation."""

Table = list[Sequence[str]]


def wrapped(text: str) -> str:
    """Wrap a paragraph or a list item to 120 columns."""
    indent = "  " if text.startswith("* ") else ""
    lines = textwrap.wrap(
        text,
        width=120,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "".join(f"{line}\n" for line in lines)


def table(rows: Table) -> str:
    """Format a Markdown table whose first row is the header."""
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def page(
    rows: Sequence[Row], variants: Mapping[str, Variant], tried: Sequence[Row] = ()
) -> str:
    """Return RESULTS.md."""
    found = goals.results(rows)
    verdicts = judged.by_variant(rows)
    parts = [
        "# Results\n",
        wrapped(
            "`make results` writes this page from the rows in "
            "[measurements/](measurements); `make gpu` measures them, as described in "
            "[docs/kernels.md](../docs/kernels.md#what-a-time-means)."
        ),
        f"## The variants, {IMAGES:,} images of {MAIN}\n",
        "Times are medians.\n",
        "".join(map(wrapped, (*COLUMNS, *([judged.COLUMN] if verdicts else ())))),
        table(ladder_table(found, variants, verdicts)),
        slower(found, variants),
        judged.refused(verdicts.values()),
        f"![The variants against their floors]({_link(PLOTS / 'results.svg')})\n",
        "## The goals\n",
        table(goal_table(rows)),
        "## Every edition\n",
        f"The fastest of each class, {IMAGES:,} images.\n",
        table(edition_table(rows)),
        "## Batch sizes\n",
        "call: the host's time of a call from Python, from an idle GPU to an idle GPU, "
        "with warm caches.\n",
        table(size_table(found)),
        f"![The time per image]({_link(PLOTS / 'sizes.svg')})\n",
        "## The forward pass\n",
        "All layers, with the images already on the GPU.\n",
        table(forward_table(rows)),
        *(("## Sweeps\n", SWEEPS, table(sweep_table(tried))) if tried else ()),
        "## The machine\n",
        *machine_lines(rows),
    ]
    return "\n".join(filter(None, parts))


def ladder_table(
    found: Iterable[Result],
    variants: Mapping[str, Variant],
    verdicts: Mapping[str, Row] | None = None,
) -> Table:
    """Return the table of all variants, including wrong and slow ones.

    ``verdicts`` are the judge's rows by variant; without any, its columns are left out.
    """
    heads = "step,variant,class,idea,conv1 ms,conv2 ms,sum ms"
    more = judged.HEADS if verdicts else ()
    tail = ("error", "times cuDNN", "share of floor", "correct")
    rows: Table = [[*heads.split(","), *more, *tail]]
    main = {r.variant: r for r in found if r.images == IMAGES}
    for step, (name, variant) in enumerate(variants.items(), 1):
        head = [str(step), _named(name), variant.accuracy, variant.idea]
        cells = _measured(main.get(name))
        if verdicts:
            result = main.get(name)
            sum_ms = result.ms if result and not result.why else None
            cells[3:3] = judged.cells(verdicts.get(name), sum_ms)
        rows.append([*head, *cells])
    return rows


def _measured(result: Result | None) -> list[str]:
    """Return a variant's measured cells."""
    if result is None:
        return [NONE] * 6 + [goals.NOT_MEASURED]
    layers = [_ms(result.by_layer.get(name)) for name in LAYERS]
    if result.why:
        return [*layers, NONE, NONE, NONE, NONE, f"no: {result.why}"]
    times = f"{result.times:.2f}" if result.times else NONE
    share = f"{result.floor_ms / result.ms:.0%}"
    return [*layers, f"{result.ms:.3f}", f"{result.error:.1e}", times, share, "yes"]


def _ms(row: Row | None) -> str:
    return f"{row['median_ms']:.3f}" if row and row["ok"] else NONE


def slower(found: Iterable[Result], variants: Mapping[str, Variant]) -> str:
    """Return a list of the variants that are slower than their predecessor."""
    ms = {r.variant: r.ms for r in found if r.images == IMAGES and not r.why}
    lines = []
    for v in variants.values():
        before = variants.get(v.after or "")
        if before is None or before.accuracy != v.accuracy or v.name not in ms:
            continue
        if ms[v.name] > ms.get(before.name, ms[v.name]):
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
    heads = "class,edition,model,layer,C x H x W,M x K x K,kernel,ms,error"
    shown: Table = [[*heads.split(","), "cuDNN ms", "times cuDNN", "share of floor"]]
    best = goals.per_layer(rows)
    order = list(RTOL)
    best.sort(
        key=lambda r: (order.index(r["class"]), r["edition"], r["model"], r["layer"])
    )
    for row in best:
        s, peer = row["shape"], row["peer"]
        shown.append(
            [
                *(row["class"], row["edition"], row["model"], row["layer"]),
                f"{s['C']} x {s['H']} x {s['W']}",
                f"{s['M']} x {s['K']} x {s['K']}",
                f"`{row.get('part', row['variant'])}`",
                f"{row['median_ms']:.3f}",
                f"{row['error']:.1e}",
                f"{peer['median_ms']:.3f}" if peer else NONE,
                f"{row['times_peer']:.2f}" if peer else NONE,
                f"{floor_ms(row) / row['median_ms']:.0%}",
            ]
        )
    return shown


def fastest_by_size(found: Iterable[Result]) -> list[Result]:
    """Return the fastest correct result of each class and number of images."""
    order = list(RTOL)
    groups: dict[tuple[int, int], list[Result]] = {}
    for result in found:
        if result.why is None:
            group = order.index(result.accuracy), result.images
            groups.setdefault(group, []).append(result)
    return [min(groups[key], key=lambda result: result.ms) for key in sorted(groups)]


def size_table(found: Iterable[Result]) -> Table:
    """Return the table of the fastest results of each class and number of images."""
    heads = "class,images,variant,conv1 ms,conv2 ms,sum ms,us per image"
    calls = ("call us", "cuDNN's call us")
    shown: Table = [[*heads.split(","), "cuDNN ms", "times cuDNN", *calls]]
    for best in fastest_by_size(found):
        shown.append(
            [
                *(best.accuracy, f"{best.images:,}", f"`{best.variant}`"),
                *(f"{row['median_ms']:.4g}" for row in best.rows),
                f"{best.ms:.4g}",
                f"{1000 * best.ms / best.images:.4f}",
                f"{best.peer_ms:.4g}" if best.peer_ms else NONE,
                f"{best.times:.2f}" if best.times else NONE,
                *(_us(best.call_ms(who)) for who in (goals.OURS, goals.PEER)),
            ]
        )
    return shown


def _us(ms: float | None) -> str:
    return f"{1000 * ms:.1f}" if ms else NONE


def forward_table(rows: Iterable[Row]) -> Table:
    """Return the table of forward passes compared with PyTorch's."""
    heads = "class,edition,images,variant,ms,error,PyTorch eager ms,times"
    shown: Table = [[*heads.split(","), "PyTorch compiled ms", "times", "correct"]]
    for row in rows:
        if row["what"] != FORWARD:
            continue
        head = [row["class"], row["edition"], f"{row['images']:,}"]
        head.append(f"`{row['variant']}`")
        if not row["ok"]:
            shown.append([*head, *[NONE] * 6, f"no: {row['why']}"])
            continue
        cells = [f"{row['median_ms']:.3f}", f"{row['error']:.1e}"]
        for name in ("eager", "compiled"):
            peer = row["peers"].get(name)
            cells += (
                [f"{peer['median_ms']:.3f}", f"{peer['times']:.2f}"]
                if peer
                else [NONE, NONE]
            )
        shown.append([*head, *cells, "yes"])
    return shown


def sweep_table(tried: Iterable[Row]) -> Table:
    """Return the table of each sweep's best and worst parameters."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in sorted(tried, key=lambda row: row["median_ms"]):
        groups.setdefault((row["variant"], row["layer"]), []).append(row)
    shown: Table = [["variant", "layer", "tried", "best", "ms", "worst", "ms"]]
    for (variant, layer), found in sorted(groups.items()):
        best, worst = found[0], found[-1]
        several = [
            key
            for key in best["params"]
            if len({row["params"].get(key) for row in found}) > 1
        ]
        shown.append(
            [
                *(f"`{variant}`", layer, str(len(found))),
                *(_values(best, several), f"{best['median_ms']:.3f}"),
                *(_values(worst, several), f"{worst['median_ms']:.3f}"),
            ]
        )
    return shown


def _values(row: Row, names: Iterable[str]) -> str:
    return ", ".join(f"{name} {row['params'].get(name)}" for name in names) or NONE


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
    clocks = [r["machine"]["sm_mhz"] for r in rows if r["machine"].get("sm_mhz")]
    heat = [r["machine"]["celsius"] for r in rows if r["machine"].get("celsius")]
    throttled = {why for r in rows for why in r["machine"].get("throttled") or ()}
    others = max(r["machine"].get("others", 0) for r in rows)
    parts = [
        f"{rows[-1]['at']}, commit {rows[-1]['commit']}: {len(rows)} rows{whose}",
        f"{machine['gpu']} {machine.get('uuid') or ''}".rstrip(),
        ", ".join(filter(None, [driver, *map(machine.get, PROGRAMS)])),
    ]
    if clocks:
        parts.append(
            f"{min(clocks):.0f} to {max(clocks):.0f} of {machine['sm_mhz_max']:.0f} MHz"
        )
    if heat:
        parts.append(f"{min(heat):.0f} to {max(heat):.0f} °C")
    parts.append("throttled: " + (", ".join(sorted(throttled)) or "never seen"))
    parts.append(f"other processes on the GPU: {others or 'none'}")
    if machine.get("image"):
        parts.append(f"image {machine['image']}")
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


def made(kept: Sequence[Row], gpu: str = GPU) -> str:
    """Return RESULTS.md of the rows that are kept."""
    return page(ledger.latest(kept, gpu), VARIANTS, ledger.tried(kept, gpu))


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
    PAGE.write_text(made(kept, gpu), encoding="utf-8")


if __name__ == "__main__":
    milestone.run(main)

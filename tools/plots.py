"""Draw the plots of docs/kernels/ from project/measurements/, as `make results` does.

    python tools/plots.py [GPU]

Rows that were measured with other code than that in the tree are left out.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "project")]

import results  # noqa: E402  # of the folder above, as all below
from course.variants import RTOL  # noqa: E402
from lab import code_hash, goals, ledger  # noqa: E402
from lab.goals import Result  # noqa: E402
from lab.trials import IMAGES, MAIN  # noqa: E402
from plans.kernels import VARIANTS  # noqa: E402

from runner.report import pictures  # noqa: E402
from runner.report.blocks import Bar, BarChart, Mark  # noqa: E402


def drawn(gpu: str = results.GPU) -> dict[Path, str]:
    """Return the text of each plot by its path."""
    rows = list(ledger.read())
    stale = code_hash.stale(rows)
    kept = ledger.latest([row for row in rows if row not in stale], gpu)
    found = [result for result in goals.results(kept) if result.why is None]
    return {
        results.PLOTS / "results.svg": pictures.svg(variants(found)),
        results.PLOTS / "sizes.svg": pictures.svg(sizes(found)),
    }


def variants(found: Sequence[Result]) -> BarChart:
    """Return the times of the main edition, by the model, and cuDNN's."""
    classes, order = list(RTOL), list(VARIANTS)
    shown = [result for result in found if result.images == IMAGES]
    shown.sort(key=lambda r: (classes.index(r.accuracy), order.index(r.variant)))
    bars = [
        Bar(
            result.variant,
            result.ms / 1000,
            series=result.accuracy,
            marks=(
                Mark("model", result.model_ms / 1000),
                *([Mark("cuDNN", result.peer_ms / 1000)] if result.peer_ms else []),
            ),
        )
        for result in shown
    ]
    title = f"Both convolutions of {MAIN}, {IMAGES:,} images: medians, model, cuDNN"
    return BarChart(title, "s", tuple(bars), logarithmic=True)


def sizes(found: Sequence[Result]) -> BarChart:
    """Return the time per image by class and size: the fastest, and cuDNN's."""
    bars = [
        Bar(
            f"{result.images:,} images",
            result.ms / 1000 / result.images,
            series=result.accuracy,
            marks=(
                (Mark("cuDNN", result.peer_ms / 1000 / result.images),)
                if result.peer_ms
                else ()
            ),
        )
        for result in results.fastest_by_size(found)
    ]
    title = f"Time per image of both convolutions of {MAIN}: the fastest, cuDNN"
    return BarChart(title, "s", tuple(bars), logarithmic=True)


if __name__ == "__main__":
    for path, text in drawn(*sys.argv[1:]).items():
        path.write_text(text, encoding="utf-8")

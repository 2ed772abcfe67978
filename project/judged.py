"""Rows of what the judge of submissions measured, and their columns of RESULTS.md."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from lab import gpu_facts
from lab.goals import MODEL, NONE
from lab.ledger import JUDGED, Row
from lab.trials import IMAGES, MAIN
from plan import Choice

HEADS = ("judged ms", "judged - sum")
COLUMN = (
    "* judged ms: the time of both layers by the judge of submissions (`rai submit`), "
    "and by how much it differs from the sum, which is the GPU's time between events "
    "around the launches. The judge's is by its own clock, from its word to start "
    "until the GPU says that all is done: some 10 us more for a layer. Both begin with "
    "an overwritten L2 cache, and include the packing of weights. `bench.py` calls a "
    "kernel again and again on the same arrays, in turns with cuDNN, and queues its "
    "launches from Python while the cache is overwritten, so a variant of many short "
    "launches may wait for the host. For the judge the kernels run in another process, "
    "as one graph; each call has fresh images and weights at fresh places, all of y is "
    "checked after it, and a fixed reference kernel runs beside it. So the GPU's "
    "clocks and the pages that it last used are not the same in both."
)
"""What explains the columns."""


def by_variant(rows: Iterable[Row]) -> dict[str, Row]:
    """Return the judge's rows of the main edition at the usual number of images."""
    return {
        row["variant"]: row
        for row in rows
        if (row["what"], row["edition"], row["images"]) == (JUDGED, MAIN, IMAGES)
    }


def cells(row: Row | None, sum_ms: float | None) -> list[str]:
    """Return the columns of a variant; ``sum_ms`` is what ``bench.py`` measured."""
    if row is None:
        return [NONE, NONE]
    if not row["ok"]:
        return ["refused", NONE]
    differs = f"{row['ms'] / sum_ms - 1:+.1%}" if sum_ms else NONE
    return [f"{row['ms']:.3f}", differs]


def refused(rows: Iterable[Row]) -> str:
    """Return a list of the variants that the judge does not accept."""
    return "".join(
        f"* The judge does not accept `{row['variant']}`: {row['why']}\n"
        for row in rows
        if not row["ok"]
    )


def rows(measurement: dict[str, Any], choice: Choice, run: str) -> Iterator[Row]:
    """Yield a row of each variant of a measurement.json; ``run`` is its ID."""
    at = measurement.get("began") or datetime.now(UTC).isoformat(timespec="seconds")
    machine = _machine(measurement)
    for entry in measurement["entries"]:
        layers = {layer["name"]: layer for layer in entry["layers"]}
        clocks = [layer["sm_mhz"] for layer in layers.values()]
        yield {
            "what": JUDGED,
            "variant": entry["variant"],
            "class": measurement["class"],
            "edition": choice.edition,
            "model": MODEL,
            "images": choice.images,
            "ok": entry["accepted"],
            "why": "; ".join(entry["why"]) or None,
            "error": entry["error"],
            "ms": entry["ms"],
            "ratio": entry["ratio"],
            "interval": entry["interval"],
            "n": len({sample["round"] for sample in entry["samples"]}),
            "layers": layers,
            "mhz": _mhz(*clocks) if clocks else None,
            "machine": machine,
            "commit": gpu_facts.commit(),
            "run": run,
            "at": at,
        }


def _mhz(*clocks: Sequence[float]) -> list[float]:
    """Return the median, least and most of layers' least, median and most."""
    least, middle, most = zip(*clocks, strict=True)
    return [statistics.median(middle), min(least), max(most)]


def _machine(measurement: dict[str, Any]) -> dict[str, Any]:
    gpu = measurement["gpu"]
    known = {name: gpu.get(name) for name in ("uuid", "driver", "sm_mhz_max")}
    return {
        "gpu": gpu["name"],
        **known,
        "architecture": measurement["architecture"],
        "celsius": measurement["celsius"][1],
        "others": measurement.get("others", 0),
    }

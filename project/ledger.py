"""The kept rows of the benchmark: lines of JSON in measurements/."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "measurements"

Row = dict[str, Any]
Key = tuple[str, ...]

CONVOLUTION, FORWARD = "convolution", "forward"
_KEYS = ("what", "variant", "class", "edition", "model", "layer", "images")


def read(folder: Path = FOLDER) -> Iterator[Row]:
    """Give every row of every file."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def latest(rows: Iterable[Row], gpu: str) -> list[Row]:
    """Give the last row of each variant, class, layer and number of images.

    What was only tried, or measured in haste or on another GPU, does not count.
    """
    found: dict[Key, Row] = {}
    for row in sorted(rows, key=lambda row: row["at"]):
        if row["machine"]["gpu"] == gpu and not (row.get("swept") or row["quick"]):
            found[tuple(str(row.get(key)) for key in _KEYS)] = row
    return list(found.values())

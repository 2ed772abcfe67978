"""Read the benchmark's rows from measurements/*.jsonl."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "measurements"

Row = dict[str, Any]

CONVOLUTION, FORWARD, SCRIPT = "convolution", "forward", "script"
JUDGED = "judged"  # a variant of an edition's convolutions, by the judge of submissions
EMPTY = "empty"  # a kernel that does nothing
_KEYS = ("what", "variant", "class", "edition", "model", "layer", "images", "wide")


def read(folder: Path = FOLDER) -> Iterator[Row]:
    """Yield every row of every file."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def file(gpu: str) -> Path:
    """Return the file of a GPU's rows."""
    return FOLDER / f"{gpu.lower().replace(' ', '-')}.jsonl"


def keep(row: Row, out: Path) -> None:
    """Append a row to a file."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(row) + "\n")


def latest(rows: Iterable[Row], gpu: str) -> list[Row]:
    """Return the last row of each variant, class, layer and number of images.

    Rows of another GPU are ignored.
    """
    found: dict[tuple[str, ...], Row] = {}
    for row in sorted(rows, key=itemgetter("at")):
        if row["machine"]["gpu"] == gpu:
            found[tuple(str(row.get(key)) for key in _KEYS)] = row
    return list(found.values())


def keep_only(rows: Sequence[Row], folder: Path = FOLDER) -> None:
    """Remove every row but those that are shown of ``rows``."""
    for path in folder.glob("*.jsonl"):
        path.unlink()
    for gpu in dict.fromkeys(row["machine"]["gpu"] for row in rows):
        for row in sorted(latest(rows, gpu), key=itemgetter("at")):
            keep(row, folder / file(gpu).name)

"""Write the table of editions in docs/kernels/editions.md from results.jsonl."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from tools.benchmarks import rows

PAGE = rows.ROOT / "docs" / "kernels" / "editions.md"
BEGIN, END = "<!-- editions: begin -->", "<!-- editions: end -->"
BENCH = re.compile(r"\S+ \S+ by \S+")
HEADS = (
    "edition",
    "model",
    "published",
    "ours",
    "MXNet",
    "NumPy",
    "CUDA",
    "Op Times, CPU",
    "Op Times, GPU",
)
NONE = "–"

Row = Mapping[str, Any]


def kept(lines: Iterable[str]) -> dict[tuple[str, str, bool, str], Row]:
    """Return the last row of each model, weights and backend."""
    found = {}
    for line in lines:
        row = json.loads(line)
        if "digest" in row and BENCH.fullmatch(row["bench"]):
            key = (row["edition"], row["model"], row["given"], row["backend"])
            found[key] = row
    return found


def render(lines: Iterable[str]) -> str:
    """Return the table, in the order of the first measurements."""
    last = kept(lines)
    table = [HEADS, tuple("---" for _ in HEADS)]
    for edition, model in dict.fromkeys(key[:2] for key in last):
        for given in (False, True):
            if gold := last.get((edition, model, given, "float64")):
                found = {
                    backend: row
                    for (*key, backend), row in last.items()
                    if key == [edition, model, given]
                    and row["digest"] == gold["digest"]
                }
                table.append(_line(gold, found))
    return "".join(f"| {' | '.join(cells)} |\n" for cells in table)


def _line(gold: Row, found: Mapping[str, Row]) -> tuple[str, ...]:
    cuda = _fastest(row for name, row in found.items() if name.startswith("cuda-"))
    vendor = found.get("cudnn")
    library = gold["model"] == "baseline"  # its convolution is not ours to time
    published = gold["published"]
    return (
        gold["edition"],
        gold["model"] + (", the course's weights" if gold["given"] else ""),
        NONE if published is None else f"{published:.4f}",
        _share(found.get("c++")),
        _share(found.get("mxnet")),
        _share(found.get("numpy")),
        _share(vendor if library and vendor else cuda),
        _times(None if library else found.get("c++")),
        _times(None if library else cuda),
    )


def _fastest(of: Iterable[Row]) -> Row | None:
    return min(of, key=lambda row: sum(row["op_times_s"]), default=None)


def _share(row: Row | None) -> str:
    """Return the accuracy on all images, and the number of differences from float64."""
    if row is None:
        return NONE
    said = f"{row['accuracy'][str(row['images'])]:.4f}"
    return said + (f" ({row['differs']} differ)" if row["differs"] else "")


def _times(row: Row | None) -> str:
    if row is None:
        return NONE
    return " + ".join(f"{seconds:.3g}" for seconds in row["op_times_s"]) + " s"


def replaced(page: str, table: str) -> str:
    """Replace the table between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table}{END}{after}"


def main() -> None:
    """Update docs/kernels/editions.md."""
    table = render(rows.RESULTS.read_text().splitlines())
    PAGE.write_text(replaced(PAGE.read_text(), table))


if __name__ == "__main__":
    main()

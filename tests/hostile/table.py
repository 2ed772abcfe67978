"""Write the table of docs/hostile.md: how each hostile case ends, in each column.

``python -m tests.hostile.table [FILE]`` takes the results of ``make hostile`` over into
results.jsonl, a line for each case, and makes the table from that.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.hostile import cases
from tests.hostile.case import Case
from tests.hostile.columns import COLUMNS
from tests.hostile.results import HELD, SAID
from tests.kit import marks, topics
from tests.kit.needs import ROOT
from tools.benchmarks import rows

RESULTS = Path(__file__).with_name("results.jsonl")
PAGE = ROOT / "docs" / "hostile.md"
BEGIN, END = "<!-- cases: written by `make hostile` -->", "<!-- cases end -->"

Kept = dict[str, dict[str, dict[str, object]]]
"""By case and column: ``ends``, ``seconds`` and ``rai_mb``."""


def main(fresh: Path | None = None) -> None:
    """Take new results over, and write the page."""
    kept = read(RESULTS.read_text() if RESULTS.exists() else "")
    if fresh is not None:
        keep(kept, map(json.loads, fresh.read_text().splitlines()))
    PAGE.write_text(page(PAGE.read_text(), kept))


def read(text: str) -> Kept:
    """Return the results of results.jsonl."""
    lines = map(json.loads, text.splitlines())
    return {line["case"]: line["columns"] for line in lines}


def keep(kept: Kept, fresh: Iterable[dict[str, object]]) -> None:
    """Replace the results of the cases that were run, and write results.jsonl."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    old = {json.loads(line)["case"]: line for line in lines}
    changed = set()
    for row in fresh:
        case, column = str(row.pop("case")), str(row.pop("column"))
        kept.setdefault(case, {})[column] = row
        changed.add(case)
    about = rows.row("", "", True)
    for case in changed:
        where = {name: about[name] for name in ("machine", "system", "commit", "at")}
        old[case] = json.dumps({"case": case, "columns": kept[case], **where})
    known = [old[c.name] for c in cases.every() if c.name in old]
    RESULTS.write_text("".join(f"{line}\n" for line in known))


def page(text: str, kept: Kept) -> str:
    """Return the page with the table between its marks."""
    return marks.between(
        text, BEGIN, END, topics.tables(cases.__name__, lambda case: _ends(case, kept))
    )


def _ends(case: Case, kept: Kept) -> str:
    return marks.ends({each.name: cell(case, each.name, kept) for each in COLUMNS})


def cell(case: Case, column: str, kept: Kept) -> str:
    """Return how a case ended in a column, as the table shows it; empty if unknown."""
    if not case.applies(column):
        return case.instead(column)
    found = kept.get(case.name, {}).get(column, {})
    return str(found.get("ends", "")).replace("_", " ")


def possible(case: Case, column: str) -> set[str]:
    """Return the cells that a case may have in a column."""
    if not case.applies(column):
        return {case.instead(column)}
    reason = case.reason(column)
    ends = reason.value.replace("_", " ") if reason.exit_code else HELD
    return {ends, SAID} if case.needs else {ends}


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

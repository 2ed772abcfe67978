"""docs/h200/report.md and .html say what docs/h200/report.json does.

`python tools/keep_report.py RUN` writes them; docs/results.md says of which run.
"""

from __future__ import annotations

import html
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from runner.cli.report import title
from runner.core import RunRecord
from runner.report import markdown
from runner.report.blocks import Pairs, Section, Table
from runner.report.document import sections as document
from runner.report.document.nouns import Report

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "h200"
AGAIN = "run: python tools/keep_report.py RUN"


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> Iterator[Report]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield msgspec.json.decode((FOLDER / "report.json").read_bytes(), type=Report)
    monkeypatch.undo()
    time.tzset()


def test_the_markdown_is_that_of_the_figures(report):
    sections = document.sections(report)
    links = {
        one.name: f"pictures/{one.name}.svg" for one in document.pictures(sections)
    }

    page = markdown.document(title(report), sections, 512 << 10, links)

    assert (FOLDER / "report.md").read_text() == page, AGAIN
    there = {file.name for file in (FOLDER / "pictures").iterdir()}
    assert there == {f"{name}.svg" for name in links}


def cells(page: str) -> Counter[str]:
    """Return the texts of cells and terms, without what stands for a long name."""
    page = re.sub(r"<summary.*?</summary>", "", page, flags=re.S)
    found = re.findall(r"<(t[dh]|d[td])\b[^>]*>(.*?)</\1>", page, re.S)
    texts = (re.sub(r"<[^>]*>", "", inner) for _, inner in found)
    return Counter(html.unescape(text).strip() for text in texts)


def shown(sections: tuple[Section, ...]) -> Iterator[str]:
    for section in sections:
        for part in section.parts:
            if isinstance(part, Table | Pairs):
                yield from (cell for row in part.rows for cell in row)


def test_the_page_has_each_figure_as_often_as_the_report(report):
    found = cells((FOLDER / "report.html").read_text())

    lacking = Counter(shown(document.sections(report))) - found

    assert {text: n for text, n in lacking.items() if text.strip()} == {}, AGAIN


def recorded() -> dict[str, RunRecord]:
    """Return the records of docs/h200/, by the runs' ids."""
    found = {}
    for file in FOLDER.glob("*.json"):
        with suppress(msgspec.ValidationError):
            record = msgspec.json.decode(file.read_bytes(), type=RunRecord)
            found[record.id] = record
    return found


def test_the_figures_are_those_of_the_run_that_was_recorded(report):
    (run,) = report.runs
    record = recorded()[run.run]

    assert [[layer.median for layer in one.op_times_s] for one in report.networks] == [
        list(one.op_times_s) for one in record.findings.inferences
    ]
    assert [one.correctness for one in report.networks] == [
        one.correctness for one in record.findings.inferences
    ]
    rows = {
        (table.section, row.name, row.percent, row.calls, row.min_s, row.max_s)
        for table in record.findings.profiles
        for row in table.rows
    }
    for one in report.shares:
        cut = {
            (one.section, row.name, row.percent, row.calls, row.min_s, row.max_s)
            for row in one.rows
        }
        assert one.file or cut <= rows
    assert run.peak_memory_bytes == record.peak_memory_bytes
    assert run.gpu == record.gpu


def test_the_tables_of_the_documentation_are_those_of_the_report():
    text = (FOLDER.parent / "results.md").read_text()
    shown = text.partition("### On an H200\n")[2].partition("\n## ")[0]
    rows = [line for line in shown.splitlines() if line.startswith("| ")]

    page = html.unescape((FOLDER / "report.md").read_text()).splitlines()

    assert len(rows) > 3
    assert [row for row in rows if row not in page] == [], AGAIN

"""The table of docs/hostile.md has every case, and how each ends in each column."""

from __future__ import annotations

import pytest

from tests.hostile import cases, table
from tests.hostile.columns import COLUMNS

pytestmark = pytest.mark.smoke

HOW = "`make hostile` runs the cases and writes the table"

whole = pytest.mark.skipif(not table.RESULTS.exists(), reason=f"no results: {HOW}")


@whole
def test_each_cell_tells_an_end_that_its_case_may_have():
    kept = table.read(table.RESULTS.read_text())
    wrong = [
        (case.name, column.name, found)
        for case in cases.every()
        for column in COLUMNS
        if (found := table.cell(case, column.name, kept))
        not in table.possible(case, column.name)
    ]
    assert wrong == [], HOW


@whole
def test_the_page_shows_the_results():
    text = table.PAGE.read_text()
    assert table.page(text, table.read(table.RESULTS.read_text())) == text, HOW


def test_no_two_cases_share_a_name():
    names = [case.name for case in cases.every()]
    assert len(set(names)) == len(names)

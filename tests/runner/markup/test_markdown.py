"""Blocks as Markdown."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from runner.markup import markdown
from runner.report import Pairs, Table

ROWS = tuple((str(n), f"name {n}") for n in range(100))
TABLE = Table("Some", ("n", "name"), ROWS, frozenset({0}))


def test_a_table_has_its_title_its_heads_and_numbers_to_the_right():
    shown = markdown.blocks([Table("T", ("n", "name"), (("1", "a"),), frozenset({0}))])

    assert shown == "### T\n\n| n | name |\n|---:|---|\n| 1 | a |\n\n"


def test_named_values_are_a_table_without_heads():
    shown = markdown.blocks([Pairs((("run", "ab"),))])

    assert shown == "| | |\n|---|---|\n| run | ab |\n\n"


def test_nothing_in_a_cell_is_markup_or_names_anybody():
    hostile = "<b>|`c`|[l](http://x) ![i](y) *e* _e_ ~s~ $m$ @you #1 www.x.org \\|"

    shown = markdown.text(hostile)

    assert not re.search(r"[<>`|*_~\[\]\\$:]", shown)
    assert "@" not in shown
    assert "&#64;&#8203;you" in shown
    assert "&#35;&#8203;1" in shown
    assert "www.x" not in shown


@given(st.text())
def test_whatever_a_cell_says_the_row_has_as_many_cells_and_one_line(value: str):
    shown = markdown.blocks([Table("", ("a", "b"), ((value, "x"),))])

    row = shown.split("\n")[2]
    assert row.count("|") == 3
    assert len(shown.split("\n")) == 5


@given(st.text())
def test_output_cannot_end_its_own_frame(value: str):
    shown = markdown.output("title", value)

    (inner,) = shown.rows
    assert "<" not in inner
    assert shown.tail.startswith("\n</pre>")


def test_rows_that_do_not_fit_are_left_out_whole_and_counted():
    whole = markdown.page([markdown.block(TABLE)])

    cut = markdown.page([markdown.block(TABLE)], len(whole) // 2)

    assert len(cut.encode()) <= len(whole) // 2
    body, note = cut.split("\n\n*")
    kept = [line for line in body.splitlines() if re.search(r"name \d", line)]
    assert 0 < len(kept) < len(ROWS)
    assert whole.startswith(body)
    assert note.startswith(f"{len(ROWS) - len(kept)} rows are left out")


@given(st.integers(0, 3000))
def test_a_page_never_takes_more_than_it_may(most: int):
    parts = [
        markdown.heading("Head"),
        markdown.block(TABLE),
        markdown.output("o", "é\n" * 50),
    ]

    shown = markdown.page(parts, most)

    assert len(shown.encode()) <= most
    assert shown.count("<pre>") == shown.count("</pre>")

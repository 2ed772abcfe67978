"""Blocks as Markdown."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from runner.core.screen import printable
from runner.report import markdown
from runner.report.blocks import Pairs, Table

ROWS = tuple((str(n), f"name {n}") for n in range(100))
TABLE = Table("Some", ("n", "name"), ROWS, frozenset({0}))


def test_a_table_has_its_title_its_heads_and_numbers_to_the_right():
    shown = markdown.block(Table("T", ("n", "name"), (("1", "a"),), frozenset({0})))

    assert shown == "### T\n\n| n | name |\n|---:|---|\n| 1 | a |\n\n"


def test_named_values_are_a_table_without_heads():
    shown = markdown.block(Pairs((("run", "ab"),)))

    assert shown == "| | |\n|---|---|\n| run | ab |\n\n"


def test_nothing_in_a_cell_is_markup_or_names_anybody():
    hostile = "<b>|`c`|[l](http://x) ![i](y) *e* _e_ ~s~ $m$ @you #1 www.x.org \\|"

    shown = markdown.text(hostile)

    assert not re.search(r"[<`|*~\[\]\\$]|://|_e_", shown)
    assert "@" not in shown
    assert "&#64;&#8203;you" in shown
    assert "&#35;&#8203;1" in shown
    assert "www.x" not in shown


def test_what_means_nothing_where_it_stands_is_left_as_it_is():
    plain = "python $RAI_SOURCE_DIR/m1.py: 06:45:18 > 5 & more, R&D 2 # -1 (x_y) é"

    assert markdown.text(plain) == plain.replace("R&D", "R&#38;D")


SIGNS = st.text(st.sampled_from("ab1_*`~[]()!<>&#$:@|\\-+=.;/ \"'") | st.characters())


def inline(page: str) -> str:
    """Return the text of the last line of a page, which holds nothing else."""
    found = [t for t in MarkdownIt().enable("table").parse(page) if t.type == "inline"]
    said = [(child.type, child.content) for child in found[-1].children or ()]
    assert {kind for kind, text in said if text != "<br>"} <= {"text"}
    return "".join("\n" if text == "<br>" else text for _, text in said)


@given(SIGNS)
@example("1. a")
@example("- a")
@example("---")
@example("=")
@example(":smile: :+1: http://x _a_ __init__ a_b")
def test_a_text_is_read_as_it_was_wherever_it_stands(value: str):
    as_shown = printable(f"{value}.").replace("\t", " ").replace("\r", " ").strip()
    table = Table("", ("a",), ((f"{value}.",),))

    for part in (
        markdown.heading(f"{value}."),
        markdown.paragraph(f"{value}."),
        markdown.block(table),
    ):
        read = inline(part).replace("\u200b", "")
        assert read == as_shown


@given(st.text())
def test_whatever_a_cell_says_the_row_has_as_many_cells_and_one_line(value: str):
    shown = markdown.block(Table("", ("a", "b"), ((value, "x"),)))

    row = shown.split("\n")[2]
    assert row.count("|") == 3
    assert len(shown.split("\n")) == 5


@given(st.text())
def test_output_cannot_end_its_own_frame(value: str):
    shown = markdown.output("title", value)

    inner = shown.partition("<pre>\n")[2].removesuffix("\n</pre>\n\n</details>\n\n")
    assert "<" not in inner


def test_rows_that_do_not_fit_are_left_out_whole_and_counted():
    whole = markdown.block(TABLE)

    cut = markdown.bounded(whole, len(whole) // 2)

    body, note = cut.split("\n\n\n\n*")
    kept = [line for line in body.splitlines() if re.search(r"name \d", line)]
    assert 0 < len(kept) < len(ROWS)
    assert whole.startswith(body)
    assert note.startswith(f"{len(ROWS) - len(kept)} lines are left out")


@given(st.integers(0, 3000))
def test_a_page_never_takes_more_than_it_may(most: int):
    page = markdown.heading("Head") + markdown.block(TABLE)
    page += markdown.folded("f", markdown.output("o", "é\n" * 50))

    shown = markdown.bounded(page, most)

    assert len(shown.encode()) <= most
    for frame in ("pre", "details"):
        assert shown.count(f"<{frame}>") == shown.count(f"</{frame}>")

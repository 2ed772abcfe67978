"""What a page carries of a timeline."""

from __future__ import annotations

import re
from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from runner.core.evidence import Timeline
from runner.report import page as pages
from runner.report.blocks import Section, TimelineView
from runner.report.page import LATEST, MOST_TEXT, packed
from tests.kit.timelines import CALLS, GPU, Span, timeline, unpacked

SPANS = st.lists(
    st.builds(
        Span,
        lane=st.integers(0, 2),
        start=st.integers(0, LATEST) | st.integers(0, 300),
        length=st.integers(0, LATEST) | st.integers(0, 300),
        name=st.integers(0, 3) | st.just(2**32 - 1),
        facts=st.integers(0, 3),
        link=st.integers(0, 4) | st.integers(1, 2**62),
        merged=st.integers(1, 2**32 - 1),
    ),
    max_size=40,
)


def joined(made: Timeline) -> set[frozenset[int]]:
    """The places of spans that one link joins; a span alone is not joined."""
    groups = defaultdict(set)
    for place, link in enumerate(made.link):
        if link:
            groups[link].add(place)
    return {frozenset(group) for group in groups.values() if len(group) > 1}


@given(SPANS)
def test_a_page_carries_every_span_as_it_is(spans):
    before = timeline(spans)
    after = unpacked(packed(before))
    for column in ("lane", "start", "length", "name", "facts", "merged"):
        assert getattr(after, column) == getattr(before, column), column
    assert joined(after) == joined(before)


def test_names_lanes_and_notes_are_carried_too():
    notes = ((), (("grid", "8 x 1 x 1"), ("block", "256 x 1 x 1")))
    before = timeline(
        [Span(0, 5, 7, 1, 1)], ["a", "b<c>"], (GPU, CALLS), notes, left_out=3
    )
    after = unpacked(packed(before))
    assert (after.names, after.lanes) == (before.names, before.lanes)
    assert (after.notes, after.left_out) == (list(notes), 3)


def test_an_empty_timeline_makes_a_page_too():
    assert len(unpacked(packed(timeline([], [], []))).start) == 0
    assert "0 spans in 0 lanes" in pages.timeline_page("nothing", timeline([], [], []))


def test_times_that_a_browser_cannot_count_are_cut():
    after = unpacked(packed(timeline([Span(0, -5, -1), Span(0, 2**62, 2**62)])))
    assert list(after.start) == [0, LATEST]
    assert list(after.length) == [0, LATEST]


def test_what_steers_text_is_shown_as_its_number():
    names = ["a\0b", "\u202ereversed", "zero\u200bwidth", "\ud800"]
    made = timeline([Span(0, place, 1, place) for place in range(4)], names)
    assert unpacked(packed(made)).names == [
        r"a\x00b",
        r"\u202ereversed",
        r"zero\u200bwidth",
        r"\ud800",
    ]
    page = pages.timeline_page("\u202etitle", made)
    assert "\u202e" not in page
    page.encode()


def test_a_name_of_10_mb_is_cut():
    huge = "x" * 10_000_000
    page = pages.timeline_page(
        huge, timeline([Span(0, 1, 2)], [huge], notes=[((huge, huge),)])
    )
    assert len(page) < 150_000
    carried = unpacked(packed(timeline([Span(0, 1, 2)], [huge])))
    assert carried.names == ["x" * (MOST_TEXT - 1) + "…"]


def test_many_long_names_share_the_room():
    names = [f"{number:05} {'y' * 2_000}" for number in range(20_000)]
    carried = unpacked(packed(timeline([Span(0, 1, 2)], names))).names
    assert sum(map(len, carried)) <= 1_000_000
    assert len(set(carried)) == 20_000


def test_a_report_has_the_timeline_at_its_place():
    view = TimelineView("conv.nvprof", "m3.1.py 10000")
    sections = [Section("timeline", "Timeline", (view, view))]
    made = timeline([Span(0, 1, 2)])
    report = pages.report("r", sections, {"conv.nvprof": made})
    assert report.count(packed(made)) == 2
    assert report.count("DecompressionStream") == 1
    figures = re.findall(r'<figure class="timeline.*?</figure>', report, re.S)
    assert not [figure for figure in figures if re.search(r"\bid=", figure)]
    assert packed(made) not in pages.report("r", sections, {})

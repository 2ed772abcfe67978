"""Too many spans become fewer, and each lane is as busy as before."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from runner.core.evidence import Lane, LaneKind
from runner.figures.traces import spans
from runner.figures.traces.spans import Spans, picked


def spans_of(rows):
    found = Spans()
    for number, (lane, start, length) in enumerate(rows):
        found.extend([(lane,)], [start], [length], [number])
    return found


def busy(rows):
    """Return how long at least one of the spans lasts, by lane."""
    found = {}
    reached = {}
    for lane, start, length in sorted(rows):
        begun = max(start, reached.get(lane, start))
        end = start + length
        found[lane] = found.get(lane, 0) + max(0, end - begun)
        reached[lane] = max(reached.get(lane, end), end)
    return found


def numbered(rows):
    """Number lanes as spans do, by their first appearance."""
    lanes = list(dict.fromkeys(lane for lane, _, _ in rows))
    return [(lanes.index(lane), start, length) for lane, start, length in rows]


SPAN = st.tuples(
    st.integers(0, 2),
    st.integers(0, 300) | st.integers(0, 1 << 40),
    st.integers(0, 20) | st.integers(0, 400) | st.integers(0, 1 << 30),
)


def chained(pairs):
    """Return spans that begin so long after the end of the one before, or before it."""
    rows, at = [], 0
    for gap, length in pairs:
        start = max(0, at + gap)
        rows.append((0, start, length))
        at = start + length
    return rows


GAP = st.integers(0, 9) | st.integers(-30, 30) | st.integers(0, 3000)
LENGTH = st.integers(0, 12) | st.integers(1, 60) | st.integers(100, 900)
CHAIN = st.lists(st.tuples(GAP, LENGTH), min_size=12, max_size=100).map(chained)
ROWS = st.lists(SPAN, max_size=80) | CHAIN
MOST = st.integers(9, 60)


STRADDLING = [(0, 1000 * n, 995) for n in range(20)]
STRADDLING += [(0, 1000 * n + 990, 8) for n in range(20) for _ in range(4)]
ALTERNATING = [(0, 0, 100_000)]
for _place in range(99_000, 99_800, 4):
    ALTERNATING += [(0, _place, 3), (0, _place + 2, 2_000)]


@given(ROWS, MOST)
@example(STRADDLING, 9)
@example(STRADDLING, 60)
@example(ALTERNATING, 12)
def test_fewer_spans_keep_each_lane_as_busy_as_before_and_count_all(rows, most):
    picks = picked(spans_of(rows), most)
    drawn = [(pick.lane, pick.start, pick.length) for pick in picks]
    assert busy(drawn) == busy(numbered(rows))
    assert len(picks) <= most
    assert sum(pick.merged for pick in picks) == len(rows)
    order = [(pick.lane, pick.start) for pick in picks]
    assert order == sorted(order)
    ends = [start + length for _, start, length in rows]
    assert all(pick.start + pick.length <= max(ends) for pick in picks)


@given(ROWS, MOST)
def test_the_longest_spans_stay_as_they_are(rows, most):
    picks = picked(spans_of(rows), most)
    exact = {
        (pick.lane, pick.start, pick.length, pick.ref)
        for pick in picks
        if pick.merged == 1
    }
    by_length = sorted((length for _, _, length in rows), reverse=True)
    if len(rows) > most:
        limit = by_length[most // 3 - 1]
        longest = {
            (*row, ref) for ref, row in enumerate(numbered(rows)) if row[2] > limit
        }
        assert longest <= exact
    else:
        assert len(exact) == len(rows)


@given(ROWS, MOST)
def test_a_span_that_is_not_merged_lies_where_it_was_recorded(rows, most):
    placed = numbered(rows)
    for pick in picked(spans_of(rows), most):
        lane, start, length = placed[pick.ref]
        assert (lane, length) == (pick.lane, pick.lasted)
        if pick.merged == 1:
            assert start <= pick.start
            assert pick.start + pick.length <= start + length


def test_neighbours_become_one_that_is_as_long_as_they_are():
    rows = [(0, 10 * n, 4) for n in range(100)] + [(0, 5000, 900), (0, 7000, 800)]
    picks = picked(spans_of(rows), 9)
    assert [pick for pick in picks if pick.merged == 1] == [
        *((0, 5000, 900, 100, 1, 900), (0, 7000, 800, 101, 1, 800)),
    ]
    merged = [pick for pick in picks if pick.merged > 1]
    assert sum(pick.length for pick in merged) == 400
    assert 1 <= len(merged) <= 7


def test_a_call_within_a_merged_one_adds_no_time():
    rows = [(0, 100 * n, 50) for n in range(50)]
    rows += [(0, 100 * n + 10, 20) for n in range(50)]
    picks = picked(spans_of(rows), 10)
    assert sum(pick.length for pick in picks) == 50 * 50
    assert sum(pick.merged for pick in picks) == 100


def test_what_lies_within_a_long_span_is_merged_within_it():
    rows = [(0, 0, 10_000)] + [(0, 100 * n, 50) for n in range(90)]
    picks = picked(spans_of(rows), 12)
    assert (picks[0].length, picks[0].merged) == (10_000, 1)
    assert sum(pick.length for pick in picks[1:]) == 90 * 50


def test_a_span_that_others_cover_in_part_says_how_long_it_was():
    found = spans_of([(0, 0, 1000)] + [(0, 900 + 300 * n, 250) for n in range(20)])
    timeline = spans.timeline(
        found,
        lambda key: Lane("p", str(key), LaneKind.GPU),
        lambda ref, whole: spans.Description(f"span {ref}"),
        30 - 12,
    )
    first = timeline.names.index("span 1")
    place = list(timeline.name).index(first)
    assert (timeline.start[place], timeline.length[place]) == (1000, 150)
    assert dict(timeline.notes[timeline.facts[place]]) == {
        "whole duration": "250 ns, in part beside others"
    }

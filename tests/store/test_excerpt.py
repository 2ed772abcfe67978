"""A part of a run's output, found from its end or by bisection."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.core import Stream, events, quantities
from runner.core.errors import RaiError
from runner.store import excerpt
from runner.store.excerpt import Excerpt, Part
from runner.store.paths import RunPaths

OUT, ERR = Stream.STDOUT, Stream.STDERR
Write = tuple[int, Stream, bytes]


class Story:
    """A run's logs and events, written one after another, a second each."""

    def __init__(self, root: Path) -> None:
        self.paths = RunPaths(root)
        self.sizes = dict.fromkeys(Stream, 0)
        self.at = 0.0
        for path in (self.paths.stdout, self.paths.stderr, self.paths.events):
            path.touch()

    def tell(self, event: events.Event) -> None:
        self.at += 1.0
        with self.paths.events.open("ab") as file:
            file.write(events.to_line(event, self.at))

    def write(self, index: int, stream: Stream, data: bytes) -> None:
        with self.paths.log(stream).open("ab") as log:
            log.write(data)
        self.tell(events.Output(index, stream, b"", self.sizes[stream], len(data)))
        self.sizes[stream] += len(data)

    def read(self, part: Part) -> list[tuple[Stream, bytes]]:
        return joined((p.stream, p.data) for p in Excerpt(self.paths, part).pieces())


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


def joined(pieces) -> list[tuple[Stream, bytes]]:
    """Join the pieces of each stream that follow each other."""
    found: list[tuple[Stream, bytes]] = []
    for stream, data in pieces:
        if found and found[-1][0] is stream:
            found[-1] = (stream, found[-1][1] + data)
        elif data:
            found.append((stream, data))
    return found


def last(writes: list[Write], count: int) -> list[tuple[Stream, bytes]]:
    """The last lines, found the long way: each byte knows where its line ends."""
    order = [(stream, bytes([b])) for _, stream, data in writes for b in data]
    ends, open_since = {}, {}
    for place, (stream, byte) in enumerate(order):
        open_since.setdefault(stream, []).append(place)
        if byte == b"\n":
            for one in open_since.pop(stream):
                ends[one] = place
    for places in open_since.values():
        ends |= dict.fromkeys(places, places[-1])
    kept = sorted(set(ends.values()))[-count:] if count else []
    return joined(order[n] for n in range(len(order)) if ends[n] in kept)


WRITES = st.lists(
    st.tuples(
        st.just(0),
        st.sampled_from([OUT, ERR]),
        st.sampled_from(
            [b"a\n", b"b", b"\n", b"c\nd", b"ee\nff\n", b"\n\n\n", b"long" * 5]
        ),
    ),
    max_size=15,
)


@given(WRITES, st.integers(0, 12))
@settings(deadline=None, max_examples=60)
def test_the_last_lines_are_those_that_end_last(writes, count):
    with TemporaryDirectory() as folder:
        story = Story(Path(folder))
        for write in writes:
            story.write(*write)

        assert story.read(Part(lines=count)) == last(writes, count)


def test_all_of_it_is_what_was_written(story):
    story.write(0, OUT, b"\xff\x00\r\n")
    story.write(0, ERR, b"x")

    assert story.read(Part()) == [(OUT, b"\xff\x00\r\n"), (ERR, b"x")]


def test_a_line_over_many_pieces_is_whole(story, monkeypatch):
    monkeypatch.setattr(excerpt, "CHUNK_BYTES", 7)
    story.write(0, OUT, b"first\n" + b"a" * 100)
    story.write(0, ERR, b"error\n")
    story.write(0, OUT, b"b" * 100 + b"\nlast\n")

    assert story.read(Part(lines=1)) == [(OUT, b"last\n")]
    two = [(OUT, b"a" * 100), (ERR, b"error\n"), (OUT, b"b" * 100 + b"\nlast\n")]
    assert story.read(Part(lines=2)) == joined([two[0], two[2]])
    assert story.read(Part(lines=3)) == two


def test_a_command_and_a_time_choose_what_is_read(story):
    story.write(0, OUT, b"one\n")  # at 1.0
    story.write(1, OUT, b"two\n")
    story.write(1, ERR, b"three\n")
    story.write(2, OUT, b"four\n")

    second = frozenset({1})
    assert story.read(Part(commands=second)) == [(OUT, b"two\n"), (ERR, b"three\n")]
    assert story.read(Part(lines=1, commands=second)) == [(ERR, b"three\n")]
    assert story.read(Part(since=3.0)) == [(ERR, b"three\n"), (OUT, b"four\n")]
    assert story.read(Part(since=2.5, commands=second)) == [(ERR, b"three\n")]
    assert story.read(Part(lines=1, since=3.0)) == [(OUT, b"four\n")]
    assert story.read(Part(lines=9, since=4.5)) == []


def test_what_comes_later_is_read_too(story):
    story.write(0, OUT, b"old\nhalf")
    part = Excerpt(story.paths, Part(lines=1))

    first = [piece.data for piece in part.pieces()]
    story.write(0, OUT, b" and half\nnew\n")
    assert (first, [p.data for p in part.pieces()]) == (
        [b"half"],
        [b" and half\nnew\n"],
    )
    assert list(part.pieces()) == []


def test_before_there_is_any_event_there_is_nothing(tmp_path):
    part = Excerpt(RunPaths(tmp_path), Part(lines=5))

    assert list(part.pieces()) == []


def test_events_are_counted_and_chosen_alike(story):
    story.tell(events.CommandStarted(0, "x"))
    story.write(0, OUT, b"one\n")
    story.tell(events.CommandStarted(1, "y"))
    story.write(1, OUT, b"two\n")

    def lines(part: Part) -> list[str]:
        found = (events.from_line(x) for x in Excerpt(story.paths, part).lines())
        return [f"{at:g} {type(event).__name__}" for at, event in found]

    assert lines(Part(lines=1)) == ["4 Output"]
    assert lines(Part(lines=3, commands=frozenset({0}))) == [
        "1 CommandStarted",
        "2 Output",
    ]
    assert lines(Part(since=2.5)) == ["3 CommandStarted", "4 Output"]


def test_half_a_line_of_a_running_run_waits(story):
    story.write(0, OUT, b"one\n")
    with story.paths.events.open("ab") as file:
        file.write(b'{"at":2.0,"ev')

    assert story.read(Part(lines=3)) == [(OUT, b"one\n")]


def test_a_part_of_a_large_log_is_read_without_the_rest(story, monkeypatch):
    """The log is sparse: 64 GiB that nobody could read in a test's time."""
    step = 1 << 30
    for _ in range(64):
        story.sizes[OUT] += step
        place = story.sizes[OUT] - step
        story.tell(events.Output(0, OUT, b"", place, step))
    with story.paths.stdout.open("r+b") as log:
        log.truncate(story.sizes[OUT])
    story.sizes[OUT] = story.paths.stdout.stat().st_size
    story.write(0, OUT, b"\nlast but one\nlast\n")

    assert story.read(Part(lines=2)) == [(OUT, b"last but one\nlast\n")]
    assert story.read(Part(since=65.0)) == [(OUT, b"\nlast but one\nlast\n")]


@pytest.mark.parametrize(
    "line",
    [
        b'{"at":1.0,"event":"Nothing"}\n',
        b"{}\n",
        b'{"at":1.0,"event":"Output","index":0,"stream":"stdout","offset":-9,"length":3}\n',
    ],
)
def test_a_damaged_file_of_events_is_reported(story, line):
    story.paths.events.write_bytes(line)

    for part in (Part(), Part(since=0.5)):
        with pytest.raises(RaiError, match=r"events\.jsonl is damaged"):
            list(Excerpt(story.paths, part).pieces())


ZONE = timezone(timedelta(hours=2))
NOW = datetime(2026, 11, 22, 14, 0, 30, tzinfo=ZONE)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("5m", "2026-11-22T13:55:30+02:00"),
        ("90", "2026-11-22T13:59:00+02:00"),
        ("13:59", "2026-11-22T13:59:00+02:00"),
        ("14:01:05", "2026-11-21T14:01:05+02:00"),
        ("2026-11-20", "2026-11-20T00:00:00+02:00"),
        ("2026-11-20T09:30:00Z", "2026-11-20T09:30:00+00:00"),
        *(("", None), ("soon", None), ("25:00", None), ("2026-13-01", None)),
        *(("-5m", None), ("5m ago", None)),
    ],
)
def test_a_moment_is_a_span_ago_a_time_of_day_or_a_date(text, meant):
    expected = meant and datetime.fromisoformat(meant).timestamp()
    assert quantities.moment(text, NOW) == expected

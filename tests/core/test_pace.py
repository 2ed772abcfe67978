"""Output is gathered, so that a chatty program makes few events."""

from __future__ import annotations

from itertools import pairwise

from runner.core import Stream
from runner.core.events import MANY, MOST_PIECES, OutputPace

OUT, ERR = Stream.STDOUT, Stream.STDERR


def test_pieces_keep_their_order_and_neighbours_are_joined():
    pieces = [(OUT, b"a"), (OUT, b"b"), (ERR, b"c"), (OUT, b"d")]

    assert OutputPace().gathered(pieces) == [(OUT, b"ab"), (ERR, b"c"), (OUT, b"d")]


def test_of_too_many_pieces_few_events_are_made_and_no_byte_is_lost():
    pieces = [((OUT, ERR)[n % 2], b"%d " % n) for n in range(9999)]
    found = OutputPace().gathered(pieces)

    assert len(found) <= MOST_PIECES
    for stream in Stream:
        numbers = b"".join(data for one, data in found if one is stream).split()
        assert len(numbers) in (4999, 5000)
        assert all(int(b) - int(a) == 2 for a, b in pairwise(numbers))


def test_after_many_events_fewer_come():
    pace = OutputPace()
    before = pace.gather_s
    pace.count(MANY)

    assert pace.gather_s > 10 * before
    assert len(pace.gathered([(OUT, b"o"), (ERR, b"e")] * 50)) == 2

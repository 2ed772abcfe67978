"""Secret values in output, events and records: none is shown, nothing else is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runner.core import Reason, Stream, Verdict
from runner.core import events as ev
from runner.core.errors import EngineError
from runner.core.masking import Mask


def shown(mask: Mask, *pieces: bytes, stream: Stream = Stream.STDOUT) -> bytes:
    def told() -> Iterator[ev.Event]:
        for piece in pieces:
            yield ev.Output(0, stream, piece)
        yield ev.CommandFinished(0, 0, 0.1)

    found = mask.follow(told())
    return b"".join(e.data for e in found if isinstance(e, ev.Output))


def test_a_value_is_masked_wherever_the_output_is_cut():
    text = b"x hunter22 hunter2hun"
    mask = Mask(["hunter22"])
    for cut in range(len(text)):
        assert shown(mask, text[:cut], text[cut:]) == b"x *** hunter2hun"


def test_without_values_the_output_passes_as_it_comes():
    events = [ev.Output(0, Stream.STDOUT, b"a"), ev.Tick(0, 1.0)]
    assert list(Mask([]).follow(iter(events))) == events


@pytest.mark.parametrize(
    ("values", "text", "seen"),
    [
        (["hunter2", "hunter2-long"], b"hunter2-long hunter2-l", b"*** ***-l"),
        (["-----BEGIN-----\nabcdefgh\nxy\n"], b"|abcdefgh\r\n|xy\n", b"|***\r\n|xy\n"),
        (["31415926"], b"pin 31415926\n", b"pin ***\n"),
        # Values that stand in any output are not masked.
        (["abc", "", "1000", "-0.001"], b"abc 1000 -0.001\n", b"abc 1000 -0.001\n"),
        (["1e-5"], b"Op Time: 1e-5\n", b"Op Time: 1e-5\n"),
    ],
    ids=["begin alike", "lines", "long number", "usual words", "short number"],
)
def test_the_longest_value_that_is_no_usual_word_is_masked(values, text, seen):
    assert shown(Mask(values), text[:7], text[7:]) == seen


def test_the_two_streams_are_apart_and_keep_their_index():
    mask = Mask(["secret"])
    events = [
        ev.Output(3, Stream.STDOUT, b"sec"),
        ev.Output(3, Stream.STDERR, b"ret\n"),
        ev.CommandFinished(3, 0, 0.1),
    ]
    found = list(mask.follow(iter(events)))
    assert found == [events[1], events[0], events[2]]


def test_what_is_held_back_comes_before_the_error_of_an_engine():
    def fails() -> Iterator[ev.Event]:
        yield ev.Output(0, Stream.STDOUT, b"sec")
        raise EngineError("gone")

    events = Mask(["secret"]).follow(fails())
    assert next(events) == ev.Output(0, Stream.STDOUT, b"sec")
    with pytest.raises(EngineError):
        next(events)


def test_the_texts_of_events_are_masked_but_not_what_leads_somewhere():
    mask = Mask(["done", "docker"])
    ended = ev.Finished(Verdict(True, True, None, Reason.DONE, "docker is done"))
    skipped = ev.CommandSkipped(0, "docker run", "why", "done")
    kept = ev.Collected("/home/docker/build.tar.zst", 1, 1)

    assert mask.event(skipped) == ev.CommandSkipped(0, "*** run", "why", "***")
    masked = mask.event(ended)
    assert masked.verdict.message == "*** is ***"
    assert masked.verdict.reason is Reason.DONE
    assert mask.event(kept) == kept


def test_a_long_value_costs_no_time_where_its_beginning_is_common():
    mask = Mask(["a" * 60_000 + "b"])
    assert shown(mask, *[b"a" * 100] * 20) == b"a" * 2000

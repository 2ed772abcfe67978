"""Events fold up into a record, through their JSON lines and back."""

from __future__ import annotations

import itertools
import json

import pytest
from msgspec.structs import replace

from runner.core import (
    TRANSITIONS,
    EngineFacts,
    Findings,
    Inference,
    Limits,
    Machine,
    Outcome,
    Profile,
    ProfileFile,
    Reason,
    State,
    Stream,
    Verdict,
    record,
    transition,
)
from runner.core import events as ev
from tests.kit.needs import ROOT

RUN_OF_0_1 = ROOT / "tests/data/run"
"""Every kind of event, and the record they make, as version 0.1 wrote them."""

CREATED = ev.Created(
    "0a1b2c",
    "/p",
    "rai_build.yml",
    None,
    Machine("host", "Linux", "cpu", 2, 1 << 30, "3.11", "0.1"),
)
STORY = [
    CREATED,
    ev.EngineChosen(EngineFacts("local"), Profile.STRICT, Limits()),
    ev.StateChanged(State.PACKED),
    ev.Packed("ff" * 32, 100, 3),
    ev.StateChanged(State.PREPARING),
    ev.StateChanged(State.RUNNING),
    ev.CommandStarted(0, "make"),
    ev.Output(0, Stream.STDOUT, b"hello\n", 0, 6),
    ev.Output(0, Stream.STDERR, b"oh", 0, 2),
    ev.CommandFinished(0, 0, 1.5, 1.2),
    ev.Found(0, Findings((Inference((0.1, 0.2), 0.76, "ece408"),))),
    ev.CommandStarted(1, "false"),
    ev.CommandFinished(1, 1, 0.1, 0.0),
    ev.CommandSkipped(2, "./never", "command 2 failed"),
    ev.Usage(4096),
    ev.Collected("/r/build.tar.zst", 50, 2),
    ev.Profiled(0, (ProfileFile("nvprof", "t.nvprof", 84),)),
    ev.Finished(Verdict(True, False, None, Reason.COMMAND_FAILED, "`false` exited 1")),
]


def told(story: list[ev.Event]) -> list[tuple[float, ev.Event]]:
    return [(100.0 + n, event) for n, event in enumerate(story)]


def test_an_event_that_cannot_follow_ends_the_record_of_a_damaged_file():
    twice = [*STORY[:3], STORY[0], ev.StateChanged(State.NEW), *STORY[3:]]

    assert record.fold(told(twice)) == record.fold(told(STORY[:3]))


@pytest.mark.parametrize("at", ["1e300", "-1", "9" * 30, "1e999"])
def test_a_time_without_a_date_is_no_records_and_no_events(at):
    line = ev.to_line(STORY[0], 100.0)
    assert ev.from_line(line)[0] == 100.0
    with pytest.raises(ValueError):
        ev.from_line(line.replace(b"100.0", at.encode()))
    found = record.fold(told(STORY))
    assert found is not None
    written = record.to_json(found)
    assert record.from_json(written) == found
    with pytest.raises(ValueError):
        record.from_json(written.replace(b'_at": 100.0', b'_at": ' + at.encode()))


def test_a_record_holds_what_its_events_said():
    found = record.fold(told(STORY))

    assert (found.id, found.state, found.created_at) == ("0a1b2c", State.DONE, 100.0)
    assert [c.outcome for c in found.commands] == [
        Outcome.OK,
        Outcome.FAILED,
        Outcome.SKIPPED,
    ]
    assert [c.exit_code for c in found.commands] == [0, 1, None]
    assert (found.stdout_bytes, found.stderr_bytes) == (6, 2)
    assert found.peak_memory_bytes == 4096
    assert [len(c.profile_files) for c in found.commands] == [1, 0, 0]
    assert found.findings.inferences[0].op_times_s == (0.1, 0.2)
    assert found.verdict.reason is Reason.COMMAND_FAILED


def test_a_run_that_is_found_lost_after_the_clock_was_set_back_ends_when_it_began():
    begun = record.fold(told(STORY[:-1]))

    assert record.lost(begun, begun.created_at - 86_400).ended_at == begun.created_at


def test_a_replay_names_the_run_that_it_repeats_and_its_data_their_checksums():
    created = replace(CREATED, replays="ffee00")
    story = [created, ev.DataReady("a", "/data", "/home/a", "c0ffee")]
    lines = [ev.to_line(event, 1.0) for event in story]

    found = record.fold(map(ev.from_line, lines))

    assert (found.replays, found.data_md5) == ("ffee00", {"/data/a": "c0ffee"})
    assert record.from_json(record.to_json(found)) == found


def test_events_come_back_from_their_lines_without_the_bytes():
    for at, event in told(STORY):
        line = ev.to_line(event, at)
        again_at, again = ev.from_line(line)
        assert line.count(b"\n") == 1
        assert again_at == at
        if isinstance(event, ev.Output):
            assert b"hello" not in line
            assert (again.offset, again.length) == (event.offset, event.length)
        else:
            assert again == event


def kept_in(old: object, new: object) -> bool:
    """Tell whether all that an old file said is in a new one, in the same order."""
    if isinstance(old, dict) and isinstance(new, dict):
        named = [key for key in new if key in old]
        return named == list(old) and all(kept_in(old[k], new[k]) for k in old)
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(kept_in, old, new))
    return old == new


def test_the_files_of_version_0_1_are_read_and_written_with_all_they_said():
    lines = (RUN_OF_0_1 / "events.jsonl").read_bytes().splitlines(keepends=True)
    stamped = [ev.from_line(line) for line in lines]
    newer = {ev.Waiting, ev.Checked}
    kept = set(ev.Event.__subclasses__()) - set(ev.TRANSIENT) - newer
    assert {type(event) for _, event in stamped} == kept
    for line, (at, event) in zip(lines, stamped, strict=True):
        assert kept_in(json.loads(line), json.loads(ev.to_line(event, at)))

    found = record.fold(stamped)
    assert found is not None
    saved = (RUN_OF_0_1 / "record.json").read_bytes()
    assert kept_in(json.loads(saved), json.loads(record.to_json(found)))
    assert record.from_json(saved) == found


@pytest.mark.parametrize("line", [b"{}", b"[]", b'{"at": 1, "event": "Nothing"}', b"x"])
def test_a_line_that_is_no_event_is_refused(line):
    with pytest.raises(ValueError):
        ev.from_line(line)


@pytest.mark.parametrize("length", range(1, len(STORY)))
def test_a_story_that_breaks_off_is_lost_and_never_done(length):
    half = record.fold(told(STORY[:length]))

    assert not half.state.final
    gone = record.lost(half, 200.0)
    assert gone.state is State.LOST
    assert gone.verdict.reason.exit_code == 10


def test_a_command_is_running_until_its_end_and_unfinished_where_that_never_came():
    begun = record.fold(told(STORY[:7]))
    assert begun is not None
    left = ev.Finished(Verdict(True, False, None, Reason.CANCELLED))
    stopped = record.fold(told([*STORY[:7], left]))
    assert stopped is not None
    gone = record.lost(begun, 200.0)

    outcomes = [found.commands[0].outcome for found in (begun, stopped, gone)]
    assert outcomes == ["running", "unfinished", "unfinished"]


def test_a_synthetic_result_is_marked_and_is_no_accuracy():
    found = Findings((Inference((0.1,), model="ece408", agreement=1.0),))
    story = [*STORY[:7], ev.Found(0, found)]
    marked = record.fold(told(story))

    assert marked.synthetic
    assert record.plain(marked)["synthetic"] is True
    assert marked.findings.inferences[0].correctness is None


def test_only_the_end_of_a_run_has_exit_code_zero():
    assert [r for r in Reason if r.exit_code == 0] == [Reason.DONE]
    assert {r for r in Reason if not r.advice} == {Reason.DONE, Reason.USAGE}


@pytest.mark.parametrize(
    ("state", "to"),
    [
        (State.NEW, State.RUNNING),
        (State.RUNNING, State.PACKED),
        (State.DONE, State.RUNNING),
    ],
)
def test_a_step_that_the_table_does_not_have_is_refused(state, to):
    with pytest.raises(ValueError, match=f"from {state} to {to}"):
        transition(state, to)


def test_every_state_leads_to_an_end():
    for state in State:
        assert state in TRANSITIONS
        assert state.final or {State.CANCELLED, State.LOST} <= TRANSITIONS[state]


@pytest.mark.parametrize(
    "more",
    [
        lambda n: ev.CommandStarted(n, "make", None),
        lambda n: ev.Warned("odd"),
        lambda n: ev.DataReady(f"d{n}", "/data", "cache"),
        lambda n: ev.DataMissing(f"d{n}", "/data", "gone"),
    ],
)
def test_a_file_of_more_events_than_a_run_has_is_read_in_part(more, monkeypatch):
    monkeypatch.setattr(record, "MOST_WORK", 5000)
    read = []

    def endless():
        yield from told(STORY[:1])
        for n in itertools.count():
            read.append(n)
            yield 1.0, more(n)

    assert record.fold(endless()) is not None
    assert 90 < len(read) < 110

"""A GPU is out after a run's error of it, and comes back when it is well."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from runner.core import GpuWay, WayTried
from runner.gpu import access, nvidia
from runner.server import gpus_out
from runner.server.gpus_out import LEAST_S, NONE, GpusOut
from runner.worker.__main__ import surveyed
from tests.runner.gpus import machines

RUN, A, B = "0123456789", "GPU-a", "GPU-b"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def out(notes: gpus_out.Notes) -> list[str]:
    return [uuid for uuid, note in notes.items() if note.why]


def test_it_stays_out_for_a_minute_even_if_it_is_well():
    notes = gpus_out.failed(NONE, [A], RUN, 100.0)

    early = gpus_out.looked(notes, {A: "", B: ""}, 100.0 + LEAST_S - 1)
    late = gpus_out.looked(notes, {A: "", B: ""}, 100.0 + LEAST_S)

    assert out(early) == [A] and out(late) == []


@pytest.mark.parametrize("seen", [{A: "it does not answer"}, {B: ""}, {}])
def test_it_stays_out_until_it_is_seen_to_be_well(seen):
    notes = gpus_out.failed(NONE, [A], RUN, 100.0)
    assert out(gpus_out.looked(notes, seen, 10_000.0)) == [A]


def test_a_run_that_ended_before_it_came_back_puts_it_out_no_more():
    notes = gpus_out.failed(NONE, [A], RUN, 100.0)
    back = gpus_out.cleared(notes, A, 110.0)

    assert out(gpus_out.failed(back, [A], RUN, 100.0)) == []
    assert out(gpus_out.failed(back, [A], "another", 120.0)) == [A]


def test_a_second_error_begins_the_minute_again():
    notes = gpus_out.failed(NONE, [A], RUN, 100.0)
    notes = gpus_out.failed(notes, [A], "another", 150.0)
    assert out(gpus_out.looked(notes, {A: ""}, 100.0 + LEAST_S)) == [A]


def test_why_and_since_when_is_said_and_outlives_the_server(tmp_path):
    GpusOut(tmp_path).failed([A], RUN, 100.0)

    words = GpusOut(tmp_path).words()

    assert list(words) == [A]
    assert f"run {RUN} ended with an error of this GPU; out since 19" in words[A]


def test_it_is_let_back_at_once_by_hand(tmp_path):
    clock = Clock()
    one = GpusOut(tmp_path, clock)
    one.failed([A, B], RUN, clock.now)

    one.clear(A)
    one.clear("GPU-of-another-machine")

    assert list(one.words()) == list(GpusOut(tmp_path).words()) == [B]


def test_a_look_is_due_once_a_minute_is_over_and_none_was_made_since(tmp_path):
    clock = Clock()
    one = GpusOut(tmp_path, clock)
    one.failed([A], RUN, clock.now)

    assert not one.due(since=0.0)
    clock.now += LEAST_S
    assert one.due(since=clock.now - 1)
    assert not one.due(since=clock.now)


def test_a_file_that_is_damaged_puts_no_gpu_out(tmp_path):
    (tmp_path / gpus_out.FILE).write_text("{")
    assert GpusOut(tmp_path).words() == {}


def test_recorded_gpus_are_told_with_what_is_wrong_with_each(tmp_path):
    host = nvidia.host(machines.MICROVM.write(tmp_path))
    states = nvidia.states(host.gpus, tmp_path)
    local = access.local(host, states)
    open_ = replace(local, ways=(WayTried(GpuWay.NODES),))
    lost = replace(states[0], problem="it does not answer")
    uuid, name = machines.H200.uuid, machines.H200.name

    def told(*situations: object) -> list[tuple[str, str, str]]:
        found = surveyed(host.gpus, list(situations))  # type: ignore[arg-type]
        return [(one.uuid, one.name, one.out) for one in found]

    assert told(open_) == [(uuid, name, "")]
    assert told(local, open_) == [(uuid, name, "")]
    assert told(replace(open_, states=(lost,))) == [(uuid, name, "it does not answer")]
    assert told() == [(uuid, name, "no engine can give it to a run")]
    assert told(local)[0][2] == local.problem

"""A GPU is out after a run's error of it, and comes back when it is well."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from runner.core import GpuWay, WayTried
from runner.engines.gpu import access, nvidia
from runner.execution.worker import surveyed
from runner.server.workers import GPUS, LEAST_OUT_S, GpusOut
from tests.kit import gpu_machines as machines

RUN, A, B = "0123456789", "GPU-a", "GPU-b"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def out(tmp_path):
    """The GPUs that are out after run RUN ended with an error of A at 100 s."""
    one = GpusOut(tmp_path, Clock())
    one.failed([A], RUN, 100.0)
    return one


@pytest.mark.parametrize(
    ("seen", "at", "left"),
    [
        ({A: "", B: ""}, 100.0 + LEAST_OUT_S - 1, [A]),
        ({A: "", B: ""}, 100.0 + LEAST_OUT_S, []),
        ({A: "it does not answer"}, 10_000.0, [A]),
        ({B: ""}, 10_000.0, [A]),
        ({}, 10_000.0, [A]),
    ],
)
def test_it_stays_out_for_a_minute_and_until_it_is_seen_to_be_well(out, seen, at, left):
    out.looked(seen, at)
    assert list(out.words()) == left


def test_a_run_that_ended_before_it_came_back_puts_it_out_no_more(out):
    out.clear(A)  # at 1000 s
    out.failed([A], RUN, 100.0)
    assert out.words() == {}
    out.failed([A], "another", 1010.0)
    assert list(out.words()) == [A]


def test_a_second_error_begins_the_minute_again(out):
    out.failed([A], "another", 150.0)
    out.looked({A: ""}, 100.0 + LEAST_OUT_S)
    assert list(out.words()) == [A]


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
    clock.now += LEAST_OUT_S
    assert one.due(since=clock.now - 1)
    assert not one.due(since=clock.now)


def test_a_file_that_is_damaged_puts_no_gpu_out(tmp_path):
    (tmp_path / GPUS).write_text("{")
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

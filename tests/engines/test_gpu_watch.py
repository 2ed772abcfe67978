"""How a run's GPUs are looked at: beside the run, and never for long."""

from __future__ import annotations

import threading

import pytest

from runner.core import Gpu, GpuGrant, GpuState, GpuWay
from runner.core.events import CommandStarted
from runner.engines.gpu import watch as watching
from runner.engines.gpu.watch import Watch

GRANT = GpuGrant((Gpu("GPU-a", "X", 0),), (GpuWay.NODES,), "580.1")
COMMAND = CommandStarted(0, "true")


def told(watch: Watch) -> list:
    return list(watch.around(GpuWay.NODES, iter([COMMAND])))


def test_the_first_look_is_taken_while_the_run_is_set_up():
    looked = threading.Event()

    def look(gpus: tuple[Gpu, ...]) -> tuple[GpuState, ...]:
        looked.set()
        return tuple(GpuState(each.uuid, 345) for each in gpus)

    watch = Watch(GRANT, look, at_once=True)
    assert looked.wait(5)
    first, command, last = told(watch)
    assert command is COMMAND
    assert first.use.before == last.use.before == (GpuState("GPU-a", 345),)
    assert (first.use.after, last.use.after) == ((), (GpuState("GPU-a", 345),))


def test_a_look_that_fails_ends_no_run():
    def look(_: tuple[Gpu, ...]) -> tuple[GpuState, ...]:
        raise ValueError("what NVML cannot be asked")

    first, command, last = told(Watch(GRANT, look))
    assert command is COMMAND
    assert (first.use.before, last.use.after) == ((), ())


def test_a_gpu_that_never_answers_holds_no_run_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(watching, "QUERY_S", 0.05)
    over = threading.Event()

    def look(_: tuple[Gpu, ...]) -> tuple[GpuState, ...]:
        over.wait()
        return (GpuState("GPU-a", 345),)

    first, _, last = told(Watch(GRANT, look))
    over.set()
    assert (first.use.before, last.use.after) == ((), ())
    assert (first.over, last.over) == (False, True)

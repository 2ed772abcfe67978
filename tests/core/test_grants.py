"""How a run comes to its GPUs, on an engine that follows a script."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from runner.core import (
    Gpu,
    GpuSituation,
    GpuState,
    GpuWay,
    Outcome,
    Reason,
    State,
    WayTried,
)
from runner.core import events as ev
from runner.core.errors import Cancel
from runner.core.request import Terms
from tests.execution.test_job import PROJECT, carry_out
from tests.kit.fake_engine import FakeEngine, FakeResult

__all__ = ["PROJECT"]

SPEC = """\
rai: {version: 0.2}
resources:
  gpu: {count: %d, optional: %s}
commands:
  build_image: {target: cpu, gpu_target: gpu}
  build:
    - anywhere
    - {run: on the GPU, needs: gpu}
"""
ONE, TWO = Gpu("GPU-1", "NVIDIA H200", 0), Gpu("GPU-2", "NVIDIA H200", 1)
WAYS = (WayTried(GpuWay.REQUEST, "no toolkit"), WayTried(GpuWay.NODES))
HERE = GpuSituation(WAYS, (ONE, TWO), "580.159.04")
NONE = GpuSituation(problem="this machine has no GPU", hint="buy one")


def spec(count: int = 1, optional: bool = False) -> str:
    return SPEC % (count, str(optional).lower())


def test_a_run_holds_its_gpu_and_the_record_names_it_and_the_way(project):
    engine = FakeEngine(images=True, situation=HERE)

    found, _, _ = carry_out(project, engine, text=spec())

    assert engine.ran == ["anywhere", "on the GPU"]
    assert found.gpu.gpus == (ONE,)
    assert found.gpu.way is GpuWay.NODES
    assert found.gpu.driver == "580.159.04"
    assert found.gpu.after[0].sm_clock_mhz == 1980
    assert engine.held == []


def test_with_a_gpu_the_gpu_target_is_built_and_without_one_the_other(project):
    with_one = FakeEngine(images=True, situation=HERE)
    without = FakeEngine(images=True, situation=NONE)

    carry_out(project, with_one, text=spec())
    carry_out(project, without, text=spec(optional=True))

    assert with_one.built == ["gpu"]
    assert without.built == ["cpu"]


def test_without_a_gpu_a_run_that_needs_one_ends_with_what_to_do(project):
    engine = FakeEngine(images=True, situation=NONE)

    found, _, _ = carry_out(project, engine, text=spec())

    assert engine.ran == engine.built == []
    assert found.verdict.reason is Reason.NO_GPU
    assert "this machine has no GPU; buy one" in found.verdict.message
    assert {c.outcome for c in found.commands} == {Outcome.SKIPPED}


def test_without_a_gpu_an_optional_one_is_said_and_what_needs_it_is_skipped(project):
    engine = FakeEngine(images=True, situation=NONE)

    found, _, _ = carry_out(project, engine, text=spec(optional=True))

    assert engine.ran == ["anywhere"]
    assert found.verdict.reason is Reason.DONE
    assert "this machine has no GPU" in found.warnings[0]
    assert "needs a GPU" in found.commands[1].why
    assert found.gpu is None


def test_an_optional_gpu_that_does_not_answer_is_as_good_as_none(project):
    lost = tuple(GpuState(g.uuid, problem="GPU is lost") for g in (ONE, TWO))
    engine = FakeEngine(images=True, situation=replace(HERE, states=lost))

    found, _, _ = carry_out(project, engine, text=spec(optional=True))

    assert engine.ran == ["anywhere"]
    assert found.verdict.reason is Reason.DONE
    assert "out of order: NVIDIA H200 GPU-1, NVIDIA H200 GPU-2" in found.warnings[0]


@pytest.mark.parametrize("optional", [False, True])
def test_more_gpus_than_there_are_are_refused_before_the_image_is_built(
    project, optional
):
    engine = FakeEngine(images=True, situation=HERE)

    found, _, _ = carry_out(project, engine, text=spec(3, optional))

    assert found.verdict.reason is Reason.NO_GPU
    assert "3 GPUs" in found.verdict.message
    assert engine.built == []


def test_a_gpu_in_use_is_passed_over_for_a_free_one(project):
    engine = FakeEngine(images=True, situation=HERE, busy={"GPU-1": 99})

    found, told, _ = carry_out(project, engine, text=spec())

    assert found.gpu.gpus == (TWO,)
    assert not any(isinstance(e, ev.GpuBusy) for e in told)


def test_a_run_waits_for_gpus_in_use_and_holds_none_meanwhile(project):
    engine = FakeEngine(images=True, situation=HERE, busy={"GPU-2": 1})

    found, told, _ = carry_out(project, engine, text=spec(2))

    (waited,) = (e for e in told if isinstance(e, ev.GpuBusy))
    assert waited.why == "GPU-2 is held by run 12345"
    assert ev.StateChanged(State.QUEUED) in told
    assert found.gpu.gpus == (ONE, TWO)
    assert found.verdict.reason is Reason.DONE


def test_a_wait_in_vain_ends_busy_and_says_who_holds_the_gpu(project):
    engine = FakeEngine(images=True, situation=HERE, busy={"GPU-1": 99, "GPU-2": 99})

    found, _, _ = carry_out(project, engine, text=spec(), gpu_wait_s=0)

    assert found.verdict.reason is Reason.BUSY
    assert found.verdict.message == (
        "GPU-1 is held by run 12345; GPU-2 is held by run 12345"
    )
    assert engine.ran == []


def test_an_engine_elsewhere_is_looked_at_again_from_its_image(project):
    unknown = GpuSituation((WayTried(GpuWay.REQUEST),), None)
    engine = FakeEngine(images=True, situation=unknown, seen_inside=HERE)

    found, _, _ = carry_out(project, engine, text=spec())

    assert engine.built == ["gpu"]
    assert found.gpu.gpus == (ONE,)


def test_a_driver_too_old_for_the_image_is_said_before_the_first_command(project):
    old = GpuSituation(WAYS, (ONE,), "535.104.05")
    engine = FakeEngine(images=True, situation=old, cuda="13.0")

    found, _, _ = carry_out(project, engine, text=spec())

    assert found.verdict.reason is Reason.NO_GPU
    assert "535.104.05" in found.verdict.message
    assert "580" in found.verdict.message
    assert engine.ran == []


OLD = replace(ONE, compute="6.1")
NEW = replace(TWO, compute="9.0")
MIXED = replace(HERE, gpus=(OLD, NEW))


def test_a_gpu_that_the_images_cuda_no_longer_serves_is_passed_over(project):
    engine = FakeEngine(images=True, situation=MIXED, cuda="13.0")

    found, _, _ = carry_out(project, engine, text=spec())

    assert found.gpu.gpus == (NEW,)


def test_gpus_too_old_for_the_image_are_said_before_the_first_command(project):
    engine = FakeEngine(images=True, situation=MIXED, cuda="13.0")

    found, _, _ = carry_out(project, engine, text=spec(2))

    assert found.verdict.reason is Reason.NO_GPU
    assert "needs compute capability 7.5 or newer" in found.verdict.message
    assert engine.ran == []


def test_a_run_that_is_cancelled_while_it_waits_for_a_gpu_ends_and_holds_none(project):
    engine = FakeEngine(images=True, situation=HERE, busy={"GPU-1": 99, "GPU-2": 99})
    cancel = Cancel()

    found, _, _ = carry_out(
        project,
        engine,
        text=spec(),
        cancel=cancel,
        heard=lambda e: cancel.request() if isinstance(e, ev.GpuBusy) else None,
    )

    assert found.verdict.reason is Reason.CANCELLED
    assert found.state is State.CANCELLED
    assert engine.ran == engine.held == []


def test_a_later_engine_is_asked_for_its_own_gpus(project):
    first = FakeEngine(images=True, situation=HERE, no_image=True)
    second = FakeEngine(name="second", situation=NONE)

    found, _, _ = carry_out(project, first, second, text=spec(optional=True))

    assert second.ran == ["anywhere"]
    assert found.gpu is None


def test_a_gpu_that_is_lost_in_the_run_is_no_fault_of_the_command(project):
    failing = {"on the GPU": FakeResult(exit_code=1)}
    engine = FakeEngine(failing, situation=HERE, images=True, breaks_gpu="it is lost")

    found, _, _ = carry_out(project, engine, text=spec())

    assert found.verdict.reason is Reason.GPU_ERROR
    assert not found.verdict.served
    assert "GPU-1: it is lost" in found.verdict.message


def test_a_command_that_succeeds_is_done_whatever_becomes_of_the_gpu(project):
    engine = FakeEngine(situation=HERE, images=True, breaks_gpu="it is lost")

    found, _, _ = carry_out(project, engine, text=spec())

    assert found.verdict.reason is Reason.DONE
    assert found.gpu.after[0].problem == "it is lost"


OUT = Terms(gpus_out={"GPU-1": "run 0123456789 ended with an error of this GPU"})


def test_a_run_never_gets_a_gpu_that_is_out(project):
    engine = FakeEngine(images=True, situation=HERE)

    found, _, _ = carry_out(project, engine, text=spec(), terms=OUT)

    assert found.gpu is not None and found.gpu.gpus == (TWO,)


def test_it_does_not_get_one_that_only_a_container_sees(project):
    remote = GpuSituation((WayTried(GpuWay.REQUEST),), None)
    engine = FakeEngine(images=True, situation=remote, seen_inside=HERE)

    found, _, _ = carry_out(project, engine, text=spec(), terms=OUT)

    assert found.gpu is not None and found.gpu.gpus == (TWO,)


def test_where_all_gpus_are_out_why_is_said(project):
    engine = FakeEngine(images=True, situation=replace(HERE, gpus=(ONE,)))

    needs, _, _ = carry_out(project, engine, text=spec(), terms=OUT)
    can, _, _ = carry_out(project, engine, text=spec(optional=True), terms=OUT)

    text = f"out of order: NVIDIA H200 GPU-1 ({OUT.gpus_out['GPU-1']})"
    assert needs.verdict is not None and needs.verdict.reason is Reason.NO_GPU
    assert text in needs.verdict.message
    assert text in can.warnings[0]

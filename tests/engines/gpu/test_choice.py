"""Which GPUs a run may get, and what is refused with what words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from runner.core import (
    Gpu,
    GpuRequest,
    GpuSituation,
    GpuState,
    GpuWay,
    Reason,
    WayTried,
)
from runner.core.errors import EngineError, UsageError
from runner.engines.gpu import access, choice, nvidia
from tests.kit import gpu_machines as machines

ONE = "GPU-1b2c3d4e-0000-1111-2222-333344445555"
CARD = "GPU-c0ffee00-1111-2222-3333-444455556666"
SLICED = GpuSituation(
    (WayTried(GpuWay.NODES),),
    tuple(
        Gpu(f"MIG-{n}1111-2222", "NVIDIA A100 MIG 3g.20gb", 0, parent=CARD)
        for n in ("aaaa", "bbbb")
    ),
)


@pytest.fixture
def situation(tmp_path):
    """Return a recorded machine's GPUs, all of them within reach."""

    def of(machine):
        host = nvidia.host(machine.write(tmp_path))
        return replace(access.local(host), ways=(WayTried(GpuWay.NODES),))

    return of


def refused(request_, found):
    with pytest.raises(EngineError) as error:
        choice.candidates(request_, found)
    assert error.value.reason is Reason.NO_GPU
    return str(error.value)


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("2", GpuRequest(count=2)),
        ("0", None),
        (f"{ONE}, MIG-aaaa", GpuRequest(count=2, uuids=(ONE, "MIG-aaaa"))),
    ],
)
def test_a_number_or_uuids_are_asked_for_as_written(text, asked):
    assert choice.parse(text) == asked


@pytest.mark.parametrize(
    ("machine", "asked", "said"),
    [
        (
            machines.WORKSTATION,
            GpuRequest(count=3),
            ["needs 3 GPUs, but this machine has 1: NVIDIA GeForce", "ask for fewer"],
        ),
        (
            machines.WORKSTATION,
            GpuRequest(count=2, uuids=("GPU-dead", "GPU-beef")),
            ["there is no GPU GPU-dead here", "GPU-beef", machines.RTX.uuid],
        ),
        (
            machines.WORKSTATION,
            GpuRequest(count=2, uuids=("GPU-1b", "GPU-1b2c")),
            ["named more than once"],
        ),
        (
            machines.NODELESS,
            GpuRequest(),
            ["its device files are missing; run `nvidia-modprobe -u -c 0`"],
        ),
    ],
)
def test_gpus_that_are_not_there_are_refused_with_why(machine, asked, said, situation):
    text = refused(asked, situation(machine))

    assert [part for part in said if part not in text] == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("all", "does not take `all`"),
        ("", 'takes a number or UUIDs, not ""'),
        ("1.5", 'not "1.5"'),
        ("0,1", "a GPU's number differs between machines"),
        ("GPU-1b2c,gpu-1B2C", "names gpu-1b2c more than once"),
        (f"{ONE},", 'not ""'),
    ],
)
def test_what_names_no_gpu_is_a_usage_error(text, said):
    with pytest.raises(UsageError) as error:
        choice.parse(text)
    assert said in str(error.value)
    assert "rai doctor" in str(error.value)


@given(st.text(max_size=30))
def test_whatever_is_asked_gives_a_request_or_a_usage_error(text):
    try:
        asked = choice.parse(text)
    except UsageError:
        return
    assert asked is None or asked.count >= 1


def test_the_least_disturbed_gpu_comes_first(tmp_path):
    root = machines.FOUR_GPUS.write(tmp_path)
    host = nvidia.host(root)
    states = nvidia.states(host.gpus, root)
    found = choice.candidates(GpuRequest(count=1), access.local(host, states))
    assert [gpu.index for gpu in found] == [1, 3, 2, 0]


def test_a_gpu_out_of_order_is_not_given_and_is_named(situation):
    found = situation(machines.WORKSTATION)
    lost = GpuState(machines.RTX.uuid, problem="it does not answer: GPU is lost")
    text = refused(GpuRequest(), replace(found, states=(lost,)))
    assert f"out of order: NVIDIA GeForce RTX 4070 {machines.RTX.uuid}" in text


OUT = "run 0123456789 ended with an error of this GPU"
FIRST = machines.FOUR[0].uuid
DAMAGED = GpuState(FIRST, temperature_c=40, problem="a damaged row")


@pytest.mark.parametrize(
    ("asked", "known", "order"),
    [
        (GpuRequest(count=2), {}, [0, 1, 2, 3]),
        (GpuRequest(count=2, uuids=("GPU-3", "gpu-1")), {}, [3, 1]),
        (GpuRequest(), {"states": (DAMAGED,)}, [1, 2, 3, 0]),
        (GpuRequest(), {"out": {FIRST: OUT}}, [1, 2, 3]),
    ],
    ids=["by number", "as named", "damaged memory comes last", "one is out"],
)
def test_gpus_are_given_in_an_order(asked, known, order, situation):
    found = choice.candidates(asked, replace(situation(machines.FOUR_GPUS), **known))
    assert [gpu.index for gpu in found] == order


def test_a_beginning_that_several_share_is_refused():
    assert "use more characters" in refused(GpuRequest(uuids=("MIG-",)), SLICED)


def test_a_whole_gpu_in_mig_mode_is_refused_with_its_slices():
    text = refused(GpuRequest(uuids=(CARD,)), SLICED)
    assert "is in MIG mode" in text
    assert "MIG-aaaa1111" in text


def test_a_slice_is_given_only_by_name():
    assert "given only by name: NVIDIA A100" in refused(GpuRequest(), SLICED)
    named = GpuRequest(uuids=("MIG-bbbb",))
    assert choice.candidates(named, SLICED) == SLICED.gpus[1:]


def test_a_slice_that_this_process_was_given_is_taken_by_number_too():
    mine = replace(SLICED, allotted="CUDA_VISIBLE_DEVICES=MIG-aaaa")
    assert choice.candidates(GpuRequest(), mine) == mine.gpus


def test_gpus_of_an_engine_elsewhere_must_be_seen_before_one_is_chosen():
    unseen = GpuSituation((WayTried(GpuWay.REQUEST),), None)
    assert "are not known" in refused(GpuRequest(), unseen)


def test_a_run_that_needs_a_gpu_that_is_out_is_refused_with_why(situation):
    four = situation(machines.FOUR_GPUS)
    first = four.gpus[0]
    found = replace(four, out={first.uuid: OUT})

    for asked in (GpuRequest(count=4), GpuRequest(uuids=(first.uuid,))):
        said = refused(asked, found)
        assert f"out of order: {first.name} {first.uuid} ({OUT})" in said


def test_no_slice_of_a_card_that_is_out_is_given():
    named = GpuRequest(uuids=("MIG-bbbb",))
    assert OUT in refused(named, replace(SLICED, out={CARD: OUT}))
    one = replace(SLICED, out={SLICED.gpus[0].uuid: OUT})
    assert choice.candidates(named, one) == SLICED.gpus[1:]

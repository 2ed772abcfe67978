"""Which of a machine's GPUs a process was given: by Slurm, or by who started it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from runner.core import Gpu, GpuRequest, HostGpus
from runner.core.errors import EngineError
from runner.engines import doctor as findings
from runner.engines.gpu import access, choice, nvidia
from tests.engines.gpu.test_access import DEBIAN_2010
from tests.kit import gpu_machines as machines

L40S = "NVIDIA L40S"
FOUR = tuple(
    Gpu(f"GPU-{n}0000000-aaaa", L40S, n, (f"/dev/nvidia{n}",)) for n in range(4)
)
SLICES = tuple(
    Gpu(f"MIG-{n}bcd", "A100 MIG 3g.20gb", 0, ("/dev/nvidia0",), parent="GPU-c0ffee")
    for n in range(2)
)
NODE = HostGpus("linux", driver="580.1", gpus=FOUR)
MIG = HostGpus("linux", gpus=SLICES)
ON_A_NODE = {"SLURM_JOB_ID": "5", "SLURMD_NODENAME": "n1"}


def listed(*numbers):
    """Return what the driver lists where devices are constrained: counted from 0."""
    gpus = (replace(FOUR[n], index=index) for index, n in enumerate(numbers))
    return HostGpus("linux", gpus=tuple(gpus))


def given(host, **environ):
    return [gpu.uuid for gpu in choice.narrowed(host, environ).gpus]


def job(host, **environ):
    return given(host, **ON_A_NODE, **environ)


def uuids(*numbers):
    return [FOUR[n].uuid for n in numbers]


def test_all_gpus_are_used_where_nothing_narrows_them():
    assert choice.narrowed(NODE, {"PATH": "/usr/bin"}) is NODE


@pytest.mark.parametrize(
    ("value", "numbers"),
    [
        ("1", [1]),
        ("2,0", [0, 2]),
        (" 3 , 1", [1, 3]),
        ("1,9,2", [1]),
        ("0,-1,1", [0]),
        ("GPU-2", [2]),
        ("GPU-20000000-AAAA,GPU-3", [2, 3]),
        ("gpu-20000000-aaaa", []),
        ("GPU-2 ", [2]),
        (" GPU-2", []),
        ("GPU-2,GPU-20000000-aaaa", []),
        ("00", [0]),
        ("GPU-2,1", [2]),
        ("1,GPU-2", [1]),
        ("GPU-2,GPU-f", [2]),
        ("1,", [1]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("all", []),
        ("9,0", []),
        ("1,1", []),
        ("GPU-", []),
        ("0x1", []),
        ("1:0", []),
    ],
)
def test_inherited_devices_are_read_as_cuda_reads_them(value, numbers):
    found = given(NODE, CUDA_VISIBLE_DEVICES=value)
    assert sorted(found) == uuids(*numbers)


@pytest.mark.parametrize(
    ("value", "of_two", "of_one"),
    [
        ("MIG-0bcd", ["MIG-0bcd"], ["MIG-0bcd"]),
        ("MIG-", [], []),
        ("0", [], ["MIG-0bcd"]),
        ("GPU-c0ff", [], ["MIG-0bcd"]),
    ],
)
def test_a_slice_is_named_by_its_uuid_and_never_guessed(value, of_two, of_one):
    assert given(MIG, CUDA_VISIBLE_DEVICES=value) == of_two
    one = replace(MIG, gpus=SLICES[:1])
    assert given(one, CUDA_VISIBLE_DEVICES=value) == of_one


def test_numbers_of_different_gpus_need_an_order_that_is_known():
    mixed = replace(NODE, gpus=(replace(FOUR[0], name="NVIDIA T4"), *FOUR[1:]))
    found = choice.narrowed(mixed, {"CUDA_VISIBLE_DEVICES": "1"})
    assert found.gpus == ()
    assert "PCI_BUS_ID" in found.hint
    order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert given(mixed, CUDA_VISIBLE_DEVICES="1", **order) == uuids(1)
    assert given(mixed, CUDA_VISIBLE_DEVICES="GPU-1") == uuids(1)


def test_where_devices_are_constrained_all_that_are_listed_are_the_jobs():
    host = listed(2, 3)
    words = {"SLURM_JOB_GPUS": "2,3"}
    assert job(host, CUDA_VISIBLE_DEVICES="0,1", **words) == uuids(2, 3)
    assert job(host, **words) == uuids(2, 3)
    assert job(host, CUDA_VISIBLE_DEVICES="1", **words) == uuids(3)


@pytest.mark.parametrize(
    ("numbers", "visible", "found"),
    [([2], "0", [2]), ([2], "2", [2]), ([0, 2], "0,1", [0, 2]), ([1, 2], "1", [1])],
)
def test_gpus_that_a_job_may_not_open_do_not_count(numbers, visible, found):
    gpus = tuple(FOUR[n] for n in numbers)
    closed = tuple(
        f"GPU {n}: Insufficient Permissions" for n in range(4) if n not in numbers
    )
    host = HostGpus("linux", gpus=gpus, lost=closed)
    words = {"SLURM_JOB_GPUS": ",".join(map(str, numbers))}
    assert job(host, CUDA_VISIBLE_DEVICES=visible, **words) == uuids(*found)
    assert choice.narrowed(host, {**ON_A_NODE, **words}).lost == ()


def test_where_devices_are_not_constrained_the_jobs_numbers_are_the_nodes():
    words = {"SLURM_JOB_GPUS": "2", "CUDA_VISIBLE_DEVICES": "2"}
    assert job(NODE, **words) == uuids(2)
    found = choice.narrowed(NODE, {**ON_A_NODE, **words})
    assert found.withheld == (FOUR[0], FOUR[1], FOUR[3])
    assert found.allotted == (
        "SLURM_JOB_GPUS=2 of Slurm job 5 and CUDA_VISIBLE_DEVICES=2"
    )


def test_a_step_has_its_own_gpus_of_those_of_the_job():
    words = {"SLURM_JOB_GPUS": "2,3", "SLURM_STEP_GPUS": "3"}
    assert job(NODE, CUDA_VISIBLE_DEVICES="3", **words) == uuids(3)
    assert job(listed(3), CUDA_VISIBLE_DEVICES="0", **words) == uuids(3)


def test_a_job_without_gpus_gets_none_though_the_driver_lists_some():
    for visible in ({}, {"CUDA_VISIBLE_DEVICES": "0"}):
        found = choice.narrowed(NODE, {**ON_A_NODE, **visible})
        assert found.gpus == ()
        assert found.problem == "Slurm job 5 has no GPU"
        assert "--gres=gpu:1" in found.hint
        assert not access.local(found).any


def test_a_job_without_gpus_that_may_open_none_is_told_to_ask_slurm():
    shut = HostGpus("linux", "580.1", problem="ann may not open /dev/nvidia0", hint="?")
    found = choice.narrowed(shut, ON_A_NODE)
    assert found.problem == "Slurm job 5 has no GPU"
    assert "--gres=gpu:1" in found.hint
    assert choice.narrowed(shut, {**ON_A_NODE, "SLURM_JOB_GPUS": "0"}) is shut
    bare = HostGpus("linux", problem="this machine has no NVIDIA GPU")
    assert choice.narrowed(bare, ON_A_NODE) is bare


def test_the_shell_of_an_allocation_on_the_login_node_gets_no_gpu_there():
    found = choice.narrowed(NODE, {"SLURM_JOB_ID": "5"})
    assert found.gpus == ()
    assert "srun --pty bash" in found.hint


@pytest.mark.parametrize(
    ("host", "environ"),
    [
        (NODE, {"SLURM_JOB_GPUS": "7"}),
        (NODE, {"SLURM_JOB_GPUS": "2", "CUDA_VISIBLE_DEVICES": "0"}),
        (NODE, {"SLURM_JOB_GPUS": "2", "CUDA_VISIBLE_DEVICES": "GPU-1"}),
        (NODE, {"SLURM_JOB_GPUS": "2", "CUDA_VISIBLE_DEVICES": "NoDevFiles"}),
        (NODE, {"SLURM_JOB_GPUS": "2", "CUDA_VISIBLE_DEVICES": ""}),
        (NODE, {"SLURM_JOB_GPUS": "mps"}),
        (replace(listed(0, 1), lost=("GPU 2", "GPU 3")), {"SLURM_JOB_GPUS": "2,3"}),
        (MIG, {"SLURM_JOB_GPUS": "1"}),
        (MIG, {"SLURM_JOB_GPUS": "1", "CUDA_VISIBLE_DEVICES": "1"}),
    ],
)
def test_what_does_not_fit_is_no_gpu_rather_than_a_neighbours(host, environ):
    found = choice.narrowed(host, {**ON_A_NODE, **environ})
    assert found.gpus == ()
    assert found.problem
    assert found.hint
    assert not access.docker(DEBIAN_2010, found).any


def test_numbers_that_mean_two_gpus_are_none():
    swapped = replace(
        NODE,
        gpus=tuple(replace(g, nodes=(f"/dev/nvidia{3 - g.index}",)) for g in FOUR),
    )
    found = choice.narrowed(swapped, {**ON_A_NODE, "SLURM_JOB_GPUS": "0"})
    assert found.gpus == ()
    assert "ConstrainDevices=yes" in found.hint
    assert job(swapped, SLURM_JOB_GPUS="0,3") == uuids(0, 3)


def test_a_jobs_slices_are_those_that_slurm_names_by_uuid():
    words = {"SLURM_JOB_GPUS": "1"}
    assert job(MIG, CUDA_VISIBLE_DEVICES="MIG-1bcd", **words) == ["MIG-1bcd"]
    both = job(MIG, CUDA_VISIBLE_DEVICES="MIG-0bcd,MIG-1bcd", **words)
    assert both == []


def test_a_neighbours_gpu_is_refused_by_name():
    words = {"SLURM_JOB_GPUS": "1", "CUDA_VISIBLE_DEVICES": "1"}
    situation = access.local(
        replace(
            choice.narrowed(NODE, {**ON_A_NODE, **words}),
            nodes=(access.UVM,),
            libraries=((access.LIBCUDA, "/lib/libcuda.so.1"),),
        )
    )
    with pytest.raises(EngineError, match="not among those of SLURM_JOB_GPUS=1"):
        choice.candidates(GpuRequest(uuids=("GPU-2",)), situation)
    with pytest.raises(EngineError, match="CUDA_VISIBLE_DEVICES=1 allows 1"):
        choice.candidates(GpuRequest(count=2), situation)
    assert choice.candidates(GpuRequest(count=1), situation) == (FOUR[1],)


def test_an_engine_on_another_machine_is_not_narrowed():
    far = replace(DEBIAN_2010, here=False, runtimes=("nvidia",))
    situation = access.docker(far, choice.narrowed(NODE, ON_A_NODE))
    assert situation.gpus is None
    assert situation.any


def test_a_recorded_node_is_narrowed_and_the_doctor_tells_by_what(tmp_path):
    host = nvidia.host(machines.FOUR_GPUS.write(tmp_path))
    words = {**ON_A_NODE, "SLURM_JOB_GPUS": "1,3"}
    narrow = choice.narrowed(host, words)
    assert [gpu.index for gpu in narrow.gpus] == [1, 3]
    found = {f.subject: f for f in findings.findings(narrow, (), {})}
    assert found["GPUs allowed"].text == (
        "2 of 4 that are listed, by SLURM_JOB_GPUS=1,3 of Slurm job 5"
    )
    none = choice.narrowed(host, ON_A_NODE)
    (only,) = findings.findings(none, (), {})
    assert only.text == "Slurm job 5 has no GPU"

"""The ways by which engines give access to GPUs, from recorded facts."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from runner.core import DockerGpus, Gpu, GpuWay, HostGpus
from runner.gpu import access, nvidia
from tests.runner.gpus import machines

DEBIAN_2010 = DockerGpus(
    api_version="1.41",
    runtimes=("io.containerd.runc.v2", "io.containerd.runtime.v1.linux", "runc"),
)
UBUNTU_TOOLKIT = DockerGpus(
    api_version="1.47",
    runtimes=("io.containerd.runc.v2", "nvidia", "runc"),
)
DOCKER_283 = DockerGpus(
    api_version="1.51",
    runtimes=("io.containerd.runc.v2", "runc"),
    cdi_devices=(
        "nvidia.com/gpu=0",
        f"nvidia.com/gpu={machines.RTX.uuid}",
        "nvidia.com/gpu=all",
    ),
    cdi_folders=("/etc/cdi", "/var/run/cdi"),
)


@pytest.fixture
def facts(tmp_path):
    """Look at a recorded machine."""
    return lambda machine: nvidia.host(machine.write(tmp_path))


def why(situation, way):
    return next(tried.problem for tried in situation.ways if tried.way is way)


def test_with_the_toolkit_a_device_request_comes_first(facts):
    situation = access.docker(UBUNTU_TOOLKIT, facts(machines.WORKSTATION))
    assert situation.open == (GpuWay.REQUEST, GpuWay.NODES)
    assert situation.any
    assert situation.driver == "570.124.06"
    assert why(situation, GpuWay.CDI).startswith("CDI is off")


def test_the_toolkits_hook_serves_a_request_without_a_registered_runtime(facts):
    situation = access.docker(DEBIAN_2010, facts(machines.WORKSTATION))
    assert situation.open[0] is GpuWay.REQUEST


def test_where_a_specification_alone_is_there_cdi_serves(facts):
    situation = access.docker(DOCKER_283, facts(machines.CDI_ONLY))
    assert situation.open == (GpuWay.CDI, GpuWay.NODES)
    assert "install nvidia-container-toolkit" in why(situation, GpuWay.REQUEST)


def test_an_engine_that_tells_no_cdi_devices_reads_the_machines_own(facts):
    older = replace(DOCKER_283, api_version="1.48", cdi_devices=())
    assert GpuWay.CDI in access.docker(older, facts(machines.CDI_ONLY)).open


def test_a_specification_of_another_machines_gpus_is_no_way(facts):
    stale = replace(DOCKER_283, cdi_devices=("nvidia.com/gpu=GPU-00000000-aaaa",))
    situation = access.docker(stale, facts(machines.CDI_ONLY))
    assert GpuWay.CDI not in situation.open
    assert "nvidia-ctk cdi generate" in why(situation, GpuWay.CDI)


def test_with_neither_toolkit_nor_cdi_the_nodes_and_libraries_are_left(facts):
    situation = access.docker(DEBIAN_2010, facts(machines.MICROVM))
    assert situation.open == (GpuWay.NODES,)
    assert why(situation, GpuWay.CDI) == "Docker supports CDI since version 25"
    assert [gpu.name for gpu in situation.gpus] == ["NVIDIA H200"]


def test_the_nodes_are_no_way_while_unified_memory_has_none(facts):
    nodes = ("nvidia0", "nvidiactl")
    situation = access.docker(
        DEBIAN_2010, facts(replace(machines.MICROVM, nodes=nodes))
    )
    assert not situation.any
    assert "nvidia-modprobe -u -c 0" in situation.problem


def test_without_libcuda_the_nodes_lead_nowhere(facts, tmp_path):
    facts(machines.MICROVM)
    for file in (tmp_path / machines.MICROVM.libraries).glob("libcuda.*"):
        file.unlink()
    situation = access.local(nvidia.host(tmp_path))
    assert not situation.any
    assert "libcuda.so.1 is not found" in situation.problem


def test_a_machine_without_a_gpu_says_so_whatever_the_engine_has(facts):
    situation = access.docker(UBUNTU_TOOLKIT, facts(machines.LAPTOP))
    assert not situation.any
    assert situation.problem == "this machine has no NVIDIA GPU"


def test_an_engine_elsewhere_with_the_toolkit_may_have_gpus_nobody_here_knows():
    there = replace(UBUNTU_TOOLKIT, here=False)
    situation = access.docker(there, HostGpus("macos", problem="no NVIDIA driver"))
    assert situation.open == (GpuWay.REQUEST,)
    assert situation.gpus is None
    assert situation.any
    assert situation.problem == ""


def test_elsewhere_cdi_that_is_on_and_cannot_be_asked_for_its_devices_may_serve():
    silent = replace(
        DOCKER_283, here=False, runtimes=(), api_version="1.45", cdi_devices=()
    )
    telling = replace(silent, api_version="1.51")
    laptop = HostGpus("linux", problem="this machine has no NVIDIA GPU")

    assert access.docker(silent, laptop).open == (GpuWay.CDI,)
    assert access.docker(silent, laptop).gpus is None
    assert access.docker(telling, laptop).open == ()
    assert access.docker(replace(silent, cdi_folders=()), laptop).open == ()


def test_an_engine_elsewhere_without_any_way_says_what_to_install_there(facts):
    there = replace(DEBIAN_2010, here=False)
    situation = access.docker(there, facts(machines.WORKSTATION))
    assert (situation.any, situation.gpus) == (False, ())
    assert situation.hint.startswith("there: install nvidia-container-toolkit")
    assert "on another machine" in why(situation, GpuWay.NODES)


def test_a_sandbox_has_the_nodes_alone(facts):
    situation = access.local(facts(machines.MICROVM))
    assert situation.open == (GpuWay.NODES,)
    assert situation.gpus[0].nodes == ("/dev/nvidia0",)


def test_every_way_that_is_not_there_says_why(facts):
    there = replace(DEBIAN_2010, here=False)
    for engine in (DEBIAN_2010, UBUNTU_TOOLKIT, DOCKER_283, there):
        situation = access.docker(engine, facts(machines.LAPTOP))
        assert [tried.way for tried in situation.ways] == list(GpuWay)
        assert situation.problem


def test_cdi_names_a_gpu_by_uuid_before_its_number():
    gpus = (Gpu("GPU-a", "x", 0), Gpu("GPU-b", "x", 1))
    names = ("nvidia.com/gpu=0", "nvidia.com/gpu=GPU-a", "nvidia.com/gpu=1")
    found = access.cdi_names(gpus, names, HostGpus("linux"))
    assert found == ("nvidia.com/gpu=GPU-a", "nvidia.com/gpu=1")
    more = (*gpus, Gpu("GPU-c", "x", 2))
    assert access.cdi_names(more, names, HostGpus("linux")) is None


def test_cdi_names_the_gpus_of_a_job_by_uuid_alone():
    host = HostGpus("linux", allotted="Slurm job 5")
    numbers = ("nvidia.com/gpu=0", "nvidia.com/gpu=1")
    assert access.cdi_names((Gpu("GPU-b", "x", 0),), numbers, host) is None
    found = access.cdi_names((Gpu("GPU-b", "x", 0),), ("nvidia.com/gpu=GPU-b",), host)
    assert found == ("nvidia.com/gpu=GPU-b",)


def test_a_slice_never_takes_the_cdi_name_of_its_whole_gpu():
    part = Gpu("MIG-a", "x", 0, parent="GPU-a")
    host = HostGpus("linux")
    assert access.cdi_names((part,), ("nvidia.com/gpu=0",), host) is None
    named = ("nvidia.com/gpu=0", "nvidia.com/gpu=MIG-a")
    assert access.cdi_names((part,), named, host) == ("nvidia.com/gpu=MIG-a",)

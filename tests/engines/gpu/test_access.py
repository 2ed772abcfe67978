"""The ways by which engines give access to GPUs, from recorded facts."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from runner.core import DockerGpus, Gpu, GpuWay, HostGpus
from runner.engines.gpu import access, nvidia
from tests.kit import gpu_machines as machines

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


STALE = replace(DOCKER_283, cdi_devices=("nvidia.com/gpu=GPU-00000000-aaaa",))
SILENT = replace(DOCKER_283, api_version="1.48", cdi_devices=())
WITHOUT_UVM = replace(machines.MICROVM, nodes=("nvidia0", "nvidiactl"))


@pytest.mark.parametrize(
    ("engine", "machine", "ways", "closed", "said"),
    [
        (
            *(UBUNTU_TOOLKIT, machines.WORKSTATION, [GpuWay.REQUEST, GpuWay.NODES]),
            *(GpuWay.CDI, "CDI is off"),
        ),
        (
            *(DEBIAN_2010, machines.WORKSTATION, [GpuWay.REQUEST, GpuWay.NODES]),
            *(GpuWay.CDI, "Docker supports CDI since version 25"),
        ),
        (
            *(DOCKER_283, machines.CDI_ONLY, [GpuWay.CDI, GpuWay.NODES]),
            *(GpuWay.REQUEST, "install nvidia-container-toolkit"),
        ),
        (
            *(SILENT, machines.CDI_ONLY, [GpuWay.CDI, GpuWay.NODES]),
            *(GpuWay.REQUEST, "install nvidia-container-toolkit"),
        ),
        (
            *(STALE, machines.CDI_ONLY, [GpuWay.NODES]),
            *(GpuWay.CDI, "nvidia-ctk cdi generate"),
        ),
        (
            *(DEBIAN_2010, machines.MICROVM, [GpuWay.NODES]),
            *(GpuWay.CDI, "Docker supports CDI since version 25"),
        ),
        (DEBIAN_2010, WITHOUT_UVM, [], GpuWay.NODES, "nvidia-modprobe -u -c 0"),
    ],
)
def test_the_ways_to_a_gpu_come_in_order_and_others_say_why(
    engine, machine, ways, closed, said, facts
):
    situation = access.docker(engine, facts(machine))
    assert situation.open == tuple(ways)
    assert said in why(situation, closed)
    assert [tried.way for tried in situation.ways] == list(GpuWay)
    assert situation.any is bool(ways) is not bool(situation.problem)


@pytest.mark.parametrize("engine", [DEBIAN_2010, UBUNTU_TOOLKIT, DOCKER_283])
def test_a_machine_without_a_gpu_says_so_whatever_the_engine_has(engine, facts):
    situation = access.docker(engine, facts(machines.LAPTOP))
    assert not situation.any
    assert situation.problem == "this machine has no NVIDIA GPU"


def test_a_sandbox_has_the_nodes_alone(facts):
    situation = access.local(facts(machines.MICROVM))
    assert situation.open == (GpuWay.NODES,)
    assert situation.gpus[0].nodes == ("/dev/nvidia0",)
    assert situation.driver == machines.MICROVM.driver


def test_without_libcuda_the_nodes_lead_nowhere(facts, tmp_path):
    facts(machines.MICROVM)
    for file in (tmp_path / machines.MICROVM.libraries).glob("libcuda.*"):
        file.unlink()
    situation = access.local(nvidia.host(tmp_path))
    assert not situation.any
    assert "libcuda.so.1 is not found" in situation.problem


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


HERE = HostGpus("linux")
IN_A_JOB = HostGpus("linux", allotted="Slurm job 5")
A, B, C = (Gpu(f"GPU-{letter}", "x", n) for n, letter in enumerate("abc"))
SLICE = Gpu("MIG-a", "x", 0, parent="GPU-a")


@pytest.mark.parametrize(
    ("gpus", "names", "host", "found"),
    [
        ((A, B), ("0", "GPU-a", "1"), HERE, ("GPU-a", "1")),
        ((A, B, C), ("0", "GPU-a", "1"), HERE, None),
        ((B,), ("0", "1"), IN_A_JOB, None),
        ((B,), ("GPU-b",), IN_A_JOB, ("GPU-b",)),
        ((SLICE,), ("0",), HERE, None),
        ((SLICE,), ("0", "MIG-a"), HERE, ("MIG-a",)),
    ],
)
def test_cdi_names_a_gpu_by_uuid_before_its_number_and_a_slice_by_uuid_alone(
    gpus, names, host, found
):
    def called(words):
        return words and tuple(f"nvidia.com/gpu={word}" for word in words)

    assert access.cdi_names(gpus, called(names), host) == called(found)

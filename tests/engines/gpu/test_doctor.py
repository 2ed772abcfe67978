"""What `rai doctor` says of GPUs on recorded machines."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from runner.core import Gpu, GpuSituation, GpuWay, HostGpus, WayTried
from runner.engines import doctor
from runner.engines.doctor import Health
from runner.engines.gpu import access, nvidia
from tests.engines.gpu.test_access import DEBIAN_2010, UBUNTU_TOOLKIT
from tests.kit import gpu_machines as machines


@pytest.fixture
def examined(tmp_path):
    """Return findings about a recorded machine with one Docker Engine, by subject."""

    def examine(machine, engine):
        root = machine.write(tmp_path)
        host = nvidia.host(root)
        engines = {"docker": access.docker(engine, host), "local": access.local(host)}
        states = nvidia.states(host.gpus, root) if host.gpus else ()
        found = doctor.findings(host, states, engines)
        return {finding.subject: finding for finding in found}

    return examine


def test_a_machine_without_a_gpu_has_one_line(examined):
    found = examined(machines.LAPTOP, DEBIAN_2010)
    assert list(found) == ["GPU"]
    assert found["GPU"].text == "this machine has no NVIDIA GPU"


def test_a_gpu_is_told_with_driver_files_and_every_way(examined):
    found = examined(machines.MICROVM, DEBIAN_2010)
    assert {finding.state for finding in found.values()} == {Health.OK}
    assert found["GPU driver"].text.startswith("580.159.04; /usr/local/nvidia/bin/")
    assert "NVIDIA H200, 140 GiB, compute capability 9.0" in found["GPU 0"].text
    assert machines.H200.uuid in found["GPU 0"].text
    assert found["GPU files"].text.startswith("/dev/nvidia0 /dev/nvidiactl")
    assert "libcuda.so.1" in found["GPU files"].text
    assert found["GPU files"].text.endswith("in /usr/local/nvidia/lib64")
    docker = found["GPU by docker"].text
    assert "install nvidia-container-toolkit" in docker
    assert "CDI: Docker supports CDI since version 25" in docker
    assert docker.endswith("device nodes and the driver's libraries: available")
    assert found["GPU by local"].text == (
        "device nodes and the driver's libraries: available"
    )


def test_who_else_computes_is_a_note(examined):
    found = examined(machines.FOUR_GPUS, UBUNTU_TOOLKIT)
    assert found["GPU 0"].state is Health.NOTE
    users = "in use by python (7001, 40.0 GiB), ollama (7002, 512.0 MiB)"
    assert users in found["GPU 0"].text
    assert found["GPU 1"].state is Health.OK


def test_a_gpu_in_mig_mode_and_its_slices_are_told():
    part = Gpu("MIG-1", "A100 MIG 3g.20gb", 0, parent="GPU-1")
    host = HostGpus("linux", "550.90", gpus=(part,), sliced=("GPU 0 (A100, GPU-1)",))
    found = {each.subject: each for each in doctor.findings(host, (), {})}
    assert "MIG 3g.20gb" in found["GPU 0 (MIG slice)"].text
    assert (
        found["GPU"].text == "GPU 0 (A100, GPU-1) is in MIG mode: no run gets it whole"
    )
    assert "name a slice" in found["GPU"].advice


def test_a_machine_whose_only_gpu_is_in_mig_mode_says_so(examined):
    found = examined(machines.SLICED, UBUNTU_TOOLKIT)
    assert found["GPU"].text.startswith("in MIG mode: GPU 0 (NVIDIA A100")


def test_a_missing_device_file_says_how_to_make_it(examined):
    nodes = ("nvidia0", "nvidiactl")
    found = examined(replace(machines.MICROVM, nodes=nodes), UBUNTU_TOOLKIT)
    assert found["GPU files"].state is Health.MISSING
    assert found["GPU files"].advice == "run `nvidia-modprobe -u -c 0`"
    assert found["GPU by local"].state is Health.MISSING
    assert found["GPU by docker"].state is Health.OK


def test_a_lost_gpu_has_a_line_of_its_own():
    host = replace(nvidia.host(), lost=("GPU 1: GPU is lost",))
    found = doctor.findings(host, (), {})
    assert "GPU 1: GPU is lost" in [finding.text for finding in found]


def test_gpus_of_an_engine_elsewhere_are_told_where_this_machine_has_none(tmp_path):
    host = nvidia.host(machines.LAPTOP.write(tmp_path))
    unseen = GpuSituation((WayTried(GpuWay.REQUEST),), None)
    found = doctor.findings(host, (), {"docker": unseen})
    assert [finding.subject for finding in found] == ["GPU", "GPU by docker"]
    assert found[1].text.endswith("only a container there can list its GPUs")

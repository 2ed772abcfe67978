"""What NVML tells, by a library with its names and recorded answers (nvml.c)."""

from __future__ import annotations

import json
import platform
import shutil
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from runner.system import process
from tests.kit import gpu_machines as machines

LOOK = """
import sys, pathlib, msgspec
from runner.engines.gpu import nvidia
from runner.core import Gpu
root = pathlib.Path(sys.argv[1])
facts = nvidia.host(root)
gpus = facts.gpus
gpus = [*gpus, *(Gpu(uuid, "", 0) for uuid in sys.argv[2:])]
states = nvidia.states(gpus, root)
print(msgspec.json.encode([facts, states], enc_hook=str).decode())
"""
IMPATIENT = """
import atexit, os, threading
from runner.engines.gpu import nvml
nvml.ANSWER_S = 0.2
hanging = lambda: threading.active_count() - 1
atexit.register(lambda: hanging() == 1 or os._exit(3))
"""
LOST = "GPU-77aa0c2a-9d1b-47aa-8f0e-6b1c2d3e4f51"

pytestmark = [
    pytest.mark.programs,
    pytest.mark.cpp,
    pytest.mark.skipif(platform.system() != "Linux", reason="its libraries are .so"),
]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Compile the library once."""
    out = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    source = Path(__file__).with_name("nvml.c")
    flags = ["-shared", "-fPIC", "-w", "-Wl,-soname,libnvidia-ml.so.1"]
    done = process.run(["cc", *flags, "-o", out, source], timeout_s=60)
    assert done.exit_code == 0, done.stderr.decode()
    return out


@pytest.fixture
def look(library, tmp_path):
    """Look at a machine from a process of its own, as NVML is loaded but once."""

    def at(machine: str, recorded=machines.MICROVM, uuids=(), first=""):
        root = recorded.write(tmp_path)
        place = root / recorded.libraries / f"libnvidia-ml.so.{recorded.driver}"
        shutil.copy(library, place)
        (root / recorded.smi).unlink()
        env = {"NVML_MACHINE": machine, "PYTHONPATH": ":".join(sys.path)}
        words = [sys.executable, "-c", first + LOOK, root, *uuids]
        done = process.run(words, timeout_s=60, env=env)
        assert done.exit_code == 0, done.stderr.decode()
        return json.loads(done.stdout)

    return at


def test_a_gpu_is_told_with_its_device_file(look):
    facts, (state,) = look("h200")
    (gpu,) = facts["gpus"]
    assert (gpu["name"], gpu["compute"]) == ("NVIDIA H200", "9.0")
    assert (gpu["memory_bytes"], gpu["nodes"]) == (150754820096, ["/dev/nvidia0"])
    assert facts["driver"] == "580.159.04"
    assert (state["sm_clock_mhz"], state["memory_clock_mhz"]) == (1980, 3201)
    assert (state["temperature_c"], state["power_w"]) == (41, 118.25)
    assert state["throttle"] == ["software power cap"]
    process_ = {"pid": 4294967, "name": "python3.11", "memory_bytes": 1 << 30}
    assert state["processes"] == [process_]
    assert state["problem"] == ""


def test_a_slice_has_its_gpus_device_file_and_its_two_capabilities(look):
    facts, states = look("a100", machines.SLICED)
    caps = "/dev/nvidia-caps/nvidia-cap"
    assert [gpu["nodes"] for gpu in facts["gpus"]] == [
        ["/dev/nvidia0", f"{caps}12", f"{caps}13"],
        ["/dev/nvidia0", f"{caps}21", f"{caps}22"],
    ]
    assert facts["gpus"][0]["memory_bytes"] == 20937965568
    assert {gpu["parent"] for gpu in facts["gpus"]} == {machines.A100.uuid}
    assert [state["temperature_c"] for state in states] == [41, 41]
    assert [len(state["processes"]) for state in states] == [1, 0]


def test_capabilities_are_also_found_where_only_their_access_files_tell(look):
    texts = {
        f"proc/driver/nvidia/capabilities/gpu0/mig/{way}/access": (
            f"DeviceFileMinor: {minor}\nDeviceFileMode: 256\nDeviceFileModify: 1\n"
        )
        for way, minor in (("gi1", 12), ("gi1/ci0", 13))
    }
    facts, _ = look("a100", replace(machines.SLICED, texts=texts))
    caps = "/dev/nvidia-caps/nvidia-cap"
    assert facts["gpus"][0]["nodes"] == ["/dev/nvidia0", f"{caps}12", f"{caps}13"]


def test_mig_mode_without_a_slice_is_said(look):
    facts, _ = look("empty", machines.SLICED)
    assert facts["gpus"] == []
    assert facts["problem"].startswith("in MIG mode: GPU 0 (NVIDIA A100")


def test_a_lost_gpu_takes_none_of_the_others_with_it(look):
    facts, (here, lost) = look("lost", uuids=[LOST])
    assert [gpu["index"] for gpu in facts["gpus"]] == [0]
    assert facts["lost"] == ["GPU 1: GPU is lost"]
    assert here["problem"] == ""
    assert lost["problem"] == "it does not answer: GPU is lost"


def test_libraries_newer_than_the_kernel_module_are_said(look):
    facts, (state,) = look("mismatch", uuids=[LOST])
    assert "another version than its kernel module" in facts["problem"]
    assert "mismatch" in state["problem"]


def test_a_driver_that_never_answers_is_waited_for_once_and_not_for_long(look):
    facts, (state,) = look("hung", uuids=[LOST], first=IMPATIENT)
    silence = "NVML gave no answer in 0.2 s"
    assert facts["problem"] == f"the NVIDIA driver does not answer: {silence}"
    assert state["problem"] == f"it does not answer: {silence}"


def test_without_the_package_pynvml_no_answer_is_had_and_said(look):
    facts, _ = look("h200", first="import sys; sys.modules['pynvml'] = None")
    assert "the NVIDIA driver does not answer" in facts["problem"]
    assert "pynvml" in facts["problem"]


def test_a_gpu_without_memory_of_its_own_is_there(look):
    facts, _ = look("gb10")
    assert [gpu["memory_bytes"] for gpu in facts["gpus"]] == [0]


def test_rows_that_wait_for_a_reset_are_a_problem(look):
    _, (state,) = look("pending")
    assert state["problem"] == "its memory has rows to be remapped by a reset"

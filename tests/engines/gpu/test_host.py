"""What a machine's files and nvidia-smi tell of its GPUs."""

from __future__ import annotations

import json
import os
import sys

import pytest

from runner.engines.gpu import nvidia
from runner.system import process
from tests.kit import gpu_machines as machines

MIB = 1 << 20


@pytest.mark.parametrize(
    ("machine", "problem", "hint"),
    [
        (machines.LAPTOP, "this machine has no NVIDIA GPU", ""),
        (machines.UNDRIVEN, "but no driver is loaded", "modprobe nvidia"),
        (machines.NODELESS, "files are missing", "nvidia-modprobe -u -c 0"),
        (machines.MISMATCHED, "version than its kernel module", "restart the machine"),
    ],
)
def test_a_machine_without_a_gpu_to_use_says_why_and_what_to_do(
    machine, problem, hint, tmp_path
):
    facts = nvidia.host(machine.write(tmp_path))

    assert problem in facts.problem
    assert hint in facts.hint
    assert facts.gpus == ()


def test_neither_nvml_nor_yaml_is_loaded_where_there_is_no_gpu(tmp_path):
    machines.LAPTOP.write(tmp_path)
    code = (
        "import sys, pathlib; from runner.engines.gpu import nvidia;"
        f"nvidia.host(pathlib.Path({str(tmp_path)!r}));"
        "print({'pynvml', 'yaml', 'ctypes', 'docker'} & set(sys.modules))"
    )
    done = process.run([sys.executable, "-c", code], timeout_s=30)
    assert done.stdout.decode().strip() == "set()"


def test_a_gpu_that_nouveau_drives_needs_another_driver(tmp_path):
    root = machines.UNDRIVEN.write(tmp_path)
    card = root / "sys/bus/pci/devices/0000:01:00.0"
    (card / "driver").symlink_to("../../../bus/pci/drivers/nouveau")
    assert "nouveau" in nvidia.host(root).problem


def test_in_a_container_the_device_files_come_from_outside(tmp_path):
    root = machines.NODELESS.write(tmp_path)
    (root / ".dockerenv").touch()
    assert "docker run --gpus" in nvidia.host(root).hint


def test_a_workstation_shows_its_gpu_its_toolkit_and_what_a_run_needs(tmp_path):
    facts = nvidia.host(machines.WORKSTATION.write(tmp_path))
    assert facts.problem == ""
    (gpu,) = facts.gpus
    assert (gpu.uuid, gpu.name) == (machines.RTX.uuid, "NVIDIA GeForce RTX 4070")
    assert (gpu.memory_bytes, gpu.compute) == (12282 * MIB, "8.9")
    assert gpu.nodes == ("/dev/nvidia0",)
    assert facts.nodes == (
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
        "/dev/nvidia-uvm-tools",
    )
    assert facts.toolkit == "/usr/bin/nvidia-container-runtime-hook"
    assert facts.programs == ("/usr/bin/nvidia-smi",)
    assert facts.driver == "570.124.06"


def test_a_library_is_the_real_file_behind_the_name_that_is_asked_for(tmp_path):
    facts = nvidia.host(machines.MICROVM.write(tmp_path))
    folder = "/usr/local/nvidia/lib64"
    assert dict(facts.libraries) == {
        "libcuda.so.1": f"{folder}/libcuda.so.580.159.04",
        "libnvidia-ml.so.1": f"{folder}/libnvidia-ml.so.580.159.04",
        "libnvidia-ptxjitcompiler.so.1": (
            f"{folder}/libnvidia-ptxjitcompiler.so.580.159.04"
        ),
        "libnvidia-nvvm.so.4": f"{folder}/libnvidia-nvvm.so.580.159.04",
        "libnvidia-gpucomp.so.580.159.04": (
            f"{folder}/libnvidia-gpucomp.so.580.159.04"
        ),
        "libcudadebugger.so.1": f"{folder}/libcudadebugger.so.580.159.04",
    }


def test_of_several_drivers_libraries_those_of_the_kernel_module_are_taken(tmp_path):
    root = machines.MICROVM.write(tmp_path)
    machines.libraries(root / "usr/lib64", "535.183.01")
    libraries = dict(nvidia.host(root).libraries)
    assert libraries["libcuda.so.1"] == (
        "/usr/local/nvidia/lib64/libcuda.so.580.159.04"
    )


def test_the_devices_of_a_cdi_specification_are_known_by_name(tmp_path):
    root = machines.CDI_ONLY.write(tmp_path)
    other = {"kind": "example.com/net", "devices": [{"name": "nvidia.com/gpu=7"}]}
    here = {"kind": "nvidia.com/gpu", "devices": [{"name": "9"}]}
    for name, spec in (("other", other), ("here", here)):
        (root / f"etc/cdi/{name}.json").write_text(json.dumps(spec))
    names = ("9", "0", machines.RTX.uuid, "all")
    assert nvidia.host(root).cdi == tuple(f"nvidia.com/gpu={name}" for name in names)


def test_a_cdi_specification_that_cannot_be_read_names_nothing(tmp_path):
    root = machines.WORKSTATION.write(tmp_path)
    (root / "etc/cdi").mkdir(parents=True)
    (root / "etc/cdi/nvidia.yaml").write_text("kind: nvidia.com/gpu\ndevices: [}\n")
    facts = nvidia.host(root)
    assert (facts.cdi, len(facts.gpus)) == ((), 1)


def test_what_is_no_file_in_the_folder_of_specifications_is_not_waited_for(tmp_path):
    root = machines.CDI_ONLY.write(tmp_path)
    os.mkfifo(root / "etc/cdi/a.yaml")
    (root / "etc/cdi/b.yaml").symlink_to("b.yaml")
    (root / "etc/cdi/endless.json").symlink_to("/dev/zero")
    assert len(nvidia.host(root).cdi) == 3


def test_under_wsl_the_driver_is_that_of_windows(tmp_path):
    facts = nvidia.host(machines.wsl(tmp_path))
    assert (facts.system, facts.driver, facts.nodes) == ("wsl", "576.02", ("/dev/dxg",))
    assert [gpu.uuid for gpu in facts.gpus] == [machines.RTX.uuid]
    assert dict(facts.libraries)["libcuda.so.1"] == "/usr/lib/wsl/lib/libcuda.so.1"


def test_under_wsl_without_nvidias_driver_windows_lends_nothing(tmp_path):
    root = machines.wsl(tmp_path)
    (root / "usr/lib/wsl/lib/libcuda.so.1").unlink()
    assert "WSL has no access to an NVIDIA GPU" in nvidia.host(root).problem


def test_a_state_tells_clocks_heat_and_who_computes(tmp_path):
    root = machines.FOUR_GPUS.write(tmp_path)
    facts = nvidia.host(root)
    states = nvidia.states(facts.gpus, root)
    assert [len(state.processes or ()) for state in states] == [2, 0, 1, 0]
    assert states[0].processes[0].name == "python"
    assert states[0].processes[0].memory_bytes == 40960 * MIB
    assert states[2].processes[0].memory_bytes is None
    assert (states[0].sm_clock_mhz, states[0].sm_clock_most_mhz) == (345, 1980)
    assert (states[0].temperature_c, states[0].power_w) == (33, 76.4)


def test_the_state_of_a_gpu_that_nobody_tells_of_is_a_problem(tmp_path):
    root = machines.WORKSTATION.write(tmp_path)
    (gpu,) = nvidia.host(root).gpus
    (root / "usr/bin/nvidia-smi").unlink()
    (state,) = nvidia.states([gpu], root)
    assert state.problem.startswith("it does not answer: ")
    assert state.problem.endswith("nvidia-smi is not found")


@pytest.mark.gpu
def test_a_real_gpu_has_a_name_a_device_file_and_a_temperature():
    facts = nvidia.host()
    assert facts.problem == ""
    assert all(gpu.memory_bytes > 0 and gpu.nodes for gpu in facts.gpus)
    assert dict(facts.libraries)["libcuda.so.1"]
    for state in nvidia.states(facts.gpus):
        assert state.problem == ""
        assert state.temperature_c is not None
        assert state.sm_clock_mhz is not None

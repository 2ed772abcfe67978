"""The milestones of the GPU, as processes of their own."""

import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from course import checkpoints
from course.errors import GpuError, MissingError, NoGpuError, ProjectError, UsageError
from plans import kernels

from runner.figures import scanner
from tests.kit import outside
from tests.kit.program import run_program

pytestmark = [pytest.mark.programs, pytest.mark.usefixtures("compiled_once")]

PROJECT = checkpoints.MODELS.parent
SCRIPTS = ["m3.1.py", "m4.1.py", "final.py"]
OPTIMISED = [variant.name for variant in kernels.select([])]


def script(name, *words, **environ):
    return run_program(
        [sys.executable, PROJECT / name, *words], env={**os.environ, **environ}
    )


@pytest.mark.parametrize("name", SCRIPTS)
def test_without_pycuda_or_a_driver_a_script_is_one_sentence_and_no_gpu(name, tmp_path):
    # A Python that has NumPy and nothing else.
    (tmp_path / "numpy").symlink_to(Path(np.__file__).parent)

    done = run_program(
        [sys.executable, "-S", PROJECT / name, "10"], env={"PYTHONPATH": str(tmp_path)}
    )

    assert done.returncode == NoGpuError.exit_code
    assert done.stdout == ""
    assert re.fullmatch(
        rf"{name}: cannot use a GPU: (NVIDIA's driver|the Python package).*\n",
        done.stderr,
    )


def test_the_ways_to_fail_have_exit_codes_of_their_own():
    kinds = (ProjectError, UsageError, MissingError, GpuError)

    assert sorted(kind.exit_code for kind in kinds) == [1, 2, 3, 4]
    assert NoGpuError.exit_code == MissingError.exit_code


def test_a_fault_of_the_gpu_ends_a_script_with_its_sentence_and_code(tmp_path):
    program = (
        "from course import errors\n"
        "from milestones import milestone\n"
        "def script(asked):\n"
        "    print('New Inference')\n"
        "    raise errors.GpuError('CUDA_ERROR_OUT_OF_MEMORY: no more')\n"
        "milestone.main(script, milestone.Accepts('broken', own=True))\n"
    )
    (tmp_path / "broken.py").write_text(program)

    done = run_program(
        [sys.executable, tmp_path / "broken.py"],
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )

    assert done.returncode == GpuError.exit_code
    assert done.stdout == "New Inference\n"
    assert done.stderr == "broken.py: CUDA_ERROR_OUT_OF_MEMORY: no more\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--variant", "fast"], "unknown variant `fast`; choose from naive, "),
        (["--variant"], "argument --variant: expected one argument"),
        (["ten", "--variant", "tiled"], "invalid data size `ten`"),
    ],
)
def test_milestone_4_1_refuses_a_wrong_command_line_before_it_needs_a_gpu(
    words, sentence
):
    done = script("m4.1.py", *words)

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"m4.1.py: {sentence}")
    assert done.stderr.count("\n") == 1


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("name", "variants"),
    [
        ("m3.1.py", [None]),
        ("m4.1.py", OPTIMISED),
        ("final.py", [kernels.best("fp32").name]),
    ],
)
def test_each_variants_figures_are_read_back_as_an_inference(name, variants):
    done = script(name, "100", RAI_DATA_DIR="/nowhere")

    assert done.stderr == ""
    assert done.returncode == 0
    said = re.findall(r"^Variant: (\w+)$", done.stdout, re.MULTILINE)
    assert said == [variant for variant in variants if variant]
    inferences = scanner.find(done.stdout.encode()).inferences
    assert len(inferences) == len(variants)
    assert all(one.agreement == 1.0 for one in inferences)
    assert all(len(one.op_times_s) == 2 for one in inferences)


@pytest.mark.gpu
def test_milestone_4_1_runs_the_variants_that_are_named_in_their_order():
    done = script("m4.1.py", "10", "--variant", "tiled", "--variant", "naive")

    said = re.findall(r"^Variant: (\w+)$", done.stdout, re.MULTILINE)
    assert done.stderr == ""
    assert said == ["tiled", "naive"]


@pytest.mark.gpu
@pytest.mark.data
def test_milestone_3_1_is_as_right_as_milestone_2_1_on_all_images():
    ours, gold = (
        script(name, RAI_DATA_DIR=outside.fashion_mnist())
        for name in ("m3.1.py", "m2.1.py")
    )

    assert ours.stderr == ""
    assert ours.stdout.splitlines()[-1] == gold.stdout.splitlines()[-1]
    assert ours.stdout.splitlines()[-1].startswith("Correctness: 0.8")


@pytest.mark.gpu
def test_a_script_that_sees_no_gpu_says_so():
    done = script("m3.1.py", "10", CUDA_VISIBLE_DEVICES="")

    assert done.returncode == NoGpuError.exit_code
    assert done.stdout == ""
    assert re.fullmatch(r"m3\.1\.py: cannot use a GPU: .*\n", done.stderr)

"""Convolutions under compute-sanitizer: no access beside, no race, nothing unset."""

import os
import shutil
import sys
from pathlib import Path

import pytest
from gpu.compiler import FOLDER

from project.tests.guarded import SERVING, mistaken
from tests.kit.program import run_program

pytestmark = pytest.mark.gpu

FOUND = 86  # the exit status where the checker found something
TOOLS = ("memcheck", "racecheck", "initcheck")
EACH = 3  # variants a checked process, which takes minutes
PARTS = [[*SERVING][at : at + EACH] for at in range(0, len(SERVING), EACH)]
TOP = Path(__file__).resolve().parents[2]


def checked(tool, folder, names):
    """Run variants under a tool; give the exit status and what was said."""
    checker = shutil.which("compute-sanitizer")
    if checker is None:
        pytest.skip("compute-sanitizer is not installed")
    argv = [checker, f"--tool={tool}", f"--error-exitcode={FOUND}", "--print-limit=5"]
    argv += [sys.executable, "-m", "project.tests.sanitized", str(folder), *names]
    path = [str(TOP), str(TOP / "project"), *filter(None, sys.path)]
    done = run_program(argv, cwd=TOP, env={**os.environ, "PYTHONPATH": ":".join(path)})
    return done.returncode, done.stdout + done.stderr


@pytest.mark.timeout(900)
@pytest.mark.parametrize("names", PARTS, ids=" ".join)
@pytest.mark.parametrize("tool", TOOLS)
def test_every_variant_is_clean(tool, names, compiled_once):
    status, said = checked(tool, FOLDER, names)

    assert status == 0, said
    assert f"convolved by {len(names)}" in said


@pytest.mark.parametrize(
    ("tool", "name", "right", "wrong"),
    [
        ("memcheck", "naive", "h >= H_OUT ||", "h >= 2 * H_OUT ||"),
        ("racecheck", "tiled", "__syncthreads();", ";"),
        ("initcheck", "unroll_gemm", "if (n < columns)", "if (n < columns - 1)"),
    ],
)
def test_a_wrong_kernel_is_not(tool, name, right, wrong, compiled_once, tmp_path):
    mistaken(name, right, wrong, tmp_path)

    status, said = checked(tool, tmp_path, [f"{name}-fp32"])

    assert status == FOUND, said

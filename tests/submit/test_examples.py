"""The assignments of docs/examples: they are read, and their checks tell."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from runner.core.milestone import Trust
from runner.spec import milestones
from runner.spec.milestones import folder
from runner.submit import handouts, staging
from tests.submit.test_handouts import run

NVCC = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
EXAMPLES = Path(__file__).resolve().parents[2] / "docs/examples"
SOLUTIONS = {
    "reduction": """\
    float own = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * THREADS)
        own += x[i];
    parts[threadIdx.x] = own;
    for (int half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            parts[threadIdx.x] += parts[threadIdx.x + half];
    }
    if (threadIdx.x == 0)
        atomicAdd(sum, parts[0]);
}
""",
    "matmul": """\
    const int x = threadIdx.x, y = threadIdx.y;
    float sum = 0;
    for (int at = 0; at < K; at += TILE) {
        tile_A[y][x] = row < M && at + x < K ? A[row * K + at + x] : 0;
        tile_B[y][x] = at + y < K && column < N ? B[(at + y) * N + column] : 0;
        __syncthreads();
        for (int k = 0; k < TILE; k++)
            sum += tile_A[y][k] * tile_B[k][x];
        __syncthreads();
    }
    if (row < M && column < N)
        C[row * N + column] = sum;
}
""",
}


BOTH = pytest.mark.parametrize(
    ("name", "solution"),
    [
        pytest.param(*one, marks=pytest.mark.slow if one[0] == "matmul" else ())
        for one in SOLUTIONS.items()
    ],
    ids=SOLUTIONS,
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAI_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize("name", SOLUTIONS)
def test_an_example_is_timed_with_a_gpu_by_a_harness_of_its_own(name):
    found = milestones.find(name, [EXAMPLES])

    assert found.trust is Trust.TIMED and found.runs[0].gpu
    assert {*staging.golden(found).files} == {"harness.cu", "rai_build.yml"}
    assert found.team.patterns == (f"{name}.cu",)
    handout = folder.read_folder(EXAMPLES / name / "handout", folder.HANDOUT)
    other = folder.read_folder(EXAMPLES / "reduction/handout", folder.HANDOUT)
    for same in ("cpu.h", "rai_build.yml"):
        assert handout[same] == other[same]


@pytest.mark.programs
@pytest.mark.lengthy
@pytest.mark.local
@pytest.mark.cpp
@BOTH
def test_a_handouts_check_tells_right_from_wrong_without_a_gpu(
    tmp_path, name, solution
):
    mine = tmp_path / "mine"
    handouts.write(mine, milestones.find(name, [EXAMPLES]))

    status, said = run(mine)
    assert status == 4 and "and should be" in said, said

    source = mine / f"{name}.cu"
    head, _, _ = source.read_text().partition("    // TODO")
    source.write_text(head + solution)
    status, said = run(mine)
    assert status == 0 and "Correctness: 1 " in said, said


@pytest.mark.kernels
@pytest.mark.skipif(shutil.which(NVCC) is None, reason="it takes nvcc")
@pytest.mark.programs
@pytest.mark.lengthy
@BOTH
def test_a_harness_compiles_with_a_solution(tmp_path, name, solution):
    found = {
        **folder.read_folder(EXAMPLES / name / "handout", folder.HANDOUT),
        **staging.golden(milestones.find(name, [EXAMPLES])).files,
    }
    for file, content in found.items():
        (tmp_path / file).write_bytes(content)
    source = tmp_path / f"{name}.cu"
    head, _, _ = source.read_text().partition("    // TODO")
    source.write_text(head + solution)
    for file in ("harness.cu", "check.cu"):
        words = [NVCC, "-arch=sm_90", "-Werror=all-warnings", "-ptx", file]
        subprocess.run(words, cwd=tmp_path, check=True)

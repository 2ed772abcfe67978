"""The assignments of docs/examples: they are read, and their checks tell."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from runner.core.milestone import Trust
from runner.spec import buildfile, image_names, milestones
from runner.spec.milestones import folder
from runner.submit import handouts, staging
from tests.submit.test_handouts import run

HEADER = "gpu-new-forward.h"
NVCC = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs/examples"
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
CONVOLUTION = (
    """\
    const int rows = H - K + 1, columns = W - K + 1, across = (columns - 1) / TILE + 1;
    const int h = blockIdx.x / across * TILE + threadIdx.y;
    const int w = blockIdx.x % across * TILE + threadIdx.x;
    const int m = blockIdx.y, b = blockIdx.z;
    if (h >= rows || w >= columns)
        return;
    float sum = 0;
    for (int c = 0; c < C; c++)
        for (int p = 0; p < K; p++)
            for (int q = 0; q < K; q++)
                sum += x[((b * C + c) * H + h + p) * W + w + q]
                    * k[((m * C + c) * K + p) * K + q];
    y[((b * M + m) * rows + h) * columns + w] = sum;
""",
    """\
    const size_t x = B * C * H * W * sizeof(float), k = M * C * K * K * sizeof(float);
    const size_t y = sizeof(float) * B * M * (H - K + 1) * (W - K + 1);
    check(cudaMalloc(device_output_ptr, y));
    check(cudaMalloc(device_input_ptr, x));
    check(cudaMalloc(device_mask_ptr, k));
    check(cudaMemcpy(*device_input_ptr, host_input, x, cudaMemcpyHostToDevice));
    check(cudaMemcpy(*device_mask_ptr, host_mask, k, cudaMemcpyHostToDevice));
""",
    """\
    const int tiles = ((H - K) / TILE + 1) * ((W - K) / TILE + 1);
    conv_forward<<<dim3(tiles, M, B), dim3(TILE, TILE)>>>(
        device_output, device_input, device_mask, B, M, C, H, W, K);
""",
    """\
    const size_t y = sizeof(float) * B * M * (H - K + 1) * (W - K + 1);
    check(cudaMemcpy(host_output, device_output, y, cudaMemcpyDeviceToHost));
    check(cudaFree(device_output));
    check(cudaFree(device_input));
    check(cudaFree(device_mask));
""",
)

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


def test_minidnn_is_timed_with_a_gpu_by_the_program_of_an_image_that_rai_makes():
    found = milestones.find("minidnn", [EXAMPLES])
    staff = staging.golden(found).files
    handout = folder.read_folder(EXAMPLES / "minidnn/handout", folder.HANDOUT)

    assert found.trust is Trust.TIMED and found.runs[0].gpu
    assert found.team.patterns == ("new-forward.cu",)
    assert staff.keys() == {HEADER, "rai_build.yml"}
    assert staff[HEADER] == handout[HEADER]
    for files in (staff, handout):
        spec, problems = buildfile.parse(files["rai_build.yml"].decode(), "b.yml")
        assert image_names.made_here(spec) == "minidnn" and not problems
        assert spec.commands[-1].text == "./m3 10000" and spec.commands[-1].expect


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


@pytest.mark.kernels
@pytest.mark.skipif(shutil.which(NVCC) is None, reason="it takes nvcc")
@pytest.mark.programs
@pytest.mark.lengthy
def test_the_program_of_minidnn_compiles_with_a_solution(tmp_path):
    handouts.write(tmp_path / "mine", milestones.find("minidnn", [EXAMPLES]))
    source = tmp_path / "mine/new-forward.cu"
    text = source.read_text()
    for number, code in enumerate(CONVOLUTION, 1):
        text, found = re.subn(rf"    // TODO: {number}\..*\n", code, text)
        assert found == 1
    source.write_text(text)
    for file in (source, ROOT / "image/minidnn/conv_gpu.cu"):
        words = [NVCC, "-arch=sm_90", "-Werror=all-warnings", "-DTHREE_STEPS"]
        words += ["-DCLEARED", f"-I{source.parent}", "-ptx", str(file)]
        subprocess.run(words, cwd=tmp_path, check=True)

"""The programs of the image `minidnn`, compiled for the CPU: no image is needed."""

from __future__ import annotations

import gzip
import os
import re
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from course.resize import resize

from tests.images.conftest import ROOT
from tests.images.mini_project import project
from tests.kit import outside

pytestmark = pytest.mark.cpp

MINIDNN = ROOT / "image" / "minidnn"
WEIGHTS = (MINIDNN / "weights-86.bin").read_bytes()
Program = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Program]:
    """Return a function that compiles m1 of an edition, and returns what runs it."""

    def compiled(year: int, wrong: str = "") -> Program:
        folder = tmp_path_factory.mktemp("minidnn")
        for name, content in project(year).items():
            text = content.decode().replace("y[n] = sum", f"y[n] = sum{wrong}")
            (folder / Path(name).name).write_text(text)
        own = [path for path in MINIDNN.glob("*.cc") if path.stem != "fmnist-86"]
        sources = [*own, folder / "cpu-new-forward.cc"]
        strided = ["-DSTRIDED"] if year == 2023 else []
        options = ["-O3", "-DCONVOLUTION=conv_cpu", *strided, f"-I{MINIDNN}", "-I."]
        words = ["g++", *options, "-o", "m1", *map(str, sources)]
        subprocess.run(words, cwd=folder, check=True)
        (folder / "weights-86.bin").write_bytes(WEIGHTS)
        return lambda *words, **env: subprocess.run(
            [folder / "m1", *words],
            cwd=folder,
            env=os.environ | {"RAI_DATA_DIR": "/nowhere"} | env,
            capture_output=True,
            text=True,
        )

    return compiled


@pytest.fixture(scope="module")
def m1(program: Callable[..., Program]) -> Program:
    return program(2021)


def images(folder: Path, labels: bytes, pixels: bytes | None = None) -> str:
    """Write images of 28 x 28 and their labels, as RAI_DATA_DIR has them."""
    shape = (len(labels), 28, 28)
    pixels = bytes(len(labels) * 28 * 28) if pixels is None else pixels
    of_pixels = struct.pack(">4I", 0x803, *shape) + pixels
    of_labels = struct.pack(">2I", 0x801, len(labels)) + labels
    (folder / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(of_pixels))
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(of_labels))
    return str(folder)


def test_it_prints_the_course_s_lines(m1, tmp_path):
    done = m1("4", RAI_DATA_DIR=images(tmp_path, b"\x00\x01\x02\x03\x04"))

    assert done.returncode == 0
    times = re.sub(r"Op Time: [0-9.e+-]+ ms", "Op Time: # ms", done.stdout)
    begun = (
        "Test batch size: 4\nLoading fashion-mnist data...Done\nLoading model...Done"
    )
    layer = "Conv-CPU==\nOp Time: # ms"
    share = re.search("Test Accuracy: (.*)", times)[1]
    assert times == f"{begun}\n{layer}\n{layer}\n\nTest Accuracy: {share}\n\n"
    assert share in {"0", "0.25"}  # all images are alike, and so is their class


@pytest.mark.parametrize("year", [2020, 2023])
def test_without_data_it_prints_the_agreement_with_the_reference(program, year):
    done = program(year)("20")

    assert done.returncode == 0
    assert "random images stand in" in done.stderr
    assert "\nAgreement: 1 Model: minidnn (synthetic)\n" in done.stdout
    assert ("All test cases passed\nTest batch size: 20" in done.stdout) == (
        year == 2023
    )


def test_a_wrong_convolution_agrees_less(program):
    done = program(2021, wrong=" * (column % 7)")("50")
    share = re.search(r"Agreement: ([0-9.]+) Model", done.stdout)[1]
    assert float(share) < 0.9
    assert re.search(
        r"forward\(\) is wrong: output \d+ of 18496 of image 0", done.stderr
    )


CUDA = """\
#include <algorithm>
#include <cstdlib>
enum cudaError_t { cudaSuccess, cudaErrorNoDevice };
inline cudaError_t said = cudaSuccess;
inline const char *cudaGetErrorString(cudaError_t) { return "none"; }
inline cudaError_t cudaFree(void *) { return cudaSuccess; }
inline void cudaDeviceSynchronize() {}
inline cudaError_t cudaGetLastError() { return said; }
inline cudaError_t cudaMemset(void *at, int, size_t bytes) {
    if (at) std::fill_n((unsigned char *)at, bytes, 255);
    return at ? cudaSuccess : cudaErrorNoDevice;
}
"""
STUDENT = """\
#include "minidnn.h"
#define ALL int B, int M, int C, int H, int W, int K
#define SIZES Shape{B, M, C, H, W, K}
using Array = float *;
struct GPUInterface {
    void conv_forward_gpu_prolog(Array y, Array x, Array k, Array *on_y, Array *on_x,
                                 Array *on_k, ALL) {
        *on_x = x, *on_k = k;
        if (ALLOCATES) *on_y = (Array)std::calloc(SIZES.outputs(), 4);
        if (EARLY) reference(*on_y ? *on_y : y, x, k, SIZES);
    }
    void conv_forward_gpu(Array y, Array x, Array k, ALL) {
        if (EARLY) return;
        std::fill_n(y, SIZES.outputs(), 0.f);
        reference(y, x, k, SIZES);
    }
    void conv_forward_gpu_epilog(Array host, Array y, Array, Array, ALL) {
        if (y) std::copy_n(y, SIZES.outputs(), host);
    }
};
"""


@pytest.mark.parametrize(
    ("early", "allocates", "status", "share"),
    [(0, 1, 0, "1"), (1, 1, 0, "0"), (1, 0, 1, None)],
)
def test_what_is_computed_before_the_timed_function_does_not_count(
    tmp_path, early, allocates, status, share
):
    (tmp_path / "cuda.h").write_text(CUDA)
    (tmp_path / "gpu-new-forward.h").write_text(STUDENT)
    own = [MINIDNN / name for name in ("main.cc", "network.cc", "data.cc")]
    words = ["g++", "-O2", "-DCONVOLUTION=conv_gpu", "-DTHREE_STEPS"]
    words += ["-DCLEARED", f"-DEARLY={early}", f"-DALLOCATES={allocates}"]
    words += [f"-I{MINIDNN}", "-I.", "-include", "cuda.h", "-o", "m3", *map(str, own)]
    subprocess.run(
        [*words, "-x", "c++", MINIDNN / "conv_gpu.cu"], cwd=tmp_path, check=True
    )
    (tmp_path / "weights-86.bin").write_bytes(WEIGHTS)

    done = subprocess.run(
        ["./m3", "20"],
        cwd=tmp_path,
        env=os.environ | {"RAI_DATA_DIR": "/nowhere"},
        capture_output=True,
        text=True,
    )

    assert done.returncode == status
    found = re.search(r"Agreement: ([0-9.]+) Model", done.stdout)
    assert (found and found[1]) == share if share != "0" else float(found[1]) < 0.5
    assert ("gives no array of the GPU" in done.stderr) == (status == 1)


def test_a_wrong_strided_convolution_ends_before_the_network(program):
    done = program(2023, wrong=" + 1")("20")

    assert done.returncode == 1
    assert done.stdout.count("Mismatch at index 0 ") == 4
    assert done.stdout.endswith("Test case 4 failed\n")
    assert "forward() is wrong: test case 4\n" in done.stderr


def test_a_project_may_write_some_way_past_its_array_s_end(program):
    assert program(2021, wrong="; y[n + 1000] = 0")("2").returncode == 0


def test_damaged_data_and_weights_are_named(m1, tmp_path):
    short = m1("5", RAI_DATA_DIR=images(tmp_path, bytes(5), bytes(3 * 28 * 28)))
    assert short.returncode == 1
    assert "t10k-images-idx3-ubyte.gz or its labels are damaged" in short.stderr

    (tmp_path / "weights-86.bin").write_bytes(WEIGHTS[:-4])
    cut = m1("5", RAI_MODELS_DIR=str(tmp_path))
    assert cut.returncode == 1
    assert f"{tmp_path}/weights-86.bin is missing or not the course's" in cut.stderr


@pytest.mark.parametrize("count", ["0", "10001", "many"])
def test_a_wrong_number_of_images_is_named(m1, count):
    done = m1(count)
    assert done.returncode == 2
    assert "give a number of images from 1 to 10000" in done.stderr


def test_it_writes_the_images_as_the_course_resized_them(tmp_path):
    words = ["g++", "-o", "write", MINIDNN / "fmnist-86.cc", MINIDNN / "data.cc"]
    subprocess.run(words, cwd=tmp_path, check=True)
    drawn = np.random.default_rng(1).integers(0, 256, (2, 28, 28), np.uint8)
    folder = images(tmp_path, b"\x07\x09", drawn.tobytes())
    subprocess.run(
        ["./write", "."], cwd=tmp_path, env={"RAI_DATA_DIR": folder}, check=True
    )

    made = (tmp_path / "t10k-86-images-idx3-ubyte").read_bytes()
    assert made[:16] == struct.pack(">4I", 0x803, 2, 86, 86)
    assert made[16:] == resize(drawn, 86).tobytes()
    labels = (tmp_path / "t10k-86-labels-idx1-ubyte").read_bytes()
    assert labels == struct.pack(">2I", 0x801, 2) + b"\x07\x09"


@pytest.mark.data
def test_the_weights_know_fashion_mnist(m1):
    done = m1("1000", RAI_DATA_DIR=str(outside.folder()))
    share = re.search(r"Test Accuracy: ([0-9.]+)", done.stdout)[1]
    assert float(share) > 0.85


@pytest.mark.parametrize(
    ("words", "ran"),
    [
        ("nsys profile --stats=true -o line ./m1 5", "nvprof ./m1 5"),
        ("nsys profile --stats true -t cuda,nvtx ./m1", "nvprof ./m1"),
        ("nv-nsight-cu-cli --section .* -o file ./m1 9", "nvprof ./m1 9"),
        ("nsys profile m1 /tmp", "nvprof m1 /tmp"),
        ("ncu --set full -f -o file ./m1", "nvprof ./m1"),
        ("cuda-memcheck --leak-check full -- ./m1", "compute-sanitizer ./m1"),
    ],
)
def test_a_tool_that_is_missing_says_so_and_goes_on(tmp_path, words, ran):
    tool, *rest = words.split()
    (tmp_path / tool).symlink_to(MINIDNN / "instead")
    for name in ("nvprof", "compute-sanitizer"):
        (tmp_path / name).write_text('#!/bin/sh\necho ${0##*/} "$@"\nexit 7\n')
        (tmp_path / name).chmod(0o755)
    (tmp_path / "m1").symlink_to("nvprof")
    path = f"{tmp_path}:/usr/bin:/bin"
    done = subprocess.run(
        [tmp_path / tool, *rest],
        cwd=tmp_path,
        env={"PATH": path},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (7, ran + "\n")
    assert done.stderr.startswith(f"{tool}: is not in this image")

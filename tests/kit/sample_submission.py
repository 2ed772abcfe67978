"""A small project to submit: one kernel, its plan.json, and a report made here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner.core import work

KERNEL = """\
// One thread per output pixel.
extern "C" __global__ void conv_naive(float *y, const float *x, const float *k, int C,
                                      int H, int W, int K) {
    int rows = H - K + 1, columns = W - K + 1;
    int pixel = blockIdx.y * blockDim.x + threadIdx.x;
    if (pixel >= rows * columns) {
        return;
    }
    int m = blockIdx.x, b = blockIdx.z, M = gridDim.x;
    int h = pixel / columns, w = pixel % columns;
    float sum = 0;
    for (int c = 0; c < C; c++) {
        for (int p = 0; p < K; p++) {
            for (int q = 0; q < K; q++) {
                sum += x[((size_t(b) * C + c) * H + h + p) * W + w + q] *
                       k[((m * C + c) * K + p) * K + q];
            }
        }
    }
    y[((size_t(b) * M + m) * rows + h) * columns + w] = sum;
}
"""

SOURCE = "project/cuda/naive.cu"
REGISTRY = "project/kernels.py"
THREADS = 256
CONV1 = {"B": 10_000, "M": 12, "C": 1, "H": 70, "W": 70, "K": 5}
CONV2 = {"B": 10_000, "M": 24, "C": 12, "H": 33, "W": 33, "K": 5}


def report() -> bytes:
    """Return a PDF of one empty page."""
    objects = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]>>",
    )
    text, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(text))
        text += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    start = len(text)
    text += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    text += b"".join(b"%010d 00000 n \n" % place for place in places)
    text += b"trailer\n<</Size %d/Root 1 0 R>>\n" % (len(objects) + 1)
    return text + b"startxref\n%d\n%%%%EOF\n" % start


def convolution(
    name: str, shape: Mapping[str, int], architecture: str, threads: int = THREADS
) -> dict[str, Any]:
    """Return the plan of one layer."""
    rows, columns = shape["H"] - shape["K"] + 1, shape["W"] - shape["K"] + 1
    launch = {
        "kernel": "conv_naive",
        "grid": [shape["M"], -(-rows * columns // threads), shape["B"]],
        "block": [threads, 1, 1],
        "buffers": ["y", "x", "k"],
        "numbers": [shape[size] for size in "CHWK"],
    }
    return {
        "name": name,
        "shape": dict(shape),
        "storage": "float32",
        "unit": {"file": "naive.cu", "target": architecture, "defines": {}},
        "launches": [launch],
    }


def entry(
    variant: str = "naive",
    architectures: tuple[str, ...] = ("sm_75", "sm_86", "sm_90"),
    threads: int = THREADS,
) -> dict[str, Any]:
    """Return an entry that computes both layers by the one kernel."""
    plans = [
        {
            "architectures": [architecture],
            "convolutions": [
                convolution("conv1", CONV1, architecture, threads),
                convolution("conv2", CONV2, architecture, threads),
            ],
        }
        for architecture in architectures
    ]
    return {"variant": variant, "class": "fp32", "plans": plans}


def plan(project: Path, **milestones: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the plan.json of a project as its files are now."""

    def sha256(name: str) -> str:
        return hashlib.sha256((project / name).read_bytes()).hexdigest()

    sizes = {"naive": 256, "plain": 128, "simple": 64}
    three = [entry(name, threads=threads) for name, threads in sizes.items()]
    usual = {"m3": [entry()], "m4": three, "final": [entry()]}
    return {
        "version": 1,
        "edition": "2019fa",
        "registry": work.digest_of_set({REGISTRY: sha256(REGISTRY)}),
        "registry_files": [REGISTRY],
        "sources": {SOURCE: sha256(SOURCE)},
        "milestones": usual | milestones,
    }


def write(project: Path, **milestones: list[dict[str, Any]]) -> Path:
    """Write the project into a folder, and return that."""
    (project / "project/cuda").mkdir(parents=True)
    (project / SOURCE).write_text(KERNEL)
    (project / REGISTRY).write_text('KERNELS = ("naive",)\n')
    (project / "report.pdf").write_bytes(report())
    write_plan(project, plan(project, **milestones))
    return project


def write_plan(project: Path, values: object) -> None:
    """Write plan.json."""
    (project / "plan.json").write_text(json.dumps(values, indent=1))

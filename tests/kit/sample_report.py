"""A report with every kind of part, for tests and for looking at it.

    python -m tests.kit.sample_report FILE    # writes the page

Its figures are made up.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

from runner.report import page as pages
from runner.report.blocks import (
    Bar,
    BarChart,
    Pairs,
    Paragraph,
    Part,
    Picture,
    ProgramOutput,
    Roof,
    Roofline,
    RoofPoint,
    Section,
    Table,
    TimelineView,
)
from tests.kit.timelines import Span, timeline

TRACE = "20261122-070244-3f2a/timeline.nvprof"
LONG_NAME = (
    "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>"
    "(cutlass_80_simt_sgemm_128x64_8x5_nn_align1::Params, float const*, float*, int)"
)
CHECKS = Table(
    "",
    ("asked for", "result", "where", "command that gives it"),
    (
        ("Output of m1.1.py", "ok", "Output", ""),
        ("Timeline of m3.1.py", "missing", "", "nvprof -o timeline.nvprof python m3.1"),
    ),
    anchors=("output", ""),
)
OP_TIMES = Table(
    "Op Times by script, variant and size",
    ("script", "variant", "images", "Op Time 1", "Op Time 2", "sum", "correctness"),
    tuple(
        ("m3.1.py", variant, f"{images}", f"{a:.6f} s", f"{3 * a:.6f} s", "1 s", "0.76")
        for variant, scale in (("simple", 1.0), ("constant memory", 0.82))
        for images in (100, 1000, 10000)
        for a in (2.1e-6 * scale * images,)
    ),
    right=frozenset({2, 3, 4, 5, 6}),
)
KERNELS = Table(
    "GPU activities that together take over 90 % of the time",
    ("time", "total", "calls", "average", "min", "max", "name"),
    tuple(
        ("39.80 %", "16.60 ms", "20", "830.1 us", "1.120 us", "16.09 ms", name)
        for name in ("[CUDA memcpy HtoD]", LONG_NAME)
    ),
    right=frozenset(range(6)),
    names=frozenset({6}),
)
MACHINE = Pairs(
    (
        ("image", "rai/course-cuda12@sha256:8f1c8d55a1b2a9fb8c9d6c47cc0a5b2d"),
        ("result", "ok"),
        ("warning", "the GPU's clock was 1.2 GHz of 1.98 GHz for a part of the run"),
    )
)
OUTPUT = "New Inference\nOp Time: 0.021169\nCorrectness: 0.7653 Model: ece408"
BUILD_LOG = "\n".join(
    f"[{step:3}/140] nvcc -O3 -arch=sm_90 -I/usr/local/cuda/include -c layer_{step}.cu"
    for step in range(1, 141)
)
BARS = BarChart(
    "Sum of Op Times, 10000 images",
    "s",
    (Bar("simple", 0.0340, 0.0331, 0.0352), Bar("fused", 0.0096)),
)
ROOFLINE = Roofline(
    "Roofline, H200",
    (Roof("FP32", flops=6.69e13), Roof("HBM3e", bandwidth=4.8e12)),
    (RoofPoint("forward_kernel", 3.1, 4.4e12), RoofPoint(LONG_NAME, 41.0, 2.9e13)),
)


def sections() -> tuple[Section, ...]:
    """Return the report's sections."""
    bars = Picture("op-times", "Bars: simple takes 34.0 ms, fused 9.6 ms.", BARS)
    roofline = Picture("roofline", "Both kernels are below the bounds.", ROOFLINE)
    view = TimelineView(TRACE, "timeline.nvprof of m3.1.py")
    times = Pairs((("real", "5.21 s"), ("user", "5.47 s")))
    outputs = (
        _output("python m1.1.py", OUTPUT),
        _output("make", BUILD_LOG, 1_234_567),
    )
    return (
        Section("check-list", "What the milestone asks for", (CHECKS,)),
        Section("summary", "Summary", (Paragraph("It is 3.2 times as fast."), MACHINE)),
        Section("op-times", "Op Times and Correctness", (OP_TIMES, bars)),
        Section("kernels", "Kernels and API calls", (KERNELS, roofline)),
        Section("timeline", "Timeline", (view,)),
        Section("run-times", "Run times", (times,)),
        Section("output", "Output", outputs),
    )


def _output(title: str, text: str, left_out: int = 0) -> Part:
    return ProgramOutput(f"Output of {title}", text, left_out)


@cache
def page() -> str:
    """Return the report as a page, with 60 rounds of a kernel and its call."""
    spans = []
    for i in range(60):
        spans.append(Span(0, i * 600_000, 200_000, 0, 1, i + 1))
        spans.append(Span(2, i * 600_000 - 25_000, 12_000, 1, 0, i + 1))
    names, notes = (LONG_NAME, "cudaLaunchKernel"), ((), (("grid", "834 x 1 x 1"),))
    made = timeline(spans, names, notes=notes)
    return pages.report("Report of m3.1", sections(), {TRACE: made})


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), "utf-8")

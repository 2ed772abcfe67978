"""A report with every kind of part, for tests and for looking at it.

    python -m tests.runner.pages.sample FILE    # writes the page

Its figures are made up.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

from runner import pages
from runner.core.trace import Timeline
from runner.report.blocks import (
    Pairs,
    Paragraph,
    Part,
    ProgramOutput,
    Section,
    Table,
)
from runner.report.charts import (
    Bar,
    BarChart,
    Picture,
    Roof,
    Roofline,
    RoofPoint,
    TimelineView,
)
from tests.runner.pages.timeline.made import Span, timeline

TRACE = "20261122-070244-3f2a/timeline.nvprof"
TITLE = "Report of m3.1, run 20261122-070244-3f2a"
LONG_NAME = (
    "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>"
    "(cutlass_80_simt_sgemm_128x64_8x5_nn_align1::Params, float const*, float*, int)"
)
CHECKS = Table(
    "",
    ("asked for", "result", "where", "command that gives it"),
    (
        ("Output of m1.1.py", "ok", "Output", ""),
        ("Run time of m1.1.py", "ok", "Run times", ""),
        ("Op Times at 100, 1000, 10000", "ok", "Op Times and Correctness", ""),
        ("Kernels that take over 90 % of the time", "ok", "Kernels", ""),
        (
            "Timeline of m3.1.py",
            "missing",
            "",
            "nvprof -o timeline.nvprof python m3.1.py 10000",
        ),
        ("Occupancy by ncu", "not asked", "", "ncu --set full python m3.1.py 100"),
    ),
    anchors=("output", "run-times", "op-times", "kernels", "", ""),
)

OP_TIMES = Table(
    "Op Times by script, variant and size",
    ("script", "variant", "images", "Op Time 1", "Op Time 2", "sum", "correctness"),
    tuple(
        (script, variant, f"{images}", f"{a:.6f} s", f"{b:.6f} s", f"{a + b:.6f} s", c)
        for script, variant, scale in (
            ("m3.1.py", "simple", 1.0),
            ("m4.1.py", "shared memory", 1.35),
            ("m4.1.py", "constant memory", 0.82),
            ("final.py", "per layer", 0.31),
        )
        for images, c in ((100, "0.76"), (1000, "0.767"), (10000, "0.7653"))
        for a, b in ((2.1e-6 * scale * images, 6.9e-6 * scale * images),)
    ),
    right=frozenset({2, 3, 4, 5, 6}),
)

KERNELS = Table(
    "GPU activities that together take over 90 % of the time",
    ("time", "total", "calls", "average", "min", "max", "name"),
    (
        (
            *("39.80 %", "16.60 ms", "20", "830.1 us", "1.120 us", "16.09 ms"),
            "[CUDA memcpy HtoD]",
        ),
        (
            *("28.11 %", "11.73 ms", "2", "5.863 ms", "2.117 ms", "9.609 ms"),
            "mxnet::op::forward_kernel(float*, float const*, float const*, int, int,"
            " int, int, int, int)",
        ),
        (
            *("20.28 %", "8.458 ms", "1", "8.458 ms", "8.458 ms", "8.458 ms"),
            LONG_NAME,
        ),
        (
            *("4.12 %", "1.718 ms", "2", "859.2 us", "120.4 us", "1.598 ms"),
            "void op_generic_tensor_kernel<int=2, float, float, float, int=256,"
            " cudnnGenericOp_t=7, cudnnNanPropagation_t=0, cudnnDimOrder_t=0, int=1>"
            "(cudnnTensorStruct, float*, cudnnTensorStruct, float const*, float,"
            " float, float, float, dimArray, reducedDivisorArray)",
        ),
    ),
    right=frozenset(range(6)),
    names=frozenset({6}),
)

MACHINE = Pairs(
    (
        ("GPU", "NVIDIA H200, 132 multiprocessors, 139.8 GiB"),
        ("driver", "580.126.20, CUDA 13.0"),
        ("CPU", "Intel Xeon Platinum 8480C, 16 cores"),
        ("image", "rai/course-cuda12@sha256:8f1c8d55a1b2a9fb8c9d6c47cc0a5b2d"),
        ("result", "ok"),
        ("warning", "the GPU's clock was 1.2 GHz of 1.98 GHz for a part of the run"),
    )
)

OUTPUT = "\n".join(
    (
        "Loading fashion-mnist data... done",
        "Loading model... done",
        "New Inference",
        "Op Time: 0.021169",
        "Op Time: 0.068800",
        "Correctness: 0.7653 Model: ece408",
        "5.47user 3.58system 0:05.21elapsed 173%CPU (0avgtext+0avgdata 2958336max"
        "resident)k",
    )
)
BUILD_LOG = "\n".join(
    f"[{step:3}/140] nvcc -O3 -arch=sm_90 -I/usr/local/cuda/include -c layer_{step}.cu"
    f" -o build/layer_{step}.o -DNDEBUG -DTILE_WIDTH=16 --expt-relaxed-constexpr"
    for step in range(1, 141)
)

BARS = Picture(
    "op-times",
    "Bars: simple takes 34.0 ms, shared memory 21.0 ms, fused 9.6 ms.",
    BarChart(
        "Sum of Op Times, 10000 images",
        "s",
        (
            Bar("simple", 0.0340, 0.0331, 0.0352),
            Bar("shared", 0.0210, 0.0204, 0.0219),
            Bar("fused", 0.0096, 0.0095, 0.0099),
        ),
    ),
)
ROOFLINE = Picture(
    "roofline",
    "A roofline: both kernels are below the bound of the memory.",
    Roofline(
        "Roofline, H200",
        (Roof("FP32", flops=6.69e13), Roof("HBM3e", bandwidth=4.8e12)),
        (RoofPoint("forward_kernel", 3.1, 4.4e12), RoofPoint(LONG_NAME, 41.0, 2.9e13)),
    ),
)


def sections() -> tuple[Section, ...]:
    """Return the report's sections."""
    return (
        Section("check-list", "What the milestone asks for", (CHECKS,)),
        Section(
            "summary",
            "Summary",
            (
                Paragraph(
                    "The sum of the Op Times at 10000 images is 0.0279 s with per layer"
                    " kernels, 3.2 times less than with the simple kernel."
                ),
                MACHINE,
            ),
        ),
        Section("op-times", "Op Times and Correctness", (OP_TIMES, BARS)),
        Section("kernels", "Kernels and API calls", (KERNELS, ROOFLINE)),
        Section(
            "timeline", "Timeline", (TimelineView(TRACE, "timeline.nvprof of m3.1.py"),)
        ),
        Section("run-times", "Run times", sections=(_times("a"), _times("b"))),
        Section(
            "output",
            "Output",
            sections=(
                _output("m1-1", "python m1.1.py", OUTPUT),
                _output("build", "make", BUILD_LOG, 1_234_567),
            ),
        ),
    )


def _times(anchor: str) -> Section:
    rows = (("real", "5.21 s"), ("user", "5.47 s"), ("system", "3.58 s"))
    return Section(f"times-{anchor}", f"Times of run {anchor}", (Pairs(rows),))


def _output(anchor: str, title: str, text: str, left_out: int = 0) -> Section:
    part: Part = ProgramOutput(f"Output of {title}", text, left_out)
    return Section(f"output-{anchor}", title, (part,))


@cache
def page() -> str:
    """Return the report as a page."""
    return pages.report(TITLE, sections(), {TRACE: _timeline()})


def _timeline() -> Timeline:
    """Return 60 rounds of a copy and two kernels, each with the call that began it."""
    spans = []
    for i in range(60):
        at = i * 600_000
        for name, begin, length in ((0, 30, 90), (1, 160, 120), (2, 300, 260)):
            start, link = at + begin * 1000, i * 3 + name + 1
            spans.append(Span(0, start, length * 1000, name, 1, link))
            spans.append(Span(2, start - 25_000, 12_000, 3, 0, link))
    names = ("[CUDA memcpy HtoD]", "forward_kernel", LONG_NAME, "cudaLaunchKernel")
    return timeline(spans, names, notes=((), (("grid", "834 x 1 x 1"),)))


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), "utf-8")

"""The analysis by kernel, and the layers, as sections of a report."""

from __future__ import annotations

from msgspec.structs import replace

from runner.core import Gpu, GpuUse, GpuWay, Outcome
from runner.core.figures import KernelCounters
from runner.core.kernel_shapes import (
    KernelShapes,
    KernelWork,
    LayeredNetwork,
    NetworkLayer,
)
from runner.core.trace import KernelLaunches, Trace, TracedGpu
from runner.report import document
from runner.report.blocks import Paragraph, Table
from runner.report.charts import Picture
from tests.runner.document.made import command, evidence, inference, run

H200 = "NVIDIA H200"
LAUNCHED = KernelLaunches(
    "conv", 0, (834, 1, 1), (256, 1, 1), 40, 4096, 0, 2, 0.02, 0.009, 0.011
)
TRACE = Trace(
    "m3.1.nvprof",
    "nvprof",
    "python m3.1.py",
    (TracedGpu(0, H200, "9.0", 132),),
    (LAUNCHED,),
    spans=2,
)
WORK = KernelWork(
    "conv", variant="naive", layer="conv1", flops=1e11, bytes=1e9, unit="fp32"
)
LAYER = NetworkLayer(
    "conv1",
    "convolution",
    (10, 1, 70, 70),
    (10, 12, 66, 66),
    (12, 1, 5, 5),
    1e9,
    1e8,
    True,
)


def sections(*commands, **facts):
    gpu = GpuUse(GpuWay.NODES, (Gpu("GPU-1", H200, 0, compute="9.0"),))
    found = document.report([evidence(run(*commands, gpu=gpu), **facts)])
    return {one.title: one.parts for one in document.sections(found)}


def tables(parts):
    return {part.title: part for part in parts if isinstance(part, Table)}


def profiled():
    return command(0, "m3.1.py", before="nvprof -f -o m3.1.nvprof")


def test_a_kernels_rates_stand_against_the_bounds_of_its_gpu():
    parts = sections(profiled(), traces=(TRACE,), shapes=KernelShapes(kernels=(WORK,)))[
        "Analysis by kernel"
    ]

    (row,) = tables(parts)["Rates in m3.1.nvprof"].rows
    shown = dict(zip(tables(parts)["Rates in m3.1.nvprof"].heads, row, strict=True))
    assert shown["GFLOP/s"] == "10,000.0"
    assert shown["GB/s"] == "100.0"
    assert shown["FLOP per byte"] == "100"
    assert shown["bound by"] == "fp32"
    assert (shown["variant"], shown["layer"]) == ("naive", "conv1")
    assert "What the GPU does at most" in tables(parts)


def test_a_roofline_has_the_kernel_below_the_memory_and_the_unit_that_it_uses():
    parts = sections(profiled(), traces=(TRACE,), shapes=KernelShapes(kernels=(WORK,)))[
        "Analysis by kernel"
    ]

    (picture,) = [part for part in parts if isinstance(part, Picture)]
    assert [roof.label for roof in picture.chart.roofs] == ["fp32", "memory"]
    (point,) = picture.chart.points
    assert (point.label, point.intensity) == ("naive conv1", 100)


def test_each_gpu_has_a_roofline_of_the_kernels_that_ran_on_it():
    launches = (LAUNCHED, replace(LAUNCHED, kernel="other", gpu=1))
    gpus = (*TRACE.gpus, TracedGpu(1, "NVIDIA A100-SXM4-40GB", "8.0", 108))
    works = (WORK, replace(WORK, kernel="other", layer="conv2", variant=""))
    parts = sections(
        profiled(),
        traces=(replace(TRACE, launches=launches, gpus=gpus),),
        shapes=KernelShapes(kernels=works),
    )["Analysis by kernel"]

    found = [part for part in parts if isinstance(part, Picture)]

    assert len({one.name for one in found}) == 2
    shown = [(one.chart.title, [p.label for p in one.chart.points]) for one in found]
    assert shown == [
        ("Roofline of NVIDIA H200: m3.1.nvprof", ["naive conv1"]),
        ("Roofline of NVIDIA A100-SXM4-40GB: m3.1.nvprof", ["conv2"]),
    ]


def test_without_what_a_project_says_occupancy_remains():
    parts = sections(profiled(), traces=(TRACE,))["Analysis by kernel"]

    assert any("not known" in p.text for p in parts if isinstance(p, Paragraph))
    assert not any(isinstance(part, Picture) for part in parts)
    (row,) = tables(parts)["Launches and theoretical occupancy in m3.1.nvprof"].rows
    assert {"834x1x1", "256x1x1", "40", "4.0 KiB"} <= set(row)
    assert any(cell.endswith("registers") for cell in row)


def test_counters_are_shown_without_a_profile_that_was_kept():
    counted = KernelCounters("conv", 2, sm_percent=61.5, dram_bytes_per_s=2.5e12)
    ran = command(0, "m3.1.py", before="ncu")
    ran = replace(ran, findings=replace(ran.findings, counters=(counted,)))

    (table,) = tables(sections(ran)["Analysis by kernel"]).values()

    assert {"61.5 %", "2,500.0", "conv"} <= set(table.rows[0])


def test_layers_have_their_shapes_and_the_rates_of_their_op_times():
    networks = tuple(
        LayeredNetwork(
            "net",
            "m3.1.py",
            (str(size),),
            size,
            (replace(LAYER, input=(size, 1, 70, 70), output=(size, 12, 66, 66)),),
        )
        for size in (10, 100)
    )
    ran = command(0, "m3.1.py 100", inference(100, times=(0.5,)))

    shown = tables(sections(ran, shapes=KernelShapes(networks=networks))["Layers"])

    assert list(shown) == ["net: m3.1.py", "Rates by Op Time"]
    assert shown["net: m3.1.py"].rows[0][2] == "100 x 1 x 70 x 70"
    (rate,) = shown["Rates by Op Time"].rows
    assert rate[:6] == ("m3.1.py", "", "100", "conv1", "500.0 ms", "2.0")


def test_rates_by_op_time_are_of_the_first_of_several_rounds():
    networks = (LayeredNetwork("net", "m3.1.py", (), 10, (LAYER,)),)
    printed = inference(10, times=(0.5,))
    ran = command(0, "m3.1.py", printed)
    again = command(1, "m3.1.py", printed, repeats=0, round=1)
    known = KernelShapes(networks=networks)

    shown = sections(ran, again, shapes=known)["Layers"]

    assert "Rates by Op Time, of the first round" in tables(shown)


def test_layers_of_a_command_that_failed_have_no_rates():
    network = LayeredNetwork("net", "m3.1.py", None, 10, (LAYER,))
    ran = command(0, "m3.1.py", inference(10, times=(0.5,)), outcome=Outcome.FAILED)

    shown = sections(ran, shapes=KernelShapes(networks=(network,)))["Layers"]

    assert list(tables(shown)) == ["net: m3.1.py"]


def test_what_limits_the_occupancy_stands_with_the_nearest_step_that_helps():
    few = replace(LAUNCHED, block=(128, 1, 1), registers=142, static_shared=28_800)
    shared = replace(LAUNCHED, kernel="wide", registers=32, static_shared=72_816)
    parts = sections(profiled(), traces=(replace(TRACE, launches=(few, shared)),))
    rows = tables(parts["Analysis by kernel"])[
        "Launches and theoretical occupancy in m3.1.nvprof"
    ].rows

    assert [row[7:11] for row in rows] == [
        ("18.8 %", "12/64", "registers", "25.0 % with 128 registers"),
        ("37.5 %", "24/64", "shared memory", "50.0 % with 56.0 KiB shared"),
    ]


def test_a_file_without_a_command_is_of_the_command_that_wrote_it():
    works = tuple(
        replace(WORK, script="m3.1.py", arguments=words, flops=flops)
        for words, flops in (((), 1e11), (("100",), 1e9))
    )
    parts = sections(
        profiled(),
        shapes=KernelShapes(kernels=works),
        traces=(replace(TRACE, command=""),),
    )
    (row,) = tables(parts["Analysis by kernel"])["Rates in m3.1.nvprof"].rows

    assert "10,000.0" in row


def test_kernels_without_rates_are_counted_below_the_others():
    cudnn = replace(LAUNCHED, kernel="cudnn", total_s=0.06)
    parts = sections(
        profiled(),
        traces=(replace(TRACE, launches=(LAUNCHED, cudnn)),),
        shapes=KernelShapes(kernels=(WORK,)),
    )["Analysis by kernel"]

    (note,) = [part.text for part in parts if isinstance(part, Paragraph)]
    assert note.startswith("Without rates: 1 of 2 kernels, 75.00 % of the time,")


def test_a_kernel_that_does_more_than_its_result_has_is_named():
    split = replace(WORK, unit="fp16", unit_flops=3e11)
    parts = sections(
        profiled(), traces=(TRACE,), shapes=KernelShapes(kernels=(split,))
    )["Analysis by kernel"]

    (note,) = [part.text for part in parts if isinstance(part, Paragraph)]
    assert note.endswith("those that the GPU does for it: conv (3 times).")


def test_profiles_come_in_the_order_of_their_commands():
    files = ("m4.1.nvprof", "b.nvprof", "a.nvprof")
    commands = [
        command(n, f"m{n}.py", before=f"nvprof -f -o {file}")
        for n, file in enumerate(files)
    ]
    traces = tuple(replace(TRACE, path=file) for file in ("x.nvprof", *sorted(files)))
    parts = sections(*commands, traces=traces, shapes=KernelShapes(kernels=(WORK,)))

    analysed = list(tables(parts["Analysis by kernel"]))
    assert [title.split()[-1] for title in analysed[0:-1:2]] == [*files, "x.nvprof"]
    drawn = [part.title.split()[0] for part in parts["Timelines"]]
    assert drawn == [*files, "x.nvprof"]

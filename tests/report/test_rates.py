"""The analysis by kernel, and the layers, as sections of a report."""

from __future__ import annotations

from msgspec.structs import replace

from runner.core import Gpu, GpuUse, GpuWay, KernelCounters, Outcome
from runner.core.evidence import KernelLaunches, Trace, TracedGpu
from runner.core.kernel_shapes import (
    KernelShapes,
    KernelWork,
    LayeredNetwork,
    NetworkLayer,
)
from runner.report import document
from runner.report.blocks import Paragraph, Picture, Table
from runner.report.document import sections as document_sections
from runner.spec import milestones
from tests.kit.documents import command, evidence, inference, run

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
    return {one.title: one.parts for one in document_sections.sections(found)}


def tables(parts):
    return {part.title: part for part in parts if isinstance(part, Table)}


def profiled(number=0):
    return command(number, "m3.1.py", before="nvprof -f -o m3.1.nvprof")


def analysed(*launches, works=(WORK,), gpus=TRACE.gpus):
    trace = replace(TRACE, launches=launches, gpus=gpus)
    return sections(profiled(), traces=(trace,), shapes=KernelShapes(kernels=works))[
        "Analysis by kernel"
    ]


def said(parts):
    return " ".join(part.text for part in parts if isinstance(part, Paragraph))


def test_a_kernels_rates_stand_against_the_bounds_of_its_gpu():
    parts = analysed(LAUNCHED)

    table = tables(parts)["Rates in m3.1.nvprof"]
    shown = dict(zip(table.heads, table.rows[0], strict=True))
    assert (shown["GFLOP/s"], shown["GB/s"]) == ("10,000.0", "100.0")
    assert shown["bound by"] == "latency (14.9 % of fp32)"
    assert shown["layer"] == "naive conv1"
    assert "NVIDIA H200 does at most" in said(parts)
    assert all(len(one.heads) <= 7 for one in tables(parts).values())


def test_each_gpu_has_a_roofline_of_the_kernels_that_ran_on_it():
    every = [
        replace(LAUNCHED, kernel=f"k{n}", gpu=gpu)
        for n, gpu in enumerate((0, 0, 0, 1, 1, 1))
    ]
    works = tuple(
        replace(WORK, kernel=one.kernel, variant="", layer=one.kernel) for one in every
    )
    a100 = TracedGpu(1, "NVIDIA A100-SXM4-40GB", "8.0", 108)

    parts = analysed(*every, works=works, gpus=(*TRACE.gpus, a100))

    found = [part for part in parts if isinstance(part, Picture)]
    assert len({one.name for one in found}) == 2
    shown = [(one.chart.title, [p.label for p in one.chart.points]) for one in found]
    assert shown == [
        ("Roofline of NVIDIA H200: m3.1.nvprof", ["k0", "k1", "k2"]),
        ("Roofline of NVIDIA A100-SXM4-40GB: m3.1.nvprof", ["k3", "k4", "k5"]),
    ]
    assert [roof.label for roof in found[0].chart.roofs] == ["fp32", "memory"]
    assert found[0].chart.points[0].intensity == 100


def test_without_what_a_project_says_occupancy_remains():
    parts = analysed(LAUNCHED, works=())

    assert "1 of 1 kernels of m3.1.nvprof have no rates" in said(parts)
    (row,) = tables(parts)["Launches and theoretical occupancy in m3.1.nvprof"].rows
    assert {"834x1x1", "256x1x1", "40", "4.0 KiB"} <= set(row)
    assert row[-1].endswith("registers")


def test_only_kernels_that_together_take_most_of_the_time_have_rows():
    short = replace(LAUNCHED, kernel="short", total_s=0.001)

    shown = tables(analysed(LAUNCHED, short))

    assert [row[-1] for row in shown["Rates in m3.1.nvprof"].rows] == ["conv"]


def test_counters_are_shown_without_a_profile_that_was_kept():
    counted = KernelCounters("conv", 2, sm_percent=61.5, dram_percent=12.25)
    ran = command(0, "m3.1.py", before="ncu")
    ran = replace(ran, findings=replace(ran.findings, counters=(counted,)))

    (table,) = tables(sections(ran)["Analysis by kernel"]).values()

    assert table.rows == (("61.5 %", "12.2 %", "conv"),)


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

    assert list(shown) == ["net: m3.1.py", "Rates by Op Time, 100 images"]
    assert shown["net: m3.1.py"].rows[0][2] == "100 x 1 x 70 x 70"
    (rate,) = shown["Rates by Op Time, 100 images"].rows
    assert rate == ("m3.1.py", "conv1", "500.0 ms", "2.0", "0.2")


def test_a_program_that_nobody_describes_has_the_rates_of_its_milestones_layers():
    ran = command(0, "m3.1.py 10000", inference(10000, times=(0.01, 0.05)))
    gpu = GpuUse(GpuWay.NODES, (Gpu("GPU-1", H200, 0, compute="9.0"),))
    own = evidence(run(ran, profiled(1), gpu=gpu), traces=(TRACE,))

    found = document.report([own], [milestones.find("m3")])

    (layers,) = found.layers
    assert [one.layer for one in layers.layers] == ["conv1", "conv2"]
    operations = 2 * 10000 * 12 * 66 * 66 * 25
    assert layers.layers[0].flops == operations
    assert layers.layers[0].flops_per_s == operations / 0.01
    assert layers.layers[0].bound.by == "memory"
    assert layers.layers[0].bound.latency
    words = repr(document_sections.sections(found)[0])
    assert "Layer conv2 (50.00 ms) is bound by latency" in words


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

    assert [row[5:] for row in rows] == [
        ("18.8 % (registers)", "25.0 % with 128 registers"),
        ("37.5 % (shared memory)", "50.0 % with 56.0 KiB shared"),
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


def test_a_kernel_that_does_more_than_its_result_has_is_named():
    parts = analysed(LAUNCHED, works=(replace(WORK, unit="fp16", unit_flops=3e11),))

    assert "those that the GPU does for it: conv (3 times)." in said(parts)


def test_profiles_come_in_the_order_of_their_commands():
    files = ("m4.1.nvprof", "b.nvprof", "a.nvprof")
    commands = [
        command(n, f"m{n}.py", before=f"nvprof -f -o {file}")
        for n, file in enumerate(files)
    ]
    traces = tuple(replace(TRACE, path=file) for file in ("x.nvprof", *sorted(files)))
    parts = sections(*commands, traces=traces, shapes=KernelShapes(kernels=(WORK,)))

    analysed = list(tables(parts["Analysis by kernel"]))
    assert [title.split()[-1] for title in analysed[::2]] == [*files, "x.nvprof"]
    drawn = [part.title.split()[0] for part in parts["Timelines"]]
    assert drawn == [*files, "x.nvprof"]


def test_the_roofline_of_the_best_stands_with_the_answers_and_nowhere_else():
    every = tuple(replace(LAUNCHED, kernel=f"k{n}") for n in range(3))
    works = tuple(replace(WORK, kernel=one.kernel) for one in every)
    timed = command(1, "m3.1.py 10000", inference(10000))

    found = sections(
        profiled(),
        timed,
        traces=(replace(TRACE, launches=every),),
        shapes=KernelShapes(kernels=works),
    )

    drawn = {
        title
        for title, parts in found.items()
        for part in parts
        if isinstance(part, Picture) and part.name.startswith("roofline")
    }
    assert drawn == {"Summary"}

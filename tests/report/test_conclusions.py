"""What a report says first: what is right, what is fastest, and what bounds it."""

from __future__ import annotations

from msgspec.structs import replace

from runner.core import Gpu, GpuUse, GpuWay, Outcome, Reason, Verdict
from runner.core.evidence import KernelLaunches, Trace, TracedGpu
from runner.core.kernel_shapes import (
    KernelShapes,
    KernelWork,
    LayeredNetwork,
    NetworkLayer,
)
from runner.figures import table
from runner.figures.scanner import find
from runner.figures.sources import attributed
from runner.report import document as report_document
from runner.report.blocks import Paragraph, Picture, Table
from runner.report.document import sections as document
from runner.spec import milestones
from tests.kit import records
from tests.kit.documents import SCRIPTS, command, evidence, inference, run

H200 = "NVIDIA H200"
GPU = GpuUse(GpuWay.NODES, (Gpu("GPU-1", H200, 0, compute="9.0"),))


def printed(*lines: tuple[str, float, float]) -> str:
    """Return what a script prints of the models of the 2017 edition."""
    return "".join(
        f"Loading model... done\nNew Inference\nOp Time: {seconds:.6f}\n"
        f"Correctness: {share} Batch Size: 10000 Model: {model}\n"
        for model, seconds, share in lines
    )


HIGH, LOW = ("ece408-high", 0.5, 0.8562), ("ece408-low", 0.25, 0.629)


def ran(index: int, script: str, text: str):
    line = f"python $RAI_SOURCE_DIR/{script}"
    found = attributed(find(text), index + 1, line, line)
    return records.command(index, line, findings=found, wall_s=2.0)


def parts(*commands, names=(), **facts):
    stones = [milestones.find(name) for name in names]
    verdict = facts.pop("verdict", Verdict(True, True, None, Reason.DONE))
    made = run(*commands, gpu=GPU, verdict=verdict)
    return document.sections(report_document.report([evidence(made, **facts)], stones))


def said(sections) -> dict[str, str]:
    shown = (p for p in sections[0].parts if isinstance(p, Paragraph) and p.strong)
    found: dict[str, str] = {}
    for part in shown:
        found[part.strong] = f"{found.get(part.strong, '')} {part.text}".strip()
    return found


def tables(sections) -> dict[str, Table]:
    every = (part for section in sections for part in section.parts)
    return {part.title: part for part in every if isinstance(part, Table)}


def test_two_models_of_one_script_are_two_networks_and_never_one_row():
    """So the last model that a script runs is not its only one."""
    sections = parts(ran(0, "final.py", printed(HIGH, LOW)))

    text = said(sections)
    assert "ece408-high: correctness 0.8562 on 10000 images." in text["Is it right?"]
    assert "ece408-low: correctness 0.629 on 10000 images." in text["Is it right?"]
    assert "ece408-high: final.py has Op Times of 500.0 ms" in text[FAST]
    assert "ece408-low: final.py has Op Times of 250.0 ms" in text[FAST]
    shown = tables(sections)
    for (model, _, share), time in ((HIGH, "500.0 ms"), (LOW, "250.0 ms")):
        rows = shown[f"{model}: Op Times by number of images"].rows
        assert rows == (("final.py", time),)
        assert shown[f"{model}: Results"].rows[0][1] == f"correctness {share}"


def test_two_models_of_two_commands_are_compared_each_with_its_own():
    sections = parts(
        ran(0, "m3.1.py", printed(("ece408-high", 2.0, 0.8562))),
        ran(1, "m3.1.py --low", printed(("ece408-low", 1.0, 0.629))),
        ran(2, "final.py", printed(HIGH)),
        ran(3, "final.py --low", printed(LOW)),
        names=("m3",),
    )

    fast = said(sections)[FAST]
    assert fast.count("4 times as fast as the first GPU version, m3.1.py") == 2
    assert "ece408-high: final.py has Op Times of 500.0 ms" in fast
    items = {row[1:]: row for row in tables(sections)[""].rows}
    counted = [row[-1] for row in items if row[0] == "Op Times" and row[2] == "there"]
    assert counted == ["1.000 s to 2.000 s, 2 models"]


def test_each_model_is_bound_by_what_its_own_profile_shows():
    """So a figure of one model's kernels never stands under the other."""
    line = "nvprof -o low.nvprof python $RAI_SOURCE_DIR/final.py --low"
    found = attributed(find(printed(LOW)), 3, line, line)
    sections = parts(
        ran(0, "final.py", printed(HIGH)),
        ran(1, "final.py --low", printed(LOW)),
        records.command(2, line, findings=replace(found, under=("nvprof",))),
        traces=(kernels("final.py", "low.nvprof", launched("conv", 0.01)),),
        shapes=KernelShapes(kernels=(CONVOLUTION,)),
    )

    high, low = said(sections)[BOUND].split("ece408-low: ")
    assert high.startswith("ece408-high: Not known")
    assert low.startswith("conv (conv2, 10.00 ms) is bound by")


def test_a_faster_one_on_an_unknown_number_of_images_is_named_and_not_compared():
    sections = parts(
        command(0, "m3.1.py 10000", inference(10000, times=(2.0,))),
        command(1, "both.sh", inference(None, times=(0.5,))),
    )

    fast = said(sections)[FAST]
    assert fast.startswith("m3.1.py has Op Times of 2.000 s on 10000 images")
    assert "both.sh has 500.0 ms, on a number of images that its command does" in fast


def test_rai_show_tells_two_models_of_a_command_apart():
    networks = table.networks(run(ran(0, "final.py", printed(HIGH, LOW))))

    assert [(one.model, one.op_time_s.median) for one in networks] == [
        ("ece408-high", 0.5),
        ("ece408-low", 0.25),
    ]


FAST, BOUND = "How fast is the best?", "What bounds it, what next?"
BROUGHT = "What brought it?"


def steps():
    """Return the commands of a course: CPU, first GPU version, variants, the best."""
    return [
        command(0, "m2.1.py", inference(10000, times=(4.0, 4.0))),
        command(1, "m3.1.py 100", inference(100, times=(0.01,))),
        command(2, "m3.1.py 10000", inference(10000, times=(2.0,))),
        command(
            3,
            "m4.1.py 10000",
            inference(10000, "tiled", (1.0,)),
            inference(10000, "slow", (3.0,)),
        ),
        command(4, "final.py 10000", inference(10000, "best", (0.1, 0.15))),
        command(5, "final.py", inference(10000, "best", (0.01,)), under=("nvprof",)),
    ]


def test_the_best_is_compared_with_the_first_gpu_version_and_each_step():
    sections = parts(*steps(), names=("m3", "final"))

    text = said(sections)
    assert text[FAST] == (
        "final.py best has Op Times of 250.0 ms (100.0 ms + 150.0 ms) on 10000 images;"
        " its whole program takes 1.750 s. That is 8 times as fast as the first GPU"
        " version, m3.1.py."
    )
    assert text[BROUGHT] == (
        "m3.1.py is 4 times as fast as m2.1.py; m4.1.py tiled is 2 times as fast as"
        " m3.1.py; final.py best is 4 times as fast as m4.1.py tiled."
    )
    rows = tables(sections)["The best of each program on 10000 images"].rows
    assert [row[3] for row in rows] == ["0.25 times", "", "2 times", "8 times"]
    (picture,) = (p for p in sections[0].parts if isinstance(p, Picture))
    assert len(picture.chart.bars) == 5


def kernels(script: str, file: str, *launches: KernelLaunches) -> Trace:
    gpu = TracedGpu(0, H200, "9.0", 132)
    return Trace(file, "nvprof", f"python {script}", (gpu,), launches, spans=2)


def launched(kernel: str, seconds: float, registers: int = 142) -> KernelLaunches:
    sizes = ((834, 1, 1), (128, 1, 1), registers, 28_800, 0)
    return KernelLaunches(kernel, 0, *sizes, 1, seconds, seconds, seconds)


def test_the_best_is_compared_with_a_librarys_convolutions():
    library = command(0, "m1.2.py", before="nvprof -o m1.nvprof")
    file = kernels("m1.2.py", "m1.nvprof", launched("cudnn_fprop", 1.0), DENSE)
    ran = (library, command(1, "m3.1.py 10000", inference(10000, times=(0.25,))))

    text = said(parts(*ran, traces=(file,)))

    expected = "4 times as fast as the library's convolutions in m1.2.py (1.000 s of"
    assert expected in text[FAST]


DENSE = launched("dense", 3.0)
CONVOLUTION = KernelWork(
    "conv", variant="best", layer="conv2", flops=1e11, bytes=1e6, unit="fp32"
)


def bounds(flops: float, *others: KernelLaunches) -> str:
    profiled = command(1, "final.py", before="nvprof -o final.nvprof")
    ran = (command(0, "final.py 10000", inference(10000, "best")), profiled)
    file = kernels("final.py", "final.nvprof", launched("conv", 0.01), *others)
    shapes = KernelShapes(kernels=(replace(CONVOLUTION, flops=flops),))
    return said(parts(*ran, traces=(file,), shapes=shapes))[BOUND]


def test_a_kernel_below_both_roofs_is_bound_by_latency_and_a_step_is_named():
    text = bounds(1e11)

    assert "conv (conv2, 10.00 ms) is bound by latency: it reaches 14.9 %" in text
    assert "128 registers a thread" in text
    assert "from 19 % to 25 %" in text


def test_a_kernel_near_its_roof_is_bound_by_it_and_what_takes_longer_is_named():
    text = bounds(5e11, DENSE)

    assert "is bound by fp32 arithmetic, at 74.7 % of its roof" in text
    assert "for the whole program look at dense, 100 %" in text


def test_layers_are_bound_where_the_output_names_no_variant():
    layer = NetworkLayer(
        "conv1", "convolution", (4, 1, 9, 9), (4, 2, 7, 7), (2, 1, 3, 3), 1e9, 1e6, True
    )
    network = LayeredNetwork("n", "m4.1.py", None, 4, (layer,))
    work = KernelWork("conv", variant="a", layer="conv1", flops=1e9, bytes=1e6)
    work = replace(work, unit="fp32")
    shapes = KernelShapes(kernels=(work,), networks=(network,))
    ran = command(0, "m4.1.py", inference(4, times=(0.5,)))

    text = said(parts(ran, shapes=shapes))[BOUND]

    assert text.startswith("Layer conv1 (500.0 ms) is bound by")


def test_what_is_wrong_is_said_first_with_who_disagrees():
    wrong = Verdict(True, True, False, Reason.WRONG_ANSWER, "expected 0.9")
    differs = replace(inference(100, "tiled"), correctness=0.5)
    sections = parts(
        command(0, "m4.1.py 100", inference(100, "plain"), differs), verdict=wrong
    )

    assert said(sections)["Is it right?"] == (
        "No, as the result says. net: correctness 0.85 on 100 images by m4.1.py plain,"
        " correctness 0.5 on 100 images by m4.1.py tiled."
    )


def test_a_run_without_figures_says_that_nothing_is_known():
    failed = command(0, "m3.1.py", outcome=Outcome.FAILED, exit_code=1)

    text = said(parts(failed))

    assert text["Is it right?"] == "Not known: no command printed a correctness."
    assert text["How fast is it?"].startswith("Not known")


def test_advice_names_programs_where_the_run_has_them():
    text = "".join(map(str, parts(ran(0, "m3.1.py", ""), names=("m3",))[1].parts))

    assert f"{SCRIPTS}/" not in text
    assert "python $RAI_SOURCE_DIR/m3.1.py" in text

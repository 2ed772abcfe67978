"""Each figure says of which command, variant and batch it is, and what ran along."""

from __future__ import annotations

import pytest

from runner.core import (
    Command,
    CommandRecord,
    Findings,
    Outcome,
    RunRecord,
    Source,
    Stream,
)
from runner.core.events import Output
from runner.figures.answers import CommandOutput
from runner.figures.scanner import find
from runner.report import findings
from runner.report import runs as run_tables
from runner.spec import commandline
from runner.terminal.layout import blocks

TABLE = """\
==12== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:   80.00%  16.000ms        20  800.00us  1.1200us  15.000ms  sgemm
"""
TIME = "8.26user 0.40system 0:01.96elapsed 440%CPU\n"
LOG = f"""\
✱ Running /usr/bin/time python m3.1.py 100
New Inference
Op Time: 0.5
Correctness: 0.9 Model: ece408
{TIME}✱ Running nvprof python m4.1.py 10000
==12== NVPROF is profiling process 12, command: python m4.1.py 10000
New Inference
Variant: tiled
Op Time: 0.25
Correctness: 0.8898 Model: ece408
New Inference
Variant: best_half
Op Time: 0.125
Correctness: 0.8898 Model: ece408 Class: half
New Inference
Op Time: 0.0625
{TABLE}✱ Running make\x1b[0m
{TIME}"""
TILED = """\
New Inference
Variant: tiled
Op Time: 0.25
Correctness: 0.8898 Model: ece408
"""


def ran(line: str, out: str = "", err: str = "", name: str | None = None) -> Findings:
    """What is found in the output of command 3."""
    output = CommandOutput(Command(line, name), 3)
    output.feed(Output(2, Stream.STDERR, err.encode()))
    output.feed(Output(2, Stream.STDOUT, out.encode()))
    return output.findings()


def test_a_logs_figures_are_of_the_command_above_them():
    found = find(LOG)
    first = Source(1, "/usr/bin/time python m3.1.py 100", batch_size=100)
    second = Source(2, "nvprof python m4.1.py 10000", "", 10000, ("nvprof",))

    assert [one.source.number for one in found.inferences] == [1, 2, 2, 2]
    assert found.inferences[0].source == first
    assert [one.source.variant for one in found.inferences[1:]] == [
        "tiled",
        "best_half",
        "",
    ]
    assert [one.accuracy_class for one in found.inferences] == ["", "", "half", ""]
    assert [one.source for one in found.time_usage] == [first, Source(3, "make")]
    assert [one.source for one in found.profiles] == [second]
    assert found.under == ("nvprof",)


def test_in_a_run_the_command_is_the_build_files_whatever_its_output_says():
    found = ran("./a.out", f"✱ Running rm -rf /\n{TILED}", TIME, name="bench")

    assert found.inferences[0].source == Source(3, "bench", "tiled")
    assert found.time_usage[0].source == Source(3, "bench", "tiled")


def test_a_profiler_on_the_other_stream_marks_the_inference():
    banner = "==12== NVPROF is profiling process 12, command: ./a.out\n"
    found = ran("make profile", TILED, banner + TABLE)

    assert found.inferences[0].source.under == ("nvprof",)
    assert found.profiles[0].source == Source(
        3, "make profile", "tiled", None, ("nvprof",)
    )


def test_a_time_of_several_variants_is_of_none():
    found = ran("x", TILED + TILED.replace("tiled", "naive"), TIME)

    assert [one.source.variant for one in found.inferences] == ["tiled", "naive"]
    assert found.time_usage[0].source.variant == ""


@pytest.mark.parametrize(
    ("line", "size"),
    [
        ("python m3.1.py 100", 100),
        ("/usr/bin/time python $RAI_SOURCE_DIR/project/final.py 1000", 1000),
        ('/bin/bash -c "python m2.1.py ece408-high 10000"', 10000),
        ("python final.py --class tf32 1000 | tee log", 1000),
        ("python m4.1.py --variant tiled --variant naive 50", 50),
        ("python m3.1.py", None),
        ("python m3.1.py 100; python m3.1.py 1000", None),
        ("python m3.1.py 100 && python final.py 100", 100),
        ("for n in 1 2; do python final.py $n; done", None),
    ],
)
def test_the_batch_size_is_the_scripts_argument(line, size):
    assert commandline.batch_size(line) == size
    assert ran(line, TILED).inferences[0].source.batch_size == size


@pytest.mark.parametrize(
    "line",
    [
        "Test batch size: 1000\nNew Inference\nTest Accuracy: 0.5\n",
        "New Inference\nCorrectness: 0.5 Batch Size: 1000 Model: ece408\n",
        "Batch Size: 1000\nNew Inference\nCorrectness: 0.5\n",
    ],
)
def test_a_printed_batch_size_counts_before_the_argument(line):
    found = ran("python m3.1.py 100", line)

    assert [one.source.batch_size for one in found.inferences] == [1000]


@pytest.mark.parametrize(
    ("line", "tools"),
    [
        ("nvprof -o x.nvprof python a.py", ("nvprof",)),
        ("/usr/local/cuda/bin/ncu ./a", ("ncu",)),
        ("nv-nsight-cu-cli ./a", ("ncu",)),
        ("nsys profile ./a && nsys stats x", ("nsys",)),
        ('bash -c "cuda-memcheck ./a"', ("cuda-memcheck",)),
        ("compute-sanitizer --tool racecheck ./a", ("compute-sanitizer",)),
        ("valgrind ./a; nvprof ./a", ("valgrind", "nvprof")),
        ("nvprof -i old.nvprof", ()),
        ("ls -l m3.1.nvprof nvprof.txt image/nvprof/setup.py", ()),
        ("nsys stats report.nsys-rep", ()),
    ],
)
def test_the_tools_that_run_along_are_those_the_line_starts(line, tools):
    assert commandline.tools(line) == tools
    assert ran(line, TILED).inferences[0].source.under == tools


@pytest.mark.parametrize(
    ("banner", "tool"),
    [
        ("========= COMPUTE-SANITIZER", "compute-sanitizer"),
        ("========= CUDA-MEMCHECK", "cuda-memcheck"),
        ("==PROF== Connected to process 728 (/build/m3)", "ncu"),
        ("==305== NVPROF is profiling process 305, command: ./m3", "nvprof"),
        ("==305== Memcheck, a memory error detector", "valgrind"),
    ],
)
def test_a_tool_is_known_by_its_first_line(banner, tool):
    found = find("x\n" * 50_000 + f"{banner}\n{TILED}")

    assert found.inferences[0].source.under == (tool,)


def test_show_names_what_each_figure_is_of(capsys):
    found = ran("nvprof python m4.1.py 100", TILED, TIME + TABLE)
    command = CommandRecord(2, "x", None, Outcome.OK, findings=found)
    done = RunRecord("r", "/p", "f", 0.0, commands=(command,))

    blocks(run_tables.of(done)[2:])
    shown = capsys.readouterr().out

    assert "#  model   variant  images  op times  result              under" in shown
    assert "3  ece408  tiled       100  250.0 ms  correctness 0.8898  nvp" in shown
    assert "#     user    system  elapsed" in shown
    assert (
        "nvprof: GPU activities of command 3, `nvprof python m4.1.py 100`"
        " (variant tiled, batch 100)\n"
    ) in shown


def test_parse_lists_the_commands_of_a_log(capsys):
    blocks(findings.figures(find(LOG)))
    shown = capsys.readouterr().out

    assert "2  nvprof python m4.1.py 10000\n" in shown
    assert "2  ece408  best_half   10000  125.0 ms" in shown


def test_in_a_log_skipped_commands_count_and_what_follows_the_run_is_of_none():
    log = f"""\
✱ Running make
{TIME}✱ Skipping 2 commands that need a GPU
✱ Running ./a
{TIME}✱ Skipping ./b (command 4 failed)
✱ Run 0123456789 ended: command failed: `./a` exited 1
{TIME}"""

    found = find(log)

    assert [one.source.number for one in found.time_usage] == [1, 4, None]

"""A stream says the same however it comes, whatever it holds, in flat memory."""

import tracemalloc

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from runner.core import Findings, GpuFaultKind, Inference, TimeUsage
from runner.core.figures import combined, fitting
from runner.figures import scanner
from runner.figures.scanner import Scanner, find
from tests.kit.sourceless import bare

OUTPUT = b"""\
\xe2\x9c\xb1 Running /usr/bin/time python m2.1.py
Loading fashion-mnist data... done
New Inference
Op Time: 0.021169
Op Time: 0.068800
Correctness: 0.7653 Model: ece408
5.47user 3.58system 0:05.21elapsed 173%CPU (0avgtext+0avgdata 2958336maxresident)k
0inputs+2624outputs (0major+27189minor)pagefaults 0swaps
==305== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:   80.00%  16.000ms        20  800.00us  1.1200us  15.000ms  sgemm
                   20.00%  4.0000ms         1  4.0000ms  4.0000ms  4.0000ms  void f(i
nt)
      API calls:  100.00%  3.00000s        22  136.36ms  13.006us  1.56281s  cudaFree
real 4.95
user 10.01
sys 4.43
Op Time: 1384.19 ms
Test Accuracy: 0.8714
pycuda._driver.LaunchError: cuCtxSynchronize failed: unspecified launch failure
"""
FOUND = find(OUTPUT)
COLOURS = st.sampled_from([b"\x1b[31m", b"\x1b[0m", b"\x1b[1;38;5;4m", b"\x1b[m"])
FRAGMENTS = st.sampled_from(OUTPUT.splitlines(keepends=True))


def scan(chunks: list[bytes]) -> Findings:
    one = Scanner()
    for chunk in chunks:
        one.feed(chunk)
    return one.findings()


def test_the_time_before_each_line_of_a_verbose_run_hides_no_figure():
    stamp = b"[ 2019-10-11 13:03:32.123456789 -0500 CDT ] "

    assert find(b"".join(stamp + line for line in OUTPUT.splitlines(True))) == FOUND


def test_the_example_has_all_kinds_of_figures():
    assert bare(FOUND).inferences == (
        Inference((0.021169, 0.0688), 0.7653, "ece408"),
        Inference((1.38419,), accuracy=0.8714),
    )
    assert bare(FOUND).time_usage == (
        TimeUsage(5.47, 3.58, 5.21, 173, 2958336),
        TimeUsage(10.01, 4.43, 4.95),
    )
    assert [len(table.rows) for table in FOUND.profiles] == [2, 1]
    assert [fault.kind for fault in FOUND.gpu_faults] == [GpuFaultKind.LAUNCH_FAILED]


@pytest.mark.lengthy
@given(st.integers(65_000, 66_000), st.sampled_from([b"x\n", b"some line 123\n"]))
@settings(max_examples=8)
def test_where_a_figure_lies_among_dull_lines_does_not_matter(size, line):
    before = line * (size // len(line)) + b"y" * (size % len(line)) + b"\n"
    findings = bare(find(before + OUTPUT + line * 6_000 + OUTPUT))
    once = bare(FOUND)

    assert findings.inferences == once.inferences * 2
    assert findings.time_usage == once.time_usage * 2
    assert findings.profiles == once.profiles * 2
    assert findings.gpu_faults == FOUND.gpu_faults


@given(st.lists(st.tuples(st.integers(0, len(OUTPUT)), COLOURS), max_size=20))
def test_colours_anywhere_change_nothing(colours):
    data = OUTPUT
    for place, colour in sorted(colours, reverse=True):
        data = data[:place] + colour + data[place:]
    assert bare(find(data)) == bare(FOUND)


def test_line_ends_of_a_terminal_change_nothing():
    assert find(OUTPUT.replace(b"\n", b"\r\n")) == FOUND
    assert find(OUTPUT.decode()) == FOUND


@pytest.mark.lengthy
@given(st.lists(st.one_of(FRAGMENTS, st.binary(max_size=30)), max_size=40))
def test_torn_and_shuffled_output_never_fails_and_never_makes_up_a_figure(pieces):
    data = b"".join(pieces)
    findings = find(data)

    for inference in findings.inferences:
        assert set(inference.op_times_s) <= {0.021169, 0.068800, 1.38419}
        assert inference.correctness in (None, 0.7653)


def test_what_was_found_can_be_asked_again():
    one = Scanner()
    one.feed(b"Op Time: 0.500000\nOp Time: 0.25")

    assert one.findings().inferences == (Inference((0.5, 0.25)),)
    assert one.findings() == one.findings()


@pytest.mark.lengthy
def test_memory_stays_flat_for_endless_lines_and_for_endless_figures():
    tracemalloc.start()
    one = Scanner()
    for _ in range(200):
        one.feed(b"x" * 100_000)
    for n in range(40):
        one.feed(b"\nOp Time: 0.5\nCorrectness: 0.5 Model: m%d\n" % n * 50)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(one.findings().inferences) == 1000
    assert peak < 3 * scanner.LAST_BYTES


def test_streams_and_commands_are_put_together_in_their_order():
    first, second = find("Op Time: 1.0"), find("real 4.95\nuser 10.01\nsys 4.43")

    assert combined([first, second, first]) == Findings(
        inferences=(Inference((1.0,)), Inference((1.0,))),
        time_usage=(TimeUsage(10.01, 4.43, 4.95),),
    )


@pytest.fixture
def short(monkeypatch):
    """The first and the last 10,000 bytes are read, in blocks of 1,000."""
    monkeypatch.setattr(scanner, "_BLOCK", 1000)
    monkeypatch.setattr(scanner, "LAST_BYTES", 10_000)
    return lambda: Scanner(first=10_000)


@pytest.mark.parametrize("size", [1, 999, 5000, 100_000])
def test_of_long_output_the_beginning_and_the_end_are_read_and_the_rest_is_counted(
    short, size
):
    figures = b"".join(b"New Inference\nOp Time: 0.%04d\n" % n for n in range(2000))
    data = figures + b"Correctness: 0.5 Model: ece408\n"
    one = short()
    for start in range(0, len(data), size):
        one.feed(data[start : start + size])
    found = one.findings()

    assert found.inferences[0].op_times_s == (0.0,)
    assert found.inferences[-1] == replace(
        Inference((0.1999,), 0.5, "ece408"), source=found.inferences[-1].source
    )
    assert len(data) - 20_000 <= found.unsearched <= len(data) - 20_000 + 30


def test_output_of_just_the_two_parts_is_read_whole(short):
    one = short()
    one.feed(b"y" * 9_990 + b"\nOp Time: 0.5\n" + b"z\n" * 4_996)
    found = one.findings()

    assert found.inferences == (Inference((0.5,)),)
    assert found.unsearched == 0


def test_figures_beyond_a_number_of_lines_are_not_searched_but_the_end_is(
    short, monkeypatch
):
    monkeypatch.setattr(scanner, "MOST_LINES", 20)
    monkeypatch.setattr(scanner, "FIRST_BYTES", 10_000)
    one = short()
    one.feed(b"Correctness: 0.5\n" * 100 + b"y\n" * 20_000 + b"Op Time: 0.5\n")
    found = one.findings()

    assert len(found.inferences) == 21
    assert found.unsearched > 80 * 17


@pytest.mark.parametrize(
    "noise",
    [b"\x1b[1K", b"x\b", b"\x1b", b"\r", b"\x00", b"x\r\x1b[K", b"\x1b]0;", b"=" * 99],
)
def test_a_figure_after_a_flood_of_controls_is_found(noise):
    one = Scanner()
    for _ in range(20):
        one.feed(noise * (65536 // len(noise)) + b"\n")
    one.feed(b"Correctness: 0.5 Model: ece408\n")

    assert [found.correctness for found in one.findings().inferences] == [0.5]


def test_figures_of_one_command_take_bounded_space():
    row = "1.00%  1.0us  1  1.0us  1.0us  1.0us  " + "k" * 1000 + "\n"
    table = "==1== Profiling result:\nTime(%) Time Calls Avg Min Max Name\n" + 400 * row
    found = find(20 * table)

    assert 0 < len(found.profiles) < 10
    assert found.left_out == 20 - len(found.profiles)
    assert len(msgspec.json.encode(fitting(found, 1_000_000))) < 1_000_000


def test_an_inference_that_does_not_fit_into_the_record_is_counted():
    found = find("Correctness: 0.5\n" * 10)

    assert fitting(found, 1 << 20) == found
    assert fitting(found, 0).left_out == 10


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("src/new-forward.cuh(12): error: no x", "new-forward.cuh:12: no x"),
        ("/a b/c.cu:7:3: error: expected ';'", ""),
        ("./a.cpp:7:3: fatal error: no.h: absent", "a.cpp:7: no.h: absent"),
        ("./a.cpp:7:3: error: expected `;`", "a.cpp:7: expected `;`"),
        ("a.h:7: error: x", "a.h:7: x"),
        ("a.cu(3): warning #20012-D: an error: none", ""),
        ("Check failed: replace with your implementation", "forward() is the template"),
        (
            "Remove it, replace it with your implementation.",
            "forward() is the template",
        ),
        ("1) Missing an ECE408 CPU implementation!", "forward() is the template"),
        ("ptxas error   : Entry function 'f' uses", "Entry function 'f' uses"),
        ("nvlink error   : Undefined reference to 'f'", "Undefined reference to 'f'"),
        ("/usr/bin/ld: cannot find -lcublas", "cannot find -lcublas"),
        ("a.cc:(.text+0x5): undefined reference to `f'", "undefined reference to `f'"),
        ("ld: warning: a.o: missing .note", ""),
        ("gmake[2]: *** No rule to make target 'a'.", "No rule to make target 'a'."),
        ("make: *** [Makefile:2: all] Error 2", ""),
        ("forward() is wrong: map 1 is 0", "forward() is wrong: map 1 is 0"),
        ("Traceback: error: x", ""),
    ],
)
def test_the_first_error_of_a_compiler_is_told_with_its_line(line, told):
    found = find(f"nvcc -c a.cu\n{line}\nz.cu(1): error: last\n")

    assert found.mistake == (told or "z.cu:1: last")

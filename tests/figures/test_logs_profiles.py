"""Profilers' tables, in the layouts of their versions and as logs mangle them."""

import re

import pytest

from runner.core import Findings, ProfileRow, ProfileTable
from tests.kit.sourceless import find

TYPED = """\
==305== NVPROF is profiling process 305, command: python m1.2.py
Loading model... done
==305== Profiling application: python m1.2.py
==305== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:   80.00%  16.000ms        20  800.00us  1.1200us  15.000ms  [CUDA memcpy HtoD]
                   20.00%  4.0000ms         1  4.0000ms  4.0000ms  4.0000ms  void some_kernel<float>(float*, int)
      API calls:   75.00%  3.00000s        22  136.36ms  13.006us  1.56281s  cudaStreamCreateWithFlags
                   25.00%  1.00000s         2  500.00ms     853ns  999.00ms  cudaFree
"""  # noqa: E501 the tools print lines as long as this
UNTYPED = """\
==305== Profiling result:
Time(%)      Time     Calls       Avg       Min       Max  Name
 80.00%  16.000ms        20  800.00us  1.1200us  15.000ms  [CUDA memcpy HtoD]
 20.00%  4.0000ms         1  4.0000ms  4.0000ms  4.0000ms  void some_kernel<float>(float*, int)

==305== API calls:
Time(%)      Time     Calls       Avg       Min       Max  Name
 75.00%  3.00000s        22  136.36ms  13.006us  1.56281s  cudaStreamCreateWithFlags
 25.00%  1.00000s         2  500.00ms     853ns  999.00ms  cudaFree
"""  # noqa: E501 as above
COPY = ProfileRow("[CUDA memcpy HtoD]", 80.0, 0.016, 20, 0.0008, 1.12e-06, 0.015)
KERNEL = ProfileRow(
    "void some_kernel<float>(float*, int)", 20.0, 0.004, 1, 0.004, 0.004, 0.004
)
CREATE = ProfileRow(
    "cudaStreamCreateWithFlags", 75.0, 3.0, 22, 0.13636, 1.3006e-05, 1.56281
)
FREE = ProfileRow("cudaFree", 25.0, 1.0, 2, 0.5, 8.53e-07, 0.999)
NVPROF = (
    ProfileTable("nvprof", "GPU activities", (COPY, KERNEL)),
    ProfileTable("nvprof", "API calls", (CREATE, FREE)),
)

NSYS_2020 = """\
Generating CUDA API Statistics...
CUDA API Statistics (nanoseconds)

Time(%)  Total Time  Calls      Average   Minimum    Maximum  Name
-------  ----------  -----  -----------  --------  ---------  ----------------
   75.0       30000      2      15000.0     10000      20000  cudaMalloc
   25.0       10000      1      10000.0     10000      10000  cudaMemcpy
Generating CUDA Kernel Statistics...

Generating CUDA Memory Operation Statistics...
CUDA Kernel Statistics (nanoseconds)

Time(%)  Total Time   Instances  Average  Minimum    Maximum  Name
-------  ----------  ----------  -------  -------  ---------  --------------------
  100.0        3360           2   1680.0     1664       1696  conv_forward_kernel


CUDA Memory Operation Statistics (nanoseconds)

Time(%)  Total Time  Operations     Average   Minimum   Maximum  Name
-------  ----------  ----------  ----------  --------  --------  ------------------
  100.0       90000           2     45000.0     40000     50000  [CUDA memcpy HtoD]


CUDA Memory Operation Statistics (KiB)

   Total  Operations   Average     Minimum   Maximum  Name
--------  ----------  --------  ----------  --------  ------------------
538906.0           2  269453.0  250000.000  288906.0  [CUDA memcpy HtoD]


Generating NVTX Push-Pop Range Statistics...
NVTX Push-Pop Range Statistics (nanoseconds)
"""
NSYS_2021 = """\
CUDA API Statistics:

 Time(%)  Total Time (ns)  Num Calls  Average (ns)  Minimum (ns)  Maximum (ns)  StdDev (ns)     Name
 -------  ---------------  ---------  ------------  ------------  ------------  -----------  ----------
    75.0           30,000          2      15,000.0        10,000        20,000      7,071.1  cudaMalloc
    25.0           10,000          1      10,000.0        10,000        10,000          0.0  cudaMemcpy


CUDA Kernel Statistics:

 Time(%)  Total Time (ns)  Instances  Average  Minimum  Maximum          Name
 -------  ---------------  ---------  -------  -------  -------  -------------------
   100.0            3,360          2  1,680.0    1,664    1,696  conv_forward_kernel


CUDA Memory Operation Statistics (by time):

 Time(%)  Total Time (ns)  Count  Average (ns)  Minimum (ns)  Maximum (ns)  StdDev (ns)      Operation
 -------  ---------------  -----  ------------  ------------  ------------  -----------  ------------------
   100.0           90,000      2      45,000.0        40,000        50,000      7,071.1  [CUDA memcpy HtoD]


CUDA Memory Operation Statistics (by size in KiB):

   Total     Operations   Average    Minimum    Maximum       Operation
 ----------  ----------  ---------  ---------  ---------  ------------------
 524288.000           8  65536.000  65536.000  65536.000  [CUDA memcpy HtoD]
"""  # noqa: E501 as above
NSYS_2024 = """\
Processing [report1.sqlite] with [/opt/nvidia/nsight-systems/2024.1.1/host-linux-x64/reports/cuda_api_sum.py]...

 ** CUDA API Summary (cuda_api_sum):

 Time (%)  Total Time (ns)  Num Calls  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)     Name
 --------  ---------------  ---------  --------  --------  --------  --------  -----------  ----------
     75.0            30000          2   15000.0   15000.0     10000     20000       7071.1  cudaMalloc
     25.0            10000          1   10000.0   10000.0     10000     10000          0.0  cudaMemcpy

Processing [report1.sqlite] with [/opt/nvidia/nsight-systems/2024.1.1/host-linux-x64/reports/cuda_gpu_kern_sum.py]...

 ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

 Time (%)  Total Time (ns)  Instances  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)          Name
 --------  ---------------  ---------  --------  --------  --------  --------  -----------  -------------------
    100.0             3360          2    1680.0    1680.0      1664      1696         22.6  conv_forward_kernel

 ** CUDA GPU MemOps Summary (by Time) (cuda_gpu_mem_time_sum):

 Time (%)  Total Time (ns)  Count  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)      Operation
 --------  ---------------  -----  --------  --------  --------  --------  -----------  ------------------
    100.0            90000      2   45000.0   45000.0     40000     50000       7071.1  [CUDA memcpy HtoD]

 ** CUDA GPU MemOps Summary (by Size) (cuda_gpu_mem_size_sum):

 Total (MB)  Count  Avg (MB)  Med (MB)  Min (MB)  Max (MB)  StdDev (MB)      Operation
 ----------  -----  --------  --------  --------  --------  -----------  ------------------
      8.389      2     4.194     4.194     4.194     4.194        0.000  [CUDA memcpy HtoD]
"""  # noqa: E501 as above
NSYS_PROFILE = re.sub(
    r" \*\* .*\((\w+)\):", r"[5/8] Executing '\1' stats report", NSYS_2024
)
NSYS = (
    ProfileTable(
        "nsys",
        "CUDA API",
        (
            ProfileRow("cudaMalloc", 75.0, 3e-05, 2, 1.5e-05, 1e-05, 2e-05),
            ProfileRow("cudaMemcpy", 25.0, 1e-05, 1, 1e-05, 1e-05, 1e-05),
        ),
    ),
    ProfileTable(
        "nsys",
        "GPU kernels",
        (
            ProfileRow(
                "conv_forward_kernel",
                *(100.0, 3.36e-06, 2, 1.68e-06, 1.664e-06, 1.696e-06),
            ),
        ),
    ),
    ProfileTable(
        "nsys",
        "GPU memory operations (by time)",
        (ProfileRow("[CUDA memcpy HtoD]", 100.0, 9e-05, 2, 4.5e-05, 4e-05, 5e-05),),
    ),
)


def profiles(text: str) -> tuple[ProfileTable, ...]:
    return find(text).profiles


@pytest.mark.parametrize("text", [TYPED, UNTYPED])
def test_nvprofs_two_layouts_say_the_same(text):
    assert profiles(text) == NVPROF
    assert profiles(text.replace("==305== ", "")) == NVPROF


@pytest.mark.parametrize("text", [TYPED, UNTYPED])
def test_columns_may_be_parted_by_single_spaces_or_tabs(text):
    for gap in (" ", "\t"):
        narrow = "\n".join(
            gap.join(word for word in line.split("  ") if word.strip())
            for line in text.splitlines()
        )
        assert profiles(narrow) == NVPROF


@pytest.mark.parametrize("name", ["cuda StreamCreateWithFlags", "cudaStream Create"])
def test_a_broken_name_does_not_make_an_api_table_one_of_the_gpu(name):
    header = "Time(%)      Time     Calls       Avg       Min       Max  Name\n"
    table = header + UNTYPED.rpartition(header)[2]

    (found,) = profiles(table.replace("cudaStreamCreateWithFlags", name))

    assert (found.section, found.rows[0].name) == ("API calls", name)


def test_a_table_goes_on_after_a_code_fence():
    rows = UNTYPED.splitlines()
    split = "\n".join([*rows[:-1], "```", "", rows[-1].strip().replace("  ", "\t")])

    assert [len(table.rows) for table in profiles(split)] == [2, 2]


def test_wrapped_names_are_put_together_again():
    wrapped = UNTYPED.replace(
        "some_kernel<float>(float*, int)", "some_kernel<\nfloat>(float*,\nint)"
    )
    broken = UNTYPED.replace("some_kernel", "some_\nkernel")

    assert profiles(wrapped) == NVPROF
    assert profiles(broken) == NVPROF


def test_rows_whose_halves_a_document_has_shuffled_are_paired_by_their_figures():
    text = (
        "==1== Profiling result:\nTime(%)\n   Time\n      Calls\n  Avg\n"
        "    Min\n  Max Name\n"
        "80.00% 16.000ms 20 800.00us 1.1200us 15.000ms [CUDA memcpy HtoD]\n"
        "80.00% 16.000ms\n"
        "          1 4.0000ms 4.0000ms 4.0000ms void some_kernel<float>(float*, int)\n"
        " 20.00% 4.0000ms\n"
    )

    assert profiles(text) == NVPROF[:1]


@pytest.mark.parametrize("cut", [30, 45, 60, 75])
def test_a_row_cut_between_its_columns_is_not_made_up(cut):
    row = "                   20.00%  4.0000ms         1  4.0000ms  4.0000ms  4.0000ms  some_kernel<float>(float*, int)"  # noqa: E501
    text = TYPED.replace("void some_kernel", "some_kernel")
    halves = f"{row[:cut].rstrip()}\n{row[cut:].lstrip()}"

    first, second = profiles(text.replace(row, halves))

    assert [r.name for r in first.rows] in (
        [COPY.name],
        [COPY.name, "some_kernel<float>(float*, int)"],
    )
    assert second == NVPROF[1]


NEXT = " 20.00%  4.0000ms  1  4.0000ms  4.0000ms  4.0000ms  f(int)"


@pytest.mark.parametrize(
    ("name", "unreadable", "kept"),
    [
        ("sgemm<int, ", "9.0000ms  1  9.0000ms  9.0000ms  9.0000ms  g(int)", None),
        ("volta_sgemm<", "32x328.2%\t28.514ms\t1\t28.514ms\tg(int)", None),
        ("f(int", "Flags2.48520s 22 112.96ms g", None),
        ("void g", "9.0ms 1 9.0ms 9.0ms 9.0ms h<float,\nint>(float)", None),
        ("cudaFreeFlags2.48520s 22 112.96ms g", "", "cudaFreeFlags"),
    ],
)
def test_a_row_that_cannot_be_read_is_no_part_of_the_name_above(name, unreadable, kept):
    text = (
        "==1== Profiling result:\nTime(%) Time Calls Avg Min Max Name\n"
        f" 80.00%  16.000ms  20  800.00us  1.1200us  15.000ms  {name}\n"
        f"{unreadable}\n{NEXT}\n"
    )
    (table,) = profiles(text)

    assert [row.name for row in table.rows] == [kept or name.strip(), "f(int)"]
    assert [row.percent for row in table.rows] == [80.0, 20.0]


def test_a_row_of_nsys_that_cannot_be_read_is_no_part_of_the_name_above():
    text = NSYS_2020.replace("cudaMalloc\n", "f(int,\n 30,000 2 15000.0 10000 g\n")

    assert [row.name for row in profiles(text)[0].rows] == ["f(int,", "cudaMemcpy"]


def test_a_table_cut_short_keeps_its_whole_rows():
    text = TYPED[: TYPED.index("4.0000ms         1") + 12]

    assert profiles(text) == (ProfileTable("nvprof", "GPU activities", (COPY,)),)


def test_a_row_quoted_below_its_table_is_not_counted_again():
    prose = "The kernel below takes\nthe most time of all:\n"
    row = UNTYPED.splitlines()[2]

    assert profiles(f"{UNTYPED}\n{prose}{row}\n") == NVPROF


@pytest.mark.parametrize(
    "text",
    [
        " 80.00%  16.000ms  20  800.00us  1.1200us  15.000ms  [CUDA memcpy HtoD]\n",
        "GProf output:\n83.83  322.41  322.41  2  161.21  161.21  conv_cpu(int)\n",
        "Time (%)\tTime (ms)\tKernel Function\n36.50%\t49.299\tcudnn::sgemm\n",
        "==305== Profiling result:\nNo kernels were profiled.\n",
        '==PROF== Profiling "unroll_kernel" - 2: 0%....50%....100% - 73 passes\n',
        "Time(%)  Total Time  Calls  Average  Minimum  Maximum  Name\n",
        "==1== Profiling result:\nTime(%) Time Calls Avg Min Max Name\n"
        " 120.00%  16.000ms  20  800.00us  1.1200us  15.000ms  too much\n",
    ],
)
def test_what_is_no_profilers_table_is_none(text):
    assert find(text) == Findings()


@pytest.mark.parametrize("text", [NSYS_2020, NSYS_2021, NSYS_2024, NSYS_PROFILE])
def test_nsys_of_every_year_says_the_same(text):
    assert profiles(text) == NSYS


@pytest.mark.parametrize("gap", ["\n", "\n\n", "```\n\n```\n"])
def test_a_table_of_nsys_goes_on_over_a_blank_line(gap):
    lines = NSYS_2024.splitlines(keepends=True)
    split = "".join(gap + line if "cudaMemcpy" in line else line for line in lines)

    assert profiles(split) == NSYS


def test_nsys_names_the_systems_calls_as_their_own_section():
    text = NSYS_2020.replace("CUDA API", "Operating System Runtime API")

    assert profiles(text)[0].section == "OS runtime"


def test_a_table_without_title_is_known_by_its_columns():
    tables = "\n".join(
        line for line in NSYS_PROFILE.splitlines() if not line.startswith("[")
    )

    assert profiles(tables) == NSYS


@pytest.mark.parametrize(
    "name", ["[CUDA memcpy HtoD]", "[CUDA memset]", "[CUDA Unified Memory memcpy DtoH]"]
)
def test_a_cut_at_a_space_of_a_copys_name_leaves_the_name_whole(name):
    row = "   25.0       90000      2      45000.0     40000     50000  "
    cuts = [place for place, letter in enumerate(name) if letter == " "]
    head = NSYS_2020[NSYS_2020.index("Time(%)") :].partition("75.0")[0]

    for cut in cuts:
        halves = f"{name[:cut]}\n{name[cut + 1 :]}\n"
        (table,) = profiles(f"{head}{row}{halves}")
        assert table.rows[0].name == name


def test_the_shapes_of_grid_and_block_are_no_part_of_a_kernels_name():
    text = (
        "Running [/opt/nsys/reports/gpukernsum.py report1.sqlite]... \n\n"
        " Time (%)  Total Time (ns)  Instances  Avg (ns)  Med (ns)  Min (ns)  Max (ns)"
        "  StdDev (ns)     GridXYZ         BlockXYZ       Name\n"
        " --------  ---------------  ---------\n"
        "    100.0             3360          2    1680.0    1680.0      1664      1696"
        "         22.6    34    1    1    32   32    1  conv(float *, int)\n"
    )

    (table,) = profiles(text)
    assert (table.section, table.rows[0].name) == ("GPU kernels", "conv(float *, int)")


def test_other_units_of_time_are_read_from_the_header():
    text = NSYS_2024.replace("(ns)", "(us)")

    assert profiles(text)[1].rows[0].total_s == 0.00336


def test_a_table_in_one_unit_holds_it_below_its_header():
    text = """\
==305== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
                        %        ms                  us        us        us
 GPU activities:    80.00  16.00000        20  800.0000  1.120000  15000.00  [CUDA memcpy HtoD]
                    20.00  4.000000         1  4000.000  4000.000  4.00e+03  void some_kernel<float>(float*, int)
      API calls:    75.00  3000.000        22  136360.0  13.00600   1562810  cudaStreamCreateWithFlags
                    25.00  1000.000         2  500000.0  8.53e-01  999000.0  cudaFree
"""  # noqa: E501 as above

    assert profiles(text) == NVPROF
    assert profiles(text + TYPED) == NVPROF * 2
    assert profiles(text.replace("ms  ", "MB  ")) == ()


def test_a_line_between_two_profiles_is_no_part_of_the_firsts_last_name():
    assert profiles(f"{TYPED}Done.\n{TYPED.partition(chr(10))[2]}") == NVPROF * 2
    second = TYPED[TYPED.index("==305== Profiling result") :]
    assert profiles(f"{TYPED}Done.\n{second}") == NVPROF * 2

"""Nsight Compute's launches, in the layouts of its versions, also wrapped."""

import pytest

from runner.core import Findings, ProfileRow, ProfileTable
from tests.runner.sourceless import find

NOW = """\
==PROF== Connected to process 411 (/build/m3)
Loading model... done
==PROF== Profiling "conv_forward" - 0: 0%....50%....100% - 8 passes
==PROF== Profiling "void unroll" - 1: 0%....50%....100% - 8 passes
==PROF== Profiling "conv_forward" - 2: 0%....50%....100% - 8 passes
==PROF== Disconnected from process 411
[411] m3@127.0.0.1
  conv_forward(float *, const float *, int) (100, 12, 1)x(16, 16, 1), Context 1, Stream 7, Device 0, CC 9.0
    Section: GPU Speed Of Light Throughput
    ----------------------- ----------- ------------
    Metric Name             Metric Unit Metric Value
    ----------------------- ----------- ------------
    DRAM Frequency                  Ghz         2.62
    Elapsed Cycles                cycle      412,311
    Duration                         us       250.50
    SM Active Cycles              cycle   401,120.11
    ----------------------- ----------- ------------

    OPT   Little is used of the device, so its latency shows.

    Section: Launch Statistics
    -------------------------------- --------------- ---------------
    Metric Name                          Metric Unit    Metric Value
    -------------------------------- --------------- ---------------
    Grid Size                                                  1,200
    -------------------------------- --------------- ---------------

  void unroll<float, 3>(T1 *, const T1 *, unsigned int) (64, 1, 1)x(1024, 1, 1), Context 1, Stream 13, Device 0, CC 9.0
    Section: GPU Speed Of Light Throughput
    ----------------------- ----------- ------------
    Metric Name             Metric Unit Metric Value
    ----------------------- ----------- ------------
    Duration                         ms         1.50
    ----------------------- ----------- ------------

  conv_forward(float *, const float *, int) (100, 24, 1)x(16, 16, 1), Context 1, Stream 7, Device 0, CC 9.0
    Section: GPU Speed Of Light Throughput
    ----------------------- ----------- ------------
    Metric Name             Metric Unit Metric Value
    ----------------------- ----------- ------------
    Duration                         us       249.50
    ----------------------- ----------- ------------
"""  # noqa: E501 the tool prints lines as long as this
LONG_UNITS = (
    NOW.replace("us       250.50", "usecond  250.50")
    .replace("us       249.50", "usecond  249.50")
    .replace("ms         1.50", "msecond    1.50")
)
BASE_UNITS = (
    NOW.replace("us       250.50", "nsecond 250,500")
    .replace("us       249.50", "ns      249,500")
    .replace("ms         1.50", "ns    1,500,000")
)
BY_METRIC = NOW.replace("Duration     ", "gpu__time_duration.sum ")
COMMAS = NOW.replace("250.50", "250,50").replace("249.50", "249,50")
DATED = (
    NOW.replace(" (100, 12, 1)x(16, 16, 1),", ", 2020-Oct-28 10:36:31,")
    .replace(" (100, 24, 1)x(16, 16, 1),", ", 2020-Oct-28 10:36:32,")
    .replace(" (64, 1, 1)x(1024, 1, 1),", ", 2020-Oct-28 10:36:31,")
    .replace(", Device 0, CC 9.0", "")
)
UNROLL = ProfileRow(
    "void unroll<float, 3>(T1 *, const T1 *, unsigned int)",
    *(75.0, 0.0015, 1, 0.0015, 0.0015, 0.0015),
)
FORWARD = ProfileRow(
    "conv_forward(float *, const float *, int)",
    *(25.0, 0.0005, 2, 0.00025, 0.0002495, 0.0002505),
)
TABLE = ProfileTable("ncu", "GPU kernels", (UNROLL, FORWARD))
BLOCK = """\
  {name} (1, 1, 1)x(32, 1, 1), Context 1, Stream 7, Device 0, CC 8.6
    Section: GPU Speed Of Light Throughput
    ----------------------- ----------- ------------
    Duration                         us       {us:.2f}
    ----------------------- ----------- ------------

"""


def rounded(found: Findings) -> tuple[ProfileTable, ...]:
    """Sums of floats, to a tenth of a nanosecond."""
    return tuple(
        ProfileTable(
            table.tool,
            table.section,
            tuple(
                ProfileRow(
                    row.name,
                    row.percent,
                    round(row.total_s, 10),
                    row.calls,
                    *(round(t or 0.0, 10) for t in (row.avg_s, row.min_s, row.max_s)),
                )
                for row in table.rows
            ),
        )
        for table in found.profiles
    )


@pytest.mark.parametrize(
    "text",
    [NOW, LONG_UNITS, BASE_UNITS, BY_METRIC, COMMAS, DATED],
    ids=["now", "long units", "base units", "by metric", "commas", "dated"],
)
def test_every_versions_launches_are_put_together_by_kernel(text):
    assert rounded(find(text)) == (TABLE,)


def test_a_name_that_a_terminal_has_wrapped_is_whole_again():
    name = "void ns::gemm<float, ns::Tile<128, 64>, 3>(ns::Params<float>, const int *)"
    wrapped = BLOCK.format(
        name=name.replace("<128, ", "<128,\n").replace(">, const", ">,\nconst"), us=1.0
    )

    (table,) = find(f"[7] a.out@127.0.0.1\n{wrapped}").profiles

    assert [row.name for row in table.rows] == [name]


def test_each_process_has_a_table_of_its_own():
    a, b = (BLOCK.format(name=name, us=2.0) for name in ("first", "second"))

    found = find(f"[7] a.out@127.0.0.1\n{a}[8] a.out@127.0.0.1\n{b}{b}")

    assert [(t.rows[0].name, t.rows[0].calls) for t in found.profiles] == [
        ("first", 1),
        ("second", 2),
    ]


def test_a_heading_above_a_pasted_launch_is_no_part_of_its_name():
    pasted = BLOCK.format(name="reduce(const float *, float *)", us=3.0)

    (table,) = find(f"**How fast it is**\n{pasted}").profiles

    assert table.rows[0].name == "reduce(const float *, float *)"


def test_a_flood_of_kernels_keeps_the_longest_and_their_share_of_all():
    flood = "".join(BLOCK.format(name=f"k{n}", us=1.0) for n in range(600))
    long = BLOCK.format(name="long", us=600.0)

    (table,) = find(f"{flood}{long}").profiles

    assert (len(table.rows), table.rows[0].name) == (500, "long")
    assert table.rows[0].percent == 50.0


def test_nvprofs_table_below_stands_behind_ncus():
    row = " 100.00%  1.0000ms  1  1.0000ms  1.0000ms  1.0000ms  f(int)\n"
    nvprof = f"==9== Profiling result:\nTime(%) Time Calls Avg Min Max Name\n{row}"

    assert [t.tool for t in find(NOW + nvprof + NOW).profiles] == [
        *("ncu", "nvprof", "ncu")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Duration   us   250.50\n",
        "f(int) (1, 1, 1)x(1, 1, 1), Context 1, Stream 7, Device 0, CC 9.0\n",
        BLOCK.format(name="f(int)", us=1.0).replace("us ", "ghz"),
        BLOCK.format(name="f(int)", us=1.0).replace("1.00", "(!) n/a"),
        BLOCK.format(name="f(int)", us=1.0).replace("1.00", "1.2.3.4"),
        "==WARNING== No kernels were profiled.\n==ERROR== ERR_NVGPUCTRPERM\n",
    ],
)
def test_what_is_no_measured_launch_is_none(text):
    assert find(text) == Findings()


def test_a_launch_far_from_its_figure_in_a_long_log_is_found():
    dull = "    some metric                   %        12.34\n" * 4000
    text = BLOCK.format(name="f(int)", us=1.0).replace("    Dur", f"{dull}    Dur")

    assert find(dull + text + dull).profiles[0].rows[0].calls == 1

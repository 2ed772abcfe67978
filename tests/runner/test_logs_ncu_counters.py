"""Nsight Compute's counters, printed as tables and as comma-separated values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import json

from runner.core import Findings, KernelCounters, Source
from runner.core.figures import combined, fitting
from runner.findings import Scanner, attributed
from tests.runner.sourceless import find

TITLE = "  {name} (100, 12, 1)x(16, 16, 1), Context 1, Stream 7, Device 0, CC 9.0\n"
NOW = (
    "==PROF== Connected to process 411 (/build/m3)\n[411] m3@127.0.0.1\n"
    + TITLE.format(name="conv_naive(float *, const float *, int)")
    + """\
    Section: GPU Speed Of Light Throughput
    ----------------------- ----------- ------------
    Metric Name             Metric Unit Metric Value
    ----------------------- ----------- ------------
    DRAM Frequency                  Ghz         2.62
    Elapsed Cycles                cycle      412,311
    Memory Throughput                 %        60.25
    DRAM Throughput                   %         8.50
    Duration                         us       250.00
    Compute (SM) Throughput           %        75.50
    ----------------------- ----------- ------------

    OPT   Compute is used more than memory.

    Section: Memory Workload Analysis
    --------------------------- ------------ ------------
    Metric Name                  Metric Unit Metric Value
    --------------------------- ------------ ------------
    Memory Throughput           Gbyte/second     1,234.50
    L1/TEX Hit Rate                        %        91.00
    L2 Hit Rate                            %        55.75
    --------------------------- ------------ ------------

    Section: Launch Statistics
    -------------------------------- --------------- ---------------
    Metric Name                          Metric Unit    Metric Value
    -------------------------------- --------------- ---------------
    Registers Per Thread             register/thread              40
    Threads                                   thread         307,200
    -------------------------------- --------------- ---------------

    Section: Occupancy
    ------------------------------- ----------- ------------
    Metric Name                     Metric Unit Metric Value
    ------------------------------- ----------- ------------
    Theoretical Occupancy                     %          100
    Achieved Occupancy                        %        88.50
    ------------------------------- ----------- ------------

"""
)
NAIVE = KernelCounters(
    "conv_naive(float *, const float *, int)",
    1,
    (100, 12, 1),
    (16, 16, 1),
    average_s=0.00025,
    sm_percent=75.5,
    memory_percent=60.25,
    dram_percent=8.5,
    l1_hit_percent=91.0,
    l2_hit_percent=55.75,
    occupancy_percent=88.5,
    theoretical_occupancy_percent=100.0,
    registers=40,
    dram_bytes_per_s=1.2345e12,
)
CSV = """\
"ID","Process ID","Process Name","Kernel Name","Context","Stream","Block Size","Grid Size","Section Name","Metric Name","Metric Unit","Metric Value"
"0","411","m3","conv(int)","1","7","(16, 16, 1)","(100, 12, 1)","Speed","Duration","us","250.00"
"0","411","m3","conv(int)","1","7","(16, 16, 1)","(100, 12, 1)","Speed","DRAM Throughput","%","8.50"
"1","411","m3","conv(int)","1","7","(16, 16, 1)","(100, 12, 1)","Speed","DRAM Throughput","%","9.50"
"2","411","m3","conv(int)","1","7","(16, 16, 1)","(7, 1, 1)","Speed","L2 Hit Rate","%","50"
"""  # noqa: E501 the tool prints lines as long as this
RAW = """\
"ID","Kernel Name","Block Size","Grid Size","dram__bytes_read.sum","dram__bytes_write.sum","gpu__time_duration.sum","launch__registers_per_thread","lts__t_sector_hit_rate.pct","sm__throughput.avg.pct_of_peak_sustained_elapsed"
"","","","","Mbyte","Kbyte","us","register/thread","%","%"
"0","conv(int)","(16, 16, 1)","(100, 12, 1)","1.5","500","250.0","40","55.75","75.5"
"1","conv(int)","(16, 16, 1)","(100, 12, 1)","2.5","1,500","350.0","40","45.75","74.5"
"""  # noqa: E501 as above


def counters(text):
    return find(text).counters


def test_the_counters_of_a_launch_are_kept_and_the_rest_is_not():
    assert counters(NOW) == (NAIVE,)


def test_counters_of_several_launches_are_averaged():
    other = NOW.partition("127.0.0.1\n")[2].replace("75.50", "25.50")
    (found,) = counters(NOW + other.replace("250.00", "350.00"))

    assert found.launches == 2
    assert found.sm_percent == pytest.approx(50.5)
    assert found.average_s == pytest.approx(0.0003)
    assert found.registers == 40


def test_another_grid_is_another_entry():
    found = counters(NOW + NOW.replace("(100, 12, 1)", "(7, 1, 1)"))

    assert [one.grid for one in found] == [(100, 12, 1), (7, 1, 1)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Compute (SM) Throughput", "SM [%]"),
        ("Compute (SM) Throughput", "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
        ("75.50", "75,50"),
        ("Gbyte/second", "Gbyte/s"),
        ("Gbyte/second     1,234.50", "Tbyte/second       1.2345"),
        ("Gbyte/second     1,234.50", "byte/second 1,234,500,000,000"),
    ],
)
def test_versions_and_locales_differ_in_names_units_and_numbers(before, after):
    assert counters(NOW.replace(before, after)) == (NAIVE,)


def test_a_title_without_a_shape_gives_counters_without_one():
    (found,) = counters(NOW.replace(" (100, 12, 1)x(16, 16, 1),", ","))

    assert (found.kernel, found.grid, found.block) == (NAIVE.kernel, None, None)


def test_a_launch_without_counters_is_a_row_of_a_table_only():
    text = TITLE.format(name="f(int)") + "    Duration   us   250.00\n"

    assert counters(text) == ()
    assert len(find(text).profiles) == 1


def test_a_long_report_of_a_launch_is_read_to_its_end():
    between = "    Elapsed Cycles   cycle   412,311\n" * 250
    assert counters(NOW.replace("    Section: Occ", between + "    Section: Occ")) == (
        NAIVE,
    )


def test_what_a_program_prints_long_after_is_not_a_counter():
    (found,) = counters(NOW + "a line\n" * 400 + "    L1/TEX Hit Rate   %   5.0\n")

    assert found == NAIVE


def test_rows_of_a_metric_each_are_read():
    assert counters(CSV) == (
        KernelCounters(
            *("conv(int)", 2, (100, 12, 1), (16, 16, 1)),
            average_s=0.00025,
            dram_percent=9.0,
        ),
        KernelCounters("conv(int)", 1, (7, 1, 1), (16, 16, 1), l2_hit_percent=50.0),
    )


def test_rows_of_a_launch_each_are_read():
    assert counters(RAW) == (
        KernelCounters(
            *("conv(int)", 2, (100, 12, 1), (16, 16, 1)),
            average_s=pytest.approx(0.0003),
            sm_percent=75.0,
            l2_hit_percent=50.75,
            registers=40,
            dram_read_bytes=2e6,
            dram_written_bytes=1e6,
        ),
    )


def test_counters_say_which_command_they_are_of():
    scanner = Scanner()
    scanner.feed(NOW.encode())
    (found,) = attributed(
        scanner.findings(), 3, "m3", "ncu python m3.1.py 100"
    ).counters

    assert found.source == Source(3, "m3", "", 100, ("ncu",))


def test_a_flood_of_kernels_is_bounded_and_counted():
    metric = "    L2 Hit Rate   %   5.0\n"
    many = "".join(TITLE.format(name=f"f{n}(int)") + metric for n in range(1000))
    found = find(many)

    assert len(found.counters) == 100
    assert found.left_out == 900


def test_counters_that_do_not_fit_a_record_are_counted():
    found = Findings(counters=(NAIVE, NAIVE))
    size = len(json.encode(NAIVE)) + 10

    assert fitting(found, size) == Findings(counters=(NAIVE,), left_out=1)
    assert combined([found, found]).counters == (NAIVE,) * 4


@given(st.lists(st.sampled_from([*NOW.splitlines(), *CSV.splitlines(), "x"])))
def test_torn_output_is_read_without_an_error(lines):
    for one in counters("\n".join(lines)):
        assert one.launches > 0

"""Nsight Compute's launches and counters, as comma-separated values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import json

from runner.core import Findings, KernelCounters, Source
from runner.core.figures import combined, fitting
from runner.figures.scanner import Scanner
from runner.figures.sources import attributed
from tests.kit.sourceless import find

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


ONE = RAW.rpartition('"1","conv')[0]
NAIVE = KernelCounters(
    *("conv(int)", 1, (100, 12, 1), (16, 16, 1)),
    average_s=0.00025,
    sm_percent=75.5,
    l2_hit_percent=55.75,
    registers=40,
    dram_read_bytes=1.5e6,
    dram_written_bytes=500e3,
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "SM [%]"),
        ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "Compute (SM) Throughput"),
        ("75.5", "75,5"),
        ('"us"', '"usecond"'),
    ],
)
def test_versions_and_locales_differ_in_names_units_and_numbers(before, after):
    text = ONE.replace(before, after)
    assert counters(
        text.replace('"500"', '"500,000"' if "byte" in after else '"500"')
    ) == (NAIVE,)


def test_of_two_names_of_one_counter_the_first_column_counts():
    first = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
    other = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
    for names in ((first, other), (other, first)):
        rows = (
            f'"ID","Kernel Name","Block Size","Grid Size","{names[0]}","{names[1]}"',
            '"","","","","%","%"',
            '"0","conv(int)","(16, 16, 1)","(100, 12, 1)","10","20"',
        )
        (found,) = counters("\n".join(rows) + "\n")
        assert found.dram_percent == 10


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


@pytest.mark.parametrize("text", [RAW, RAW.replace('"us"', '"usecond"')])
def test_launches_are_put_together_by_kernel_with_their_times(text):
    other = text.splitlines()[-1].replace("conv(int)", "g").replace("350", "1,200")
    (table,) = find(f"Op Time\n{text}{other}\nDone.\n").profiles

    conv, longest = table.rows[::-1]
    assert (table.tool, table.section) == ("ncu", "GPU kernels")
    assert (conv.name, conv.calls) == ("conv(int)", 2)
    assert (conv.min_s, conv.max_s) == (0.00025, 0.00035)
    assert (longest.name, longest.percent) == ("g", 66.67)


@pytest.mark.parametrize(
    "text",
    [
        CSV.replace("Duration", "Cycles"),
        CSV.replace("250.00", "n/a"),
        RAW.replace('"us"', '"cycle"'),
        RAW.replace('"","","","",', '"","f","","",'),
    ],
)
def test_without_durations_there_is_no_table_of_times(text):
    assert find(text).profiles == ()


def test_a_duration_that_two_sections_print_counts_once():
    row = CSV.splitlines()[1]
    again = row.replace('"Duration"', '"gpu__time_duration.sum"')
    (table,) = find(CSV.replace(row, f"{row}\n{again}")).profiles

    assert [(one.name, one.calls) for one in table.rows] == [("conv(int)", 1)]


def test_a_long_table_is_read_in_flat_memory_to_its_end():
    head, units, launch, _ = RAW.splitlines()
    rows = "\n".join(launch.replace("conv", f"k{n}") for n in range(3000))

    (table,) = find("\n".join((head, units, rows))).profiles

    assert len(table.rows) == 500
    assert table.rows[0].percent == 0.03


def test_counters_say_which_command_they_are_of():
    scanner = Scanner()
    scanner.feed(ONE.encode())
    (found,) = attributed(
        scanner.findings(), 3, "m3", "ncu python m3.1.py 100"
    ).counters

    assert found.source == Source(3, "m3", "", 100, ("ncu",))


def test_a_flood_of_kernels_is_bounded_and_counted():
    row = ONE.splitlines()[-1]
    found = find(ONE + "\n".join(row.replace("conv", f"f{n}") for n in range(999)))

    assert len(found.counters) == 100
    assert found.left_out == 900


def test_counters_that_do_not_fit_a_record_are_counted():
    found = Findings(counters=(NAIVE, NAIVE))
    size = len(json.encode(NAIVE)) + 10

    assert fitting(found, size) == Findings(counters=(NAIVE,), left_out=1)
    assert combined([found, found]).counters == (NAIVE,) * 4


@given(st.lists(st.sampled_from([*RAW.splitlines(), *CSV.splitlines(), "x"])))
def test_torn_output_is_read_without_an_error(lines):
    for one in counters("\n".join(lines)):
        assert one.launches > 0

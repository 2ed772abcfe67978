"""The figures of a report: what is in it, and where it is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from runner.core import Outcome
from runner.core.evidence import Totals, Trace
from runner.core.milestone import ReportedKind
from runner.report import document
from tests.kit.documents import command, evidence, inference, run, table

GPU, API = "GPU activities", "API calls"


def report(*commands, **facts):
    return document.report([evidence(run(*commands), **facts)])


def profiled(*tables, number: int = 0):
    before = "nvprof -f -o m3.1.nvprof --print-summary"
    return command(number, "m3.1.py", before=before, profiles=tables)


def test_the_rows_end_where_their_sum_passes_ninety_percent():
    (found,) = report(profiled(table(GPU, 50.0, 40.0, 6.0, 4.0))).shares

    assert [row.percent for row in found.rows] == [50.0, 40.0, 6.0]
    assert found.rows[-1].reached_percent == pytest.approx(96.0)
    assert found.rest_rows == 1
    assert (found.rest.percent, found.rest.name) == (4.0, "row3")


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=30))
def test_without_its_last_row_a_table_does_not_pass_ninety_percent(values):
    percents = [round(100 * value / sum(values), 2) for value in values]

    (found,) = report(profiled(table(GPU, *percents))).shares

    shown = sum(row.percent for row in found.rows)
    before = shown - found.rows[-1].percent
    assert round(before, 2) <= 90.0
    assert round(shown, 2) > 90.0 or found.rest is None
    assert len(found.rows) + found.rest_rows == len(percents)


def test_rows_have_their_calls_average_least_and_most():
    (found,) = report(profiled(table(GPU, 100.0))).shares

    (row,) = found.rows
    assert (row.calls, row.avg_s, row.min_s, row.max_s) == (2, 0.5, 0.001, 0.002)


def test_kernels_and_api_calls_are_told_apart():
    found = report(profiled(table(GPU, 100.0), table(API, 99.0, 1.0))).shares

    assert [one.kind for one in found] == [
        ReportedKind.KERNELS,
        ReportedKind.API_CALLS,
    ]


def test_a_profile_that_can_be_read_goes_before_what_was_printed():
    totals = (
        Totals(GPU, "long", 3, 0.95, 0.1, 0.5),
        Totals(GPU, "short", 1, 0.05, 0.05, 0.05),
    )
    trace = Trace("m3.1.nvprof", "nvprof", totals=totals, spans=4)

    found = report(profiled(table(GPU, 60.0, 40.0), table(API, 100.0)), traces=(trace,))

    of_file, printed = found.shares
    assert of_file.file == "m3.1.nvprof"
    assert of_file.number == 1
    assert [row.name for row in of_file.rows] == ["long"]
    assert of_file.rows[0].percent == pytest.approx(95.0)
    assert (printed.kind, printed.file) == (ReportedKind.API_CALLS, "")


def test_a_file_is_not_of_a_command_that_names_another_which_ends_like_it():
    commands = [
        command(n, f"m3.1.py --trace {name}", before="nvprof")
        for n, name in enumerate(("other-m3.json", "m3.json.gz", "out/m3.json"))
    ]
    totals = (Totals(GPU, "k", 1, 1.0, 1.0, 1.0),)
    trace = Trace("out/m3.json", "trace events", totals=totals, spans=1)

    (found,) = report(*commands, traces=(trace,)).shares

    assert found.number == 3


def test_the_rows_of_a_file_are_cut_by_its_times_and_not_by_rounded_percents():
    totals = tuple(
        Totals(GPU, f"k{n}", 1, seconds, seconds, seconds)
        for n, seconds in enumerate((0.90001, 0.05, 0.04999))
    )
    trace = Trace("m3.1.nvprof", "nvprof", totals=totals, spans=3)

    (found,) = report(profiled(), traces=(trace,)).shares

    assert [row.name for row in found.rows] == ["k0"]


def test_the_rounds_of_a_command_become_a_median_with_its_spread():
    first = command(0, "final.py", inference(times=(1.0, 2.0)), wall_s=5.0)
    again = [
        command(n, "final.py", inference(times=times), wall_s=w, repeats=0, round=n)
        for n, times, w in ((1, (1.5, 2.0), 7.0), (2, (2.0, 3.0), 6.0))
    ]

    found = report(first, *again)

    (figures,) = found.networks
    assert figures.rounds == 3
    total = figures.op_time_s
    assert (total.median, total.smallest, total.largest) == (3.5, 3.0, 5.0)
    assert [layer.median for layer in figures.op_times_s] == [1.5, 2.0]
    (times,) = found.times
    assert times.wall_s.median == 6.0


def test_a_round_that_failed_does_not_count():
    failed = {"outcome": Outcome.FAILED, "exit_code": 1, "repeats": 0, "round": 1}
    rounds = [
        command(0, "final.py", inference(times=(1.0,))),
        command(1, "final.py", inference(times=(9.0,)), **failed),
    ]

    (figures,) = report(*rounds).networks

    assert figures.rounds == 1
    assert figures.op_time_s.largest == 1.0


def test_times_are_what_rai_measured_and_what_time_printed():
    (found,) = report(command(0, "m1.1.py")).times

    assert found.script == "m1.1.py"
    assert found.wall_s.median == 2.0
    assert (found.elapsed_s, found.user_s, found.system_s) == (1.75, 1.5, 0.25)
    assert found.max_rss_bytes == 1 << 20


def test_of_a_command_that_times_its_parts_the_whole_is_what_rai_measured():
    one = command(0, "both.sh")
    usage = one.findings.time_usage[0]
    twice = replace(one.findings, time_usage=(usage, usage))

    (found,) = report(replace(one, findings=twice)).times

    assert (found.elapsed_s, found.user_s, found.system_s) == (None, None, None)
    assert found.wall_s.median == 2.0
    assert found.max_rss_bytes == 1 << 20

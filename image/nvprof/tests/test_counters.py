"""Counters are ncu's, where it is there and allowed."""

from __future__ import annotations

import pytest
from nvprof import counters
from nvprof.options import parse

USER = "Name:\tpython\nCapEff:\t0000000000000000\n"
ROOT = "Name:\tpython\nCapEff:\t000001ffffffffff\n"
DOCKER = "CapEff:\t00000000a80425fb\n"


@pytest.mark.parametrize(
    ("params", "status", "may"),
    [
        ("RmProfilingAdminOnly: 1\n", USER, False),
        ("RmProfilingAdminOnly: 1\n", DOCKER, False),
        ("RmProfilingAdminOnly: 1\n", ROOT, True),
        ("RmProfilingAdminOnly: 1\n", "", False),
        ("RmProfilingAdminOnly: 0\n", USER, True),
        ("", USER, True),
    ],
)
def test_the_driver_may_want_an_administrator(params, status, may):
    assert counters.allowed(params, status) is may


def test_why_there_are_none_is_one_sentence():
    assert counters.unavailable("/usr/bin/ncu", may=True) is None
    assert "not found" in counters.unavailable(None, may=True)
    assert "ERR_NVGPUCTRPERM" in counters.unavailable("/usr/bin/ncu", may=False)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "--analysis-metrics --kernels ::forward:2 -o f.nvprof -f app 100",
            "--kernel-name regex:forward --launch-skip 1 --launch-count 1 --set full"
            " --export f.nvprof --force-overwrite app 100",
        ),
        (
            "-m ipc,sm__cycles_elapsed.avg --csv app",
            "--metrics sm__inst_executed.avg.per_cycle_active,sm__cycles_elapsed.avg"
            " --csv app",
        ),
        (
            "--devices 0 --events branch,divergent_branch app",
            "--devices 0 --metrics smsp__sass_branch_targets.sum,"
            "smsp__sass_branch_targets_threads_divergent.sum app",
        ),
        (
            "-m all --profile-from-start off --kernels a --kernels b::c app",
            "--kernel-name-base demangled --kernel-name regex:a|b::c"
            " --profile-from-start off --set full app",
        ),
        ("-m no_such_metric app", "--set full app"),
        ("-e warps_launched --kernels :::3 app", "--launch-skip 2 --launch-count 1"),
    ],
)
def test_ncus_command_line_says_the_same(line, words):
    command = counters.command("ncu", parse(line.split()))
    assert command[:3] == ("ncu", "--target-processes", "all")
    assert " ".join(command[3:]).startswith(words)


@pytest.mark.parametrize(
    ("filters", "parts"),
    [
        ("", []),
        ("--kernels ::forward:2", []),
        ("--kernels forward --kernels scale", []),
        ("--kernels 1::forward:", ["contexts and streams"]),
        ("--kernels :7:forward:1", ["contexts and streams"]),
        ("--kernels ::forward:[2-4]", ["invocations of --kernels"]),
        ("--kernels ::forward:0", ["invocations of --kernels"]),
        ("--kernels ::forward:1 --kernels scale", ["invocations of --kernels"]),
        (
            "--kernels 1::: --kernels scale",
            ["contexts and streams", "one filter has none"],
        ),
    ],
)
def test_parts_of_filters_that_ncu_is_not_given_are_told(filters, parts):
    told = counters.left_out(parse([*filters.split(), "app"]).kernels)
    assert len(told) == len(parts)
    assert all(part in text for part, text in zip(parts, told, strict=True))


def test_names_that_ncu_has_not_are_told():
    found = parse(["-mipc,tex_cache_hit_rate", "-ewarps_launched,gst_request", "app"])
    known, unknown = counters.measured(found)
    assert len(known) == 2
    assert unknown == ("tex_cache_hit_rate", "gst_request")

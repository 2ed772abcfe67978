"""A run's record to samples: one value a round, by metric."""

from __future__ import annotations

import math

import pytest

from runner.core import (
    CommandRecord,
    Findings,
    Inference,
    Outcome,
    ProfileRow,
    ProfileTable,
    RunRecord,
    TimeUsage,
)
from runner.figures.statistics import MOST_KERNELS, MetricName, parsed, samples
from tests.kit import records

NOTHING = Findings()


def command(index: int, found: Findings = NOTHING, **facts) -> CommandRecord:
    return records.command(index, "run", findings=found, **{"wall_s": 1.0} | facts)


def run(*commands: CommandRecord) -> RunRecord:
    return RunRecord("r", "p", "rai_build.yml", 0.0, commands=commands)


def printed(*op_times_s: float, correctness: float | None = None) -> Findings:
    return Findings((Inference(op_times_s, correctness),))


def test_each_round_of_a_command_gives_one_value_under_the_commands_name():
    rounds = [printed(0.5, 0.5, correctness=0.85), printed(0.25, 0.5, correctness=0.8)]
    found = samples(
        run(
            command(0, rounds[0], name="final"),
            command(1, rounds[1], name="final", repeats=0, round=1),
        )
    )
    assert found == {
        "op_time[final]": (1.0, 0.75),
        "correctness[final]": (0.85, 0.8),
        "command[final].wall": (1.0, 1.0),
    }


def test_a_last_round_that_failed_has_no_value_and_is_a_round():
    again = {"name": "final", "repeats": 0}
    found = samples(
        run(
            command(0, name="final"),
            command(1, round=1, **again),
            command(2, round=2, outcome=Outcome.FAILED, exit_code=1, **again),
        )
    )
    *values, last = found["command[final].wall"]
    assert values == [1.0, 1.0]
    assert math.isnan(last)


def test_the_first_round_can_be_left_out():
    found = samples(
        run(
            command(0, wall_s=9),
            command(1, wall_s=3),
            command(2, wall_s=4, repeats=1, round=1),
        ),
        first=False,
    )
    assert found == {"command[1].wall": (9,), "command[2].wall": (4,)}


def test_a_round_that_failed_keeps_its_place_without_a_value():
    found = samples(
        run(
            command(0, wall_s=1),
            command(1, repeats=0, round=1, outcome=Outcome.FAILED),
            command(2, wall_s=3, repeats=0, round=2),
        )
    )
    one, gap, other = found["command[1].wall"]
    assert (one, other) == (1, 3)
    assert math.isnan(gap)


def test_times_of_a_wrong_answer_count_and_its_correctness_is_the_least():
    both = Findings((Inference((1.0,), 0.9), Inference((1.0,), 0.4)))
    found = samples(run(command(0, both, outcome=Outcome.WRONG)))
    assert (found["op_time[1]"], found["correctness[1]"]) == ((2.0,), (0.4,))


@pytest.mark.parametrize("name", ["2", "a]b", "a\nb", " a", ""])
def test_a_name_that_would_mislead_gives_way_to_the_number(name):
    assert list(samples(run(command(0, name=name)))) == ["command[1].wall"]


def test_a_name_of_two_commands_is_no_key():
    found = samples(run(command(0, name="x"), command(1, name="x")))
    assert list(found) == ["command[1].wall", "command[2].wall"]


def test_kernels_are_summed_over_tables_and_the_smallest_are_left_out():
    rows = tuple(ProfileRow(f"k{n}", 1.0, float(n), 1) for n in range(2 * MOST_KERNELS))
    calls = ProfileTable("nvprof", "API calls", (ProfileRow("cudaFree", 99, 9, 1),))
    gpu = ProfileTable("nvprof", "GPU activities", rows)
    found = samples(run(command(0, Findings(profiles=(calls, gpu, gpu)))))
    kernels = [metric for metric in found if metric.startswith("kernel")]
    assert len(kernels) == MOST_KERNELS
    last = 2 * MOST_KERNELS - 1
    assert found[f"kernel[1].k{last}"] == (2.0 * last,)


def test_memory_is_that_of_gnu_time_and_of_the_whole_run():
    used = Findings(time_usage=(TimeUsage(1, 1, 2, max_rss_kb=4),))
    record = RunRecord(
        "r", "p", "f", 0.0, commands=(command(0, used),), peak_memory_bytes=7
    )
    found = samples(record)
    assert (found["peak_memory[1]"], found["peak_memory"]) == ((4096.0,), (7.0,))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("op_time", MetricName("op_time")),
        ("command[2].cpu", MetricName("command", "2", "cpu")),
        ("kernel[1].f<1>[2]", MetricName("kernel", "1", "f<1>[2]")),
        ("kernel.f(int)", MetricName("kernel", "", "f(int)")),
    ],
)
def test_a_metrics_name_has_a_kind_a_key_and_a_part(text, name):
    assert parsed(text) == name


@pytest.mark.parametrize(
    "text", ["", "time", "op_time.x", "command.io", "op_time[]", "op_time[1]x"]
)
def test_other_names_are_refused(text):
    with pytest.raises(ValueError, match="no"):
        parsed(text)


def test_a_name_without_a_key_or_part_covers_all_that_have_it():
    assert parsed("command.wall").covers(parsed("command[1].wall"))
    assert parsed("kernel").covers(parsed("kernel[1].f"))
    assert not parsed("command.wall").covers(parsed("command[1].cpu"))
    assert not parsed("op_time[2]").covers(parsed("op_time[1]"))


def test_figures_that_no_program_measures_are_none():
    absurd = [printed(-1e308, -1e308), printed(1e308, 1e308), printed(float("inf"))]
    rounds = [
        command(n, found, repeats=0, round=n) for n, found in enumerate(absurd, 1)
    ]
    first = command(0, Findings(time_usage=(TimeUsage(1.0, 1.0, 1.0, 10**400),)))
    slow = command(4, repeats=0, round=4, wall_s=1e308)

    found = samples(run(first, *rounds, slow))

    ((metric, (*values, last)),) = found.items()
    assert (metric, values) == ("command[1].wall", [1, 1, 1, 1])
    assert math.isnan(last)

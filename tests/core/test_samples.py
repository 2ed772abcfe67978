"""What the rounds of a run measured, summed up in records, reports and lines."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from runner.core import CommandRecord, Findings, Inference, Outcome, RunRecord, record
from runner.core.build_spec import Check
from runner.core.record import Spread, samples, spread
from runner.report import blocks as report_blocks
from runner.report import ending
from runner.report import runs as run_tables
from tests.kit import records


def timed(*op_times_s: float) -> Findings:
    return Findings(inferences=(Inference(op_times_s, 0.85),))


def command(index: int, wall_s: float, *op_times_s: float, **named) -> CommandRecord:
    found = timed(*op_times_s) if op_times_s else Findings()
    values = {"text": "./final", "wall_s": wall_s, "findings": found} | named
    return records.command(index, **values)


def measured(*commands: CommandRecord) -> RunRecord:
    return records.ended("0a1b", *commands)


FIRST = command(0, 1.0, text="make")
ROUNDS = measured(
    FIRST,
    command(1, 0.5, 0.25, 0.5, name="final"),
    command(2, 0.4, 0.25, 0.25, name="final", repeats=1, round=1),
    command(3, 0.3, 0.125, 0.125, name="final", repeats=1, round=2),
)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([], None),
        ([2.0], Spread(1, 2.0, 2.0, 2.0)),
        ([3.0, 1.0], Spread(2, 2.0, 1.0, 3.0)),
        ([5.0, 1.0, 2.0], Spread(3, 2.0, 1.0, 5.0)),
    ],
)
def test_a_spread_has_the_median_and_the_ends(values, found):
    assert spread(values) == found


def test_a_commands_samples_are_its_first_time_and_its_repeats():
    (found,) = samples(ROUNDS)
    assert (found.number, found.name) == (2, "final")
    assert found.op_time_s == Spread(3, 0.5, 0.25, 0.75)
    assert found.wall_s == Spread(3, 0.4, 0.3, 0.5)


def test_rounds_that_went_wrong_are_no_samples():
    failed = command(
        2, 9.0, 9.0, text="make", repeats=0, round=1, outcome=Outcome.FAILED
    )
    assert samples(measured(FIRST, command(1, 1.0, 1.0), failed)) == ()


def test_an_op_time_that_no_program_has_is_no_sample():
    again = command(1, 1e308, -1e308, -1e308, repeats=0, round=1)
    (found,) = samples(measured(command(0, 1e308, 1e308, 1e308), again))
    assert found.op_time_s is None
    assert found.wall_s.median == 1e308


def test_a_run_of_one_round_has_no_samples():
    once = measured(FIRST, command(1, 0.5, 0.25))
    assert samples(once) == ()
    parts = run_tables.of(once)
    titles = [one.title for one in parts if isinstance(one, report_blocks.Table)]
    assert "Samples" not in titles


def test_the_json_of_a_record_has_every_round_and_their_samples():
    found = record.plain(ROUNDS)
    assert [c["round"] for c in found["commands"]] == [0, 0, 1, 2]
    (one,) = found["samples"]
    assert one["number"] == 2
    assert one["op_time_s"] == {
        "n": 3,
        "median": 0.5,
        "smallest": 0.25,
        "largest": 0.75,
    }


def table(run: RunRecord, title: str) -> tuple[tuple[str, ...], ...]:
    blocks = [b for b in run_tables.of(run) if isinstance(b, report_blocks.Table)]
    (found,) = (block.rows for block in blocks if block.title == title)
    return found


def test_a_report_lists_a_command_once_and_sums_up_its_samples():
    assert [row[0] for row in table(ROUNDS, "Commands")] == ["1", "2"]
    assert len(table(ROUNDS, "Inferences")) == 1
    name = "final: ./final"
    assert table(ROUNDS, "Samples") == (
        ("2", name, "op time", "3", "500.0 ms", "250.0 ms", "750.0 ms"),
        ("2", name, "wall", "3", "0.400 s", "0.300 s", "0.500 s"),
    )


def test_a_report_names_the_round_that_went_wrong_and_what_it_printed():
    check = Check("correctness 0.85", "correctness 0.1", False)
    again = {"repeats": 1, "round": 3, "outcome": Outcome.WRONG, "checks": (check,)}
    run = measured(*ROUNDS.commands, command(4, 0.3, 0.1, **again))
    assert table(run, "Commands")[-1][:3] == ("2", "./final", "wrong in round 4")
    (row,) = table(run, "Expected output")
    assert row[:3] == ("2", "correctness 0.85", "correctness 0.1")


def test_the_lines_at_the_end_have_a_command_once_and_the_median_of_its_rounds():
    found, lines = ending.summary(ROUNDS)
    assert [row[:2] for row in found.rows] == [("1", "ok"), ("2", "ok")]
    assert lines == [
        "Command 2 (final), median of 3 rounds: op time 500.0 ms (250.0 to"
        " 750.0 ms), wall 0.400 s (0.300 to 0.500 s)."
    ]


def test_rounds_of_minutes_keep_the_units_of_both_ends():
    walls = (123.0, 243.0, 303.0)
    rounds = [command(0, walls[0])]
    for n, wall_s in enumerate(walls[1:], 1):
        rounds.append(command(n, wall_s, repeats=0, round=n))
    _, (line,) = ending.summary(measured(*rounds))
    assert "wall 4 min 3 s (2 min 3 s to 5 min 3 s)" in line


def test_a_figure_that_not_all_rounds_printed_says_in_how_many():
    first, silent = command(0, 0.5, 0.25), command(1, 0.5, repeats=0, round=1)
    _, (line,) = ending.summary(measured(first, silent))
    assert "op time 250.0 ms (250.0 to 250.0 ms; printed in 1 only)" in line


def test_of_many_repeats_that_went_wrong_the_first_are_listed():
    wrong = [
        command(2 + n, 0.1, repeats=1, round=1 + n, outcome=Outcome.FAILED)
        for n in range(9)
    ]
    found, lines = ending.summary(measured(FIRST, command(1, 0.5), *wrong))
    ends = [row[1] for row in found.rows]
    assert ends == ["ok", "ok", *(f"failed in round {n}" for n in (2, 3, 4))]
    assert lines == ["6 more repeats went wrong."]


def test_a_report_says_how_many_rounds_there_were_of_those_asked_for():
    def head(run: RunRecord) -> dict[str, str]:
        return dict(run_tables.of(run)[0].rows)

    assert head(replace(ROUNDS, repeat=9))["rounds"] == "3 of 9"
    assert head(replace(ROUNDS, beside="0b2c"))["rounds"] == "3"
    assert head(replace(ROUNDS, beside="0b2c"))["measured beside"] == "0b2c"
    assert "rounds" not in head(measured(FIRST))

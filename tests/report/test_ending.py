"""What is said of a command after a run, on a terminal and by a CI system."""

from __future__ import annotations

from runner.core import Findings, Inference, Outcome
from runner.report import ending, reported
from tests.kit import records

FOUND = Findings(mistake="new-forward.cuh:12: no x")
FAILED = {"outcome": Outcome.FAILED, "exit_code": 2, "findings": FOUND}


def test_a_command_that_failed_is_listed_with_the_first_error_of_its_compiler():
    record = records.ended(
        "0a1b",
        records.command(0, "make", **FAILED),
        records.command(1, "make -k", findings=FOUND),
    )

    table, _ = ending.summary(record)

    assert table is not None
    assert [row[-1] for row in table.rows] == [
        *("exit status 2, new-forward.cuh:12: no x", ""),
    ]
    (failed,) = reported.of_record(record, {})
    assert failed.text == "make\nnew-forward.cuh:12: no x"


def test_a_wrong_answer_and_figures_are_listed_however_many_commands_ended_well():
    wrong = "forward() is wrong: output 1 is 0"
    fine = [records.command(number, "true") for number in range(12)]
    fine[10] = records.command(10, "./m3", findings=Findings(mistake=wrong))
    fine[11] = records.command(11, "./m4", findings=Findings((Inference((0.5,)),)))
    record = records.ended("0a1b", *fine)

    table, lines = ending.summary(record)

    assert table is not None
    assert [row[-1] for row in table.rows if row[-1]] == [wrong, "op time 500.0 ms"]
    assert lines == ["3 more ended well."]
    (told,) = reported.of_record(record, {})
    assert (told.title, told.text) == ("Command 11: wrong answer", f"./m3\n{wrong}")

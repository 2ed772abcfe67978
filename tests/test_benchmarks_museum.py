"""The page of old projects, and the rows that it is made of."""

from __future__ import annotations

import json

from runner.core import Findings, Inference, Outcome
from tests.kit import records
from tools.benchmarks import museum

WRONG = "forward() is wrong: map 0, row 0, column 0 of image 0 of 9 is 0 instead of 1"


def ran(place, edition="2019sp", times=(0.002, 0.003), right=0.87, mistake=""):
    """The row of a project that makes its operator and runs two scripts."""
    found = Findings((Inference(times, right, "ece408"),), mistake=mistake)
    slow = Findings((Inference((40.0, 50.0), right, "ece408"),))
    record = records.ended(
        "0a1b",
        records.command(0, "nice -n20 make -C /mxnet"),
        records.command(1, "python m2.1.py", findings=slow),
        records.command(2, "/usr/bin/time python m4.1.py 10000", findings=found),
    )
    return museum.row(edition, place, record)


def test_a_row_has_what_was_printed_and_the_time_of_all_images_on_the_gpu():
    row = ran("aa")

    assert row["compiled"]
    assert row["accuracies"] == {"ece408 10000": 0.87}
    assert row["op_ms"] == 5.0
    assert not row["told"]
    assert ran("aa", mistake=WRONG)["told"] == ["forward() is wrong"]
    assert ran("aa", mistake="new-forward.cuh:3: no x")["told"] == ["compiler"]


def test_a_make_that_failed_compiled_nothing():
    failed = {"outcome": Outcome.FAILED, "exit_code": 2}
    record = records.ended("0a1b", records.command(0, "make -C /mxnet", **failed))

    row = museum.row("2019sp", "aa", record)

    assert not row["compiled"]
    assert row["failed"] == 1


def test_right_are_those_that_print_what_most_of_their_edition_do():
    every = [ran(place) for place in "abc"]
    every += [ran("d", right=0.1), ran("e", mistake=WRONG), ran("f", "2018sp")]

    right = museum.right(every)

    assert [place for place in right if right[place]] == ["a", "b", "c", "f"]


def test_the_page_counts_by_edition_and_names_no_project():
    rows = [ran("d"), ran("secret"), ran("b", times=(0.01, 0.02))]
    rows.append(ran("d", mistake=WRONG))  # with another image
    kernel = {"what": "judged", "edition": "2019fa", "variant": "best", "ms": 1.178}

    page = museum.page(rows, [kernel])

    assert "| 2019sp | 3 | 3 | 3 | 2 | 0 | 1 | 5 ms | 17.5 ms |" in page
    assert "`best` 1.18 ms" in page
    assert "secret" not in page


def test_the_page_is_that_of_the_rows():
    measured = map(json.loads, museum.MEASURED.read_text().splitlines())

    assert museum.PAGE.read_text() == museum.page(museum.kept(), measured)

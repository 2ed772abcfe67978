"""A memory checker's summary becomes a count of errors; what resembles one does not."""

import pytest

from runner.core import Findings, record
from runner.core.figures import combined
from runner.figures.scanner import find
from runner.report import blocks, findings


@pytest.mark.parametrize(
    ("line", "errors"),
    [
        ("========= ERROR SUMMARY: 7 errors", 7),
        ("========= ERROR SUMMARY: 1 error", 1),
        ("========= ERROR SUMMARY: 0 errors", 0),
        ("==305== ERROR SUMMARY: 7 errors from 3 contexts (suppressed: 0 from 0)", 7),
        ("==305== ERROR SUMMARY: 1 errors from 1 contexts (suppressed: 2 from 1)", 1),
    ],
)
def test_each_checkers_summary_is_read(line, errors):
    assert find(line) == Findings(memory_errors=(errors,))
    assert find(f"before\n{line}\nafter\n") == Findings(memory_errors=(errors,))


@pytest.mark.parametrize(
    "line",
    [
        "========= ERROR SUMMARY: 12 errors were not printed. Use --print-limit",
        "ERROR SUMMARY: 7 errors",
        "========= ERROR SUMMARY: -7 errors",
        'echo "========= ERROR SUMMARY: 7 errors"',
    ],
)
def test_what_only_resembles_a_summary_is_none(line):
    assert find(line) == Findings()


def test_a_summary_among_a_long_report_is_found():
    dull = "=========     at 0x130 in conv(float*, int)\n" * 5_000
    found = find(f"{dull}========= ERROR SUMMARY: 5000 errors\n{dull}")

    assert found.memory_errors == (5000,)
    assert combined([found, found]).memory_errors == (5000, 5000)


def test_the_errors_are_shown_and_stand_in_json():
    found = find("========= ERROR SUMMARY: 7 errors\n")

    assert findings.figures(found) == [
        blocks.Table("Memory checks", ("errors",), (("7",),), frozenset({0}))
    ]
    assert list(record.plain(found)["memory_errors"]) == [7]

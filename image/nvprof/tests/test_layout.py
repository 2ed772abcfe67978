"""Tables are laid out as nvprof's own were, byte for byte."""

from __future__ import annotations

import csv
import re

import pytest
from nvprof import layout, names, units
from nvprof.stream import Section
from nvprof.summary import Row, Total, at_level, rows

from image.nvprof.tests.printed import nanoseconds
from tests.kit import needs, outside

OURS = needs.ROOT / "tests" / "data" / "transcripts" / "profile.txt"
FOLDER = outside.path("transcripts")
real = pytest.mark.data

ROW = re.compile(
    r"(?P<label> GPU activities:|      API calls:| {16}) "
    r"(?P<share>[ \d.]{7})%(?P<total>.{10})(?P<calls>.{10})"
    r"(?P<average>.{10})(?P<least>.{10})(?P<most>.{10})  (?P<name>\S.*)"
)


def parsed(lines):
    """Read a printed table: its head, then its sections with their rows."""
    tables = []
    for line in lines:
        found = ROW.fullmatch(line)
        if found is None:
            continue
        label = found["label"].strip().rstrip(":")
        if label:
            tables.append((label, []))
        times = [
            nanoseconds(found[each].strip())
            for each in ("total", "average", "least", "most")
        ]
        row = Row(
            float(found["share"]),
            times[0],
            int(found["calls"]),
            *times[1:],
            found["name"],
        )
        tables[-1][1].append(row)
    return tables


def whole_tables(text):
    """Return each real table's lines up to where the transcript is cut or wrapped."""
    found, current = [], None
    for line in text.splitlines():
        if line == layout.HEAD:
            current = [line]
            found.append(current)
        elif current is not None:
            if ROW.fullmatch(line):
                current.append(line)
            elif re.match(r"\d\.\d\d%  ", line) or line.startswith(":"):
                continue  # a line that lost its beginning, or the rest of one
            else:
                current = None
    return found


@pytest.mark.smoke
def test_a_table_is_printed_again_as_it_was():
    (lines,) = whole_tables(OURS.read_text())
    assert len(lines) == 11
    assert list(layout.text(parsed(lines))) == lines


@real
@pytest.mark.parametrize(("name", "count"), [("02", 54), ("03", 49), ("07", 48)])
def test_a_real_table_is_printed_again_as_it_was(name, count):
    text = (FOLDER / f"{name}.txt").read_text()
    tables = whole_tables(text)
    assert sum(len(lines) - 1 for lines in tables) >= count
    for lines in tables:
        assert list(layout.text(parsed(lines))) == lines


@real
@pytest.mark.parametrize("name", ["02", "03", "07"])
def test_averages_are_cut_as_in_real_tables(name):
    """Where calls were few and short, the total's digits give the average exactly."""
    text = (FOLDER / f"{name}.txt").read_text()
    checked = 0
    for lines in whole_tables(text):
        for label, found in parsed(lines):
            section = Section.CALLS if label == "API calls" else Section.GPU
            for row in found:
                if row.total < 10_000 and row.calls > 1:
                    total = Total(section, row.name, 0, row.calls, row.total, 0, 0)
                    (again,) = rows([total], section)
                    assert units.time(again.average) == units.time(row.average)
                    checked += 1
    assert checked > 3


TOTALS = [
    Total(Section.GPU, "k", 0, 1, 30_000_000, 30_000_000, 30_000_000),
    Total(Section.GPU, "k", 1, 1, 10_000_000, 10_000_000, 10_000_000),
    Total(Section.GPU, "[CUDA memset]", 0, 10, 12_159, 992, 1_920),
    Total(Section.CALLS, "cudaFree", 0, 18, 1_618_900_000, 853, 433_890_000),
    Total(Section.CALLS, "cuInit", 0, 2, 3, 1, 2),
]


def tables(totals=TOTALS):
    return [
        ("GPU activities", rows(totals, Section.GPU)),
        ("API calls", rows(totals, Section.CALLS)),
    ]


def test_rows_are_added_over_gpus_and_sorted_by_their_time():
    first, second = rows(TOTALS, Section.GPU)
    assert first == Row(
        first.percent, 40_000_000, 2, 20_000_000, 10_000_000, 30_000_000, "k"
    )
    assert second.average == 1_215, "cut, not rounded"
    assert first.percent + second.percent == pytest.approx(100)


def test_one_unit_for_all_stands_in_a_line_of_its_own():
    assert list(layout.text(tables(), "ms")) == [
        layout.HEAD,
        "                        %        ms                  ms        ms        ms",
        " GPU activities:    99.97  40.00000         2  20.00000  10.00000  30.00000"
        "  k",
        "                     0.03  0.012159        10  0.001215  9.92e-04  0.001920"
        "  [CUDA memset]",
        "      API calls:   100.00  1618.900        18  89.93889  8.53e-04  433.8900"
        "  cudaFree",
        "                     0.00  3.00e-06         2  1.00e-06  1.00e-06  2.00e-06"
        "  cuInit",
    ]


def test_values_between_commas_carry_their_units_in_the_second_row():
    head, unit, *lines = csv.reader(layout.csv(tables()))
    assert head == ["Type", "Time(%)", "Time", "Calls", "Avg", "Min", "Max", "Name"]
    assert unit == ["", "%", "ms", "", "ms", "ms", "ms", ""]
    assert lines[0][2:] == [
        "40.000000",
        "2",
        "20.000000",
        "10.000000",
        "30.000000",
        "k",
    ]
    assert lines[3][0] == "API calls"
    assert lines[3][2:4] == ["0.000003", "2"]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_named_unit_is_kept_between_commas(unit):
    assert next(iter(list(layout.csv(tables(), unit))[1:])) == (
        f",%,{unit},,{unit},{unit},{unit},"
    )


@pytest.mark.parametrize(
    ("level", "names"),
    [
        ("all", {"cudaFree", "cuInit"}),
        ("runtime", {"cudaFree"}),
        ("driver", {"cuInit"}),
    ],
)
def test_calls_of_one_level_are_chosen_by_their_names(level, names):
    kept = at_level(TOTALS, level)
    assert {each.name for each in kept if each.section == Section.CALLS} == names
    assert sum(each.section == Section.GPU for each in kept) == 3


@real
@pytest.mark.parametrize("name", ["02", "03", "07"])
def test_real_names_are_spelled_as_they_are(name):
    text = (FOLDER / f"{name}.txt").read_text()
    found = [
        row.name
        for lines in whole_tables(text)
        for _, section in parsed(lines)
        for row in section
    ]
    assert [names.nvprof(each) for each in found] == found
    assert any("int=" in each for each in found)


def test_a_number_wider_than_its_column_stays_apart_from_its_neighbour():
    most = 99_999_999_999
    row = Row(100.0, 123_456_789_012, 3, 41_152_263_004, 1, most, "k")
    *_, line = layout.text([("GPU activities", [row])], "ns")
    numbers = [float(cell) for cell in line.split()[2:-1]]
    assert numbers == [100, 123_456_789_012, 3, 41_152_263_004, 1, most]

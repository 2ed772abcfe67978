"""Digits and units are nvprof's, and read back as what was written."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nvprof import units

from image.nvprof.tests.printed import nanoseconds


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0ns"),
        (992, "992ns"),
        (1_000, "1.0000us"),
        (1_120, "1.1200us"),
        (830_110, "830.11us"),
        (8_457_700, "8.4577ms"),
        (38_992_000, "38.992ms"),
        (3_094_390_000, "3.09439s"),
        (364_799_000_000, "364.799s"),
        (1_228_550_000_000, "1228.55s"),
        (9_999_996, "10.000ms"),
        (999_999, "1.0000ms"),
        (999_999_999, "1.00000s"),
    ],
)
def test_a_time_fills_eight_columns_in_the_unit_that_suits_it(ns, text):
    assert units.time(ns) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0B"),
        (1_023, "1023B"),
        (2_048, "2.0000KB"),
        (65_536, "64.000KB"),
        (262_144, "256.00KB"),
        (16 << 20, "16.000MB"),
        (102_400_000, "97.656MB"),
        (1_581_300_000, "1.4727GB"),
        ((1 << 20) - 1, "1.0000MB"),
    ],
)
def test_bytes_are_powers_of_1024(count, text):
    assert units.size(count) == text


def test_a_rate_is_what_nvprof_made_of_a_real_copy():
    assert units.size(units.rate(16 << 20, 10_610_000)) == "1.4727GB"
    assert units.size(units.rate(64 << 10, 7_200)) == "8.4771GB"
    assert units.rate(5, 0) == 0


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (916.6507, "916.6507"),
        (69.02481, "69.02481"),
        (0.199866, "0.199866"),
        (0, "0.000000"),
        (0.0000012, "1.20e-06"),
        (1830.4213, "1830.421"),
        (99_999_999.6, "100000000"),
    ],
)
def test_a_number_without_a_unit_keeps_its_digits(value, text):
    assert units.bare(value) == text


@given(st.integers(0, 10**13))
def test_what_a_time_is_printed_as_reads_back_within_its_last_digit(ns):
    text = units.time(ns)
    number, unit = re.fullmatch(r"([\d.]+)(ns|us|ms|s)", text).groups()
    decimals = len(number.partition(".")[2])
    assert abs(nanoseconds(text) - ns) <= units.TIMES[unit] / 10**decimals / 2 + 1
    assert len(text) == 8 if unit != "ns" and ns < 10**15 else len(text) <= 5


@given(st.lists(st.integers(0, 10**13), min_size=1))
def test_a_columns_unit_keeps_every_nanosecond_in_six_decimals(values):
    unit = units.TIMES[units.common(values, units.TIMES)]
    for value in values:
        assert round(float(f"{value / unit:.6f}") * unit) == value

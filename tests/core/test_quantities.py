"""Numbers, switches, times and sizes as people write them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core import quantities


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("10m", 600),
        ("10 min", 600),
        ("1h30m", 5400),
        ("1.5 hours", 5400),
        ("2d", 172800),
        ("500ms", 0.5),
        (".5s", 0.5),
        ("10:00", 600),
        ("1:02:03", 3723),
        ("1H", 3600),
        ("0", 0),
        *(("", None), ("soon", None), ("-1s", None), ("1x", None), ("1h30", None)),
        *(("10:99", None), ("1e400", None), ("nan", None), ("inf", None)),
        *(("9" * 30, None), ("١٠s", None)),
    ],
)
def test_a_time_is_read_in_seconds(text, seconds):
    assert seconds == quantities.duration_s(text)


@pytest.mark.parametrize(
    "text", ["1" * 40 + "!", "1" * 95 + "!", "1" * 400 + ":00", "1" * 5000 + ":00"]
)
def test_many_digits_are_refused_at_once(text):
    assert quantities.duration_s(text) is quantities.size_bytes(text) is None


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4096),
        ("1k", 1024),
        ("512 MiB", 512 << 20),
        ("8GB", 8 << 30),
        ("1.5GiB", 3 << 29),
        ("2T", 2 << 40),
        ("64b", 64),
        *(("", None), ("big", None), ("-1", None), ("8X", None), ("8 G B", None)),
        *(("9" * 30, None), ("1e9", None)),
    ],
)
def test_a_size_is_read_in_bytes_and_its_units_are_binary(text, size):
    assert size == quantities.size_bytes(text)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("2", 2), ("-1", -1), ("1_000", 1000), ("2.0", 2), ("+3", 3)),
        *(("", None), ("two", None), ("1.5", None), ("0x10", None), ("1e3", None)),
        *(("9" * 30, None), ("²", None)),
    ],
)
def test_a_whole_number_is_read(text, number):
    assert number == quantities.whole(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("true", True), ("Yes", True), ("on", True)),
        *(("FALSE", False), ("no", False), ("off", False)),
        *(("1", None), ("", None), ("maybe", None)),
    ],
)
def test_a_switch_is_read_as_yaml_1_1_spells_it(text, value):
    assert value is quantities.boolean(text)


@given(st.text(max_size=20))
def test_any_text_is_a_finite_quantity_or_none(text):
    for read in (quantities.duration_s, quantities.size_bytes, quantities.whole):
        value = read(text)
        assert value is None or math.isfinite(value)

"""Names of files have nvprof's signs."""

from __future__ import annotations

import pytest
from nvprof import places


@pytest.mark.parametrize(
    ("name", "pid", "place"),
    [
        ("t.nvprof", 5, "t.nvprof"),
        ("t.%p.nvprof", 5, "t.5.nvprof"),
        ("t.%p.nvprof", None, "t.%p.nvprof"),
        ("%h-%q{RANK}", 5, "node-3"),
        ("%q{NONE}x", 5, "x"),
        ("100%%", 5, "100%"),
        ("%%p", 5, "%p"),
        ("%x", 5, "%x"),
    ],
)
def test_signs_are_replaced(name, pid, place):
    assert places.expanded(name, {"RANK": "3"}, "node", pid) == place


@pytest.mark.parametrize(
    ("name", "own"), [("a%p", True), ("a", False), ("a%%p", False), ("%q{%p}", False)]
)
def test_a_name_of_each_process_has_its_number(name, own):
    assert places.of_each_process(name) is own


def test_a_taken_name_gets_the_process_appended():
    assert places.unused("t", set(), 5) == "t"
    assert places.unused("t", {"t"}, 5) == "t.5"
    assert places.unused("t", {"t", "t.5"}, 5) == "t.5.2"

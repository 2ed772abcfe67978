"""What the judge writes is what rai reads, however an entry ends."""

from __future__ import annotations

import json

import pytest

from runner.core.measurement import MeasuredEntry, read
from tests.exploits.standin import compiled, convolution, job, measure

pytestmark = [pytest.mark.programs, pytest.mark.lengthy, pytest.mark.cpp]

HEAD = """
#include <cmath>
extern "C" __global__ void cheat(float *y, const float *, const float *, int n) {
"""


def outcome(body: str) -> MeasuredEntry:
    layer = convolution("conv1", "cheat", numbers=[4 * 4 * 16 * 16])
    found = measure(job([layer]), [compiled(HEAD + body + "}")])
    (entry,) = read(json.dumps(found).encode()).entries
    assert not entry.accepted
    assert not entry.correct
    return entry


def test_a_result_of_infinities_is_written_and_read():
    entry = outcome("for (int i = 0; i < n; i++) y[i] = INFINITY;")
    assert entry.wrong
    assert entry.wrong.found == "inf"
    assert entry.why[0].startswith("wrong result in call 0")


def test_a_result_that_is_no_number_is_written_and_read():
    entry = outcome("(void)n;")
    assert entry.wrong
    assert entry.wrong.found == "nan"


def test_a_fault_is_written_and_read():
    entry = outcome("if (n) __trap();")
    assert entry.fault
    assert entry.why == (f"the kernels failed: {entry.fault}",)

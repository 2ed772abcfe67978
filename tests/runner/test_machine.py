"""This machine."""

from __future__ import annotations

from runner import machine


def test_the_machine_is_described():
    found = machine.describe()

    assert found.cores >= 1
    assert found.memory_bytes > 0
    assert found.host
    assert found.python.startswith("3.")

"""The slowdown that `python -m tools.benchmarks.planted` makes."""

from tools.benchmarks import planted, rows


def test_the_kernel_of_the_project_can_be_slowed_down():
    before = (rows.ROOT / planted.FILE).read_text()
    after = planted.planted(before)
    assert after.count("{") == after.count("}") == before.count("{") + 1
    assert "b % 20 == 0" in after
    assert after.index(planted.USED) < after.index(planted.STORE)

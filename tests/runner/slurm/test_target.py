"""What `--on` and the setting `server` may name of Slurm."""

from __future__ import annotations

import pytest

from runner.slurm.target import SlurmTarget, parse


@pytest.mark.parametrize(
    ("text", "partition"),
    [
        ("slurm", ""),
        (" slurm ", ""),
        ("Slurm:gpu", "gpu"),
        ("slurm:gpu", "gpu"),
        ("slurm:a.b-c_2", "a.b-c_2"),
    ],
)
def test_a_partition_is_named_after_a_colon(text: str, partition: str):
    assert parse(text) == SlurmTarget(partition)
    assert parse(str(SlurmTarget(partition))) == SlurmTarget(partition)


@pytest.mark.parametrize(
    "text",
    [
        *("", "slurmy", "slurm:", "slurm:-x", "slurm:a b", "slurm:a,b"),
        *("slurm:a\nb", "slurm:" + 101 * "a", "slurm://host", "https://slurm", "here"),
    ],
)
def test_anything_else_is_no_place_of_slurm(text: str):
    assert parse(text) is None

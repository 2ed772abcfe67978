"""What users may say of Slurm: a partition, and words for sbatch."""

from __future__ import annotations

import pytest

from runner.slurm.target import SlurmTarget, parse, words


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


def test_words_for_sbatch_are_written_as_for_a_shell():
    text = "--reservation=ece408 --comment='two words' --constraint='a100|h100'"
    found = ("--reservation=ece408", "--comment=two words", "--constraint=a100|h100")
    assert words(text) == found


@pytest.mark.parametrize(
    "text",
    [
        *("", "gpu", "--nice", "--nice=", "-n1", "--nice=1 x", "--nice 1", "--"),
        *("--array=1-3", "--acc=x", "--wrap=id", "--requeue", "--mem=0", "--gpus=1"),
        *("--output=/x", "--export=ALL", "--partition=x", "--comment='x", "--comment"),
        *("--comment='a\nb'", "--comment=" + 5000 * "x"),
    ],
)
def test_other_words_for_sbatch_are_refused(text: str):
    assert words(text) is None

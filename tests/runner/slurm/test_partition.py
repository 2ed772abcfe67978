"""What sinfo says of a partition, read."""

from __future__ import annotations

import pytest

from runner.slurm.partition import Partition, gpus, listing, parse

WIDTHS = (100, 20, 400)


def line(name: str = "main*", time: str = "infinite", gres: str = "(null)") -> str:
    """Return a line as sinfo of Slurm 22.05 prints it."""
    fields = zip((name, time, gres), WIDTHS, strict=True)
    return "".join(text[:width].ljust(width) for text, width in fields)


@pytest.mark.parametrize(
    ("time", "time_s"),
    [
        ("infinite", None),
        ("1:00", 60.0),
        ("1:00:00", 3600.0),
        ("2-01:00:00", 49 * 3600.0),
    ],
)
def test_the_longest_time_of_a_job_is_told(time, time_s):
    assert parse(line(time=time)) == Partition(time_s, 0)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("gpu:4", 4),
        ("gpu:(null):1(IDX:0)", 1),
        ("gpu:h100:4(S:0,2),gpu:1g.10gb:7(S:1)", 11),
        ("mps:100,gpu:a100_3g.20gb:2(IDX:0,1),shard:8", 2),
        ("gpu:tesla:no_consume:4", 4),
        ("gpu:h100:4(IDX:0-", 4),
        ("(null)", 0),
        ("gpu:x:" + "9" * 50, 0),
    ],
)
def test_gpus_of_all_models_and_slices_are_counted(text, count):
    assert gpus(text) == count


def test_without_a_name_the_default_partition_is_meant_or_all():
    two = [line("main*", "1:00", "gpu:1"), line("main*", "1:00"), line("gpu")]
    assert parse("\n".join(two)) == Partition(60.0, 1)
    assert parse("\n".join(two), "gpu,main") == Partition(None, 1)
    assert parse("\n".join(one.replace("*", " ") for one in two)) == Partition(None, 1)


@pytest.mark.parametrize("text", ["", "sinfo: error: no\n\0\n", line(time="n/a")])
def test_what_is_no_partition_is_none(text):
    assert parse(text) is None


def test_sinfo_is_asked_for_fields_of_the_widths_that_are_read():
    *words, fields = listing("gpu")
    assert words == ["sinfo", "--noheader", "--partition=gpu"]
    widths = [int(field.partition(":")[2]) for field in fields.split(",")]
    assert tuple(widths) == WIDTHS

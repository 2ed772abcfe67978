"""What squeue and sinfo print, read as jobs and partitions."""

from __future__ import annotations

import math
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.execution import slurm_jobs
from runner.execution.slurm_jobs import JobStage, SlurmJob
from runner.execution.slurm_programs import environment

RECORDED = Path(__file__).parents[2] / "data" / "squeue" / "22.05.8.txt"
"""What squeue of Slurm 22.05.8 printed: waiting, held, running and ended jobs."""

WIDTHS = (24, 16, 20, 64, 128, 48)
"""Of a job's fields, in the order of the format."""

# Every state that Slurm 20.11 to 26.05 write.
WAITING = (
    *("PENDING", "REQUEUED", "REQUEUED_CRON", "REQUEUE_FED", "REQUEUE_HOLD"),
    *("RESV_DEL_HOLD", "SPECIAL_EXIT"),
)
GOING = (
    *("COMPLETING", "CONFIGURING", "EXPEDITING", "LAUNCH_FAILED", "POWER_UP_NODE"),
    *("RECONFIG_FAIL", "RESIZING", "RUNNING", "SIGNALING", "STAGE_OUT", "STOPPED"),
    "SUSPENDED",
)
OVER = (
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
    *("OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
)


def printed(
    number: str = "7",
    state: str = "RUNNING",
    start: str = "N/A",
    node: str = "n1",
    reason: str = "None",
    name: bytes = b"rai-0123abcd",
) -> bytes:
    """Return a job as squeue prints it: each field cut and filled to its width."""
    texts = (number, state, start, node, reason)
    fields = (*(text.encode() for text in texts), name)
    cut = (
        field[:width].ljust(width) + b"|"
        for field, width in zip(fields, WIDTHS, strict=True)
    )
    return b"".join(cut) + b"\n"


def by_number(output: bytes) -> dict[str, SlurmJob]:
    return {job.number: job for job in slurm_jobs.parse(output)}


def test_all_jobs_of_a_real_squeue_are_read():
    found = by_number(RECORDED.read_bytes())

    assert len(found) == 23
    assert found["24"] == SlurmJob(
        number="24",
        name="rai-8f3a0c11",
        state="RUNNING",
        start_at=datetime(2026, 11, 23, 13, 16, 10, tzinfo=UTC).timestamp(),
        node="n2",
    )
    assert (found["23"].state, found["23"].reason) == ("PENDING", "PartitionTimeLimit")
    assert (found["23"].node, found["23"].start_at) == ("", None)
    assert found["5"].reason == "job requeued in held state"
    assert found["6"].name == "a|b  c"
    assert found["4"].state == "TIMEOUT"


def test_a_name_with_a_whole_line_in_it_is_a_name():
    found = by_number(RECORDED.read_bytes())

    assert found["26"].name.startswith("rai-1\n42  ")
    assert "42" not in found


def test_a_name_that_is_cut_within_a_character_is_read():
    assert by_number(RECORDED.read_bytes())["22"].name == "x" + 23 * "é" + "\ufffd"


@given(st.binary(max_size=100))
def test_no_name_adds_or_hides_a_job(name):
    output = printed("1", name=name) + printed("2", name=b"rai-x")

    assert [job.number for job in slurm_jobs.parse(output)] == ["1", "2"]
    assert slurm_jobs.parse(output)[1].name == "rai-x"


@given(st.binary(max_size=900))
def test_what_no_squeue_printed_is_an_error(output):
    if output:
        with pytest.raises(ValueError, match="squeue"):
            slurm_jobs.parse(output)


@given(st.integers(0, 306), st.integers(0, 255))
def test_any_byte_may_be_wrong(place, byte):
    line = bytearray(printed())
    line[place] = byte

    try:
        found = slurm_jobs.parse(bytes(line))
    except ValueError as error:
        assert len(str(error)) < 400
    else:
        assert len(found) == 1


@pytest.mark.parametrize("cut", [1, 306, 308])
def test_an_output_that_is_not_complete_is_an_error(cut):
    with pytest.raises(ValueError, match="not complete"):
        slurm_jobs.parse((2 * printed())[:-cut])
    assert slurm_jobs.parse(b"") == ()


def test_more_jobs_than_are_read_are_an_error(monkeypatch):
    monkeypatch.setattr(slurm_jobs, "MOST_BYTES", 2 * len(printed()))

    assert len(slurm_jobs.parse(2 * printed())) == 2
    with pytest.raises(ValueError, match="more than"):
        slurm_jobs.parse(3 * printed())


@pytest.mark.parametrize("number", ["7", "16_2", "16_[1-300%5]", "9+1"])
def test_numbers_of_arrays_and_groups_are_read(number):
    assert slurm_jobs.parse(printed(number))[0].number == number


@pytest.mark.parametrize("start", ["N/A", "Unknown", "NONE", "2026-13-40T00:00:00"])
def test_a_start_that_is_not_known_is_none(start):
    assert slurm_jobs.parse(printed(start=start))[0].start_at is None


def test_what_slurm_leaves_open_is_empty():
    (job,) = slurm_jobs.parse(printed(node="n/a", reason="(null)"))

    assert (job.node, job.reason) == ("", "")


@pytest.mark.parametrize(
    ("stage", "states"),
    [
        (JobStage.WAITING, WAITING),
        (JobStage.GOING, (*GOING, "?", "A_NEWER_STATE", "")),
        (JobStage.OVER, OVER),
    ],
)
def test_how_far_a_job_has_come_follows_from_its_state(stage, states):
    assert {slurm_jobs.stage(state) for state in states} == {stage}


NEVER = (
    *("AccountNotAllowed", "AssocMaxCpuMinutesPerJobLimit", "AssocMaxGRESPerNode"),
    *("AssocMaxWallDurationPerJobLimit", "BadConstraints", "DependencyNeverSatisfied"),
    "Job's QOS not permitted to use this partition (gpu allows long not normal)",
    *("MaxMemPerLimit", "PartitionConfig", "PartitionTimeLimit", "QOSMaxGRESPerJob"),
    *("QOSMaxNodePerJobLimit", "QOSMaxWallDurationPerJobLimit"),
    *("QOSMinCpuNotSatisfied", "QOSMinGRES", "QOSNotAllowed"),
    *("Reservation course is invalid", "Reservation course was deleted"),
    "uid 1000 not in group permitted to use this partition (gpu). groups allowed: ta",
)
LATER = (
    *("", "AssocGrpCPUMinutesLimit", "AssocMaxJobsLimit", "BeginTime", "Constraints"),
    *("JobHeldAdmin", "JobHeldUser", "MaxGRESPerAccount", "PartitionDown"),
    *("PartitionNodeLimit", "Priority", "QOSGrpGRES", "QOSMaxGRESPerUser"),
    *("QOSMaxSubmitJobPerUserLimit", "ReqNodeNotAvail, UnavailableNodes:n1"),
    *("Reservation", "Resources", "SomeNewReasonPerJob"),
)


@pytest.mark.parametrize("reason", [*NEVER, *LATER])
def test_only_a_job_that_asks_for_what_it_never_gets_never_starts(reason):
    assert slurm_jobs.never_starts(reason) is (reason in NEVER)


@given(st.text(max_size=2000))
def test_words_of_any_reason_are_one_short_line_without_controls(reason):
    words = slurm_jobs.why_waits(reason)
    assert "\n" not in words
    assert "\x1b" not in words
    assert len(words) < 1500


def test_a_reason_is_slurms_own_and_bounded():
    assert slurm_jobs.why_waits("Resources") == "Slurm says Resources"
    assert slurm_jobs.why_waits("") == "Slurm has not considered it yet"
    words = slurm_jobs.why_waits("red \x1b[31m\n" + 5000 * "x")
    assert words.startswith("Slurm says red \\x1b[31m xxx")
    assert words.endswith("x...")


@pytest.mark.slurm
def test_the_squeue_of_this_machine_prints_what_is_read(slurm):
    name = f"a|b\n{'4242424242':24}|{'RUNNING':16}|"
    held = slurm.submit("exit", "--hold", f"--job-name={name}")
    later = slurm.submit("exit", "--begin=2030-01-02T03:04:05", "--job-name=rai-later")
    done = subprocess.run(
        ["squeue", *slurm_jobs.ARGUMENTS],
        capture_output=True,
        check=True,
        env=environment({**slurm.environment, "TZ": "Asia/Tokyo"}),
        timeout=30,
    )
    found = by_number(done.stdout)

    assert "4242424242" not in found
    assert found[f"{held}"].name == name[:48].rstrip()
    assert (found[f"{held}"].state, found[f"{held}"].reason) == (
        "PENDING",
        "JobHeldUser",
    )
    assert found[f"{later}"].name == "rai-later"


COLUMNS = (100, 20, 400)


def line(name: str = "main*", time: str = "infinite", gres: str = "(null)") -> str:
    """Return a line as sinfo of Slurm 22.05 prints it."""
    fields = zip((name, time, gres), COLUMNS, strict=True)
    return "".join(text[:width].ljust(width) for text, width in fields)


@pytest.mark.parametrize(
    ("time", "time_s"),
    [
        *(("infinite", math.inf), ("1:00", 60.0), ("1:00:00", 3600.0)),
        ("2-01:00:00", 49 * 3600.0),
    ],
)
def test_the_longest_time_of_a_job_is_told(time, time_s):
    assert slurm_jobs.partition(line(time=time)) == slurm_jobs.Partition(time_s, 0)


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
    assert slurm_jobs.gpus(text) == count


def test_without_a_name_the_default_partition_is_meant_or_all():
    two = [line("main*", "1:00", "gpu:1"), line("main*", "1:00"), line("gpu")]
    assert slurm_jobs.partition("\n".join(two)) == slurm_jobs.Partition(60.0, 1)
    assert slurm_jobs.partition("\n".join(two), "gpu,main") == slurm_jobs.Partition(
        math.inf, 1
    )
    unmarked = "\n".join(two).replace("*", " ")
    assert slurm_jobs.partition(unmarked) == slurm_jobs.Partition(math.inf, 1)


@pytest.mark.parametrize("text", ["", "sinfo: error: no\n\0\n", line(time="n/a")])
def test_what_is_no_partition_is_none(text):
    assert slurm_jobs.partition(text) is None


def test_sinfo_is_asked_for_fields_of_the_widths_that_are_read():
    *words, fields = slurm_jobs.partition_listing("gpu")
    assert words == ["sinfo", "--noheader", "--partition=gpu"]
    widths = [int(field.partition(":")[2]) for field in fields.split(",")]
    assert tuple(widths) == COLUMNS

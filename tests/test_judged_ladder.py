"""Where plan.json, the judge's job and the ladder's measurement meet."""

from __future__ import annotations

import msgspec
import plan
import pytest
from kernels import VARIANTS

from benchmarks import judge_ladder
from runner.core import judge_job
from runner.core.judge_job import JudgeJob
from runner.judge import compiling
from runner.judge.figures import Rules


def ladder(accuracy, architecture="sm_90"):
    names = [name for name, v in VARIANTS.items() if v.accuracy == accuracy]
    choice = plan.Choice(
        architectures=(architecture,), m3=(), m4=(), final=tuple(names)
    )
    return plan.made(choice)["milestones"]["final"]


@pytest.mark.parametrize("accuracy", judge_ladder.CLASSES)
def test_the_jobs_of_the_ladder_are_those_of_submissions(accuracy):
    entries = ladder(accuracy)

    job = judge_ladder.job(entries, "sm_90", {})

    decoded = msgspec.convert(job, JudgeJob)
    assert msgspec.json.decode(judge_job.to_json(decoded)) == job
    assert [e["variant"] for e in job["entries"]] == [e["variant"] for e in entries]
    assert job["class"] == accuracy
    for judged, entry in zip(job["entries"], entries, strict=True):
        (planned,) = entry["plans"]
        for ours, its in zip(
            judged["convolutions"], planned["convolutions"], strict=True
        ):
            assert {**ours, "unit": job["units"][ours["unit"]]} == its
    assert Rules.from_json(job["rules"]) == Rules()


def test_the_ladder_has_every_variant_of_the_registry():
    assert {v.accuracy for v in VARIANTS.values()} == {*judge_ladder.CLASSES}


def test_a_job_is_staged_as_a_run_of_a_submission_holds_it(tmp_path):
    place = tmp_path / "fp32"
    job = judge_ladder.job(ladder("fp32"), "sm_90", {})

    judge_ladder.stage(place, job)

    for unit in compiling.units_of(job):
        assert (place / "team" / unit.file).is_file()
    assert (place / "runner" / "__init__.py").read_bytes() == b""
    assert (place / "runner" / "judge" / "measuring.py").is_file()
    assert (place / "compiled").is_dir()

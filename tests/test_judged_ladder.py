"""Where plan.json, the judge's job and the ladder's measurement meet."""

from __future__ import annotations

import json

import judged
import msgspec
import plan
import pytest
from course import variants
from plans.kernels import VARIANTS

from project.tests.test_plan import of_all
from runner.core import measurement, plan_reader, work
from runner.core.measurement import JudgeJob
from runner.judge import compiling
from runner.judge.figures import Rules
from runner.spec import milestones
from runner.submit import planning
from tests.exploits import standin
from tools.benchmarks import judge_ladder


def ladder(accuracy, architecture="sm_90"):
    names = [name for name, v in VARIANTS.items() if v.accuracy == accuracy]
    choice = plan.Choice(
        architectures=(architecture,), milestones={"final": tuple(names)}
    )
    return plan.made(choice)["milestones"]["final"]


@pytest.mark.parametrize("accuracy", judge_ladder.CLASSES)
def test_the_jobs_of_the_ladder_are_those_of_submissions(accuracy):
    entries = ladder(accuracy)

    job = judge_ladder.job(entries, "sm_90", {})

    decoded = msgspec.convert(job, JudgeJob)
    assert msgspec.json.decode(measurement.job_json(decoded)) == job
    assert [e["variant"] for e in job["entries"]] == [e["variant"] for e in entries]
    assert job["class"] == accuracy
    for one, entry in zip(job["entries"], entries, strict=True):
        (planned,) = entry["plans"]
        for ours, its in zip(one["convolutions"], planned["convolutions"], strict=True):
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


def submitted():
    """The repository's plan.json, and the digests of all that it names."""
    content = plan.FILE.read_bytes()
    found, problems = plan_reader.read(content)
    assert problems == ()
    names = {*found.sources, *found.registry_files}
    read = {name: (plan.ROOT / name).read_bytes() for name in names}
    return found, {name: work.digest_of(data) for name, data in read.items()}


@pytest.mark.parametrize("architecture", plan.Choice.architectures)
@pytest.mark.parametrize("name", ["m3", "m4", "final"])
def test_the_plan_of_the_repository_is_accepted_for_each_milestone(name, architecture):
    written, found = submitted()

    job, problems = planning.job(
        milestones.find(name), architecture, "", written, found
    )

    if name == "m4" and variants.number(architecture) < 80:  # it has tensor cores
        (problem,) = problems
        assert f"tensor_split) has no launches for {architecture}" in problem.message
        return
    assert problems == ()
    entries = plan.Choice().milestones[name]
    assert [entry.variant for entry in job.entries] == [*entries]
    if architecture == "sm_90":
        raw = json.loads(plan.FILE.read_bytes())["milestones"][name]
        ours = judge_ladder.job(raw, architecture, {})
        same = json.loads(measurement.job_json(job))
        for entry in same["entries"]:
            for one in entry["convolutions"]:
                del one["names"]  # arithmetic is on the GPU alone
        shared = ("version", "class", "architecture", "units", "entries", "layers")
        assert [ours[key] for key in shared] == [same[key] for key in shared]


@pytest.mark.parametrize("architecture", plan.Choice.architectures)
def test_a_plan_of_any_variant_is_read(architecture):
    made = of_all(architecture)

    found, problems = plan_reader.read(plan.text(made).encode())

    assert problems == ()
    again, written = msgspec.json.encode(found), plan.text(made)
    assert plan_reader.read(again) == (found, ())
    assert json.loads(again, object_hook=said) == json.loads(written, object_hook=said)


def said(value):
    """What of an object is not what it would be if it were left out."""
    return {k: v for k, v in value.items() if v not in ([], {}, "float32")}


@pytest.mark.programs
@pytest.mark.lengthy
@pytest.mark.cpp
@pytest.mark.parametrize("name", ["constant", "register_gemm", "implicit_gemm"])
def test_the_judge_measures_what_a_plan_says(name):
    choice = plan.Choice(
        edition="2019sp",  # its images are small
        images=1,
        architectures=("sm_90",),
        milestones={"final": (name,)},
    )
    entries = plan.made(choice)["milestones"]["final"]
    job = judge_ladder.job(entries, "sm_90", standin.RULES)
    folder = judge_ladder.SOURCES
    cubins = [
        standin.compiled(folder / unit["file"], unit["defines"], include=folder)
        for unit in job["units"]
    ]

    (row,) = judged.rows(standin.measure(job, cubins), choice, "run")

    assert (row["variant"], row["ok"], row["why"]) == (name, True, None)
    assert {*row["layers"]} == {"conv1", "conv2"}
    assert row["ms"] > 0

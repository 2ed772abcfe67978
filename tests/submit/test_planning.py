"""From a plan to the judge's job, or every reason why there is none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from runner.core import measurement
from runner.core.measurement import JudgeJob
from runner.core.milestone import Reference
from runner.spec import milestones
from runner.submit import files, planning
from tests.kit import sample_submission as sample

Change = Callable[[dict[str, Any]], None]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return sample.write(tmp_path / "project")


def planned(
    project: Path, name: str = "final", architecture: str = "sm_90"
) -> tuple[JudgeJob | None, list[str]]:
    found = files.look(project, milestones.find(name))
    assert found.problems == ()
    job, problems = planning.job(
        milestones.find(name), architecture, "", found.plan, found.digests
    )
    return job, [str(problem) for problem in problems]


def changed(project: Path, change: Change, name: str = "final") -> list[str]:
    values = sample.plan(project)
    change(values)
    sample.write_plan(project, values)
    job, lines = planned(project, name)
    assert job is None
    return lines


def test_the_job_is_what_the_judge_reads(project):
    job, problems = planned(project)
    assert problems == [] and job is not None
    found = json.loads(measurement.job_json(job))
    assert found["version"] == 1 and found["class"] == "fp32"
    assert (found["milestone"], found["architecture"]) == ("final", "sm_90")
    assert found["units"] == [{"file": "naive.cu", "target": "sm_90", "defines": {}}]
    (entry,) = found["entries"]
    first, second = entry["convolutions"]
    assert first["unit"] == second["unit"] == 0
    assert first["shape"] == sample.CONV1 and second["shape"] == sample.CONV2
    assert first["launches"][0]["numbers"] == [1, 70, 70, 5]
    assert found["rules"]["rounds"] == 40 and found["reference"] is None


def test_the_sites_time_of_the_reference_goes_with_the_gpu():
    site = replace(milestones.find("m2"), references=(Reference("NVIDIA H200", 5.4),))
    job, _ = planning.job(site, "sm_90", "NVIDIA H200")
    assert (
        job and job.reference and (job.reference.ms, job.reference.band) == (5.4, 0.05)
    )
    job, _ = planning.job(site, "sm_80", "NVIDIA A100")
    assert job and job.reference is None


def test_three_entries_of_one_file_are_compiled_once(project):
    job, _ = planned(project, "m4", "sm_86")
    assert [entry.variant for entry in job.entries] == ["naive", "plain", "simple"]
    assert [unit.target for unit in job.units] == ["sm_86"]


def test_a_source_that_changed_since_is_named(project):
    (project / sample.SOURCE).write_text("// another\n")
    _, (line,) = planned(project)
    assert (
        line == f"plan.json is older than {sample.SOURCE}; run `python project/plan.py`"
    )


def test_a_registry_that_changed_since_is_named(project):
    (project / sample.REGISTRY).write_text("# another\n")
    _, (line,) = planned(project)
    assert "older than the registry" in line and "project/kernels.py" in line


def test_files_that_are_gone_are_named(project):
    (project / sample.REGISTRY).unlink()
    (project / sample.SOURCE).rename(project / "project/cuda/other.cu")
    _, lines = planned(project)
    assert any(f"names {sample.SOURCE}, which cannot be read" in li for li in lines)
    assert any(f"made of {sample.REGISTRY}, which cannot" in line for line in lines)


def test_another_architecture_needs_launches_of_its_own(project):
    _, (line,) = planned(project, architecture="sm_89")
    assert "has no launches for sm_89, but for sm_75, sm_86, sm_90" in line
    assert "`python project/plan.py --architecture sm_89`" in line


def entry(values: dict[str, Any]) -> dict[str, Any]:
    return values["milestones"]["final"][0]


def first(values: dict[str, Any]) -> dict[str, Any]:
    found = next(p for p in entry(values)["plans"] if p["architectures"] == ["sm_90"])
    return found["convolutions"][0]


CHANGES: list[tuple[str, Change]] = [
    ("has 0 entries of final", lambda v: v["milestones"].pop("final")),
    ("is of B100 M12", lambda v: first(v)["shape"].update(B=100)),
    ("has the layers conv2", lambda v: first(v).update(name="conv2")),
    ("stores x and k as float16", lambda v: first(v).update(storage="float16")),
    ("compiled for sm_80", lambda v: first(v)["unit"].update(target="sm_80")),
    ("compiled for sm_100a", lambda v: first(v)["unit"].update(target="sm_100a")),
    (
        "two plans for sm_75",
        lambda v: entry(v)["plans"][0]["architectures"].append("sm_75"),
    ),
]


@pytest.mark.parametrize(("says", "change"), CHANGES, ids=[says for says, _ in CHANGES])
def test_what_is_not_the_milestones_is_refused(project, says, change):
    (line,) = changed(project, change)
    assert says in line and line.startswith("plan.json")


def test_milestone_4_takes_three_different_variants(project):
    def same(values: dict[str, Any]) -> None:
        values["milestones"]["m4"] = [sample.entry()] * 3

    lines = changed(project, same, "m4")
    assert len(lines) == 2 and all("is there twice" in line for line in lines)
    (line,) = changed(project, lambda v: v["milestones"]["m4"].pop(), "m4")
    assert "has 2 entries of m4; it takes exactly 3" in line


def test_every_problem_is_told_at_once(project):
    def all_of_them(values: dict[str, Any]) -> None:
        for _, change in CHANGES[1:4]:
            change(values)
        entry(values)["class"] = "tf32"
        values["sources"][sample.SOURCE] = "0" * 64

    lines = changed(project, all_of_them)
    assert len(lines) == 3  # the layers' names hide what is of the layers


def test_code_for_one_gpu_alone_runs_there(project):
    values = sample.plan(project)
    first(values)["unit"]["target"] = "sm_90a"
    sample.write_plan(project, values)
    job, problems = planned(project)
    assert job is not None and problems == []
    assert [unit.target for unit in job.units] == ["sm_90a", "sm_90"]

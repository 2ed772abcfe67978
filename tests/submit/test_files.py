"""What of a project's folder is sent, and why it cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.core import Problem, work
from runner.core.errors import UsageError
from runner.core.milestone import TeamParts
from runner.spec import milestones
from runner.submit import files
from runner.submit.files import Submitted
from tests.kit import sample_submission as sample


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return sample.write(tmp_path / "project")


def look(project: Path, name: str = "final") -> Submitted:
    return files.look(project, milestones.find(name))


def told(project: Path, name: str = "final") -> list[str]:
    return [str(problem) for problem in look(project, name).problems]


def test_the_plans_sources_the_report_and_the_plan_are_read(project):
    more = project / "project/cuda/deep/more.cuh"
    more.parent.mkdir()
    more.write_text("// more\n")
    (project / "project/cuda/other.cu").write_text("// no source of the plan\n")
    (project / "project/cuda/notes.txt").write_text("not sent\n")
    values = sample.plan(project)
    values["sources"]["project/cuda/deep/more.cuh"] = work.digest_of(more.read_bytes())
    sample.write_plan(project, values)
    found = look(project)
    assert found.problems == ()
    assert [(file.path, file.name) for file in found.team] == [
        ("project/cuda/deep/more.cuh", "deep/more.cuh"),
        ("project/cuda/naive.cu", "naive.cu"),
    ]
    assert [file.content for file in found.required] == [sample.report()]
    assert found.digests[sample.SOURCE] == found.plan.sources[sample.SOURCE]
    assert sample.REGISTRY in found.digests


def test_what_was_read_stays_though_the_file_changes(project):
    found = look(project)
    (project / sample.SOURCE).write_text("changed")
    assert found.team[0].content == sample.KERNEL.encode()


def test_a_folder_that_does_not_exist_is_a_mistake(tmp_path):
    with pytest.raises(UsageError, match="not a folder"):
        look(tmp_path / "absent")


@pytest.mark.parametrize(
    ("name", "takes"),
    [
        ("m1", "project/m1.1.py and project/m1.2.py; rai's own repository has a work"),
        ("m2", "project/cpp: convolution.cpp; `rai init --milestone m2 DIR` writes"),
        (
            "final",
            "plan.json and project/cuda: **/*.cu, **/*.cuh;"
            " `rai init --milestone final DIR` writes",
        ),
    ],
)
def test_a_folder_with_nothing_of_it_is_told_what_a_submission_is(
    tmp_path, name, takes
):
    (tmp_path / "rai_build.yml").touch()
    (line,) = told(tmp_path, name)
    assert f"is no submission to {name}, which takes {takes}" in line


def test_every_problem_is_told_at_once(project):
    (project / "report.pdf").unlink()
    (project / "plan.json").unlink()
    (project / sample.SOURCE).unlink()
    lines = told(project)
    assert len(lines) == 3
    assert lines[0].startswith("warning: report.pdf is missing")
    assert "plan.json is missing" in lines[2] and "project/plan.py" in lines[2]


def test_a_plan_that_is_wrong_is_told_of_beside_the_rest(project):
    (project / "plan.json").write_text("{")
    (project / "report.pdf").unlink()
    assert len(told(project)) == 2


def test_a_plan_names_no_file_outside_of_the_project(project):
    (project / "secret.py").symlink_to("/etc/passwd")
    values = sample.plan(project)
    values["registry_files"] = ["secret.py"]
    sample.write_plan(project, values)
    assert "secret.py" not in look(project).digests


def test_milestone_1_sends_the_project_as_a_run_would(project):
    (project / ".gitignore").write_text("left/\n")
    (project / "left").mkdir()
    (project / "left/out.txt").touch()
    script = project / "project/m1.1.py"
    script.write_text("print()\n")
    script.chmod(0o755)
    found = look(project, "m1")
    assert found.problems == () and found.plan is None
    names = {file.name: file.executable for file in found.team}
    assert names["project/m1.1.py"] and not names["project/kernels.py"]
    assert "left/out.txt" not in names
    (project / "loop").symlink_to(".")
    assert any("loop: is a link" in line for line in told(project, "m1"))


def test_milestone_2_sends_one_file(project):
    (project / "project/cpp").mkdir()
    assert any("no file of the team is here" in line for line in told(project, "m2"))
    (project / "project/cpp/convolution.cpp").write_text("// mine\n")
    (project / "project/cpp/driver.h").write_text("// not sent\n")
    found = look(project, "m2")
    assert [file.name for file in found.team] == ["convolution.cpp"]
    assert found.problems == ()


def test_names_have_a_bound_together_since_a_measurement_keeps_them(tmp_path):
    names = [f"{at:04}{'n' * 200}.py" for at in range(700)]
    problems: list[Problem] = []

    found = files._suitable(((name, "") for name in names), TeamParts(), problems)

    assert found == [] and "names of the files" in problems[0].message

"""The workflows that docs/ci.md shows are carried out as they stand there."""

from __future__ import annotations

import re
import sys

import pytest

from tests.workflows import jobs, pages, tiny
from tests.workflows.machine import Machine
from tests.workflows.repositories import ROOT, commit


@pytest.mark.programs
@pytest.mark.slow
@pytest.mark.local
def test_the_workflows_for_github_run_and_compare(tmp_path):
    before = commit(tmp_path / "repository", tiny.files())
    head = commit(tmp_path / "repository", {"notes.txt": "no change of the times"})
    github = {"sha": head, "event_name": "push", "event": {"before": before}}
    files = pages.workflows(tmp_path)
    assert len(files) == 2
    for file in files:
        machine = Machine(
            tmp_path / file.stem,
            tmp_path / "repository",
            github,
            {"OWNER/rai": ROOT},
        )
        # What is installed here already is taken.
        (machine.temp / "rai").symlink_to(sys.prefix)
        told = jobs.read(file)
        (name,) = told["jobs"]

        scope = jobs.carry_out(told, name, machine, env={"RAI_ENGINE": "local"})

        assert scope.state == "success", "\n".join(machine.said)
        assert list((machine.artifacts / "rai").rglob("record.json"))


def test_the_page_names_every_input_and_output_of_the_action():
    action = jobs.read(ROOT / "action.yml")
    table = "\n".join(re.findall(r"^\| `.*$", pages.PAGE.read_text(), re.M))
    for name in (*action["inputs"], *action["outputs"]):
        assert f"`{name}`" in table, name


def test_the_page_shows_the_versions_that_this_repositorys_own_jobs_use():
    own = (ROOT / ".github/workflows/ci.yml").read_text()
    for line in re.findall(r"uses: (actions/.*)", pages.PAGE.read_text()):
        assert line in own

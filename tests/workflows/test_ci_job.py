"""The job for hosted runners is carried out here, but for the tests themselves."""

from __future__ import annotations

import pytest

from tests.workflows import jobs
from tests.workflows.machine import Machine
from tests.workflows.repositories import ROOT, snapshot

WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
TESTS = ("Workflows", "Quick tests")


@pytest.mark.programs
@pytest.mark.slow
def test_the_job_sets_up_a_fresh_checkout_and_checks_its_style(tmp_path):
    head = snapshot(tmp_path / "repository")
    machine = Machine(
        tmp_path / "runner",
        tmp_path / "repository",
        {"sha": head, "event_name": "push", "event": {}, "ref": "refs/heads/main"},
    )

    scope = jobs.carry_out(jobs.read(WORKFLOW), "check", machine, without=TESTS)

    assert scope.state == "success", "\n".join(machine.said)
    assert set(scope.ended.values()) == {"success"}
    assert "Success: no issues found" in machine.said[-1]


def test_a_fork_reaches_hosted_runners_only():
    for job in jobs.read(WORKFLOW)["jobs"].values():
        assert job["runs-on"].startswith("ubuntu-")

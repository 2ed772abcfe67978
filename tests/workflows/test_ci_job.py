"""The job for hosted runners is carried out here, but for what CI runs by itself."""

from __future__ import annotations

import pytest

from tests.workflows import jobs
from tests.workflows.machine import Machine
from tests.workflows.repositories import ROOT, snapshot

WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
ELSEWHERE = ("Style and types", "Workflows", "Quick tests")
"""What `.ci/run` runs too, in its own environment."""


@pytest.mark.programs
@pytest.mark.slow
def test_the_job_sets_up_a_fresh_checkout_for_its_checks(tmp_path):
    head = snapshot(tmp_path / "repository")
    machine = Machine(
        tmp_path / "runner",
        tmp_path / "repository",
        {"sha": head, "event_name": "push", "event": {}, "ref": "refs/heads/main"},
    )

    scope = jobs.carry_out(jobs.read(WORKFLOW), "check", machine, without=ELSEWHERE)

    assert scope.state == "success", "\n".join(machine.said)
    assert set(scope.ended.values()) == {"success"}
    for name in ("rai", "ruff", "mypy", "pytest"):
        assert (machine.workspace / ".venv" / "bin" / name).is_file()


def test_a_fork_reaches_hosted_runners_only():
    for job in jobs.read(WORKFLOW)["jobs"].values():
        assert job["runs-on"].startswith("ubuntu-")

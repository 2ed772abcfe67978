"""The job for GitLab that docs/ci.md shows is carried out here."""

from __future__ import annotations

import pytest

from tests.workflows import gitlab, jobs, pages, tiny
from tests.workflows.machine import Machine
from tests.workflows.refused import RefusedError
from tests.workflows.repositories import ROOT, commit


@pytest.mark.programs
@pytest.mark.slow
@pytest.mark.local
def test_the_job_fails_a_merge_request_that_makes_it_slower(tmp_path):
    machine = Machine(tmp_path, tmp_path, {})
    base = commit(machine.workspace, tiny.files(op_time=0.5))
    commit(machine.workspace, {**tiny.files(op_time=0.6), "notes.txt": "changed"})
    own = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": base, "CI_COMMIT_BEFORE_SHA": "0" * 40}
    here = {"RAI": str(ROOT), "GPUS": "0", "RAI_ENGINE": "local"}

    told = jobs.read(pages.gitlab(tmp_path))["gpu"]
    done = gitlab.carry_out(told, machine, {**own, **here})

    assert done.code == 7, done.said
    assert "<testsuites>" in done.junit.read_text()
    (runs,) = done.artifacts
    assert len(list(runs.rglob("record.json"))) == 3


def test_a_job_with_a_key_that_is_not_known_is_refused(tmp_path):
    machine = Machine(tmp_path, tmp_path, {})
    with pytest.raises(RefusedError, match="unknown keys: image"):
        gitlab.carry_out({"image": "debian", "script": []}, machine, {})

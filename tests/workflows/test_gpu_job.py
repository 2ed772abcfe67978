"""The job for a machine with a GPU is carried out, on a project that needs none."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

from runner import buildfile
from runner.session import selection
from tests.workflows import jobs, tiny
from tests.workflows.machine import Machine
from tests.workflows.repositories import ROOT, commit, git, snapshot

WORKFLOW = jobs.read(ROOT / ".github" / "workflows" / "gpu.yml")
HERE = "OWNER/rai"


def pushed(before: str, head: str) -> dict[str, Any]:
    """Return what GitHub says of a push to `main`."""
    event = {"before": before, "repository": {"default_branch": "main"}}
    return told("push", event, sha=head, ref="refs/heads/main")


def told(name: str, event: dict[str, Any], **more: str) -> dict[str, Any]:
    known = {"repository": HERE, "run_id": "12", "run_attempt": "1", "sha": "0" * 40}
    return {**known, "ref": "", **more, "event_name": name, "event": event}


def pull_request(repository: str) -> dict[str, Any]:
    head = {"sha": "1" * 40, "repo": {"full_name": repository}}
    return told("pull_request", {"pull_request": {"head": head}})


def carried_out(
    folder: Path, github: dict[str, Any], without: tuple[str, ...] = (), **more: Any
) -> tuple[jobs.Scope, Machine]:
    machine = Machine(folder / "runner", folder / "repository", github)
    return jobs.carry_out(WORKFLOW, "gpu", machine, without=without, **more), machine


@pytest.fixture
def repository(tmp_path):
    """Provide this checkout with a project in place of its own job."""
    snapshot(tmp_path / "repository")
    return tmp_path / "repository"


@pytest.mark.programs
@pytest.mark.slow
@pytest.mark.local
def test_a_push_that_makes_it_slower_fails_the_job_and_keeps_the_records(
    tmp_path, repository
):
    before = commit(repository, tiny.files(op_time=0.5))
    head = commit(repository, tiny.files(op_time=0.6))

    scope, machine = carried_out(
        tmp_path,
        pushed(before, head),
        without=("Image",),
        env={"GPUS": "0", "RAI_ENGINE": "local"},
    )

    said = "\n".join(machine.said)
    assert scope.ended["Run"] == "success", said
    assert scope.ended["Compare"] == "failure", said
    assert scope.ended["Keep the records"] == "success", said
    assert scope.state == "failure"
    assert "op_time[final] is slower" in html.unescape(machine.summary), said
    kept = sorted((machine.artifacts / "rai-12-1").rglob("record.json"))
    assert len(kept) == 3
    assert (machine.artifacts / "rai-12-1" / "junit.xml").is_file()
    reasons = [json.loads(file.read_text())["verdict"]["reason"] for file in kept]
    assert reasons == ["done"] * 3


@pytest.mark.programs
@pytest.mark.slow
@pytest.mark.docker
def test_a_push_that_changes_no_time_passes_in_a_container_too(tmp_path, repository):
    before = commit(repository, tiny.files())
    head = commit(repository, {"notes.txt": "no change of the times"})

    scope, machine = carried_out(
        tmp_path,
        pushed(before, head),
        env={"GPUS": "0", "RAI_ENGINE": "docker"},
    )

    assert scope.state == "success", "\n".join(machine.said)
    assert set(scope.ended.values()) == {"success"}


def test_what_a_push_is_compared_by_is_one_command_of_our_build_file():
    (compare,) = (
        step["run"]
        for step in WORKFLOW["jobs"]["gpu"]["steps"]
        if "rai bench" in str(step)
    )
    words = re.findall(r"--command '?([^' ]+)", compare)
    spec, _ = buildfile.parse((ROOT / "rai_build.yml").read_text(), "rai_build.yml")
    (chosen,) = selection.chosen(spec.commands, words, "--command")
    assert "project/final.py 10000" in spec.commands[chosen].text


@pytest.mark.parametrize(
    ("github", "state"),
    [
        (pull_request("someone/rai"), "skipped"),
        (pull_request("someone/OWNER-rai"), "skipped"),
        (told("pull_request", {"pull_request": {"head": {"repo": None}}}), "skipped"),
    ],
    ids=["a fork", "a fork of another name", "a deleted fork"],
)
def test_a_pull_request_from_a_fork_is_not_run(tmp_path, github, state):
    scope, machine = carried_out(tmp_path, github)
    assert scope.state == state
    assert machine.commands == 0


@pytest.mark.programs
@pytest.mark.parametrize(
    "by", ["a push", "a first push", "a branch", "hand", "hand, the tip"]
)
def test_what_is_compared_with_is_where_the_change_began(tmp_path, by):
    repository = tmp_path / "repository"
    oldest, old, began = (commit(repository, {"file": str(n)}) for n in range(3))
    git(repository, "switch", "--quiet", "--create", "branch")
    mine = [commit(repository, {"mine": str(n)}) for n in range(2)][-1]
    git(repository, "switch", "--quiet", "main")
    tip = commit(repository, {"file": "later"})
    known: dict[str, Any] = {"repository": {"default_branch": "main"}}
    pull = {"pull_request": {"head": {"sha": mine, "repo": {"full_name": HERE}}}}
    github, head, before = {
        "a push": (pushed(oldest, tip), tip, oldest),
        "a first push": (pushed("0" * 40, tip), tip, began),
        "a branch": (told("pull_request", {**known, **pull}), mine, began),
        "hand": (told("workflow_dispatch", known), old, oldest),
        "hand, the tip": (told("workflow_dispatch", known), tip, began),
    }[by]
    # In the place of rai, a program that prints what it is given.
    shown = tmp_path / "bin" / "rai"
    shown.parent.mkdir()
    shown.write_text("#!/bin/sh\necho $*\n")
    shown.chmod(0o755)
    machine = Machine(
        tmp_path / "runner", repository, github, paths=[str(shown.parent)]
    )
    others = ("Install rai", "Image", "Run", "Keep the records")

    inputs = {"commit": head} if github["event_name"] == "workflow_dispatch" else {}
    scope = jobs.carry_out(WORKFLOW, "gpu", machine, inputs=inputs, without=others)

    assert scope.state == "success", machine.said
    assert machine.said[-1].startswith(f"bench {before} HEAD -p . ")
    assert git(machine.workspace, "rev-parse", "HEAD") == head


@pytest.mark.programs
@pytest.mark.parametrize(
    "named", ["main", "refs/pull/3/head", "0123abc", "0" * 39 + "g"]
)
def test_what_is_started_by_hand_has_to_be_a_commits_whole_id(tmp_path, named):
    github = told("workflow_dispatch", {"repository": {"default_branch": "main"}})
    scope, machine = carried_out(tmp_path, github, inputs={"commit": named})

    assert scope.ended.pop("Refuse what is no commit") == "failure"
    assert set(scope.ended.values()) <= {"skipped", "success"}
    assert machine.commands == 1
    assert "the commit's full id" in machine.said[0]


def test_what_is_started_by_hand_is_reviewed_and_the_rest_is_not():
    environment = WORKFLOW["jobs"]["gpu"]["environment"]
    found = {
        name: jobs.expressions.filled(environment, {"github": told(name, {})})
        for name in ("push", "pull_request", "workflow_dispatch")
    }
    assert found["workflow_dispatch"] == "gpu-reviewed"
    assert found["push"] == found["pull_request"] == "gpu"

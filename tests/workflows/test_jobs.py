"""Steps are carried out as GitHub's runner does it; what it would refuse is refused."""

from __future__ import annotations

from textwrap import dedent

import pytest
import yaml

from tests.workflows import jobs
from tests.workflows.machine import Machine, pairs
from tests.workflows.refused import RefusedError
from tests.workflows.repositories import commit

pytestmark = pytest.mark.programs
PIN = "0123456789" * 4


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path / "runner", tmp_path, {"sha": PIN, "event": {}})


def steps(machine: Machine, text: str, **more) -> jobs.Scope:
    told = {"on": {"push": None}, "jobs": {"job": yaml.safe_load(dedent(text))}}
    return jobs.carry_out(told, "job", machine, **more)


def test_what_a_step_writes_to_the_runners_files_reaches_the_next(machine):
    scope = steps(
        machine,
        """
        env: {A: from the job}
        steps:
          - id: one
            run: |
              echo "B=$A" >>"$GITHUB_ENV"
              echo /some/where >>"$GITHUB_PATH"
              printf 'text<<END\\none\\ntwo\\nEND\\n' >>"$GITHUB_OUTPUT"
              echo '# Summary' >>"$GITHUB_STEP_SUMMARY"
          - env: {TEXT: "${{ steps.one.outputs.text }}"}
            run: echo "$B, ${PATH%%:*}, $TEXT"
        """,
    )

    assert scope.state == "success"
    assert machine.said[-1] == "from the job, /some/where, one\ntwo\n"
    assert machine.summary == "# Summary\n"


def test_a_failed_step_ends_the_job_but_for_those_that_always_run(machine):
    scope = steps(
        machine,
        """
        steps:
          - {name: fails, run: "false; echo on"}
          - {name: next, run: echo next}
          - {name: last, if: always(), run: echo last}
        """,
    )

    assert scope.state == "failure"
    assert scope.ended == {"fails": "failure", "next": "skipped", "last": "success"}
    assert machine.said == ["", "last\n"]


def test_a_failure_within_a_pipe_counts_where_bash_is_named(machine):
    told = "steps: [{name: pipe, %s run: 'false | true'}]"
    assert steps(machine, told % "").state == "success"
    assert steps(machine, told % "shell: bash,").state == "failure"


def test_a_step_that_takes_too_long_fails(machine):
    scope = steps(
        machine, "steps: [{name: long, timeout-minutes: 0.005, run: sleep 60}]"
    )
    assert scope.ended == {"long": "failure"}


def test_a_composite_action_gets_its_inputs_and_gives_outputs(machine):
    action = {
        "inputs": {"who": {}, "how": {"default": "well"}},
        "outputs": {"said": {"value": "${{ steps.one.outputs.said }}"}},
        "runs": {
            "using": "composite",
            "steps": [
                {
                    "id": "one",
                    "shell": "bash",
                    "env": {"WHO": "${{ inputs.who }}", "HOW": "${{ inputs.how }}"},
                    "run": 'echo "said=$WHO $HOW" >>"$GITHUB_OUTPUT"\n'
                    'cat "$GITHUB_ACTION_PATH/action.yml" >/dev/null',
                }
            ],
        },
    }
    (machine.workspace / "action.yml").write_text(yaml.safe_dump(action))

    scope = steps(
        machine,
        """
        steps:
          - {id: act, uses: ./, with: {who: "$(me)"}}
          - env: {SAID: "${{ steps.act.outputs.said }}"}
            run: echo "$SAID"
        """,
    )

    assert scope.state == "success"
    assert machine.said[-1] == "$(me) well\n"
    with pytest.raises(RefusedError, match="unknown inputs: whom"):
        steps(machine, "steps: [{uses: ./, with: {whom: me}}]")


def test_a_job_whose_condition_does_not_hold_is_skipped(machine):
    scope = steps(machine, "{if: github.sha == 'x', steps: [{run: echo}]}")
    assert scope.state == "skipped"
    assert machine.said == []


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ("{steps: [{run: 'echo ${{ github.sha }}'}]}", "with an expression in it"),
        ("{steps: [{run: echo, shell: fish}]}", "unknown shell"),
        ("{steps: [{run: echo, retries: 3}]}", "unknown keys: retries"),
        ("{services: {}, steps: []}", "unknown keys: services"),
        ("{steps: [{uses: someone/thing@v1}]}", "no stand-in"),
        ("{steps: [{uses: actions/checkout@v4}]}", "not pinned"),
        (
            f"{{steps: [{{uses: 'actions/checkout@{PIN}', with: {{ref: main}}}}]}}",
            "something else than a commit",
        ),
        (
            f"{{steps: [{{uses: 'actions/setup-python@{PIN}',"
            " with: {python-version: 3.10}}]}",
            "no quoted",
        ),
        (
            f"{{steps: [{{uses: 'actions/upload-artifact@{PIN}',"
            " with: {name: a/b}}]}",
            "not a name",
        ),
        (
            f"{{steps: [{{uses: 'actions/upload-artifact@{PIN}',"
            " with: {name: a, paths: b}}]}",
            "unknown inputs: paths",
        ),
    ],
)
def test_what_the_runner_would_refuse_is_refused(machine, told, why):
    with pytest.raises(RefusedError, match=why):
        steps(machine, told)


def test_hidden_files_are_in_no_artifact_and_a_name_is_taken_once(machine):
    folder = machine.root / "made"
    (folder / ".trash").mkdir(parents=True)
    (folder / ".trash" / "old").touch()
    (folder / "new").write_text("new")
    upload = f"""
        steps:
          - uses: actions/upload-artifact@{PIN}
            with: {{name: mine, path: {folder}}}
    """
    steps(machine, upload)

    (kept,) = (p for p in machine.artifacts.rglob("*") if p.is_file())
    assert kept == machine.artifacts / "mine" / "new"
    with pytest.raises(RefusedError, match="second artifact"):
        steps(machine, upload)


@pytest.mark.parametrize(("depth", "commits"), [(1, 1), (0, 3)])
def test_a_repository_is_checked_out_as_deep_as_asked(tmp_path, depth, commits):
    source = tmp_path / "source"
    heads = [commit(source, {"file": str(n)}) for n in range(3)]
    machine = Machine(tmp_path / "runner", source, {"sha": heads[-1], "event": {}})

    steps(
        machine,
        f"""
        steps:
          - uses: actions/checkout@{PIN}
            with: {{fetch-depth: {depth}}}
          - run: git rev-list --count HEAD
        """,
    )

    assert machine.said == [f"{commits}\n"]


def test_a_value_that_never_ends_is_refused():
    assert pairs("a=b<<c\n\nd<<E\nE\n") == {"a": "b<<c", "d": ""}
    with pytest.raises(RefusedError, match="no line 'E'"):
        pairs("d<<E\nx")
    with pytest.raises(RefusedError, match="says nothing"):
        pairs("word")

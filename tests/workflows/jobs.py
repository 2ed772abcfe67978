"""The steps of a job or of a composite action, one after another."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.workflows import expressions
from tests.workflows.machine import Machine
from tests.workflows.refused import RefusedError
from tests.workflows.standins import PIN, STANDINS

JOB_KEYS = {
    *("name", "runs-on", "timeout-minutes", "permissions", "concurrency"),
    *("if", "env", "steps", "environment", "needs"),
}
STEP_KEYS = {
    *("name", "id", "if", "uses", "with", "run", "shell", "env"),
    *("working-directory", "timeout-minutes", "continue-on-error"),
}


@dataclass
class Scope:
    """What the expressions of one list of steps see, and how they ended so far."""

    inputs: dict[str, Any] = field(default_factory=dict)
    steps: dict[str, Any] = field(default_factory=dict)
    state: str = "success"
    action: Path | None = None
    ended: dict[str, str] = field(default_factory=dict)
    """Outcome by the name of a step: success, failure or skipped."""


def read(file: Path) -> dict[str, Any]:
    """Read a workflow or an action; texts such as `on` and `yes` stay texts."""
    found: dict[str, Any] = yaml.load(file.read_text(), Loader=_Loader)
    return found


def carry_out(
    workflow: Mapping[str, Any],
    job: str,
    machine: Machine,
    *,
    inputs: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    without: Collection[str] = (),
) -> Scope:
    """Carry out a job of a workflow; return how its steps ended.

    ``inputs`` are those of a dispatched workflow, ``env`` variables in place of the
    job's, ``without`` the names of steps that are left out. The state of a job whose
    `if:` does not hold is "skipped".
    """
    told = workflow["jobs"][job]
    _known(told, JOB_KEYS)
    events = workflow["on"]
    by_hand = events.get("workflow_dispatch") if isinstance(events, dict) else None
    declared = (by_hand or {}).get("inputs", {})
    scope = Scope({name: each.get("default") for name, each in declared.items()})
    scope.inputs |= inputs or {}
    expressions.filled(told.get("environment"), _contexts(scope, machine))
    for each in (workflow, told):
        machine.variables |= _texts(each.get("env", {}), _contexts(scope, machine))
    machine.variables |= env or {}
    if not expressions.condition(told.get("if"), _contexts(scope, machine), "success"):
        scope.state = "skipped"
        return scope
    if unknown := set(without) - {step.get("name") for step in told["steps"]}:
        raise RefusedError(f"no steps of these names: {', '.join(sorted(unknown))}")
    kept = [step for step in told["steps"] if step.get("name") not in without]
    _steps(kept, scope, machine)
    return scope


def act(folder: Path, given: Mapping[str, Any], machine: Machine) -> Scope:
    """Carry out a composite action; the outputs of its scope are in `steps`."""
    told = read(folder / "action.yml")
    if told["runs"]["using"] != "composite":
        raise RefusedError(f"not a composite action: {told['runs']['using']}")
    declared = told.get("inputs", {})
    if unknown := set(given) - set(declared):
        raise RefusedError(f"unknown inputs: {', '.join(sorted(unknown))}")
    scope = Scope(action=folder)
    for name, each in declared.items():
        value = given.get(name, each.get("default", ""))
        scope.inputs[name] = expressions.text_of(value)
    _steps(told["runs"]["steps"], scope, machine)
    outputs = {
        name: expressions.filled(each["value"], _contexts(scope, machine))
        for name, each in told.get("outputs", {}).items()
    }
    scope.steps = {"outputs": outputs}
    return scope


def _steps(steps: list[dict[str, Any]], scope: Scope, machine: Machine) -> None:
    for number, step in enumerate(steps, 1):
        _known(step, STEP_KEYS)
        name = step.get("name") or step.get("uses") or f"step {number}"
        if "id" in step:
            scope.steps[step["id"]] = {"outputs": {}, "outcome": "skipped"}
        contexts = _contexts(scope, machine)
        if not expressions.condition(step.get("if"), contexts, scope.state):
            scope.ended[name] = "skipped"
            continue
        env = _texts(step.get("env", {}), contexts)
        contexts["env"] = {**contexts["env"], **env}
        right, outputs = _one(step, scope, machine, contexts, env)
        outcome = "success" if right else "failure"
        scope.ended[name] = outcome
        if "id" in step:
            scope.steps[step["id"]] = {"outputs": outputs, "outcome": outcome}
        if not right and not step.get("continue-on-error"):
            scope.state = "failure"


def _one(
    step: Mapping[str, Any],
    scope: Scope,
    machine: Machine,
    contexts: Mapping[str, Any],
    env: Mapping[str, str],
) -> tuple[bool, dict[str, Any]]:
    """Carry out one step; return whether it succeeded, and its outputs."""
    given = {
        name: expressions.filled(value, contexts, scope.state)
        for name, value in step.get("with", {}).items()
    }
    if "uses" in step:
        if env:
            raise RefusedError("variables of a step that uses an action")
        return _use(step["uses"], given, machine)
    if scope.action and "shell" not in step:
        raise RefusedError("a script of a composite action names no shell")
    where = expressions.filled(step.get("working-directory", "."), contexts)
    places = {"GITHUB_ACTION_PATH": str(scope.action)} if scope.action else {}
    code, outputs = machine.run(
        step["run"],
        step.get("shell"),
        machine.workspace / where,
        machine.environment(env, places),
        step.get("timeout-minutes"),
    )
    return code == 0, outputs


def _use(
    uses: str, given: Mapping[str, Any], machine: Machine
) -> tuple[bool, dict[str, Any]]:
    if uses.startswith("./"):
        scope = act(machine.workspace / uses, given, machine)
        return scope.state == "success", scope.steps["outputs"]
    name, _, version = uses.partition("@")
    if name in machine.actions:
        scope = act(machine.actions[name], given, machine)
        return scope.state == "success", scope.steps["outputs"]
    if name not in STANDINS:
        raise RefusedError(f"no stand-in for {uses}")
    if not PIN.fullmatch(version):
        raise RefusedError(f"not pinned to a commit: {uses}")
    return True, STANDINS[name](machine, given)


def _contexts(scope: Scope, machine: Machine) -> dict[str, Any]:
    runner = {"temp": str(machine.temp), "os": "Linux", "arch": "X64"}
    github = machine.github
    if scope.action:
        github = {**github, "action_path": str(scope.action)}
    return {
        "github": github,
        "inputs": scope.inputs,
        "steps": scope.steps,
        "env": machine.variables,
        "runner": runner,
    }


def _texts(told: Mapping[str, Any], contexts: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: expressions.text_of(expressions.filled(value, contexts))
        for name, value in told.items()
    }


def _known(told: Mapping[str, Any], keys: set[str]) -> None:
    if unknown := set(told) - keys:
        raise RefusedError(f"unknown keys: {', '.join(sorted(unknown))}")


class _Loader(yaml.SafeLoader):
    """YAML 1.2's booleans, true and false, as GitHub reads them."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in rows if tag != "tag:yaml.org,2002:bool"]
    for first, rows in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), ["t", "f"]
)

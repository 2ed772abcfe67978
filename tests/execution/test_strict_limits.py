"""Strict limits: a run that some limit would not hold is refused before it begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.core import EngineFacts, Reason
from runner.core import events as ev
from runner.core.errors import Cancel, NotAllowedError
from runner.engines import base
from runner.execution import prepare, session
from runner.execution.prepare import Options
from tests.kit import policies

SETTING = "the setting strict_limits"
BUILD_FILE = "rai: {version: 0.2}\ncommands: {build: ['echo done']}\n"


PROJECT = {"rai_build.yml": BUILD_FILE}


def run(project: Path, options: Options) -> list[ev.Event]:
    return list(session.start(prepare.prepare(project, options)).events(Cancel()))


def end(events: list[ev.Event]) -> ev.Finished:
    return events[-1]


def test_a_run_is_refused_before_it_is_packed(project, monkeypatch):
    monkeypatch.setenv("RAI_STRICT_LIMITS", "true")
    events = run(project, Options(engine="bare"))

    verdict = end(events).verdict
    assert verdict.reason is Reason.NOT_ALLOWED
    assert "the bare engine cannot enforce memory, pids, network" in verdict.message
    assert not any(isinstance(e, ev.Packing) for e in events)
    (chosen,) = [e for e in events if isinstance(e, ev.EngineChosen)]
    assert "memory" in chosen.engine.unenforced


def test_without_strict_limits_the_same_run_is_carried_out(project):
    assert end(run(project, Options(engine="bare"))).verdict.reason is Reason.DONE


def test_each_limit_is_named_with_what_to_do_about_it():
    facts = EngineFacts("local", unenforced=("memory", "system calls", "pids"))
    with pytest.raises(NotAllowedError) as caught:
        base.check(facts, SETTING)
    groups, calls = caught.value.problems
    assert groups.message == (
        "the local engine cannot enforce memory, pids here, which the setting"
        " strict_limits asks for"
    )
    assert "Delegate=yes" in groups.hint
    assert "system calls" in calls.message and calls.hint


def test_a_build_is_refused_for_what_its_builder_ignores():
    with pytest.raises(NotAllowedError, match="cannot enforce pids here in image bui"):
        base.check(EngineFacts("docker", unenforced=("pids",)), SETTING, builds=True)
    base.check(EngineFacts("docker", unenforced=()), SETTING, builds=True)
    base.check(EngineFacts("docker", unenforced=("pids",)), "", builds=True)


def test_roots_builds_are_told_what_else_the_engine_must_be_like():
    with pytest.raises(NotAllowedError) as caught:
        base.check(EngineFacts("docker", unenforced=("pids",)), SETTING, builds=True)
    assert "native.cgroupdriver=cgroupfs" in caught.value.problems[0].hint


def test_an_engine_that_enforces_all_is_not_refused():
    base.check(EngineFacts("docker"), SETTING)
    base.check(EngineFacts("bare", unenforced=("memory",)), "")


@pytest.mark.root
@pytest.mark.programs
def test_no_variable_or_setting_overrides_a_policys_strict_limits(project, tmp_path):
    text = "strict_limits: true\nlimits: {time: 1h}\n"
    done = policies.under(
        tmp_path / "site",
        text,
        ["run", "-p", str(project), "--engine", "bare"],
        {"RAI_STRICT_LIMITS": "false", "XDG_CONFIG_HOME": str(tmp_path)},
    )
    assert done.returncode == Reason.NOT_ALLOWED.exit_code
    assert "strict_limits in /etc/rai/policy.yml:1:16 asks for" in done.stderr

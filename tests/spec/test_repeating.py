"""`--repeat`, `--command` and the budget: what they ask for, and what is kept of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner import engines
from runner.core import Limits, Place
from runner.core.errors import Cancel, NotAllowedError, UsageError
from runner.core.policy import NO_POLICY, Ceiling, Policy
from runner.core.record import MOST_ROUNDS
from runner.engines import Choice
from runner.execution import prepare as session
from runner.execution import session as run_session
from runner.execution.prepare import Options
from runner.spec import buildfile
from runner.spec.buildfile import repeating
from tests.kit.fake_engine import FakeEngine, FakeResult
from tests.kit.program import rai

SPEC = "commands: {build: [make, {run: ./final, name: final}, ./report]}\n"
TIMED = FakeResult(b"Op Time: 0.25\n")


def asked(policy: Policy = NO_POLICY, left_out: frozenset[int] = frozenset(), **given):
    spec, _ = buildfile.parse(SPEC, "rai_build.yml")
    return repeating(spec, left_out, policy, **given)


def test_without_options_the_run_decides_what_is_repeated_for_as_long_as_its_limit():
    found = asked()
    assert found == (frozenset(), Limits().time_s)


def test_commands_are_named_as_for_only_and_the_budget_is_a_time_span():
    found = asked(repeat=3, measured=("final", "3"), budget="1m30s")
    assert found == ({1, 2}, 90.0)


def test_all_that_is_wrong_is_told_at_once():
    with pytest.raises(UsageError) as error:
        asked(repeat=MOST_ROUNDS + 1, measured=("finla",), budget="soon")
    found = "\n".join(map(str, error.value.problems))
    for text in (f"--repeat {MOST_ROUNDS + 1}", "--command finla", "--budget 'soon'"):
        assert text in found
    assert "did you mean `final`?" in found


@pytest.mark.parametrize("budget", ["0", "-1s", "inf", "nan", "9" * 99])
def test_a_budget_is_a_time_above_zero(budget):
    with pytest.raises(UsageError, match="is not a time span"):
        asked(repeat=2, budget=budget)


def test_a_command_that_only_leaves_out_cannot_be_repeated():
    with pytest.raises(UsageError, match="--only leaves out command 2"):
        asked(left_out=frozenset({1}), repeat=2, measured=("final",))


def test_a_site_that_limits_the_time_limits_the_budget():
    site = Policy({"time_s": Ceiling(60.0, Place("policy.yml", 2, 1))})
    assert asked(site, repeat=2, budget="60s")[1] == 60.0
    with pytest.raises(NotAllowedError, match=r"at most .* is allowed by policy.yml:2"):
        asked(site, repeat=2, budget="61s")


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "rai_build.yml").write_text(SPEC)
    engine = FakeEngine({"./final": TIMED})
    monkeypatch.setattr(engines, "choose", lambda *_, **__: Choice((engine,), ""))

    def prepare(**options) -> tuple[session.Prepared, FakeEngine]:
        return session.prepare(tmp_path, Options(**options)), engine

    return prepare


def test_a_run_is_repeated_and_its_parcel_keeps_how(prepared):
    wanted, engine = prepared(repeat=3, measured=("3",), budget="5m")
    run = run_session.start(wanted)
    list(run.events(Cancel()))
    assert engine.ran == ["make", "./final", "./report", "./report", "./report"]

    again = session.reopen(run.paths).request

    assert (again.asked.repeat, again.asked.measured) == (3, ("3",))
    assert (again.repeated, again.budget_s) == ({2}, 300.0)


FINAL = "{run: 'echo Op Time: 0.0123', name: final}"
PROJECT = {"rai_build.yml": f"commands: {{build: [{FINAL}, 'true']}}\n"}


def test_the_command_line_repeats_shows_one_round_and_sums_the_others_up(
    project, monkeypatch
):
    monkeypatch.setenv("RAI_ENGINE", "bare")  # a replay is without isolation only so
    done = rai("run", "--engine", "bare", "--repeat", "4", cwd=project)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Op Time: 0.0123\n"
    assert "Command 1 (final), median of 4 rounds: op time 12.30 ms" in done.stderr
    assert (
        rai("logs", "latest", "--command", "1", cwd=project).stdout == 4 * done.stdout
    )
    again = rai("replay", "latest", "--json", cwd=project)
    assert json.loads(again.stdout)["samples"][0]["op_time_s"]["n"] == 4


def test_what_is_of_repeats_alone_is_refused_without_them(project):
    done = rai("run", "--command", "1", cwd=project)
    assert done.returncode == 2
    assert "--command is for the repeats of --repeat N" in done.stderr

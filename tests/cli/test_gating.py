"""`rai run --fail-if`, as a user types it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from random import Random

import pytest

from runner.cli import gating
from runner.core import RunRecord
from runner.figures.comparison import Comparison, compare
from runner.figures.gate import GateOutcome, parse
from runner.report.diff import between
from runner.report.diff_nouns import DiffSide
from tests.kit.program import rai

SPEC = """\
commands:
  build:
    - {run: "cat $RAI_SOURCE_DIR/printed", name: final}
"""


PRINTED = "Op Time: {}\nCorrectness: 0.84 Model: ece408\n"
PROJECT = {"rai_build.yml": SPEC, "printed": PRINTED.format(0.5)}


def prints(project: Path, *, op_time_s: float) -> None:
    (project / "printed").write_text(PRINTED.format(op_time_s))


def run(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CI": ""}
    return rai("run", project, "--engine", "bare", *words, env=environment)


def said(done: subprocess.CompletedProcess[str]) -> str:
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("outcome", "lines", "status"),
    [
        (GateOutcome(passed=("a", "b")), ["Gate passed: a", "Gate passed: b"], 0),
        (
            GateOutcome(passed=("a",), failed=("b",)),
            ["Within its limit: a", "Gate failed: b"],
            7,
        ),
        (
            GateOutcome(passed=("a",), unsure=("b",)),
            [
                "Within its limit: a",
                "Gate inconclusive: b",
            ],
            0,
        ),
    ],
)
def test_a_gate_has_one_outcome_however_many_figures_it_judges(outcome, lines, status):
    said = []
    assert gating.print_outcome(outcome, lambda text, _: said.append(text)) == status
    assert said == lines


@pytest.mark.parametrize(("unsure", "failed"), [("warn", 0), ("fail", 1)])
def test_an_undecided_gate_fails_only_if_it_is_told_to(unsure, failed):
    random = Random(3)
    sides = [
        {"op_time[1]": [random.lognormvariate(mean, 0.4) for _ in range(12)]}
        for mean in (0.0, 0.1)
    ]
    found = Comparison(compare(*sides, paired=True), True, 12)
    run = RunRecord("a", "/p", "rai_build.yml", 0.0)
    diff = between(DiffSide(run), DiffSide(run), found)
    outcome = gating.of_diff(
        parse(["op_time>1%", "op_time<-1%"]),
        diff,
        found,
        run,
        gating.Unsure(unsure),
    )
    assert bool(outcome.failed) == failed
    assert bool(outcome.unsure) != failed


def test_a_value_beyond_a_limit_ends_with_7_and_the_sentence_why(project):
    done = run(project, "--fail-if", "correctness<0.85")
    assert done.returncode == 7
    assert said(done) == (
        '✱ Gate failed: "correctness<0.85": correctness[final] is 0.84'
    )


def test_values_within_the_limits_end_with_0_and_say_so(project):
    done = run(project, "--fail-if", "correctness<0.8", "--fail-if", "op_time>1s")
    assert done.returncode == 0
    assert done.stderr.count("Gate passed") == 2


def test_a_single_run_is_no_baseline_for_a_percentage(project):
    assert run(project).returncode == 0
    words = ("--fail-if", "op_time>3%", "--baseline", "latest")
    refused = run(project, *words)
    assert refused.returncode == 2
    assert "a verdict needs 10 samples a side, and op_time[final] has 1;" in said(
        refused
    )


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            ["--fail-if", "op_tme>3%"],
            "'op_tme' is no metric; did you mean",
        ),
        (["--fail-if", "op_time>3%"], "there is no run to compare with; name one by"),
        (["--baseline", "latest"], "--baseline is for the percentages of --fail-if"),
        (["--fail-if", "op_time>3s", "-d"], "--detach does not wait for it"),
        (["--fail-if", "op_time>3s", "--watch"], "--watch makes many"),
    ],
)
def test_what_cannot_be_judged_is_refused_before_anything_runs(project, words, why):
    done = run(project, *words)
    assert done.returncode == 2
    assert why in done.stderr
    assert "Op Time" not in done.stdout


def test_a_run_that_fails_keeps_its_own_exit_code(project):
    (project / "printed").unlink()
    done = run(project, "--fail-if", "correctness<0.85")
    assert done.returncode == 1
    assert said(done) == "✱ The gate is not judged: the run failed."


def test_ten_rounds_of_each_run_give_a_verdict(project):
    assert run(project, "--repeat", "10").returncode == 0
    prints(project, op_time_s=0.6)
    words = ("--fail-if", "op_time>3%", "--baseline", "latest", "--repeat", "10")
    done = run(project, *words)
    assert done.returncode == 7
    assert said(done) == (
        '✱ Gate failed: "op_time>3%": op_time[final] is slower: +20.0 %'
        " (99.5 % interval +20.0 % to +20.0 %, 10 and 10 samples; measured"
        " apart, so the machine may have changed too); medians 500.0 ms before, 600.0"
        " ms after"
    )

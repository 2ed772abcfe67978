"""`rai diff`: which runs are compared, and what of them is read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from runner.core import Machine, Reason, Verdict, record
from runner.store.paths import Home
from tests.kit import records
from tests.kit.program import rai

AT = 1_700_000_000.0
IDS = ("aa00000001", "bb00000002", "cc00000003", "dd00000004")


@pytest.fixture
def runs(home: Path) -> Home:
    """Make the records of runs: of one project, another, that one, and that one."""
    made = Home(home / "rai")
    for number, name in enumerate(IDS):
        put(made, name, number, project="/other" if number == 1 else "/mine")
    return made


def put(home: Home, name: str, number: int, **facts: Any) -> None:
    at = AT + number
    ended = records.ended(name, created_at=at, ended_at=at, **facts)
    paths = home.run(name)
    paths.root.mkdir(parents=True, exist_ok=True)
    for path in (paths.events, paths.stdout, paths.stderr):
        path.write_bytes(b"")
    paths.spec.write_text(f"# {number}\n")
    paths.record.write_bytes(record.to_json(ended))


def timed(home: Home, name: str, times_s: Sequence[float], **facts: Any) -> None:
    """Make the record of a run with a round for each of these op times."""
    commands = records.rounds(times_s, "python final.py")
    put(home, name, int(name[-1]), project="/mine", commands=commands, **facts)


def compared(*words: str) -> tuple[str, str]:
    done = rai("diff", *words, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return found["before"]["id"], found["after"]["id"]


def test_a_baseline_is_the_earlier_run_and_runs_have_short_names(runs):
    one, other, third, last = IDS

    assert compared(one, third) == (one, third)
    assert compared(third[:3], "--baseline", one[:3]) == (one, third)
    assert compared("--baseline", other) == (other, last)
    assert compared(third, one) == (third, one)
    assert rai("tag", one, "base").returncode == 0
    assert compared("base", "latest") == (one, last)


def test_without_a_word_the_latest_is_compared_with_the_one_before_of_its_project(runs):
    one, _, third, last = IDS

    assert compared() == (third, last)
    assert compared(third) == (one, third)


def test_a_run_that_was_measured_beside_another_is_compared_with_that(runs):
    put(runs, "ee00000005", 5, project="/mine", beside=IDS[1])

    assert compared() == (IDS[1], "ee00000005")


def test_either_side_of_a_bench_is_compared_as_the_bench_did(runs):
    put(runs, "ee00000005", 5, project="/mine", beside="ff00000006")
    put(runs, "ff00000006", 6, project="/mine", beside="ee00000005")

    for word in ("ee00000005", "ff00000006"):
        assert compared(word) == ("ee00000005", "ff00000006")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([IDS[0]], "has no earlier run of its project"),
        ([IDS[1]], "has no earlier run of its project"),
        ([IDS[0], IDS[0]], f"both are run {IDS[0]}"),
        ([IDS[0], IDS[1], "--baseline", IDS[2]], "three runs are given"),
        (["nothing"], "no run 'nothing'"),
        (["", IDS[0]], "id is empty"),
    ],
)
def test_words_that_name_no_two_runs_are_refused(words, why, runs):
    done = rai("diff", *words)

    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr


def test_without_a_run_it_says_how_to_make_one(home):
    done = rai("diff")

    assert done.returncode == 2
    assert "no run has ended yet" in done.stderr


def test_build_files_are_read_from_the_folders_and_may_be_absent(runs):
    shown = rai("diff").stdout
    assert "-# 2\n+# 3\n" in shown

    runs.run(IDS[3]).spec.unlink()

    assert "Build file" not in rai("diff").stdout
    assert json.loads(rai("diff", "--json").stdout)["spec"] is None


def test_the_files_that_changed_are_named_from_what_was_packed(home, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "rai_build.yml").write_text("commands: {build: [echo hello]}\n")
    for name in ("same", "gone", "edited"):
        (project / name).write_text("one\n")
    assert rai("run", "-p", project, "--engine", "bare").returncode == 0
    (project / "gone").unlink()
    (project / "edited").write_text("two\n")
    (project / "new").write_text("one\n")
    assert rai("run", "-p", project, "--engine", "bare").returncode == 0

    found = json.loads(rai("diff", "--json").stdout)
    source = Home(home / "rai").run(found["before"]["id"]).source
    source.write_bytes(source.read_bytes()[:-20])

    assert found["files"] == {
        "added": ["new"],
        "removed": ["gone"],
        "changed": ["edited"],
        "left_out": 0,
    }
    assert json.loads(rai("diff", "--json").stdout)["files"] is None


NOISE = [1 + 0.001 * (n % 5) for n in range(12)]
GATE = ("--fail-if", "op_time>3%")


@pytest.mark.parametrize(("factor", "status"), [(1.0, 0), (1.02, 0), (1.1, 7)])
def test_a_gate_ends_with_seven_if_a_condition_holds(factor, status, runs):
    timed(runs, IDS[2], NOISE)
    timed(runs, IDS[3], [factor * n for n in NOISE])

    done = rai("diff", *GATE)

    assert done.returncode == status, done.stderr
    assert ("Gate failed:" if status else "Gate passed:") in done.stderr
    assert json.loads(rai("diff", *GATE, "--json").stdout)["gate"]["refused"] == []


def test_a_percentage_of_what_is_not_comparable_is_refused_and_a_value_is_judged(runs):
    here = Machine("here", "Linux", "cpu", 2, 1 << 30, "3.11", "0.1.0")
    there = Machine("here", "Linux", "another", 2, 1 << 30, "3.11", "0.1.0")
    timed(runs, IDS[2], NOISE, machine=here)
    timed(runs, IDS[3], [2 * n for n in NOISE], machine=there)

    done = rai("diff", *GATE)

    assert done.returncode == 2
    assert "op_time[1] is not comparable (CPU: cpu before" in done.stderr
    assert rai("diff", "--fail-if", "op_time>1.5s").returncode == 7


def test_a_run_that_failed_is_not_judged(runs):
    failed = Verdict(True, False, None, Reason.COMMAND_FAILED)
    paths = runs.run(IDS[3])
    whole = record.from_json(paths.record.read_bytes())
    paths.record.write_bytes(record.to_json(replace(whole, verdict=failed)))

    done = rai("diff", *GATE)

    assert done.returncode == 2
    assert "is not done: command failed" in done.stderr

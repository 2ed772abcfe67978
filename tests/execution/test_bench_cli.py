"""`rai bench`, as a user types it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from runner.cli.bench import PAIRS
from runner.figures.statistics import looks
from runner.store.paths import Home
from tests.kit.program import Forked, rai
from tests.kit.running import IMAGE
from tests.pack.test_git import call, commit

pytestmark = pytest.mark.programs

WAIT_S = 60.0
SPEC = f"""\
rai: {{image: {IMAGE}}}
commands:
  build:
    - {{run: sh $RAI_SOURCE_DIR/final.sh, name: final}}
"""
SCRIPT = """\
# Times that differ a little from call to call, in thousandths of {base}.
n=$(cat calls 2>/dev/null || echo 0)
echo $((n + 1)) > calls
echo "New Inference"
echo "Op Time: 0.{base}$((n * 7 % 10))"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Make one of three commits: the second is 5 % slower, the third the same."""
    folder = tmp_path / "project"
    folder.mkdir()
    call(folder, "init", "-q", "-b", "trunk")
    (folder / "rai_build.yml").write_text(SPEC)
    for text in ("200", "210", "210"):
        (folder / "final.sh").write_text(SCRIPT.format(base=text))
        call(folder, "add", ".")
        commit(folder)
    return folder


def bench(
    project: Path, *words: str, engine: str = "bare"
) -> subprocess.CompletedProcess[str]:
    named = ("-p", project, "--engine", engine)
    return rai("bench", *named, *words, env={**os.environ, "CI": ""})


def verdict(done: subprocess.CompletedProcess[str]) -> str:
    """Return the verdict on the time that the program printed.

    After how many pairs it stands depends on the real times of the commands too.
    """
    found: Any = json.loads(done.stdout)
    assert found["pairs"] in looks(PAIRS)
    figures = {one["metric"]: one for one in found["diff"]["figures"]}
    name: str = figures["op_time[final]"]["verdict"]
    return name


def test_a_slower_commit_fails_the_gate(project):
    done = bench(project, "HEAD~2", "HEAD~1", "--fail-if", "op_time>3%", "--json")

    assert done.returncode == 7, done.stderr
    assert verdict(done) == "slower"
    (failed,) = json.loads(done.stdout)["gate"]["failed"]
    assert "op_time[final] is slower: +5" in failed
    assert "Gate failed" in done.stderr


@pytest.mark.parametrize(
    "engine",
    [
        pytest.param("local", marks=pytest.mark.local),
        pytest.param("docker", marks=pytest.mark.docker),
    ],
)
def test_both_sides_run_in_turn_on_an_engine(project, engine):
    words = ("HEAD~2", "HEAD~1", "--pairs", "2", "--json")
    done = bench(project, *words, engine=engine)

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["pairs"] == 2
    figures = {one["metric"]: one for one in found["diff"]["figures"]}
    assert "op_time[final]" in figures


def test_a_commit_is_compared_with_the_folder_as_it_is_now(project):
    (project / "final.sh").write_text(SCRIPT.format(base="190"))

    done = bench(project, "trunk")

    assert done.returncode == 0, done.stderr
    assert "op_time[final] is faster: -9" in done.stdout
    assert "B: the folder" in done.stderr
    assert done.stdout.index("Figures: medians") < done.stdout.index("is faster")
    (strip,) = re.findall(r" B / A +-9.* %  ([▁-█]+)\n", done.stdout)
    assert len(strip) in looks(PAIRS)


def test_several_sides_are_each_compared_with_the_first(project):
    sides = ("HEAD~1", "HEAD", "HEAD~2")
    done = bench(project, *sides, "--fail-if", "op_time>3%", "--json")

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (other,) = found["others"]
    verdicts = [
        {one["metric"]: one["verdict"] for one in each["diff"]["figures"]}
        for each in (found, other)
    ]
    told = [each["op_time[final]"] for each in verdicts]
    assert told == ["no difference", "faster"]
    assert "Measuring A, B and C in turn" in done.stderr
    assert "Gate passed: C: " in done.stderr


def test_both_runs_have_a_record_at_their_commits(project):
    done = bench(project, "HEAD~2", "HEAD~1", "--pairs", "1", "--json")

    found = json.loads(done.stdout)
    runs = (found["before"], found["after"])
    commits = [call(project, "rev-parse", f"HEAD~{n}") for n in (2, 1)]
    assert [run["git"]["commit"] for run in runs] == commits
    assert [run["git"]["dirty"] for run in runs] == [False, False]
    assert {run["project"] for run in runs} == {str(project)}
    assert [run["beside"] for run in runs] == [runs[1]["id"], runs[0]["id"]]
    assert [run["title"] for run in runs] == ["bench: A", "bench: B"]
    logs = ", ".join(f"rai logs {run['id']}" for run in runs)
    assert f"not shown: {logs}\n" in done.stderr


def test_the_exit_status_is_that_of_the_side_that_fails(project):
    (project / "final.sh").write_text("exit 3\n")

    done = bench(project, "HEAD", "--fail-if", "op_time>3%")

    assert done.returncode == 1
    assert "The bench ended early, because B failed." in done.stderr
    assert "rai logs" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nothing"], "neither a folder nor a commit"),
        (["HEAD", "--fail-if", "op_time>3%", "--pairs", "9"], "needs 10 pairs"),
        (["HEAD", "--budget", "long"], "is not a time span"),
        (["HEAD", "--command", "none"], "--command none"),
        (["HEAD", "--pairs", "0"], "--pairs"),
        (["HEAD"] * 9, "9 sides; a bench has 8 at most"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_runs(project, words, says, home):
    done = bench(project, *words)

    assert done.returncode == 2
    assert says in done.stderr
    assert not list((home / "rai").glob("runs/*/events.jsonl"))


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("peak_memory>10%", "a run has one value of it"),
        ("op_time[other]>3%", "there is no such figure; there is op_time[final]"),
        ("correctness<0.8", "there is no such figure; there is op_time[final]"),
    ],
)
def test_a_gate_that_no_pair_can_decide_ends_a_bench_at_the_first(
    project, home, condition, says
):
    done = bench(project, "HEAD~1", "HEAD", "--fail-if", condition)

    assert done.returncode == 2
    assert says in done.stderr
    assert "Pair 1" in done.stderr
    assert "Pair 2" not in done.stderr
    ends = [p.read_text() for p in (home / "rai").glob("runs/*/events.jsonl")]
    assert len(ends) == 2
    assert all('"Finished"' in text.splitlines()[-1] for text in ends)


def test_figures_of_commands_that_ran_once_are_left_out_and_counted(project):
    (project / "once.sh").write_text(SCRIPT.format(base=400))
    once = "    - sh $RAI_SOURCE_DIR/once.sh\n"
    own, last = SPEC.rsplit("    - ", 1)
    (project / "rai_build.yml").write_text(f"{own}{once}    - {last}")

    done = bench(project, str(project), "--pairs", "2", "--command", "final")

    table, _, rest = done.stdout.partition("not shown")
    assert "command[final].wall" in table
    assert "[1]" not in table
    assert re.match("  [0-9] figures of commands that ran once: rai diff ", rest)
    assert done.stderr.count(": op_time[final] A ") == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_both_runs_and_leaves_nothing(project, home, number):
    (project / "final.sh").write_text("sleep 60\n")
    running = Forked(
        *("bench", "-p", project, "--engine", "bare", project, project),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "CI": ""},
    )
    opened = Home(home / "rai")
    until = time.monotonic() + WAIT_S
    while b"CommandStarted" not in b"".join(_events(opened)):
        assert time.monotonic() < until
        time.sleep(0.01)
    running.send_signal(number)
    _, err = running.communicate(timeout=WAIT_S)

    assert running.returncode == 130, err
    records = [json.loads(p.read_text()) for p in opened.runs.glob("*/record.json")]
    assert [record["state"] for record in records] == ["cancelled"] * 2
    assert not list(opened.benches.iterdir())


def _events(home: Home) -> list[bytes]:
    return [path.read_bytes() for path in home.runs.glob("*/events.jsonl")]

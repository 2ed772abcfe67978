"""Assignments of a site's own: their folders, and what a harness says of a team."""

from __future__ import annotations

import os
from pathlib import Path
from textwrap import dedent

import pytest

from runner.core import Reason
from runner.core.errors import Cancel, ConfigError
from runner.core.milestone import TIMED_BY, HeldKind, Trust
from runner.execution.prepare import Options
from runner.spec import milestones
from runner.spec.milestones import reader
from runner.store import runs
from runner.store.paths import Home
from runner.submit import judging, outcome, staging, standings, submission
from runner.submit.files import SubmittedFile
from runner.submit.outcome import SubmissionOutcome
from runner.submit.staging import StagedParts, StagingArea
from tests.kit.fake_engine import FakeEngine, FakeResult
from tests.kit.program import rai
from tests.submit.test_judging import GPU, ONE_GPU

MILESTONE = """\
title: "Exercise: add"
edition: 2026fa
trust: timed
team: {files: ["**/*"]}
"""
BUILD = """\
rai: {version: 0.2}
resources: {limits: {time: 1m, memory: 1GiB}}
commands:
  build:
    - 'true'
    - run: python3 $RAI_SOURCE_DIR/harness.py
      expect: {correctness: 1}
    - ls
"""
HARNESS = dedent("""\
    import sys
    sys.path.insert(0, "/src")
    from add import add
    right = sum(add(n, 2) == n + 2 for n in range(8)) / 8
    print(f"Op Time: 0.0015\\nOp Time: 0.001\\nCorrectness: {right} Model: add")
    """)
RUN = "python3 $RAI_SOURCE_DIR/harness.py"


def written(folder: Path, **texts: str) -> Path:
    """Write files; `__` in a name is a slash, `_` before an ending a dot."""
    for name, text in texts.items():
        above, _, last = name.replace("__", "/").rpartition("_")
        file = folder / f"{above}.{last}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def assignment(site: Path, points: str = "[]") -> Path:
    """Write the assignment `add`, whose harness adds up to 2.5 ms; return ``site``."""
    add = written(site / "add", milestone_yml=f"{MILESTONE}points: {points}\n")
    written(add / "staff", harness_py=HARNESS)
    (add / "staff/rai_build.yml").write_text(BUILD)
    return site


@pytest.fixture(autouse=True)
def site(tmp_path: Path) -> Path:
    return assignment(tmp_path / "site")


@pytest.fixture
def team(tmp_path: Path) -> Path:
    return written(tmp_path / "team", add_py="def add(a, b):\n    return a + b\n")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("RAI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("RAI_MILESTONES", str(tmp_path / "site"))
    return Home(tmp_path / "home")


def judge(team: Path, engine: FakeEngine) -> SubmissionOutcome:
    proposal = submission.propose("add", team, Options(), engine)
    *_, last = judging.judge(proposal, Cancel())
    return last.outcome


def printing(text: str, **more: object) -> FakeEngine:
    """Return an engine whose harness prints a text."""
    script = {
        "true": FakeResult(stdout=b"Op Time: 9\n"),
        RUN: FakeResult(text.encode()),
    }
    return FakeEngine(script=script, **more)  # type: ignore[arg-type]


def test_the_time_is_the_sum_of_the_last_command_that_printed_one(team, site, home):
    found = judge(team, printing("Op Time: 0.0015\nOp Time: 1 ms\nCorrectness: 1\n"))

    assert found.reason is Reason.DONE and found.measurement
    assert outcome.sentence(found) == (
        "Submission to add: accepted: 2.500 ms, timed by the staff's harness, in one"
        " process with the team's code; counted: rai ranking add."
    )
    kept = runs.measurement_of(home.run(found.last))
    assert kept is not None and kept.counts and kept.host is not None
    (entry,) = kept.entries
    assert (entry.ms, entry.ratio, entry.interval, kept.gpu) == (2.5, None, None, None)
    assert kept.score == 2.5 and kept.host.trust == "timed"
    staff = milestones.find("add", [site])
    assert kept.host.golden == staging.golden(staff).digest


def test_with_a_gpu_the_measurement_says_which(team, site):
    text = BUILD.replace("resources: {", "resources: {gpu: {count: 1}, ")
    (site / "add/staff/rai_build.yml").write_text(text)

    engine = printing("Op Time: 1\nCorrectness: 1\n", situation=ONE_GPU)
    found = judge(team, engine).measurement

    assert found is not None and found.gpu is not None
    assert (found.gpu.name, found.gpu.uuid) == (GPU.name, GPU.uuid)
    assert found.architecture == "sm_90"


@pytest.mark.parametrize(
    ("printed", "exit_code", "reason", "said"),
    [
        (
            "Op Time: 1\nCorrectness: 0.5",
            0,
            Reason.WRONG_ANSWER,
            "found correctness 0.5",
        ),
        ("", 1, Reason.COMMAND_FAILED, "exited 1"),
    ],
)
def test_a_harness_that_ends_badly_gives_no_time(
    team, printed, exit_code, reason, said
):
    engine = printing(printed)
    engine.script = {**engine.script, RUN: FakeResult(printed.encode(), b"", exit_code)}

    found = judge(team, engine)

    assert found.reason is reason and said in found.message
    assert found.measurement is None


@pytest.mark.parametrize("situation", [None, ONE_GPU])
def test_no_words_of_a_team_make_its_failure_that_of_the_machine(team, site, situation):
    if situation:
        text = BUILD.replace("resources: {", "resources: {gpu: {count: 1}, ")
        (site / "add/staff/rai_build.yml").write_text(text)
    engine = printing("", **({"situation": situation} if situation else {}))
    said = b"CUDA error: no CUDA-capable device is detected\n"
    engine.script = {**engine.script, RUN: FakeResult(said, b"", 1)}

    found = judge(team, engine)

    assert found.reason is Reason.COMMAND_FAILED and found.reason in standings.CHARGED
    assert "the program found no GPU" in found.message


@pytest.mark.parametrize("printed", ["", "Op Time: 0\n", "Op Time: 1e99\n"])
def test_without_a_time_the_assignment_is_wrong_and_nothing_counts(team, printed):
    script = {RUN: FakeResult(f"{printed}Correctness: 1\n".encode())}

    found = judge(team, FakeEngine(script=script))

    assert found.reason is Reason.INTERNAL and found.measurement
    assert "printed no `Op Time:` above 0; tell its staff" in found.message
    assert not found.measurement.counts


def test_nothing_of_the_team_shadows_what_is_the_staffs(tmp_path, site):
    written(site / "add/staff/lib", check_h="the staff's")
    milestone = milestones.find("add", [site])
    golden, own = staging.golden(milestone), ["lib/own.h", "sub/harness.py"]
    shadows = (
        *("harness.py", "HARNESS.PY/x.py", "lib", "Lib/CHECK.h", "lib/check.h/x"),
        *("rai-build.yml", "RAI_BUILD.YML", "dockerfile", ".raiignore", ".gitignore"),
        *(".dockerignore", "Dockerfile.dockerignore", "sub/.gitignore"),
    )
    team = tuple(SubmittedFile(name, name, b"", "") for name in (*shadows, *own))

    assert [file.name for file in staging.beside(team, golden.files)] == own
    parts = StagedParts(golden, team)
    folder = StagingArea(tmp_path).stage(milestone.runs[0], parts)
    assert (folder / "harness.py").read_text() == HARNESS
    assert (folder / "sub/harness.py").read_text() == ""
    seen_by_the_image = (folder / ".dockerignore").read_text().splitlines()
    assert (
        "!/harness.py" in seen_by_the_image and "!/lib/own.h" not in seen_by_the_image
    )


def test_a_folder_is_a_milestone_beside_files_and_its_client_needs_no_staff(site):
    (site / "single.yml").write_text(MILESTONE)
    known = milestones.names([site])
    assert known["add"] == site / "add/milestone.yml"
    raw, file = milestones.read("ADD", [site])

    client = reader.parse(raw, str(file), "add")
    here = milestones.find("Add", [site])

    assert (client.trust, client.name, here.name) == (Trust.TIMED, "add", "add")
    for found in (client, here):
        assert [run.name for run in found.runs] == ["harness"]
        assert found.runs[0].held(HeldKind.STAFF) and not found.runs[0].gpu
    with pytest.raises(
        ConfigError, match="a timed milestone is a folder, with `staff/`"
    ):
        milestones.find("single", [site])
    (site / "add.yml").write_text(MILESTONE)
    with pytest.raises(ConfigError, match="are one milestone's name"):
        milestones.names([site])


def test_all_problems_of_both_files_are_said_when_it_is_read(site):
    more = "runs: [{name: x, target: y, commands: [z]}]\ngrace: 1h\n"
    (site / "add/milestone.yml").write_text(MILESTONE + more)
    text = BUILD.replace("{time: 1m", "{tome: 1m").replace("'true'", "true: [")
    (site / "add/staff/rai_build.yml").write_text(text)

    with pytest.raises(ConfigError) as caught:
        milestones.find("add", [site])

    said = str(caught.value)
    assert "`runs` is for rai's judge" in said and "`grace` is after a deadline" in said
    assert "staff/rai_build.yml:6:" in said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("gpu: {count: 2}", "is timed on one GPU"),
        ("gpu: {count: 1, optional: true}", "is timed on one GPU"),
        ("build_image: {dockerfile: Own}", "builds Own, which is not in staff/"),
        ("link", "is a link"),
        ("name", "is a name that rai does not take"),
        ("many", "holds more than 500 files"),
        ("nothing", "rai_build.yml is missing"),
        ("ranked", "only a timed milestone has a folder `staff/`"),
    ],
)
def test_what_is_wrong_with_staff_is_said(site, change, said):
    staff = site / "add/staff"
    file = staff / "rai_build.yml"
    match change:
        case "link":
            (staff / "secret").symlink_to("/etc/passwd")
        case "name":
            (staff / "two words").write_text("")
        case "many":
            for number in range(500):
                (staff / f"{number}.h").write_text("")
        case "nothing":
            file.unlink()
        case "ranked":
            own = site / "add/milestone.yml"
            own.write_text(MILESTONE.replace("timed", "recorded"))
        case _ if change.startswith("gpu"):
            file.write_text(BUILD.replace("resources: {", f"resources: {{{change}, "))
        case _:
            file.write_text(BUILD.replace("commands:", f"commands:\n  {change}"))

    with pytest.raises(ConfigError) as caught:
        milestones.find("add", [site])

    assert said in str(caught.value)


@pytest.mark.programs
def test_init_copies_the_handout_of_an_assignment(tmp_path, site):
    handout = written(site / "add/handout", add_py="# TODO\n", src__more_h="//\n")

    done = rai("init", "--milestone", "ADD", tmp_path / "mine")

    assert done.returncode == 0 and "rai run -p" in done.stderr + done.stdout
    assert (tmp_path / "mine/src/more.h").read_text() == "//\n"
    for number in range(7):
        (handout / f"{number}.h").write_text("")
    done = rai("init", "--milestone", "add", tmp_path / "other")
    assert done.returncode == 2 and "holds more than 8 files" in done.stderr


@pytest.mark.local
@pytest.mark.programs
def test_a_team_is_judged_and_ranked_by_its_time_and_that_is_marked(team):
    words = ("submit", "add", "-p", team, "--engine", "local")

    done = rai(*words)
    assert done.returncode == 0, done.stderr
    assert TIMED_BY in done.stdout and "accepted: 2.500 ms" in done.stderr
    assert TIMED_BY in rai("show", "latest").stdout

    written(team, add_py="def add(a, b):\n    return a - b\n", harness_py="print(1)")
    done = rai(*words)
    assert done.returncode == 4 and "expected correctness 1, found" in done.stderr
    assert "(rai_build.yml:7:29)" in done.stderr, "places name no folder that is gone"
    assert str(os.environ["RAI_HOME"]) not in done.stderr

    heading, heads, *rows = rai("ranking").stdout.splitlines()
    assert heading == f"add, fp32, local: {TIMED_BY}"
    assert heads.split()[:2] == ["time", "variant"]
    assert len(rows) == 1 and rows[0].startswith("2.500 ms  add")

"""Milestones: our files, a site's, and what is wrong with one."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from runner.core.errors import ConfigError, UsageError
from runner.core.milestone import Counted, HeldKind, Trust
from runner.spec import buildfile, milestones
from runner.spec.milestones import reader
from runner.store import settings
from runner.submit import staging

DOCS = Path(__file__).resolve().parents[2] / "docs/teach.md"

SMALL = """\
title: "Exercise: a first kernel"
edition: 2019fa
trust: recorded
team: project
runs:
  - name: all
    target: measure
    holds: [team]
    commands: [make]
"""


def site(folder: Path, **texts: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.yml").write_text(text)
    return folder


def wrong(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as error:
        milestones.find("bad", [site(tmp_path / "site", bad=text)])
    return [
        str(problem).removeprefix(str(tmp_path)) for problem in error.value.problems
    ]


@pytest.mark.parametrize("name", ["m1", "m2", "m3", "m4", "final"])
def test_our_milestones_are_of_edition_2019fa_and_their_runs_are_build_files(name):
    found = milestones.find(name)
    assert (found.name, found.edition) == (name, "2019fa")
    assert [file.path for file in found.required] == ["report.pdf"]
    for run in found.runs:
        spec, warnings = buildfile.parse(staging.build_text(run), "rai_build.yml")
        assert warnings == []
        assert spec.limits == run.limits and not spec.limits.network
        assert tuple(command.text for command in spec.commands) == run.commands
        assert (spec.gpu is not None) == run.gpu
        assert spec.env == run.env
        assert [(d.url, d.md5) for d in spec.data] == [(d.url, d.md5) for d in run.data]
        assert spec.build_image and spec.build_image.target == run.target


def test_ranked_milestones_never_hold_a_teams_files_where_there_is_a_gpu():
    for name in milestones.names():
        found = milestones.find(name)
        if found.trust is Trust.RANKED:
            assert not any(r.gpu and r.held(HeldKind.TEAM) for r in found.runs)


def test_how_many_entries_a_milestone_takes_is_data():
    counts = {name: milestones.find(name).entries for name in ("m3", "m4", "final")}
    assert {name: (n.least, n.most) for name, n in counts.items()} == {
        "m3": (1, 1),
        "m4": (3, 3),
        "final": (1, 1),
    }
    assert not milestones.find("m2").planned


def test_a_name_is_found_in_any_case():
    assert milestones.find("FINAL") == milestones.find("final")


def test_an_unknown_name_lists_those_there_are_and_the_nearest():
    with pytest.raises(UsageError) as error:
        milestones.find("finel")
    text = str(error.value)
    assert "'finel'" in text and "did you mean final?" in text
    assert "final, m1, m2, m3, m4" in text


def test_a_sites_milestone_wins_over_ours_and_the_first_folder_over_the_others(
    tmp_path,
):
    one = site(tmp_path / "one", M3=SMALL)
    two = site(tmp_path / "two", m3=SMALL.replace("first", "second"), extra=SMALL)
    folders = [one, two]
    assert milestones.find("m3", folders).title == "Exercise: a first kernel"
    assert milestones.find("extra", folders).name == "extra"
    assert milestones.find("m4", folders) == milestones.find("m4")


def test_a_folder_that_is_not_there_is_said(tmp_path):
    with pytest.raises(ConfigError, match="milestones"):
        milestones.find("m3", [tmp_path / "absent"])


def test_two_files_of_one_name_are_refused(tmp_path):
    folder = site(tmp_path / "site", m5=SMALL, M5=SMALL)
    with pytest.raises(ConfigError, match="one milestone's name"):
        milestones.find("m5", [folder])


def test_the_settings_name_a_sites_folders(tmp_path):
    file = tmp_path / "config.yml"
    file.write_text("milestones: ours:/srv/theirs\n")
    found, _ = settings.load({}, [file], {})
    assert found.milestones == (tmp_path / "ours", Path("/srv/theirs"))
    variable = {"RAI_MILESTONES": "/a:/b"}
    assert settings.load(variable, [file], {})[0].milestones == (Path("/a"), Path("/b"))
    again = settings.load(settings.variables(found), [], {})[0]
    assert again.milestones == found.milestones


def test_the_example_of_the_documents_can_be_read(tmp_path):
    _, named, after = DOCS.read_text().partition("# half.yml")
    text = named + after.partition("```")[0]
    found = milestones.find("half", [site(tmp_path / "site", half=text)])
    assert found.accuracy == "half" and found.attempts == 10
    assert found.deadline.astimezone(UTC) == datetime(2026, 12, 12, 5, 59, tzinfo=UTC)
    assert found.rules == {"rounds": 40, "cool_c": 60}
    known = found.reference("NVIDIA H200")
    assert known and (known.ms, known.band) == (5.4, 0.05)
    ours = milestones.find("final")
    assert found.layers == ours.layers and found.team == ours.team
    assert [run.holds for run in found.runs] == [run.holds for run in ours.runs]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2026-12-11 23:59", "no zone"),
        ("2026-12-11 23:59 America/Chikago", "no time zone America/Chikago"),
        ("2026-12-11 23:59 ../../etc/passwd", "expected a date"),
        ("2026-02-30 12:00 UTC", "there is no 2026-02-30"),
        ("2026-12-11 24:10 UTC", "there is no 2026-12-11 24:10"),
        ("2026-03-08 02:30 America/Chicago", "does not exist that day"),
        ("2026-11-01 01:30 America/Chicago", "occurs twice that day"),
        ("soon", "expected a date"),
    ],
)
def test_a_deadline_that_is_no_moment_is_refused(text, says):
    with pytest.raises(ValueError, match=says):
        reader.deadline(text)


def test_a_deadline_counts_in_its_zone():
    found = reader.deadline("2026-07-01 12:00:30 Europe/Paris")
    assert found.astimezone(UTC) == datetime(2026, 7, 1, 10, 0, 30, tzinfo=UTC)


def test_every_problem_of_a_file_is_told_with_its_place(tmp_path):
    text = """\
title: a
editon: 2019fa
trust: rankd
deadline: 2026-12-11 23:59
attempts: none
team: {below: ../up, files: ["*.cu", "/etc/*"]}
entries: {least: 3, most: 1}
layers: [{name: a, M: 1, C: 1, H: 2, W: 2, K: 5}]
rules: {rounds: -1, roundz: 3}
references: [{gpu: H200, ms: 0}]
runs:
  - name: a/b
    target: x
    holds: [jab, {build: before, files: ["*"], into: team}]
    commands: []
    limits: {tim: 3}
"""
    told = wrong(tmp_path, text)
    for says in (
        "bad.yml:2:1: unknown key `editon`",
        "no `edition`",
        'bad.yml:3:8: trust is "rankd"',
        "bad.yml:4:11: deadline",
        "bad.yml:5:11: attempts",
        "team.below",
        "team.files[2]",
        "entries is from 3 to 1",
        "layers need `images`",
        "rules.rounds",
        "unknown rule 'roundz'",
        "references[1].ms",
        "runs[1].name",
        "runs[1].holds[1]",
        "no run before comes before this one",
        "holds[2].into is team",
        "runs[1] has no commands",
        "unknown key `tim`",
    ):
        assert any(says in line for line in told), says
    lines = [int(line.split(":")[1]) for line in told]
    assert lines == sorted(lines)


@pytest.mark.parametrize("text", ["", "- a\n", "title: [\n", "x: 1\n", "\0"])
def test_what_is_no_milestone_is_refused(tmp_path, text):
    assert wrong(tmp_path, text)


def test_a_ranked_milestone_that_would_run_a_teams_code_is_refused(tmp_path):
    told = wrong(tmp_path, SMALL.replace("recorded", "ranked"))
    assert any("nothing of a team but its kernels" in line for line in told)
    assert any("no entries" in line for line in told)
    gpu = """\
title: a
edition: 2019fa
trust: ranked
team: {below: project/cuda, files: ["*.cu"]}
entries: {least: 1}
images: 10
layers: [{name: conv1, M: 1, C: 1, H: 9, W: 9, K: 5}]
runs: [{name: a, target: a, gpu: true, holds: [team], commands: [make]}]
"""
    assert ["holds the team's files" in line for line in wrong(tmp_path, gpu)] == [True]


TIMES = """\
deadline: 2026-12-11 12:00 UTC
grace: 15m
late: 2d
counts: chosen
"""


@pytest.mark.parametrize(
    ("after_s", "late_s", "closed"),
    [
        (0, 0.0, False),
        (15 * 60, 0.0, False),
        (15 * 60 + 1, 901.0, False),
        (2 * 86400, 172800.0, False),
        (2 * 86400 + 1, 172801.0, True),
    ],
)
def test_grace_is_in_time_and_late_counts_from_the_deadline(after_s, late_s, closed):
    found = reader.parse((SMALL + TIMES).encode(), "small.yml", "small")
    at = found.deadline.timestamp() + after_s
    assert (found.late_s_at(at), found.closed(at)) == (late_s, closed)
    strict = reader.parse((SMALL + TIMES.replace("late: 2d\n", "")).encode(), "s", "s")
    assert strict.closed(at) == (after_s > 15 * 60)


def test_the_best_counts_of_what_is_ranked_and_else_the_latest(tmp_path):
    assert milestones.find("final").counting is Counted.BEST
    assert milestones.find("m2").counting is Counted.LATEST
    found = reader.parse((SMALL + TIMES).encode(), "small.yml", "small")
    assert found.counting is Counted.CHOSEN
    assert not milestones.find("m2").closed(1e12), "it has no deadline"
    alone = wrong(tmp_path, f"{SMALL}grace: 5m\n")
    assert "`grace` is after a deadline, and there is none" in alone[0]

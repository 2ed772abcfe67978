"""Boards, points, and what staff decide: which submission counts, and for how much."""

from __future__ import annotations

import csv
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.core import Reason
from runner.core.quantities import DAY_S
from runner.core.wire import Decision, StandingsPage
from runner.server import rules
from runner.server.database import Store
from runner.server.database.accounts import Invitation
from runner.server.grading import Grading
from runner.server.paths import upload_path
from runner.server.scheduling import STAFF
from runner.spec.milestones import reader
from tests.kit import graded
from tests.kit import judge_cases as made
from tests.kit import sample_submission as sample
from tests.kit.calling import rai
from tests.kit.graded import TERM, add, measurement
from tests.kit.store_rows import new_store
from tests.kit.submitted import sealed
from tests.server.database.test_submissions import SHA256

FINAL = (Path(reader.__file__).parent / "final.yml").read_text()
DUE = "2026-12-11 12:00 UTC"
POINTS = f"""
deadline: {DUE}
grace: 15m
late: 2d
late_factor: 50%
points: [{{points: 100, ratio: 0.8}}, {{points: 80, ms: 2}}, {{points: 40}}]
"""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A server's folder, and a site's milestone `final` with points."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    (folder / "server.yml").write_text(f"{rules.TEMPLATE.read_text()}\nterm: {TERM}\n")
    (tmp_path / "site").mkdir()
    (tmp_path / "site/final.yml").write_text(FINAL + POINTS)
    monkeypatch.setenv("RAI_SERVER_STATE", str(folder))
    monkeypatch.setenv("RAI_MILESTONES", str(tmp_path / "site"))
    return folder


@pytest.fixture
def store(state: Path) -> Iterator[Store]:
    opened = new_store(state, Store)
    teams = ("red", "ada"), ("red", "amy"), ("blue", "bo"), ("green", "cy")
    opened.invite([Invitation(*who) for who in teams], graded.AT, 60)
    yield opened
    opened.close()


@pytest.fixture
def grading(store: Store, state: Path) -> Grading:
    return Grading(store, [state.parent / "site"], TERM)


def board(grading: Grading, team: str = "red", *, staff: bool = False) -> StandingsPage:
    return grading.standings(grading.milestone("final"), team, staff=staff)


def places(page: StandingsPage) -> list[tuple[int, float | None]]:
    return [(one.rank, one.ratio) for one in page.boards[0].standings]


def test_who_cannot_be_told_apart_shares_a_rank(grading, store):
    for team, ratio, half in (
        ("a", 0.7, 0.001),
        ("b", 0.75, 0.01),
        ("c", 0.76, 0.01),
        ("d", 0.8, 0.001),
    ):
        add(store, team, measurement(ratio, half))
    assert places(board(grading)) == [(1, 0.7), (2, 0.75), (2, 0.76), (4, 0.8)]


def test_each_model_of_gpu_has_a_board_and_staff_are_on_none(grading, store):
    add(store, "red", measurement(0.7))
    add(store, "blue", measurement(0.6, gpu="NVIDIA A40"))
    add(store, "prof", measurement(0.1), role=STAFF.name)
    found = board(grading).boards
    assert [(one.gpu, len(one.standings)) for one in found] == [
        ("NVIDIA A40", 1),
        ("NVIDIA H200", 1),
    ]


def test_a_team_sees_its_own_name_and_made_up_ones_of_others(grading, store):
    for team, ratio in (("red", 0.7), ("blue", 0.6), ("green", 0.8)):
        add(store, team, measurement(ratio), late_s=60.0)
    red, blue = board(grading, "red"), board(grading, "blue")
    names = {one.ratio: one.name for one in red.boards[0].standings}
    assert names[0.7] == "red" and {"blue", "green"}.isdisjoint(names.values())
    assert [one.own for one in red.boards[0].standings] == [False, True, False]
    assert [bool(one.number) for one in red.boards[0].standings] == [False, True, False]
    other = red.boards[0].standings[0]
    assert other.received_at % DAY_S == DAY_S / 2 and other.late_s == DAY_S
    assert other.variant == ""
    others = {one.ratio: one.name for one in blue.boards[0].standings}
    assert others[0.8] == names[0.8], "a name is the same for all who look"
    staff = board(grading, "prof", staff=True).boards[0].standings
    assert [one.name for one in staff] == ["blue", "red", "green"]
    again = Grading(store, [], TERM)
    assert store.pseudonyms(TERM, []) == again._store.pseudonyms(TERM, {"red", "blue"})


def test_the_best_counts_and_a_worse_one_takes_nothing_away(grading, store):
    best = add(store, "red", measurement(0.7))
    add(store, "red", measurement(0.9))
    add(store, "red", None, reason=Reason.WRONG_ANSWER)
    assert places(board(grading)) == [(1, 0.7)]
    marked = {one.number: one.counts for one in grading.marked(store.submissions())}
    assert marked == {best: True, best + 1: False, best + 2: False}


@pytest.mark.parametrize(
    ("ratio", "late_s", "points"),
    [
        (0.75, 0.0, 100),
        (0.75, 3600.0, 50),
        (0.9, 0.0, 80),  # 1.8 ms
        (1.5, 0.0, 40),
        (1.5, 3600.0, 20),
    ],
)
def test_points_are_the_most_that_a_step_gives_and_less_if_late(
    grading, store, ratio, late_s, points
):
    add(store, "red", measurement(ratio), late_s=late_s)
    [one] = grading.marked(store.submissions())
    assert one.points == points


def test_what_staff_annul_does_not_count_and_what_they_count_does(grading, store):
    first = add(store, "red", measurement(0.7))
    second = add(store, "red", measurement(0.9))
    store.decide(first, Decision.ANNUL, "copied")
    assert places(board(grading)) == [(1, 0.9)]
    store.decide(first, Decision.COUNT, "it was theirs")
    store.decide(second, Decision.COUNT, "asked for")
    assert places(board(grading)) == [(1, 0.9)], "the newest that they decided about"
    assert store.submission(first).decided_why == "it was theirs"
    refused = add(store, "blue", measurement(0.5), reason=Reason.BUSY)
    assert len(board(grading).boards[0].standings) == 1
    store.decide(refused, Decision.COUNT, "the fan was broken")
    assert len(board(grading).boards[0].standings) == 2


def test_what_is_measured_again_is_what_a_board_shows(grading, store):
    number = add(store, "red", measurement(0.7))
    add(store, "blue", measurement(0.72))
    one = store.submission(number)
    for again, ratio in zip(
        store.add_reruns([one] * 3, graded.AT), (0.74, 0.73, 0.75), strict=True
    ):
        graded.end(store, again, measurement(ratio))
    first, second = board(grading).boards[0].standings
    assert (first.ratio, first.reruns) == (0.72, 0)
    assert (second.ratio, second.interval, second.reruns) == (0.74, (0.73, 0.75), 3)
    assert store.submission(number).measured.entries[0].ratio == 0.7
    assert store.attempts_used("red", "final", TERM) == 1
    assert [row.counts for row in grading.marked(store.submissions("red"))][-1]


def test_what_is_odd_is_marked_for_staff(grading, store):
    add(store, "red", measurement(0.7, sources="the same"))
    add(store, "blue", measurement(0.7, 0.02, sources="the same"))
    add(store, "green", measurement(0.8))
    layer = made.ACCEPTED["layers"][0] | {"floor_ms": 9.0}
    add(store, "red", measurement(0.6, layers=[layer]))
    marks = {
        one.number: one.marks
        for one in grading.for_staff(grading.marked(store.submissions()))
    }
    assert marks == {
        1: ("the same sources as blue",),
        2: ("best: its interval is 5.7% wide", "the same sources as red"),
        3: (),
        4: ("best: conv1 is faster than its bound",),
    }


def test_an_extension_is_a_teams_own_and_is_audited(state, store, grading):
    due = reader.deadline(DUE).timestamp()
    for team in ("red", "blue"):
        add(store, team, measurement(0.75), late_s=86400.0, at=due + 86400)
    reason = ("--reason", "a  broken leg")
    done = rai("server", "extend", "red", "final", "2d", *reason)
    assert done.returncode == 0, done.stderr
    said = "final is due 2026-12-13 12:00 UTC for red: 2d after the milestone's own"
    assert done.stdout.strip() == f"{said} deadline"
    assert grading.milestone("final", "red").late_s_at(due + 86400) == 0
    assert grading.milestone("final", "blue").late_s_at(due + 86400) == 86400
    marked = grading.marked(store.submissions())
    assert [(one.late_s, one.points) for one in marked] == [(86400, 50), (0, 100)]
    [act] = store.audited()
    assert (act.act, act.about) == ("extend", "red final 2d: a broken leg")


def test_an_extension_moves_what_was_late_already_and_back(state, store):
    def late() -> list[float]:
        return [one.late_s for one in store.submissions("red")]

    add(store, "red", measurement(0.7), late_s=36800.0)
    add(store, "blue", measurement(0.7), late_s=3600.0)
    site = state.parent / "site/final.yml"
    site.write_text(FINAL + POINTS.replace(DUE, "2023-11-14 12:00 UTC"))
    for by, expected in (("1d", 0.0), ("0s", 36800.0)):
        done = rai("server", "extend", "red", "final", by, "--reason", "ill")
        assert (done.returncode, late()) == (0, [expected])
    assert done.stdout.endswith(" for red: as for all\n")
    assert store.submissions("blue")[0].late_s == 3600.0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("extend", "red", "final", "2d"), "say why in --reason"),
        (("extend", "pink", "final", "2d", "--reason", "x"), "no team 'pink'"),
        (("extend", "red", "final", "soon", "--reason", "x"), "no duration"),
        (("extend", "red", "m3", "2d", "--reason", "x"), "m3 has no deadline"),
        (("decide", "7", "annul", "--reason", "x"), "no submission 7"),
        (("decide", "7", "like", "--reason", "x"), "not one of 'count', 'annul'"),
        (("rerun", "final"), "no submission to final counts"),
        (("rerun", "m2"), "m2 has no order"),
    ],
)
def test_what_staff_cannot_mean_is_refused(store, words, says):
    done = rai("server", *words)
    assert (done.returncode, says in done.stderr) == (2, True), done.stderr


def test_a_rerun_queues_every_team_in_each_round(store):
    for team, ratio in (("red", 0.7), ("blue", 0.8), ("green", 0.9)):
        add(store, team, measurement(ratio))
    done = rai("server", "rerun", "final", "--times", "3")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("9 measurements of 3 teams are queued.")
    teams = [one.team for one in store.unjudged()]
    assert all(len(set(teams[at : at + 3])) == 3 for at in (0, 3, 6))


def test_an_export_has_the_grades_of_all_people_and_what_they_sent(
    state, store, tmp_path
):
    data = sealed(sample.write(tmp_path / "team"), tmp_path / "sent.tar.zst")
    odd = "x,y", "x+y"
    for team in ("red", *odd):
        sent = upload_path(state / "uploads", team, SHA256)
        sent.parent.mkdir(parents=True)
        sent.write_bytes(data)
    for team in odd:
        add(store, team, measurement(0.95))
    add(store, "red", measurement(0.75))
    add(store, "red", measurement(0.9), late_s=60.0)
    add(store, "blue", measurement(0.7), late_s=60.0)

    done = rai("server", "export", "final", str(tmp_path / "out"))

    assert done.returncode == 0, done.stderr
    assert "warning: blue: " in done.stdout, "its upload is gone"
    with (tmp_path / "out/grades.csv").open(newline="") as file:
        rows = {row["person"]: row for row in csv.DictReader(file)}
    assert {name: row["points"] for name, row in rows.items()} == {
        "ada": "100",
        "amy": "100",
        "bo": "50",
        "cy": "0",
    }
    red, blue, green = rows["ada"], rows["bo"], rows["cy"]
    assert (red["submission"], red["rank"], red["ratio"]) == ("3", "2", "0.75")
    assert (blue["late_by"], blue["rank"], blue["verdict"]) == ("60 s", "1", "accepted")
    assert (green["submission"], green["verdict"]) == ("", "none counts")
    for team in ("red", *odd):
        assert (tmp_path / f"out/{team}/submitted/plan.json").is_file()
    assert (tmp_path / "out/red/measurement.json").is_file()
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o700


def test_a_term_is_closed_after_its_export_and_what_it_kept_may_go(
    state, store, tmp_path
):
    add(store, "red", measurement(0.75))
    store.add_upload("red", SHA256, 9, 0.0)
    rules_file, now = state / "server.yml", rules.TEMPLATE.read_text()
    of_term = rules_file.read_text()
    gone: list[str] = []

    def drop(team: str, sha256: str) -> None:
        gone.append(team)

    refused = rai("server", "close", TERM)
    assert (refused.returncode, refused.stderr.count("was not exported")) == (2, 1)
    assert "rai server export final DIR" in refused.stderr
    assert store.remove_uploads(1e11, drop) == 0

    rules_file.write_text(f"{now}\nterm: 2027sp\n")
    assert rai("server", "export", "final", str(tmp_path / "new")).returncode == 0
    assert rai("server", "close", TERM).returncode == 2, "that is of another term"
    rules_file.write_text(of_term)
    assert rai("server", "export", "final", str(tmp_path / "out")).returncode == 0
    done = rai("server", "close", TERM)
    assert done.stdout == f"1 submissions of {TERM} are no longer kept for good\n"
    assert store.remove_uploads(1e11, drop) == 1 and gone == ["red"]
    assert rai("server", "close", TERM).returncode == 2

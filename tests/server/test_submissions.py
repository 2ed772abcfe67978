"""Receipts, lists and choices of submissions, and milestones, by HTTP."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from runner.core.wire import StageRun
from runner.server.scheduling import ServerRules
from runner.spec.milestones import reader
from tests.kit import graded
from tests.kit import store_rows as rows
from tests.kit.web import Reply, WebServer, serving

DUE = reader.deadline("2026-12-11 12:00 UTC").timestamp()
SITE = """\
title: "Exercise: a first kernel"
edition: 2019fa
trust: recorded
team: project
deadline: 2026-12-11 12:00 UTC
grace: 15m
late: 1h
attempts: 3
counts: chosen
runs:
  - {name: all, target: measure, holds: [team], commands: [make]}
"""
MINUTE = 60.0
AT = "/api/v1/submissions"


@pytest.fixture
def web(tmp_path: Path) -> Iterator[WebServer]:
    """A server with a GPU and a milestone of its site, a day before the deadline."""
    rules = ServerRules(low_disk_bytes=0, term="2026fa")
    (tmp_path / "site").mkdir()
    (tmp_path / "site/own.yml").write_text(SITE)
    with serving(tmp_path, rules, gpus=1) as found:
        found.site.milestones = [tmp_path / "site"]
        set_clock(found, DUE - 86400)
        yield found


def set_clock(web: WebServer, at: float) -> None:
    web.clock = lambda: at


def put(web: WebServer, token: str, key: str = "", **changes: object) -> Reply:
    """Submit an upload."""
    key = key or os.urandom(5).hex()
    asked = {"milestone": "own", "upload": web.upload(token)} | changes
    return web.ask("PUT", f"{AT}/{key}", token, asked)


def ended(web: WebServer, number: int, ratio: float | None = None) -> None:
    """Have a submission end well."""
    one = web.store.submission(number)
    assert one is not None
    graded.end(web.store, one, graded.measurement(ratio) if ratio else None)


def test_a_receipt_has_a_number_a_time_and_an_attempt_and_is_one_for_a_key(web):
    ada = web.token("red")
    first = put(web, ada, "0123456789", milestone="OWN", commit="c0ffee")
    assert first.status == 201 and web.woken == 1
    assert first.json | {"number": 1, "attempt": 1, "attempts": 3} == first.json
    assert (first.json["received_at"], first.json["late_s"]) == (DUE - 86400, 0.0)
    assert (first.json["term"], first.json["commit"]) == ("2026fa", "c0ffee")

    set_clock(web, DUE + 86400)
    again = put(web, ada, "0123456789")
    assert (again.status, again.json) == (200, first.json)
    other = put(web, ada, "0123456789", rehearsal=True)
    assert (other.status, other.json["problems"][0]["message"]) == (
        409,
        "another submission has this key",
    )
    assert put(web, web.token("blue"), "0123456789").status == 403, "it is another's"
    assert len(web.store.submissions()) == 1


@pytest.mark.parametrize(
    ("after_s", "late_s", "status"),
    [
        (15 * MINUTE, 0.0, 201),
        (60 * MINUTE, 60 * MINUTE, 201),
        (60 * MINUTE + 1, None, 403),
    ],
)
def test_late_is_what_comes_after_the_grace_and_refused_what_comes_too_late(
    web, after_s, late_s, status
):
    set_clock(web, DUE + after_s)
    found = put(web, ada := web.token("red"))
    assert (found.status, found.json.get("late_s")) == (status, late_s)
    if late_s is None:
        assert "own was due 2026-12-11 12:00 UTC" in found.body.decode()
        assert put(web, ada, rehearsal=True).status == 201


def test_of_two_at_once_one_has_the_last_attempt_and_rehearsals_use_none(web):
    ada = web.token("red")
    for _ in range(2):
        assert put(web, ada).status == 201
        assert put(web, ada, rehearsal=True).status == 201
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: put(web, ada), range(2)))
    assert sorted(one.status for one in found) == [201, 403]
    assert "your team used its 3 attempts at own" in str([o.body for o in found])
    assert put(web, web.token("blue")).json["attempt"] == 1
    assert put(web, ada, rehearsal=True).status == 201


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{}", 400),
        (b'{"milestone":"own","upload":7}', 400),
        (b'{"milestone":"nosuch","upload":"' + b"5" * 64 + b'"}', 400),
        (b'{"milestone":"../own","upload":"' + b"5" * 64 + b'"}', 400),
        (b'{"milestone":"own","upload":"' + b"5" * 64 + b'"}', 404),
        (b'{"milestone":"own","upload":"../../store.sqlite"}', 404),
        (b'{"milestone":"own\\u0000","upload":"\\u0000"}', 400),
        (b'{"milestone":"own","upload":"\\u0000"}', 404),
        (b'{"milestone":"own","upload":"","project":"' + b"x" * 5000 + b'"}', 400),
        (b"[" * 20_000, 413),
    ],
)
def test_what_is_no_submission_is_refused_within_bounds(web, body, status):
    found = web.ask("PUT", f"{AT}/0123456789", web.token("red"), body)
    assert found.status == status and len(found.body) < 2000
    assert web.store.submissions() == []


def test_of_odd_paths_there_is_nothing(web):
    ada = web.token("red")
    for path in ("0", "-1", "1", "01", "9" * 30, "a", "1/x", "%2e%2e"):
        assert web.ask("GET", f"{AT}/{path}", ada).status == 404
    assert web.ask("PUT", f"{AT}/short", ada, {}).status == 400
    assert web.ask("GET", "/api/v1/milestones/..%2fown", ada).status in (400, 404)
    for path in (AT, f"{AT}/1", "/api/v1/milestones", "/api/v1/milestones/own"):
        assert web.ask("GET", path).status == 401


def test_a_team_sees_its_own_and_staff_all_of_them(web):
    ada, bo = web.token("red", "ada"), web.token("red", "bo")
    cy, prof = web.token("blue", "cy"), web.token("desk", "prof", role="staff")
    put(web, ada)
    put(web, cy, milestone="m2")

    def numbers(token: str, more: str = "") -> list[int]:
        found = web.ask("GET", f"{AT}{more}", token).json["submissions"]
        return [one["number"] for one in found]

    assert (numbers(ada), numbers(bo), numbers(cy)) == ([1], [1], [2])
    assert numbers(prof) == [] and numbers(prof, "?all=1") == [2, 1]
    assert numbers(prof, "?all=1&milestone=M2") == [2]
    assert web.ask("GET", f"{AT}?all=1", ada).status == 403
    assert web.ask("GET", f"{AT}/2", ada).status == 404
    assert web.ask("PUT", f"{AT}/2/chosen", ada).status == 404
    assert web.ask("GET", f"{AT}/1", prof).json["person"] == "ada"
    assert "submission 1 of red/ada" in {a.about for a in web.store.audited()}


def test_the_latest_counts_until_the_team_chooses_one_which_it_may_in_time(web):
    ada = web.token("red")

    def counting() -> list[int]:
        found = web.ask("GET", AT, ada).json["submissions"]
        return [one["number"] for one in found if one["counts"]]

    for number in (1, 2):
        put(web, ada)
        ended(web, number)
    put(web, ada)
    assert counting() == [2], "one that is not judged takes no other's place"
    assert web.ask("PUT", f"{AT}/3/chosen", ada).status == 400, "it is not judged"
    assert web.ask("PUT", f"{AT}/1/chosen", ada).json["counts"]
    assert counting() == [1]
    set_clock(web, DUE + 15 * MINUTE + 1)
    assert web.ask("PUT", f"{AT}/2/chosen", ada).status == 403
    set_clock(web, DUE - 1)
    assert web.ask("PUT", f"{AT}/2/chosen", ada).status == 200
    assert counting() == [2]


def test_nobody_chooses_where_the_best_counts(web):
    ada = web.token("red")
    put(web, ada, milestone="final")
    ended(web, 1, 0.7)
    refused = web.ask("PUT", f"{AT}/1/chosen", ada)
    assert refused.status == 400 and "the best submission counts" in str(refused.body)


def test_a_team_cannot_cancel_what_staff_have_measured_again(web):
    ada, prof = web.token("red", "ada"), web.token("desk", "prof", role="staff")
    put(web, ada)
    ended(web, 1)
    [again] = web.store.add_reruns([web.store.submission(1)], DUE)
    run = rows.run("0123456789", submission=again.number)
    going = replace(again, runs=(StageRun("all", run.id),))
    assert web.store.judge(again, going, run)

    path = f"/api/v1/runs/{run.id}"
    refused = web.ask("DELETE", path, ada)
    assert refused.status == 403 and "measured again" in str(refused.body)
    assert web.ask("DELETE", path, prof).status == 202


def test_milestones_are_listed_with_what_the_team_did_and_sent_as_they_are(web):
    ada = web.token("red")
    put(web, ada)
    found = web.ask("GET", "/api/v1/milestones", ada).json
    assert (found["gpu"], found["architecture"]) == ("a GPU", "")
    views = {one["name"]: one for one in found["milestones"]}
    assert list(views) == ["final", "m1", "m2", "m3", "m4", "own"]
    own = views["own"]
    assert (own["deadline"], own["attempts"], own["used"]) == (DUE, 3, 1)
    assert own["last"]["number"] == 1 and not own["closed"]
    assert views["final"]["last"] is None and views["final"]["attempts"] is None
    assert web.ask("GET", "/api/v1/milestones/OWN", ada).body == SITE.encode()
    assert web.ask("GET", "/api/v1/milestones/nosuch", ada).status == 400


def test_what_cannot_be_ranked_here_is_refused_before_it_starts(web):
    ada = web.token("red")
    web.runs.unenforced = ("docker: swap", "local: memory, pids, system calls")
    found = put(web, ada, milestone="final")
    assert (found.status, found.json["reason"]) == (403, "not_allowed")
    assert "the engine local does not enforce memory and pids" in str(found.body)
    assert put(web, ada, milestone="final", rehearsal=True).status == 201
    assert put(web, ada, milestone="m2").status == 201
    web.runs.gpus = ()
    none = put(web, ada, milestone="final", rehearsal=True)
    assert none.json["reason"] == "no_gpu"
    assert put(web, ada, milestone="m1").status == 201, "some of it needs none"


def test_on_a_full_disk_runs_are_refused_first_and_submissions_last(web):
    ada, free = web.token("red"), shutil.disk_usage(web.folder).free
    asked = {"milestone": "own", "upload": web.upload(ada)}
    other = "/api/v1/uploads/" + "6" * 64

    for low_disk, run, submission, taken in (
        (free // 2 * 3, 503, 404, 201),
        (free * 3, 503, 503, 503),
    ):
        web.site.rules = replace(web.site.rules, low_disk_bytes=low_disk)
        assert web.ask("GET", f"{other}?size=9", ada).status == run
        found = web.ask("GET", f"{other}?size=9&submission=1", ada)
        assert found.status == submission
        key = os.urandom(5).hex()
        assert web.ask("PUT", f"{AT}/{key}", ada, asked).status == taken

"""Who reaches whose runs, by each route that names one."""

from __future__ import annotations

import pytest

from runner.core.wire import Scope
from runner.server.database.accounts import Invitation
from tests.kit.web import RUN

PATH = f"/api/v1/runs/{RUN}"
READ = [
    ("GET", PATH),
    ("GET", f"{PATH}/tail"),
    ("GET", f"{PATH}/files/parcel.json"),
    ("GET", f"{PATH}/source"),
]
ABSENT = [("GET", f"{PATH}/files/stdout.log"), ("GET", f"{PATH}/build")]
"""Files that a waiting run does not have: 404 for whoever may read it too."""

CANCEL = ("DELETE", PATH)
ALL = ("GET", "/api/v1/runs?all=1")
LIST = ("GET", "/api/v1/runs")
WHO = {
    "owner": ("blue", "ann", ""),
    "mate": ("blue", "bob", ""),
    "other": ("red", "eve", ""),
    "other role": ("green", "tom", "ta"),
    "staff": ("crew", "sue", "staff"),
}
EXPECTED = {
    "owner": {"read": 200, "cancel": 202, "all": 403},
    "mate": {"read": 200, "cancel": 403, "all": 403},
    "other": {"read": 404, "cancel": 404, "all": 403},
    "other role": {"read": 404, "cancel": 404, "all": 403},
    "staff": {"read": 200, "cancel": 202, "all": 200},
    "staff's other token": {"read": 404, "cancel": 404, "all": 403},
    "nobody": {"read": 401, "cancel": 401, "all": 401},
}


pytestmark = pytest.mark.usefixtures("token")  # of ann, of the team blue


def token_of(web, who):
    if who == "nobody":
        return ""
    if who in WHO:
        return web.token(*WHO[who])
    code = web.store.invite([Invitation("crew", "sue", "staff")], web.now(), 60.0)[0]
    return web.store.redeem(code.code, "", web.now(), None, (Scope.RUN,))[0]


@pytest.mark.parametrize("who", EXPECTED)
def test_who_reaches_a_run_by_which_route(web, who):
    token, expected = token_of(web, who), EXPECTED[who]
    for method, path in READ:
        assert web.ask(method, path, token).status == expected["read"], path
    for method, path in ABSENT:
        least = 404 if expected["read"] == 200 else expected["read"]
        assert web.ask(method, path, token).status == least, path
    assert web.ask(*ALL, token).status == expected["all"]
    listed = web.ask(*LIST, token)
    if expected["read"] != 401:
        own = who in ("owner", "mate")
        assert [one["id"] for one in listed.json["runs"]] == [RUN] * own
    assert web.ask(*CANCEL, token).status == expected["cancel"]
    assert web.store.run(RUN).cancelled is (expected["cancel"] == 202)


def test_what_staff_read_and_ended_is_kept_with_who_did(web):
    staff = web.token("crew", "sue", "staff")
    for _ in range(2):
        for method, path in READ:
            assert web.ask(method, path, staff).status == 200
    assert web.ask(*ALL, staff).json["runs"][0]["person"] == "ann"
    assert web.ask(*CANCEL, staff).status == 202
    acts = [(one.who, one.act, one.about) for one in reversed(web.store.audited())]
    about = f"run {RUN} of blue/ann"
    assert acts == [
        ("crew/sue", "read", about),
        ("crew/sue", "list", "the runs of all teams"),
        ("crew/sue", "cancel", about),
    ]
    web.ahead = 3601.0
    assert web.ask("GET", PATH, staff).status == 200
    assert len(web.store.audited()) == 4


def test_staff_see_whose_runs_wait(web):
    staff, other = web.token("crew", "sue", "staff"), web.token("red", "eve")
    (seen,) = web.ask("GET", "/api/v1/queue", staff).json["waiting"]
    assert (seen["person"], seen["mine"]) == ("ann", False)
    (seen,) = web.ask("GET", "/api/v1/queue", other).json["waiting"]
    assert seen.get("person", "") == ""


def test_a_role_that_a_team_gets_later_widens_no_token_made_before(web):
    before = web.token("crew", "sue")
    web.store.invite([Invitation("crew", "tom", "staff")], web.now(), 60.0)
    web.ahead = 10.0
    assert web.ask("GET", PATH, before).status == 404
    assert web.ask("GET", PATH, web.token("crew", "sue")).status == 200
    web.store.invite([Invitation("crew", "tom", "student")], web.now(), 60.0)
    web.ahead = 20.0
    assert web.ask("GET", PATH, before).status == 404

"""Logging in and out, and what a server says of oneself."""

from __future__ import annotations

import pytest

from runner.server import bounds
from runner.server.bounds import REVOKED_S
from runner.server.database.accounts import Invitation
from runner.server.scheduling import Role, ServerRules
from tests.kit.web import WebServer, serving


def code(web: WebServer, team: str = "blue", person: str = "ann") -> str:
    return web.store.invite([Invitation(team, person)], web.now(), 60.0)[0].code


def login(web: WebServer, body: object, source: str) -> int:
    return web.ask("POST", "/api/v1/login", body=body, source=source).status


def test_everybody_may_read_what_the_server_is(web):
    found = web.ask("GET", "/api/v1/")
    assert found.status == 200
    assert found.json["api"] == 1
    assert found.headers["x-content-type-options"] == "nosniff"


def test_a_code_is_good_for_one_token(web):
    once = code(web)
    made = web.ask("POST", "/api/v1/login", body={"code": once, "device": "laptop"})
    assert made.status == 201
    assert made.json["me"]["person"] == "ann"
    me = web.ask("GET", "/api/v1/me", made.json["token"])
    assert (me.status, me.json["team"]) == (200, "blue")
    again = web.ask("POST", "/api/v1/login", body={"code": once})
    assert (again.status, again.json["reason"]) == (403, "not_allowed")


def test_wrong_codes_are_bounded_and_shut_out_no_other_address(tmp_path, monkeypatch):
    most = 3
    monkeypatch.setattr(bounds, "LOGIN_TRIES", most)
    monkeypatch.setattr(bounds, "ALL_LOGIN_TRIES", 3 * most)
    wrong, mine, tried = {"code": "22222-22222-22222"}, "127.0.0.2", []
    with serving(tmp_path, ServerRules(low_disk_bytes=0)) as web:
        web.clock = lambda: 1e9  # no try comes back with time
        for n in range(most + 1):  # right ones count for nothing
            assert login(web, {"code": code(web, person=f"q{n}")}, mine) == 201
        for n in range(3 * most):
            tried += [login(web, wrong, mine) for _ in range(2)]
            right = {"code": code(web, person=f"p{n}")}
            assert login(web, right, f"127.0.1.{n + 1}") == 201
        assert tried == most * [403] + 5 * most * [429]
        right = {"code": code(web)}
        later = web.ask("POST", "/api/v1/login", body=right, source=mine)
        assert later.status == 429
        assert later.json["retry_at"] > web.now()
        assert int(later.headers["retry-after"]) > 0


@pytest.mark.parametrize(
    "given",
    [
        "",
        "Basic YTpi",
        "Bearer",
        "Bearer rai_0_0",
        "Bearer rai_000000000000_" + "A" * 43,
        "Bearer rai_../../x_" + "A" * 43,
        "Bearer rai_0_" + "A" * 4000,
    ],
)
def test_a_token_that_is_none_opens_nothing(web, given):
    paths = ("/api/v1/me", "/api/v1/runs", "/api/v1/queue", "/api/v1/runs/0123456789")
    for path in paths:
        found = web.ask("GET", path, headers={"Authorization": given})
        assert (found.status, found.json["reason"]) == (401, "not_allowed")
        assert found.headers["www-authenticate"].startswith("Bearer")


def test_a_guessed_secret_of_a_known_token_is_as_wrong_as_any(web):
    token = web.token("blue")
    rai, token_id, _ = token.split("_", 2)
    near = f"{rai}_{token_id}_{'A' * 43}"
    far = f"{rai}_{'0' * 12}_{'A' * 43}"
    answers = [web.ask("GET", "/api/v1/me", one) for one in (near, far)]
    assert [one.status for one in answers] == [401, 401]
    assert answers[0].body == answers[1].body


def test_an_expired_token_is_refused(web):
    codes = web.store.invite([Invitation("blue", "ann")], web.now(), 60.0)
    made = web.store.redeem(codes[0].code, "", web.now(), 100.0, ())
    assert made
    assert web.ask("GET", "/api/v1/me", made[0]).status == 403  # it has no scope
    web.ahead = 200.0
    assert web.ask("GET", "/api/v1/me", made[0]).status == 401


def test_logging_out_ends_a_token_at_once(web):
    token = web.token("blue")
    assert web.ask("GET", "/api/v1/me", token).status == 200
    assert web.ask("DELETE", "/api/v1/tokens/current", token).status == 204
    assert web.ask("GET", "/api/v1/me", token).status == 401


def test_a_revoked_token_is_good_for_seconds_at_most(web):
    assert 3 * REVOKED_S < 5  # known as valid, then not long under way, then looked at
    token = web.token("blue")
    me = web.ask("GET", "/api/v1/me", token)
    web.store.revoke(me.json["token_id"], web.now())
    web.ahead = REVOKED_S
    assert web.ask("GET", "/api/v1/me", token).status == 401


def test_nobody_ends_the_token_of_another_person(web):
    ann, bob = web.token("blue", "ann"), web.token("blue", "bob")
    other = web.ask("GET", "/api/v1/me", bob).json["token_id"]
    assert web.ask("DELETE", f"/api/v1/tokens/{other}", ann).status == 404
    assert web.ask("GET", "/api/v1/me", bob).status == 200


def test_me_tells_what_is_left_of_a_day(tmp_path):
    roles = {"student": Role("student", a_day=3)}
    with serving(tmp_path, ServerRules(roles=roles, low_disk_bytes=0)) as web:
        token = web.token("blue")
        assert web.put(token).status == 201
        limits = web.ask("GET", "/api/v1/me", token).json["limits"]
        assert limits["left_today"] == 2
        assert limits["resets_at"] > web.now()

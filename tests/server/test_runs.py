"""Asking a server for runs: what is taken, what is refused, and once only."""

from __future__ import annotations

import threading

import msgspec
import pytest

from runner.core import MIB, Reason
from runner.core.policy import RolePolicy
from runner.core.quantities import DAY_S
from runner.core.request import Terms, from_json
from runner.core.wire import QueueState
from runner.core.work import Secrets
from runner.server.scheduling import Role, ServerRules
from tests.kit.web import RUN, SPEC, request, serving

GPU = SPEC.replace("commands:", "resources:\n  gpu:\n    count: 2\ncommands:")
PATH = f"/api/v1/runs/{RUN}"


def rules(**role):
    return ServerRules(roles={"student": Role("student", **role)}, low_disk_bytes=0)


def put(web, token, run_id=RUN, spec=SPEC, spec_text="", engine="", **more):
    secret = Secrets(spec_text=spec_text)
    asked = request(web.upload(token), spec, secret=secret, engine=engine, **more)
    return web.ask("PUT", f"/api/v1/runs/{run_id}", token, asked)


def problems(reply):
    return "\n".join(one["message"] for one in reply.json["problems"])


def test_a_run_is_queued_once_however_often_it_is_asked_for(web):
    token = web.token("blue")
    first, again = put(web, token), put(web, token)
    assert (first.status, again.status) == (201, 200)
    assert first.json["id"] == again.json["id"] == RUN
    assert first.json["state"] == "waiting"
    assert first.json["person"] == "ann"
    assert len(web.store.unfinished()) == 1
    assert web.woken == 1
    other = put(web, token, title="another")
    assert (other.status, other.json["reason"]) == (409, "usage")


def test_the_same_run_asked_for_by_many_at_once_is_one(web):
    token = web.token("blue")
    web.upload(token)
    statuses = []
    threads = [
        threading.Thread(target=lambda: statuses.append(put(web, token).status))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [*[200] * 7, 201]
    assert len(web.store.unfinished()) == 1


def test_another_teams_run_is_as_if_it_were_not_there(web):
    blue, red = web.token("blue"), web.token("red")
    assert put(web, blue).status == 201
    none = "/api/v1/runs/ffffffffff"
    for method in ("GET", "DELETE"):
        found, absent = web.ask(method, PATH, red), web.ask(method, none, red)
        assert (found.status, absent.status) == (404, 404)
        assert found.body == absent.body
    assert web.ask("GET", "/api/v1/runs", red).json["runs"] == []
    assert put(web, red).status == 409
    row = web.store.run(RUN)
    assert row.team == "blue"
    assert not row.cancelled


@pytest.mark.parametrize(
    "name",
    ["..", "%2e%2e", "0123456789a", "012345678G", "0123%2f5678", "A" * 10, "%00" * 10],
)
def test_a_run_has_no_name_that_leads_anywhere(web, name):
    token = web.token("blue")
    found = web.ask("PUT", f"/api/v1/runs/{name}", token, b"{}")
    assert found.status in (400, 404, 405)
    assert web.ask("GET", f"/api/v1/runs/{name}", token).status in (404, 405)
    assert web.store.unfinished() == []


def test_a_build_file_is_refused_with_all_its_problems(web):
    limits = "resources:\n  limits:\n    memory: lots\n    time: soon\ncommands:"
    bad = SPEC.replace("commands:", limits)
    found = put(web, web.token("blue"), spec=bad)
    assert (found.status, found.json["reason"]) == (400, "bad_spec")
    assert len(found.json["problems"]) >= 2
    assert found.json["problems"][0]["place"]["line"] > 0


def test_a_role_refuses_all_that_is_too_much_at_once(tmp_path):
    most = {"memory_bytes": 1000 * MIB, "time_s": 60.0, "network": 0.0}
    limits = "  limits:\n    memory: 2g\n    time: 2m\n"
    spec = SPEC.replace("commands:", f"resources:\n  network: true\n{limits}commands:")
    with serving(tmp_path, rules(images=("debian",), ceilings=most)) as web:
        found = put(web, web.token("blue"), spec=spec, profile="compatible")
        assert (found.status, found.json["reason"]) == (403, "not_allowed")
        for word in ("memory", "time", "network", "gcc:12", "compatible"):
            assert word in problems(found)
        assert "the role `student` of this server" in problems(found)
        assert put(web, web.token("blue"), spec=SPEC.replace("gcc:12", "debian:12"))


def test_rounds_take_no_longer_than_a_role_allows(tmp_path):
    with serving(tmp_path, rules(ceilings={"time_s": 60.0})) as web:
        token = web.token("blue")
        found = put(web, token, repeat=5, budget="2m")
        assert (found.status, found.json["reason"]) == (403, "not_allowed")
        assert "the role `student` of this server" in problems(found)
        for n, given in enumerate(({}, {"budget": "50s"}, {"only": ("1",)})):
            assert put(web, token, f"{n:010x}", repeat=5, **given).status == 201


def test_a_limit_at_its_default_is_lowered_to_the_roles(tmp_path):
    with serving(tmp_path, rules(ceilings={"memory_bytes": 1000 * MIB})) as web:
        assert put(web, web.token("blue")).status == 201


def test_no_run_is_without_isolation(web):
    found = put(web, web.token("blue"), engine="bare")
    assert (found.status, found.json["reason"]) == (403, "not_allowed")
    assert put(web, web.token("blue"), engine="../x").status == 400


def test_gpus_are_counted_as_the_machine_has_them(tmp_path):
    with serving(tmp_path, gpus=2) as web:
        token = web.token("blue")
        optional = GPU.replace("count: 2", "count: 1\n    optional: true")
        assert put(web, token, "0000000001", GPU).json["gpus"] == 2
        assert put(web, token, "0000000002", optional).json["gpus"] == 1
        assert put(web, token, "0000000003", GPU, gpus="0").json["gpus"] == 0
        refused = put(web, token, "0000000004", GPU, gpus="3")
        assert (refused.status, refused.json["reason"]) == (409, "no_gpu")
        assert put(web, token, "0000000005", GPU, gpus="all").status == 400


def test_an_optional_gpu_counts_for_nothing_where_there_is_none(web):
    optional = GPU.replace("count: 2", "optional: true")
    assert put(web, web.token("blue"), spec=optional).json["gpus"] == 0


def test_no_more_runs_of_a_team_wait_than_its_role_allows(tmp_path):
    with serving(tmp_path, rules(waiting=2)) as web:
        token = web.token("blue")
        statuses = []

        def one(n):
            statuses.append(put(web, token, f"{n:010x}").status)

        web.upload(token)
        threads = [threading.Thread(target=one, args=[n]) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(statuses) == [201, 201, *[429] * 6]
        assert put(web, web.token("red"), "f" * 10).status == 201
        refused = put(web, token, "e" * 10)
        assert (refused.json["reason"]) == "rate_limit"
        assert refused.json["retry_at"] > web.now()


def test_a_team_over_its_disk_quota_starts_nothing_more(tmp_path):
    with serving(tmp_path, rules(disk_bytes=1000)) as web:
        token = web.token("blue")
        assert put(web, token, "0000000001").status == 201
        assert web.store.ended("0000000001", web.now(), Reason.DONE, "", 2000)
        refused = put(web, token, "0000000002")
        assert (refused.status, refused.json["reason"]) == (429, "rate_limit")
        assert "0.0 MiB here" in problems(refused)
        assert put(web, token, "0000000001").status == 200  # it is there already
        assert put(web, web.token("red"), "0000000002").status == 201


def test_a_days_runs_are_counted_and_the_refusal_tells_when_to_come_back(tmp_path):
    with serving(tmp_path, rules(a_day=2)) as web:
        token = web.token("blue")
        first = put(web, token, "0000000001").json["queued_at"]
        assert put(web, token, "0000000002").status == 201
        refused = put(web, token, "0000000003")
        assert (refused.status, refused.json["reason"]) == (429, "rate_limit")
        assert refused.json["retry_at"] == pytest.approx(first + DAY_S)
        assert put(web, token, "0000000001").status == 200  # it is there already
        web.ahead = DAY_S + 1
        assert put(web, token, "0000000003").status == 201


def test_secrets_are_kept_until_the_start_and_are_never_shown(web):
    secret = "the value that nobody sees"
    token = web.token("blue")
    given = {"env_given": ("TOKEN",), "secret": Secrets({"TOKEN": secret})}
    asked = request(web.upload(token), **given)
    made = web.ask("PUT", PATH, token, asked)
    assert made.status == 201
    kept = msgspec.json.decode(web.store.run(RUN).secrets, type=Secrets)
    assert kept.values == {"TOKEN": secret}
    answers = [
        made,
        web.ask("GET", PATH, token),
        web.ask("GET", "/api/v1/queue", token),
    ]
    assert not any(secret.encode() in one.body for one in answers)
    assert secret.encode() not in web.store.run(RUN).parcel


@pytest.mark.parametrize(
    ("secrets", "names"),
    [({"A": "x"}, ()), ({}, ("A",)), ({"LD PRELOAD": "x"}, ("LD PRELOAD",))],
)
def test_secrets_are_those_that_the_parcel_names(web, secrets, names):
    token = web.token("blue")
    given = {"env_given": names, "secret": Secrets(secrets)}
    asked = request(web.upload(token), **given)
    assert web.ask("PUT", PATH, token, asked).status == 400


def test_what_a_client_says_of_its_own_rights_is_forgotten(web):
    terms = Terms({"RAI_ENGINE": "bare"}, ("bare",), "", RolePolicy(source="a client"))
    assert put(web, web.token("blue"), terms=terms).status == 201
    assert from_json(web.store.run(RUN).parcel).terms == Terms()


def test_a_parcel_shows_the_build_file_that_is_run(web):
    hidden = SPEC.replace("./program", "./another")
    found = put(web, web.token("blue"), spec_text=hidden)
    assert (found.status, found.json["reason"]) == (400, "usage")


def test_a_run_needs_its_project(web):
    token = web.token("blue")
    found = web.ask("PUT", PATH, token, request("0" * 64))
    assert (found.status, found.json["reason"]) == (404, "usage")
    for name in ("0" * 63, "\0", "../x", ""):
        assert web.ask("PUT", PATH, token, request(name)).status == 400


def test_a_cancel_of_a_run_that_runs_is_told_to_its_worker(web):
    token = web.token("blue")
    put(web, token)
    web.begin(RUN)
    found = web.ask("DELETE", PATH, token)
    assert (found.status, found.json["state"]) == (202, "running")
    assert found.json["cancelled"]
    assert web.runs.cancels == [RUN]
    web.store.ended(RUN, web.now(), Reason.CANCELLED)
    assert web.ask("DELETE", PATH, token).json["state"] == "ended"


def test_runs_are_listed_in_pages(web):
    token = web.token("blue")
    ids = {f"{n:010x}" for n in range(5)}
    for one in ids:
        put(web, token, one)
    first = web.ask("GET", "/api/v1/runs?limit=3", token).json
    rest = web.ask("GET", f"/api/v1/runs?limit=3&after={first['after']}", token).json
    assert {run["id"] for run in first["runs"] + rest["runs"]} == ids
    assert rest.get("after", "") == ""
    ended = web.ask("GET", f"/api/v1/runs?state={QueueState.ENDED}", token).json
    assert ended["runs"] == []
    for query in ("state=lost", "limit=x", "limit=-1", "after=../x"):
        assert web.ask("GET", f"/api/v1/runs?{query}", token).status == 400


def test_a_server_that_starts_nothing_queues_all_the_same(web):
    web.store.drain("it is being upgraded")
    assert put(web, web.token("blue")).status == 201


@pytest.mark.lengthy
def test_of_many_clients_at_once_no_run_is_lost_and_none_is_twice(web):
    tokens = [web.token(f"team{n}") for n in range(6)]
    found, failed = {}, []

    def client(n):
        for k in range(5):
            run = f"{n * 1000 + k:010x}"
            data = b"%d" % (n * 1000 + k)
            asked = request(web.upload(tokens[n], data))
            path = f"/api/v1/runs/{run}"
            twice = [web.ask("PUT", path, tokens[n], asked).status for _ in range(2)]
            found[run] = f"team{n}"
            if twice != [201, 200]:
                failed.append(twice)

    threads = [threading.Thread(target=client, args=[n]) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert {row.id: row.team for row in web.store.unfinished()} == found

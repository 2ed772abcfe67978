"""What a server shows of itself: its queue, its health, its figures, its log."""

from __future__ import annotations

import io
import logging
import re

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from runner.core import Problem, Reason
from runner.core.wire import Refusal
from runner.server import messages
from runner.server.bounds import STRANGER_LINE_S, STRANGER_LINES
from runner.server.decision import decide
from runner.server.scheduling import QueueHistory, ServerRules
from tests.kit.waiting import until
from tests.kit.web import RUN


def metrics(web):
    text = web.ask("GET", "/metrics").body.decode()
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def decided(web):
    """Decide as the server's feeder does."""
    rows = web.store.unfinished()
    rules = ServerRules(slots=0)
    facts = web.runs.capacity()
    web.decision = decide(rows, facts, rules, QueueHistory(), web.now())


def test_the_queue_names_ones_own_people_only(web):
    blue, red = web.token("blue", "ann"), web.token("red", "bob")
    web.put(blue, "0000000001")
    web.put(red, "0000000002")
    decided(web)
    queue = web.ask("GET", "/api/v1/queue", blue).json
    mine, other = queue["waiting"]
    assert (mine["id"], mine["person"], mine["mine"]) == ("0000000001", "ann", True)
    assert mine["project"] == "/home/ann/project"
    assert mine["ahead"] == 0
    assert mine["why"]
    assert (other["team"], other["mine"], other["ahead"]) == ("red", False, 1)
    assert b"bob" not in web.ask("GET", "/api/v1/queue", blue).body
    assert (queue["gpus"], queue["running"]) == (0, [])
    assert web.ask("GET", "/api/v1/queue").status == 401


def test_a_well_server_says_so_and_an_unwell_one_says_what_ails(web, monkeypatch):
    monkeypatch.setattr("runner.server.app.CHECK_S", 0.0)
    monkeypatch.setattr("runner.server.runs.FIRST_FACTS_S", 0.1)
    found = web.ask("GET", "/healthz")
    assert (found.status, found.json["store"], found.json["runs"]) == (200, "ok", "ok")
    web.runs.problems = (Problem("no engine works"),)
    until(lambda: web.ask("GET", "/healthz").json["runs"] == "nothing can run")
    web.runs.looked = False
    until(lambda: "looked" in web.ask("GET", "/healthz").json["runs"])
    away = web.ask("GET", "/healthz")
    assert (away.status, away.json["store"]) == (503, "ok")

    def broken():
        raise OSError("disk I/O error in /secret/place")

    monkeypatch.setattr(web.store, "check", broken)
    ill = web.ask("GET", "/healthz")
    assert ill.status == 503
    assert b"secret" not in ill.body


def test_figures_are_counted_without_the_names_of_anybody(web):
    token = web.token("blueteam", "annperson")
    web.put(token, RUN)
    web.ask("GET", f"/api/v1/runs/{RUN}", token)
    for n in range(3):  # what is made up adds no figures
        web.ask(f"M{n}", f"/no/such/place/{n}")
    assert web.store.claim(RUN, 0)
    web.store.started(RUN, web.now() + 7)
    until(lambda: metrics(web)["rai_queue_wait_seconds_count",] == 1)
    found = metrics(web)
    assert found["rai_requests_total", "/api/v1/runs/{id}", "200", "GET"] == 1
    assert found["rai_requests_total", "404", "other", "other"] == 3
    assert found["rai_upload_bytes_total",] == len(b"a packed project")
    assert found["rai_runs", "running"] == 1
    assert found["rai_runs", "waiting"] == 0
    assert found["rai_queue_wait_seconds_sum",] > 6
    text = web.ask("GET", "/metrics").body
    for name in (b"blueteam", b"annperson", RUN.encode()):
        assert name not in text


def test_each_end_of_a_run_is_logged_and_counted_by_its_reason(web, log):
    token = web.token("blue")
    for run, reason in (("a", Reason.INTERNAL), ("b", Reason.DONE), ("c", None)):
        run = f"000000000{run}"
        web.put(token, run)
        if reason is None:
            web.ask("DELETE", f"/api/v1/runs/{run}", token)
        else:
            web.store.ended(run, web.now(), reason, "the upload is gone")
    ends = [
        ("rai_runs_ended_total", reason) for reason in ("internal", "done", "cancelled")
    ]
    until(lambda: [metrics(web).get(one) for one in ends] == [1, 1, 1])
    told = [line for line in lines(log) if line["step"] == "run_ended"]
    assert [line["run"] for line in told] == ["000000000a", "000000000b", "000000000c"]
    assert (told[0]["reason"], told[0]["why"]) == ("internal", "the upload is gone")


@pytest.fixture
def log():
    stream = io.StringIO()
    loggers = [logging.getLogger(name) for name in messages.LOGGERS]
    before = [(one.handlers, one.propagate, one.level) for one in loggers]
    messages.to_stream(stream)
    yield stream
    for one, (handlers, propagate, level) in zip(loggers, before, strict=True):
        one.handlers, one.propagate = handlers, propagate
        one.setLevel(level)


def lines(stream):
    return [msgspec.json.decode(line) for line in stream.getvalue().splitlines()]


def test_each_request_and_each_step_is_one_line_and_no_secret_is_in_it(web, log):
    token = web.token("blue")
    secret = "the value that nobody sees"
    found = web.put(token, RUN)
    web.ask("DELETE", f"/api/v1/runs/{RUN}", token)
    code = "22222-22222-22222"
    web.ask("POST", "/api/v1/login", body={"code": code, "device": secret})
    web.ask("GET", f"/api/v1/runs?after={secret.replace(' ', '+')}", token)
    until(lambda: log.getvalue().count('"step":"request"') == 5)
    found_lines = lines(log)
    steps = [line["step"] for line in found_lines]
    assert {"upload_whole", "run_queued", "cancel"} <= set(steps)
    asked = [line for line in found_lines if line["step"] == "request"]
    put = next(line for line in asked if line["path"].endswith(RUN))
    assert put["request"] == found.headers["x-request-id"]
    assert (put["status"], put["team"], put["person"]) == (201, "blue", "ann")
    assert asked[-1]["refused"]
    for word in (token, token.split("_", 2)[2], code, secret):
        assert word not in log.getvalue()


def test_what_strangers_ask_is_written_now_and_then_and_else_counted(web, log):
    web.clock = lambda: 1e9  # no line comes back with time
    for _ in range(STRANGER_LINES + 9):
        web.ask("POST", "/api/v1/login", body={"code": "22222-22222-22222"})
        web.ask("GET", "/api/v1/me")
    web.ahead = 2 * STRANGER_LINE_S
    web.ask("GET", "/api/v1/runs", web.token("blue"))
    web.ask("GET", "/healthz")
    until(lambda: "/healthz" in log.getvalue())
    strangers = [line for line in lines(log) if "team" not in line]
    assert len(lines(log)) == len(strangers) + 1
    assert len(strangers) <= STRANGER_LINES + 2
    unwritten = sum(line.get("unwritten", 0) for line in strangers)
    assert len(strangers) + unwritten == 2 * (STRANGER_LINES + 9) + 1


def test_no_client_writes_lines_into_the_log(web, log):
    web.ask("GET", "/%0a%1b%5b31m%e2%80%ae%c2%9b" + "x" * 5000)
    until(log.getvalue)
    text = log.getvalue()
    assert text.count("\n") == 1
    assert re.fullmatch(r"[\x20-\x7e]*\n", text)
    assert len(text) < 2000


def test_what_fails_is_told_in_the_log_alone(web, log, monkeypatch):
    def broken(*_):
        raise ValueError("a detail of the server")

    monkeypatch.setattr(web.store, "runs", broken)
    found = web.ask("GET", "/api/v1/runs", web.token("blue"))
    assert found.status == 500
    assert msgspec.json.decode(found.body, type=Refusal).reason is Reason.INTERNAL
    assert b"detail" not in found.body
    number = found.headers["x-request-id"]
    assert number in found.json["problems"][0]["message"]
    fault = next(line for line in lines(log) if line["step"] == "fault")
    assert fault["request"] == number
    assert "a detail of the server" in fault["trace"]

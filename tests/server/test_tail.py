"""Following a run: every byte once, in order, whatever breaks."""

from __future__ import annotations

import threading
import time

import pytest

from runner.core import Reason, Stream
from runner.core.wire import FILES, LEAST_S, QueueState
from tests.kit.follower import Follower, joined
from tests.kit.waiting import until
from tests.kit.web import COSTLY_S, RUN, held

pytestmark = pytest.mark.lengthy


def folder(web, run_id=RUN):
    root = web.runs.paths(run_id).root
    return {name: (root / name).read_bytes() for name in FILES}


def test_a_run_is_followed_from_the_queue_to_its_end(web, token):
    follower = Follower(web, token, RUN)
    thread = follower.thread()
    until(lambda: follower.runs)
    assert follower.runs[0].state is QueueState.WAITING
    web.begin(RUN)
    web.runs.say(RUN, b"hello\n")
    web.runs.say(RUN, b"oh\n", Stream.STDERR)
    until(lambda: follower.copies["stderr.log"])
    web.runs.tick(RUN, 1.0)
    until(lambda: any(header.latest for header in follower.headers))
    web.runs.write(RUN, "build.tar.zst", b"built")
    web.end(RUN)
    joined(thread)
    assert follower.copies == folder(web)
    assert follower.over is not None
    assert follower.over.build == 5
    assert follower.over.run.state is QueueState.ENDED
    assert follower.over.run.reason is Reason.DONE


def test_one_that_never_started_ends_at_once(web, token):
    follower = Follower(web, token, RUN)
    thread = follower.thread()
    until(lambda: follower.runs)
    web.ask("DELETE", f"/api/v1/runs/{RUN}", token)
    joined(thread)
    assert follower.over is not None
    assert follower.over.run.cancelled
    assert not any(follower.copies.values())


def test_a_follower_that_breaks_off_again_and_again_has_every_byte_once(web, token):
    web.begin(RUN)
    follower = Follower(web, token, RUN)
    for n in range(4):
        follower.headers.clear()
        thread = follower.thread()
        for _ in range(50):
            web.runs.say(RUN, b"%d\n" % n * 200)
        until(lambda: follower.runs)
        follower.break_off()
        joined(thread)
    web.end(RUN)
    follower.follow()
    assert follower.over is not None
    assert follower.copies == folder(web)


def test_a_lost_run_ends_with_what_it_wrote(web, token):
    web.begin(RUN)
    follower = Follower(web, token, RUN)
    thread = follower.thread()
    web.runs.say(RUN, b"last words")
    web.runs.lose(RUN)
    web.store.ended(RUN, web.now(), Reason.RUNNER_LOST, "its worker is gone")
    joined(thread)
    assert follower.copies == folder(web)
    assert follower.over is not None
    assert follower.over.run.why == "its worker is gone"


def test_an_answer_waits_for_news_and_no_longer_than_asked(web, token):
    web.begin(RUN)
    follower = Follower(web, token, RUN)
    while follower.copies != folder(web):
        follower.ask(0)
        follower.take()
    for wait_s, least_s in ((0, LEAST_S), (1, 1.0)):
        began = time.monotonic()
        follower.ask(wait_s)
        follower.take()
        assert time.monotonic() - began >= least_s - 0.01
        assert not any(follower.headers[-1].sizes.values())
    follower.ask(30)
    web.runs.say(RUN, b"news\n")
    follower.take()
    follower.close()
    assert follower.copies == folder(web)


def test_a_change_of_the_queue_is_news(web, token):
    follower = Follower(web, token, RUN)
    follower.ask(0)
    follower.take()
    follower.ask(30)
    until(lambda: b"rai_followers 1.0" in web.ask("GET", "/metrics").body)
    web.store.wait_reason({RUN: "the GPU is in use"})
    follower.take()
    follower.close()
    assert follower.runs[-1].why == "the GPU is in use"


def test_much_is_told_at_once_and_so_is_the_end(web, token, monkeypatch):
    monkeypatch.setattr("runner.server.downloads.LEAST_S", 3600.0)
    web.begin(RUN)
    web.runs.say(RUN, bytes(5 << 20))
    follower = Follower(web, token, RUN)
    for _ in range(5):
        follower.ask(0)
        assert follower.take()
        assert follower.headers[-1].more
    web.end(RUN)
    follower.follow()
    assert follower.copies == folder(web)
    assert not follower.headers[-1].more


def test_a_follower_that_takes_nothing_holds_up_no_other(web, token):
    web.begin(RUN)
    for _ in range(12):
        web.runs.say(RUN, bytes(1 << 20))
    slow, quick = Follower(web, token, RUN), Follower(web, token, RUN)
    slow.ask()
    web.end(RUN)
    joined(quick.thread())
    assert quick.copies == folder(web)
    assert slow.take()
    slow.follow()
    assert slow.copies == folder(web)


def test_a_follower_that_takes_nothing_for_long_is_let_go(web, token, monkeypatch):
    for name in ("TAKE_S", "HEAD_S"):  # as it may come to either
        monkeypatch.setattr(f"runner.server.bounds.{name}", 0.4)
    web.begin(RUN)
    for _ in range(8):
        web.runs.say(RUN, bytes(1 << 20))
    slow = Follower(web, token, RUN)
    slow.ask()
    until(lambda: not held(), look_s=COSTLY_S)
    slow.close()


def test_an_answer_that_waits_ends_soon_after_its_token_is_revoked(
    web, token, monkeypatch
):
    monkeypatch.setattr("runner.server.bounds.REVOKED_S", 0.2)
    web.begin(RUN)
    follower = Follower(web, token, RUN)
    follower.ask(0)
    follower.take()
    follower.ask(30)
    token_id = web.ask("GET", "/api/v1/me", token).json["token_id"]
    web.store.revoke(token_id, web.now())
    with pytest.raises(AssertionError, match="revoked"):
        follower.take()
    follower.close()


def test_another_teams_run_is_not_followed(web, token):
    found = web.ask("GET", f"/api/v1/runs/{RUN}/tail", web.token("red"))
    assert found.status == 404
    assert web.ask("GET", f"/api/v1/runs/{RUN}/tail").status == 401


@pytest.mark.parametrize("offset", ["-1", "x", "1e3", "9" * 30, "%00", ""])
def test_an_offset_is_a_number(web, token, offset):
    path = f"/api/v1/runs/{RUN}/tail?stdout={offset}"
    assert web.ask("GET", path, token).status == 400


def test_an_offset_beyond_the_end_is_waited_for_and_the_end_comes(web, token):
    web.begin(RUN)
    follower = Follower(web, token, RUN)
    follower.copies["stdout.log"] += bytes(10_000)
    thread = follower.thread()
    web.runs.say(RUN, b"hello")
    web.end(RUN)
    joined(thread)
    assert follower.over is not None


def test_one_person_has_so_many_requests_and_no_more(web, token, monkeypatch):
    monkeypatch.setattr("runner.server.bounds.MOST_OPEN", 3)
    followers = [Follower(web, token, RUN) for _ in range(3)]
    for one in followers:
        one.ask(30)
    until(lambda: b"rai_followers 3.0" in web.ask("GET", "/metrics").body)
    refused = web.ask("GET", f"/api/v1/runs/{RUN}", token)
    assert (refused.status, refused.json["reason"]) == (429, "rate_limit")
    other = web.token("blue", "bob")
    assert web.ask("GET", f"/api/v1/runs/{RUN}", other).status == 200
    for one in followers:
        one.close()
    until(lambda: web.ask("GET", f"/api/v1/runs/{RUN}", token).status == 200)


def test_when_a_follower_has_gone_its_files_are_closed(web, token):
    web.begin(RUN)
    opened = []
    original = web.runs.open

    def noted(run_id, name):
        file = original(run_id, name)
        if file:
            opened.append(file)
        return file

    web.runs.open = noted
    followers = [Follower(web, token, RUN) for _ in range(3)]
    for one in followers:
        one.ask()
        assert one.take()  # what there is so far: now they wait for more
        one.ask(30)
    until(lambda: b"rai_followers 3.0" in web.ask("GET", "/metrics").body)
    until(lambda: len([one for one in opened if not one.closed]) == 9)
    for one in followers:
        one.close()
    until(lambda: all(file.closed for file in opened))
    assert threading.active_count() < 40

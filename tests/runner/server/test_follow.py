"""Following a run: every byte once, in order, whatever breaks."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from runner.core import Reason, Stream
from runner.server import bounds
from runner.wire.frames import FILES
from runner.wire.host import StartRun
from runner.wire.remote_runs import QueueState
from tests.runner.server.follower import Follower, joined
from tests.waiting import until

RUN = "0123456789"


@pytest.fixture
def token(web):
    found = web.token("blue")
    assert web.put(found, RUN).status == 201
    return found


def start(web, run_id=RUN):
    row = web.store.run(run_id)
    assert web.store.claim(run_id, row.attempt)
    file = Path(__file__)
    web.host.start(StartRun(run_id), file, file)
    web.store.started(run_id, web.now())


def end(web, run_id=RUN, reason=Reason.DONE):
    web.host.end(run_id, reason)
    web.store.ended(run_id, web.now(), reason)


def folder(web, run_id=RUN):
    root = web.host.paths(run_id).root
    return {name: (root / name).read_bytes() for name in FILES}


def test_a_run_is_followed_from_the_queue_to_its_end(web, token):
    follower = Follower(web, token, RUN)
    thread = follower.thread()
    until(lambda: follower.statuses)
    assert follower.statuses[0].run.state is QueueState.WAITING
    start(web)
    web.host.say(RUN, b"hello\n")
    web.host.say(RUN, b"oh\n", Stream.STDERR)
    until(lambda: follower.copies["stderr.log"])
    web.host.tick(RUN, 1.0)
    until(lambda: follower.latest)
    web.host.write(RUN, "build.tar.zst", b"built")
    end(web)
    joined(thread)
    assert follower.copies == folder(web)
    assert follower.done is not None
    assert follower.done.build == 5
    assert follower.done.run.state is QueueState.ENDED
    states = [status.run.state for status in follower.statuses]
    assert states[-1] is QueueState.ENDED
    assert follower.done.run.reason is Reason.DONE


def test_a_run_that_has_ended_is_followed_all_the_same(web, token):
    start(web)
    web.host.say(RUN, b"hello\n" * 100_000)
    end(web)
    follower = Follower(web, token, RUN)
    follower.follow()
    assert follower.copies == folder(web)
    assert follower.done is not None
    assert follower.done.build is None


def test_one_that_never_started_ends_at_once(web, token):
    follower = Follower(web, token, RUN)
    thread = follower.thread()
    until(lambda: follower.statuses)
    web.ask("DELETE", f"/api/v1/runs/{RUN}", token)
    joined(thread)
    assert follower.done is not None
    assert follower.done.run.cancelled
    assert not any(follower.copies.values())


def test_a_follower_that_breaks_off_again_and_again_has_every_byte_once(web, token):
    start(web)
    follower = Follower(web, token, RUN)
    for n in range(20):
        follower.statuses.clear()
        thread = follower.thread()
        for _ in range(50):
            web.host.say(RUN, b"%d\n" % n * 200)
        until(lambda: follower.statuses)
        follower.break_off()
        joined(thread)
    end(web)
    follower.follow()
    assert follower.done is not None
    assert follower.copies == folder(web)


def test_many_followers_each_have_all(web, token):
    start(web)
    followers = [Follower(web, token, RUN) for _ in range(20)]
    threads = [one.thread() for one in followers]
    for n in range(200):
        web.host.say(RUN, b"line %d\n" % n)
    end(web)
    joined(*threads)
    for one in followers:
        assert one.done is not None
        assert one.copies == folder(web)


def test_a_lost_run_ends_with_what_it_wrote(web, token):
    start(web)
    follower = Follower(web, token, RUN)
    thread = follower.thread()
    web.host.say(RUN, b"last words")
    web.host.lose(RUN)
    web.store.ended(RUN, web.now(), Reason.RUNNER_LOST, "its worker is gone")
    joined(thread)
    assert follower.copies == folder(web)
    assert follower.done is not None
    assert follower.done.run.why == "its worker is gone"


def test_a_host_that_is_away_ends_nothing(web, token):
    start(web)
    web.host.unreachable = True
    follower = Follower(web, token, RUN)
    thread = follower.thread()
    until(lambda: follower.statuses)
    web.host.unreachable = False
    web.host.say(RUN, b"hello")
    until(lambda: follower.copies["stdout.log"])
    web.host.unreachable = True
    web.host.say(RUN, b", world")  # the files are open
    until(lambda: len(follower.copies["stdout.log"]) == 12)
    end(web)
    assert follower.done is None
    web.host.unreachable = False
    joined(thread)
    assert follower.copies == folder(web)
    assert follower.done is not None


def test_a_silent_run_is_heard_of_now_and_then(web, token, monkeypatch):
    monkeypatch.setattr("runner.server.follow.BEAT_S", 0.05)
    start(web)
    follower = Follower(web, token, RUN)
    thread = follower.thread()
    until(lambda: follower.beats >= 2)
    end(web)
    joined(thread)


def test_a_follower_that_takes_nothing_holds_up_no_other(web, token):
    start(web)
    slow, quick = Follower(web, token, RUN), Follower(web, token, RUN)
    slow.open()
    thread = quick.thread()
    for _ in range(40):
        web.host.say(RUN, bytes(1 << 20))
    end(web)
    joined(thread)
    assert quick.copies == folder(web)
    while slow.frame():
        pass
    slow.close()
    assert slow.copies == folder(web)


def test_a_follower_that_takes_nothing_for_long_is_let_go(web, token, monkeypatch):
    monkeypatch.setattr("runner.server.streaming.SEND_S", 0.2)
    monkeypatch.setattr("runner.server.serving.STUCK_S", 0.4)
    start(web)
    slow = Follower(web, token, RUN)
    slow.open()
    for _ in range(8):
        web.host.say(RUN, bytes(1 << 20))
    until(lambda: b"rai_followers 0.0" in web.ask("GET", "/metrics").body)
    until(lambda: not web.connections)
    slow.close()


def test_an_open_stream_ends_soon_after_its_token_is_revoked(web, token, monkeypatch):
    monkeypatch.setattr("runner.server.visits.REVOKED_S", 0.2)
    start(web)
    follower = Follower(web, token, RUN)
    thread = follower.thread()
    until(lambda: follower.statuses)
    token_id = web.ask("GET", "/api/v1/me", token).json["token_id"]
    web.store.revoke(token_id, web.now())
    joined(thread)
    assert follower.done is None
    assert 2 * bounds.REVOKED_S < 5


def test_another_teams_run_is_not_followed(web, token):
    found = web.ask("GET", f"/api/v1/runs/{RUN}/follow", web.token("red"))
    assert found.status == 404
    assert web.ask("GET", f"/api/v1/runs/{RUN}/follow").status == 401


@pytest.mark.parametrize("offset", ["-1", "x", "1e3", "9" * 30, "%00", ""])
def test_an_offset_is_a_number(web, token, offset):
    path = f"/api/v1/runs/{RUN}/follow?stdout={offset}"
    assert web.ask("GET", path, token).status == 400


def test_an_offset_beyond_the_end_is_waited_for_and_the_end_comes(web, token):
    start(web)
    follower = Follower(web, token, RUN)
    follower.copies["stdout.log"] += bytes(10_000)
    thread = follower.thread()
    web.host.say(RUN, b"hello")
    end(web)
    joined(thread)
    assert follower.done is not None


def test_one_person_has_so_many_streams_and_no_more(web, token, monkeypatch):
    monkeypatch.setattr("runner.server.visits.MOST_OPEN", 3)
    followers = [Follower(web, token, RUN) for _ in range(3)]
    for one in followers:
        one.open()
    refused = web.ask("GET", f"/api/v1/runs/{RUN}", token)
    assert (refused.status, refused.json["reason"]) == (429, "rate_limit")
    other = web.token("blue", "bob")
    assert web.ask("GET", f"/api/v1/runs/{RUN}", other).status == 200
    for one in followers:
        one.close()
    until(lambda: web.ask("GET", f"/api/v1/runs/{RUN}", token).status == 200)


def test_when_the_last_follower_has_gone_the_files_are_closed(web, token):
    start(web)
    opened = []
    original = web.host.open

    def noted(run_id, name):
        file = original(run_id, name)
        if file:
            opened.append(file)
        return file

    web.host.open = noted
    followers = [Follower(web, token, RUN) for _ in range(3)]
    threads = [one.thread() for one in followers]
    web.host.say(RUN, b"x")
    until(lambda: all(one.copies["stdout.log"] for one in followers))
    assert len([file for file in opened if not file.handle.closed]) == 3
    for one in followers:
        one.break_off()
    joined(*threads)
    until(lambda: all(file.handle.closed for file in opened))
    assert threading.active_count() < 40

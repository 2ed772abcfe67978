"""The client's copy of a run on a server: each byte once, whatever breaks off."""

from __future__ import annotations

import io
import os
import threading
import time
from pathlib import Path

import pytest

from runner.client import bounds
from runner.client.problems import RefusedError
from runner.core import MIB, Reason, State, Verdict
from runner.core.errors import NotAllowedError, RaiError
from runner.core.wire import FILES, MOST_TAIL_BYTES, QueueState, Refusal, RemoteRun
from runner.execution.copies import Follower, Mirror, MirroredError
from runner.store import run_files, runs
from runner.store.paths import RunPaths
from tests.kit.played import Playing
from tests.kit.recorded import (
    BUILD,
    ID,
    TEAM,
    FakeServer,
    answer,
    handed_over,
    recorded,
    remote,
    said,
    sizes,
)
from tests.kit.waiting import until

BOUNDS = bounds.MirrorBounds(MIB, MIB)


@pytest.fixture
def served(tmp_path: Path) -> RunPaths:
    return recorded(tmp_path / "server")


@pytest.fixture
def copy(tmp_path: Path) -> RunPaths:
    return handed_over(tmp_path / "home")


def take(copy: RunPaths, data: bytes, most: bounds.MirrorBounds = BOUNDS) -> bool:
    """Write what an answer brings; return whether it was whole, and the last."""
    with Mirror(copy, most) as mirror:
        body = io.BufferedReader(io.BytesIO(data))  # type: ignore[arg-type]
        header = mirror.take(body, mirror.have)
    return header is not None and header.over


def same(copy: RunPaths, served: RunPaths) -> bool:
    return all(
        (copy.root / name).read_bytes() == (served.root / name).read_bytes()
        for name in FILES
    )


def following(copy: RunPaths, server: FakeServer) -> Follower:
    """Begin to follow a run."""
    follower = Follower(copy, lambda: server, BOUNDS)  # type: ignore[arg-type,return-value]
    follower.start()
    return follower


def followed(copy: RunPaths, server: FakeServer) -> Follower:
    """Follow a run to its end."""
    follower = following(copy, server)
    until(lambda: copy.record.exists() or follower.error is not None)
    follower.stop()
    return follower


@pytest.mark.lengthy
def test_an_answer_that_breaks_off_at_any_byte_goes_on_there(tmp_path):
    served = recorded(tmp_path / "server", lines=1)
    whole = {name: (served.root / name).read_bytes() for name in FILES}
    copy = RunPaths(tmp_path / ID)  # the writer needs no more than a folder
    copy.root.mkdir()
    sent = answer(served, dict.fromkeys(FILES, 0))
    for cut in range(0, len(sent), 5):  # prime to the sizes of what repeats
        for name in FILES:
            (copy.root / name).write_bytes(b"")
        take(copy, sent[:cut])
        for name in FILES:
            assert whole[name].startswith((copy.root / name).read_bytes()), cut
        assert take(copy, answer(served, sizes(copy)))
        assert same(copy, served), cut


def test_what_is_here_never_speaks_of_output_that_is_not(served, copy):
    while not take(copy, answer(served, sizes(copy), most=50)):
        for _, event in runs.stamped(copy):
            end = getattr(event, "offset", 0) + getattr(event, "length", 0)
            stream = getattr(event, "stream", None)
            assert stream is None or copy.log(stream).stat().st_size >= end
    assert same(copy, served)


def test_the_record_is_written_last_and_is_the_servers_own(served, copy):
    server = FakeServer(lambda have: answer(served, have, build=len(BUILD)))

    followed(copy, server)

    assert copy.build.read_bytes() == BUILD
    assert runs.read(copy) == runs.read(served)
    assert not copy.latest.exists()
    assert run_files.read_seen(copy).run.state is QueueState.ENDED


def test_one_process_at_a_time_writes_a_copy_and_another_takes_over(served, copy):
    server = FakeServer(lambda have: answer(served, have))
    with Mirror(copy, BOUNDS), pytest.raises(MirroredError):
        Mirror(copy, BOUNDS)
    with Mirror(copy, BOUNDS):
        follower = following(copy, server)
        until(lambda: follower.settled)
        assert follower.doubt == ""
        assert server.followed == 0
    until(copy.record.exists)
    follower.stop()


def test_a_follower_that_is_stopped_leaves_the_lock_at_once(copy, server, client):
    asked, over = threading.Event(), threading.Event()

    def silent(request: Playing) -> None:
        asked.set()
        over.wait(120)
        request.close_connection = True

    server.plays["GET", f"/runs/{ID}/tail"] = silent
    follower = Follower(copy, lambda: client, BOUNDS)
    follower.start()
    assert asked.wait(60)
    follower.stop()
    follower.thread.join(60)  # sooner than the server answers
    with Mirror(copy, BOUNDS):  # which nobody else holds any more
        assert not over.is_set()
    over.set()


@pytest.mark.parametrize(
    ("reason", "state"),
    [
        (Reason.CANCELLED, State.CANCELLED),
        (Reason.RUNNER_LOST, State.LOST),
        (Reason.INTERNAL, State.DONE),
        (Reason.BAD_SPEC, State.DONE),
        (Reason.DONE, State.LOST),
    ],
)
def test_a_run_that_ended_without_events_ends_as_its_server_says(copy, reason, state):
    end = remote(reason=reason, why="it was so")
    server = FakeServer(lambda have: said(end, over=True))

    followed(copy, server)

    found = runs.read(copy)
    assert (found.state, found.project) == (state, "/home/me/p")
    lost = reason in (Reason.RUNNER_LOST, Reason.INTERNAL)
    if reason is not Reason.DONE:
        assert (found.verdict.reason, found.verdict.served) == (reason, not lost)
        blamed = "the server failed, not your project: " if lost else ""
        assert found.verdict.message == f"{blamed}it was so"


def test_a_run_that_was_lost_in_the_middle_keeps_what_it_printed(tmp_path, copy):
    served = recorded(tmp_path / "server", verdict=None)
    lost = remote(reason=Reason.RUNNER_LOST, why="the host was started again")
    server = FakeServer(lambda have: answer(served, have, lost))

    followed(copy, server)

    found = runs.read(copy)
    assert found.state is State.LOST
    assert found.commands[0].text == "echo 1"
    assert copy.stdout.read_bytes() == served.stdout.read_bytes()


def test_a_run_that_was_cancelled_says_who_asked_for_it(tmp_path, copy):
    stopped = "stopped on request; what it wrote so far is kept"
    verdict = Verdict(True, False, None, Reason.CANCELLED, stopped)
    served = recorded(tmp_path / "server", verdict)
    why = "staff ended the access of ada"
    end = remote(reason=Reason.CANCELLED, why=why)

    followed(copy, FakeServer(lambda have: answer(served, have, end)))

    message = runs.read(copy).verdict.message
    assert message == f"{why}; what it wrote so far is kept"


def unknown(team: str = TEAM) -> FakeServer:
    """Return a server that does not know the run."""
    server = FakeServer(lambda have: b"", team=team)
    server.knows = False
    return server


def test_a_run_that_the_server_never_got_is_said_to_be_lost(copy):
    os.utime(copy.holder, (1, 1))
    followed(copy, unknown())
    found = runs.read(copy)
    assert found.state is State.LOST
    assert "before the run was queued" in found.verdict.message


def test_a_run_that_was_just_handed_over_is_waited_for(copy):
    follower = following(copy, unknown())
    until(lambda: bool(follower.trouble))
    follower.stop()
    assert not copy.record.exists()


def test_another_teams_login_ends_no_run(copy):
    os.utime(copy.holder, (1, 1))
    follower = followed(copy, unknown("team-2"))
    assert isinstance(follower.error, NotAllowedError)
    assert "of team team-1 goes on without you" in str(follower.error)
    assert not copy.record.exists()


def test_a_cancel_that_is_refused_is_dropped_and_the_copy_goes_on(served, copy):
    class Others(FakeServer):
        def cancel(self, run: str) -> RemoteRun:
            raise RefusedError(Refusal(403, "not yours", Reason.NOT_ALLOWED))

    copy.cancel.touch()
    followed(copy, Others(lambda have: answer(served, have), iter([50, 60])))

    assert copy.record.exists()
    assert not copy.cancel.exists()


def stamped(text: str) -> bytes:
    return f'{{"at": 1, "event": "Packing", "x": "{text}"}}\n'.encode()


HERE = remote(QueueState.RUNNING)
HOSTILE = {
    "a size below zero": said(HERE, b"x").replace(b':1,"stderr', b':-1,"stderr'),
    "a size beyond bounds": said(HERE, bytes(MOST_TAIL_BYTES + 1)),
    "sizes beyond bounds": said(HERE, bytes(MOST_TAIL_BYTES), b"x"),
    "no header": b"GET / HTTP/1.1\n",
    "no JSON": b"{" * 1000 + b"\n",
    "an endless header": b"x" * (1 << 20),
    "another run": said(remote(id="ffffffffff")),
    "an end that is none": said(HERE, over=True),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_answer_is_refused_and_writes_nothing_else(name, copy):
    before = {path.name for path in copy.root.iterdir()}

    with pytest.raises(RaiError, match="no part of run") as found:
        take(copy, HOSTILE[name])

    made = {path.name for path in copy.root.iterdir()} - before
    assert made <= {*FILES, copy.mirror.name, copy.seen.name}
    assert copy.stdout.read_bytes() == b""
    assert len(str(found.value)) < 600


def test_more_output_than_the_run_may_have_is_refused(copy):
    take(copy, said(HERE, bytes(1 << 20)))

    with pytest.raises(RaiError, match="limits"):
        take(copy, said(HERE, b"x"))

    assert copy.stdout.stat().st_size == MIB


def test_endless_events_are_refused(copy, monkeypatch):
    monkeypatch.setattr(bounds, "EVENTS_BYTES", 1000)
    line = stamped("x" * 100)

    with pytest.raises(RaiError, match="limits"):
        for _ in range(100):
            take(copy, said(HERE, b"", b"", line))

    assert copy.events.stat().st_size <= 1000


@pytest.mark.parametrize(
    "line", [b"hello", b'{"event":"Packing"}', b'{"at":1e99,"event":"x"}']
)
def test_a_run_ends_where_its_events_are_damaged(copy, line):
    events = stamped("x") + line + b"\n" + stamped("y")
    server = FakeServer(lambda _: said(remote(), b"", b"", events, over=True))
    followed(copy, server)
    found = runs.read(copy)
    assert found.state is State.LOST
    assert "its events end before it does" in found.verdict.message


def test_a_latest_of_absurd_length_is_left_out(copy):
    take(copy, said(HERE, latest="x" * 5000))
    assert not copy.latest.exists()


def test_a_server_that_answers_nothing_at_once_is_asked_five_times_a_second(copy):
    server = FakeServer(lambda have: said(HERE, more=True))
    began = time.monotonic()
    follower = following(copy, server)
    until(lambda: server.followed == 4)
    follower.stop()
    assert time.monotonic() - began >= 0.6


def test_what_another_process_wrote_meanwhile_is_not_written_twice(served, copy):
    with Mirror(copy, BOUNDS) as mirror:
        have = mirror.have
        copy.stdout.write_bytes(b"line")  # on a file system without locks
        body = io.BufferedReader(io.BytesIO(answer(served, have)))  # type: ignore[arg-type]
        with pytest.raises(MirroredError):
            mirror.take(body, have)
    assert copy.stdout.read_bytes() == b"line"


def test_a_full_disk_is_named_and_the_copy_goes_on_later(served, copy):
    # As /dev/full refuses each byte.
    copy.stdout.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space") as found:
        take(copy, answer(served, dict.fromkeys(FILES, 0)))
    assert found.value.filename == str(copy.stdout)

    copy.stdout.unlink()
    assert take(copy, answer(served, sizes(copy)))
    assert same(copy, served)


def test_the_bounds_follow_from_the_limits_of_the_build_file():
    small = bounds.of_parcel(None)
    assert small.log_bytes >= 256 * MIB
    assert small.of_events(0) == bounds.EVENTS_BYTES
    assert small.of_events(1 << 60) == bounds.MOST_EVENTS_BYTES

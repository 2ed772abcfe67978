"""The job host that other tests use behaves as a real one does."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.core import Problem, Reason, State
from runner.core.errors import BusyError
from runner.jobhost.base import JobHost
from runner.store import runs
from runner.wire.host import HostAnswer, StartRun
from tests.runner.server.fake_host import FakeHost

RUN = "00000000aa"


@pytest.fixture
def host(tmp_path):
    one = FakeHost(tmp_path / "host", gpus=1)
    yield one
    one.close()


@pytest.fixture
def sent(tmp_path) -> tuple[Path, Path]:
    parcel, source = tmp_path / "parcel.json", tmp_path / "source.tar.zst"
    parcel.write_bytes(b"{}")
    source.write_bytes(b"packed")
    return parcel, source


def test_a_run_has_a_folder_that_reads_as_any_other(host, sent):
    asked: JobHost = host
    assert asked.start(StartRun(RUN), *sent) == HostAnswer()
    host.say(RUN, b"hello\n")
    opened = asked.open(RUN, "stdout.log")
    assert opened is not None
    with opened.handle:
        assert (opened.handle.read(), opened.size) == (b"hello\n", 6)
    assert asked.open(RUN, "holder.json") is None
    host.end(RUN, Reason.COMMAND_FAILED, kept_bytes=7)
    record = runs.read(host.paths(RUN))
    assert record is not None and record.verdict is not None
    assert record.verdict.reason is Reason.COMMAND_FAILED
    seen = asked.look([RUN, "0000000000"])
    assert seen.keys() == {RUN}
    assert (seen[RUN].ended, seen[RUN].state) == (True, State.DONE)
    assert (seen[RUN].exit_code, seen[RUN].bytes) == (1, 7)
    asked.remove([RUN])
    assert asked.look([RUN]) == {} and not host.paths(RUN).root.exists()


def test_a_run_is_started_once_however_often_it_is_asked_for(host, sent):
    assert not host.start(StartRun(RUN), *sent).already
    assert host.start(StartRun(RUN), *sent).already
    assert host.workers == [RUN]


def test_an_answer_may_be_lost_after_the_start(host, sent):
    host.answers_lost = 1
    with pytest.raises(BusyError):
        host.start(StartRun(RUN), *sent)
    assert host.look([RUN])[RUN].claimed


def test_a_run_may_be_refused_and_the_host_out_of_reach(host, sent):
    no = HostAnswer(Reason.NO_ENGINE, (Problem("no engine"),))
    host.refusal = no
    assert host.start(StartRun(RUN), *sent) == no
    assert host.look([RUN]) == {}
    host.unreachable = True
    with pytest.raises(BusyError):
        host.facts()


def test_a_run_may_wait_for_a_worker_and_be_lost(host, sent):
    host.begins = False
    host.start(StartRun(RUN), *sent)
    assert not host.look([RUN])[RUN].claimed
    host.forget(RUN)
    host.begins = True
    host.start(StartRun(RUN), *sent)
    host.lose(RUN)
    assert host.look([RUN])[RUN].state is State.LOST
    assert not host.look([RUN])[RUN].ended

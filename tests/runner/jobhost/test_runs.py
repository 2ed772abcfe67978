"""A job host carries runs out, each once, whoever is killed meanwhile."""

from __future__ import annotations

import pytest

from runner.core import Reason, State
from tests.runner.jobhost.hosting import new_id, sealed, serving, until

pytestmark = [pytest.mark.programs, pytest.mark.local]


@pytest.fixture
def host(tmp_path):
    with serving(tmp_path) as host:
        yield host


GATED = "sh -c 'echo waiting; until [ -e go ]; do sleep 0.05; done'"
"""A command that a cancel ends."""


def test_a_run_goes_to_its_end_and_its_files_can_be_read(host, tmp_path):
    project = sealed(tmp_path, "echo hello", "sh -c 'echo kept > kept'")
    run_id = new_id()

    answer = host.start(run_id, project)
    ended = host.ended(run_id)

    assert answer.reason is None and not answer.already
    assert (ended.state, ended.reason, ended.exit_code) == (State.DONE, Reason.DONE, 0)
    assert ended.claimed and ended.started_at and ended.ended_at
    assert ended.started_at < ended.ended_at and ended.bytes > 0
    found = host.ask.open(run_id, "stdout.log")
    with found.handle as file:
        assert file.read() == b"hello\n" and found.size == 6
    assert host.ask.open(run_id, "latest.json") is None
    with host.ask.open(run_id, "build.tar.zst").handle as file:
        assert file.read(4) == b"\x28\xb5\x2f\xfd"  # RFC 8878: a frame of Zstandard


def test_a_run_that_is_asked_for_twice_runs_once(host, tmp_path):
    project = sealed(tmp_path, "sh -c 'echo ran'")
    run_id = new_id()

    first, second = host.start(run_id, project), host.start(run_id, project)
    host.ended(run_id)
    third = host.start(run_id, project)

    assert [one.already for one in (first, second, third)] == [False, True, True]
    assert host.paths(run_id).stdout.read_text() == "ran\n"


def test_a_run_is_cancelled(host, tmp_path):
    project, run_id = sealed(tmp_path, GATED), new_id()
    host.start(run_id, project)
    host.said(run_id, "waiting")
    going = until(lambda: (r := host.run(run_id)) and r.state is State.RUNNING and r)

    host.ask.cancel(run_id)

    ended = host.ended(run_id)
    assert going.claimed and not going.ended and going.started_at
    assert (ended.state, ended.exit_code) == (State.CANCELLED, 130)

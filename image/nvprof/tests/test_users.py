"""Processes are known by their numbers and their births."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from nvprof import users
from nvprof.users import Users

from tests.kit.waiting import until


@pytest.fixture
def process():
    with subprocess.Popen(["sleep", "60"]) as started:
        yield started
        started.kill()


def test_a_process_is_left_until_it_is_over(process):
    used = Users()
    used.began(process.pid)
    assert used.left() == [process.pid]
    used.kill(signal.SIGTERM)
    # Nobody has waited for it, so its number is still there.
    until(lambda: used.left() == [])
    assert process.wait() == -signal.SIGTERM


def test_one_that_has_said_its_end_is_left_alone(process):
    used = Users()
    used.began(process.pid)
    used.ended(process.pid)
    used.kill(signal.SIGKILL)
    assert used.left() == []
    assert process.poll() is None


def test_a_number_that_is_used_again_is_another_process(process, monkeypatch):
    used, earlier = Users(), Path(f"/proc/{os.getpid()}/stat")
    with monkeypatch.context() as then:
        then.setattr(users, "Path", lambda _: earlier)
        used.began(process.pid)
    used.kill(signal.SIGKILL)
    assert used.left() == []
    assert process.poll() is None


def test_another_users_process_is_no_failure(process, monkeypatch):
    def kill(*_):
        raise PermissionError

    used = Users()
    used.began(process.pid)
    with monkeypatch.context() as denied:
        denied.setattr(os, "kill", kill)
        used.kill(signal.SIGKILL)
    assert used.left() == [process.pid]


def test_a_name_with_blanks_and_parentheses_hides_no_birth(tmp_path):
    odd = tmp_path / "a) Z (b"
    odd.symlink_to("/bin/sleep")
    with subprocess.Popen([str(odd), "60"]) as process:
        assert (users.birth(process.pid) or "").isdigit()
        process.kill()


def test_what_never_was_has_no_birth():
    assert users.birth(1 << 30) is None

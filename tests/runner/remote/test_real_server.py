"""The client against the server's own application, at a Unix socket."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.core import Reason
from runner.database.accounts import Invitation
from runner.remote import login, profile
from runner.remote.api import Patience, ServerClient
from runner.remote.problems import LoginNeededError, RefusedError
from runner.remote.profile import ProfileEntry
from runner.scheduling.queue import Role, ServerRules
from runner.session.remote import upload
from runner.wire.remote_runs import QueueState
from tests.program import rai
from tests.runner.server.web import PROJECT, WebServer, request, serving

RUN = "0123456789"
TIGHT = Role("student", a_day=1, upload_bytes=1 << 20)


@pytest.fixture
def web(tmp_path: Path) -> Iterator[WebServer]:
    rules = ServerRules(roles={"student": TIGHT}, low_disk_bytes=0)
    with serving(tmp_path, rules) as found:
        yield found


@pytest.fixture
def url(web: WebServer) -> str:
    return f"unix://{web.socket}"


@pytest.fixture
def client(web: WebServer, url: str) -> Iterator[ServerClient]:
    token = web.token("kernels", "ada", "student")
    with ServerClient(ProfileEntry(url, token), Patience(20.0)) as made:
        yield made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "source.tar.zst"
    path.write_bytes(PROJECT)
    return path


def code(web: WebServer) -> str:
    invited = [Invitation("kernels", "ada", "student")]
    return web.store.invite(invited, web.now(), 60.0)[0].code


def test_a_code_is_good_for_one_login_and_logging_out_ends_the_token(
    web, url, tmp_path
):
    file, once = tmp_path / "profile", code(web)
    made = login.log_in(url, "", once, "laptop", file)
    assert (made.me.person, made.me.team, made.me.role) == ("ada", "kernels", "student")
    with pytest.raises(RefusedError, match="this code is not valid") as raised:
        login.log_in(url, "", once, "laptop", file)
    assert raised.value.reason is Reason.NOT_ALLOWED
    entry = profile.read(file).servers[url]
    assert login.log_out(entry, file) is None
    with ServerClient(entry) as client, pytest.raises(LoginNeededError):
        client.me()
    assert login.log_out(entry, file) is None


def test_an_upload_and_a_run_of_it_may_be_asked_for_again(client, file):
    sha256 = upload(client, file)
    assert upload(client, file) == sha256
    asked = request(sha256)
    first = client.put_run(RUN, asked)
    assert first.state is QueueState.WAITING
    assert client.put_run(RUN, asked).id == RUN
    assert client.run(RUN).queued_at == first.queued_at
    assert [run.id for run in client.runs().runs] == [RUN]
    assert client.cancel(RUN).cancelled
    assert client.run(RUN).state is QueueState.ENDED


def test_a_run_over_the_days_bound_says_when_the_next_may_be_queued(client, file):
    asked = request(upload(client, file))
    client.put_run(RUN, asked)
    assert client.me().limits.left_today == 0
    with pytest.raises(
        RefusedError, match=r"try again (tomorrow )?at \d\d:\d\d"
    ) as one:
        client.put_run("aaaaaaaaaa", asked)
    assert one.value.reason is Reason.RATE_LIMIT
    assert one.value.reason.exit_code == 8


def test_a_project_that_is_too_large_is_refused_before_it_is_sent(client, tmp_path):
    large = tmp_path / "large"
    large.write_bytes(os.urandom((1 << 20) + 1))
    with pytest.raises(RefusedError, match="role `student`") as raised:
        upload(client, large)
    assert raised.value.reason is Reason.NOT_ALLOWED


@pytest.mark.programs
def test_the_commands_speak_with_it(web, url, home):
    home.mkdir(exist_ok=True)
    done = rai("login", url, input=f"{code(web)}\n")
    assert done.returncode == 0, done.stderr
    said = json.loads(rai("login", "--status", "--json").stdout)
    assert (said["person"], said["server"]) == ("ada", url)
    assert "left" in rai("login", "--status").stdout
    assert rai("queue").returncode == 0
    assert rai("logout").returncode == 0
    assert rai("login", "--status").returncode == 2

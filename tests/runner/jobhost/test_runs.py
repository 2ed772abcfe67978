"""A job host carries runs out, each once, whoever is killed meanwhile."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from runner.core import Problem, Reason, State
from runner.core.errors import BusyError, RaiError
from runner.core.policy import RolePolicy
from runner.core.variables import Secrets
from runner.session import Options
from runner.store import claim
from tests.runner.jobhost.hosting import new_id, sealed, serving
from tests.waiting import until

pytestmark = [pytest.mark.programs, pytest.mark.local]


@pytest.fixture
def host(tmp_path):
    with serving(tmp_path) as host:
        yield host


DRY = """
import os, signal
from runner import places
def start(order):
    os.kill(os.getpid(), signal.SIGKILL)
real, places.LocalWorker = places.LocalWorker, start
"""
"""Kills the host where it would start a worker."""

LEFT = DRY.replace(
    "    os.kill",
    "    worker = real(order); worker._worker.leave()\n    os.kill",
)
"""Kills the host as soon as a worker has its order."""

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


def test_a_run_that_is_asked_for_by_many_at_once_runs_once(host, tmp_path):
    project, run_id = sealed(tmp_path, "sh -c 'echo ran'"), new_id()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: host.start(run_id, project), range(8)))

    host.ended(run_id)
    assert sorted(one.already for one in answers) == [False] + [True] * 7
    assert {one.reason for one in answers} == {None}
    assert host.paths(run_id).stdout.read_text() == "ran\n"


def test_runs_are_started_beside_each_other(host, tmp_path):
    projects = [sealed(tmp_path, f"echo {n}") for n in range(6)]
    ids = [new_id() for _ in projects]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(host.start, ids, projects))

    for number, run_id in enumerate(ids):
        assert host.ended(run_id).reason is Reason.DONE
        assert host.paths(run_id).stdout.read_text() == f"{number}\n"


def test_a_role_without_the_network_has_its_runs_refused_that_want_it(host, tmp_path):
    project = sealed(tmp_path, "true", network=True)
    role = RolePolicy({"network": 0.0}, source="the role `student`")

    refused = host.start(new_id(), project, allowed=role)

    assert refused.reason is Reason.NOT_ALLOWED
    assert "by the role `student`" in refused.problems[0].message


def test_a_run_is_cancelled(host, tmp_path):
    project, run_id = sealed(tmp_path, GATED), new_id()
    host.start(run_id, project)
    host.said(run_id, "waiting")
    going = until(lambda: (r := host.run(run_id)) and r.state is State.RUNNING and r)

    host.ask.cancel(run_id)

    ended = host.ended(run_id)
    assert going.claimed and not going.ended and going.started_at
    assert (ended.state, ended.exit_code) == (State.CANCELLED, 130)


def events(host, run_id) -> list[str]:
    lines = host.paths(run_id).events.read_text().splitlines()
    return [json.loads(line)["event"] for line in lines]


def test_a_run_goes_on_when_the_host_is_killed_and_a_new_host_sees_it(host, tmp_path):
    project, run_id = sealed(tmp_path, GATED, "echo after"), new_id()
    host.start(run_id, project)
    host.said(run_id, "waiting")

    host.kill()
    host.begin()

    seen = host.run(run_id)
    assert seen.claimed and not seen.ended and seen.state is State.RUNNING
    assert host.start(run_id, project).already
    host.ask.cancel(run_id)
    assert host.ended(run_id).reason is Reason.CANCELLED
    assert events(host, run_id).count("Created") == 1


def test_a_host_that_is_ended_leaves_its_runs_alone_and_no_socket(host, tmp_path):
    project, run_id = sealed(tmp_path, "sh -c 'sleep 0.5; echo whole'"), new_id()
    host.start(run_id, project)

    status = host.stop()

    assert status == 0 and not host.socket.exists()
    until(host.paths(run_id).record.exists)
    host.begin()
    assert host.ended(run_id).reason is Reason.DONE
    assert host.paths(run_id).stdout.read_text() == "whole\n"


@pytest.mark.parametrize("before", [DRY, LEFT], ids=["no worker", "a worker"])
def test_a_run_is_started_once_though_the_host_is_killed_before_its_claim(
    tmp_path, before
):
    project, run_id = sealed(tmp_path, "sh -c 'echo ran'"), new_id()
    with serving(tmp_path, before) as host:
        with pytest.raises(BusyError):
            host.start(run_id, project)
        host.process.wait()
        host.begin()

        host.start(run_id, project)

        assert host.ended(run_id).reason is Reason.DONE
        assert host.paths(run_id).stdout.read_text() == "ran\n"
        assert events(host, run_id).count("Created") == 1


@pytest.mark.lengthy
def test_a_run_is_carried_out_once_whenever_the_host_is_killed(host, tmp_path):
    project, rng = sealed(tmp_path, "sh -c 'echo ran'"), random.Random(408)
    runs = [new_id() for _ in range(12)]
    for run_id in runs:

        def ask(run_id=run_id):
            with suppress(BusyError):
                host.start(run_id, project)

        asking = threading.Thread(target=ask)
        asking.start()
        time.sleep(rng.uniform(0, 0.3))
        host.kill()
        asking.join()
        host.begin()
        host.start(run_id, project)

    for run_id in runs:
        ended = host.ended(run_id)
        assert ended.reason is Reason.DONE, ended
        assert host.paths(run_id).stdout.read_text() == "ran\n"
        assert events(host, run_id).count("Created") == 1
    left = {path.name for path in host.home.runs.iterdir()} - {".trash"}
    assert left == set(runs)


def test_a_run_whose_worker_is_killed_is_lost(host, tmp_path):
    project, run_id = sealed(tmp_path, GATED), new_id()
    host.start(run_id, project)
    host.said(run_id, "waiting")
    holder = claim.holder(host.paths(run_id))

    os.kill(holder.process.pid, signal.SIGKILL)

    lost = host.ended(run_id)
    assert (lost.state, lost.reason) == (State.LOST, Reason.RUNNER_LOST)
    assert lost.exit_code == 10 and lost.ended_at
    assert host.paths(run_id).record.exists()


def test_only_what_has_ended_is_removed(host, tmp_path):
    project, over, going = sealed(tmp_path, "true"), new_id(), new_id()
    host.start(over, project)
    host.ended(over)
    host.start(going, sealed(tmp_path, GATED))
    host.said(going, "waiting")

    host.ask.remove([over, going, new_id()])

    assert host.run(over) is None and not host.paths(over).root.exists()
    assert host.run(going).claimed
    assert host.ask.open(over, "stdout.log") is None


def test_a_run_that_is_unknown_is_left_out_and_cannot_be_cancelled(host):
    assert host.ask.look([new_id()]) == {}
    with pytest.raises(RaiError, match="no run"):
        host.ask.cancel(new_id())


def test_a_refused_run_leaves_nothing_and_says_whose_rule_it_is(host, tmp_path):
    project = sealed(tmp_path, "true", limits={"time": "2h"})
    role, run_id = RolePolicy({"time_s": 60.0}, source="the role `student`"), new_id()

    answer = host.start(run_id, project, allowed=role)

    text = "resources.limits.time is 7,200 s, and at most 60 s is allowed by"
    assert answer.reason is Reason.NOT_ALLOWED
    assert [p.message for p in answer.problems] == [f"{text} the role `student`"]
    assert host.run(run_id) is None
    assert host.start(run_id, project, allowed=role).reason is Reason.NOT_ALLOWED


def test_a_default_is_lowered_to_the_roles_ceiling_and_the_profile_is_strict(
    host, tmp_path
):
    project, run_id = sealed(tmp_path, "true"), new_id()
    host.start(run_id, project, allowed=RolePolicy({"time_s": 60.0}, source="a role"))
    host.ended(run_id)

    record = json.loads(host.paths(run_id).record.read_text())
    assert record["limits"]["time_s"] == 60.0
    assert record["profile"] == "strict"


@pytest.mark.parametrize("engine", ["bare", " bare", "fake", ""])
def test_no_other_engine_than_docker_and_local_is_used(host, tmp_path, engine):
    settings = {"RAI_ENGINE": engine}
    answer = host.start(new_id(), sealed(tmp_path, "true"), settings=settings)
    assert answer.reason is Reason.NOT_ALLOWED


def test_auto_never_takes_the_engine_without_isolation(tmp_path):

    project, run_id = sealed(tmp_path, "true"), new_id()
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    away = {"PATH": str(nothing), "DOCKER_HOST": f"unix://{nothing}/docker.sock"}
    with serving(tmp_path, **away) as host:
        answer = host.start(run_id, project, settings={})

    assert answer.reason is Reason.NO_ENGINE
    names = {p.message.partition(":")[0] for p in answer.problems}
    assert names == {"docker", "local"}


def test_a_host_whose_variables_say_bare_runs_nothing(tmp_path):
    with serving(tmp_path, RAI_ENGINE="bare") as host:
        answer = host.start(new_id(), sealed(tmp_path, "true"), settings={})
    assert answer.reason is Reason.NOT_ALLOWED


def test_other_settings_are_refused(host, tmp_path):
    settings = {"RAI_HOME": str(tmp_path), "PATH": "/"}
    answer = host.start(new_id(), sealed(tmp_path, "true"), settings=settings)
    assert answer.reason is Reason.USAGE
    assert answer.problems == (Problem("a run has no setting PATH, RAI_HOME"),)


def test_secrets_reach_the_run_and_no_file_of_the_host(host, tmp_path):
    secrets = Secrets({"TOKEN": "hunter22"})
    tell = "sh -c 'test ${#TOKEN} = 8; echo $? $TOKEN'"
    project = sealed(tmp_path, tell, options=Options(secrets=secrets))
    run_id = new_id()

    host.start(run_id, project, secrets=dict(secrets.values), spec_text=project.text)

    assert host.ended(run_id).reason is Reason.DONE
    assert host.paths(run_id).stdout.read_text() == "0 ***\n"
    for file in host.home.root.rglob("*"):
        assert not file.is_file() or b"hunter22" not in file.read_bytes(), file


def test_no_file_of_this_machine_comes_into_a_run_by_a_clients_path(host, tmp_path):
    data = {"mount": "/data", "source": {"url": "http://127.0.0.1:1/answer"}}
    project = sealed(tmp_path, "sh -c 'cat /data/* 2>/dev/null; true'")
    parcel = json.loads(project.parcel.read_text())
    folder = Path(parcel["project"]) / "data"
    folder.mkdir()
    (folder / "answer").write_text("of this machine\n")
    spec = json.loads(parcel["spec_text"]) | {"resources": {"dataresources": [data]}}
    project.parcel.write_text(json.dumps(parcel | {"spec_text": json.dumps(spec)}))
    run_id = new_id()

    host.start(run_id, project)
    host.ended(run_id)

    assert "DataMissing" in events(host, run_id)
    assert host.paths(run_id).stdout.read_text() == ""


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("after", ["0123456789"], Reason.NOT_ALLOWED),
        ("only", ["1"] * 10_000, Reason.NOT_ALLOWED),
        ("measured", ["1"] * 10_000, Reason.NOT_ALLOWED),
        ("only", ["absent"], Reason.USAGE),
        ("repeat", 10**9, Reason.USAGE),
        ("gpus", "all", Reason.USAGE),
        ("budget", "1000d", Reason.NOT_ALLOWED),
        ("version", 99, Reason.USAGE),
        ("spec_text", "- " * 10_000, Reason.BAD_SPEC),
        ("spec_text", "x: &a [1]\n" * 50_000, Reason.BAD_SPEC),
    ],
)
def test_what_a_parcel_may_not_ask_for_is_refused(host, tmp_path, key, value, reason):
    project, run_id = sealed(tmp_path, "true"), new_id()
    parcel = json.loads(project.parcel.read_text())
    project.parcel.write_text(json.dumps(parcel | {key: value}))
    role = RolePolicy({"time_s": 60.0}, source="a role")

    assert host.start(run_id, project, allowed=role).reason is reason
    assert not host.paths(run_id).root.exists()


def test_a_parcels_own_profile_and_wait_count_for_nothing(host, tmp_path):
    project, run_id = sealed(tmp_path, "true"), new_id()
    parcel = json.loads(project.parcel.read_text())
    changes = {"profile": "no profile", "gpu_wait_s": 1e300}
    project.parcel.write_text(json.dumps(parcel | changes))

    host.start(run_id, project)

    assert host.ended(run_id).reason is Reason.DONE


def test_another_archive_than_the_parcel_names_is_not_run(host, tmp_path):
    one, other = sealed(tmp_path, "echo one"), sealed(tmp_path, "echo other")
    other.source.replace(one.source)
    run_id = new_id()

    host.start(run_id, one)

    assert host.ended(run_id).reason is Reason.USAGE
    assert host.paths(run_id).stdout.read_text() == ""


@pytest.mark.docker
def test_the_docker_engine_carries_out_a_run(host, tmp_path):
    project, run_id = sealed(tmp_path, "id -u"), new_id()

    host.start(run_id, project, settings={"RAI_ENGINE": "docker"})

    assert host.ended(run_id).reason is Reason.DONE
    assert host.paths(run_id).stdout.read_text() != "0\n"


def test_two_hundred_runs_are_looked_at_at_once(host, tmp_path):
    project, run_id = sealed(tmp_path, "true"), new_id()
    host.start(run_id, project)
    host.ended(run_id)
    record = host.paths(run_id).record.read_bytes()
    others = [new_id() for _ in range(200)]
    for other in others:
        host.paths(other).root.mkdir()
        host.paths(other).record.write_bytes(record)

    found = host.ask.look(others)

    assert list(found) == others
    assert all(run.ended and run.id == name for name, run in found.items())

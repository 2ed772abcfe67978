"""Real workers run runs, each once, whoever is killed meanwhile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from runner.core import Reason, State
from runner.core.errors import RaiError
from runner.core.policy import RolePolicy
from runner.core.request import Terms, answer_from, to_json
from runner.core.work import Secrets
from runner.execution.prepare import Options
from runner.server import workers
from runner.store import claim
from runner.system import process
from tests.kit.begun import Begun, new_id, sealed
from tests.kit.waiting import until

pytestmark = [pytest.mark.programs, pytest.mark.local]


@pytest.fixture
def begun(tmp_path):
    made = Begun(tmp_path / "home")
    yield made
    made.close()


START = """
import os, signal, sys
from pathlib import Path
from msgspec.structs import replace
from runner.core.request import from_json
from runner.system.process import Detached
from runner.server.folders import ServerRuns
from runner.server.workers import ThisMachine, children
from runner.store.home import make
home, run_id, parcel, source = sys.argv[1:]
class Killed(Detached):
    def {method}(self, *given):
        {before}
        os.kill(os.getpid(), signal.SIGKILL)
import runner.server.workers as workers
workers.Detached = Killed
home = make(Path(home))
runs = ServerRuns(home, ThisMachine(home, children(home, os.environ)))
asked = replace(from_json(Path(parcel).read_bytes()), engine="local")
runs.start(run_id, asked, Path(source))
"""
NO_LINE = START.format(method="write", before="")
LINE = START.format(method="read_line", before="")
"""Servers that are killed before a worker has its line, and as soon as it has."""

GATED = "sh -c 'echo waiting; until [ -e go ]; do sleep 0.05; done'"
"""A command that a cancel ends."""


def test_a_run_goes_to_its_end_and_its_files_can_be_read(begun, tmp_path):
    project = sealed(tmp_path, "echo hello", "sh -c 'echo kept > kept'")
    run_id = new_id()

    answer = begun.start(run_id, project)
    ended = begun.ended(run_id)

    assert answer.reason is None
    assert (ended.state, ended.reason) == (State.DONE, Reason.DONE)
    assert ended.claimed and ended.started_at and ended.ended_at
    assert ended.started_at < ended.ended_at and ended.bytes > 0
    with begun.runs.open(run_id, "stdout.log") as file:
        assert file.read() == b"hello\n"
    assert begun.runs.open(run_id, "latest.json") is None
    with begun.runs.open(run_id, "build.tar.zst") as file:
        assert file.read(4) == b"\x28\xb5\x2f\xfd"  # RFC 8878: a frame of Zstandard


@pytest.mark.bubblewrap
def test_the_servers_umask_is_no_runs(begun, tmp_path):
    project, run_id = sealed(tmp_path, "true"), new_id()
    before = os.umask(0o077)  # which would keep root's bubblewrap from its user
    try:
        begun.start(run_id, project)
    finally:
        os.umask(before)
    assert begun.ended(run_id).reason is Reason.DONE
    record = json.loads((begun.paths(run_id).root / "record.json").read_text())
    assert record["engine"]["how"] == "bubblewrap"


def test_a_run_that_is_asked_for_by_many_at_once_and_again_runs_once(begun, tmp_path):
    project, run_id = sealed(tmp_path, "sh -c 'echo ran'"), new_id()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: begun.start(run_id, project), range(8)))
    begun.ended(run_id)
    answers.append(begun.start(run_id, project))

    assert {one.reason for one in answers} == {None}
    assert begun.paths(run_id).stdout.read_text() == "ran\n"


def events(begun, run_id) -> list[str]:
    lines = begun.paths(run_id).events.read_text().splitlines()
    return [json.loads(line)["event"] for line in lines]


def test_a_new_server_sees_a_run_and_learns_of_its_end_at_once(begun, tmp_path):
    project, run_id = sealed(tmp_path, GATED, "echo after"), new_id()
    begun.start(run_id, project)
    begun.said(run_id, "waiting")

    begun.restart()

    seen = begun.run(run_id)
    assert seen.claimed and not seen.ended and seen.state is State.RUNNING
    assert begun.start(run_id, project).reason is None
    assert begun.ends == 0
    begun.runs.cancel(run_id)
    until(lambda: begun.ends)
    ended = begun.ended(run_id)
    assert (ended.state, ended.reason) == (State.CANCELLED, Reason.CANCELLED)
    assert events(begun, run_id).count("Created") == 1


@pytest.mark.parametrize("killed", [NO_LINE, LINE], ids=["no line", "a line"])
def test_a_run_is_started_once_though_the_server_is_killed_before_its_claim(
    begun, tmp_path, killed
):
    project, run_id = sealed(tmp_path, "sh -c 'echo ran'"), new_id()
    words = [begun.home.root, run_id, project.parcel, project.source]
    subprocess.run([sys.executable, "-c", killed, *words], check=False)
    begun.restart()

    begun.start(run_id, project)

    assert begun.ended(run_id).reason is Reason.DONE
    assert begun.paths(run_id).stdout.read_text() == "ran\n"
    assert events(begun, run_id).count("Created") == 1


def test_a_run_that_is_refused_while_no_server_listens_has_a_record(begun, tmp_path):
    project = sealed(tmp_path, "true", network=True)
    role = RolePolicy({"network": 0.0}, source="the role `student`")
    run_id = new_id()
    paths = begun.paths(run_id)
    paths.root.mkdir()
    paths.parcel.write_bytes(project.parcel.read_bytes())
    paths.source.write_bytes(project.source.read_bytes())
    asked = replace(project.asked, engine="local", terms=Terms(allowed=role))
    paths.order.write_bytes(to_json(asked))
    worker = begun.machine._summon()
    worker.write(f"{run_id}\n".encode())
    worker.leave()

    assert begun.ended(run_id).reason is Reason.NOT_ALLOWED


def test_a_worker_that_is_killed_before_its_claim_has_not_begun(
    begun, tmp_path, monkeypatch
):
    class Dead(process.Detached):
        def write(self, data):
            self._process.kill()
            self._process.wait()
            super().write(data)

    monkeypatch.setattr(workers, "Detached", Dead)
    project, run_id = sealed(tmp_path, "sh -c 'echo ran'"), new_id()
    with pytest.raises(workers.NotBegunError):
        begun.start(run_id, project)
    monkeypatch.undo()

    assert begun.run(run_id) is None
    begun.start(run_id, project)
    assert begun.ended(run_id).reason is Reason.DONE


def test_a_run_whose_worker_is_killed_is_lost(begun, tmp_path):
    project, run_id = sealed(tmp_path, GATED), new_id()
    begun.start(run_id, project)
    begun.said(run_id, "waiting")
    holder = claim.holder(begun.paths(run_id))

    os.kill(holder.process.pid, signal.SIGKILL)

    lost = begun.ended(run_id)
    assert (lost.state, lost.reason) == (State.LOST, Reason.RUNNER_LOST)
    assert lost.ended_at
    until(lambda: begun.ends)  # told by the thread that waits for the worker
    assert begun.paths(run_id).record.exists()


def test_only_what_has_ended_is_removed(begun, tmp_path):
    project, over, going = sealed(tmp_path, "true"), new_id(), new_id()
    begun.start(over, project)
    begun.ended(over)
    begun.start(going, sealed(tmp_path, GATED))
    begun.said(going, "waiting")

    begun.runs.remove([over, going, new_id()])

    assert begun.run(over) is None and not begun.paths(over).root.exists()
    assert begun.run(going).claimed
    assert begun.runs.open(over, "stdout.log") is None


def test_a_run_that_is_unknown_is_left_out_and_cannot_be_cancelled(begun):
    assert begun.runs.look([new_id()]) == {}
    with pytest.raises(RaiError, match="no run"):
        begun.runs.cancel(new_id())


def test_a_refused_run_leaves_nothing_and_says_whose_rule_it_is(begun, tmp_path):
    project = sealed(tmp_path, "true", limits={"time": "2h"})
    role, run_id = RolePolicy({"time_s": 60.0}, source="the role `student`"), new_id()

    answer = begun.start(run_id, project, terms=Terms(allowed=role))

    text = "resources.limits.time is 7,200 s, and at most 60 s is allowed by"
    assert answer.reason is Reason.NOT_ALLOWED
    assert [p.message for p in answer.problems] == [f"{text} the role `student`"]
    assert begun.run(run_id) is None
    again = begun.start(run_id, project, terms=Terms(allowed=role))
    assert again.reason is Reason.NOT_ALLOWED


def test_a_default_is_lowered_to_the_roles_ceiling_and_the_profile_is_strict(
    begun, tmp_path
):
    project, run_id = sealed(tmp_path, "true"), new_id()
    role = RolePolicy({"time_s": 60.0}, source="a role")
    begun.start(run_id, project, terms=Terms(allowed=role))
    begun.ended(run_id)

    record = json.loads(begun.paths(run_id).record.read_text())
    assert record["limits"]["time_s"] == 60.0
    assert record["profile"] == "strict"


@pytest.mark.parametrize("engine", ["bare", "fake"])
def test_no_other_engine_than_docker_and_local_is_used(begun, tmp_path, engine):
    answer = begun.start(new_id(), sealed(tmp_path, "true"), engine)
    assert answer.reason is Reason.NOT_ALLOWED


def test_auto_never_takes_the_engine_without_isolation(tmp_path):
    project, run_id = sealed(tmp_path, "true"), new_id()
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    away = {"PATH": str(nothing), "DOCKER_HOST": f"unix://{nothing}/docker.sock"}
    answer = Begun(tmp_path / "home", **away).start(run_id, project, "")

    assert answer.reason is Reason.NO_ENGINE
    names = {p.message.partition(":")[0] for p in answer.problems}
    assert names == {"docker", "local"}


def test_a_server_whose_variables_say_bare_runs_nothing(tmp_path):
    begun = Begun(tmp_path / "home", RAI_ENGINE="bare")
    answer = begun.start(new_id(), sealed(tmp_path, "true"), "")
    assert answer.reason is Reason.NOT_ALLOWED


def test_an_order_has_no_other_setting_and_no_more_rights(begun, tmp_path):
    run_id, role = new_id(), RolePolicy({"time_s": 60.0}, source="a role")
    given = {"RAI_ENGINE": "bare", "RAI_HOME": str(tmp_path), "PATH": "/"}
    terms = Terms(given, ("bare",), allowed=role)
    begun.start(run_id, sealed(tmp_path, "true"), terms=terms)
    assert begun.ended(run_id).reason is Reason.DONE

    asked = sealed(tmp_path, "true")
    parcel = json.loads(asked.parcel.read_text())
    asked.parcel.write_text(json.dumps(parcel | {"after": [run_id]}))
    assert begun.start(new_id(), asked).reason is Reason.NOT_ALLOWED


@pytest.mark.parametrize("line", [b"../x", b"\xff", b"0123456789\0"])
def test_what_is_no_run_s_id_is_refused(begun, line):
    worker = begun.machine._summon()
    worker.write(line + b"\n")
    answer = answer_from(worker.read_line(60.0, 10_000))
    worker.leave()
    assert answer.reason is Reason.BAD_CONFIG


def test_a_worker_has_none_of_the_servers_secrets_and_says_what_can_run(tmp_path):
    begun = Begun(tmp_path / "home", RAI_DATABASE_URL="secret", A_SECRET="x")
    worker = begun.machine._summon()
    environ = Path(f"/proc/{worker._process.pid}/environ")
    names = until(environ.read_bytes).split(b"\0")
    worker.leave()
    assert b"RAI_HOME=" + os.fsencode(begun.home.root) in names
    assert not any(b"SECRET" in one or b"DATABASE" in one for one in names)
    found = until(begun.runs.capacity)
    assert "local" in found.engines and found.cores and found.memory_bytes
    assert workers.kept(begun.home).engines == found.engines


def test_secrets_reach_the_run_and_no_file(begun, tmp_path):
    secrets = Secrets({"TOKEN": "hunter22"})
    tell = "sh -c 'test ${#TOKEN} = 8; echo $? $TOKEN'"
    project = sealed(tmp_path, tell, options=Options(secrets=secrets))
    run_id = new_id()

    begun.start(run_id, project)

    assert begun.ended(run_id).reason is Reason.DONE
    assert begun.paths(run_id).stdout.read_text() == "0 ***\n"
    for file in begun.home.root.rglob("*"):
        assert not file.is_file() or b"hunter22" not in file.read_bytes(), file


def test_no_file_of_this_machine_comes_into_a_run_by_a_clients_path(begun, tmp_path):
    data = {"mount": "/data", "source": {"url": "http://127.0.0.1:1/answer"}}
    project = sealed(tmp_path, "sh -c 'cat /data/* 2>/dev/null; true'")
    parcel = json.loads(project.parcel.read_text())
    folder = Path(parcel["project"]) / "data"
    folder.mkdir()
    (folder / "answer").write_text("of this machine\n")
    spec = json.loads(parcel["spec_text"]) | {"resources": {"dataresources": [data]}}
    project.parcel.write_text(json.dumps(parcel | {"spec_text": json.dumps(spec)}))
    run_id = new_id()

    begun.start(run_id, project)
    begun.ended(run_id)

    assert "DataMissing" in events(begun, run_id)
    assert begun.paths(run_id).stdout.read_text() == ""


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("after", ["0123456789"], Reason.NOT_ALLOWED),
        ("only", ["1"] * 10_000, Reason.NOT_ALLOWED),
        ("repeat", 10**9, Reason.USAGE),
        ("budget", "1000d", Reason.NOT_ALLOWED),
        ("spec_text", "x: &a [1]\n" * 50_000, Reason.BAD_SPEC),
    ],
)
def test_what_a_parcel_may_not_ask_for_is_refused(begun, tmp_path, key, value, reason):
    project, run_id = sealed(tmp_path, "true"), new_id()
    parcel = json.loads(project.parcel.read_text())
    project.parcel.write_text(json.dumps(parcel | {key: value}))
    role = RolePolicy({"time_s": 60.0}, source="a role")

    answer = begun.start(run_id, project, terms=Terms(allowed=role))
    assert answer.reason is reason
    assert not begun.paths(run_id).root.exists()


def test_a_parcels_own_profile_and_wait_count_for_nothing(begun, tmp_path):
    project, run_id = sealed(tmp_path, "true"), new_id()
    parcel = json.loads(project.parcel.read_text())
    changes = {"profile": "no profile", "gpu_wait_s": 1e300}
    project.parcel.write_text(json.dumps(parcel | changes))

    begun.start(run_id, project)

    assert begun.ended(run_id).reason is Reason.DONE


def test_another_archive_than_the_parcel_names_is_not_run(begun, tmp_path):
    one, other = sealed(tmp_path, "echo one"), sealed(tmp_path, "echo other")
    other.source.replace(one.source)
    run_id = new_id()

    begun.start(run_id, one)

    assert begun.ended(run_id).reason is Reason.USAGE
    assert begun.paths(run_id).stdout.read_text() == ""


@pytest.mark.docker
def test_the_docker_engine_carries_out_a_run(begun, tmp_path):
    project, run_id = sealed(tmp_path, "id -u"), new_id()

    begun.start(run_id, project, "docker")

    assert begun.ended(run_id).reason is Reason.DONE
    assert begun.paths(run_id).stdout.read_text() != "0\n"

"""A detached run goes on without its client, and others watch, await or end it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from runner.cli.main import _status
from runner.core import Reason, RunRequest, record
from runner.core.errors import RaiError
from runner.core.work import Secrets
from runner.engines.docker import DockerEngine
from runner.execution import local, places, prepare, session
from runner.store import runs
from runner.store.paths import Home, RunPaths
from runner.system.machine import descendants
from runner.system.process import Detached, python
from tests.execution.test_hangup import Terminal
from tests.kit import waiting
from tests.kit.program import RAI, Forked, rai

pytestmark = pytest.mark.programs

SOON_S = 30.0
ENGINES = [
    "bare",
    pytest.param("docker", marks=pytest.mark.docker),
]


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A file that the commands of a bare run wait for."""
    return tmp_path / "gate"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


def project(folder: Path, *commands: str) -> str:
    spec = {
        "rai": {"image": "debian:bookworm-slim"},
        "commands": {"build": list(commands)},
    }
    (folder / "rai_build.yml").write_text(json.dumps(spec))
    return str(folder)


def until(gate: Path) -> str:
    return f"sh -c 'echo waiting; until [ -e {gate} ]; do sleep 0.01; done; echo on'"


def detached(path: str, *words: str, engine: str = "bare") -> RunPaths:
    done = rai("run", "-p", path, "--engine", engine, "--detach", *words)
    assert done.returncode == 0, done.stderr
    return Home(Path(os.environ["RAI_HOME"])).run(done.stdout.strip())


def said(paths: RunPaths, text: str) -> None:
    """Wait until a run has printed something."""
    waiting.until(lambda: text in paths.stdout.read_text(), f"{text!r} is not printed")


def shown(paths: RunPaths) -> dict[str, object]:
    return record.plain(places.record_of(paths))


def waited(*names: str) -> int:
    """Return the exit status of `rai wait`, in this process."""
    return _status(["wait", *names])


def reference(paths: RunPaths) -> str:
    image = shown(paths)["image"]
    return str(image["reference"])


def shown_latest() -> dict[str, object]:
    found: dict[str, object] = json.loads(rai("show", "latest", "--json").stdout)
    return found


def attach(run: RunPaths) -> Forked:
    return Forked("attach", run.id, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def own_children() -> set[int]:
    return set(descendants(os.getpid()))


@pytest.mark.parametrize("engine", ENGINES)
def test_it_ends_as_an_attached_run_does(folder, engine):
    path = project(
        folder, "echo to stdout", "sh -c 'echo kept > kept'", "sh -c 'exit 3'"
    )

    run = detached(path, engine=engine)

    assert waited(run.id) == 1
    record = shown(run)
    assert (record["state"], record["exit_code"]) == ("done", 1)
    assert record["engine"]["name"] == engine
    assert record["project"] == path
    assert run.stdout.read_text() == "to stdout\n"
    assert run.build.exists()
    assert run.worker_log.read_text() == ""
    assert not run.unpacked.exists()


def test_a_secret_reaches_it_and_none_of_its_files_or_command_lines(folder):
    tell = "sh -c 'test ${#TOKEN} = 8; echo $? $TOKEN; cat /proc/*/cmdline; true'"
    path = project(folder, "echo left out", tell)

    words = ["run", "-p", path, "--engine", "bare", "-d", "-e", "TOKEN", "--only", "2"]
    done = rai(*words, env={**os.environ, "TOKEN": "hunter22"})

    run = Home(Path(os.environ["RAI_HOME"])).run(done.stdout.strip())
    assert waited(run.id) == 0
    said = run.stdout.read_bytes()
    assert said.startswith(b"0 ***\n")
    assert said.count(b"***") == 1
    for file in run.root.iterdir():
        assert b"hunter22" not in file.read_bytes(), file


def test_only_its_id_is_on_stdout(folder):
    done = rai("run", "-p", project(folder, "true"), "--engine", "bare", "-d", "--json")

    assert list(json.loads(done.stdout)) == ["id"]
    assert "rai attach" in done.stderr


def test_it_runs_the_files_of_when_it_was_started(folder, gate):
    (folder / "file").write_text("before\n")
    run = detached(project(folder, until(gate), "sh -c 'cat $RAI_SOURCE_DIR/file'"))
    (folder / "file").write_text("after\n")
    gate.touch()

    assert waited(run.id) == 0
    assert run.stdout.read_text().endswith("before\n")


def test_no_signal_to_its_client_reaches_it(folder, gate):
    words = [RAI, "run", "-p", project(folder, until(gate)), "--engine", "bare", "-d"]
    client = subprocess.Popen(
        ["sh", "-c", '"$@"; kill -HUP 0; sleep 60', "sh", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    run = Home(Path(os.environ["RAI_HOME"])).run(client.stdout.readline().strip())
    said(run, "waiting")
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGKILL):
        if client.poll() is None:
            os.killpg(client.pid, number)
    client.wait()
    client.stdout.close()
    gate.touch()

    assert waited(run.id) == 0
    assert run.stdout.read_text() == "waiting\non\n"


def test_a_project_that_cannot_run_is_refused_at_once_and_leaves_nothing(folder):
    (folder / "rai_build.yml").write_text("commands: {build: [1, {}]}")

    done = rai("run", "-p", str(folder), "--engine", "bare", "--detach")

    assert done.returncode == 2
    assert "rai_build.yml:1:" in done.stderr
    assert done.stdout == ""
    assert not Home(Path(os.environ["RAI_HOME"])).runs.exists()


@pytest.mark.docker
def test_a_run_that_ends_before_it_begins_ends_its_client_as_an_attached_one(folder):
    (folder / "rai_build.yml").write_text("commands: {build: ['true']}")
    words = ("run", "-p", str(folder), "--engine", "docker")

    done, attached = rai(*words, "--detach"), rai(*words)

    assert (done.returncode, done.stdout) == (3, "")
    assert attached.returncode == 3
    assert "ended: image not found" in done.stderr
    assert "had ended before: image not found." in rai("cancel").stdout
    own = [re.sub("[0-9a-f]{10}", "", each.stderr) for each in (done, attached)]
    assert own[0] == own[1]
    assert shown_latest()["exit_code"] == 3


def test_a_worker_that_refuses_says_why_to_its_client_and_leaves_nothing(folder):
    prepared = prepare.prepare(Path(project(folder, "true")))
    secret = Secrets(spec_text="commands: {build: [{}, {}]}")
    asked = replace(prepared.request.asked, secret=secret)
    other = replace(prepared, request=replace(prepared.request, asked=asked))

    with pytest.raises(RaiError) as caught:
        list(session.detach(other))

    assert caught.value.reason is Reason.BAD_SPEC
    assert len(caught.value.problems) == 2
    assert list(Home(Path(os.environ["RAI_HOME"])).runs.glob("[!.]*")) == []


def test_a_worker_that_fails_is_told_in_one_line():
    run = runs.create(Home(Path(os.environ["RAI_HOME"])))
    worker = local.LocalWorker(run)
    asked = RunRequest("/p", "rai_build.yml", "commands: {build: ['true']}", "0")
    run.spec.mkdir()

    with pytest.raises(RaiError, match="did not start: IsADirectory") as caught:
        worker.begin(asked)

    assert "\n" not in str(caught.value)


FULL_DISK = """
import errno, sys
from pathlib import Path
from runner.execution import worker
from runner.store.paths import RunPaths

def asked_of(paths):
    raise OSError(errno.ENOSPC, "No space left on device", str(paths.order))

sys.exit(worker._take(RunPaths(Path(sys.argv[1])), asked_of))
"""


def test_a_worker_whose_disk_is_full_before_the_run_begins_says_so():
    run = runs.create(Home(Path(os.environ["RAI_HOME"])))
    done = subprocess.run([sys.executable, "-c", FULL_DISK, run.root], check=False)
    assert done.returncode == Reason.DISK_FULL.exit_code
    assert "No space left on device" in run.worker_log.read_text()


def test_a_program_that_is_left_to_itself_leaves_no_zombie():
    before = own_children()
    left = Detached(["sh", "-c", "read line"])
    assert own_children() - before
    left.leave()

    waiting.until(lambda: not own_children() - before)  # a zombie is still a child


def test_a_worker_whose_client_died_while_it_packed_leaves_nothing():
    run = runs.create(Home(Path(os.environ["RAI_HOME"])))
    worker = subprocess.Popen(python("runner.execution.worker"), stdin=subprocess.PIPE)
    worker.stdin.write(json.dumps(str(run.root)).encode() + b"\n")
    worker.stdin.flush()
    waiting.until(run.holder.exists)
    worker.stdin.close()

    assert worker.wait(timeout=SOON_S) == 0
    assert not run.root.exists()


def test_a_second_worker_on_a_folder_does_nothing(folder, gate):
    run = detached(project(folder, until(gate)))
    said(run, "waiting")

    said_to_it = json.dumps(str(run.root)).encode() + b"\n" + run.parcel.read_bytes()
    second = subprocess.run(
        python("runner.execution.worker"), input=said_to_it, check=False
    )
    assert second.returncode == 0

    gate.touch()
    assert waited(run.id) == 0
    assert run.events.read_bytes().count(b'"Created"') == 1
    assert run.stdout.read_text() == "waiting\non\n"


@pytest.mark.docker
def test_it_has_the_values_that_its_parcel_masks(folder, name):
    (folder / "Dockerfile").write_text(
        f"FROM debian:bookworm-slim\nLABEL rai-test={name}\nARG credentials\n"
        "RUN echo $credentials >/seen\n"
    )
    secret = f"secret{os.getpid()}"
    image = {"image_name": name, "dockerfile": "Dockerfile"}
    image["args"] = {"credentials": secret}
    spec = {"commands": {"build_image": image, "build": ["cat /seen"]}}
    (folder / "rai_build.yml").write_text(json.dumps(spec))

    run = detached(str(folder), engine="docker")

    assert waited(run.id) == 0, run.events.read_text()
    assert run.stdout.read_text() == f"{secret}\n"
    engine = DockerEngine()
    built = {image.tags: image.origin for image in engine.built_images()}
    (origin,) = {at for tags, at in built.items() if reference(run) in tags}
    assert origin == engine.origin(folder)
    assert secret not in run.parcel.read_text() + run.spec.read_text()


def test_output_for_a_folder_needs_the_end(folder, tmp_path):
    words = ("run", "-p", project(folder, "true"), "-d", "-o", str(tmp_path / "out"))

    done = rai(*words)

    assert done.returncode == 2
    assert "rai pull" in done.stderr


def test_attach_shows_it_from_its_first_line_and_exits_with_its_status(folder, gate):
    run = detached(project(folder, until(gate), "sh -c 'echo bad >&2; exit 3'"))
    said(run, "waiting")
    attached = attach(run)
    assert attached.stdout.readline() == "waiting\n"
    gate.touch()

    out, error = attached.communicate(timeout=60)

    assert (out, attached.returncode) == ("on\n", 1)
    assert "bad\n" in error
    assert "Using the bare engine" in error
    assert f"Run {run.id} ended:" in error
    again = rai("attach", run.id)
    assert (again.stdout, again.returncode) == ("waiting\non\n", 1)


def test_ctrl_c_without_a_terminal_leaves_the_run(folder, gate):
    run = detached(project(folder, until(gate)))
    attached = attach(run)
    attached.stdout.readline()
    attached.send_signal(signal.SIGINT)

    _, error = attached.communicate(timeout=60)

    assert attached.returncode == 130
    assert "goes on" in error
    gate.touch()
    assert waited(run.id) == 0


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (b"c\n", "cancelled"),
        (b"clear\n", "done"),
        (b"\x03", "done"),
    ],
)
def test_ctrl_c_on_a_terminal_asks_what_to_do(folder, gate, answer, state):
    run = detached(project(folder, until(gate)))
    with Terminal(RAI, "attach", run.id) as terminal:
        terminal.until(b"waiting")
        terminal.type(b"\x03")
        terminal.until(b"watching? ")
        terminal.type(answer)
        if answer == b"\x03":
            terminal.until(b"goes on")
        if answer != b"c\n":
            gate.touch()
        terminal.child.wait(timeout=60)
    waited(run.id)
    assert shown(run)["state"] == state


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_is_cancelled_from_another_terminal(folder, engine):
    text = "sh -c 'echo kept > kept; echo waiting; sleep 600'"
    run = detached(project(folder, text), engine=engine)
    said(run, "waiting")

    done = rai("cancel", run.id)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"Run {run.id} ended: cancelled.\n"
    assert waited(run.id) == 130
    assert run.build.exists()
    again = rai("cancel", run.id)
    assert (again.returncode, again.stdout) == (
        0,
        f"Run {run.id} had ended before: cancelled.\n",
    )


def test_a_run_waits_for_another_and_is_queued_meanwhile(folder, gate):
    first = detached(project(folder, until(gate)))
    second = detached(project(folder, "echo second"), "--wait-for", first.id)
    waiting.until(lambda: shown(second)["state"] == "queued")
    third = detached(project(folder, "echo third"), "--wait-for", second.id)
    assert rai("cancel", second.id).returncode == 0

    assert waited(third.id) == 0
    assert shown(second)["state"] == "cancelled"
    assert shown(first)["state"] == "running"
    gate.touch()
    assert waited(first.id, second.id, third.id) == 130


def test_waiting_has_an_end(folder, gate):
    run = detached(project(folder, until(gate)))

    assert waited(run.id, "--timeout", "0.2s") == 124
    assert waited(run.id, "--timeout", "x") == 2
    gate.touch()
    assert waited(run.id, "--timeout", "60s") == 0


def test_all_names_that_fit_no_run_are_told_at_once():
    done = rai("wait", "nothing", "neither")

    assert done.returncode == 2
    assert "nothing" in done.stderr
    assert "neither" in done.stderr


def test_a_worker_that_is_killed_is_lost_and_everyone_who_waits_is_told(folder, gate):
    run = detached(project(folder, until(gate)))
    said(run, "waiting")
    attached = attach(run)
    pid = json.loads(run.holder.read_text())["process"]["pid"]
    os.kill(pid, signal.SIGKILL)

    assert waited(run.id) == 10
    gate.touch()
    _, error = attached.communicate(timeout=60)
    assert attached.returncode == 10
    assert "the rai process died" in error
    assert shown(run)["state"] == "lost"


@pytest.mark.slow
def test_twenty_at_once_all_end_and_keep_their_own_output(folder):
    path = project(folder, "sh -c 'echo first; seq 1000'")
    words = [RAI, "run", "-p", path, "--engine", "bare", "--detach"]
    started = [
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for _ in range(20)
    ]
    names = {child.communicate()[0].decode().strip() for child in started}

    assert waited(*names) == 0
    assert len(names) == 20
    listed = json.loads(rai("history", "-n", "50", "--json").stdout)
    assert {record["id"] for record in listed} == names
    home = Home(Path(os.environ["RAI_HOME"]))
    for name in names:
        lines = home.run(name).stdout.read_text().splitlines()
        assert lines[1:] == [str(number) for number in range(1, 1001)]


def test_many_lines_are_shown_byte_for_byte(folder):
    run = detached(project(folder, "seq 100000"))

    done = rai("attach", run.id, "--quiet")

    assert done.returncode == 0
    assert done.stdout == "".join(f"{n}\n" for n in range(1, 100_001))
    assert done.stdout == rai("logs", run.id).stdout

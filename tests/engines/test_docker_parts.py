"""The parts of the Docker engine that need no Docker Engine."""

from __future__ import annotations

import hashlib
import http.server
import io
import json
import os
import socket
import socketserver
import struct
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from runner.core import (
    BuildSpec,
    ImageAction,
    ImagePlan,
    Profile,
    Reason,
    Stream,
    Workspace,
)
from runner.core.errors import Cancel, EngineError, ImageError
from runner.core.work import Secrets
from runner.engines.docker import DockerEngine, confinement, context, owner, volumes
from runner.engines.docker.attach import Demultiplexer
from runner.engines.docker.builds import BuildxLog, ClassicLog
from runner.engines.docker.endpoint import Endpoint, EngineProbe, find, probe
from runner.engines.docker.transfer import ErrorDetail, Message, pull, split
from runner.engines.docker.usage import parse
from runner.pack import FolderProject
from runner.system import machine
from runner.system.background import ASK_S, DEPTH, MOST_LAST_BYTES, BackgroundReader
from tests.kit.running import data_file

OUT, ERR = Stream.STDOUT, Stream.STDERR


def frame(kind: int, data: bytes) -> bytes:
    return struct.pack(">BxxxL", kind, len(data)) + data


# Where the engine is


def context_folder(home: Path, name: str, host: str, current: bool = False) -> None:
    key = hashlib.sha256(name.encode()).hexdigest()
    meta = home / ".docker" / "contexts" / "meta" / key / "meta.json"
    meta.parent.mkdir(parents=True)
    meta.write_text(json.dumps({"Name": name, "Endpoints": {"docker": {"Host": host}}}))
    if current:
        settings = {"currentContext": name}
        (home / ".docker" / "config.json").write_text(json.dumps(settings))


def test_the_usual_socket_serves_where_nothing_is_named(tmp_path):
    assert find({"HOME": str(tmp_path)}).url == "unix:///var/run/docker.sock"


def test_the_current_context_is_followed_and_another_may_be_named(tmp_path):
    context_folder(tmp_path, "lab", "tcp://lab:2375", current=True)
    context_folder(tmp_path, "gpu", "unix:///run/gpu.sock")
    home = {"HOME": str(tmp_path)}
    assert find(home).url == "tcp://lab:2375"
    assert find({**home, "DOCKER_CONTEXT": "gpu"}).url == "unix:///run/gpu.sock"
    assert find({**home, "DOCKER_CONTEXT": "default"}).origin == "the default socket"


def test_docker_host_goes_before_any_context(tmp_path):
    context_folder(tmp_path, "lab", "tcp://lab:2375", current=True)
    found = find({"HOME": str(tmp_path), "DOCKER_HOST": "tcp://here:1"})
    assert (found.url, found.origin) == ("tcp://here:1", "DOCKER_HOST")


def test_tls_is_used_where_it_is_asked_for():
    found = find(
        {
            "DOCKER_HOST": "tcp://far:2376",
            "DOCKER_TLS_VERIFY": "1",
            "DOCKER_CERT_PATH": "/c",
        }
    )
    assert (found.certificates, found.verify) == (Path("/c"), True)
    assert found.environment()["DOCKER_CERT_PATH"] == "/c"


def test_a_context_that_does_not_exist_is_a_problem_that_names_it(tmp_path):
    answer = probe({"HOME": str(tmp_path), "DOCKER_CONTEXT": "nowhere"})
    assert "`nowhere`" in str(answer.problem)


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("unix:///no/such.sock", "the socket does not exist"),
        ("tcp://127.0.0.1:1", "Connection refused"),
        ("tcp://127.0.0.1:notaport", "no Docker Engine answers"),
    ],
)
def test_an_engine_that_does_not_answer_is_told_with_its_address(host, said):
    answer = probe({"DOCKER_HOST": host})
    assert host in str(answer.problem)
    assert said in str(answer.problem)
    assert "DOCKER_HOST" in str(answer.problem)


class _Old(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Api-Version", "1.24")
        self.end_headers()

    def log_message(self, *_):
        pass


def test_an_engine_that_is_too_old_is_refused_with_both_versions(monkeypatch):
    with socketserver.TCPServer(("127.0.0.1", 0), _Old) as server:
        threading.Thread(target=server.handle_request).start()
        host = f"tcp://127.0.0.1:{server.server_address[1]}"
        monkeypatch.setenv("DOCKER_HOST", host)
        (problem,) = DockerEngine().check(BuildSpec("rai_build.yml"))
    assert "1.24" in problem.message
    assert "1.41" in problem.message


def test_an_engine_that_says_nothing_any_more_is_not_waited_for(monkeypatch):
    monkeypatch.setattr("runner.engines.docker.client.SILENT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = "tcp://{}:{}".format(*silent.getsockname())
        plan = ImagePlan(ImageAction.PULL, "a:1", "a test")
        pulled = pull(EngineProbe(Endpoint(url, "test"), "1.41"), plan, Cancel())

        with pytest.raises(EngineError, match="no longer answers") as caught:
            list(pulled)

    assert caught.value.reason is Reason.RUNNER_LOST


def test_asking_whether_an_engine_answers_does_not_import_the_sdk():
    script = (
        "import sys; from runner.engines.docker import DockerEngine, probe;"
        "from runner.core import BuildSpec;"
        "DockerEngine().check(BuildSpec('x')); sys.exit('docker' in sys.modules)"
    )
    environ = {**os.environ, "DOCKER_HOST": "unix:///no/such.sock"}
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script], env=environ, cwd=root, check=False
    )
    assert done.returncode == 0


# Streams


def test_frames_cut_anywhere_give_the_same_bytes():
    sent = [
        (1, b"one\n"),
        (2, b"err"),
        (1, b""),
        (1, b"x" * 300),
        (2, b"\n"),
        (1, b"z"),
    ]
    stream = b"".join(frame(kind, data) for kind, data in sent)
    for size in (1, 2, 7, 8, 9, 64, len(stream)):
        frames = Demultiplexer()
        pieces = [
            piece
            for at in range(0, len(stream), size)
            for piece in frames.feed(stream[at : at + size])
        ]
        for name, kind in ((OUT, 1), (ERR, 2)):
            got = b"".join(data for stream_, data in pieces if stream_ is name)
            assert got == b"".join(data for k, data in sent if k == kind)


def test_a_feed_says_what_its_source_raised():
    def source():
        yield 1
        raise ValueError("broken")

    reader: BackgroundReader[int] = BackgroundReader(source, lambda: None)
    assert reader.take(1) == 1
    with pytest.raises(ValueError, match="broken"):
        reader.take(1)
    reader.close()


def test_a_feed_that_is_closed_hangs_up_and_keeps_no_thread():
    hung = threading.Event()

    def source():
        while not hung.is_set():
            yield b"x"

    reader: BackgroundReader[bytes] = BackgroundReader(source, hung.set)
    assert reader.take(1) == b"x"
    reader.close()
    assert hung.is_set()


def test_a_feed_whose_rest_does_not_end_is_bounded():
    read = 0
    stopped = threading.Event()

    def source():
        nonlocal read
        while not stopped.is_set():
            read += 1
            yield bytes(1 << 20)

    reader: BackgroundReader[bytes] = BackgroundReader(source, stopped.set, always)
    before = -1
    while read != before or read < 2 * DEPTH:
        before = read
        stopped.wait(2 * ASK_S)
    reader.close()

    assert read <= DEPTH + MOST_LAST_BYTES // (1 << 20) + 2


def always() -> bool:
    return True


# Archives


def moved(members: dict[str, bytes | str], owner_id: int = 10001) -> tarfile.TarFile:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.mode, member.uname, member.uid = 0o600, "someone", 4321
            if isinstance(content, str):
                kind, _, member.linkname = content.partition(" ")
                member.type = tarfile.SYMTYPE if kind == "symlink" else tarfile.LNKTYPE
                tar.addfile(member)
                continue
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    buffer.seek(0)
    data = b"".join(volumes.in_blocks(volumes.workspace(buffer, owner_id)))
    return tarfile.open(fileobj=io.BytesIO(data))


def test_the_project_moves_below_src_and_belongs_to_the_user_of_the_run():
    long = "deep/" * 40 + "ü.txt"
    with moved({"a.txt": b"hello", "./b": b"", long: b"x" * 2000}) as tar:
        names = [m.name for m in tar.getmembers()]
        assert names == ["build", "src", "src/a.txt", "src/b", f"src/{long}"]
        assert {(m.uid, m.gid, m.uname) for m in tar.getmembers()} == {
            (10001, 10001, "")
        }
        assert tar.extractfile("src/a.txt").read() == b"hello"
        assert tar.extractfile(f"src/{long}").read() == b"x" * 2000
        assert tar.getmember("src/a.txt").mode == 0o600


def test_hard_links_follow_the_move_and_symbolic_ones_stay():
    with moved({"a": b"1", "hard": "link a", "soft": "symlink a"}, 0) as tar:
        assert tar.getmember("src/hard").linkname == "src/a"
        assert tar.getmember("src/soft").linkname == "a"


def test_data_files_become_an_archive_that_all_may_read(tmp_path):
    path = tmp_path / "set.gz"
    pieces = volumes.data_files([data_file(path, b"x" * 1000)])
    with tarfile.open(fileobj=io.BytesIO(b"".join(pieces))) as tar:
        (member,) = tar.getmembers()
        assert (member.name, member.mode, member.size) == ("set.gz", 0o444, 1000)


def test_a_data_file_that_became_another_is_an_error(tmp_path):
    path = tmp_path / "set"
    file = data_file(path, b"x" * 1000)
    for content in (b"x" * 10, b"y" * 1000):
        path.write_bytes(content)
        with pytest.raises(EngineError, match="changed while"):
            list(volumes.data_files([file]))


@pytest.mark.parametrize("linked", ["data", "data/set"])
def test_a_data_file_of_the_project_that_became_a_link_is_not_followed(
    linked, tmp_path
):
    secret = tmp_path / "secret"
    project = tmp_path / "project"
    (project / "data").mkdir(parents=True)
    secret.mkdir()
    (secret / "set").write_bytes(b"x" * 1000)
    file = data_file(project / "data/set", b"x" * 1000, project)
    (project / "data/set").unlink()
    if linked == "data":
        (project / "data").rmdir()
    (project / linked).symlink_to(secret if linked == "data" else secret / "set")

    with pytest.raises(EngineError, match="leads out"):
        list(volumes.data_files([file]))


# Confinement


def work(**named) -> Workspace:
    return Workspace("r", (), lambda: io.BytesIO(), image="i", **named)


def test_users_variables_are_not_the_containers():
    mine = work(environment={"B": "c"}, secrets=Secrets({"A": "b"}))
    assert confinement.variables(mine, []) == confinement.variables(work(), [])


@pytest.mark.parametrize("profile", Profile)
def test_no_profile_is_privileged_or_sees_a_folder_of_the_host(profile):
    options = confinement.host_options(work(profile=profile), "n", {})
    assert {m["Type"] for m in options["mounts"]} == {"volume"}
    assert not {"privileged", "binds", "pid_mode", "ipc_mode", "devices"} & set(options)


# Counters


def test_counters_are_read_from_either_version_of_control_groups():
    first = {
        "cpuacct.usage": "1500000000\n",
        "memory.max_usage_in_bytes": "4096\n",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
        "pids.events": "max 3\n",
    }
    second = {
        "cpu.stat": "usage_usec 1500000\nuser_usec 1\n",
        "memory.peak": "4096\n",
        "memory.events": "low 0\noom 9\noom_kill 2\noom_group_kill 0\n",
        "pids.events": "max 3\n",
    }
    assert parse(first) == parse(second)
    assert parse(first).cpu_s == 1.5
    assert parse(first).peak_memory_bytes == 4096
    assert parse(first).memory_kills == 2
    assert parse(first).refused_forks == 3
    assert parse({}).cpu_s is None


def test_counters_that_are_garbage_count_for_nothing():
    digits = "9" * 5000
    assert parse({"pids.current": "\N{SUPERSCRIPT TWO}"}).processes is None
    assert parse({"cpuacct.usage": digits}).cpu_s is None
    assert parse({"pids.events": f"max {digits}"}).refused_forks == 0


# Owners


def test_a_living_owner_keeps_its_things_and_a_dead_one_does_not():
    me = machine.this_process()
    mine = owner.labels("r", 60)
    assert not owner.abandoned(mine, me, time.time() + 1e6)
    dead = {**mine, owner.OWNER: str(replace(me, started="1"))}
    assert owner.abandoned(dead, me, time.time())


def test_what_others_own_is_left_alone_until_an_hour_past_its_deadline():
    me, now = machine.this_process(), 1_000_000.0
    for other in (
        replace(me, host="other"),
        replace(me, boot="other"),
        replace(me, namespace="other"),
    ):
        found = {owner.OWNER: str(other), owner.DEADLINE: "1000000"}
        assert not owner.abandoned(found, me, now + 3599)
        assert owner.abandoned(found, me, now + 3601)


def test_what_carries_no_label_of_ours_is_nobodys_to_remove():
    assert not owner.abandoned({"other": "x"}, machine.this_process(), 1e12)
    assert not owner.abandoned({owner.OWNER: "nonsense"}, machine.this_process(), 1e12)


@pytest.mark.parametrize("number", ["\u00b2", "9" * 5000, "-1", ""])
def test_labels_of_others_with_odd_numbers_are_left_alone(number):
    me = machine.this_process()
    other = str(replace(me, host="other"))
    deadline = {owner.OWNER: other, owner.DEADLINE: number}
    assert not owner.abandoned(deadline, me, 1e12)
    pid = {owner.OWNER: f"{me.host}/{me.boot}/{me.namespace}/{number}/1"}
    assert not owner.abandoned(pid, me, 1e12)


# Images


@pytest.mark.parametrize(
    ("reference", "name", "tag"),
    [
        ("debian", "debian", "latest"),
        ("host:5000/a/b", "host:5000/a/b", "latest"),
        ("a@sha256:00", "a", "sha256:00"),
    ],
)
def test_an_images_name_and_tag_come_apart(reference, name, tag):
    assert split(reference) == (name, tag)


def test_the_context_has_nothing_that_is_not_sent(tmp_path):
    for name in ("Dockerfile", ".env", ".git/HEAD", "a.o", "a.c", "note", "out/a.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("FROM x\n")
    (tmp_path / ".gitignore").write_text("*.o\nDockerfile\n")
    (tmp_path / ".raiignore").write_text("note\n")

    names = context.names(FolderProject(tmp_path, home="out"), "Dockerfile")

    assert names == ["Dockerfile", ".gitignore", ".raiignore", "a.c"]


@pytest.mark.parametrize("name", [".dockerignore", "Dockerfile"])
def test_what_says_how_to_build_is_not_read_from_outside_the_project(name, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "secret").write_text("secret\n")
    (project / name).symlink_to("../secret")

    with pytest.raises(ImageError, match=f"`{name}` cannot be read: a link leads out"):
        context.read_text(project, name)


def test_a_folder_of_the_context_that_became_a_link_leads_to_nothing_outside(tmp_path):
    project = tmp_path / "project"
    (project / "dir").mkdir(parents=True)
    (project / "dir/file").write_text("mine")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").write_text("not mine")
    names = context.names(FolderProject(project), "Dockerfile")
    (project / "dir/file").unlink()
    (project / "dir").rmdir()
    (project / "dir").symlink_to("../other")

    with pytest.raises(ImageError, match="leads out"):
        context.checksum(project, names)
    with pytest.raises(ImageError, match="leads out"):
        context.archive(project, names, "Dockerfile", "")


def test_the_contexts_checksum_follows_content_and_mode_and_nothing_else(tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM x\n")
    file = tmp_path / "run.sh"
    file.write_text("1")

    def checksum() -> str:
        return context.checksum(
            tmp_path, context.names(FolderProject(tmp_path), "Dockerfile")
        )

    first = checksum()
    os.utime(file, (1, 1))
    assert checksum() == first
    file.write_text("2")
    second = checksum()
    assert second != first
    file.chmod(0o755)
    assert checksum() not in (first, second)


def test_the_archive_of_a_context_has_no_owner_of_this_machine(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "Dockerfile").write_text("FROM x\n")
    (project / "link").symlink_to("Dockerfile")
    names = context.names(FolderProject(project), "Dockerfile")
    with (
        context.archive(project, names, "Dockerfile", "FROM x\n") as packed,
        tarfile.open(fileobj=packed) as tar,
    ):
        assert tar.getnames() == ["Dockerfile", "link"]
        packed.seek(0)
        first = tarfile.TarInfo.frombuf(packed.read(512), "utf-8", "strict")
        assert (first.name, first.type) == ("Dockerfile", tarfile.REGTYPE)
        assert {(m.uid, m.gid, m.uname) for m in tar.getmembers()} == {(0, 0, "")}


@pytest.mark.parametrize("name", ["Dockerfile", "a/Dockerfile", "link", "into/Deep"])
def test_a_dockerfile_that_changed_since_it_was_checked_is_not_packed(tmp_path, name):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/Deep").symlink_to("Dockerfile")
    (tmp_path / "a/Dockerfile").write_text("FROM checked\n")
    (tmp_path / "Dockerfile").hardlink_to(tmp_path / "a/Dockerfile")
    (tmp_path / "link").symlink_to("a/../into/Dockerfile")
    (tmp_path / "into").symlink_to("a")
    checked = context.read_text(tmp_path, name)
    assert checked == "FROM checked\n"
    names = context.names(FolderProject(tmp_path), name)
    context.archive(tmp_path, names, name, checked).close()

    (tmp_path / "a/Dockerfile").write_text("FROM another\n")
    with pytest.raises(ImageError, match=f"`{name}` was changed while"):
        context.archive(tmp_path, names, name, checked)


CLASSIC_MAKE = (
    "Step 1/3 : FROM debian\n ---> 123\nStep 2/3 : RUN ma",
    "ke\n ---> Running in 45\nno rule\n",
)
BUILDX_FALSE = (
    "#1 [internal] load build definition from Dockerfile\n#1 DONE 0.0s\n",
    "#5 [cpu 1/2] FROM docker.io/library/debian\n#5 DONE 0.0s\n",
    "#6 [cpu 2/2] RUN false && true\n#6 0.123 some text\n",
    '#6 ERROR: process "/bin/sh -c false && true" did not complete successfully: ',
    "exit code: 1\n------\n > [cpu 2/2] RUN false && true:\n",
)


@pytest.mark.parametrize(
    ("log", "pieces", "end", "failure"),
    [
        (ClassicLog(), CLASSIC_MAKE, 2, "Step 2/3: RUN make: exit code 2"),
        (BuildxLog(), BUILDX_FALSE, None, "Step 2/2: RUN false && true: exit code 1"),
    ],
)
def test_the_failing_step_of_a_build_is_found(log, pieces, end, failure):
    for piece in pieces:
        log.add(piece)
    if end:
        log.end(Message(error="it failed", error_detail=ErrorDetail(end, "...")))
    assert log.failure == failure
    assert not log.base_missing


def test_a_base_that_a_builder_cannot_have_is_told_apart():
    classic, buildx = ClassicLog(), BuildxLog()
    classic.add("Step 1/3 : FROM nobody/nothing\n")
    classic.end(Message(error="pull access denied for nobody/nothing"))
    buildx.add("#2 [internal] load metadata for docker.io/nobody/nothing:latest\n")
    buildx.add("#2 ERROR: pull access denied, repository does not exist\n")
    for log in (classic, buildx):
        assert log.base_missing
        assert "nobody/nothing" in log.failure


def test_what_the_classic_builder_colours_hides_no_step():
    log = ClassicLog()
    log.add("\x1b[91m[WARNING]: Empty continuation line found in:\n    RUN a\n\x1b[0m")
    log.add("Step 1/2 : FROM nobody/nothing\n\x1b[91mno\x1b[")
    log.add("0m")
    log.end(Message(error="pull access denied for nobody/nothing"))
    assert log.base_missing
    assert log.tail[-2:] == ["Step 1/2 : FROM nobody/nothing", "no"]


def test_the_step_of_rais_label_is_not_shown_and_not_counted():
    log = ClassicLog()
    told = [
        "Step 1/3 : FROM debian",
        "\n",
        " ---> 123\n",
        "Step 2/3 : RUN make",
        "\n",
        "Step 9/9 : LABEL rai.build=printed by make\n",
        'Step 3/3 : LABEL rai.build={"key":"1"}',
        "\n",
        " ---> Running in 456\n",
        " ---> 789\n",
        "Successfully built 789\n",
    ]

    assert "".join(map(log.shown, told)).splitlines() == [
        "Step 1/2 : FROM debian",
        " ---> 123",
        "Step 2/2 : RUN make",
        "Step 9/9 : LABEL rai.build=printed by make",
        "Successfully built 789",
    ]

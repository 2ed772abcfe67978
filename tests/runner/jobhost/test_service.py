"""A job host stands what a hostile or broken peer sends, and serves who may ask."""

from __future__ import annotations

import os
import secrets
import socket
import stat
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from runner.core import Reason
from runner.core.errors import RaiError
from runner.jobhost import channel
from runner.wire.host import (
    AskFacts,
    HostAnswer,
    LookAt,
    OpenFile,
    RemoveRuns,
    StartRun,
    answer_from,
    to_line,
)
from tests.runner.jobhost.hosting import SERVE, new_id, serving
from tests.waiting import until

pytestmark = pytest.mark.programs

SOON_S = 30.0
NOBODY = 65534
ASK_AS = """\
import os, socket, sys
os.chdir(sys.argv[1])
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
peer = socket.socket(socket.AF_UNIX)
peer.connect("jobs.sock")
sys.stdout.buffer.write(peer.makefile("rb").readline())
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with pytest.MonkeyPatch.context() as environment:
        folder = tmp_path_factory.mktemp("host")
        environment.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        with serving(folder) as host:
            yield host


def connected(host) -> socket.socket:
    peer = socket.socket(socket.AF_UNIX)
    peer.settimeout(SOON_S)
    peer.connect(str(host.socket))
    return peer


def answer(peer: socket.socket) -> HostAnswer:
    line, files = channel.read(peer, 1 << 24, 1, SOON_S)
    channel.close(files)
    return answer_from(line)


def asked(host, line: bytes, files: tuple[int, ...] = ()) -> HostAnswer:
    with connected(host) as peer:
        channel.write(peer, line, files, SOON_S)
        return answer(peer)


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"hello\n",
        b"\xff\xfe\n",
        b"[]\n",
        b"{}\n",
        b'{"type": "format"}\n',
        b'{"type": "look", "ids": "x"}\n',
        b'{"type": "open", "id": 1, "name": "stdout.log"}\n',
        b'{"type": "facts"}\n{"type": "facts"}\n',
        b"[" * 100_000 + b"\n",
        b'{"type": "start", "id": "0123456789", "settings": {"a": 1}}\n',
    ],
)
def test_what_is_no_request_is_refused(host, line):
    assert asked(host, line).reason is Reason.USAGE


@pytest.mark.parametrize(
    "name",
    [
        *("", "..", "../", "../../etc", "/etc/passwd", "0123456789/", "0123456789\n"),
        *("012345678", "01234567890", "012345678G", "0123456789/../../x", "\0" * 10),
        *("\u0660123456789", ".trash", "x" * 100_000),
    ],
)
def test_only_an_id_names_a_run(host, name):
    for request in (
        OpenFile(name, "stdout.log"),
        LookAt((name,)),
        RemoveRuns((name,)),
        StartRun(name),
    ):
        found = asked(host, to_line(request))
        assert found.reason is Reason.USAGE
        assert len(str(found.problems)) < 1000
    with pytest.raises(RaiError):
        host.ask.cancel(name)


@pytest.mark.parametrize(
    "name",
    [
        *("", "holder.json", "worker.log", "../record.json"),
        *("/etc/passwd", "stdout.log/", "./stdout.log", "project/x", "stdout.log\0"),
    ],
)
def test_only_the_readable_files_are_opened(host, name):
    with pytest.raises(RaiError) as refused:
        host.ask.open(new_id(), name)
    assert refused.value.reason is Reason.USAGE


def test_no_link_pipe_or_folder_is_opened_as_a_runs_file(host, tmp_path):
    paths = host.paths(new_id())
    paths.root.mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    paths.stdout.symlink_to(tmp_path / "secret")
    os.mkfifo(paths.stderr)
    paths.spec.mkdir()
    paths.build.symlink_to("/etc/passwd")

    for name in ("stdout.log", "stderr.log", "spec.yml", "build.tar.zst"):
        assert host.ask.open(paths.id, name) is None


def test_an_opened_file_can_only_be_read(host):
    paths = host.paths(new_id())
    paths.root.mkdir(parents=True)
    paths.stdout.write_text("kept")

    with host.ask.open(paths.id, "stdout.log").handle as file:
        with pytest.raises(OSError):
            os.write(file.fileno(), b"changed")
        with pytest.raises(OSError):
            os.ftruncate(file.fileno(), 0)
        assert file.read() == b"kept"


def test_a_line_that_is_too_long_is_refused(host):
    with connected(host) as peer:
        piece, sent = b"x" * (1 << 20), 0
        with pytest.raises((ConnectionError, TimeoutError)):
            while sent < 1 << 26:
                sent += peer.send(piece)
    assert sent <= 24 << 20
    assert host.ask.look([new_id()]) == {}


def test_a_request_for_too_many_runs_is_refused(host):
    ids = tuple(f"{n:010x}" for n in range(20_000))
    assert asked(host, to_line(LookAt(ids))).reason is Reason.USAGE


def test_a_request_with_too_many_files_is_refused_and_none_stays_open(host):
    before = open_files(host)
    with ExitStack() as opened:
        files = tuple(
            opened.enter_context(tempfile.TemporaryFile()).fileno() for _ in range(50)
        )
        for count in (3, 4, 50):
            found = asked(host, to_line(StartRun(new_id())), files[:count])
            assert found.reason is Reason.USAGE
    until(lambda: open_files(host) <= before)


@pytest.mark.parametrize("count", [0, 1])
def test_a_start_without_its_files_is_refused_and_leaves_no_folder(host, count):
    run_id = new_id()
    with tempfile.TemporaryFile() as file:
        files = (file.fileno(),) * count
        found = asked(host, to_line(StartRun(run_id)), files)
    assert found.reason is Reason.USAGE
    assert not host.paths(run_id).root.exists()
    assert not list(host.home.runs.glob(".new.*"))


def test_what_is_no_regular_file_is_not_copied(host):
    ours, theirs = os.pipe()
    try:
        found = asked(host, to_line(StartRun(new_id())), (ours, ours))
    finally:
        os.close(ours)
        os.close(theirs)
    assert found.reason is Reason.USAGE
    assert "parcel.json is not a regular file" in found.problems[0].message


@pytest.mark.parametrize("which", [0, 1])
def test_a_file_that_is_too_large_is_not_copied(host, which):
    with tempfile.TemporaryFile() as small, tempfile.TemporaryFile() as large:
        large.truncate(1 << 40)
        files = [small.fileno(), small.fileno()]
        files[which] = large.fileno()
        found = asked(host, to_line(StartRun(new_id())), tuple(files))
    assert found.reason is Reason.NOT_ALLOWED


def test_a_file_that_cannot_be_read_is_refused(host, tmp_path):
    with (tmp_path / "file").open("wb") as file:
        files = (file.fileno(),) * 2
        found = asked(host, to_line(StartRun(new_id())), files)
    assert found.reason is not None
    assert host.ask.look([new_id()]) == {}


def test_a_parcel_that_is_none_leaves_no_run(host):
    run_id = new_id()
    with tempfile.TemporaryFile() as file:
        file.write(secrets.token_bytes(1000))
        file.flush()
        found = asked(host, to_line(StartRun(run_id)), (file.fileno(),) * 2)
    assert found.reason is Reason.USAGE
    assert host.run(run_id) is None


def test_half_a_line_and_silence_is_given_up(tmp_path):
    quick = "from runner.jobhost import service\nservice.ASKED_WITHIN_S = 0.2\n"
    with serving(tmp_path, quick) as host, ExitStack() as opened:
        peers = [opened.enter_context(connected(host)) for _ in range(100)]
        for peer in peers:
            peer.sendall(b'{"type": "fa')

        assert all(peer.recv(1) == b"" for peer in peers)
        until(host.answers)


@pytest.mark.lengthy
def test_a_peer_that_does_not_take_its_answer_is_given_up(tmp_path):
    quick = (
        "from runner.jobhost import service\n"
        "service.TAKEN_WITHIN_S, service.CONNECTIONS = 0.2, 4\n"
    )
    with serving(tmp_path, quick) as host, ExitStack() as opened:
        ids = tuple(f"{n:010x}" for n in range(1_500))
        for run_id in ids:
            host.paths(run_id).root.mkdir(parents=True)
        for _ in range(4):
            peer = opened.enter_context(connected(host))
            peer.sendall(to_line(LookAt(ids)))
        until(host.answers)


def test_fifty_connections_are_served_at_once(host):
    with ExitStack() as opened:
        peers = [opened.enter_context(connected(host)) for _ in range(50)]
        for peer in reversed(peers):
            peer.sendall(to_line(LookAt((new_id(),))))
        assert all(answer(peer).reason is None for peer in peers)
    with ThreadPoolExecutor(50) as pool:
        found = list(pool.map(lambda _: host.ask.look([new_id()]), range(500)))
    assert found == [{}] * 500


@pytest.mark.root
def test_another_user_is_refused_even_where_the_socket_is_open_to_all(tmp_path):
    with serving(tmp_path) as host:
        assert stat.S_IMODE(host.socket.stat().st_mode) == 0o660
        host.socket.chmod(0o666)
        tmp_path.chmod(0o711)
        words = [sys.executable, "-c", ASK_AS, tmp_path]
        done = subprocess.run(words, capture_output=True, timeout=SOON_S, check=True)

    found = answer_from(done.stdout)
    assert found.reason is Reason.NOT_ALLOWED
    assert found.problems[0].message == f"user {NOBODY} may not ask this host"
    assert found.facts is None


def second(host, socket: Path, home: Path) -> str:
    """Start another host; return the last line of its error."""
    done = subprocess.run(
        [sys.executable, "-c", SERVE, socket, home],
        capture_output=True,
        text=True,
        timeout=SOON_S,
        check=False,
    )
    assert done.returncode == 1
    return done.stderr.strip().rpartition("\n")[2]


def test_a_second_host_is_refused(host, tmp_path):
    mine = host.home.root

    assert f"another job host serves {mine}" in second(host, tmp_path / "s", mine)
    at = second(host, host.socket, tmp_path / "home")
    assert f"another job host listens at {host.socket}" in at
    assert host.ask.look([new_id()]) == {}


def test_the_socket_of_a_host_that_was_killed_is_replaced(tmp_path):
    with serving(tmp_path) as host:
        host.kill()
        assert host.socket.is_socket()
        host.begin()
        assert host.ask.look([new_id()]) == {}


def test_a_file_in_the_place_of_the_socket_stays(host, tmp_path):
    kept = tmp_path / "jobs.sock"
    kept.write_text("kept")

    said = second(host, kept, tmp_path / "home")

    assert f"cannot listen at {kept}: Address already in use" in said
    assert kept.read_text() == "kept"


def test_a_path_that_is_too_long_for_a_socket_is_said(host, tmp_path):
    said = second(host, tmp_path / ("x" * 120), tmp_path / "home")
    assert "cannot listen at" in said and "too long" in said


def test_a_bug_is_told_and_the_host_goes_on(tmp_path):
    broken = "from runner.jobhost.facts import MachineFacts\nMachineFacts.now = None\n"
    with serving(tmp_path, broken) as host:
        assert asked(host, to_line(AskFacts())).reason is Reason.INTERNAL
        assert host.ask.look([new_id()]) == {}


def test_the_facts_name_what_can_serve(host):
    found = host.ask.facts()

    assert set(found.engines) <= {"docker", "local"}
    assert bool(found.engines) != bool(found.problems)
    assert found.cores >= 1 and found.memory_bytes > 0 and found.disk_free > 0


def test_the_host_takes_little_memory_and_loads_no_engine(host):
    host.ask.facts()
    host.ask.look([new_id()])

    status = Path(f"/proc/{host.process.pid}/status").read_text()
    resident = int(status.partition("VmRSS:")[2].split()[0])
    maps = Path(f"/proc/{host.process.pid}/maps").read_text()
    assert resident < 64 << 10  # KiB
    assert "libnvidia-ml" not in maps
    words = (
        "import sys, runner.jobhost.service; names = {'runner.engines.docker',"
        " 'docker', 'pynvml', 'runner.session', 'requests'};"
        " print(names & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", words], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"


def open_files(host) -> int:
    return len(list(Path(f"/proc/{host.process.pid}/fd").iterdir()))


def test_a_thousand_requests_leave_no_file_open(host, tmp_path):
    paths = host.paths(new_id())
    paths.root.mkdir(parents=True)
    paths.stdout.write_text("kept")
    host.ask.open(paths.id, "stdout.log").handle.close()
    before = open_files(host)
    for _ in range(200):
        host.ask.open(paths.id, "stdout.log").handle.close()
        with connected(host) as peer:  # which leaves without its answer
            peer.sendall(to_line(OpenFile(paths.id, "stdout.log")))
    until(lambda: open_files(host) <= before)

"""A server does not trust its job host's answers, and says that it is busy."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runner.core import Problem, Reason
from runner.core.errors import BusyError, RaiError
from runner.jobhost import client
from runner.jobhost.base import JobHost
from runner.jobhost.client import SocketHost
from runner.wire.host import HostAnswer, HostRun, StartRun, to_line

RUN = "0123456789"
Serve = Callable[[socket.socket], None]


@contextmanager
def odd(folder: Path, serve: Serve) -> Iterator[SocketHost]:
    """A host that reads a request and then does as ``serve`` does, once."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "jobs.sock"))
        listener.listen()

        def run() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(1 << 16)
                serve(peer)

        thread = threading.Thread(target=run)
        thread.start()
        yield SocketHost(folder / "jobs.sock")
        thread.join()


def saying(line: bytes) -> Serve:
    return lambda peer: peer.sendall(line)


@pytest.mark.parametrize(
    "serve",
    [
        saying(b""),
        saying(b"half a line"),
        saying(b"{\n"),
        saying(b'{"size": "x"}\n'),
        saying(b'{"size": 1}\n'),
        saying(b"{}\n{}\n"),
    ],
)
def test_an_odd_answer_is_as_none(tmp_path, serve):
    with odd(tmp_path, serve) as host, pytest.raises(BusyError, match="job host at"):
        host.open(RUN, "stdout.log")


def test_an_answer_that_does_not_end_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(client, "MOST_LINE_BYTES", 1 << 20)

    def flood(peer: socket.socket) -> None:
        with pytest.raises(OSError):
            while True:
                peer.sendall(b"x" * (1 << 16))

    with odd(tmp_path, flood) as host, pytest.raises(BusyError, match="longer than"):
        host.look([RUN])


def test_a_host_that_is_silent_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(client, "USUAL_S", 0.1)
    left = threading.Event()
    with odd(tmp_path, lambda peer: left.wait(30) and None) as host:
        with pytest.raises(BusyError, match="timed out"):
            host._asked(client.LookAt((RUN,)), within_s=0.1)
        left.set()


def test_where_nobody_listens_it_is_busy(tmp_path):
    host: JobHost = SocketHost(tmp_path / "absent.sock")
    parcel = tmp_path / "parcel.json"
    parcel.touch()
    for ask in (
        host.facts,
        lambda: host.look([RUN]),
        lambda: host.cancel(RUN),
        lambda: host.open(RUN, "stdout.log"),
        lambda: host.remove([RUN]),
        lambda: host.clear_gpu("GPU-a"),
        lambda: host.start(StartRun(RUN), parcel, parcel),
    ):
        with pytest.raises(BusyError, match=r"absent\.sock does not answer: No such"):
            ask()
    assert host.look([]) == {}


def given(*files: int) -> Serve:
    line = to_line(HostAnswer(size=4))
    return lambda peer: socket.send_fds(peer, [line], files) and None


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_what_can_be_written_or_is_no_file_is_not_taken(tmp_path):
    ours, theirs = os.pipe()
    with (tmp_path / "file").open("w+b") as writable:
        for files in ((ours,), (theirs,), (writable.fileno(),), (ours, ours)):
            folder = tmp_path / str(len(list(tmp_path.iterdir())))
            folder.mkdir()
            before = open_files()
            with odd(folder, given(*files)) as host, pytest.raises(BusyError):
                host.open(RUN, "stdout.log")
            assert open_files() == before
    os.close(ours)
    os.close(theirs)


def test_the_size_is_the_files_own(tmp_path):
    file = tmp_path / "file"
    file.write_text("seven b")
    with (
        file.open("rb") as opened,
        odd(tmp_path, given(opened.fileno())) as host,
    ):
        found = host.open(RUN, "stdout.log")
        assert found is not None
        with found.handle as handle:
            assert (found.size, handle.read()) == (7, b"seven b")


def test_files_that_nobody_asked_for_are_closed(tmp_path):
    with (tmp_path / "file").open("w+b") as file:
        before = open_files()
        with odd(tmp_path, given(file.fileno())) as host:
            host.cancel(RUN)
        assert open_files() == before


def test_runs_that_nobody_asked_for_are_left_out(tmp_path):
    runs = (HostRun("f" * 10, True, True), HostRun(RUN, False, False))
    with odd(tmp_path, saying(to_line(HostAnswer(runs=runs)))) as host:
        assert host.look([RUN]) == {RUN: runs[1]}


def test_a_refusal_has_its_reason_and_problems(tmp_path):
    refusal = HostAnswer(Reason.USAGE, (Problem("no run"),))
    with odd(tmp_path, saying(to_line(refusal))) as host:
        with pytest.raises(RaiError, match="no run") as error:
            host.cancel(RUN)
        assert error.value.reason is Reason.USAGE


def test_an_answer_without_facts_is_odd(tmp_path):
    with odd(tmp_path, saying(b"{}\n")) as host, pytest.raises(BusyError):
        host.facts()


def test_a_file_that_is_gone_is_told(tmp_path):
    host = SocketHost(tmp_path / "jobs.sock")
    with pytest.raises(RaiError, match="absent: No such file") as error:
        host.start(StartRun(RUN), tmp_path / "absent", tmp_path / "absent")
    assert error.value.reason is Reason.INTERNAL

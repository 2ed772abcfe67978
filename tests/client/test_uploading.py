"""An upload gets through, whatever happens to the connections."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from runner.client.problems import RefusedError, UnreachableError
from runner.execution import handover
from runner.execution.handover import upload
from tests.kit.played import refusal

CONTENT = bytes(range(64)) * 10_000  # more than one piece of what is sent
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def file(tmp_path: Path, server) -> Path:
    server.otherwise = server.upload
    path = tmp_path / "source.tar.zst"
    path.write_bytes(CONTENT)
    return path


def puts(server) -> int:
    return sum(method == "PUT" for method, _, _ in server.asked)


def test_a_file_is_sent_whole_once_and_its_progress_told(client, server, file):
    told = []
    assert upload(client, file, lambda *sent: told.append(sent)) == SHA256
    assert server.uploads == {SHA256: CONTENT}
    assert [sent for sent, _ in told] == sorted(sent for sent, _ in told)
    assert 0 < told[0][0] < told[-1][0]
    assert told[-1] == (len(CONTENT), len(CONTENT))
    again = []
    assert upload(client, file, lambda *sent: again.append(sent)) == SHA256
    assert again == told[-1:]
    assert puts(server) == 1


@pytest.mark.parametrize("at", [0, 1, len(CONTENT) // 2, len(CONTENT)])
def test_after_a_connection_that_broke_it_is_sent_anew(client, server, file, at):
    server.breaks = [at, at]
    assert upload(client, file) == SHA256
    assert server.uploads == {SHA256: CONTENT}
    assert puts(server) == 3


def test_one_that_arrived_before_the_answer_broke_is_not_sent_again(
    client, server, file
):
    def arrived(request):
        server.uploads[SHA256] = request.body()
        request.break_off()

    server.plays["PUT", f"/uploads/{SHA256}"] = arrived
    assert upload(client, file) == SHA256
    assert puts(server) == 1


def test_connections_that_always_break_end_it(client, server, file):
    server.breaks = [9] * 100
    with pytest.raises(UnreachableError):
        upload(client, file)
    assert puts(server) == 1 + handover.MOST_BROKEN


def test_a_file_that_the_server_does_not_take_is_not_sent(client, server, file):
    path = ("GET", f"/uploads/{SHA256}")
    server.plays[path] = lambda _: refusal(413, "too large", reason="not_allowed")
    with pytest.raises(RefusedError, match="too large"):
        upload(client, file)
    assert puts(server) == 0
    assert server.asked[0][1].endswith(f"?size={len(CONTENT)}")


@pytest.mark.parametrize("times", [handover.MOST_WRONG, handover.MOST_WRONG + 1])
def test_a_file_that_arrived_otherwise_is_sent_anew_sometimes(
    client, server, file, times
):
    wrong = [1] * times

    def checking(request):
        if not wrong:
            return server.upload(request)
        wrong.pop()
        request.body()
        return refusal(422, "another checksum", reason="usage")

    server.plays["PUT", f"/uploads/{SHA256}"] = checking
    if times > handover.MOST_WRONG:
        with pytest.raises(RefusedError, match="another checksum"):
            upload(client, file)
    else:
        assert upload(client, file) == SHA256
        assert server.uploads == {SHA256: CONTENT}

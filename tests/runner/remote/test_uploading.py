"""An upload gets through, whatever happens to the connections."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from runner.remote import uploading
from runner.remote.api import ServerClient
from runner.remote.entries import ProfileEntry
from runner.remote.problems import NoServerError, RefusedError, UnreachableError
from runner.remote.retrying import Patience
from runner.remote.uploading import upload
from tests.runner.remote.played import TOKEN, Playing, as_json, refusal

CONTENT = bytes(range(64))
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "source.tar.zst"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture(autouse=True)
def taking(server) -> None:
    server.uploads.play()


def patches(server) -> int:
    return sum(method == "PATCH" for method, _, _ in server.asked)


def test_a_file_is_sent_in_pieces_and_its_progress_told(
    client, server, file, monkeypatch
):
    monkeypatch.setattr(uploading, "PIECE_BYTES", 20)
    told = []
    state = upload(client, file, lambda sent, size: told.append((sent, size)))
    assert state.whole
    assert bytes(server.uploads.have[SHA256]) == CONTENT
    assert patches(server) == 4
    assert [sent for sent, _ in told] == sorted(sent for sent, _ in told)
    assert told[-1] == (64, 64)


@pytest.mark.parametrize("at", range(65))
def test_a_connection_that_breaks_at_any_byte_loses_none(client, server, file, at):
    server.uploads.breaks = [at]
    assert upload(client, file).whole
    assert bytes(server.uploads.have[SHA256]) == CONTENT


def test_connections_that_break_after_each_byte_get_all_of_it_through(
    client, server, file
):
    server.uploads.breaks = [1] * 64
    assert upload(client, file).whole
    assert bytes(server.uploads.have[SHA256]) == CONTENT


def test_what_another_process_sent_is_not_sent_again(client, server, file, url):
    server.uploads.breaks = [40]
    with (
        ServerClient(ProfileEntry(url, TOKEN)) as impatient,
        pytest.raises(UnreachableError),
    ):
        upload(impatient, file)
    told = []
    assert upload(client, file, lambda sent, _: told.append(sent)).whole
    assert told[0] > 40
    server.asked.clear()
    assert upload(client, file).whole
    assert patches(server) == 0


def test_another_offset_of_the_server_is_taken(client, server, file):
    first = server.otherwise

    def meanwhile(request: Playing):
        if request.command == "PATCH" and len(server.uploads.have[SHA256]) < 30:
            server.uploads.have[SHA256][:] = CONTENT[:30]
        return first(request)

    server.otherwise = meanwhile
    assert upload(client, file).whole
    assert bytes(server.uploads.have[SHA256]) == CONTENT


def test_an_upload_that_became_too_old_is_begun_anew(client, server, file):
    first = server.otherwise
    gone = [True]

    def expired(request: Playing):
        if gone:
            gone.pop()
            request.body()
            return refusal(404, "no such upload", reason="usage")
        return first(request)

    server.otherwise = expired
    assert upload(client, file).whole


def test_an_upload_that_is_refused_is_not_tried_again(client, server, file):
    server.plays["POST", "/uploads"] = lambda request: (
        (request.body() and None) or refusal(413, "too large", reason="not_allowed")
    )
    with pytest.raises(RefusedError, match="too large"):
        upload(client, file)
    assert len(server.asked) == 1


def test_a_server_that_takes_nothing_is_left_after_some_tries(client, server, file):
    server.otherwise = lambda request: (
        (request.body() and None) or as_json(server.uploads.state(SHA256))
    )
    with pytest.raises(NoServerError, match="took 0 bytes of 64, and no more"):
        upload(client, file)
    assert patches(server) == uploading.MOST_IN_VAIN


def test_a_server_that_always_has_another_offset_is_left(client, server, file):
    server.otherwise = lambda request: (
        (request.body() and None) or refusal(409, "another offset", reason="usage")
    )
    with pytest.raises(NoServerError, match="and no more"):
        upload(client, file)


@pytest.mark.parametrize("offset", [-1, 65, 10**18])
def test_an_absurd_offset_is_no_servers(client, server, file, offset):
    state = {"id": "u", "sha256": SHA256, "size": 64, "offset": offset, "whole": False}
    server.plays["POST", "/uploads"] = lambda request: (
        (request.body() and None) or as_json(state)
    )
    with pytest.raises(NoServerError):
        upload(client, file)


def test_all_bytes_of_another_file_do_not_end_well(client, server, file):
    server.uploads.have[SHA256] = bytearray(64)
    server.uploads.size[SHA256] = 64
    with pytest.raises(NoServerError, match="took 64 bytes of 64, and no more"):
        upload(client, file)


def test_a_server_that_stays_away_ends_the_patience(url, server, file):
    server.otherwise = lambda request: request.break_off()
    with (
        ServerClient(ProfileEntry(url, TOKEN), Patience(0.05)) as client,
        pytest.raises(UnreachableError),
    ):
        upload(client, file)


def test_the_state_of_an_upload_is_asked_for(client, server, file):
    server.uploads.breaks = [10]
    found = upload(client, file)
    assert client.upload_state(found.id) == (64, True)
    server.uploads.have[SHA256] = bytearray(7)
    assert client.upload_state(found.id) == (7, False)
    with pytest.raises(RefusedError):
        client.upload_state("nothing")


@pytest.mark.lengthy
def test_a_large_file_arrives_whole(client, server, tmp_path):
    content = hashlib.shake_128(b"x").digest(20 << 20)
    file = tmp_path / "large"
    file.write_bytes(content)
    server.uploads.breaks = [1, 5 << 20, 8 << 20]
    assert upload(client, file).whole
    assert bytes(server.uploads.have[hashlib.sha256(content).hexdigest()]) == content


def test_a_file_that_arrived_otherwise_is_sent_anew(client, server, file, monkeypatch):
    monkeypatch.setattr(uploading, "PIECE_BYTES", 8)
    server.uploads.have[SHA256] = bytearray(40)
    server.uploads.size[SHA256] = 64
    first = server.otherwise

    def checking(request: Playing):
        answer = first(request)
        have = server.uploads.have[SHA256]
        if len(have) == 64 and not server.uploads.state(SHA256)["whole"]:
            have.clear()
            return refusal(422, "another checksum", reason="usage")
        return answer

    server.otherwise = checking
    assert upload(client, file).whole
    assert bytes(server.uploads.have[SHA256]) == CONTENT


def test_a_file_that_never_arrives_as_it_is_ends_with_the_refusal(client, server, file):
    server.otherwise = lambda request: (
        (request.body() and None) or refusal(422, "another checksum", reason="usage")
    )
    with pytest.raises(RefusedError, match="another checksum"):
        upload(client, file)
    assert patches(server) == 1 + uploading.MOST_WRONG


def test_an_upload_that_another_connection_still_writes_is_waited_for(
    client, server, file
):
    first = server.otherwise
    busy = [1, 2, 3]

    def writing(request: Playing):
        if busy:
            busy.pop()
            request.body()
            return refusal(423, "in use", reason="busy", retry_at=9e9)
        return first(request)

    server.otherwise = writing
    assert upload(client, file).whole

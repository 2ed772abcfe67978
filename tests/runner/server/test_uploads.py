"""Uploads: they resume, are checked, and stay within their team and its quotas."""

from __future__ import annotations

import hashlib
import os
import threading
from contextlib import closing

import pytest

from runner.scheduling.roles import Role, ServerRules
from runner.server.uploadfiles import upload_path
from tests.runner.server.web import serving
from tests.waiting import until

DATA = os.urandom(700_000)
UPLOADS = "/api/v1/uploads"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def begin(web, token, data=DATA, **changes):
    asked = {"sha256": sha256(data), "size": len(data), **changes}
    return web.ask("POST", UPLOADS, token, asked)


def send(web, token, upload, data, at):
    headers = {"Upload-Offset": str(at)}
    return web.ask("PATCH", f"{UPLOADS}/{upload}", token, data, headers)


def test_an_upload_resumes_where_it_broke(web):
    token = web.token("blue")
    made = begin(web, token)
    assert (made.status, made.json["offset"]) == (201, 0)
    upload = made.json["id"]
    first = send(web, token, upload, DATA[:300_000], 0)
    assert (first.json["offset"], first.json["whole"]) == (300_000, False)
    head = web.ask("HEAD", f"{UPLOADS}/{upload}", token)
    assert (head.headers["upload-offset"], head.headers["x-rai-whole"]) == (
        "300000",
        "0",
    )
    wrong = send(web, token, upload, DATA[200_000:], 200_000)
    assert (wrong.status, wrong.headers["upload-offset"]) == (409, "300000")
    rest = send(web, token, upload, DATA[300_000:], 300_000)
    assert (rest.status, rest.json["whole"]) == (200, True)
    kept = upload_path(web.site.uploads, "blue", sha256(DATA))
    assert kept.read_bytes() == DATA
    assert kept.stat().st_mode & 0o077 == 0


def test_the_same_file_is_there_already(web):
    token = web.token("blue")
    upload = web.upload(token, DATA)
    again = begin(web, token)
    assert (again.status, again.json["id"], again.json["whole"]) == (200, upload, True)
    other = begin(web, web.token("red"))
    assert (other.status, other.json["whole"]) == (201, False)
    assert other.json["id"] != upload


def test_what_a_broken_connection_brought_is_kept(web):
    token = web.token("blue")
    upload = begin(web, token).json["id"]
    link = web.connection()
    link.connect()
    head = (
        f"PATCH {UPLOADS}/{upload} HTTP/1.1\r\nHost: x\r\nUpload-Offset: 0\r\n"
        f"Authorization: Bearer {token}\r\nContent-Length: {len(DATA)}\r\n\r\n"
    )
    link.sock.sendall(head.encode() + DATA[:500_000])
    path = upload_path(web.site.uploads, "blue", sha256(DATA))
    until(lambda: path.exists() and path.stat().st_size)
    link.close()
    at = [0]

    def resumed():
        head = web.ask("HEAD", f"{UPLOADS}/{upload}", token)
        at[0] = int(head.headers["upload-offset"])
        return send(web, token, upload, DATA[at[0] :], at[0]).status == 200

    until(resumed)
    assert at[0] > 0
    assert path.read_bytes() == DATA


def test_an_upload_that_is_whole_on_the_disk_is_checked_when_asked_for(web):
    token = web.token("blue")
    upload = begin(web, token).json["id"]
    path = upload_path(web.site.uploads, "blue", sha256(DATA))
    path.parent.mkdir(parents=True)
    path.write_bytes(DATA)
    assert begin(web, token).json["whole"]
    assert web.store.upload("blue", upload).whole


def test_what_has_another_sha256_is_forgotten(web):
    token = web.token("blue")
    upload = begin(web, token).json["id"]
    found = send(web, token, upload, bytes(len(DATA)), 0)
    assert (found.status, found.json["reason"]) == (422, "usage")
    assert web.ask("HEAD", f"{UPLOADS}/{upload}", token).headers["upload-offset"] == "0"
    assert send(web, token, upload, DATA, 0).json["whole"]


def test_no_more_is_taken_than_was_announced(web):
    token = web.token("blue")
    upload = begin(web, token).json["id"]
    assert send(web, token, upload, DATA + b"x", 0).status == 413
    link = web.connection()
    headers = {"Authorization": f"Bearer {token}", "Upload-Offset": "0"}
    pieces = (DATA[:350_000] for _ in range(3))
    link.request("PATCH", f"{UPLOADS}/{upload}", pieces, headers, encode_chunked=True)
    with closing(link), closing(link.getresponse()) as answer:
        assert answer.status == 413
    path = upload_path(web.site.uploads, "blue", sha256(DATA))
    assert path.stat().st_size <= len(DATA)


def test_another_teams_upload_is_not_there(web):
    upload = web.upload(web.token("blue"), DATA)
    red = web.token("red")
    assert web.ask("HEAD", f"{UPLOADS}/{upload}", red).status == 404
    assert send(web, red, upload, DATA, 0).status == 404
    refused = web.put(red, upload=upload)
    assert refused.status == 404


@pytest.mark.parametrize(
    "name", ["..%2f..%2fstore.sqlite", "%00", "A" * 24, "0" * 23, "%2e%2e"]
)
def test_an_upload_has_no_name_that_leads_anywhere(web, name):
    token = web.token("blue")
    assert web.ask("HEAD", f"{UPLOADS}/{name}", token).status == 404


@pytest.mark.parametrize(
    ("sha", "size"),
    [("../../etc/passwd", 5), ("A" * 64, 5), ("0" * 64, 0), ("0" * 64, -1), ("", 1)],
)
def test_an_upload_needs_a_checksum_and_a_size(web, sha, size):
    found = begin(web, web.token("blue"), sha256=sha, size=size)
    assert (found.status, found.json["reason"]) == (400, "usage")


def test_no_link_is_followed_in_the_place_of_an_upload(web, tmp_path):
    token = web.token("blue")
    upload = begin(web, token).json["id"]
    target = tmp_path / "target"
    target.write_bytes(b"secret")
    path = upload_path(web.site.uploads, "blue", sha256(DATA))
    path.parent.mkdir(parents=True)
    path.symlink_to(target)
    assert send(web, token, upload, DATA, 0).status == 500
    assert target.read_bytes() == b"secret"


def test_a_role_bounds_a_project_and_what_a_team_keeps(tmp_path):
    role = Role("student", upload_bytes=1000, disk_bytes=1500)
    rules = ServerRules(roles={"student": role}, low_disk_bytes=0)
    with serving(tmp_path, rules) as web:
        token = web.token("blue")
        large = begin(web, token, bytes(1001))
        assert (large.status, large.json["reason"]) == (413, "not_allowed")
        assert begin(web, token, bytes(1000)).status == 201
        more = begin(web, token, bytes(999))
        assert (more.status, more.json["reason"]) == (413, "not_allowed")
        assert begin(web, web.token("red"), bytes(999)).status == 201


def test_two_uploads_at_once_do_not_pass_a_quota_together(tmp_path):
    role = Role("student", disk_bytes=1500)
    rules = ServerRules(roles={"student": role}, low_disk_bytes=0)
    with serving(tmp_path, rules) as web:
        token = web.token("blue")
        statuses = []

        def one(n):
            statuses.append(begin(web, token, bytes([n]) * 1000).status)

        threads = [threading.Thread(target=one, args=[n]) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(statuses) == [201, *[413] * 7]


def test_nothing_is_taken_while_the_disk_is_nearly_full(tmp_path):
    with serving(tmp_path, ServerRules(low_disk_bytes=1 << 60)) as web:
        found = begin(web, web.token("blue"))
        assert (found.status, found.json["reason"]) == (503, "busy")
        assert found.json["retry_at"] > web.now()

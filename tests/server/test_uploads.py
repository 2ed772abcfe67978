"""Uploads: taken whole, checked, written once, within their team and its quotas."""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import pytest

from runner.server import bounds, uploads
from runner.server.paths import upload_path
from runner.server.scheduling import Role, ServerRules
from tests.kit.waiting import until
from tests.kit.web import serving

pytestmark = pytest.mark.lengthy

DATA = os.urandom(700_000)


def path(data):
    return f"/api/v1/uploads/{hashlib.sha256(data).hexdigest()}"


def put(web, token, data=DATA, body=None):
    return web.ask("PUT", path(data), token, data if body is None else body)


def begun(web, token, body, data=DATA, size=None):
    """Send the first bytes of an upload; return the connection."""
    return web.begun("PUT", path(data), token, size or len(data), body)


def kept(web, data=DATA, team="blue"):
    return upload_path(web.site.uploads, team, hashlib.sha256(data).hexdigest())


def arriving(web):
    return list((web.site.uploads / "arriving").glob("*"))


def test_a_file_is_there_once_it_was_sent_and_for_its_team_alone(web):
    blue, red = web.token("blue"), web.token("red")
    assert web.ask("GET", path(DATA), blue).status == 404
    assert put(web, blue).status == 201
    for method in ("GET", "HEAD"):
        assert web.ask(method, path(DATA), blue).status == 204
        assert web.ask(method, path(DATA), red).status == 404
    assert kept(web).read_bytes() == DATA
    assert kept(web).stat().st_mode & 0o077 == 0
    assert put(web, blue).status == 201
    assert web.store.use("blue", 0).bytes == len(DATA)
    assert web.put(red, upload=path(DATA)[-64:]).status == 404
    assert arriving(web) == []


def test_one_file_sent_by_many_at_once_is_kept_once(web):
    token = web.token("blue")
    links = [begun(web, token, DATA[:300_000]) for _ in range(4)]
    until(lambda: len(arriving(web)) == 4)
    assert not kept(web).exists()
    for link in links:
        with closing(link):
            link.sendall(DATA[300_000:])
            assert link.recv(100).startswith(b"HTTP/1.1 201")
    assert kept(web).read_bytes() == DATA
    assert web.store.use("blue", 0).bytes == len(DATA)
    until(lambda: arriving(web) == [])


@pytest.mark.parametrize("damage", ["gone", "short", "link"])
def test_a_file_that_was_damaged_there_is_asked_for_again(web, tmp_path, damage):
    token = web.token("blue")
    put(web, token)
    target = tmp_path / "target"
    target.write_bytes(bytes(len(DATA)))
    if damage == "short":
        kept(web).write_bytes(DATA[:9])
    else:
        kept(web).unlink()
    if damage == "link":
        kept(web).symlink_to(target)
    assert web.ask("GET", path(DATA), token).status == 404
    assert web.put(token, upload=path(DATA)[-64:]).status == 404
    assert put(web, token).status == 201
    assert kept(web).read_bytes() == DATA
    assert target.read_bytes() == bytes(len(DATA))


def test_what_has_another_sha256_is_forgotten(web):
    token = web.token("blue")
    found = put(web, token, body=bytes(len(DATA)))
    assert (found.status, found.json["reason"]) == (422, "usage")
    assert web.ask("GET", path(DATA), token).status == 404
    assert web.store.use("blue", 0).bytes == 0
    assert put(web, token).status == 201


def test_a_body_that_ends_early_leaves_nothing(web):
    token = web.token("blue")
    begun(web, token, DATA[:500_000]).close()
    until(lambda: not arriving(web) and kept(web).parent.parent.exists())
    assert web.ask("GET", path(DATA), token).status == 404
    assert put(web, token).status == 201


def test_what_is_sent_behind_the_announced_end_is_no_part_of_it(web):
    token = web.token("blue")
    with begun(web, token, DATA + b"GET /", size=len(DATA)) as link:
        assert link.recv(100).startswith(b"HTTP/1.1 201")
    assert kept(web).read_bytes() == DATA


def test_a_body_without_a_length_is_refused(web):
    link = web.connection()
    headers = {"Authorization": f"Bearer {web.token('blue')}"}
    link.request("PUT", path(DATA), iter([DATA]), headers, encode_chunked=True)
    with closing(link), closing(link.getresponse()) as answer:
        assert answer.status == 411
    assert put(web, web.token("blue"), b"").status == 411
    assert arriving(web) == []


def test_a_body_that_trickles_is_refused_and_leaves_nothing(web, monkeypatch):
    monkeypatch.setattr("runner.server.bounds.SLOW_S", 0.3)
    token = web.token("blue")
    with begun(web, token, DATA[:10]) as link:  # and nothing more
        assert link.recv(100).startswith(b"HTTP/1.1 408")
    with begun(web, token, DATA[:10]) as link:
        for _ in range(200):
            try:
                link.sendall(b"x")
            except OSError:
                break
            time.sleep(0.02)
        else:
            raise AssertionError("it went on for ever")
    until(lambda: arriving(web) == [])
    assert put(web, token).status == 201


def test_a_revoked_token_ends_an_upload_that_goes_on(web, monkeypatch):
    monkeypatch.setattr("runner.server.bounds.REVOKED_S", 0.2)
    token = web.token("blue")
    with begun(web, token, DATA[:5000]) as link:
        until(lambda: arriving(web))
        web.store.revoke(token.split("_")[1], web.now())
        assert link.recv(100).startswith(b"HTTP/1.1 401")
    until(lambda: arriving(web) == [])


@pytest.mark.parametrize(
    "name", ["..%2f..%2fstore.sqlite", "%00", "A" * 64, "0" * 63, "%2e%2e"]
)
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_an_upload_has_no_name_that_leads_anywhere(web, method, name):
    found = web.ask(method, f"/api/v1/uploads/{name}", web.token("blue"), b"x")
    assert found.status in (400, 404)
    assert not web.site.uploads.exists()


def refused(web, token, data):
    """Return the reason for which a file is not taken, told before and after."""
    asked = web.ask("GET", f"{path(data)}?size={len(data)}", token)
    sent = put(web, token, data)
    assert (asked.status, asked.json["reason"]) == (sent.status, sent.json["reason"])
    return sent.status, sent.json["reason"]


def test_a_role_bounds_a_project_and_what_a_team_keeps(tmp_path):
    role = Role("student", upload_bytes=1000, disk_bytes=1500)
    rules = ServerRules(roles={"student": role}, low_disk_bytes=0)
    with serving(tmp_path, rules) as web:
        token = web.token("blue")
        assert refused(web, token, bytes(1001)) == (413, "not_allowed")
        assert put(web, token, bytes(1000)).status == 201
        assert refused(web, token, bytes(999)) == (413, "not_allowed")
        assert put(web, token, bytes(1000)).status == 201  # it counts once
        name = hashlib.sha256(bytes(1000)).hexdigest()
        large = web.ask("PUT", f"/api/v1/uploads/{name}", token, bytes(10**6))
        assert large.status == 422
        assert put(web, web.token("red"), bytes(999)).status == 201


def test_uploads_at_once_do_not_pass_a_quota_together(tmp_path):
    role = Role("student", disk_bytes=1500)
    rules = ServerRules(roles={"student": role}, low_disk_bytes=0)
    with serving(tmp_path, rules) as web:
        token, files = web.token("blue"), [bytes([n]) * 1000 for n in range(8)]
        with ThreadPoolExecutor(8) as pool:
            sent = pool.map(lambda data: put(web, token, data).status, files)
        assert sorted(sent) == [201, *[413] * 7]


def test_a_team_has_only_so_many_uploads_under_way(web, monkeypatch):
    monkeypatch.setattr(bounds, "UPLOADS_OF_TEAM", 2)
    blue, red = web.token("blue"), web.token("red")
    links = [begun(web, blue, b"x") for _ in range(2)]
    until(lambda: len(arriving(web)) == 2)
    assert refused(web, blue, b"other") == (503, "busy")
    assert put(web, red, b"other").status == 201
    for link in links:
        link.close()
    until(lambda: arriving(web) == [])
    assert put(web, blue, b"other").status == 201


def test_nothing_is_taken_while_the_disk_is_nearly_full(tmp_path):
    with serving(tmp_path, ServerRules(low_disk_bytes=1 << 60)) as web:
        assert refused(web, web.token("blue"), DATA) == (503, "busy")
        assert put(web, web.token("blue")).json["retry_at"] > web.now()


@pytest.mark.root
@pytest.mark.parametrize(("low", "filling"), [(0, 700_000), (200_000, 400_000)])
def test_a_disk_that_fills_meanwhile_refuses_what_comes_and_keeps_nothing_of_it(
    tmp_path, monkeypatch, low, filling
):
    monkeypatch.setattr(uploads, "LOOK_AGAIN_BYTES", 1)
    disk = tmp_path / "uploads"
    disk.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=1m", "rai-test", str(disk)]
    subprocess.run(words, check=True)
    try:
        with serving(tmp_path, ServerRules(low_disk_bytes=low)) as web:
            token = web.token("blue")
            with begun(web, token, DATA[:400_000]) as link:
                until(lambda: any(one.stat().st_size for one in arriving(web)))
                with suppress(OSError):
                    (disk / "filling").write_bytes(bytes(filling))
                link.sendall(DATA[400_000:])
                assert link.recv(100).startswith(b"HTTP/1.1 503")
            until(lambda: arriving(web) == [])
            (disk / "filling").unlink()
            assert put(web, token).status == 201
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)

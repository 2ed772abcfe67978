"""Clients that mean harm: what they send is bounded in bytes, time and memory."""

from __future__ import annotations

import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from runner.core import MIB
from runner.pack.write import zstd
from runner.server.decision import decide
from runner.server.runs import MOST_SHOWN
from runner.server.scheduling import QueueHistory, ServerRules
from tests.kit.follower import Follower, joined
from tests.kit.waiting import until
from tests.kit.web import RUN, SPEC, request

pytestmark = pytest.mark.lengthy

PATH = f"/api/v1/runs/{RUN}"


def raw(web, data):
    """Send bytes as they are; return all that comes until the connection ends."""
    with web.doors.link(plain=True) as link:
        link.sendall(data)
        return b"".join(iter(lambda: link.recv(65536), b""))


def memory_bytes():
    """Return what this process, which serves too, has at most had."""
    text = Path("/proc/self/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) * 1024


def test_headers_without_end_are_refused(web):
    head = b"GET /api/v1/ HTTP/1.1\r\nHost: x\r\n"
    found = raw(web, head + b"X-Long: " + b"a" * 60_000)
    assert found.startswith(b"HTTP/1.1 400")
    many = b"".join(b"X-%d: a\r\n" % n for n in range(5000))
    assert raw(web, head + many).startswith(b"HTTP/1.1 400")
    assert web.ask("GET", "/api/v1/").status == 200


@pytest.mark.parametrize(
    "data",
    [b"\x16\x03\x01\x02\x00", b"GET / HTTP/9\r\n\r\n", b"\0" * 100],
)
def test_what_is_no_http_is_refused(web, data):
    assert raw(web, data + b"\r\n\r\n").startswith(b"HTTP/1.1 400")


def test_a_body_that_is_too_large_is_refused_before_it_is_read(web):
    token = web.token("blue")
    with web.begun("PUT", PATH, token, 1 << 40, b"[" * 1000) as link:
        found = b"".join(iter(lambda: link.recv(65536), b""))
    assert found.startswith(b"HTTP/1.1 413")
    assert b'"reason":"usage"' in found


def test_a_body_without_end_is_refused_and_never_held(web):
    token = web.token("blue")
    before = memory_bytes()
    link = web.connection()

    def endless():
        for _ in range(2000):
            yield b"[" * 65536

    try:
        with closing(link), pytest.raises(OSError):
            headers = {"Authorization": f"Bearer {token}"}
            link.request("PUT", PATH, endless(), headers, encode_chunked=True)
            raise OSError(link.getresponse().status)
    finally:
        link.close()
    assert memory_bytes() - before < 40 * MIB
    assert web.ask("GET", "/api/v1/").status == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'{"upload": 7}',
        b"[" * 200_000,
        b'{"x":' * 200_000,
        b'{"upload":"' + b"\\ud800" + b'"}',
        b"\xff\xfe",
        b'{"version":99,"project":"p","spec_file":"f","spec_text":""}',
        b'{"repeat":' + b"9" * 5000 + b"}",
    ],
)
def test_json_that_is_no_request_is_refused_in_words(web, body):
    found = web.ask("PUT", PATH, web.token("blue"), body)
    assert (found.status, found.json["reason"]) == (400, "usage")
    assert len(found.body) < 2000


def test_a_request_of_odd_values_is_refused(web):
    token = web.token("blue")
    upload = web.upload(token)
    for parcel in (
        {"project": "x" * 5000},
        {"project": "a\0b"},
        {"sha256": "../../x"},
        {"gpu_wait_s": 1e300},
        {"gpu_wait_s": -1.0},
        {"after": ("ffffffffff",)},
        *({"repeat": n} for n in (0, -1, 10**6, 10**18)),
        {"repeat": 2, "measured": ("no-such",)},
        {"repeat": 2, "budget": "soon"},
        {"only": ("no-such", "9")},
        {"only": ("x",) * 2000},
        {"only": ("x" * 5000,)},
        {"profile": "loose"},
    ):
        found = web.ask("PUT", PATH, token, request(upload, **parcel))
        assert (found.status, found.json["reason"]) == (400, "usage"), parcel
    assert web.store.unfinished() == []


def test_a_build_file_that_is_a_bomb_is_refused(web):
    token = web.token("blue")
    upload = web.upload(token)
    nested = "a: " + "[" * 5000
    twice = "\n".join(
        f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}" if n else "x"] * 10) + "]"
        for n in range(30)
    )
    large = SPEC + "#" * (300 << 10)
    for spec in (nested, twice, large):
        found = web.ask("PUT", PATH, token, request(upload, spec))
        assert (found.status, found.json["reason"]) == (400, "bad_spec")
        assert len(found.body) < 100_000


def test_many_requests_of_many_values_together_take_bounded_memory(web):
    token = web.token("blue")
    body = msgspec.json.encode(request("0" * 64))
    many = ",".join(f'"{n:06x}":""' for n in range(300_000)).encode()
    body = body.removesuffix(b"}") + b',"secret":{"values":{' + many + b"}}}"
    most = before = memory_bytes()
    with ThreadPoolExecutor(20) as pool:
        asked = [
            pool.submit(web.ask, "PUT", f"/api/v1/runs/{n:010x}", token, body)
            for n in range(20)
        ]
        while not all(one.done() for one in asked):
            most = max(most, memory_bytes())
            time.sleep(0.02)
    found = [one.result() for one in asked]
    assert [(one.status, len(one.body) < 2000) for one in found] == [(400, True)] * 20
    assert most - before < 400 * MIB


def test_a_body_that_waits_holds_up_only_its_team(web):
    waiting, blue, red = [], web.token("blue"), web.token("red")
    try:
        for n in range(5):
            waiting.append(web.begun("PUT", f"/api/v1/runs/{n:010x}", blue, 9))
        assert web.put(red).status == 201
        waiting.pop(0).close()
        waiting.pop(0).close()
        assert web.put(blue).status == 201
    finally:
        for link in waiting:
            link.close()


def test_a_small_upload_that_unpacks_to_much_is_just_small_here(web):
    packer = zstd.ZstdCompressor(level=3)
    zeros = bytes(16 * MIB)
    bomb = b"".join(packer.compress(zeros) for _ in range(16)) + packer.flush()
    assert len(bomb) < MIB  # of 256
    token = web.token("blue")
    before = memory_bytes()
    upload = web.upload(token, bomb)
    assert web.ask("PUT", PATH, token, request(upload)).status == 201
    assert memory_bytes() - before < 40 * MIB


def queue_many(web, run_id, count):
    """Queue so many more runs like one that waits."""
    with closing(sqlite3.connect(web.folder / "store.sqlite")) as link, link:
        columns = [row[1] for row in link.execute("PRAGMA table_info(runs)")]
        others = ", ".join(one for one in columns if one != "id")
        link.execute(
            "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n LIMIT ?)"
            f" INSERT INTO runs (id, {others})"
            f" SELECT printf('%010x', n), {others} FROM runs, n WHERE id = ?",
            (count, run_id),
        )


@pytest.mark.lengthy
def test_thousands_of_queued_jobs_hold_up_no_other_request(web):
    blue, red = web.token("blue"), web.token("red")
    first, other = "f" * 10, "e" * 10
    assert web.put(blue, first).status == 201
    queue_many(web, first, 3000)
    refused = web.put(blue)
    assert (refused.status, refused.json["reason"]) == (429, "rate_limit")
    assert web.put(red, other).status == 201
    rows, facts = web.store.unfinished(), web.runs.capacity()
    rules = ServerRules(slots=1)
    web.decision = decide(rows, facts, rules, QueueHistory(), web.now())
    follower = Follower(web, red, other)
    thread = follower.thread()
    until(lambda: follower.runs)
    assert follower.runs[0].ahead == 0  # not behind all of them
    queue = web.ask("GET", "/api/v1/queue", red)
    assert queue.json["waiting"][0]["id"] == other
    assert len(queue.json["waiting"]) == MOST_SHOWN
    assert queue.json["left_out"] == 3002 - MOST_SHOWN
    web.ask("DELETE", f"/api/v1/runs/{other}", red)
    joined(thread)
    assert follower.over is not None


@pytest.mark.parametrize(
    "path",
    [
        "//",
        "/api/v1",
        "/api/v1/../../etc/passwd",
        "/api/v1/runs/" + "a" * 8000,
        "/%2e%2e/%2e%2e/etc/passwd",
        "/api/v1/runs/0123456789/",
        "/static/app.py",
        "/docs",
    ],
)
def test_no_path_leads_out(web, path):
    found = web.ask("GET", path, web.token("blue"))
    assert (found.status, found.json["reason"]) == (404, "usage")
    assert found.headers["content-type"] == "application/problem+json"
    assert "location" not in found.headers


def test_a_method_that_is_not_there_is_refused_as_all_else(web):
    for method in ("POST", "PATCH", "OPTIONS", "TRACE", "BREW"):
        found = web.ask(method, PATH, web.token("blue"))
        assert found.status == 405
        assert found.json["problems"]
        assert found.headers["content-type"] == "application/problem+json"


def test_the_host_header_decides_nothing(web):
    for host in ("evil.example", "", "a" * 1000, "[::1"):
        found = web.ask("GET", "/api/v1/", headers={"Host": host})
        assert found.status == 200
        assert "location" not in found.headers

"""A run's files: raw, in ranges, never shown by a browser, and of its own team only."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.server.downloads import byte_range
from tests.kit.web import RUN

RUNS = f"/api/v1/runs/{RUN}"


def started(web, **files):
    web.runs.start(RUN, source=Path(__file__))
    for name, data in files.items():
        web.runs.write(RUN, name.replace("_", "."), data)


def get(web, token, path, **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return web.ask("GET", f"{RUNS}/{path}", token, headers=named)


def test_a_file_comes_whole_as_a_download(web, token):
    started(web, stdout_log=b"0123456789")
    found = get(web, token, "files/stdout.log")
    assert (found.status, found.body) == (200, b"0123456789")
    assert found.headers["x-content-type-options"] == "nosniff"
    assert found.headers["content-disposition"].startswith("attachment;")
    assert found.headers["accept-ranges"] == "bytes"
    head = web.ask("HEAD", f"{RUNS}/files/stdout.log", token)
    assert (head.status, head.headers["content-length"]) == (200, "10")


def test_a_part_of_a_file_comes_alone(web, token):
    web.runs.start(RUN, source=Path(__file__))
    web.runs.write(RUN, "build.tar.zst", b"0123456789")
    part = get(web, token, "build", Range="bytes=3-5")
    assert (part.status, part.body) == (206, b"345")
    assert part.headers["content-range"] == "bytes 3-5/10"
    rest = get(web, token, "build", Range="bytes=8-")
    assert (rest.status, rest.body) == (206, b"89")
    for text in ("bytes=10-", "bytes=99-100"):
        behind = get(web, token, "build", Range=text)
        assert (behind.status, behind.headers["content-range"]) == (416, "bytes */10")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", None),
        ("bytes=0-0", (0, 1)),
        ("bytes=2-", (2, 10)),
        ("bytes=-3", None),
        ("bytes=5-99", (5, 10)),
        ("bytes=5-3", None),
        ("bytes=0-1,4-5", None),
        ("bytes=" + "9" * 400 + "-", None),
        ("lines=1-2", None),
        ("bytes=10-", (10, 10)),  # behind the end
    ],
)
def test_a_range_is_read_as_its_standard_has_it(text, found):
    assert byte_range(text, 10) == found


@pytest.mark.parametrize(
    "name",
    [
        "holder.json",
        "worker.log",
        "..%2f..%2fstore.sqlite",
        "..%2fstdout.log",
        "%2fetc%2fpasswd",
        "stdout.log%00",
        "",
    ],
)
def test_no_other_file_of_a_run_is_read(web, token, name):
    started(web)
    assert get(web, token, f"files/{name}").status == 404


def test_the_source_of_a_run_that_waits_is_what_was_uploaded(web, token):
    assert get(web, token, "source").body == b"a packed project"
    started(web)
    assert get(web, token, "source").body == Path(__file__).read_bytes()

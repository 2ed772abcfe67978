"""What a client asks of a server, and how it takes the answers."""

from __future__ import annotations

import json
import socket
import threading
import time

import pytest
from msgspec.structs import replace

from runner.client import bounds
from runner.client.api import NONE, Patience, ServerClient
from runner.client.bounds import MOST_PROBLEMS
from runner.client.problems import (
    LoginNeededError,
    NoServerError,
    RefusedError,
    UnreachableError,
)
from runner.client.profile import ProfileEntry
from runner.core import Reason, RunRequest
from runner.core.wire import QueueState, Scope
from tests.kit import played
from tests.kit.played import TOKEN, WAITING, Playing, as_json, refusal

RUN = "0123456789"
PARCEL = RunRequest("/home/ada/p", "rai_build.yml", "rai: {}", "0" * 64)


def test_each_request_bears_the_token_and_names_the_version(client, server):
    me = client.me()
    assert (me.person, me.team, me.scopes) == ("ada", "kernels", (Scope.RUN,))
    assert me.limits.left_today == 5
    _, path, headers = server.asked[0]
    assert path == "/api/v1/me"
    assert headers["Authorization"] == f"Bearer {TOKEN}"
    assert headers["User-Agent"].startswith("rai/")
    assert headers["Accept-Encoding"] == "identity"


def test_neither_netrc_nor_proxy_changes_what_this_machine_is_asked(
    url, server, tmp_path, monkeypatch
):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login eve password eve\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with ServerClient(ProfileEntry(url, TOKEN)) as client:
        assert client.me().person == "ada"
    assert server.asked[0][2]["Authorization"] == f"Bearer {TOKEN}"


def test_without_a_token_nothing_is_asked(url, server):
    with ServerClient(ProfileEntry(url)) as client:
        for ask in (client.me, client.queue, client.runs, client.revoke):
            with pytest.raises(LoginNeededError, match=f"rai login {url}"):
                ask()
        with pytest.raises(LoginNeededError):
            client.run(RUN)
        with pytest.raises(LoginNeededError), client.tail(RUN, {}, 0):
            pass
    assert server.asked == []


def test_a_token_that_ended_asks_to_log_in_again(client, server, url):
    server.plays["GET", "/me"] = lambda _: refusal(401, "the token was revoked")
    with pytest.raises(LoginNeededError, match="the token was revoked") as raised:
        client.me()
    assert f"rai login {url}" in str(raised.value)
    assert raised.value.reason.exit_code == 9


def test_unknown_members_of_a_newer_server_are_ignored(client, server):
    server.plays["GET", "/me"] = lambda _: as_json({**played.ME, "shoe_size": 43})
    assert client.me().person == "ada"


def test_a_server_that_serves_newer_clients_only_is_a_clear_error(client, server):
    facts = {**played.FACTS, "version": "7.1.0", "least_client": "7.0"}
    server.plays["GET", "/"] = lambda _: as_json(facts)
    with pytest.raises(NoServerError, match=r"7\.1\.0 and serves clients from 7\.0"):
        client.facts()


@pytest.mark.parametrize("least", ["0.1", "0.0.9", "0.1.0", "", "dev"])
def test_a_server_that_serves_this_version_is_fine(client, server, least):
    facts = {**played.FACTS, "version": "9.9.9", "least_client": least}
    server.plays["GET", "/"] = lambda _: as_json({**facts, "features": ["new"]})
    assert client.facts().features == ("new",)


def test_a_run_is_put_under_its_id(client, server):
    def put(request: Playing):
        sent = json.loads(request.body())
        assert sent["upload"] == "u1"
        assert sent["spec_file"] == "rai_build.yml"
        return as_json(WAITING | {"ahead": 3, "estimate_s": 20.0}, 201)

    server.plays["PUT", f"/runs/{RUN}"] = put
    run = client.put_run(RUN, replace(PARCEL, upload="u1"))
    assert (run.state, run.ahead, run.estimate_s) == (QueueState.WAITING, 3, 20.0)


def test_runs_and_the_queue_are_read_and_a_run_is_cancelled(client, server):
    page = {"runs": [WAITING], "after": "x"}
    server.plays["GET", "/runs"] = lambda _: as_json(page)
    assert [run.id for run in client.runs("0").runs] == [RUN]
    assert server.asked[-1][1].endswith("/runs?after=0&limit=100")
    view = {"gpus": 1, "gpus_free": 0, "slots": 2, "slots_free": 1, "note": "drained"}
    view |= {"running": [], "waiting": [WAITING]}
    server.plays["GET", "/queue"] = lambda _: as_json(view)
    assert client.queue().note == "drained"
    ended = WAITING | {"state": "ended", "cancelled": True}
    server.plays["DELETE", f"/runs/{RUN}"] = lambda _: as_json(ended, 202)
    assert client.cancel(RUN).cancelled


@pytest.mark.parametrize(
    ("status", "reason"), [(403, Reason.NOT_ALLOWED), (409, Reason.NO_GPU)]
)
def test_a_refusal_has_the_reason_and_the_problems_of_the_server(
    client, server, status, reason
):
    problems = [
        {"message": "too large\x1b[2J", "hint": "send less"},
        {
            "message": "worse",
            "place": {"file": "rai_build.yml", "line": 3, "column": 1},
        },
    ]
    server.plays["GET", f"/runs/{RUN}"] = lambda _: refusal(
        status, "refused", reason=reason.value, problems=problems
    )
    with pytest.raises(RefusedError) as raised:
        client.run(RUN)
    assert raised.value.reason is reason
    assert [str(p) for p in raised.value.problems] == [
        "too large\\x1b[2J; send less",
        "rai_build.yml:3:1: worse",
    ]
    assert raised.value.refusal.status == status
    assert raised.value.advice == ""  # the server has said what to do


def test_a_name_that_nobody_knows_is_told_in_the_resolvers_words(monkeypatch):
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with (
        ServerClient(ProfileEntry("https://gpu.example", TOKEN)) as client,
        pytest.raises(UnreachableError, match="Name or service not known"),
    ):
        client.me()


def chunked(request: Playing, *pieces: bytes) -> None:
    request.send_response(200)
    request.send_header("Transfer-Encoding", "chunked")
    request.end_headers()
    for piece in pieces:
        request.wfile.write(piece)
        request.wfile.flush()


def test_an_answer_that_breaks_off_is_told_as_such(client, server):
    client.patience = NONE

    def broken(request: Playing):
        chunked(request, b'5\r\n{"per\r\n')
        request.close_connection = True

    server.plays["GET", "/me"] = broken
    with pytest.raises(UnreachableError, match="its answer broke off"):
        client.me()
    many = {f"X-{number}": "y" for number in range(500)}
    server.plays["GET", "/me"] = lambda _: (200, many, b"{}")
    with pytest.raises(UnreachableError, match="got more than 100 headers"):
        client.me()


def test_what_is_not_there_is_told_apart(client, tmp_path):
    def tail() -> None:
        with client.tail(RUN, {}, 0):
            pass

    path = tmp_path / "b"
    download = lambda: client.download(RUN, "build.tar.zst", path, 10)  # noqa: E731
    for ask in (lambda: client.run(RUN), tail, download):
        with pytest.raises(RefusedError, match="there is nothing") as raised:
            ask()
        assert raised.value.missing
    assert list(tmp_path.iterdir()) == []


def test_the_problems_and_the_texts_of_a_refusal_are_bounded(client, server):
    problems = [{"message": "m" * 10_000}] * 500
    server.plays["GET", f"/runs/{RUN}"] = lambda _: refusal(
        400, "no", reason="bad_spec", problems=problems
    )
    with pytest.raises(RefusedError) as raised:
        client.run(RUN)
    assert len(raised.value.problems) == MOST_PROBLEMS + 1
    assert str(raised.value.problems[-1]) == "480 further problems are not shown"
    assert len(str(raised.value)) < 50_000


def test_the_next_try_is_told_in_local_time(client, server):
    at = time.time() + 60
    server.plays["PUT", f"/runs/{RUN}"] = lambda _: refusal(
        429, "five runs a day", reason="rate_limit", retry_at=at
    )
    with pytest.raises(RefusedError, match="five runs a day; try again ") as raised:
        client.put_run(RUN, replace(PARCEL, upload="u1"))
    assert raised.value.reason.exit_code == 8
    assert raised.value.refusal.retry_at == at


def test_a_refusal_with_a_reason_of_a_newer_server_is_still_told(client, server):
    server.plays["GET", "/me"] = lambda _: refusal(
        403, "your term has ended", reason="term_ended"
    )
    with pytest.raises(RefusedError, match="your term has ended") as raised:
        client.me()
    assert raised.value.reason is Reason.NOT_ALLOWED


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"<html>hello</html>", b"[1, 2", b"\xff\xfe\x00", b"[" * 100_000),
        *(b'{"person": 7}', b"null", b'{"person": "\\ud800"}'),
    ],
)
def test_garbage_is_an_error_that_names_the_server(client, server, url, body):
    server.plays["GET", "/me"] = lambda _: (200, {}, body)
    with pytest.raises(NoServerError, match="does not answer as a server of rai"):
        client.me()


def test_a_page_of_something_else_is_no_refusal(client, server):
    server.plays["GET", "/me"] = lambda _: (404, {}, b"<html>not found</html>")
    with pytest.raises(NoServerError, match="it answers 404"):
        client.me()


def test_an_answer_without_an_end_is_left(client, server, monkeypatch):
    monkeypatch.setattr(bounds, "MOST_ANSWERED_BYTES", 1 << 20)

    def endless(request: Playing):
        request.send_response(200)
        request.end_headers()
        while True:
            request.wfile.write(b" " * 65536)

    server.plays["GET", "/me"] = endless
    with pytest.raises(NoServerError, match="answers with over 1,048,576 bytes"):
        client.me()


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate"])
def test_a_packed_answer_is_not_unpacked(client, server, coding):
    headers = {"Content-Encoding": coding}
    server.plays["GET", "/me"] = lambda _: (200, headers, b"\x1f\x8b" + bytes(100))
    with pytest.raises(NoServerError, match=f"encoding {coding}"):
        client.me()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(client, server, status):
    to = {"Location": "https://evil.example/\x1b[2J"}
    server.plays["GET", "/me"] = lambda _: (status, to, b"")
    with pytest.raises(NoServerError, match=r"redirects to https://evil\.ex") as one:
        client.me()
    assert "\x1b" not in str(one.value)
    assert len(server.asked) == 1


def test_no_cookie_is_kept(client, server):
    me, headers = json.dumps(played.ME).encode(), {"Set-Cookie": "a=b; Path=/"}
    server.plays["GET", "/me"] = lambda _: (200, headers, me)
    client.me()
    client.me()
    assert "Cookie" not in server.asked[1][2]


BAD = b"<html>bad gateway</html>"
AWAY = {
    "a lost connection": lambda request: request.break_off(),
    "a server that stops": lambda _: refusal(503, "it stops", reason="busy"),
    **{
        f"a proxy's {status}": lambda _, status=status: (status, {}, BAD)
        for status in (500, 502, 503, 504)
    },
}


@pytest.mark.parametrize("name", AWAY)
def test_what_is_away_for_a_moment_is_tried_again(client, server, name):
    left = [1, 2, 3]

    def flaky(request: Playing):
        if not left:
            return as_json(played.ME)
        left.pop()
        return AWAY[name](request)

    server.plays["GET", "/me"] = flaky
    assert client.me().person == "ada"
    assert len(server.asked) == 4


def test_what_lasts_longer_is_told_with_the_next_try(client, server):
    server.plays["GET", "/me"] = lambda _: refusal(
        503, "the disk is full", reason="busy", retry_at=time.time() + 3600
    )
    with pytest.raises(RefusedError, match="the disk is full; try again ") as raised:
        client.me()
    assert raised.value.reason is Reason.BUSY


def test_a_server_that_stays_away_is_busy_after_the_patience(url, server):
    server.plays["GET", "/me"] = lambda request: request.break_off()
    told = []
    patience = Patience(1.0, told.append)
    with (
        ServerClient(ProfileEntry(url, TOKEN), patience) as client,
        pytest.raises(UnreachableError) as raised,
    ):
        client.me()
    assert raised.value.reason is Reason.BUSY
    assert raised.value.reason.exit_code == 8
    assert told


def test_nobody_at_the_address_is_said_with_the_systems_words(tmp_path):
    for url in ("http://127.0.0.1:9", f"unix://{tmp_path}/no.sock"):
        with (
            ServerClient(ProfileEntry(url, TOKEN)) as client,
            pytest.raises(UnreachableError, match=f"no connection to {url}: ") as one,
        ):
            client.me()
        assert "refused" in str(one.value) or "No such file" in str(one.value)


def test_a_code_is_sent_once_even_if_the_answer_is_lost(client, server):
    def lost(request: Playing):
        request.body()
        return request.break_off()

    server.plays["POST", "/login"] = lost
    with pytest.raises(UnreachableError):
        client.login("code", "laptop")
    assert len(server.asked) == 1


def test_a_unix_socket_serves_as_a_port_does(tmp_path):
    with played.serving(socket_path=tmp_path / "s.sock") as (server, url):
        with ServerClient(ProfileEntry(url, TOKEN)) as client:
            assert client.me().person == "ada"
            assert client.me().team == "kernels"
        assert server.asked[0][1] == "/api/v1/me"


def test_a_followed_run_is_read_as_it_comes(client, server):
    go_on = []

    def play(request: Playing):
        pieces = (b'{"ru', b'n"}\n', b"0123456789")
        chunked(request, *(b"%x\r\n%b\r\n" % (len(one), one) for one in pieces))
        while not go_on:
            time.sleep(0.001)
        request.wfile.write(b"3\r\nend\r\n0\r\n\r\n")

    server.plays["GET", f"/runs/{RUN}/tail"] = play
    have = {"events.jsonl": 3, "stdout.log": 5, "stderr.log": 0}
    with client.tail(RUN, have, 7) as stream:
        assert stream.readline(100) == b'{"run"}\n'
        assert stream.read1(10) == b"0123456789"
        go_on.append(True)
        assert stream.readline(100) == b"end"
        assert stream.read1(10) == b""
    assert server.asked[0][1].endswith("/tail?events=3&stdout=5&stderr=0&wait=7")


def test_a_followed_run_that_breaks_off_is_unreachable(client, server):
    def breaks(request: Playing):
        chunked(request, b"5\r\nabc")
        request.break_off()

    server.plays["GET", f"/runs/{RUN}/tail"] = breaks
    with client.tail(RUN, {}, 0) as stream, pytest.raises(UnreachableError):
        stream.read1(5)
        stream.read1(5)


class Ranges:
    """Serves a file by ranges, and breaks off after so many bytes of each answer."""

    def __init__(self, content: bytes, most: int) -> None:
        self.content, self.most = content, most

    def __call__(self, request: Playing):
        whole = len(self.content)
        given = request.headers.get("Range", "bytes=0-")
        at = int(given.removeprefix("bytes=").removesuffix("-"))
        if at >= whole:
            return 416, {"Content-Range": f"bytes */{whole}"}, b""
        request.send_response(206 if "Range" in request.headers else 200)
        if "Range" in request.headers:
            request.send_header("Content-Range", f"bytes {at}-{whole - 1}/{whole}")
        request.send_header("Content-Length", str(whole - at))
        request.end_headers()
        request.wfile.write(self.content[at : at + self.most])
        if at + self.most < whole:
            request.break_off()
        return None


@pytest.mark.parametrize("most", [1, 7, 99, 100, 1000])
def test_a_download_goes_on_where_it_broke(client, server, tmp_path, most):
    content = bytes(range(100))
    server.plays["GET", f"/runs/{RUN}/build"] = Ranges(content, most)
    path = tmp_path / "build.tar.zst"
    assert client.download(RUN, "build.tar.zst", path, 1000) == 100
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("part", [b"abc", b"abcdef"])
def test_a_download_goes_on_in_another_process(client, server, tmp_path, part):
    server.plays["GET", f"/runs/{RUN}/source"] = Ranges(b"abcdef", 1000)
    path = tmp_path / "source.tar.zst"
    (tmp_path / ".source.tar.zst.part").write_bytes(part)
    assert client.download(RUN, "source.tar.zst", path, 1000) == 6
    assert path.read_bytes() == b"abcdef"
    assert server.asked[0][2]["Range"] == f"bytes={len(part)}-"


def test_two_downloads_of_a_file_at_once_fetch_it_once(client, server, tmp_path):
    content = bytes(range(100))
    server.plays["GET", f"/runs/{RUN}/build"] = Ranges(content, 1)
    path = tmp_path / "build.tar.zst"
    sizes = []
    threads = [
        threading.Thread(
            target=lambda: sizes.append(client.download(RUN, path.name, path, 1000))
        )
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sizes == [100, 100]
    assert path.read_bytes() == content
    assert len(server.asked) == 100


OTHER = {"Content-Range": "bytes 1-5/6"}


@pytest.mark.parametrize(
    ("part", "play"),
    [
        (b"0123456789", Ranges(b"abcdef", 99)),
        (b"xyz", lambda _: (206, OTHER, b"bcdef")),
    ],
)
def test_another_range_than_asked_for_is_refused_and_the_part_given_up(
    client, server, tmp_path, part, play
):
    server.plays["GET", f"/runs/{RUN}/build"] = play
    (tmp_path / ".b.part").write_bytes(part)
    with pytest.raises(NoServerError, match="another part"):
        client.download(RUN, "build.tar.zst", tmp_path / "b", 1000)
    assert list(tmp_path.iterdir()) == []


def test_a_server_without_ranges_sends_all_again(client, server, tmp_path):
    server.plays["GET", f"/runs/{RUN}/build"] = lambda _: (200, {}, b"abcdef")
    (tmp_path / ".b.part").write_bytes(b"xyz")
    client.download(RUN, "build.tar.zst", tmp_path / "b", 1000)
    assert (tmp_path / "b").read_bytes() == b"abcdef"


@pytest.mark.parametrize("told", [True, False])
def test_a_download_over_its_bound_leaves_nothing(client, server, tmp_path, told):
    def large(request: Playing):
        request.send_response(200)
        if told:
            request.send_header("Content-Length", str(1 << 40))
        request.end_headers()
        while True:
            request.wfile.write(bytes(65536))

    server.plays["GET", f"/runs/{RUN}/build"] = large
    with pytest.raises(NoServerError, match="over 100,000 bytes"):
        client.download(RUN, "build.tar.zst", tmp_path / "b", 100_000)
    assert list(tmp_path.iterdir()) == []

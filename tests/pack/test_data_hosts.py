"""Servers of data files that lead to private addresses, trickle, or never end."""

from __future__ import annotations

import hashlib
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable
from contextlib import ExitStack
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from runner.core import BuildSpec, DataResource, Limits, Place
from runner.core.errors import ConfigError, NotAllowedError
from runner.core.events import DataReady, Event, Progress
from runner.core.policy import AllowList, Policy, PrivateTarget
from runner.pack import data_rules, datafiles
from runner.pack.data_rules import UnavailableError
from runner.pack.datafiles import DataPlaces
from runner.pack.download import Times
from tests.kit.odd_servers import OK, Answer, endlessly, serving, whole

CONTENT = b"picture" * 1000
MD5 = hashlib.md5(CONTENT).hexdigest()
LINE = Place("/etc/rai/policy.yml", 3, 1)
ONE = PrivateTarget("127.0.0.1", LINE, ip_network("127.0.0.1"))
HERE = Policy(private=(ONE,))
USUAL = Limits()
WHOLE = whole(CONTENT)
SHORT = Times(start_s=0.3, silence_s=0.3, total_s=0.6)


def redirecting(to: str) -> Answer:
    def answer(connection: socket.socket, line: str) -> None:
        if "/x" in line.split()[1]:
            return WHOLE(connection, line)
        head = f"HTTP/1.1 302 Found\r\nLocation: {to}\r\n\r\n"
        return connection.sendall(head.encode())

    return answer


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataPlaces:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return DataPlaces(None, tmp_path / "project", tmp_path / "cache")


def resolved(
    places: DataPlaces,
    url: str,
    *,
    md5: str | None = MD5,
    policy: Policy = HERE,
    limits: Limits = USUAL,
    times: Times | None = None,
    keep: Callable[[int], None] = lambda _: None,
) -> Event:
    """The last event."""
    resource = DataResource("/data", "file", url, md5, Place("rai_build.yml", 5, 7))
    spec = BuildSpec("rai_build.yml", data=(resource,), limits=limits)
    rules = datafiles.DataRules(policy, keep, times=times)
    with ExitStack() as held:
        *_, last = datafiles.resolve(spec, places, rules, held)
    return last


def why(event: Event) -> str:
    return event.why


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "localhost.",
        "LOCALHOST",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "127.1",
        "0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "10.0.0.1",
        "169.254.169.254",
    ],
)
def test_an_address_of_this_machine_or_its_network_is_refused_however_it_is_spelt(
    host, places
):
    with serving(WHOLE) as (asked, port):
        said = why(resolved(places, f"http://{host}:{port}/file", policy=Policy()))
    assert "of a private network" in said
    assert f"`private: [{host.strip('[]').lower()}]` in /etc/rai/policy.yml" in said
    assert asked == []
    assert list(places.cache.iterdir()) == []


@pytest.mark.parametrize(
    "target",
    [
        PrivateTarget("127.0.0.0/8", LINE, ip_network("127.0.0.0/8")),
        PrivateTarget("LocalHost", LINE),
    ],
)
def test_a_policy_allows_a_private_network_or_a_host_by_its_name(target, places):
    with serving(WHOLE) as (asked, port):
        url = f"http://localhost:{port}/file"
        last = resolved(places, url, policy=Policy(private=(target,)))
    assert isinstance(last, DataReady)
    assert asked == ["GET /file HTTP/1.1"]


def test_one_private_address_among_those_of_a_host_is_enough():
    found = [ip_address("203.0.113.7"), ip_address("10.0.0.1")]
    with pytest.raises(UnavailableError, match=r"files\.org \(10\.0\.0\.1\) is of"):
        data_rules.check("files.org", found, HERE)
    data_rules.check("files.org", found[:1], HERE)


@pytest.mark.parametrize("to", ["127.0.0.2", "0", "[::1]"])
def test_a_redirect_is_checked_like_the_first_address(to, places):
    policy = Policy(private=(ONE,))
    with (
        serving(WHOLE) as (asked, port),
        serving(redirecting(f"http://{to}:{port}/file")) as (_, first),
    ):
        last = resolved(places, f"http://127.0.0.1:{first}/file", policy=policy)
    assert "of a private network" in why(last)
    assert asked == []


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://me:secret@127.0.0.1/file", "has a user name"),
        ("http://127.0.0.1@203.0.113.1/file", "has a user name"),
        ("http://%31%32%37.0.0.1/file", "must be escaped"),
        ("http://①②⑦.0.0.1/file", "must be escaped"),
        ("http://127.0.0.1\\x/file", "must be escaped"),
        ("http://127.0.0.1:80000/file", "is not valid"),
        ("http://127.0.0.1/fi\tle", "must be escaped"),
        ("http://127.0.0.1/f\u202eile", "must be escaped"),
        ("gopher://127.0.0.1/file", "not an http or https"),
        ("data:text/plain,x/file", "not an http or https"),
        ("file:///etc/passwd", "not an http or https"),
        ("images.gz", "not an http or https"),
        ("http://[", "is not valid"),
    ],
)
def test_an_address_that_may_be_read_in_two_ways_is_not_opened(url, said, places):
    assert said in why(resolved(places, url, policy=Policy()))


def test_only_the_listed_hosts_are_asked_if_a_policy_lists_any(places):
    policy = Policy(data_hosts=AllowList(("files.org",), LINE), private=(ONE,))
    with serving(WHOLE) as (asked, port), pytest.raises(NotAllowedError) as caught:
        resolved(places, f"http://127.0.0.1:{port}/file", policy=policy)
    assert asked == []
    (problem,) = caught.value.problems
    assert problem.message == f"data files from 127.0.0.1 are not allowed by {LINE}"
    assert str(problem.place) == "rai_build.yml:5:7"


def test_a_host_that_is_not_listed_is_not_reached_by_a_redirect_either(places):
    policy = Policy(data_hosts=AllowList(("127.0.0.1",), LINE), private=(ONE,))
    with serving(redirecting("http://files.org/x")) as (_, port):
        last = resolved(places, f"http://127.0.0.1:{port}/file", policy=policy)
    assert "redirects, but data files from files.org are not allowed" in why(last)


@pytest.fixture
def certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """Make a certificate of 127.0.0.1 that this process trusts."""
    key, made = tmp_path / "key.pem", tmp_path / "made.pem"
    words = [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=t",
    ]
    name = "subjectAltName=IP:127.0.0.1"
    subprocess.run(
        ["openssl", *words, "-addext", name, "-keyout", key, "-out", made],
        check=True,
        capture_output=True,
    )
    monkeypatch.setenv("SSL_CERT_FILE", str(made))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, key)
    return context


def over_tls(context: ssl.SSLContext, answer: bytes) -> Answer:
    """Be the other end of a tunnel that a proxy makes."""

    def tunnel(connection: socket.socket, line: str) -> None:
        connection.sendall(b"HTTP/1.1 200 Made\r\n\r\n")
        with context.wrap_socket(connection, server_side=True) as inner:
            inner.recv(4096)
            inner.sendall(answer)

    return tunnel


@pytest.mark.parametrize("md5", [MD5, None])
def test_a_redirect_from_https_to_http_needs_a_checksum(
    md5, places, certificate, monkeypatch
):
    with serving(WHOLE) as (_, port):
        to = f"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{port}/f\r\n\r\n"
        with serving(over_tls(certificate, to.encode())) as (asked, proxy):
            monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy}")
            last = resolved(places, "https://127.0.0.1/file", md5=md5)
    assert [line.rsplit(" ", 1)[0] for line in asked] == ["CONNECT 127.0.0.1:443"]
    if md5:
        assert isinstance(last, DataReady)
    else:
        assert why(last).endswith("redirects from https to http, and no md5 is given")


def test_tls_checks_the_name_of_the_host_that_was_asked_for(
    places, certificate, monkeypatch
):
    with serving(over_tls(certificate, b"")) as (_, proxy):
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy}")
        last = resolved(places, "https://files.invalid/file")
    assert "files.invalid is not trusted" in why(last)


def test_a_proxy_of_the_environment_resolves_the_names(places, monkeypatch):
    with serving(WHOLE) as (asked, proxy):
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy}")
        last = resolved(places, "http://files.invalid/file", policy=Policy())
    assert isinstance(last, DataReady)
    assert asked == ["GET http://files.invalid/file HTTP/1.1"]


@pytest.mark.parametrize("host", ["127.0.0.1", "0x7f.1", "localhost.", "[::1]"])
def test_a_proxy_is_not_asked_for_a_private_address(host, places, monkeypatch):
    with serving(WHOLE) as (asked, proxy):
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy}")
        last = resolved(places, f"http://{host}/file", policy=Policy())
    assert "of a private network" in why(last)
    assert asked == []


CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
ENDLESS = {
    "status": endlessly(b"", b"H", 0.05),
    "header": endlessly(OK, b"X", 0.05),
    "headers": endlessly(OK, b"X-More: more\r\n"),
    "continue": endlessly(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "body": endlessly(OK + b"Content-Length: 1000\r\n\r\n", b"x", 0.05),
    "trailers": endlessly(CHUNKED + b"0\r\n", b"X-T: t\r\n"),
    "chunks": endlessly(CHUNKED, b"1\r\nx\r\n", 0.05),
    "redirect": endlessly(
        b"HTTP/1.1 302 Found\r\nLocation: /file\r\n\r\n", bytes(65536)
    ),
    "error": endlessly(b"HTTP/1.1 500 No\r\n\r\n", bytes(65536)),
    "slow": endlessly(OK + b"Content-Length: 99999999\r\n\r\n", bytes(1000), 0.05),
}


@pytest.mark.parametrize("answer", ENDLESS.values(), ids=ENDLESS)
def test_a_server_that_does_not_come_to_an_end_is_left_in_time(answer, places):
    with serving(answer) as (_, port):
        last = resolved(places, f"http://127.0.0.1:{port}/file", times=SHORT)
    assert why(last)
    assert list(places.cache.iterdir()) == []


def test_a_download_ends_at_once_when_nobody_waits_for_it_any_more(places):
    gone = threading.Event()

    def silent(connection: socket.socket, line: str) -> None:
        connection.recv(1)
        gone.set()

    with serving(silent) as (_, port), ExitStack() as held:
        url = f"http://127.0.0.1:{port}/file"
        resource = DataResource("/data", "file", url, MD5)
        spec = BuildSpec("rai_build.yml", data=(resource,))
        rules = datafiles.DataRules(HERE, lambda _: None)
        steps = datafiles.resolve(spec, places, rules, held)
        assert isinstance(next(steps), Progress)
        steps.close()
        assert gone.wait(60)
    assert list(places.cache.iterdir()) == []


@pytest.mark.parametrize(
    "head", [OK + b"Content-Length: 99999999999\r\n\r\n", OK + b"\r\n"]
)
def test_a_download_over_the_limit_of_data_ends_the_run(head, places):
    limits = Limits(data_bytes=1_000_000)
    with (
        serving(endlessly(head, bytes(65536))) as (_, port),
        pytest.raises(NotAllowedError, match=r"limit resources\.limits\.data"),
    ):
        resolved(places, f"http://127.0.0.1:{port}/file", limits=limits)
    assert list(places.cache.iterdir()) == []


def test_a_file_over_the_limit_of_data_is_refused_before_it_is_read(places):
    path = places.project / "data/file"
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        file.truncate(1 << 42)
    with pytest.raises(NotAllowedError, match="more than 10GiB"):
        resolved(places, "http://127.0.0.1/file")


def test_room_is_made_before_a_download_and_its_lack_ends_the_run(places):
    asked: list[int] = []

    def keep(size: int) -> None:
        asked.append(size)
        raise ConfigError("full")

    with serving(WHOLE) as (_, port), pytest.raises(ConfigError, match="full"):
        resolved(places, f"http://127.0.0.1:{port}/file", keep=keep)
    assert asked == [len(CONTENT)]
    assert list(places.cache.iterdir()) == []


def test_what_a_disk_has_no_room_for_is_not_downloaded(places):
    limits = Limits(data_bytes=1 << 60)
    head = OK + b"Content-Length: %d\r\n\r\n" % (1 << 59)
    with (
        serving(endlessly(head, bytes(65536))) as (_, port),
        pytest.raises(ConfigError, match="do not fit on the disk"),
    ):
        resolved(places, f"http://127.0.0.1:{port}/file", limits=limits)


def test_what_a_server_calls_compressed_is_kept_as_it_is(places):
    def answer(connection: socket.socket, line: str) -> None:
        head = b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(CONTENT)
        connection.sendall(OK + head + CONTENT)

    with serving(answer) as (_, port):
        last = resolved(places, f"http://127.0.0.1:{port}/file")
    assert isinstance(last, DataReady)

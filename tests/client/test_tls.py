"""Certificates: those of the system, a pinned one, and wrong ones."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runner.client import login, profile
from runner.client.api import ServerClient
from runner.client.connection import served_fingerprint
from runner.client.problems import NoServerError, UnreachableError, UntrustedServerError
from runner.client.profile import ProfileEntry
from tests.kit import certificates, played
from tests.kit.played import TOKEN, PlayedServer
from tests.kit.program import rai
from tests.kit.recorded import on_terminal


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificates.make(tmp_path_factory.mktemp("tls"), "server")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificates.make(tmp_path_factory.mktemp("tls"), "other")


@pytest.fixture
def tls(pem: Path) -> Iterator[tuple[PlayedServer, str]]:
    with played.serving(certificates.context(pem)) as found:
        yield found


@pytest.fixture
def secure(tls: tuple[PlayedServer, str]) -> str:
    return tls[1]


def me(url: str, pin: str = "") -> str:
    with ServerClient(ProfileEntry(url, TOKEN, pin)) as client:
        return client.me().person


def test_a_pinned_certificate_needs_nobody_elses_word(secure, pem):
    assert served_fingerprint(secure) == certificates.fingerprint(pem)
    assert me(secure, certificates.fingerprint(pem)) == "ada"


def test_a_pin_is_checked_by_each_connection_before_the_token_is_sent(tls, other):
    server, url = tls
    with pytest.raises(UntrustedServerError, match="is not the one that is pinned"):
        me(url, certificates.fingerprint(other))
    assert server.asked == []


def test_a_certificate_that_nobody_signed_is_refused(tls):
    server, url = tls
    with pytest.raises(UntrustedServerError, match="does not trust") as raised:
        me(url)
    assert f"rai login {url}" in str(raised.value)
    assert raised.value.reason.exit_code == 9
    assert server.asked == []


def test_a_certificate_that_the_system_trusts_needs_no_pin(secure, pem, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    assert me(secure) == "ada"
    assert login.trusted(secure, "", "", None) == ""


def test_a_trusted_certificate_of_another_host_is_refused(secure, pem, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    with pytest.raises(UntrustedServerError, match="Hostname mismatch"):
        me(secure.replace("127.0.0.1", "localhost"))


def test_a_certificate_that_is_over_is_refused_unless_it_is_pinned(
    tmp_path, monkeypatch
):
    old = certificates.make(tmp_path, "old", days=-1)
    monkeypatch.setenv("SSL_CERT_FILE", str(old))
    with played.serving(certificates.context(old)) as (_, url):
        with pytest.raises(UntrustedServerError, match="expired"):
            me(url)
        assert me(url, certificates.fingerprint(old)) == "ada"


def test_variables_of_other_programs_trust_nobody(secure, pem, monkeypatch):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(pem))
    monkeypatch.setenv("CURL_CA_BUNDLE", str(pem))
    with pytest.raises(UntrustedServerError):
        me(secure)


def test_what_speaks_no_tls_is_no_connection(url):
    with pytest.raises(UnreachableError, match="no connection"):
        me(url.replace("http://", "https://"))
    with pytest.raises(UnreachableError, match="no connection"):
        served_fingerprint(url.replace("http://", "https://"))


def test_a_fingerprint_is_pinned_when_somebody_confirms_it(tls, pem):
    server, url = tls
    asked = []

    def confirm(found: str) -> bool:
        asked.append(found)
        return True

    assert login.trusted(url, "", "", confirm) == certificates.fingerprint(pem)
    assert asked == [certificates.fingerprint(pem)]
    assert {path for _, path, _ in server.asked} == {"/api/v1/"}


def test_nothing_is_sent_when_nobody_confirms_it(tls):
    server, url = tls
    with pytest.raises(NoServerError, match="nothing was sent"):
        login.trusted(url, "", "", lambda _: False)
    assert server.asked == []


@pytest.mark.programs
class TestCommand:
    """`rai login` where the server signs its own certificate."""

    @pytest.fixture(autouse=True)
    def folder(self, home: Path) -> None:
        home.mkdir(exist_ok=True)

    def test_without_a_terminal_the_fingerprint_has_to_be_given(self, tls, pem):
        server, url = tls
        done = rai("login", url, input=f"{server.code}\n")
        assert (done.returncode, done.stdout) == (9, "")
        assert "there is no terminal to confirm it in" in done.stderr
        assert certificates.fingerprint(pem) in done.stderr.replace("\n", "")
        assert server.asked == []

    def test_the_fingerprint_is_pinned_from_then_on(self, tls, pem, other):
        server, url = tls
        pin = certificates.fingerprint(pem)
        done = rai("login", url, "--fingerprint", pin, input=f"{server.code}\n")
        assert done.returncode == 0, done.stderr
        assert profile.read(profile.path()).servers[url].fingerprint == pin
        assert rai("login", "--status").returncode == 0
        assert rai("login", url, input=f"{server.code}\n").returncode == 0

    def test_another_fingerprint_than_given_is_refused(self, tls, other):
        server, url = tls
        pin = certificates.fingerprint(other)
        done = rai("login", url, "--fingerprint", pin, input=f"{server.code}\n")
        assert done.returncode == 9
        assert "is not the one that is pinned" in done.stderr
        assert server.asked == []

    def test_a_changed_certificate_is_an_error_that_says_what_to_do(self, tls, other):
        server, url = tls
        profile.keep(
            ProfileEntry(url, TOKEN, certificates.fingerprint(other)), profile.path()
        )
        for command in (["login", "--status"], ["queue"], ["login", url]):
            done = rai(*command, input="code\n")
            assert done.returncode == 9
            assert f"rai login {url} --fingerprint" in done.stderr
        assert server.asked == []

    @pytest.mark.parametrize("given", ["", "abc", "SHA256:ab:cd", "MD5:00"])
    def test_what_is_no_fingerprint_is_refused(self, secure, given):
        done = rai("login", secure, "--fingerprint", given, input="x\n")
        assert done.returncode == 2
        assert "expected SHA256:" in done.stderr

    def test_a_server_without_a_certificate_takes_no_fingerprint(self, url, pem):
        pin = certificates.fingerprint(pem)
        done = rai("login", url, "--fingerprint", pin, input="x\n")
        assert done.returncode == 2
        assert "has no certificate" in done.stderr

    @pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 2)])
    def test_a_terminal_asks_for_the_fingerprint_and_hides_the_code(
        self, tls, pem, answer, code
    ):
        server, url = tls
        with on_terminal("login", url) as terminal:
            terminal.until(b"[y/N]: ")
            terminal.type(f"{answer}\n".encode())
            if code == 0:
                terminal.until(b"Code: ")
                terminal.type(f"{server.code}\n".encode())
            terminal.until(b"nothing was sent" if code else b"`rai run` runs there")
            assert terminal.child.wait(60) == code
        shown = terminal.seen.decode().replace("\r\n", "\n")
        assert certificates.fingerprint(pem) in shown.replace("\n", "")
        assert "Does whoever runs the server name the same?" in shown
        assert server.code not in shown
        assert (url in profile.read(profile.path()).servers) == (code == 0)


@contextmanager
def proxying(asked: list[bytes]) -> Iterator[str]:
    """Yield a proxy that connects each CONNECT to where it asks to go."""
    listening = socket.create_server(("127.0.0.1", 0))

    def pump(source: socket.socket, sink: socket.socket) -> None:
        try:
            while piece := source.recv(65536):
                sink.sendall(piece)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def one(inner: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += inner.recv(4096)
        asked.append(head.partition(b"\r\n")[0])
        port = int(asked[-1].split()[1].rpartition(b":")[2])
        with inner, socket.create_connection(("127.0.0.1", port)) as outer:
            inner.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=pump, args=(outer, inner), daemon=True)
            back.start()
            pump(inner, outer)
            back.join(5)

    def accept() -> None:
        while True:
            try:
                inner, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=one, args=(inner,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


def test_a_proxy_of_the_environment_is_asked_and_the_pin_holds_through_it(
    tls, pem, other, monkeypatch
):
    server, url = tls
    # A name that only the proxy resolves, and that is not this machine's.
    named = url.replace("127.0.0.1", "server.example")
    asked: list[bytes] = []
    with proxying(asked) as proxy:
        monkeypatch.setenv("https_proxy", proxy)
        assert me(named, certificates.fingerprint(pem)) == "ada"
        assert asked[0].startswith(b"CONNECT server.example:")
        with pytest.raises(UntrustedServerError):
            me(named, certificates.fingerprint(other))
        assert len(server.asked) == 1
        monkeypatch.setenv("no_proxy", "server.example")
        with pytest.raises(UnreachableError):
            me(named, certificates.fingerprint(pem))
    assert len(asked) == 2


def test_a_proxy_that_is_away_is_named(monkeypatch):
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    with pytest.raises(UnreachableError, match="proxy"):
        me("https://server.example")

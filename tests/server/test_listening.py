"""Where a server listens."""

from __future__ import annotations

import os
import socket
import stat

import pytest

from runner.core.errors import BusyError, UsageError
from runner.server import listening, paths
from runner.server.listening import ListenAt


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("0.0.0.0:8443", ListenAt("", 8443)),
        (":8443", ListenAt("", 8443)),
        ("*:8443", ListenAt("", 8443)),
        ("[::]:8443", ListenAt("::", 8443)),
        ("127.0.0.1:0", ListenAt("127.0.0.1", 0)),
        ("gpu.example.org:443", ListenAt("gpu.example.org", 443)),
    ],
)
def test_an_address_is_a_host_and_a_port(text, at):
    assert listening.parse(text) == at


@pytest.mark.parametrize(
    "text", ["", "8443", "host", "host:", "::1:80", "h:70000", "h:x"]
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(UsageError):
        listening.parse(text)


def test_a_certificate_names_the_machine_and_what_people_call_it():
    found = listening.names(ListenAt("", 1), "rai.example.org")
    assert {"rai.example.org", "localhost", "127.0.0.1", "::1"} <= set(found)
    assert len(found) == len(set(found))
    assert "0.0.0.0" not in found


def test_a_port_in_use_is_busy():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(BusyError, match="name another port") as found:
            listening.tcp(ListenAt("127.0.0.1", port))
        assert found.value.advice == ""  # the reason's own speaks of --wait


def test_a_socket_that_nobody_serves_is_replaced_and_another_servers_is_not(tmp_path):
    path = tmp_path / "run" / "s"
    first = listening.unix(path, 0o666)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666
    with pytest.raises(BusyError, match="by --socket") as found:
        listening.unix(path, 0o666)
    assert found.value.advice == ""
    first.close()
    listening.unix(path, 0o600).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_in_the_place_of_a_socket_is_kept(tmp_path):
    path = tmp_path / "s"
    path.write_text("mine")
    with pytest.raises(UsageError):
        listening.unix(path, 0o666)
    assert path.read_text() == "mine"


def test_a_name_that_is_too_long_for_a_socket_is_refused(tmp_path):
    with pytest.raises(UsageError, match="too long"):
        paths.socket(tmp_path / ("x" * 108), paths.state(None, {}), {})


def test_two_servers_of_one_machine_have_two_sockets(tmp_path):
    folders = [paths.state(tmp_path / name, {}) for name in "ab"]
    sockets = {paths.socket(None, folder, dict(os.environ)) for folder in folders}
    assert len(sockets) == 2


def test_a_server_keeps_nothing_where_runs_can_see_it(tmp_path):
    from runner.engines.local import layout

    assert paths.SHOWN == layout.SYSTEM
    paths.refuse_shown(tmp_path)
    (tmp_path / "link").symlink_to("/opt")
    for folder in layout.host().folders:
        with pytest.raises(UsageError, match="runs can see"):
            paths.refuse_shown(tmp_path, folder / "rai")
    with pytest.raises(UsageError, match="runs can see"):
        paths.refuse_shown(tmp_path / "link" / "rai")

"""What `rai server doctor` and a server's first lines say of its machine."""

from __future__ import annotations

from runner.server import checkup
from runner.server.paths import CLOSED, ReachedAt, ServerFolder
from runner.server.site import greeting
from runner.wire.capacity import Capacity


def test_what_is_not_enforced_is_said_with_the_line_that_mends_it():
    unenforced = ("local: memory, pids", "docker: swap")
    first, second = checkup.limits(Capacity("1", (), unenforced=unenforced))
    assert (first.subject, first.state) == ("limits", "note")
    assert first.text == "not enforced by the engine local: memory, pids"
    line = "`systemd-run --user --scope -p Delegate=yes rai server serve ...`"
    assert line in first.advice
    assert second.text == "not enforced by the engine docker: swap"


def test_a_socket_is_offered_to_those_only_who_can_open_it(tmp_path):
    folder, socket = ServerFolder(tmp_path), tmp_path / "server.sock"
    tmp_path.chmod(0o700)
    at = ReachedAt(f"unix://{socket}", str(socket), "")

    said = greeting(at, folder)
    assert not at.for_others
    assert said[-1] == CLOSED
    assert not any("rai login" in line for line in said)
    tcp = ReachedAt("https://gpu.example.org", str(socket), "")
    said = greeting(tcp, folder)
    assert said[-1] == "Then each person: rai login https://gpu.example.org"
    assert not any("On this machine also" in line for line in said)

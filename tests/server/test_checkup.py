"""What `rai server doctor` and a server's first lines say of its machine."""

from __future__ import annotations

import os

import pytest
from msgspec import Struct, json

from runner.core.wire import Capacity
from runner.engines.doctor import Health
from runner.server import checkup
from runner.server.checkup import file_system
from runner.server.paths import CLOSED, ReachedAt, ServerFolder
from runner.server.runs import most_gpus
from runner.server.site import greeting, learn_types

MOUNTS = """
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
31 22 0:40 / /home rw - nfs4 filer:/home rw,vers=4.2
34 22 0:43 / /scratch rw - fuse.juicefs juice rw
an odd line
"""


def test_what_is_not_enforced_is_said_with_the_line_that_mends_it():
    unenforced = ("local: memory, pids", "docker: swap")
    first, second = checkup.limits(Capacity("1", (), unenforced=unenforced))
    assert (first.subject, first.state) == ("limits", "note")
    assert first.text == "not enforced by the engine local: memory, pids"
    line = "`systemd-run --user --scope -p Delegate=yes rai server serve ...`"
    assert line in first.advice
    assert second.text == "not enforced by the engine docker: swap"
    ranks, *_ = checkup.limits(Capacity("1", ("local",), unenforced=unenforced))
    assert ranks.text.startswith("those that are ranked are refused: the engine local")
    assert (
        len([*checkup.limits(Capacity("1", ("docker",), unenforced=unenforced))]) == 2
    )


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


def test_the_file_system_of_a_folder_is_that_of_its_device():
    kinds = [file_system(os.makedev(0, n), MOUNTS) for n in (40, 43, 4)]
    assert kinds == ["nfs4", "fuse.juicefs", ""]


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        ("nfs4", Health.OK),
        ("fuse.juicefs", Health.OK),
        ("ext4", Health.NOTE),
        ("", Health.NOTE),
    ],
)
def test_a_folder_that_only_this_machine_has_is_noted(kind, state, monkeypatch):
    monkeypatch.setattr(checkup, "file_system", lambda device, mounts: kind)
    last = checkup._shared("/")
    assert (last.subject, last.state) == ("folder of runs", state)


def test_a_run_can_have_as_many_gpus_as_one_node_has():
    assert most_gpus(Capacity("1", ("slurm",), node_gpus=4, home="/jobs")) == 4
    assert most_gpus(Capacity("1", (), home="/jobs")) is None
    assert most_gpus(Capacity("1", ("local",))) == 0


LOOKED = []


def noted() -> type:
    LOOKED.append(1)
    return int


class Late(Struct):
    value: noted()


def test_a_server_looks_at_its_types_before_it_has_threads_that_would_at_once():
    learn_types()
    assert LOOKED
    LOOKED.clear()
    assert json.decode(b'{"value": 1}', type=Late).value == 1
    assert not LOOKED

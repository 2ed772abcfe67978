"""What `rai server doctor` says of a server's cluster."""

from __future__ import annotations

import os

import pytest

from runner.doctor.finding import Health
from runner.server import checkup
from runner.server.checkup import file_system
from runner.server.queue import most_gpus
from runner.wire.capacity import Capacity

MOUNTS = """
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
31 22 0:40 / /home rw - nfs4 filer:/home rw,vers=4.2
34 22 0:43 / /scratch rw - fuse.juicefs juice rw
an odd line
"""


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

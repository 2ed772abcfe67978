"""What `rai server doctor` says of a server's cluster."""

from __future__ import annotations

import pytest

from runner.doctor.finding import Health
from runner.server import checkup
from runner.server.board import most_gpus
from runner.server.checkup import file_system
from runner.wire.capacity import Capacity

MOUNTS = r"""
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
31 22 0:40 / /home rw - nfs4 filer:/home rw,vers=4.2
32 22 0:41 / /srv/a\040b rw - lustre mgs@tcp:/fs rw
33 22 0:42 / /scratch rw - ext4 /dev/sdb rw
34 22 0:43 / /scratch rw - fuse.juicefs juice rw
an odd line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/rai/jobs", "nfs4"),
        ("/homes", "ext4"),
        ("/srv/a b/jobs", "lustre"),
        ("/scratch/jobs", "fuse.juicefs"),
        ("/", "ext4"),
    ],
)
def test_the_file_system_of_a_folder_is_that_of_the_last_mount_above_it(path, kind):
    assert file_system(path, MOUNTS) == kind
    assert file_system(path, "") == ""


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
    monkeypatch.setattr(checkup, "file_system", lambda path, mounts: kind)
    last = checkup._shared("/jobs")
    assert (last.subject, last.state) == ("folder of runs", state)


def test_a_run_can_have_as_many_gpus_as_one_node_has():
    assert most_gpus(Capacity("1", ("slurm",), node_gpus=4, home="/jobs")) == 4
    assert most_gpus(Capacity("1", (), home="/jobs")) is None
    assert most_gpus(Capacity("1", ("local",))) == 0

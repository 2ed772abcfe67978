"""What `rai server doctor` says of a job host's cluster."""

from __future__ import annotations

import pytest

from runner.doctor.finding import Health
from runner.server import cluster_checkup
from runner.server.board import most_gpus
from runner.server.cluster_checkup import file_system
from runner.wire.host import HostFacts, HostNode

MOUNTS = r"""
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
31 22 0:40 / /home rw - nfs4 filer:/home rw,vers=4.2
32 22 0:41 / /srv/a\040b rw - lustre mgs@tcp:/fs rw
33 22 0:42 / /scratch rw - ext4 /dev/sdb rw
34 22 0:43 / /scratch rw - fuse.juicefs juice rw
an odd line
"""


def test_a_machine_without_nodes_has_nothing_to_say():
    assert cluster_checkup.examine(HostFacts("1", ("local",))) == []


def test_nodes_that_are_out_are_named_with_what_to_do():
    ours = "takes no run of this server: run 1 ended with an error of a GPU of this"
    nodes = (
        HostNode("n1", 8, 8, {"h100": 4}, {"h100": 4}),
        HostNode("n2", 8, 0, {"h100": 4}, {}, "is drained: a fan is broken"),
        HostNode("n3", 8, 0, {"h100": 4}, {}, ours),
    )
    first, *out, _ = cluster_checkup.examine(HostFacts("1", ("slurm",), nodes=nodes))
    assert (first.state, first.text) == (
        Health.OK,
        "1 of 3 nodes take runs: 8 cores, 4 GPUs",
    )
    assert [one.text for one in out] == [
        "n2 is drained: a fan is broken",
        f"n3 {ours}",
    ]
    assert [one.advice for one in out] == [
        "",
        "see to it, then: rai server gpu clear n3",
    ]


def test_a_cluster_without_a_node_that_takes_runs_is_not_well():
    gone = tuple(HostNode(f"n{n}", 8, 0, out="is down") for n in range(30))
    found = cluster_checkup.examine(HostFacts("1", ("slurm",), nodes=gone))
    assert found[0].state is Health.MISSING
    assert len(found) == 1 + cluster_checkup.MOST_NODES + 1 + 1
    assert found[-2].text == "10 more nodes take none"


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
    monkeypatch.setattr(cluster_checkup, "file_system", lambda path, mounts: kind)
    facts = HostFacts("1", ("slurm",), nodes=(HostNode("n1", 1, 1),), home="/jobs")
    *_, last = cluster_checkup.examine(facts)
    assert (last.subject, last.state) == ("folder of runs", state)


def test_a_run_can_have_as_many_gpus_as_one_node_has():
    nodes = (HostNode("n1", 8, 8, {"h100": 4}), HostNode("n2", 8, 8, out="is down"))
    assert most_gpus(HostFacts("1", ("slurm",), nodes=nodes, home="/jobs")) == 4
    assert most_gpus(HostFacts("1", ("slurm",), home="/jobs")) is None
    assert most_gpus(HostFacts("1", ("local",))) == 0

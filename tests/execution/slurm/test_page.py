"""The slurm.conf of docs/slurm.md starts a cluster of one box."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.kit.cluster import cluster

pytestmark = pytest.mark.slurm

PAGE = Path(__file__).parents[3] / "docs" / "slurm.md"
OF_THE_MACHINE = ("ClusterName", "SlurmctldHost", "SlurmUser")
"""What is another's here than on a box of its own, besides folders."""


def test_the_slurm_conf_of_the_page_starts_jobs():
    (conf,) = re.findall(r"```ini\n(.*?)```", PAGE.read_text(), re.DOTALL)
    lines = dict(line.split("=", 1) for line in conf.splitlines())
    node, partition = (lines.pop(name) for name in ("NodeName", "PartitionName"))
    assert node == "box CPUs=2 RealMemory=8000 State=UNKNOWN"
    settings = {
        name: value
        for name, value in lines.items()
        if name not in OF_THE_MACHINE and not value.startswith("/var/")
    }
    partitions = [f"PartitionName={partition}"]
    with cluster(["box"], settings, partitions, gpus=0) as started:
        job = started.submit("exit 3", "--mem=4608M", "--time=30")
        started.until(lambda: started.state(job) == "FAILED")

"""What a Slurm job leaves a run: recorded groups, and a container of the engine."""

from __future__ import annotations

import io
import os

import pytest

from runner.core import GIB, MIB, Workspace
from runner.core.events import Warned
from runner.engines import cgroup
from runner.engines.docker import DockerEngine, confinement, owner
from runner.engines.docker.endpoint import Endpoint
from tests.kit.running import IMAGE, Subject, run

HERE = Endpoint("unix:///var/run/docker.sock", "the default socket")

FIRST = """\
11:devices:/slurm/uid_1000/job_5/step_batch/task_0
10:cpuset:/slurm/uid_1000/job_5/step_batch
9:freezer:/slurm/uid_1000/job_5/step_batch
8:memory:/slurm/uid_1000/job_5/step_batch
4:pids:/system.slice/slurmd.service
3:cpu,cpuacct:/system.slice/slurmd.service
1:name=systemd:/system.slice/slurmd.service
0::/system.slice/slurmd.service
"""
SECOND = "0::/system.slice/slurmstepd.scope/job_5/step_batch/user/task_0\n"
ENVIRON = {"SLURM_JOB_ID": "5", "SLURMD_NODENAME": "n1"}


@pytest.mark.parametrize(
    ("path", "group"),
    [
        ("/slurm/uid_0/job_5/step_batch", "/slurm/uid_0/job_5"),
        ("/slurm_n1/uid_0/job_5/step_0/task_1", "/slurm_n1/uid_0/job_5"),
        (SECOND[3:].strip(), "/system.slice/slurmstepd.scope/job_5"),
        ("/n1_slurmstepd.scope/job_5/step_0/user", "/n1_slurmstepd.scope/job_5"),
        ("/system.slice/docker-1.scope/slurm/uid_0/job_5", ""),
        ("/system.slice/slurmd.service", ""),
        ("/../../slurmstepd.scope/job_5/step_0", ""),
        ("/slurm/uid_0/job_5x", ""),
        ("/", ""),
    ],
)
def test_the_group_of_a_job_is_told_by_its_path(path, group):
    assert cgroup.group_of(path) == group
    assert bool(cgroup.groups_within(path)) == bool(group)


def test_the_groups_around_a_process_end_at_its_job():
    job = "/system.slice/slurmstepd.scope/job_5"
    assert cgroup.groups_within(SECOND[3:].strip()) == (
        f"{job}/step_batch/user/task_0",
        f"{job}/step_batch/user",
        f"{job}/step_batch",
        job,
    )


def test_a_job_has_one_group_and_hierarchies_without_one():
    assert cgroup.common_group(FIRST) == "/slurm/uid_1000/job_5"
    assert cgroup.strangers(FIRST) == ("pids", "cpu,cpuacct", "systemd", "unified")
    assert cgroup.common_group(SECOND) == "/system.slice/slurmstepd.scope/job_5"
    assert cgroup.strangers(SECOND) == ()
    assert cgroup.common_group("0::/\n") == ""
    two = "2:memory:/slurm/uid_0/job_5\n1:cpuset:/slurm/uid_0/job_6\n"
    assert cgroup.common_group(two) == ""


@pytest.mark.parametrize(
    ("environ", "memory"),
    [
        ({"SLURM_MEM_PER_NODE": "2048"}, 2 * GIB),
        ({"SLURM_MEM_PER_CPU": "512", "SLURM_CPUS_ON_NODE": "4"}, 2 * GIB),
        ({"SLURM_MEM_PER_GPU": "1024", "SLURM_GPUS_ON_NODE": "2"}, 2 * GIB),
        ({"SLURM_MEM_PER_CPU": "512"}, None),
        ({"SLURM_MEM_PER_NODE": "0"}, None),
        ({"SLURM_MEM_PER_NODE": "much"}, None),
        ({}, None),
    ],
)
def test_a_jobs_memory_is_what_slurm_says_of_it(environ, memory):
    found = cgroup.share({**ENVIRON, **environ}, {0, 1}, 2)
    assert found == cgroup.JobShare("5", (), memory)


def test_a_job_has_the_cores_that_its_process_may_use():
    assert cgroup.share(ENVIRON, {3, 1}, 4).cores == (1, 3)
    assert cgroup.share(ENVIRON, {0, 1}, 2).cores == ()


def test_outside_of_a_node_of_the_job_nothing_is_limited():
    words = {"SLURM_JOB_ID": "5", "SLURM_MEM_PER_NODE": "100"}
    assert cgroup.share(words, {0}, 2) == cgroup.NO_JOB
    assert cgroup.share({"SLURM_MEM_PER_NODE": "100"}, {0}, 2) == cgroup.NO_JOB


@pytest.fixture
def in_job(monkeypatch, tmp_path):
    """Let this process look as one of a job; return what an engine's share is then."""
    own = tmp_path / "cgroup"
    monkeypatch.setattr(owner, "OWN", own)
    monkeypatch.setattr(owner, "is_here", lambda info, endpoint: True)
    monkeypatch.setenv("SLURM_JOB_ID", "5")
    monkeypatch.setenv("SLURMD_NODENAME", "n1")

    def look(groups, root=False, **info):
        own.write_text(groups)
        monkeypatch.setattr(owner, "measured_by_root", lambda: root)
        return owner.of_this_process({"NCPU": 1, **info}, HERE)

    return look


def test_a_container_belongs_into_the_jobs_group_where_the_engine_makes_groups(in_job):
    driver = {"CgroupDriver": "cgroupfs", "CgroupVersion": "2"}
    job = "/system.slice/slurmstepd.scope/job_5"
    assert in_job(SECOND, **driver).group == job
    assert in_job(SECOND, **{**driver, "CgroupDriver": "systemd"}).group == ""
    first = {**driver, "CgroupVersion": "1"}
    assert in_job(FIRST, **first).group == ""
    assert in_job(FIRST, root=True, **first).group == "/slurm/uid_1000/job_5"


def test_podman_and_an_engine_of_a_user_are_left_as_they_are(in_job):
    assert in_job(SECOND, BuildahVersion="1.33") == cgroup.NO_JOB
    rootless = ["name=seccomp,profile=builtin", "name=rootless"]
    assert in_job(SECOND, SecurityOptions=rootless) == cgroup.NO_JOB


def test_an_engine_on_another_machine_is_not_limited_by_this_job(in_job, monkeypatch):
    monkeypatch.setattr(owner, "is_here", lambda info, endpoint: False)
    assert in_job(SECOND) == cgroup.NO_JOB


def test_the_container_gets_the_jobs_cores_and_group():
    work = Workspace("r", (), lambda: io.BytesIO(), image="i")
    given = cgroup.JobShare("5", (1, 3), None, "/slurm/uid_0/job_5")
    options = confinement.host_options(work, "n", {}, share=given)
    assert options["cpuset_cpus"] == "1,3"
    assert options["cgroup_parent"] == "/slurm/uid_0/job_5"
    without = confinement.host_options(work, "n", {})
    assert not {"cpuset_cpus", "cgroup_parent"} & set(without)


RUNC = (
    "OCI runtime create failed: runc create failed: unable to start container process:"
    " error during container init: error setting cgroup config for procHooks process:"
    ' failed to write "{}": write /sys/fs/cgroup/devices/slurm/uid_0/job_3/4f07/'
    "devices.allow: operation not permitted: unknown"
)


def test_a_container_that_the_group_refuses_starts_beside_it_but_for_a_denied_device():
    assert cgroup.may_leave_group(RUNC.format("c *:* m"))
    assert not cgroup.may_leave_group(RUNC.format("c 195:3 rw"))
    assert not cgroup.may_leave_group("no such image")


@pytest.fixture
def groups(monkeypatch, tmp_path):
    """Let this process be of job 5 by version 1, with groups made of folders."""
    own = tmp_path / "own"
    own.write_text(FIRST)
    monkeypatch.setattr(owner, "OWN", own)
    monkeypatch.setattr(owner, "GROUPS", tmp_path / "groups")

    def make(*paths):
        for path in paths:
            (tmp_path / "groups" / path).mkdir(parents=True, exist_ok=True)
        return tmp_path / "groups"

    return make


JOB = "slurm/uid_1000/job_5"


def test_only_empty_groups_where_slurm_made_none_are_removed(groups):
    others = "pids/slurm/uid_1000/job_6"
    top = groups(others, f"memory/{JOB}", f"pids/{JOB}", f"systemd/{JOB}")
    owner.tidy(f"/{JOB}")
    assert (top / f"memory/{JOB}").exists()
    assert (top / others).exists()
    assert not (top / "pids" / JOB).exists()
    assert not (top / "systemd/slurm").exists()


def test_empty_groups_of_jobs_that_ended_long_ago_are_removed(groups):
    names = ("job_7", "job_8/step_batch", "job_9", "job_5")
    top = groups(*(f"memory/slurm/uid_1000/{name}" for name in names))
    users = top / "memory/slurm/uid_1000"
    for name in ("job_7", "job_8", "job_5"):
        os.utime(users / name, (0, 0))
    owner.tidy(f"/{JOB}")
    assert {folder.name for folder in users.iterdir()} == {"job_5", "job_8", "job_9"}


def test_the_same_holds_for_the_second_version(groups):
    scope = "system.slice/slurmstepd.scope"
    top = groups(f"{scope}/job_7", f"{scope}/job_5", f"{scope}/system")
    (top.parent / "own").write_text(SECOND)
    for folder in (top / scope).iterdir():
        os.utime(folder, (0, 0))
    owner.tidy(f"/{scope}/job_5")
    assert {f.name for f in (top / scope).iterdir()} == {"job_5", "system"}


@pytest.mark.docker
def test_a_container_has_no_more_cores_and_memory_than_the_job(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "5")
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    monkeypatch.setenv("SLURM_MEM_PER_NODE", "300")
    subject = Subject(DockerEngine(), IMAGE)
    cores = os.sched_getaffinity(0)
    if len(cores) < 2:
        pytest.skip("this machine has one core")
    last = max(cores)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {last})
    look = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max"
    result = run(
        subject,
        [f"grep Cpus_allowed_list /proc/self/status; {look} 2>/dev/null; :"],
        memory_bytes=GIB,
    )
    cores_line, memory_line = result.stdout.decode().splitlines()
    assert cores_line.split()[1] == str(last)
    assert int(memory_line) == 300 * MIB
    (warned,) = [e for e in result.events if isinstance(e, Warned)]
    assert "the memory limit is 300MiB" in warned.text

"""Where a control group can be made, read from the kernel's tables."""

from __future__ import annotations

from pathlib import Path

from runner.engines.cgroup import Counts, Parent, job_counts, parents

FIRST = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
33 31 0:30 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu,cpuacct
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
SECOND = "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"


def test_in_the_first_version_each_controller_has_its_own_tree():
    own = "8:pids:/\n4:memory:/jobs/7\n1:cpu,cpuacct:/\n0::/\n"
    assert parents(FIRST, own) == {
        "memory": [
            Parent(Path("/sys/fs/cgroup/memory/jobs/7"), 1),
            Parent(Path("/sys/fs/cgroup/memory"), 1),
        ],
        "pids": [Parent(Path("/sys/fs/cgroup/pids"), 1)],
    }


def test_in_the_second_version_all_are_in_one_tree():
    slice = Path("/sys/fs/cgroup/user.slice/a b.scope")
    tries = [Parent(slice, 2), Parent(Path("/sys/fs/cgroup"), 2)]
    found = parents(SECOND, "0::/user.slice/a b.scope\n")
    assert found == {"memory": tries, "pids": tries}


def test_in_a_container_the_mount_begins_at_its_own_group():
    mounts = "9 8 0:28 /docker/abc /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
    found = parents(mounts, "8:pids:/docker/abc/sub\n")
    assert found["pids"][0] == Parent(Path("/sys/fs/cgroup/pids/sub"), 1)
    assert found["memory"] == []


def test_a_process_of_a_slurm_job_stays_within_the_jobs_group():
    job = "/system.slice/slurmstepd.scope/job_5"
    found = parents(SECOND, f"0::{job}/step_batch/user/task_0\n")
    below = ("/step_batch/user/task_0", "/step_batch/user", "/step_batch", "")
    tries = [Parent(Path(f"/sys/fs/cgroup{job}{each}"), 2) for each in below]
    assert found == {"memory": tries, "pids": tries}


def test_of_the_first_version_only_the_hierarchies_of_slurm_hold_a_job():
    own = "8:pids:/\n4:memory:/slurm/uid_0/job_5/step_batch\n0::/\n"
    found = parents(FIRST, own)
    memory = Path("/sys/fs/cgroup/memory/slurm/uid_0/job_5")
    assert found["memory"] == [Parent(memory / "step_batch", 1), Parent(memory, 1)]
    assert found["pids"] == [Parent(Path("/sys/fs/cgroup/pids"), 1)]


def test_what_slurm_killed_for_its_memory_is_counted_in_the_jobs_group_alone(tmp_path):
    job = "/system.slice/slurmstepd.scope/job_5/step_batch"
    (tmp_path / job[1:] / "user").mkdir(parents=True)
    (tmp_path / "memory.events").write_text("oom 9\noom_kill 9\n")
    mounts = f"31 23 0:28 / {tmp_path} rw - cgroup2 cgroup2 rw\n"
    own = f"0::{job}/user\n"
    assert job_counts(mounts, own) == Counts()
    (tmp_path / job[1:] / "memory.events").write_text("oom 2\noom_kill 1\n")
    assert job_counts(mounts, own) == Counts(memory_kills=1)
    assert job_counts(mounts, "0::/user.slice\n") == Counts()
    first = f"35 31 0:32 / {tmp_path} rw - cgroup cgroup rw,memory\n"
    (tmp_path / "memory.oom_control").write_text("under_oom 0\noom_kill 3\n")
    assert job_counts(first, "5:devices:/slurm/uid_0/job_5\n4:memory:/\n") == Counts()
    (tmp_path / "slurm/uid_0/job_5").mkdir(parents=True)
    kept = tmp_path / "slurm/uid_0/job_5/memory.oom_control"
    kept.write_text("under_oom 0\noom_kill 3\n")
    assert job_counts(first, "4:memory:/slurm/uid_0/job_5\n") == Counts(3)


def test_the_group_of_a_build_is_at_the_top():
    own = "8:pids:/\n4:memory:/slurm/uid_0/job_5/step_batch\n0::/\n"
    assert parents(FIRST, own, at_top=True) == {
        "memory": [Parent(Path("/sys/fs/cgroup/memory"), 1)],
        "pids": [Parent(Path("/sys/fs/cgroup/pids"), 1)],
    }

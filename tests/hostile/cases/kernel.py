"""What a program asks of the kernel and of this machine."""

from __future__ import annotations

from runner.core import Reason
from tests.hostile.case import Case, Ended

TRY = "$RAI_SOURCE_DIR/kernel"


def nothing_got(ended: Ended) -> None:
    """Assert that the kernel gave nothing."""
    lines = ended.log().decode().splitlines()
    assert lines, "it did not run"
    assert [line for line in lines if line.startswith("got")] == []


def _asks(name: str, tries: str, *attempts: str, **more: object) -> Case:
    return Case(
        name=name,
        tries=tries,
        programs=("kernel",),
        commands=(f"{TRY} {' '.join(attempts)}",),
        check=nothing_got,
        **more,
    )


def _refused(name: str, tries: str, command: str, **more: object) -> Case:
    """Return a case whose command prints "got" where it succeeds."""
    return Case(
        name=name,
        tries=tries,
        commands=(f"{{ {command}; }} 2>/dev/null && echo got; echo tried",),
        check=nothing_got,
        **more,
    )


CASES = (
    _asks(
        "namespaces",
        "Makes namespaces of its own, or enters those of process 1.",
        "user-namespace",
        "mount-namespace",
        "network-namespace",
        "setns",
        ci=("",),
    ),
    _asks(
        "mounts",
        "Mounts, mounts anew, unmounts, changes the root.",
        *("mount", "remount", "open-tree", "pivot-root", "chroot"),
    ),
    _asks(
        "devices",
        "Makes and opens device files of disks, memory, KVM, FUSE.",
        *("disk", "memory-device", "devices", "handle"),
    ),
    _asks("bpf and perf", "Loads eBPF, measures the kernel.", "bpf", "perf"),
    _asks("userfaultfd", "Handles page faults of the kernel.", "userfaultfd"),
    _asks(
        "io_uring",
        "Makes an io_uring.",
        "io-uring",
        columns=("local",),
        elsewhere="left to the engine's filter",
    ),
    _asks(
        "vsock",
        "Opens a socket to the machine that this machine is a guest of.",
        "vsock",
        columns=("local",),
        elsewhere="left to the engine's filter",
    ),
    _asks("keyrings", "Keeps a key for the next run of this user.", "keys"),
    _asks(
        "machine settings",
        "Sets the clock, the host's name, swap, modules, kexec, sysrq, sysctl, /sys.",
        *("clock", "host-name", "reboot", "modules", "kexec", "swap", "kernel-log"),
        "system-settings",
        ci=("local",),
    ),
    _asks(
        "raw sockets",
        "Opens raw and packet sockets.",
        *("raw-socket", "packet-socket"),
    ),
    _asks(
        "priorities",
        "Raises its priority, becomes real-time, hides from the OOM killer.",
        *("priority", "real-time", "oom-score"),
    ),
    _asks(
        "hard limits",
        "Raises its limits of open files and core files.",
        *("open-files", "core-files"),
    ),
    _asks("control groups", "Leaves its control group, or lifts it.", "control-groups"),
    _asks(
        "process 1",
        "Traces process 1, reads its memory and takes its files.",
        *("trace-first", "read-first", "files-of-first"),
        columns=("docker strict", "local"),
        elsewhere="allowed: its own container",
        ci=("",),
    ),
    _asks("typing", "Types into the terminal of rai (TIOCSTI).", "terminal"),
    _asks(
        "rights",
        "Becomes root, and has capabilities beyond those of its profile.",
        *("root", "capabilities"),
    ),
    _asks(
        "host paths",
        "Looks for sockets and secrets of the host.",
        *("host-sockets", "host-files"),
        columns=("docker strict", "local"),
        elsewhere="not tried: sees the image's files",
        ci=("local",),
    ),
    _refused(
        "the host's files",
        "Reads a file of the host by each path that may lead there.",
        "cat @OUTSIDE@/secret || cat /proc/1/root/@OUTSIDE@/secret"
        " || cat /proc/self/cwd/../@OUTSIDE@/secret"
        " || cat /proc/$PPID/root@OUTSIDE@/secret",
        ci=("",),
    ),
    _refused(
        "setuid programs",
        "Becomes another user by su, mount, passwd.",
        "su -c id nobody </dev/null || (mount -t tmpfs x /mnt) || newgrp daemon -c id",
        columns=("docker strict", "local"),
        elsewhere="allowed: it is root",
    ),
    _refused(
        "output of process 1",
        "Writes to the stdin, stdout and stderr of process 1.",
        "for n in 0 1 2; do echo x >/proc/1/fd/$n && break; false; done",
        columns=("docker strict", "local root"),
        elsewhere="allowed: the same user",
    ),
    Case(
        name="folder of control groups",
        tries="Fills the folder above the control groups, of version 1.",
        commands=("head -c 400000000 /dev/zero >/sys/fs/cgroup/x",),
        limits={"memory": "64MiB"},
        ends={"": Reason.COMMAND_FAILED, "docker compatible": Reason.MEMORY_LIMIT},
    ),
    _refused(
        "other processes",
        "Lists and signals processes outside of the sandbox.",
        "[ $(ls -d /proc/[0-9]* | wc -l) -gt 25 ]",
    ),
    _refused(
        "system folders",
        "Writes to /src, /usr, /etc and /.",
        "touch /src/x || touch /usr/x || touch /etc/x || touch /x",
        columns=("docker strict", "local"),
        elsewhere="allowed: its own copy",
    ),
)

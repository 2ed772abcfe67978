"""What keeps the player apart from the judge, which has the same user.

The judge is made undumpable: no process of its user can trace it, or read its memory
and descriptors. The player may make only the system calls that a program needs whose
files are open (seccomp(2)): it cannot open, start, signal or connect to anything.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import struct
from contextlib import suppress
from pathlib import Path

ALLOWED = {
    "brk": (12, 214),
    "clock_gettime": (228, 113),
    "clock_nanosleep": (230, 115),
    "close": (3, 57),
    "exit": (60, 93),
    "exit_group": (231, 94),
    "fstat": (5, 80),
    "futex": (202, 98),
    "getcpu": (309, 168),
    "getpid": (39, 172),
    "getrandom": (318, 278),
    "gettid": (186, 178),
    "ioctl": (16, 29),
    "lseek": (8, 62),
    "madvise": (28, 233),
    "membarrier": (324, 283),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "mremap": (25, 216),
    "munmap": (11, 215),
    "nanosleep": (35, 101),
    "poll": (7, None),
    "ppoll": (271, 73),
    "pread64": (17, 67),
    "read": (0, 63),
    "readv": (19, 65),
    "recvmsg": (47, 212),
    "restart_syscall": (219, 128),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sched_getaffinity": (204, 123),
    "sched_yield": (24, 124),
    "sendmsg": (46, 211),
    "set_robust_list": (273, 99),
    "sigaltstack": (131, 132),
    "uname": (63, 160),
    "write": (1, 64),
    "writev": (20, 66),
}
"""The system calls of the player, and their numbers on x86-64 and arm64."""

MACHINES = {"x86_64": (0xC000003E, 317), "aarch64": (0xC00000B7, 277)}
"""The architecture as the filter sees it, and the number of seccomp (linux/audit.h)."""

SET_DUMPABLE, SET_NO_NEW_PRIVS = 4, 38  # of prctl
SET_FILTER, ALL_THREADS = 1, 1  # of seccomp
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # of classic BPF (linux/bpf_common.h)
NUMBER_AT, MACHINE_AT = 0, 4  # in struct seccomp_data
FIRST_KILLED = b"1000"


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def rules(machine: str) -> bytes:
    """Return the player's filter for a machine; raise OSError for an unknown one."""
    if machine not in MACHINES:
        raise OSError(errno.ENOSYS, f"no filter of system calls for {machine}")
    column = list(MACHINES).index(machine)
    numbers = [n for row in ALLOWED.values() if (n := row[column]) is not None]
    lines = [
        (LOAD, 0, 0, MACHINE_AT),
        (EQUAL, 1, 0, MACHINES[machine][0]),
        (RETURN, 0, 0, REFUSE),
        (LOAD, 0, 0, NUMBER_AT),
        *((EQUAL, len(numbers) - n, 0, number) for n, number in enumerate(numbers)),
        (RETURN, 0, 0, REFUSE),
        (RETURN, 0, 0, ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def confine() -> None:
    """Give up all system calls of this process but those of ALLOWED, permanently.

    Raises OSError where the kernel cannot do that.
    """
    machine = platform.machine()
    lines = rules(machine)
    kept = ctypes.create_string_buffer(lines, len(lines))
    program = _Program(len(lines) // 8, ctypes.addressof(kept))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    zero = ctypes.c_ulong(0)
    refused = libc.prctl(SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero)
    number = ctypes.c_long(MACHINES[machine][1])
    given = ctypes.c_ulong(SET_FILTER), ctypes.c_ulong(ALL_THREADS)
    if refused or libc.syscall(number, *given, ctypes.byref(program)):
        code = ctypes.get_errno()
        raise OSError(code, f"seccomp: {os.strerror(code)}")


def hide() -> None:
    """Make this process undumpable."""
    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    if libc.prctl(SET_DUMPABLE, zero, zero, zero, zero):
        code = ctypes.get_errno()
        raise OSError(code, f"prctl: {os.strerror(code)}")


def lower() -> None:
    """Write no core file, and be killed first where memory is short."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_bytes(FIRST_KILLED)

"""The system calls that a sandbox refuses, and programs put in place of the host's."""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import stat
import struct
from pathlib import Path

from msgspec import Struct

from runner.core import Invocation
from runner.engines.folders import Folders
from runner.engines.local.layout import FIRST, TOOLS, Host

LAST_KNOWN = 466
"""The newest call of Linux 6.13. Newer ones do not exist for a command."""

NUMBERS = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "sysfs": (139, None),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "ustat": (136, None),
    "vhangup": (153, 58),
}
"""The refused calls, and their numbers on x86-64 and arm64."""

CLONE, CLONE3, IOCTL = (56, 220), (435, 435), (16, 29)
PERSONALITY, SOCKET, SOCKETPAIR = (135, 92), (41, 198), (53, 199)

NAMESPACES = 0x7E020000
"""The flags of clone that make a namespace."""

TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX type into a terminal."""

PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0x40000, 0xFFFFFFFF)
"""Docker's, and ADDR_NO_RANDOMIZE, which gdb and sanitizers set."""

FAMILIES = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6 and AF_NETLINK."""

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_LOAD, _RETURN = 0x20, 0x06
_EQUAL, _GREATER, _ANY_BIT = 0x15, 0x25, 0x45
_KILL, _REFUSE, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000


class _Instruction(Struct, frozen=True):
    """One instruction; ``yes`` and ``no`` are labels to jump to, "" for the next."""

    code: int
    value: int
    yes: str = ""
    no: str = ""
    label: str = ""


def filter_program(machine: str) -> bytes | None:
    """Return the filter for a machine (as ``os.uname`` names it); None for others.

    Arguments are compared by their lower half, since the kernel reads no more of these.
    A program for another processor, 32-bit ones too, is killed.
    """
    if machine not in _ARCHITECTURES:
        return None
    column = tuple(_ARCHITECTURES).index(machine)
    refused = [row[column] for row in NUMBERS.values()]
    return _assembled(
        [
            _Instruction(_LOAD, _ARCHITECTURE),
            _Instruction(_EQUAL, _ARCHITECTURES[machine], no="kill"),
            _Instruction(_LOAD, _NUMBER),
            # The calls of x86-64's second interface, x32, are greater too.
            _Instruction(_GREATER, LAST_KNOWN, yes="unknown"),
            _Instruction(_EQUAL, CLONE3[column], yes="unknown"),
            *(_Instruction(_EQUAL, n, yes="refused") for n in refused if n is not None),
            *_only(CLONE[column], 0, _ANY_BIT, (NAMESPACES,), "refused", "allowed"),
            *_only(IOCTL[column], 1, _EQUAL, TERMINAL_INPUT, "refused", "allowed"),
            *_only(PERSONALITY[column], 0, _EQUAL, PERSONALITIES, "allowed", "refused"),
            *_only(SOCKET[column], 0, _EQUAL, FAMILIES, "allowed", "no family"),
            *_only(SOCKETPAIR[column], 0, _EQUAL, FAMILIES, "allowed", "no family"),
            _Instruction(_RETURN, _ALLOW, label="allowed"),
            _Instruction(_RETURN, _REFUSE | errno.EPERM, label="refused"),
            _Instruction(_RETURN, _REFUSE | errno.ENOSYS, label="unknown"),
            _Instruction(_RETURN, _REFUSE | errno.EAFNOSUPPORT, label="no family"),
            _Instruction(_RETURN, _KILL, label="kill"),
        ]
    )


def _only(
    number: int, argument: int, test: int, values: tuple[int, ...], yes: str, no: str
) -> list[_Instruction]:
    """Return the instructions that decide about one call by one of its arguments."""
    after = f"after {number}"
    return [
        _Instruction(_EQUAL, number, no=after),
        _Instruction(_LOAD, _ARGUMENTS + 8 * argument),
        *(_Instruction(test, value, yes=yes) for value in values[:-1]),
        _Instruction(test, values[-1], yes=yes, no=no),
        _Instruction(_LOAD, _NUMBER, label=after),
    ]


def _assembled(instructions: list[_Instruction]) -> bytes:
    at = {each.label: n for n, each in enumerate(instructions) if each.label}
    words = []
    for here, each in enumerate(instructions):
        jumps = [at[label] - here - 1 if label else 0 for label in (each.yes, each.no)]
        words.append(struct.pack("=HBBI", each.code, *jumps, each.value))
    return b"".join(words)


TIME = re.compile(r"(?<![\w./-])/usr/bin/time(?![\w./-])")
FILTERS = Path("/proc/sys/kernel/seccomp/actions_avail")
"""A file of kernels that filter system calls."""

EXECUTE_ONLY = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH

GNU_TIME = Path(__file__).parent.with_name("gnu_time.py")


def provide(folders: Folders, host: Host, *, time: bool, seen_at: str = TOOLS) -> None:
    """Write scripts ``python`` and ``python3`` for rai's Python, and ``time``.

    ``seen_at`` is the path of the folder of tools for a command.
    """
    programs = folders.tools / "bin"
    folders.tools.mkdir()
    python = shlex.quote(str(host.python))
    if host.wrap:
        for name in ("python", "python3"):
            _program(programs / name, f'{python} "$@"')
    if time:
        shutil.copyfile(GNU_TIME, folders.tools / GNU_TIME.name)
        call = f'{python} -I -S {shlex.quote(seen_at)}/{GNU_TIME.name} "$@"'
        _program(programs / "time", call)
        _program(folders.overlay / "time", call)


def filters() -> bool:
    """Whether system calls can be filtered here."""
    return filter_program(os.uname().machine) is not None and FILTERS.exists()


def write_guards(folders: Folders) -> Path | None:
    """Write what protects a sandbox from its commands, beside the tools.

    It is a copy of the shell that none may read, and the filter of system calls, whose
    path is returned; None where there can be none.
    """
    first = folders.tools / Path(FIRST).name
    shutil.copyfile("/bin/sh", first)
    first.chmod(EXECUTE_ONLY)
    program = filter_program(os.uname().machine)
    if program is None or not filters():
        return None
    folders.filter.write_bytes(program)
    return folders.filter


def _program(path: Path, line: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\nexec {line}\n")
    path.chmod(0o755)


def redirected(invocation: Invocation, seen_at: str = TOOLS) -> Invocation:
    """Replace /usr/bin/time in a line by the path of the replacement."""
    replacement = f"{seen_at}/bin/time".replace("\\", r"\\")
    script = invocation.script
    return Invocation(
        tuple(TIME.sub(replacement, word) for word in invocation.argv),
        invocation.why,
        None if script is None else TIME.sub(replacement, script),
    )

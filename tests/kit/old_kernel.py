"""Run a program as on a kernel without nf_tables: ``python old_kernel.py COMMAND...``.

A filter of system calls refuses the sockets that rules of a network are set by.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

SOCKET = {"x86_64": 41, "aarch64": 198}
AF_NETLINK, NETLINK_NETFILTER = 16, 12
NUMBER_AT, FAMILY_AT, PROTOCOL_AT = 0, 16, 32
LOAD, UNLESS_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
PR_SET_SECCOMP, FILTER = 22, 2


def main(command: list[str]) -> None:
    """Set the filter, and become the program. Only root may without other steps."""
    steps = [
        (LOAD, 0, 0, NUMBER_AT),
        (UNLESS_EQUAL, 0, 5, SOCKET[os.uname().machine]),
        (LOAD, 0, 0, FAMILY_AT),
        (UNLESS_EQUAL, 0, 3, AF_NETLINK),
        (LOAD, 0, 0, PROTOCOL_AT),
        (UNLESS_EQUAL, 0, 1, NETLINK_NETFILTER),
        (RETURN, 0, 0, ERRNO | errno.EPROTONOSUPPORT),
        (RETURN, 0, 0, ALLOW),
    ]
    packed = b"".join(struct.pack("=HBBI", *step) for step in steps)

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))

    wanted = ctypes.byref(Program(len(steps), packed))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, FILTER, wanted, 0, 0) < 0:
        sys.exit(os.strerror(ctypes.get_errno()))
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])

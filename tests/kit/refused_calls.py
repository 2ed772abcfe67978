"""Make system calls of x86-64 that a sandbox refuses, and print what each is told.

It is a program that runs in a sandbox. Without a filter a call does harm, or fails for
another reason.
"""

from __future__ import annotations

import ctypes
import errno

CALLS = {
    "keyctl": (250, 0, -4, 1),  # the id of this user's keyring, which is made
    "add_key": (248, b"user", b"rai", b"x", 1, -4),
    "request_key": (249, b"user", b"rai", 0, -4),
    "unshare": (272, 0x10000000),
    "setns": (308, -1, 0),
    "clone": (56, 0x10000000 | 17, 0, 0, 0, 0),
    "clone3": (435, 0, 0),
    "mount": (165, b"none", b"/tmp", b"tmpfs", 0, 0),
    "fsopen": (430, b"tmpfs", 0),
    "open_tree": (428, -100, b"/", 1),
    "bpf": (321, 99, 0, 0),
    "perf_event_open": (298, 0, 0, -1, -1, 0),
    "userfaultfd": (323, 1),
    "io_uring_setup": (425, 1, 0),
    "open_by_handle_at": (304, -1, 0, 0),
    "quotactl": (179, 0, 0, 0, 0),
    "kexec_load": (246, 0, 0, 0, 0),
    "finit_module": (313, -1, 0, 0),
    "swapon": (167, 0, 0),
    "reboot": (169, 0, 0, 0, 0),
    "acct": (163, 1),
    "settimeofday": (164, 0, 1),
    "ioctl TIOCSTI": (16, 0, 0x5412, 0),
    "personality": (135, 0x400000),
    "socket AF_VSOCK": (41, 40, 1, 0),
}


def main() -> None:
    call = ctypes.CDLL(None, use_errno=True).syscall
    for name, words in CALLS.items():
        made = call(*(ctypes.c_long(w) if isinstance(w, int) else w for w in words))
        told = errno.errorcode[ctypes.get_errno()] if made < 0 else "done"
        print(name, told, flush=True)


if __name__ == "__main__":
    main()

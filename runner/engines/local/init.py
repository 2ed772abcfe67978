"""The first process of an ``unshare`` sandbox: set it up and run one command.

It is a program, started as ``python -I -S init.py LAYOUT COMMAND...`` as root of new
mount, process, host name and (mostly) network namespaces. It imports nothing of rai and
little of the standard library, so that it starts within milliseconds. It exits with the
command's exit code, or 128 + n after signal n; the kernel then kills everything left in
its process namespace.
"""

# ruff: noqa: PTH102, PTH103, PTH106, PTH110, PTH112, PTH120, PTH211
# (pathlib would double the time that this program takes to start)

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing would double the start-up time
    from typing import Any

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC = 32, 4096, 16384
MNT_DETACH = 2
CLONE_NEWUSER = 0x10000000
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV = 1, 2, 4
MOUNT_SETATTR = 442
PIVOT_ROOT = {
    "x86_64": 155,
    "aarch64": 41,
    "riscv64": 41,
    "ppc64le": 203,
    "s390x": 217,
}
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 24, 38, 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
INSTRUCTION_BYTES = 8
SIOCSIFFLAGS, IFF_UP_RUNNING = 0x8914, 0x41
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> int:
    """Return the result of a C library call; raise OSError if it failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Mount a file system."""
    words = (source.encode(), target.encode(), kind.encode(), flags, options.encode())
    check(libc.mount(*words), f"mounting {source} on {target}")


def bind(source: str, target: str, attributes: int) -> None:
    """Bind-mount a file or folder, with all mounts below it, on another path."""
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not os.path.exists(target):
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    mount(source, target, "", MS_BIND | MS_REC)
    # struct mount_attr: attributes to set, to clear, propagation, user namespace
    wanted = (ctypes.c_uint64 * 4)(attributes, 0, 0, 0)
    done = libc.syscall(
        MOUNT_SETATTR, AT_FDCWD, target.encode(), AT_RECURSIVE, wanted, 32
    )
    check(done, f"protecting {target}")


def fill(root: str, layout: dict[str, Any]) -> None:
    """Mount the sandbox's file system below a folder."""
    mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
    for folder in layout["folders"]:
        os.makedirs(root + folder, exist_ok=True)
    for source, target, writable in layout["binds"]:
        protection = ATTR_NOSUID | ATTR_NODEV | (0 if writable else ATTR_RDONLY)
        bind(source, root + target, protection)
    if layout["overlay"]:
        overlay = f"lowerdir={layout['overlay']}:{root}/usr/bin"
        mount("overlay", root + "/usr/bin", "overlay", MS_RDONLY | MS_NOSUID, overlay)
    for path, target in layout["links"]:
        os.makedirs(os.path.dirname(root + path), exist_ok=True)
        os.symlink(target, root + path)
    os.mkdir(root + "/proc")
    mount("proc", root + "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    fill_dev(root + "/dev", layout["devices"], layout["shm_bytes"])


def fill_dev(dev: str, more: list[str], shm_bytes: int) -> None:
    """Mount the usual devices, those in ``more``, and shared memory."""
    os.mkdir(dev)
    mount("tmpfs", dev, "tmpfs", MS_NOSUID, "mode=755,size=64k")
    for path in [*(f"/dev/{name}" for name in DEVICES), *more]:
        bind(path, dev + path.removeprefix("/dev"), ATTR_NOSUID)
    links = {"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
    for name, target in links.items():
        os.symlink(f"/proc/self/{target}", f"{dev}/{name}")
    os.mkdir(f"{dev}/pts")
    flags = MS_NOSUID | MS_NOEXEC
    mount("devpts", f"{dev}/pts", "devpts", flags, "newinstance,ptmxmode=666,mode=620")
    os.symlink("pts/ptmx", f"{dev}/ptmx")
    if os.isatty(1):  # so that programs find the name of their terminal
        bind(os.ttyname(1), f"{dev}/console", ATTR_NOSUID)
    os.mkdir(f"{dev}/shm")
    size = f"mode=1777,size={shm_bytes}"
    mount("tmpfs", f"{dev}/shm", "tmpfs", MS_NOSUID | MS_NODEV, size)
    mount("", dev, "", MS_REMOUNT | MS_RDONLY | MS_NOSUID, "mode=755,size=64k")


def enter(root: str) -> None:
    """Make a folder the root, and unmount the old root."""
    os.mkdir(root + "/.old")
    number = PIVOT_ROOT[os.uname().machine]
    old = f"{root}/.old".encode()
    check(libc.syscall(number, root.encode(), old), "changing the root")
    os.chdir("/")
    check(libc.umount2(b"/.old", MNT_DETACH), "unmounting the old root")
    os.rmdir("/.old")
    mount("", "/", "", MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, "mode=755")


def raise_loopback() -> None:
    """Bring up the loopback device of a network without other devices."""
    inet, datagram = 2, 2
    handle = check(libc.socket(inet, datagram, 0), "opening a socket")
    request = b"lo".ljust(16, b"\0") + IFF_UP_RUNNING.to_bytes(2, sys.byteorder)
    up = libc.ioctl(handle, SIOCSIFFLAGS, request.ljust(40, b"\0"))
    check(up, "bringing up the loopback device")
    os.close(handle)


def drop(layout: dict[str, Any]) -> None:
    """Drop all capabilities; change to the owner, or back to the calling user."""
    if layout["owner"] is None:
        uid, gid = layout["me"]
        check(libc.unshare(CLONE_NEWUSER), "entering a user namespace")
        write("/proc/self/uid_map", f"{uid} 0 1")
        write("/proc/self/gid_map", f"{gid} 0 1")
    for capability in range(64):
        if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            break
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    if layout["owner"] is not None:
        uid, gid = layout["owner"]
        os.setgroups(layout["groups"])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "setting no_new_privs")


def read(path: str) -> bytes:
    """Return a small file's content."""
    handle = os.open(path, os.O_RDONLY)
    content = os.read(handle, 1 << 16)
    os.close(handle)
    return content


def write(path: str, text: str) -> None:
    """Write text to a file of /proc in one write."""
    handle = os.open(path, os.O_WRONLY)
    os.write(handle, text.encode())
    os.close(handle)


def restrict(program: bytes) -> None:
    """Have the kernel filter the system calls of this process and its children."""

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))

    wanted = Program(len(program) // INSTRUCTION_BYTES, program)
    done = libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(wanted), 0, 0)
    check(done, "filtering system calls")


def execute(layout: dict[str, Any], program: bytes, command: list[str]) -> None:
    """Drop all privileges and exec the command; never return."""
    drop(layout)
    if program:
        restrict(program)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
        signal.signal(number, signal.SIG_DFL)
    os.chdir("/build")
    os.execv(command[0], command)


def wait_for(child: int) -> int:
    """Reap processes until the command ends; return its exit code."""
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def main(text: str, command: list[str]) -> int:
    """Set the sandbox up, run the command in it and return its exit code."""
    layout = json.loads(text)
    # Without a handler, the kernel lets no signal of a command end process 1.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.umask(0o022)
    program = read(layout["filter"]) if layout["filter"] else b""
    fill(layout["mount"], layout)
    enter(layout["mount"])
    check(libc.sethostname(layout["hostname"].encode(), len(layout["hostname"])), "")
    if not layout["network"]:
        raise_loopback()
    child = os.fork()
    if child == 0:
        try:
            execute(layout, program, command)
        finally:
            os._exit(125)
    return wait_for(child)


if __name__ == "__main__":
    try:
        code = main(sys.argv[1], sys.argv[2:])
    except OSError as error:
        sys.exit(f"sandbox: {error}")
    os._exit(code)

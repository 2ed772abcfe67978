"""The filter of system calls, as the kernel would read it."""

from __future__ import annotations

import errno
import struct

import pytest

from runner.engines.local import seccomp

X86, ARM, I386 = 0xC000003E, 0xC00000B7, 0x40000003
ALLOWED, KILLED = "allowed", "killed"


def answer(program: bytes, number: int, *arguments: int, of: int = X86) -> str | int:
    """What the filter says to a call: allowed, killed, or an error number."""
    data = struct.pack("=IIQ6Q", number, of, 0, *arguments, *[0] * (6 - len(arguments)))
    lines = list(struct.iter_unpack("=HBBI", program))
    at = value = 0
    while True:
        code, yes, no, k = lines[at]
        at += 1
        if code == 0x20:
            (value,) = struct.unpack_from("=I", data, k)
        elif code == 0x06:
            actions = {0x7FFF: ALLOWED, 0x8000: KILLED}
            return actions.get(k >> 16) or k & 0xFFFF
        else:
            truth = {0x15: value == k, 0x25: value > k, 0x45: bool(value & k)}[code]
            at += yes if truth else no


@pytest.fixture(scope="module")
def program() -> bytes:
    made = seccomp.filter_program("x86_64")
    assert made is not None
    return made


USUAL = (0, 59, 101, 202, 317)  # read, execve, ptrace, futex, seccomp
NEW_USER, TIOCSTI, TCGETS, READ_IMPLIES_EXEC = 0x10000000, 0x5412, 0x5401, 0x400000


@pytest.mark.parametrize(
    ("call", "said"),
    [
        *(((number,), ALLOWED) for number in USUAL),
        ((56, 17), ALLOWED),  # clone: a process
        ((56, 0x3D0F00), ALLOWED),  # threads
        ((56, NEW_USER | 17), errno.EPERM),
        ((435,), errno.ENOSYS),  # clone3, so that programs take clone
        *(((41, family), ALLOWED) for family in (1, 2, 10, 16)),
        # AF_PACKET, AF_ALG, AF_VSOCK, by socket and socketpair
        *(((make, f), errno.EAFNOSUPPORT) for make in (41, 53) for f in (17, 38, 40)),
        # ioctl, whatever the upper half of its word says
        *(((16, 0, TIOCSTI | above), errno.EPERM) for above in (0, 1 << 32)),
        *(((16, 0, TCGETS | above), ALLOWED) for above in (0, 1 << 32)),
        # personality: a debugger may fix addresses
        ((135, 0xFFFFFFFF), ALLOWED),
        ((135, 0x40000), ALLOWED),
        ((135, READ_IMPLIES_EXEC), errno.EPERM),
        ((0x40000000,), errno.ENOSYS),  # x32's read
        ((9999,), errno.ENOSYS),
    ],
)
def test_a_call_is_allowed_or_gets_an_error(program: bytes, call, said):
    assert answer(program, *call) == said


def test_each_refused_call_is_refused_on_each_processor(program: bytes):
    arm = seccomp.filter_program("aarch64")
    for x86_number, arm_number in seccomp.NUMBERS.values():
        assert answer(program, x86_number) == errno.EPERM
        if arm_number is not None:
            assert answer(arm, arm_number, of=ARM) == errno.EPERM
    assert answer(arm, 63, of=ARM) == ALLOWED  # read


def test_another_interface_ends_the_program_and_other_processors_have_no_filter(
    program: bytes,
):
    assert answer(program, 3, of=I386) == KILLED
    assert seccomp.filter_program("riscv64") is None

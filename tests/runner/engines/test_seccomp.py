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
    made = seccomp.program("x86_64")
    assert made is not None
    return made


def test_usual_calls_are_allowed(program: bytes):
    read, execve, ptrace, seccomp_call, futex = 0, 59, 101, 317, 202
    for number in (read, execve, ptrace, seccomp_call, futex):
        assert answer(program, number) == ALLOWED


def test_each_refused_call_is_refused_on_each_processor(program: bytes):
    arm = seccomp.program("aarch64")
    for x86_number, arm_number in seccomp.NUMBERS.values():
        assert answer(program, x86_number) == errno.EPERM
        if arm_number is not None:
            assert answer(arm, arm_number, of=ARM) == errno.EPERM
    assert answer(arm, 63, of=ARM) == ALLOWED  # read


def test_a_process_may_be_made_and_a_namespace_may_not(program: bytes):
    clone, clone3, threads, new_user = 56, 435, 0x3D0F00, 0x10000000
    assert answer(program, clone, 17) == ALLOWED
    assert answer(program, clone, threads) == ALLOWED
    assert answer(program, clone, new_user | 17) == errno.EPERM
    assert answer(program, clone3) == errno.ENOSYS  # so that programs take clone


def test_only_usual_sockets_can_be_made(program: bytes):
    for call in (41, 53):
        assert [answer(program, call, family) for family in (1, 2, 10, 16)] == [
            ALLOWED
        ] * 4
        for family in (17, 38, 40):  # AF_PACKET, AF_ALG, AF_VSOCK
            assert answer(program, call, family) == errno.EAFNOSUPPORT


@pytest.mark.parametrize("above", [0, 1 << 32])
def test_nothing_is_typed_into_a_terminal_whatever_the_upper_half_says(
    program: bytes, above: int
):
    ioctl, tiocsti, tcgets = 16, 0x5412, 0x5401
    assert answer(program, ioctl, 0, tiocsti | above) == errno.EPERM
    assert answer(program, ioctl, 0, tcgets | above) == ALLOWED


def test_a_debugger_may_fix_addresses_and_no_other_personality_is_taken(
    program: bytes,
):
    assert answer(program, 135, 0xFFFFFFFF) == ALLOWED
    assert answer(program, 135, 0x40000) == ALLOWED
    assert answer(program, 135, 0x400000) == errno.EPERM  # READ_IMPLIES_EXEC


def test_other_interfaces_of_the_kernel_and_calls_not_known_do_not_exist(
    program: bytes,
):
    assert answer(program, 0x40000000) == errno.ENOSYS  # x32's read
    assert answer(program, 9999) == errno.ENOSYS
    assert answer(program, 3, of=I386) == KILLED


def test_other_processors_have_no_filter():
    assert seccomp.program("riscv64") is None

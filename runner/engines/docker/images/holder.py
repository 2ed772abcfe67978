"""A network for an image build that private addresses are closed to.

The engine makes a build's containers itself, so their namespaces cannot be closed one
by one. They share that of another container, whose only program waits for the end of
its stdin. That program, of some bytes, is all that its image holds.
"""

from __future__ import annotations

import io
import os
import secrets
import struct
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from runner.core import MIB
from runner.core.policy import PrivateTarget
from runner.engines.docker import owner
from runner.engines.docker.attach import hold_stdin
from runner.engines.docker.client import FAILURES, Client, NotFound, failing
from runner.engines.docker.container import network
from runner.engines.docker.container.confinement import KEEPER_USER

NAME, TAG = "rai-network", "1"
TRIES = 3
MEMORY_BYTES, PIDS = 16 * MIB, 8

_BASE = 0x400000
_MACHINES = {
    # do { n = read(0, stack, 1) } while (n > 0); exit(0)
    "x86_64": (
        62,
        "31c0 31ff 4889e6 ba01000000 0f05 4885c0 7fed b83c000000 31ff 0f05",
    ),
    "aarch64": (
        183,
        "000080d2 e1030091 220080d2 e80780d2 010000d4 1f0000f1 4cffff54"
        "000080d2 a80b80d2 010000d4",
    ),
}
"""The numbers of processors in an executable file, and the program's instructions."""


def can_hold() -> bool:
    """Whether there is such a program for this machine."""
    return os.uname().machine in _MACHINES


@contextmanager
def closed_network(
    client: Client, targets: Sequence[PrivateTarget], time_s: float
) -> Iterator[str]:
    """Yield the name of a network for a build, as the API takes it.

    ``targets`` are what a policy opens; ``time_s`` is the build's time limit.
    """
    container = ""
    release = _nothing
    try:
        with failing("make a network for the build"):
            container = _created(client, time_s)
            release = hold_stdin(client, container)
            client.start(container)
        network.connect(client, container, targets)
        yield f"container:{container}"
    finally:
        with suppress(*FAILURES):
            if container:
                client.remove_container(container, force=True)
        release()
        with suppress(*FAILURES):  # another build uses it
            client.remove_image(f"{NAME}:{TAG}")


def _nothing() -> None:
    """Release nothing."""


def _created(client: Client, time_s: float) -> str:
    """Make the container; another build may remove the image meanwhile."""
    run = f"build-{secrets.token_hex(4)}"
    options = client.create_host_config(
        network_mode="none",
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        read_only=True,
        mem_limit=MEMORY_BYTES,
        memswap_limit=MEMORY_BYTES,
        pids_limit=PIDS,
    )
    for left in reversed(range(TRIES)):
        _imported(client)
        try:
            made = client.create_container(
                f"{NAME}:{TAG}",
                name=f"{NAME}-{run}",
                entrypoint=["/hold"],
                user=f"{KEEPER_USER}:{KEEPER_USER}",
                stdin_open=True,
                labels=owner.labels(run, time_s),
                host_config=options,
            )
        except NotFound:
            if not left:
                raise
        else:
            break
    identity: str = made["Id"]
    return identity


def _imported(client: Client) -> None:
    if not client.images(f"{NAME}:{TAG}"):
        packed = archive(program(os.uname().machine))
        client.import_image_from_data(packed, repository=NAME, tag=TAG)


def archive(content: bytes) -> bytes:
    """Return an archive whose only file is the program. Pure."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        member = tarfile.TarInfo("hold")
        member.size, member.mode = len(content), 0o755
        tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def program(machine: str) -> bytes:
    """Return the executable file for a machine, as ``os.uname`` names it. Pure."""
    number, text = _MACHINES[machine]
    code = bytes.fromhex(text)
    size = 64 + 56 + len(code)
    start = _BASE + 64 + 56
    header = b"\x7fELF\2\1\1".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 2, number, 1, start, 64, 0, 0, 64, 56, 1, 64, 0, 0
    )
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x10000)
    return header + segment + code

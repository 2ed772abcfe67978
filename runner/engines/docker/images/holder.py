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
from contextlib import ExitStack, contextmanager
from functools import partial

from msgspec import DecodeError, Struct, json

from runner.core import MIB
from runner.core.errors import EngineError
from runner.core.policy import PrivateTarget
from runner.engines.docker import owner
from runner.engines.docker.attach import hold_stdin
from runner.engines.docker.client import Client, failing, removed
from runner.engines.docker.container import network
from runner.engines.docker.container.confinement import KEEPER_USER

NAME, TAG = "rai-network", "1"
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


class BuildNetwork(Struct, frozen=True):
    """The network of a build, as the API takes it; None for the engine's usual one.

    ``failure`` says why no closed one could be made.
    """

    name: str | None = None
    failure: str = ""


@contextmanager
def closed_network(
    client: Client, targets: Sequence[PrivateTarget], time_s: float
) -> Iterator[BuildNetwork]:
    """Yield a network for a build: a closed one, or the usual one if that fails.

    ``targets`` are what a policy opens; ``time_s`` is the build's time limit.
    """
    with ExitStack() as stack:
        made = BuildNetwork()
        try:
            with failing("make a network for the build"):
                container = _started(client, time_s, stack)
                why = network.connect(client, container, targets)
            if not why:
                made = BuildNetwork(f"container:{container}")
        except EngineError as error:
            why = "; ".join(map(str, error.problems))
        yield made if made.name else BuildNetwork(failure=why)


def _started(client: Client, time_s: float, stack: ExitStack) -> str:
    """Start the container; ``stack`` removes it, and its image."""
    image = _imported(client)
    stack.callback(removed, client.remove_image, image)
    container = _created(client, image, time_s)
    stack.callback(removed, partial(client.remove_container, force=True), container)
    stack.callback(hold_stdin(client, container))
    client.start(container)
    return container


def _created(client: Client, image: str, time_s: float) -> str:
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
    made = client.create_container(
        image,
        name=f"{NAME}-{run}",
        entrypoint=["/hold"],
        user=f"{KEEPER_USER}:{KEEPER_USER}",
        stdin_open=True,
        labels=owner.labels(run, time_s),
        host_config=options,
    )
    identity: str = made["Id"]
    return identity


def _imported(client: Client) -> str:
    """Import an image of the build's own; return its id.

    An image is not looked for by its name, which a project may give to one of its own.
    """
    packed = archive(program(os.uname().machine))
    said: str = client.import_image_from_data(packed, repository=NAME, tag=TAG)
    try:
        return json.decode(said.splitlines()[-1], type=dict[str, str])["status"]
    except (DecodeError, IndexError, KeyError) as error:
        raise EngineError(f"the engine imports no image: {said[:200]}") from error


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

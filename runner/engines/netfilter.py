"""Close a network namespace: let no packet out to the addresses that are listed.

It is a program, started as ``python -I -S netfilter.py RULES [NAMESPACE]`` by who may
change the namespace: that of the process, or the file NAMESPACE of /proc. It imports
nothing of rai, so that it starts within milliseconds. Programs without CAP_NET_ADMIN in
the namespace cannot undo its rules. Routes would not do: a program that names the
interface with a packet gets past those that refuse an address.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing would double the start-up time
    from typing import Any

NETLINK_NETFILTER = 12
SUBSYSTEM = 10 << 8  # nf_tables
BATCH_BEGIN, BATCH_END = 0x10, 0x11
NEW_TABLE, NEW_CHAIN, NEW_RULE = 0, 3, 6
REQUEST, ACK, CREATE, APPEND = 0x1, 0x4, 0x400, 0x800
NESTED = 0x8000
ERROR = 2
INET = 1
FORWARDED, SENT = 2, 3
"""Hooks: packets that pass through the namespace, and those of its programs."""

DROP, ACCEPT = 0, 1
VERDICT, REGISTER = 0, 1
OUT_INTERFACE, FAMILY, PROTOCOL = 5, 15, 16
NETWORK_HEADER, TRANSPORT_HEADER = 1, 2
LOOPBACK_INTERFACE = 1
DNS_PORT = 53
PROHIBITED = 3
CLONE_NEWNET = 0x40000000
REPLY_BYTES = 1 << 16
REPLY_S = 5.0
AT_ONCE = 100
"""The most messages in a batch: the kernel's queue of answers holds few hundreds."""

VERSIONS = {
    socket.AF_INET: (2, 16, 4),
    socket.AF_INET6: (10, 24, 16),
}
"""Netfilter's number of each family, and where a packet has its destination."""


def attribute(kind: int, value: bytes | int) -> bytes:
    """Return an attribute of a message; numbers are of 32 bits."""
    data = value.to_bytes(4, "big") if isinstance(value, int) else value
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def name(kind: int, text: str) -> bytes:
    """Return an attribute that is a text."""
    return attribute(kind, text.encode() + b"\0")


def nested(kind: int, *attributes: bytes) -> bytes:
    """Return an attribute made of others."""
    return attribute(kind | NESTED, b"".join(attributes))


def message(kind: int, flags: int, family: int, resource: int, *parts: bytes) -> bytes:
    """Return a message of netfilter; its sequence number is 0."""
    body = struct.pack(">BBH", family, 0, resource) + b"".join(parts)
    return struct.pack("=IHHII", 16 + len(body), kind, REQUEST | flags, 0, 0) + body


def expression(kind: str, *attributes: bytes) -> bytes:
    """Return one step of a rule."""
    return nested(1, name(1, kind), nested(2, *attributes))


def meta(key: int, equals: bytes) -> bytes:
    """Match a packet by what the kernel knows of it."""
    load = expression("meta", attribute(1, REGISTER), attribute(2, key))
    return load + compared(equals)


def compared(value: bytes) -> bytes:
    """Go on with a rule only if the register has this value."""
    wanted = nested(3, attribute(1, value))
    return expression("cmp", attribute(1, REGISTER), attribute(2, 0), wanted)


def loaded(base: int, offset: int, length: int) -> bytes:
    """Load a part of a packet's header."""
    words = (REGISTER, base, offset, length)
    return expression("payload", *(attribute(n, w) for n, w in enumerate(words, 1)))


def destination(network: str) -> bytes:
    """Match packets to a network, written as ADDRESS/BITS."""
    address, _, bits = network.partition("/")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    number, offset, length = VERSIONS[family]
    ones = (1 << int(bits)) - 1 << 8 * length - int(bits)
    masked = expression(
        "bitwise",
        *(attribute(n, w) for n, w in enumerate((REGISTER, REGISTER, length), 1)),
        nested(4, attribute(1, ones.to_bytes(length, "big"))),
        nested(5, attribute(1, bytes(length))),
    )
    return (
        meta(FAMILY, bytes([number]))
        + loaded(NETWORK_HEADER, offset, length)
        + masked
        + compared(socket.inet_pton(family, address))
    )


def port(protocol: int, number: int) -> bytes:
    """Match packets of a protocol to a port."""
    kind = meta(PROTOCOL, bytes([protocol]))
    return kind + loaded(TRANSPORT_HEADER, 2, 2) + compared(number.to_bytes(2, "big"))


def accept() -> bytes:
    """Let the packet through."""
    code = nested(2, nested(2, attribute(1, ACCEPT)))
    return expression("immediate", attribute(1, VERDICT), code)


def reject() -> bytes:
    """Refuse the packet, and tell its sender at once."""
    code = attribute(2, bytes([PROHIBITED]))
    return expression("reject", attribute(1, 2), code)


def rules(wanted: dict[str, Any]) -> list[bytes]:
    """Return the rules in their order; the first that matches counts.

    ``servers`` are name servers, asked by their port alone; ``open`` and ``closed`` are
    networks.
    """
    own = meta(OUT_INTERFACE, LOOPBACK_INTERFACE.to_bytes(4, sys.byteorder))
    found = [own + accept()]
    for server in wanted["servers"]:
        for protocol in (socket.IPPROTO_UDP, socket.IPPROTO_TCP):
            found.append(destination(server) + port(protocol, DNS_PORT) + accept())
    found += [destination(network) + accept() for network in wanted["open"]]
    found += [destination(network) + reject() for network in wanted["closed"]]
    return found


def chain(table: str, text: str, hook: int, policy: int) -> bytes:
    """Return the message that makes a chain of rules."""
    return message(
        SUBSYSTEM | NEW_CHAIN,
        CREATE | ACK,
        INET,
        0,
        *(name(1, table), name(3, text)),
        nested(4, attribute(1, hook), attribute(2, 0)),
        attribute(5, policy),
        name(7, "filter"),
    )


def messages(wanted: dict[str, Any], table: str = "rai") -> list[bytes]:
    """Return the messages that make the table, its chains and all rules."""
    made = [
        message(SUBSYSTEM | NEW_TABLE, CREATE | ACK, INET, 0, name(1, table)),
        chain(table, "forwarded", FORWARDED, DROP),
        chain(table, "sent", SENT, ACCEPT),
    ]
    for rule in rules(wanted):
        parts = (name(1, table), name(2, "sent"), nested(4, rule))
        made.append(
            message(SUBSYSTEM | NEW_RULE, CREATE | APPEND | ACK, INET, 0, *parts)
        )
    return made


def leave() -> None:
    """Enter a new network namespace; other threads of the process stay."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"making a network namespace: {os.strerror(number)}")


def enter(namespace: str) -> None:
    """Enter a network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    handle = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    if libc.setns(handle, CLONE_NEWNET) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"entering {namespace}: {os.strerror(number)}")
    os.close(handle)


def close(wanted: dict[str, Any]) -> None:
    """Set the rules; raise OSError if the kernel refuses them.

    Several batches may do so, each whole or not at all, so the namespace must not be
    connected before the end.
    """
    made = messages(wanted)
    kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
    with kernel:
        kernel.settimeout(REPLY_S)
        kernel.bind((0, 0))
        for start in range(0, len(made), AT_ONCE):
            send(kernel, made[start : start + AT_ONCE])


def send(kernel: socket.socket, made: list[bytes]) -> None:
    """Send a batch; wait until the kernel has answered each of its messages."""
    first = message(BATCH_BEGIN, 0, 0, SUBSYSTEM >> 8)
    last = message(BATCH_END, 0, 0, SUBSYSTEM >> 8)
    kernel.send(b"".join([first, *made, last]))
    left = len(made)  # the first and the last are not answered
    while left:
        reply = kernel.recv(REPLY_BYTES)
        while reply:
            length, kind = struct.unpack_from("=IH", reply)
            code = struct.unpack_from("=i", reply, 16)[0]
            if kind == ERROR and code:
                raise OSError(-code, f"setting rules: {os.strerror(-code)}")
            left -= kind == ERROR
            reply = reply[(length + 3) & ~3 :]


def main(text: str, namespace: str = "") -> None:
    """Close the namespace."""
    if namespace:
        enter(namespace)
    close(json.loads(text))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except OSError as error:
        sys.exit(f"network: {error}")

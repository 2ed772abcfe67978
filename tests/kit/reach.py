"""What a run reaches: prints a line for each way that its network answers.

It is sent into a run. Its words are addresses, each tried over TCP and UDP on the port
that the first word names; those after ``--`` are tried by a packet that names the
interface too, which gets past routes that refuse an address.
"""

from __future__ import annotations

import socket
import struct
import sys
from concurrent.futures import ThreadPoolExecutor

WAIT_S = 2.0
IP_PKTINFO = 8
ABSTRACT = "\0rai-test-abstract"


def family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def tcp(address: str, port: int) -> None:
    with socket.socket(family(address)) as connection:
        connection.settimeout(WAIT_S)
        connection.connect((address, port))
        assert connection.recv(100)


def udp(address: str, port: int, interface: int = 0) -> None:
    with socket.socket(family(address), socket.SOCK_DGRAM) as connection:
        connection.settimeout(WAIT_S)
        if interface:
            named = struct.pack("=i8x", interface)
            data = [(socket.IPPROTO_IP, IP_PKTINFO, named)]
            connection.sendmsg([b"hello"], data, 0, (address, port))
        else:
            connection.sendto(b"hello", (address, port))
        assert connection.recv(100)


def bound(address: str, port: int) -> None:
    """By a socket that is bound to the interface, as anyone may bind one."""
    with socket.socket(family(address)) as connection:
        connection.settimeout(WAIT_S)
        name = socket.if_indextoname(outward()).encode()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, name)
        connection.connect((address, port))
        assert connection.recv(100)


def outward() -> int:
    return next(n for n, name in socket.if_nameindex() if name != "lo")


def abstract(*_: object) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(ABSTRACT)


def reached(how: str, what: object, *words: object) -> str:
    try:
        what(*words)  # type: ignore[operator]
    except (OSError, StopIteration, AssertionError):
        return ""
    return " ".join([how, *map(str, words[:1])]) + "\n"


def main(port: int, addresses: list[str]) -> None:
    ways: list[tuple[object, ...]] = [("abstract socket", abstract)]
    ways.append(("name", lambda: socket.gethostbyname("a.name.example")))
    for address in addresses:
        ways += [("tcp", tcp, address, port), ("udp", udp, address, port)]
        if ":" not in address and len(socket.if_nameindex()) > 1:
            ways.append(("udp by interface", udp, address, port, outward()))
            ways.append(("tcp by interface", bound, address, port))
    with ThreadPoolExecutor(len(ways)) as pool:
        print(*pool.map(lambda way: reached(*way), ways), sep="", end="")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])

"""The servers of internet.sh: those of the world, or of the machine itself."""

from __future__ import annotations

import asyncio
import socket
import sys

ADDRESS = bytes([198, 51, 100, 1])
ABSTRACT = "\0rai-test-abstract"
PORT = 8080


class NameServer(asyncio.DatagramProtocol):
    """Every name is the public host's."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        head = data[:2] + b"\x81\x80\0\1\0\1\0\0\0\0"
        answer = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + ADDRESS
        self.transport.sendto(head + data[12:] + answer, addr)  # type: ignore[attr-defined]


class Echo(asyncio.DatagramProtocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.transport.sendto(b"reached", addr)  # type: ignore[attr-defined]


async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"reached")
    await writer.drain()
    writer.close()


async def world() -> None:
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(NameServer, ("198.51.100.1", 53))
    await loop.create_datagram_endpoint(Echo, ("0.0.0.0", PORT))
    await asyncio.start_server(answer, "0.0.0.0", PORT)
    await asyncio.start_server(answer, "0.0.0.0", 80)


async def machine() -> None:
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(Echo, ("0.0.0.0", PORT))
    with socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(ABSTRACT)
        abstract.listen()
        await asyncio.start_unix_server(answer, sock=abstract.dup())
    await asyncio.start_server(answer, ["0.0.0.0", "::1"], PORT)


async def main(which: str) -> None:
    await {"world": world, "machine": machine}[which]()
    await asyncio.sleep(60)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

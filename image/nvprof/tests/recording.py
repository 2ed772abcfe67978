"""Write what the library writes: records.h's file, and lines in the FIFO."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

HEADER_BYTES = 4096


def record(kind: int, layout: str, *values: int, tail: bytes = b"") -> bytes:
    body = struct.pack("<" + layout, *values) + tail
    body += b"\0" * (-len(body) % 8)
    return struct.pack("<II", kind, 8 + len(body)) + body


class Recording:
    """The records of one process, in memory until they are put into a file."""

    def __init__(self, base: int = 1_000_000) -> None:
        self.base = base
        self.body = bytearray()
        self.names: dict[str, int] = {}
        self.devices: set[int] = set()

    def name(self, text: str) -> int:
        if text not in self.names:
            self.names[text] = len(self.names)
            data = text.encode()
            self.body += record(1, "II", self.names[text], len(data), tail=data)
        return self.names[text]

    def total(self, text, count, total, least, most, section=0, device=0):
        name = self.name(text)
        self.body += record(
            2, "IIIIQQQQ", name, section, device, 0, count, total, least, most
        )

    def kernel(
        self,
        text,
        start,
        duration,
        correlation=1,
        grid=(1, 1, 1),
        block=(1, 1, 1),
        registers=16,
        static=0,
        dynamic=0,
        device=0,
    ):
        took = (*grid, *block, registers, static, dynamic, self.name(text))
        self._timed(3, "14I", start, duration, device, 1, 7, correlation, *took)

    def memcpy(self, text, start, duration, size, correlation=1):
        where = (0, 1, 7, correlation, self.name(text))
        self._timed(4, "QIIIIIBBxx", start, duration, size, *where, 1, 3)

    def memset(self, start, duration, size, correlation=1):
        where = (0, 1, 7, correlation, self.name("[CUDA memset]"))
        self._timed(5, "Q6I", start, duration, size, *where, 0)

    def api(self, text, start, duration, correlation=1):
        called = (100, correlation, self.name(text))
        self._timed(6, "IIII", start, duration, *called, 0)

    def _timed(self, kind, layout, start, duration, *values):
        begun = self.base + start
        self.body += record(kind, "QQ" + layout, begun, begun + duration, *values)

    def device(self, text="NVIDIA H200", number=0):
        name = self.name(text)
        self.body += record(7, "IIII", number, 90, 132, name)

    def bytes(
        self,
        command=("app",),
        pid=1234,
        parent=1,
        trace=1,
        ended=1,
        dropped=0,
        lost=0,
        started_ns=1,
    ) -> bytes:
        head = struct.pack(
            "<8sIIIIQQQQQII",
            b"NVPROF01",
            pid,
            parent,
            trace,
            ended,
            len(self.body),
            dropped,
            lost,
            started_ns,
            self.base,
            13000,
            130000,
        )
        words = b"".join(os.fsencode(word) + b"\0" for word in command)
        return (head + words).ljust(HEADER_BYTES, b"\0") + bytes(self.body)


def tell(folder: Path, line: str) -> None:
    with (folder / "events").open("wb", buffering=0) as fifo:
        fifo.write(f"{line}\n".encode())


def commit(recording: Recording, command: tuple[str, ...], **more) -> Path:
    """Do what the library does in this process: make the file, then say so."""
    folder, pid = Path(os.environ["NVPROF_SESSION"]), os.getpid()
    path, turn = folder / f"{pid}.prof", 0
    while path.exists():
        turn += 1
        path = folder / f"{pid}.{turn}.prof"
    trace = int(os.environ["NVPROF_TRACE"])
    data = recording.bytes(
        command,
        pid=pid,
        parent=os.getppid(),
        trace=trace,
        started_ns=time.time_ns(),
        **more,
    )
    path.write_bytes(data)
    tell(folder, f"start {pid} {path.name}")
    return path


def end(path: Path) -> None:
    """Mark this process's orderly end, and say so."""
    with path.open("r+b") as file:
        file.seek(20)
        file.write(struct.pack("<I", 1))
    tell(path.parent, f"end {os.getpid()}")


def small(trace: bool) -> Recording:
    """Two launches of a kernel, one of another, a copy, and their calls."""
    made = Recording()
    made.device()
    forward = "mxnet::op::forward_kernel(float*, float const*, int)"
    other = "void scale<8, float, true>(float*)"
    if not trace:
        made.total(forward, 2, 38_992_000, 10_788_000, 28_204_000)
        made.total(other, 1, 992, 992, 992)
        made.total("[CUDA memcpy HtoD]", 20, 16_187_000, 1_088, 15_768_000)
        made.total("cudaLaunchKernel", 3, 722_320, 9_041, 700_000, section=1)
        made.total("cudaMemcpy", 20, 3_094_390_000, 14_478, 1_588_060_000, section=1)
        return made
    made.api("cudaMemcpy", 1_000, 20_000_000, 1)
    made.memcpy("[CUDA memcpy HtoD]", 2_000, 16_187_000, 1 << 24, 1)
    made.api("cudaLaunchKernel", 21_000_000, 9_041, 2)
    made.kernel(forward, 21_500_000, 10_788_000, 2, (8, 2, 1), (16, 16, 1), 32, 4096, 0)
    made.api("cudaLaunchKernel", 21_100_000, 9_141, 3)
    made.kernel(other, 33_000_000, 992, 3, (1, 1, 1), (256, 1, 1), 8, 0, 512)
    made.memset(33_100_000, 1_920, 1028, 4)
    made.api("cudaLaunchKernel", 33_200_000, 700_000, 5)
    made.kernel(forward, 34_000_000, 28_204_000, 5, (8, 2, 1), (16, 16, 1), 32, 4096, 0)
    return made

"""The player: it loads a team's kernels and launches what the judge says.

    python3 -m runner.judge.player DESCRIPTOR

It decides nothing, measures nothing and knows no expected result. Before it loads what
the team compiled, it gives up all system calls that it does not need.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import socket
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from runner.judge import arithmetic, channel, driver, sandbox
from runner.judge.driver import (
    Cuda,
    CudaError,
    CudaStream,
    Kernel,
    Module,
    Region,
)

PRINTF_BYTES = 64 << 10
HEAP_BYTES = 8 << 20
SWITCH_NS = 1000
LONGEST_PAUSE_S = 10.0

PAGE_BYTES = 1 << 20
"""The memory by which the judge starts a call, and the GPU says that it is done."""

GO_AT, FIRST_WORD = 0, 64

Message = Mapping[str, Any]


class Clocks:
    """The time and the cycles of all multiprocessors, at moments of a stream."""

    def __init__(self, cuda: Cuda, ptx: bytes) -> None:
        module, self._most = cuda.load(ptx), cuda.facts().multiprocessors
        self._delay, self._stamp = map(module.kernel, ("judge_delay", "judge_stamp"))
        size = 16 * self._most
        self._memory = [cuda.pinned(size), cuda.pinned(size)]
        self._size = size

    def wait(self, stream: CudaStream, ns: int) -> None:
        """Let the GPU wait."""
        stream.launch(self._delay, (1, 1, 1), (1, 1, 1), (ns,))

    def stamp(self, stream: CudaStream, which: int) -> None:
        """Note the clocks: the first time (0), or the second (1)."""
        ctypes.memset(self._memory[which], 0, self._size)
        grid = (4 * self._most, 1, 1)
        given = (self._memory[which], self._most)
        stream.launch(self._stamp, grid, (32, 1, 1), given)

    def mhz(self) -> float:
        """Return the clock between both stamps, in MHz; 0 if it is unknown."""
        pairs = [
            (later[0] - first[0], later[1] - first[1])
            for first, later in zip(*map(self._read, (0, 1)), strict=True)
            if first[0] and later[0] > first[0] and later[1] > first[1]
        ]
        found = [1e3 * cycles / ns for ns, cycles in pairs]
        return statistics.median(found) if found else 0.0

    def _read(self, which: int) -> list[tuple[int, int]]:
        values = (ctypes.c_uint64 * (2 * self._most)).from_address(self._memory[which])
        return list(zip(values[::2], values[1::2], strict=True))


class LoadedConvolution:
    """One convolution of a plan, loaded."""

    def __init__(self, cuda: Cuda, module: Module, convolution: Message) -> None:
        shape = convolution["shape"]
        self._weights = shape["M"] * shape["C"] * shape["K"] ** 2
        self._weights *= 2 if convolution["storage"] == "float16" else 4
        count = cuda.attribute(driver.MULTIPROCESSORS)
        names = {arithmetic.MULTIPROCESSORS: count, **convolution.get("names", {})}
        self._launches: list[tuple[Kernel, Message]] = [
            (
                module.kernel(one["kernel"], one["shared_bytes"]),
                {**one, "grid": _numbers(one["grid"], names)},
            )
            for one in convolution["launches"]
        ]
        self._constants = [
            self._room(module, name) for name in convolution["constants"]
        ]
        self._cuda = cuda

    def _room(self, module: Module, name: str) -> int:
        """Return the address of a variable that the weights fit into."""
        address, size = module.variable(name)
        if size < self._weights:
            raise CudaError("CUDA_ERROR_INVALID_VALUE", f"the copy of k to {name}")
        return address

    def start(self, stream: CudaStream, addresses: Mapping[str, int]) -> None:
        """Launch all kernels, after copying the weights to constant memory."""
        for variable in self._constants:
            self._cuda.copy(variable, addresses["k"], self._weights, stream)
        for kernel, one in self._launches:
            arguments = [*(addresses[name] for name in one["buffers"]), *one["numbers"]]
            sizes = one["grid"], one["block"], arguments, one["shared_bytes"]
            stream.launch(kernel, *sizes)


def _numbers(sizes: Sequence[int | str], names: Mapping[str, int]) -> list[int]:
    """Return sizes with numbers for their arithmetic; raise CudaError."""
    try:
        return [
            arithmetic.evaluate(size, names) if isinstance(size, str) else size
            for size in sizes
        ]
    except ValueError as error:
        raise CudaError("CUDA_ERROR_INVALID_VALUE", f"a grid: {error}") from None


class Player:
    """A context for the team's kernels; it has none of them until ``load``."""

    def __init__(self, setup: Message, descriptors: Sequence[int]) -> None:
        self._cubins = [Path(path).read_bytes() for path in setup["cubins"]]
        self._cuda = cuda = Cuda()
        cuda.limit(driver.PRINTF_BYTES, PRINTF_BYTES)
        cuda.limit(driver.HEAP_BYTES, HEAP_BYTES)
        sizes = setup["regions"]
        self._in, self.read_only = self._inputs(descriptors[0], sizes[0])
        self._out = cuda.map(descriptors[1], sizes[1], driver.READ_WRITE)
        self._page = mmap.mmap(descriptors[2], PAGE_BYTES)
        here = ctypes.addressof(ctypes.c_char.from_buffer(self._page))
        self._seen = cuda.register(here, PAGE_BYTES)
        self._clocks = Clocks(cuda, Path(setup["clocks"]).read_bytes())
        self._stream = cuda.stream()
        self._convolutions: list[LoadedConvolution] = []

    def load(self, convolutions: Sequence[Message]) -> None:
        """Load the team's kernels, after ``sandbox.confine``."""
        cuda = self._cuda
        modules = [cuda.load(cubin) for cubin in self._cubins]
        self._convolutions = [
            LoadedConvolution(cuda, modules[each["unit"]], each)
            for each in convolutions
        ]
        self._cuda.wait()

    def _inputs(self, descriptor: int, size: int) -> tuple[Region, bool]:
        """Map the inputs, read-only where the driver can."""
        again = os.dup(descriptor)
        try:
            found = self._cuda.map(descriptor, size, driver.READ)
        except CudaError:
            return self._cuda.map(again, size, driver.READ_WRITE), False
        os.close(again)
        return found, True

    def serve(self, call: Message, judge: socket.socket) -> None:
        """Carry out one call: say when all is ready, wait for the word, start.

        Between the two nothing sleeps, this context has the GPU, and one call of the
        driver starts all kernels: the judge's clock then sees little besides them.
        """
        stream, clocks = self._stream, self._clocks
        bases = {"x": self._in.address, "k": self._in.address}
        offsets = call["offsets"].items()
        addresses = {n: bases.get(n, self._out.address) + at for n, at in offsets}
        self._cuda.forget_persisting()
        with stream.captured() as graph:
            if call["stamped"]:
                clocks.stamp(stream, 0)
            self._convolutions[call["convolution"]].start(stream, addresses)
            if call["stamped"]:
                clocks.stamp(stream, 1)
        clocks.wait(stream, SWITCH_NS)
        stream.wait()
        channel.send(judge, {"ready": True})
        self._await_go()
        graph.launch()
        stream.write(self._seen + call["word"], call["value"])
        stream.wait()
        graph.close()
        sm_mhz = clocks.mhz() if call["stamped"] else 0.0
        channel.send(judge, {"done": True, "sm_mhz": sm_mhz})

    def _await_go(self) -> None:
        page, ends = self._page, perf_counter() + LONGEST_PAUSE_S
        while not page[GO_AT]:
            if perf_counter() > ends:
                raise channel.LateError("the judge does not start the call")


def main(descriptor: int) -> None:
    """Serve the judge until it hangs up."""
    judge = socket.socket(fileno=descriptor)
    sandbox.lower()
    gc.disable()
    try:
        setup, descriptors = channel.receive(judge, descriptors=3)
        player = Player(setup, descriptors)
        sandbox.confine()
        channel.send(judge, {"confined": True})
        player.load(setup["convolutions"])
        channel.send(judge, {"read_only": player.read_only})
        while True:
            call, _ = channel.receive(judge)
            player.serve(call, judge)
    except channel.ChannelError:
        return
    except CudaError as error:
        channel.send(judge, {"fault": error.name})
    except (OSError, ValueError) as error:
        channel.send(judge, {"failed": str(error)})


if __name__ == "__main__":
    main(int(sys.argv[1]))

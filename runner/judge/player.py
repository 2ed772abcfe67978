"""The player: it loads a team's kernels and launches what the judge says.

    python3 -m runner.judge.player DESCRIPTOR

It decides nothing and knows no expected result. Before it loads what the team compiled,
it gives up all system calls that it does not need.
"""

from __future__ import annotations

import ctypes
import gc
import os
import socket
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runner.judge import channel, driver, sandbox
from runner.judge.driver import (
    Cuda,
    CudaError,
    CudaStream,
    Event,
    Kernel,
    Module,
    Region,
)

PRINTF_BYTES = 64 << 10
HEAP_BYTES = 8 << 20
DELAY_NS, DELAY_OF_LAUNCH_NS = 400_000, 40_000
"""How long the GPU waits while the host launches what is timed."""

LONGEST_PAUSE_S = 10.0

Message = Mapping[str, Any]


class Clocks:
    """The time and the cycles of all multiprocessors, at moments of a stream."""

    def __init__(self, cuda: Cuda, ptx: bytes) -> None:
        module, self._most = cuda.load(ptx), cuda.facts().multiprocessors
        self._delay, self._stamp = map(module.kernel, ("judge_delay", "judge_stamp"))
        size = 16 * self._most
        self._memory = [cuda.pinned(size), cuda.pinned(size)]
        self._size = size

    def wait(self, stream: CudaStream, launches: int) -> None:
        """Let the GPU wait until so many launches are queued."""
        ns = DELAY_NS + launches * DELAY_OF_LAUNCH_NS
        stream.launch(self._delay, (1, 1, 1), (1, 1, 1), (ns,))

    def stamp(self, stream: CudaStream, which: int) -> None:
        """Note the clocks: the first time (0), or the second (1)."""
        ctypes.memset(self._memory[which], 0, self._size)
        grid = (4 * self._most, 1, 1)
        given = (self._memory[which], self._most)
        stream.launch(self._stamp, grid, (32, 1, 1), given)

    def between(self) -> tuple[float, float]:
        """Return the milliseconds between both stamps, and the clock in MHz."""
        pairs = [
            (later[0] - first[0], later[1] - first[1])
            for first, later in zip(*map(self._read, (0, 1)), strict=True)
            if first[0] and later[0] > first[0] and later[1] > first[1]
        ]
        if not pairs:
            return 0.0, 0.0
        ns = statistics.median(pair[0] for pair in pairs)
        mhz = statistics.median(1e3 * cycles / ns for ns, cycles in pairs)
        return 1e-6 * ns, mhz

    def _read(self, which: int) -> list[tuple[int, int]]:
        values = (ctypes.c_uint64 * (2 * self._most)).from_address(self._memory[which])
        return list(zip(values[::2], values[1::2], strict=True))


class LoadedConvolution:
    """One convolution of a plan, loaded."""

    def __init__(self, cuda: Cuda, module: Module, convolution: Message) -> None:
        shape = convolution["shape"]
        self._weights = shape["M"] * shape["C"] * shape["K"] ** 2
        self._weights *= 2 if convolution["storage"] == "float16" else 4
        self._launches: list[tuple[Kernel, Message]] = [
            (module.kernel(one["kernel"], one["shared_bytes"]), one)
            for one in convolution["launches"]
        ]
        self._constants = [
            self._room(module, name) for name in convolution["constants"]
        ]
        self.count = len(self._launches) + len(self._constants)
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
        self._clocks = Clocks(cuda, Path(setup["clocks"]).read_bytes())
        self._stream = cuda.stream()
        self._events = Event(cuda), Event(cuda)
        self.time(None, {}, 0)  # The driver now has all that it needs.
        self._convolutions: list[LoadedConvolution] = []
        self._launches = 0

    def load(self, convolutions: Sequence[Message]) -> None:
        """Load the team's kernels, after ``sandbox.confine``."""
        cuda = self._cuda
        modules = [cuda.load(cubin) for cubin in self._cubins]
        self._convolutions = [
            LoadedConvolution(cuda, modules[each["unit"]], each)
            for each in convolutions
        ]
        self._launches = max(each.count for each in self._convolutions)
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

    def time(
        self,
        convolution: LoadedConvolution | None,
        addresses: Mapping[str, int],
        launches: int,
    ) -> None:
        """Time a convolution, or nothing."""
        self._clocks.wait(self._stream, launches)
        self._clocks.stamp(self._stream, 0)
        first, last = self._events
        self._stream.record(first)
        if convolution:
            convolution.start(self._stream, addresses)
        self._stream.record(last)
        self._clocks.stamp(self._stream, 1)
        self._stream.wait()

    def times(self) -> Message:
        """Return the times of the last call, and the clock in it."""
        first, last = self._events
        stamp_ms, mhz = self._clocks.between()
        return {"ms": first.ms_until(last), "stamp_ms": stamp_ms, "sm_mhz": mhz}

    def serve(self, call: Message, judge: socket.socket) -> None:
        """Carry out one call: say when all is ready, wait for the word, say when done.

        Between the two nothing sleeps, and this context has the GPU: the judge's clock
        then sees little besides the kernels.
        """
        chosen = self._convolutions[call["convolution"]]
        bases = {"x": self._in.address, "k": self._in.address}
        offsets = call["offsets"].items()
        addresses = {n: bases.get(n, self._out.address) + at for n, at in offsets}
        self._cuda.forget_persisting()
        self._clocks.stamp(self._stream, 0)
        self._stream.wait()
        channel.send(judge, {"ready": True})
        channel.spin(judge, LONGEST_PAUSE_S)
        channel.receive(judge)
        # The same wait for all, so that empty calls tell what each call costs besides.
        self.time(None if call["empty"] else chosen, addresses, self._launches)
        channel.send(judge, {"done": True})
        channel.send(judge, self.times())


def main(descriptor: int) -> None:
    """Serve the judge until it hangs up."""
    judge = socket.socket(fileno=descriptor)
    sandbox.lower()
    gc.disable()
    try:
        setup, descriptors = channel.receive(judge, descriptors=2)
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

"""The player as the judge sees it: a process that is not believed."""

from __future__ import annotations

import mmap
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from random import SystemRandom
from time import perf_counter
from typing import Any

from runner.judge import channel
from runner.judge.bench import Bench
from runner.judge.player import FIRST_WORD, GO_AT, PAGE_BYTES

MOST_MHZ = 1e5
LONGEST_CALL_S = 5.0
"""How long a call may take, with all answers of the player."""

LONGEST_START_S = 20.0
"""How long the player may take to start, and then to load the kernels."""

LONGEST_END_S = 10.0
TURNS = 256
"""How often the judge looks for the end of a call before it looks for a message too."""

FAULTS = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": "an illegal address",
    "CUDA_ERROR_MISALIGNED_ADDRESS": "a misaligned address",
    "CUDA_ERROR_LAUNCH_FAILED": "a fault such as a trap or a stack overflow",
    "CUDA_ERROR_ASSERT": "an assertion",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": "an illegal instruction, such as a trap",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "too many registers or too much memory",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "no code for this GPU",
    "CUDA_ERROR_INVALID_IMAGE": "what is no machine code",
    "CUDA_ERROR_NOT_FOUND": "a kernel or variable that is not in the compiled file",
    "CUDA_ERROR_INVALID_VALUE": "a launch that the driver refuses",
    "CUDA_ERROR_OUT_OF_MEMORY": "too much memory",
}


ERROR = re.compile(r"CUDA_ERROR_[A-Z0-9_]{1,60}")


class PlayerFaultError(Exception):
    """The team's kernels failed; the text says how."""


class JudgeError(Exception):
    """The judge cannot measure on this machine; the text says why."""


class PlayerProcess:
    """The process with the team's kernels; ``closing`` ends it."""

    def __init__(
        self, source: Path, bench: Bench, convolutions: Sequence[Mapping[str, Any]]
    ) -> None:
        ours, its = channel.pair()
        self._judge = ours
        self._random = SystemRandom()
        self._page_file = os.memfd_create("rai-page")
        os.ftruncate(self._page_file, PAGE_BYTES)
        self._page = mmap.mmap(self._page_file, PAGE_BYTES)
        try:
            self._process = _spawn(its)
        finally:
            its.close()
        try:
            self._start(source / "compiled", bench, convolutions)
        except BaseException:
            self.close()
            raise

    def _start(
        self, compiled: Path, bench: Bench, convolutions: Sequence[Mapping[str, Any]]
    ) -> None:
        units = sorted({each["unit"] for each in convolutions})
        setup = {
            "cubins": [str(compiled / f"{unit}.cubin") for unit in units],
            "convolutions": [
                {**each, "unit": units.index(each["unit"])} for each in convolutions
            ],
            "clocks": str(Path(__file__).with_name("clocks.ptx")),
            "regions": [bench.read_only.size, bench.shared.size],
        }
        descriptors = *bench.descriptors(), os.dup(self._page_file)
        try:
            self._send(setup, descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        self._confined()
        ends = perf_counter() + LONGEST_START_S
        self._answer(ends, f"load within {LONGEST_START_S:g} s")

    def _confined(self) -> None:
        """Wait until the player has given up its rights; nothing of the team's ran."""
        try:
            answer, _ = channel.receive(self._judge, LONGEST_START_S)
        except channel.ChannelError as error:
            raise JudgeError(f"the player does not start: {error}") from None
        if "confined" not in answer:
            why = answer.get("fault") or answer.get("failed")
            raise JudgeError(f"the player does not start: {why}")

    def _send(self, message: channel.Message, descriptors: Sequence[int] = ()) -> None:
        try:
            channel.send(self._judge, message, descriptors)
        except channel.ChannelError as error:
            raise PlayerFaultError(str(error)) from None

    def call(
        self,
        layer: int,
        offsets: Mapping[str, int],
        look: Callable[[], bytes],
        *,
        stamped: bool,
    ) -> tuple[float, bytes, float]:
        """Have a layer computed; return the time in ms by our own clock.

        It ends when the GPU has written a secret number to a secret place, after all
        kernels. ``look`` then looks at the output at once, and what it saw is returned
        too: who writes that number early is seen by what is missing there. At last
        comes the SM clock in MHz during a ``stamped`` call, as the player says it.
        """
        word = 4 * self._random.randrange(FIRST_WORD // 4, PAGE_BYTES // 4)
        value = self._random.randrange(1, 1 << 32)
        page, awaited = self._page, value.to_bytes(4, sys.byteorder)
        page[word : word + 4] = bytes(4)
        page[GO_AT] = 0
        ends = perf_counter() + LONGEST_CALL_S
        call = {"convolution": layer, "offsets": dict(offsets), "stamped": stamped}
        self._send({**call, "word": word, "value": value})
        self._answer(ends, "answer in time")
        began = perf_counter()
        page[GO_AT] = 1
        for turn in count(1):
            if page[word : word + 4] == awaited:
                break
            if turn % TURNS:
                continue
            if perf_counter() > ends or channel.ready(self._judge):
                break
        done = perf_counter()
        seen = look()
        answer = self._answer(ends, f"end within {LONGEST_CALL_S:g} s")
        if page[word : word + 4] != awaited:
            raise PlayerFaultError("their process says that it is done, and is not")
        return 1000 * (done - began), seen, sm_mhz(answer)

    def _answer(self, ends: float, what: str) -> channel.Message:
        try:
            answer, _ = channel.receive(self._judge, max(0.0, ends - perf_counter()))
        except channel.LateError:
            raise PlayerFaultError(f"they did not {what}") from None
        except channel.ChannelError:
            raise PlayerFaultError("their process ended") from None
        if name := answer.get("fault"):
            raise PlayerFaultError(fault_words(name))
        if "failed" in answer:
            raise PlayerFaultError("their process failed")
        return answer

    def close(self) -> None:
        """Kill the process; raise JudgeError if the driver does not let go of it."""
        self._judge.close()
        os.close(self._page_file)
        self._process.kill()
        try:
            self._process.wait(LONGEST_END_S)
        except subprocess.TimeoutExpired:
            text = f"the player did not end within {LONGEST_END_S:g} s of being killed"
            raise JudgeError(f"{text}; the GPU may hang") from None


def _spawn(its: socket.socket) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "CUDA_MODULE_LOADING": "EAGER",
        "CUDA_CACHE_DISABLE": "1",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "runner.judge.player", str(its.fileno())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(its.fileno(),),
        env=environment,
        start_new_session=True,
    )


def fault_words(name: object) -> str:
    """Return a fault in words; the player may be the team's by now."""
    if not isinstance(name, str) or not ERROR.fullmatch(name):
        return "their process sends what is no answer"
    return FAULTS.get(name, name)


def sm_mhz(answer: channel.Message) -> float:
    """Return the SM clock of an answer, if it can be one."""
    value = answer.get("sm_mhz")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PlayerFaultError("their process sends what is no answer")
    if not 0 <= value <= MOST_MHZ:  # nor is NaN
        raise PlayerFaultError(f"a clock cannot be {str(value)[:20]} MHz")
    return float(value)

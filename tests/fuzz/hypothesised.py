"""Fuzz by Hypothesis, where Atheris is not installed."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import Target

A_TIME = 500
MOST_BYTES = 2048


def inputs(fuzzed: Target) -> st.SearchStrategy[bytes]:
    """Return bytes, and inputs of the corpus that are changed in a place."""
    kept = st.sampled_from(fuzzed.kept())
    changed = st.builds(_spliced, kept, st.integers(0, 1 << 16), st.binary(max_size=8))
    return st.one_of(
        st.binary(max_size=MOST_BYTES), changed, st.builds(_joined, kept, kept)
    )


def fuzz(fuzzed: Target, seconds: int, slowest_s: int, folder: Path) -> None:
    """Try inputs for some time; the smallest that fails is kept and raised."""
    last = b""

    @given(inputs(fuzzed))
    @settings(
        max_examples=A_TIME,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def tried(data: bytes) -> None:
        nonlocal last
        last = data
        with _within(slowest_s):
            fuzzed.one(data)

    until, times = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        try:
            tried()
        except BaseException:
            (folder / "crash").write_bytes(last)
            raise
        times += A_TIME
    sys.stderr.write(f"{fuzzed.name}: {times} inputs\n")


@contextmanager
def _within(seconds: int) -> Iterator[None]:
    def late(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"one input takes over {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _spliced(data: bytes, place: int, piece: bytes) -> bytes:
    at = place % (len(data) + 1)
    return data[:at] + piece + data[at + len(piece) :]


def _joined(one: bytes, other: bytes) -> bytes:
    return one + other

"""Read an iterator in a thread, so that the caller can stop waiting for it."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")

DEPTH = 16
MOST_LAST_BYTES = 32 << 20
WAIT_S = 0.2
ASK_S = 0.5


class BackgroundReader(Generic[T]):
    """A queue of a source's items, filled by a thread that waits while it is full.

    ``hang_up`` makes the source end, and may be called while the source is read.
    While the queue is full, ``is_last`` is called now and then: once it returns true,
    the rest, which is little and would be lost, is read without waiting. If it is not
    little, as somebody else goes on writing, it waits again.
    """

    def __init__(
        self,
        source: Callable[[], Iterable[T]],
        hang_up: Callable[[], None],
        is_last: Callable[[], bool] = lambda: False,
    ) -> None:
        self.done = False
        self._is_last = is_last
        self._last_bytes: int | None = None
        self._ask_at = time.monotonic() + ASK_S
        self._queue: queue.Queue[tuple[T] | None] = queue.Queue(DEPTH)
        self._hang_up = hang_up
        self._closed = threading.Event()
        self._failure: Exception | None = None
        # A daemon: a source that does not end must not keep the process alive.
        threading.Thread(target=self._read, args=[source], daemon=True).start()

    def take(self, timeout_s: float) -> T | None:
        """Return the next item; None if none came in time or the source ended.

        Raise what the source raised.
        """
        if self.done:
            return None
        try:
            item = self._queue.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if item is None:
            self.done = True
            if self._failure is not None:
                raise self._failure
            return None
        return item[0]

    def close(self) -> None:
        """End the source, and drop the items that were not taken."""
        self._closed.set()
        if not self.done:
            self._hang_up()

    def _read(self, source: Callable[[], Iterable[T]]) -> None:
        try:
            for item in source():
                if not self._put((item,)):
                    return
        except Exception as error:
            self._failure = error
        finally:
            self._put(None)

    def _put(self, item: tuple[T] | None) -> bool:
        while not self._closed.is_set():
            now = time.monotonic()
            waits = self._queue.full() and self._last_bytes is None
            if waits and now >= self._ask_at:
                self._ask_at = now + ASK_S
                if self._is_last():
                    self._queue.maxsize = 0  # unbounded
                    self._last_bytes = 0
            try:
                self._queue.put(item, timeout=WAIT_S)
            except queue.Full:
                continue
            if self._last_bytes is not None and item and isinstance(item[0], bytes):
                self._last_bytes += len(item[0])
                if self._last_bytes > MOST_LAST_BYTES:  # bounded again
                    self._queue.maxsize = DEPTH
            return True
        return False

"""An iterator that is read in a thread, so that its reader can do without it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")

DEPTH = 16


class Feed(Generic[T]):
    """Items as they come; reading stops while nobody takes them.

    ``hang_up`` makes the source end; it may be called while the source is being read.
    """

    def __init__(
        self, source: Callable[[], Iterable[T]], hang_up: Callable[[], None]
    ) -> None:
        self.done = False
        self._queue: queue.Queue[tuple[T] | None] = queue.Queue(DEPTH)
        self._hang_up = hang_up
        self._closed = threading.Event()
        self._pool = ThreadPoolExecutor(1, "feed")
        self._reading: Future[None] = self._pool.submit(self._read, source)

    def take(self, timeout_s: float) -> T | None:
        """Give the next item; None where none came in time, or none will.

        Raises what the source raised.
        """
        if self.done:
            return None
        try:
            item = self._queue.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if item is None:
            self.done = True
            self._reading.result()
            return None
        return item[0]

    def close(self) -> None:
        """End the source, and forget what was not taken."""
        self._closed.set()
        if not self.done:
            self._hang_up()
        self._pool.shutdown(wait=False)

    def _read(self, source: Callable[[], Iterable[T]]) -> None:
        try:
            for item in source():
                if not self._put((item,)):
                    return
        finally:
            self._put(None)

    def _put(self, item: tuple[T] | None) -> bool:
        while not self._closed.is_set():
            try:
                self._queue.put(item, timeout=0.2)
            except queue.Full:
                continue
            return True
        return False

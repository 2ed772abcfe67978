"""That a file cannot be had."""

from __future__ import annotations


class FailedError(Exception):
    """A file cannot be had; the text continues a sentence."""

    def __init__(self, why: str, *, again: bool = False, down: bool = False) -> None:
        super().__init__(why)
        self.again = again
        self.down = down

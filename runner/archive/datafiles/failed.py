"""The error of a data file that is not available."""

from __future__ import annotations


class UnavailableError(Exception):
    """A file is not available; the text continues the sentence "..., and"."""

    def __init__(
        self, why: str, *, retry: bool = False, unreachable: bool = False
    ) -> None:
        super().__init__(why)
        self.retry = retry
        self.unreachable = unreachable

"""How many bytes of data files a run may have, and whether the disk has room."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from runner import files
from runner.core import LIMITS, Limits, Problem
from runner.core.caps import SPARE_BYTES
from runner.core.errors import ConfigError, NotAllowedError
from runner.core.quantities import size_text
from runner.core.units import MIB

_LIMIT = next(limit for limit in LIMITS if limit.key == "data")


class Room:
    """The bytes that the data files of one run may still have.

    ``keep`` is called before bytes are added to those that are kept on this machine,
    and may remove others; it raises RaiError if they are too many.
    """

    def __init__(
        self, limits: Limits, cache: Path, keep: Callable[[int], None]
    ) -> None:
        self._most = self._left = limits.data_bytes
        self._cache, self._keep = cache, keep

    def need(self, size: int) -> None:
        """Raise NotAllowedError if one more file of this size is too much."""
        if size > self._left:
            text = (
                f"the data files of the run take more than {size_text(self._most)}, its"
                f" limit resources.limits.{_LIMIT.key}"
            )
            hint = f"raise it, e.g. `limits: {{data: {size_text(2 * self._most)}}}`"
            raise NotAllowedError(Problem(text, hint=hint))

    def take(self, size: int) -> None:
        """Count a file; raise NotAllowedError if it is too large."""
        self.need(size)
        self._left -= size

    def make(self, size: int) -> None:
        """Make room for bytes that are downloaded; raise RaiError if there is none."""
        self._keep(size)
        check_disk(self._cache, size)


def check_disk(folder: Path, size: int) -> None:
    """Raise ConfigError if a folder's disk is nearly full with so many bytes more."""
    if (left := free(folder) - size) < SPARE_BYTES:
        mount = files.mount(folder)
        text = (
            f"{size / MIB:,.0f} MiB of data files do not fit on the disk of {mount}:"
            f" {max(left, 0) / MIB:,.0f} MiB would be left, and rai leaves"
            f" {SPARE_BYTES / MIB:,.0f}"
        )
        hint = "remove files, or runs by `rai prune --older 1d`"
        raise ConfigError(Problem(text, hint=hint))


def free(folder: Path) -> float:
    """Return the free bytes of a folder's disk; infinite where it does not say."""
    with suppress(OSError):
        usage = shutil.disk_usage(folder)
        if usage.total:
            return usage.free
    return math.inf

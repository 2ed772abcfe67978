"""Read rai-kernels.json, which a project wrote: whatever may be in it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from runner import files
from runner.core.kernel_shapes import FILE, FORMAT, KernelShapes

MOST_ENTRIES = 10_000
"""Of layers, and of kernels."""


def read(folder: Path, most_bytes: int) -> tuple[KernelShapes | None, str]:
    """Return what the file says, and why it cannot be used, "" if it can."""
    try:
        data = files.read_below(folder, FILE, most_bytes)
        found = msgspec.json.decode(data, type=KernelShapes)
    except (OSError, ValueError, RecursionError) as error:
        return None, f"{FILE} cannot be read: {error}"
    if found.format != FORMAT:
        why = f"its format is {found.format}; this rai reads {FORMAT}"
        return None, f"{FILE} is not read: {why}"
    if max(len(found.layers), len(found.kernels)) > MOST_ENTRIES:
        return None, f"{FILE} is not read: it has over {MOST_ENTRIES} entries"
    return found, ""

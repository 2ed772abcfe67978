"""Read rai-kernels.json, which a project wrote: whatever may be in it."""

from __future__ import annotations

from pathlib import Path

from runner import files
from runner.core import kernel_shapes_reader
from runner.core.kernel_shapes import FILE, KernelShapes


def read(folder: Path) -> tuple[KernelShapes | None, tuple[str, ...]]:
    """Return what the file says, and what is wrong with it."""
    try:
        most = kernel_shapes_reader.MOST_BYTES
        data = files.read_below(folder, FILE, most)
    except OSError as error:
        return None, (f"{FILE} cannot be read: {error.strerror}",)
    found, problems = kernel_shapes_reader.read(data)
    return found, tuple(problem.message for problem in problems)

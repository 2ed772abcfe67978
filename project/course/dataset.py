"""Read Fashion-MNIST from IDX files, plain or gzipped.

The format is that of http://yann.lecun.com/exdb/mnist: a big-endian header of the
element type, the number of dimensions and each dimension, then the elements.
"""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from collections.abc import Iterator
from math import prod
from pathlib import Path

import numpy as np
from course.editions import CLASSES
from course.errors import ProjectError

TEST = "t10k"
TRAIN = "train"
UNSIGNED_BYTES = 0x08
MOST_BYTES = 1 << 30
GZIP = b"\x1f\x8b"  # magic of gzip files; IDX files begin with zeros


def folders() -> Iterator[Path]:
    """Yield the folders to search for the files, in order."""
    given = os.environ.get("RAI_DATA_DIR")
    checkout = Path(__file__).resolve().parents[2]
    for root in ([Path(given)] if given else []) + [checkout / "data"]:
        yield root / "fashion-mnist"
        yield root


def available(part: str) -> bool:
    """Return whether the images of a part are found."""
    return _find(f"{part}-images-idx3-ubyte") is not None


def _find(name: str) -> Path | None:
    paths = (place / f"{name}{end}" for place in folders() for end in ("", ".gz"))
    return next(filter(Path.is_file, paths), None)


def _require(name: str) -> Path:
    path = _find(name)
    if path is None:
        raise ProjectError(
            f"{name}[.gz] not found; set RAI_DATA_DIR to the folder that contains it"
        )
    return path


def load(part: str) -> tuple[np.ndarray, np.ndarray]:
    """Read a part's images, N x rows x columns, and labels; raise ProjectError."""
    path = _require(f"{part}-images-idx3-ubyte")
    labels_path = _require(f"{part}-labels-idx1-ubyte")
    images, labels = read_idx(path, 3), read_idx(labels_path, 1)
    count, rows, columns = images.shape
    if not count or not rows or rows != columns:
        raise ProjectError(
            f"{path}: {count} images of {rows} x {columns} pixels; expected at least "
            "one, and square images"
        )
    if len(images) != len(labels):
        raise ProjectError(f"{path}: {len(images)} images, but {len(labels)} labels")
    if labels.max() >= CLASSES:
        raise ProjectError(
            f"{labels_path}: label {labels.max()} is greater than {CLASSES - 1}"
        )
    return images, labels


def read_idx(path: Path, dimensions: int) -> np.ndarray:
    """Read a file of unsigned bytes in big-endian IDX; raise ProjectError."""
    try:
        with path.open("rb") as file:
            # Browsers may unpack a download without renaming it: trust the content.
            packed = file.read(2) == GZIP
            file.seek(0)
            plain = gzip.GzipFile(fileobj=file) if packed else file
            shape = _shape(plain.read(4 * (1 + dimensions)), dimensions, path)
            content = plain.read(prod(shape) + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ProjectError(f"{path}: damaged: {error}; download it again") from None
    if len(content) != prod(shape):
        kind = "truncated" if len(content) < prod(shape) else "too long"
        raise ProjectError(f"{path}: {kind} for its shape {shape}; download it again")
    return np.frombuffer(content, np.uint8).reshape(shape)


def _shape(header: bytes, dimensions: int, path: Path) -> tuple[int, ...]:
    if len(header) < 4 * (1 + dimensions):
        raise ProjectError(f"{path}: the header is truncated; download it again")
    magic, *shape = struct.unpack(f">{1 + dimensions}I", header)
    expected = UNSIGNED_BYTES << 8 | dimensions
    if magic != expected:
        raise ProjectError(
            f"{path}: not a big-endian IDX file of bytes in {dimensions} dimensions "
            f"(magic {magic:#x})"
        )
    if prod(size or 1 for size in shape) > MOST_BYTES:
        raise ProjectError(f"{path}: damaged: shape {shape}; download it again")
    return tuple(shape)

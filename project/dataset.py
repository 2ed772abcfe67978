"""Fashion-MNIST from IDX files, plain or gzipped."""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from collections.abc import Iterator
from math import prod
from pathlib import Path

import numpy as np
from editions import CLASSES
from errors import ProjectError

TEST = "t10k"
TRAIN = "train"
UNSIGNED_BYTES = 0x08
MOST_BYTES = 1 << 30


def folders() -> Iterator[Path]:
    """Say where the files may lie, in the order of search."""
    given = os.environ.get("RAI_DATA_DIR")
    checkout = Path(__file__).resolve().parent.parent
    for root in ([Path(given)] if given else []) + [checkout / "data"]:
        yield root / "fashion-mnist"
        yield root


def available(part: str) -> bool:
    """Say whether the images of a part can be had."""
    return _find(f"{part}-images-idx3-ubyte") is not None


def _find(name: str) -> Path | None:
    for folder in folders():
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                return path
    return None


def _require(name: str) -> Path:
    path = _find(name)
    if path is None:
        raise ProjectError(
            f"{name}[.gz] is missing; set RAI_DATA_DIR to the folder that has it"
        )
    return path


def load(part: str) -> tuple[np.ndarray, np.ndarray]:
    """Read the images and the labels of a part."""
    path = _require(f"{part}-images-idx3-ubyte")
    labels_path = _require(f"{part}-labels-idx1-ubyte")
    images, labels = read_idx(path, 3), read_idx(labels_path, 1)
    if len(images) != len(labels):
        raise ProjectError(f"{path}: {len(images)} images, but {len(labels)} labels")
    if len(labels) and labels.max() >= CLASSES:
        raise ProjectError(f"{labels_path}: label {labels.max()} is over {CLASSES - 1}")
    return images, labels


def read_idx(path: Path, dimensions: int) -> np.ndarray:
    """Read one file of unsigned bytes in big-endian IDX."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as file:
            shape = _shape(file.read(4 * (1 + dimensions)), dimensions, path)
            content = file.read(prod(shape) + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ProjectError(f"{path}: damaged: {error}; download it again") from None
    if len(content) != prod(shape):
        kind = "truncated" if len(content) < prod(shape) else "too long"
        raise ProjectError(f"{path}: {kind} for its shape {shape}; download it again")
    return np.frombuffer(content, np.uint8).reshape(shape)


def _shape(header: bytes, dimensions: int, path: Path) -> tuple[int, ...]:
    if len(header) < 4 * (1 + dimensions):
        raise ProjectError(f"{path}: truncated in its header; download it again")
    magic, *shape = struct.unpack(f">{1 + dimensions}I", header)
    if magic != UNSIGNED_BYTES << 8 | dimensions:
        raise ProjectError(
            f"{path}: not big-endian IDX of {dimensions} dimensions (magic {magic:#x})"
        )
    if prod(shape) > MOST_BYTES:
        raise ProjectError(f"{path}: damaged: a shape of {shape}; download it again")
    return tuple(shape)

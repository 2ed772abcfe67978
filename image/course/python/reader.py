"""Read Fashion-MNIST, for projects without the course's module of this name."""

from __future__ import annotations

import gzip

import numpy as np

HEADERS = {"images-idx3": 16, "labels-idx1": 8}  # bytes


def load_mnist(
    path: str, rows: int = 0, cols: int = 0, kind: str = "t10k"
) -> tuple[np.ndarray, np.ndarray]:
    """Return images and labels: N x 1 x rows x cols, or N x 784 without a size."""
    images, labels = (
        _read(f"{path}/{kind}-{n}-ubyte.gz", h) for n, h in HEADERS.items()
    )
    shape = (1, rows, cols) if rows else (784,)
    return images.reshape(len(labels), *shape), labels


def _read(path: str, header: int) -> np.ndarray:
    with gzip.open(path) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)

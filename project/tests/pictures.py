"""A set of images of our own, in the files that Fashion-MNIST comes in."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
from course import checkpoints, dataset, editions
from milestones import synthetic

COUNT = 1000
WRONG = 10  # one label in so many is not what the network finds


def idx(array: np.ndarray) -> bytes:
    """Write bytes as an IDX file says them."""
    head = struct.pack(f">{1 + array.ndim}I", 0x800 | array.ndim, *array.shape)
    return head + array.astype(np.uint8).tobytes()


def write(folder: Path) -> None:
    """Store images to test and to train with, and labels that are mostly right."""
    model = checkpoints.load(editions.DEFAULT, editions.DEFAULT.model("ece408"))
    images = synthetic.images()[:COUNT]
    labels = synthetic.labels(model, COUNT)
    labels[::WRONG] = (labels[::WRONG] + 1) % 10
    for name in (dataset.TEST, dataset.TRAIN):
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            path = folder / f"{name}-{kind}-ubyte.gz"
            path.write_bytes(gzip.compress(idx(array), mtime=0))

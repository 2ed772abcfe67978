"""The GPU kernels of the other layers: one file and one launch each."""

from __future__ import annotations

from course.variants import Launch, Params, tiles

THREADS: Params = {"THREADS": 256}
DENSE: Params = {"ROWS": 64, "COLUMNS": 80, "DEPTH": 16}
SOFTMAX: Params = {"THREADS": 64}

LAYERS = dict.fromkeys(("bytes", "halves", "tanh", "pooling"), THREADS)
LAYERS |= {"dense": DENSE, "softmax": SOFTMAX}
"""Every file ``cuda/network/<name>.cu`` of a layer, and its macros."""

DENSE_THREADS = 16  # along each side of a block


def plan_bytes(images: int, pixels: int) -> Launch:
    """Launch one thread per pixel, one row of blocks per image."""
    return _a_row_per_image("bytes_to_floats", ("y", "x"), images, pixels)


def plan_halves(images: int, floats: int) -> Launch:
    """Launch one thread per element, one row of blocks per image."""
    return _a_row_per_image("floats_to_halves", ("y", "x"), images, floats)


def plan_tanh(images: int, floats: int) -> Launch:
    """Launch one thread per element, one row of blocks per image."""
    return _a_row_per_image("tanh_in_place", ("y",), images, floats)


def _a_row_per_image(
    kernel: str, buffers: tuple[str, ...], images: int, length: int, *numbers: int
) -> Launch:
    threads = THREADS["THREADS"]
    grid = (tiles(length, threads), images, 1)
    return Launch(kernel, grid, (threads, 1, 1), buffers, numbers or (length,))


def plan_pooling(images: int, maps: int, rows: int, columns: int) -> Launch:
    """Launch one thread per output pixel, one row of blocks per image."""
    left = maps * (rows // 2) * (columns // 2)
    sizes = maps, rows, columns
    return _a_row_per_image("pooling", ("y", "x"), images, left, *sizes)


def plan_dense(images: int, inputs: int, outputs: int) -> Launch:
    """Launch one block per tile of ROWS images and COLUMNS outputs."""
    return Launch(
        "dense",
        grid=(tiles(images, DENSE["ROWS"]), tiles(outputs, DENSE["COLUMNS"]), 1),
        block=(DENSE_THREADS, DENSE_THREADS, 1),
        buffers=("y", "x", "weights", "bias"),
        numbers=(images, inputs, outputs),
    )


def plan_softmax(images: int, classes: int) -> Launch:
    """Launch one thread per image, which has only ten classes."""
    threads = SOFTMAX["THREADS"]
    grid = (tiles(images, threads), 1, 1)
    return Launch("softmax", grid, (threads, 1, 1), ("y",), (images, classes))

"""Convolve batches by variants, for a checker of CUDA programs to watch.

python -m project.tests.sanitized FOLDER VARIANT ...
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from course.shapes import ConvShape
from gpu.device import Device

from project.tests.guarded import SERVING, many, numbers, served, stored

SHAPES = (
    ConvShape(3, 12, 1, 70, 70, 5),
    ConvShape(3, 24, 12, 33, 33, 5),
    ConvShape(2, 7, 5, 17, 23, 3),
    ConvShape(1, 5, 1, 20, 31, 7),
)
SMALL = (ConvShape(1, 5, 1, 13, 14, 5), ConvShape(1, 16, 3, 10, 12, 3))
"""Of many images, so that persistent blocks compute several each."""


def main(folder: str, *names: str) -> None:
    """Convolve by each variant in each shape: finite images, then one with a NaN."""
    rng = np.random.default_rng(5)
    with Device() as device:
        steady = [replace(s, B=images) for images in many(device) for s in SMALL]
        for name in names:
            variant = SERVING[name]
            small = [*served(variant, device, steady, Path(folder))]
            # One kernel serves only the second layer.
            few = (*SHAPES, *([] if small else [replace(SHAPES[1], B=steady[0].B)]))
            ready = [*served(variant, device, few, Path(folder)), *small]
            for shape, convolution in ready:
                x, k = numbers(rng, shape)
                for strange in (1, np.nan):
                    x[0, 0, 0, 0] = strange
                    there = [device.upload(stored(variant, a)) for a in (x, k)]
                    y = device.empty((shape.B, shape.M, shape.H_out, shape.W_out))
                    convolution.start(y, *there)
                    device.wait()
    print(f"convolved by {len(names)}")


if __name__ == "__main__":
    main(*sys.argv[1:])

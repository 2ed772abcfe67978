"""Convolve small batches by variants, for a checker of CUDA programs to watch.

python -m project.tests.sanitized FOLDER VARIANT ...
"""

import sys
from pathlib import Path

import numpy as np
from course.shapes import ConvShape
from gpu.device import Device

from project.tests.guarded import SERVING, prepared, stored

SHAPES = (
    ConvShape(3, 12, 1, 70, 70, 5),
    ConvShape(3, 24, 12, 33, 33, 5),
    ConvShape(2, 7, 5, 17, 23, 3),
    ConvShape(1, 5, 1, 20, 31, 7),
)


def main(folder: str, *names: str) -> None:
    """Convolve by each variant in each shape: finite images, then one with a NaN."""
    rng = np.random.default_rng(5)
    with Device() as device:
        for name in names:
            variant = SERVING[name]
            serves = [s for s in SHAPES if not variant.refusal(s, device.gpu)]
            ready = prepared(device, variant, serves, Path(folder))
            for shape, convolution in zip(serves, ready, strict=True):
                sizes = (shape.B, shape.C, shape.H, shape.W)
                x = rng.standard_normal(sizes, np.float32)
                k = rng.standard_normal((shape.M, shape.C, *2 * (shape.K,)), np.float32)
                for strange in (1, np.nan):
                    x[0, 0, 0, 0] = strange
                    there = [device.upload(stored(variant, a)) for a in (x, k)]
                    y = device.empty((shape.B, shape.M, shape.H_out, shape.W_out))
                    convolution.start(y, *there)
                    device.wait()
    print(f"convolved by {len(names)}")


if __name__ == "__main__":
    main(*sys.argv[1:])

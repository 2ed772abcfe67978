"""Compare a convolution with float64 on the GPU: every output, without a download."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from course import shapes
from course.variants import FP32, Launch, Variant
from gpu import device_convolution
from gpu.compiler import Unit
from gpu.device import Device, DeviceArray

THREADS = 256
UNIT = Unit("float64", (("THREADS", THREADS),), Path(__file__).parent)
WORST = 4e-6
"""What fp32 promises of each element, for sums of 300 products."""


@dataclass(frozen=True, slots=True)
class Errors:
    """How far each image of a result is from float64."""

    wrong: np.ndarray  # the sum of the squares of y - right
    right: np.ndarray  # the sum of the squares of what is right
    worst: np.ndarray  # the largest |y - right| / sum |x||k| of an element
    missing: np.ndarray  # elements that are not finite where they should be, or are not

    @property
    def norms(self) -> np.ndarray:
        """Return ||y - right|| / ||right|| of each image; ||y|| if right is zero."""
        return np.sqrt(self.wrong / np.where(self.right, self.right, 1))

    @property
    def norm(self) -> float:
        """Return ||y - right|| / ||right|| of all images."""
        return float(np.sqrt(self.wrong.sum() / (self.right.sum() or 1)))

    @property
    def by_element(self) -> float:
        """Return the worst |y - right| / sum |x||k| of all images."""
        return float(self.worst.max())

    def fault(self, part: Variant) -> str | None:
        """Return what a variant does not keep to; None if it is right."""
        if missing := int(self.missing.sum()):
            return f"{missing} elements are not written, or not finite"
        if self.norm > part.rtol:
            return f"the error is {self.norm:.1e}, more than {part.rtol:.0e}"
        if promised(part) and self.by_element > WORST:
            return (
                f"an element is wrong by {self.by_element:.1e} of its sum |x||k|, "
                f"more than {WORST:.0e}"
            )
        return None


def promised(part: Variant) -> bool:
    """Return whether a variant keeps to ``WORST`` for every element."""
    return part.accuracy == FP32 and part.elementwise


class Float64:
    """The reference on an open GPU."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._module = device_convolution.load(device, [UNIT])[UNIT]

    def errors(self, y: DeviceArray, x: DeviceArray, k: DeviceArray) -> Errors:
        """Compare y with the convolution of x and k; all are float32.

        Raises ValueError where the shapes do not fit.
        """
        s = shapes.between(y.shape, x.shape, k.shape)
        found = self._device.empty((s.B, 4), "float64")
        block = ((s.B, 1, 1), (THREADS, 1, 1))
        sizes = (s.M, s.C, s.H, s.W, s.K)
        launch = Launch("compare", *block, ("found", "y", "x", "k"), sizes)
        self._module.launch(launch, {"found": found, "y": y, "x": x, "k": k})
        return Errors(*self._device.download(found).T)

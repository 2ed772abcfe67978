"""Convolutions between guards: bytes around each array that nobody may write or use."""

import shutil
from dataclasses import replace

import numpy as np
from course.variants import HALF
from gpu import compiler, device_convolution
from gpu.compiler import FOLDER
from gpu.device import DeviceArray
from gpu.device_convolution import DeviceConvolution
from host import reference
from plans.kernels import VARIANTS

GUARD = 4096  # bytes on either side, all ones: NaN to who reads them as numbers
FILL = 255


# Every variant, and all that may compute for one: the first choice hides the others.
SERVING = {
    f"{part.name}-{part.accuracy}": part
    for whole in VARIANTS.values()
    for part in (whole, *whole.parts)
}


class Guarded:
    """An array in the GPU's memory between two guards."""

    def __init__(self, device, shape, dtype):
        self._device, self._dtype = device, np.dtype(dtype)
        self._bytes = int(np.prod(shape)) * self._dtype.itemsize
        self._whole = device.empty((2 * GUARD + self._bytes,), "uint8")
        device.fill(self._whole, FILL)
        at = self._whole.address + GUARD
        self.array = DeviceArray(tuple(shape), self._dtype, at)

    def put(self, values):
        """Write the numbers; the guards stay."""
        whole = np.full(self._whole.shape, FILL, np.uint8)
        inside = np.ascontiguousarray(values, self._dtype)
        whole[GUARD : GUARD + self._bytes] = inside.view(np.uint8).ravel()
        self._whole = self._device.upload(whole)
        at = self._whole.address + GUARD
        self.array = DeviceArray(self.array.shape, self._dtype, at)
        return self

    def get(self):
        """Return the numbers; fail where a guard was written."""
        whole = self._device.download(self._whole)
        for guard in (whole[:GUARD], whole[GUARD + self._bytes :]):
            written = np.flatnonzero(guard != FILL)
            assert not written.size, f"{written.size} bytes of guards are written"
        inside = whole[GUARD : GUARD + self._bytes]
        return inside.view(self._dtype).reshape(self.array.shape)


def mistaken(name, right, wrong, folder):
    """Write a kernel with a mistake into a folder, among all others."""
    shutil.copytree(FOLDER, folder, dirs_exist_ok=True)
    path = folder / f"{compiler.below(name)}.cu"
    text = path.read_text()
    assert right in text
    path.write_text(text.replace(right, wrong))


def stored(variant, numbers):
    """Return numbers as a variant finds them in memory."""
    return np.asarray(numbers, variant.storage)


def prepared(device, variant, shapes, folder=None):
    """Load what a variant needs for shapes, compiled at the same time."""
    parts = [variant.serve(shape, device.gpu) for shape in shapes]
    units = list(map(compiler.unit_of, parts, shapes))
    if folder is not None:
        units = [replace(unit, folder=folder) for unit in units]
    modules = device_convolution.load(device, units)
    return [
        DeviceConvolution(device, part, shape, modules[unit])
        for part, shape, unit in zip(parts, shapes, units, strict=True)
    ]


def convolved(device, convolution, x, k, storage="float32"):
    """Convolve into NaN, between guards; inputs must be left alone."""
    return _convolved(device, convolution, x, k, storage).get()


def compared(device, float64, convolution, x, k, storage="float32"):
    """Convolve as above; compare every output with float64 on the GPU."""
    y = _convolved(device, convolution, x, k, storage)
    found = float64.errors(y.array, *map(device.upload, (x, k)))
    y.get()
    return found


def _convolved(device, convolution, x, k, storage):
    images, maps, kernel = len(x), len(k), k.shape[2]
    sides = (side - kernel + 1 for side in x.shape[2:])
    y = Guarded(device, (images, maps, *sides), "float32")
    there = [Guarded(device, a.shape, storage).put(a) for a in (x, k)]
    convolution.start(y.array, *(a.array for a in there))
    device.wait()
    for before, after in zip((x, k), there, strict=True):
        expected = np.asarray(before, storage)
        assert np.array_equal(after.get(), expected, equal_nan=True)
    return y


def numbers(rng, shape):
    """Draw images and weights."""
    x = rng.standard_normal((shape.B, shape.C, shape.H, shape.W), np.float32)
    k = rng.standard_normal((shape.M, shape.C, shape.K, shape.K), np.float32)
    return x, k


def served(variant, device, shapes, folder=None):
    """Load a variant for those of the shapes that it serves."""
    serves = [s for s in shapes if variant.refusal(s, device.gpu) is None]
    return zip(serves, prepared(device, variant, serves, folder), strict=True)


def many(device):
    """Return numbers of images of which persistent blocks compute several each."""
    return 2 * device.gpu.multiprocessors + 1, 3 * device.gpu.multiprocessors + 5


def gold(x, k):
    """Convolve in float64."""
    sides = (side - k.shape[2] + 1 for side in x.shape[2:])
    y = np.empty((len(x), len(k), *sides))
    reference.convolve(y, x.astype(float), k.astype(float))
    return y


def error(y, expected, products):
    """Return ||y - expected|| / ||expected||; what is not finite is infinitely far."""
    if not np.isfinite(y).all():
        return np.inf
    # Of few outputs each may by chance be next to nothing, beside its products.
    usual = products * expected.size**0.5
    return np.linalg.norm(y - expected) / max(np.linalg.norm(expected), usual, 1e-300)


def bound(variant, shape):
    """Return the error that a variant may have: it grows with the products of a sum.

    A tolerance is for the mean over many outputs. Single outputs scatter around it.
    """
    products = shape.C * shape.K * shape.K
    outputs = shape.B * shape.floats_out
    scatter = 1 + 3 / outputs**0.5
    rounding = 2 if variant.accuracy == HALF else 1  # of x and of k beside the sums
    return scatter * rounding * variant.rtol * max(1, products / 300) ** 0.5

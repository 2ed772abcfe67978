"""The network on the GPU, with a kernel of our own for every layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from course import shapes
from course.network import OwnKernels
from course.shapes import ConvShape
from course.variants import MOST_GRID, Launch, Variant
from gpu import compiler, device_convolution
from gpu.compiler import Unit, defines
from gpu.device import Device, DeviceArray, Module
from gpu.device_convolution import DeviceConvolution
from plans import layers

from backends.layerwise import Layerwise

SHARE_OF_MEMORY = 0.9  # of the free memory; the rest is for weights and fragmentation
FLOAT = 4  # bytes
LAYER_UNITS = {
    name: Unit(f"network/{name}", defines(p)) for name, p in layers.LAYERS.items()
}


class CudaGpu(Layerwise[DeviceArray]):
    """The network on an open device, its convolutions by a variant if one is given."""

    name = "cuda"
    batch = MOST_GRID[2]

    def __init__(self, device: Device, variant: Variant | None = None) -> None:
        self.device = device
        self.variant = variant
        self._modules: dict[Unit, Module] = {}
        self._ready: dict[ConvShape, DeviceConvolution] = {}

    def prepare(self, convolutions: Sequence[ConvShape]) -> str | None:
        """Choose how many images fit in memory; compile and load all kernels.

        Raises UsageError for a shape that the variant does not support.
        """
        gpu = self.device.gpu
        room = int(SHARE_OF_MEMORY * self.device.free_bytes())
        each = most_bytes(convolutions)
        if self.variant:
            own = (self.variant.of(s, gpu).scratch(s) for s in convolutions)
            room -= max(sum(arrays.values()) for arrays in own)
            if self.variant.storage == "float16":  # a convolution reads a copy
                each += 2 * max(s.floats_in for s in convolutions)
        self.batch = images_that_fit(room, each)
        parts = {
            piece: self.variant.serve(piece, gpu)
            for piece in pieces(convolutions, self.batch)
            if self.variant
        }
        units = {piece: compiler.unit_of(part, piece) for piece, part in parts.items()}
        wanted = [*LAYER_UNITS.values(), *units.values()]
        self._modules = device_convolution.load(self.device, wanted)
        self._ready = {
            piece: DeviceConvolution(
                self.device, part, piece, self._modules[units[piece]]
            )
            for piece, part in parts.items()
        }
        if self.batch >= convolutions[0].B:
            return None
        return f"computing {self.batch} images at a time: no more fit in GPU memory"

    def own_kernels(self) -> OwnKernels:
        """Return that every layer is ours, the convolutions if there is a variant."""
        return OwnKernels(self.device.gpu, self.batch, self.variant)

    def put(self, array: np.ndarray) -> DeviceArray:
        """Upload an array; convert bytes to floats on the GPU, to transfer less."""
        if array.dtype != np.uint8:
            return self.device.upload(np.asarray(array, np.float32))
        uploaded = self.device.upload(array)
        y = self.device.empty(array.shape)
        launch = layers.plan_bytes(len(array), array[0].size)
        self._layer("bytes", launch, y=y, x=uploaded)
        return y

    def get(self, array: DeviceArray) -> np.ndarray:
        """Download an array."""
        return self.device.download(array)

    def zeros(self, shape: tuple[int, ...]) -> DeviceArray:
        """Allocate an array and write zeros."""
        array = self.device.empty(shape)
        self.device.fill(array, 0)
        return array

    def wait(self) -> None:
        """Return when the GPU is idle."""
        self.device.wait()

    def pooling(self, x: DeviceArray) -> DeviceArray:
        """Apply 2 x 2 max pooling."""
        images, maps, rows, columns = x.shape
        y = self.device.empty((images, maps, rows // 2, columns // 2))
        self._layer("pooling", layers.plan_pooling(*x.shape), y=y, x=x)
        return y

    def tanh(self, x: DeviceArray) -> DeviceArray:
        """Apply the hyperbolic tangent in place."""
        images, *rest = x.shape
        launch = layers.plan_tanh(images, int(np.prod(rest)))
        self._layer("tanh", launch, y=x)
        return x

    def dense(
        self, x: DeviceArray, weights: DeviceArray, bias: DeviceArray
    ) -> DeviceArray:
        """Multiply by the weights' rows and add the bias."""
        outputs, inputs = weights.shape
        y = self.device.empty((x.shape[0], outputs))
        launch = layers.plan_dense(x.shape[0], inputs, outputs)
        self._layer("dense", launch, y=y, x=x, weights=weights, bias=bias)
        return y

    def softmax(self, x: DeviceArray) -> DeviceArray:
        """Apply softmax in place."""
        images, classes = x.shape
        self._layer("softmax", layers.plan_softmax(images, classes), y=x)
        return x

    def _layer(self, name: str, launch: Launch, **arrays: DeviceArray) -> None:
        self._modules[LAYER_UNITS[name]].launch(launch, arrays)

    def convolution(self, y: DeviceArray, x: DeviceArray, weights: DeviceArray) -> None:
        """Launch the variant's kernels for this shape."""
        shape = shapes.between(y.shape, x.shape, weights.shape)
        self._ready[shape].start(y, x, weights)

    def _convolve(
        self, x: DeviceArray, weights: DeviceArray
    ) -> tuple[DeviceArray, float]:
        """Convolve arrays after converting them to the variant's storage type."""
        return super()._convolve(self._stored(x), self._stored(weights))

    def _stored(self, x: DeviceArray) -> DeviceArray:
        if self.variant is None or self.variant.storage == x.dtype.name:
            return x
        images, *rest = x.shape
        y = self.device.empty(x.shape, self.variant.storage)
        launch = layers.plan_halves(images, int(np.prod(rest)))
        self._layer("halves", launch, y=y, x=x)
        return y


def pieces(convolutions: Sequence[ConvShape], most: int) -> list[ConvShape]:
    """Return the shapes in pieces of at most ``most`` images: whole, and the rest."""
    return [
        replace(shape, B=images)
        for shape in convolutions
        for images in {min(shape.B, most), shape.B % most} - {0}
    ]


def images_that_fit(room: int, each: int) -> int:
    """Return how many images of ``each`` bytes fit in ``room`` and a grid, or 1."""
    return max(1, min(room // each, MOST_GRID[2]))


def most_bytes(convolutions: Sequence[ConvShape]) -> int:
    """Return an upper bound of the bytes that one image needs.

    At the peak there are a convolution's input and output, or its output and the
    pooled quarter of that.
    """
    return FLOAT * max(
        s.floats_out + max(s.floats_in, s.floats_out // 4) for s in convolutions
    )

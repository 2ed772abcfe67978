"""The network on the GPU, with a kernel of our own for every layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


class CudaLayers(Layerwise[DeviceArray]):
    """All layers except the convolutions, on an open device."""

    name = "cuda"
    batch = MOST_GRID[2]

    def __init__(self, device: Device) -> None:
        self.device = device
        self._modules: dict[Unit, Module] = {}

    def prepare(self, convolutions: Sequence[ConvShape]) -> str | None:
        """Choose how many images fit in memory; compile and load all kernels."""
        room = int(SHARE_OF_MEMORY * self.device.free_bytes())
        room -= self.scratch_bytes(convolutions)
        self.batch = images_that_fit(room, self.bytes_of_an_image(convolutions))
        self._modules = device_convolution.load(self.device, self.units(convolutions))
        if self.batch >= convolutions[0].B:
            return None
        return f"computing {self.batch} images at a time: no more fit in GPU memory"

    def units(self, convolutions: Sequence[ConvShape]) -> list[Unit]:
        """Return the kernel files that the network needs."""
        return list(LAYER_UNITS.values())

    def scratch_bytes(self, convolutions: Sequence[ConvShape]) -> int:
        """Return the bytes of memory that do not depend on the number of images."""
        return 0

    def bytes_of_an_image(self, convolutions: Sequence[ConvShape]) -> int:
        """Return an upper bound of the bytes that one image needs."""
        return most_bytes(convolutions)

    def own_kernels(self) -> OwnKernels:
        """Return that every layer but the convolutions is ours."""
        return OwnKernels(self.device.gpu, self.batch)

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


class CudaGpu(CudaLayers):
    """The network on the GPU with one of our own convolutions."""

    def __init__(self, device: Device, variant: Variant) -> None:
        super().__init__(device)
        self.variant = variant
        self._ready: dict[ConvShape, DeviceConvolution] = {}

    def prepare(self, convolutions: Sequence[ConvShape]) -> str | None:
        """Compile and load the variant for these shapes; raise UsageError."""
        note = super().prepare(convolutions)
        self._ready = {
            piece: DeviceConvolution(
                self.device, part, piece, self._modules[compiler.unit_of(part, piece)]
            )
            for piece, part in self._parts(convolutions)
        }
        return note

    def units(self, convolutions: Sequence[ConvShape]) -> list[Unit]:
        """Add the variant's files; raise UsageError for a shape it does not support."""
        wanted = (
            compiler.unit_of(part, piece) for piece, part in self._parts(convolutions)
        )
        return [*super().units(convolutions), *dict.fromkeys(wanted)]

    def scratch_bytes(self, convolutions: Sequence[ConvShape]) -> int:
        """Return the bytes of the variant's scratch arrays for the whole batch."""
        own = (self.variant.of(s, self.device.gpu).scratch(s) for s in convolutions)
        return max(sum(arrays.values()) for arrays in own)

    def bytes_of_an_image(self, convolutions: Sequence[ConvShape]) -> int:
        """Add the copy in half precision that a convolution may read."""
        halves = 2 * max(s.floats_in for s in convolutions)
        floats = super().bytes_of_an_image(convolutions)
        return floats + (halves if self.variant.storage == "float16" else 0)

    def own_kernels(self) -> OwnKernels:
        """Return that every layer is ours."""
        return replace(super().own_kernels(), variant=self.variant)

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
        if self.variant.storage == x.dtype.name:
            return x
        images, *rest = x.shape
        y = self.device.empty(x.shape, self.variant.storage)
        launch = layers.plan_halves(images, int(np.prod(rest)))
        self._layer("halves", launch, y=y, x=x)
        return y

    def _parts(
        self, convolutions: Sequence[ConvShape]
    ) -> Iterator[tuple[ConvShape, Variant]]:
        """Yield the shape of each piece with the variant that computes it."""
        for shape in convolutions:
            for images in pieces(shape.B, self.batch):
                piece = replace(shape, B=images)
                yield piece, self.variant.serve(piece, self.device.gpu)


def pieces(images: int, most: int) -> set[int]:
    """Return the sizes of pieces of at most ``most`` images: whole, and the rest."""
    return {min(images, most), images % most} - {0}


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

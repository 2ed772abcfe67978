"""The network on the GPU: every layer a kernel of ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import compiler
import device_convolution
import layers
import numpy as np
import shapes
from compiler import Unit, defines
from device import Device, DeviceArray, Module
from device_convolution import DeviceConvolution
from shapes import ConvShape
from variants import MOST_GRID, Launch, Variant

from backends.layerwise import Layerwise

SHARE_OF_MEMORY = 0.9  # of what is free; the rest is for weights and fragments
FLOAT = 4  # bytes
LAYER_UNITS = {name: Unit(name, defines(told)) for name, told in layers.LAYERS.items()}


class CudaLayers(Layerwise[DeviceArray]):
    """All of the network on the GPU but its convolutions, on an open device."""

    name = "cuda"
    batch = MOST_GRID[2]

    def __init__(self, device: Device) -> None:
        self.device = device
        self._modules: dict[Unit, Module] = {}

    def prepare(self, convolutions: Sequence[ConvShape]) -> str | None:
        """Count the images that fit the memory; compile and load all kernels."""
        room = int(SHARE_OF_MEMORY * self.device.free_bytes())
        room -= self.scratch_bytes(convolutions)
        self.batch = images_that_fit(room, self.bytes_of_an_image(convolutions))
        self._modules = device_convolution.load(self.device, self.units(convolutions))
        if self.batch >= convolutions[0].B:
            return None
        return f"{self.batch} images at a time: the GPU's free memory holds no more"

    def units(self, convolutions: Sequence[ConvShape]) -> list[Unit]:
        """Name the files of kernels that the network needs."""
        return list(LAYER_UNITS.values())

    def scratch_bytes(self, convolutions: Sequence[ConvShape]) -> int:
        """Count the memory that a convolution takes beside its arrays."""
        return 0

    def bytes_of_an_image(self, convolutions: Sequence[ConvShape]) -> int:
        """Bound the memory that one image needs at a time."""
        return most_bytes(convolutions)

    def put(self, array: np.ndarray) -> DeviceArray:
        """Upload an array; bytes become floats there, a quarter of the way."""
        if array.dtype != np.uint8:
            return self.device.upload(np.asarray(array, np.float32))
        there = self.device.upload(array)
        y = self.device.empty(array.shape)
        launch = layers.plan_bytes(len(array), array[0].size)
        self._layer("bytes", launch, y=y, x=there)
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
        """Take the largest of every 2 x 2 pixels."""
        images, maps, rows, columns = x.shape
        y = self.device.empty((images, maps, rows // 2, columns // 2))
        self._layer("pooling", layers.plan_pooling(*x.shape), y=y, x=x)
        return y

    def tanh(self, x: DeviceArray) -> DeviceArray:
        """Take the hyperbolic tangent in place."""
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
        """Take the exponentials' shares of their sum, in place."""
        images, classes = x.shape
        self._layer("softmax", layers.plan_softmax(images, classes), y=x)
        return x

    def _layer(self, name: str, launch: Launch, **arrays: DeviceArray) -> None:
        self._modules[LAYER_UNITS[name]].launch(launch, arrays)


class CudaGpu(CudaLayers):
    """The network on the GPU with one of our convolutions."""

    def __init__(self, device: Device, variant: Variant) -> None:
        super().__init__(device)
        self.variant = variant
        self._ready: dict[ConvShape, DeviceConvolution] = {}

    def prepare(self, convolutions: Sequence[ConvShape]) -> str | None:
        """Load the variant for these sizes, up to the last of what a launch needs."""
        note = super().prepare(convolutions)
        self._ready = {
            piece: DeviceConvolution(
                self.device, part, piece, self._modules[compiler.unit_of(part, piece)]
            )
            for piece, part in self._parts(convolutions)
        }
        return note

    def units(self, convolutions: Sequence[ConvShape]) -> list[Unit]:
        """Add the variant's files in the sizes they want; refuse what it refuses."""
        wanted = (
            compiler.unit_of(part, piece) for piece, part in self._parts(convolutions)
        )
        return [*super().units(convolutions), *dict.fromkeys(wanted)]

    def scratch_bytes(self, convolutions: Sequence[ConvShape]) -> int:
        """Count the variant's own arrays, which fewer images do not make larger."""
        architecture = self.device.architecture
        own = (self.variant.of(s, architecture).scratch(s) for s in convolutions)
        return max(sum(arrays.values()) for arrays in own)

    def bytes_of_an_image(self, convolutions: Sequence[ConvShape]) -> int:
        """Count the halves that a convolution may read beside the floats."""
        halves = 2 * max(s.floats_in for s in convolutions)
        floats = super().bytes_of_an_image(convolutions)
        return floats + (halves if self.variant.storage == "float16" else 0)

    def convolution(self, y: DeviceArray, x: DeviceArray, weights: DeviceArray) -> None:
        """Launch what the variant plans for these sizes."""
        shape = shapes.between(y.shape, x.shape, weights.shape)
        self._ready[shape].start(y, x, weights)

    def _convolve(
        self, x: DeviceArray, weights: DeviceArray
    ) -> tuple[DeviceArray, float]:
        """Convolve numbers that lie in memory as the variant's class has them."""
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
        """Say which pieces come, and what of the variant computes each."""
        for shape in convolutions:
            for images in pieces(shape.B, self.batch):
                piece = replace(shape, B=images)
                yield piece, self.variant.serve(piece, self.device.architecture)


def pieces(images: int, most: int) -> set[int]:
    """Say what numbers of images come at a time: ``most``, and what is left over."""
    return {min(images, most), images % most} - {0}


def images_that_fit(room: int, each: int) -> int:
    """Count the images of so many bytes that fit, and a grid: one at least."""
    return max(1, min(room // each, MOST_GRID[2]))


def most_bytes(convolutions: Sequence[ConvShape]) -> int:
    """Bound the bytes that one image needs at a time.

    A convolution's input and output are there together, later its output and the
    pooled quarter of it.
    """
    return FLOAT * max(
        s.floats_out + max(s.floats_in, s.floats_out // 4) for s in convolutions
    )

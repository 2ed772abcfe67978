"""The network on the GPU: every layer a kernel of ours."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

import compiler
import layers
import numpy as np
import shapes
from compiler import Unit
from device import Device, DeviceArray, Module
from errors import UsageError
from kernels import MOST_GRID, Launch, Variant
from shapes import ConvShape

SHARE_OF_MEMORY = 0.9  # of what is free; the rest is for weights and fragments
FLOAT = 4  # bytes
Defines = tuple[tuple[str, int], ...]


class CudaLayers(ABC):
    """All of the network on the GPU but its convolutions, on an open device."""

    name = "cuda"
    batch = MOST_GRID[2]

    def __init__(self, device: Device) -> None:
        self.device = device
        self._layers: dict[str, Module] = {}

    def prepare(self, convolutions: Sequence[ConvShape]) -> str | None:
        """Compile and load all kernels, and count the images that fit the memory."""
        units = [Unit(name, params) for name, params in layers.LAYERS.items()]
        self._layers = dict(zip(layers.LAYERS, self.load(units), strict=True))
        room = int(SHARE_OF_MEMORY * self.device.free_bytes())
        self.batch = images_that_fit(room, convolutions)
        if self.batch >= convolutions[0].B:
            return None
        return f"{self.batch} images at a time: the GPU's free memory holds no more"

    def load(self, units: Sequence[Unit]) -> list[Module]:
        """Load files of kernels, compiled now or before."""
        cubins = compiler.cubins(units, self.device.architecture, self.device.cuda)
        return [self.device.load(cubin) for cubin in cubins]

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

    @abstractmethod
    def convolution(self, y: DeviceArray, x: DeviceArray, weights: DeviceArray) -> None:
        """Write into ``y`` the convolution of ``x``."""

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
        self._layers[name].launch(launch, arrays)


class CudaGpu(CudaLayers):
    """The network on the GPU with one of our convolutions."""

    def __init__(self, device: Device, variant: Variant) -> None:
        super().__init__(device)
        self.variant = variant
        self._modules: dict[Defines, Module] = {}

    def prepare(self, convolutions: Sequence[ConvShape]) -> str | None:
        """Refuse what the variant does not serve; load it for what it serves."""
        note = super().prepare(convolutions)
        units: dict[Defines, Unit] = {}
        for shape in convolutions:
            piece = replace(shape, B=min(shape.B, self.batch))
            if why := self.variant.refusal(piece):
                raise UsageError(f"{self.variant.name} does not serve {piece}: {why}")
            defines = self.variant.defines(shape)
            units[tuple(defines.items())] = Unit(self.variant.name, defines)
        loaded = self.load(list(units.values()))
        self._modules = dict(zip(units, loaded, strict=True))
        for shape in convolutions:
            for launch in self.variant.launches(shape):
                self._module(shape).ready(launch)
        return note

    def convolution(self, y: DeviceArray, x: DeviceArray, weights: DeviceArray) -> None:
        """Launch what the variant plans for these sizes."""
        shape = shapes.between(y.shape, x.shape, weights.shape)
        module = self._module(shape)
        for name in self.variant.constants:
            module.fill_constant(name, weights)
        for launch in self.variant.launches(shape):
            module.launch(launch, {"y": y, "x": x, "k": weights})

    def _module(self, shape: ConvShape) -> Module:
        return self._modules[tuple(self.variant.defines(shape).items())]


def images_that_fit(room: int, convolutions: Sequence[ConvShape]) -> int:
    """Count the images whose layers fit some bytes, and a grid: one at least."""
    return max(1, min(room // most_bytes(convolutions), MOST_GRID[2]))


def most_bytes(convolutions: Sequence[ConvShape]) -> int:
    """Bound the bytes that one image needs at a time.

    A convolution's input and output are there together, later its output and the
    pooled quarter of it.
    """
    return FLOAT * max(
        s.floats_out + max(s.floats_in, s.floats_out // 4) for s in convolutions
    )

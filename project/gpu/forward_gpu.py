"""The forward pass in fused kernels, on an open GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from course.errors import UsageError
from course.network import Network
from course.variants import FP32, Launch
from gpu import compiler, device_convolution, forward
from gpu.device import Device, DeviceArray, Module
from plans import kernels


class ForwardPass:
    """A network's forward pass for a fixed number of images and preallocated memory."""

    def __init__(
        self, device: Device, network: Network, images: int, *, fold: bool = False
    ) -> None:
        if device.gpu.architecture != forward.ARCHITECTURE:
            raise UsageError(
                f"the fused forward pass runs on {forward.ARCHITECTURE} only"
            )
        self._device, self._weights, self._fold = device, network.weights, fold
        size = network.edition.size
        self._chain = forward.chain(network.model.layers, images, size)
        self._images = (images, size, size)
        self._part = kernels.best(FP32).serve(self._chain.second, device.gpu)
        self._steps: list[Callable[[], None]] = []

    def prepare(self) -> None:
        """Compile and load the kernels, allocate memory, and upload the weights."""
        c, part = self._chain, self._part
        first, dense, last = forward.units(c)
        second = compiler.unit_of(part, c.second)
        units = [first, dense, last] if self._fold else [first, second, dense, last]
        modules = device_convolution.load(self._device, units)
        arrays, launches = self._arranged()
        self.arrays = arrays
        self._steps = [self._step(modules[first], launches[0], arrays)]
        if not self._fold:
            self._steps += self._convolution(modules[second], arrays)
        self._steps += [
            self._step(modules[unit], launch, arrays)
            for unit, launch in zip((dense, last), launches[1:], strict=True)
        ]

    def _arranged(self) -> tuple[dict[str, DeviceArray], list[Launch]]:
        """Allocate all arrays; plan the launches other than the second convolution."""
        c, count, there = self._chain, self._images[0], self._device
        k1, k2, w, w_bias, last, last_bias = (
            np.asarray(self._weights[name], np.float32) for name in c.arrays
        )
        if self._fold:
            w, inputs, x, most = forward.folded(w, k2, c), c.pooled, "pooled", 1.0
        else:
            inputs, x, most = c.flat, "flat", forward.bound(k2)
        powers = (
            forward.exponent(most),
            forward.exponent(float(np.abs(w).max())),
        )
        sms = there.gpu.multiprocessors
        parts = forward.pieces(count, inputs, sms).parts
        arrays = {
            "images": there.empty(self._images, "uint8"),
            "pooled": there.empty((count, c.pooled)),
            "parts": there.empty((parts, count, forward.DENSE["OUTPUTS"])),
            "y": there.empty((count, len(last))),
            "first": there.upload(k1),
            "second": there.upload(k2),
            "dense": there.upload(forward.packed(w, powers[1])),
            "dense_bias": there.upload(w_bias),
            "last": there.upload(last),
            "last_bias": there.upload(last_bias),
        }
        if not self._fold:
            arrays["flat"] = there.empty((count, c.flat))
        launches = [
            forward.plan_first(c, sms),
            forward.plan_dense(count, inputs, sms, x, powers),
            forward.plan_last(c, inputs, sms),
        ]
        return arrays, launches

    def _convolution(
        self, module: Module, arrays: Mapping[str, DeviceArray]
    ) -> list[Callable[[], None]]:
        """Return the fastest variant's launches, with preallocated scratch arrays."""
        shape, part = self._chain.second, self._part
        own = {"y": arrays["flat"], "x": arrays["pooled"], "k": arrays["second"]}
        for name, count in part.scratch(shape).items():
            own[name] = self._device.empty((count,), "uint8")
        for name in part.constants:
            module.fill_constant(name, own["k"])
        return [self._step(module, launch, own) for launch in part.launches(shape)]

    def _step(
        self, module: Module, launch: Launch, arrays: Mapping[str, DeviceArray]
    ) -> Callable[[], None]:
        module.ready(launch)
        return lambda: module.launch(launch, arrays)

    def put(self, images: np.ndarray) -> None:
        """Upload images of bytes."""
        self._device.copy(self.arrays["images"], self._device.upload(images))

    def run(self) -> None:
        """Launch the whole pass without waiting for it."""
        for step in self._steps:
            step()

    def probabilities(self) -> np.ndarray:
        """Wait for the pass and download its probabilities."""
        return self._device.download(self.arrays["y"])

"""A convolution on an open GPU, loaded for one shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from course.shapes import ConvShape
from course.variants import Variant
from gpu import compiler
from gpu.compiler import Unit
from gpu.device import Device, DeviceArray, Module


class DeviceConvolution:
    """A variant's launches for a shape, with all kernels loaded."""

    def __init__(
        self, device: Device, part: Variant, shape: ConvShape, module: Module
    ) -> None:
        self._device, self._part, self._shape = device, part, shape
        self._module = module
        self._launches = part.launches(shape)
        for launch in self._launches:
            module.ready(launch)

    def scratch(self) -> dict[str, DeviceArray]:
        """Allocate the variant's scratch arrays."""
        wanted = self._part.scratch(self._shape)
        return {
            name: self._device.empty((count,), "uint8")
            for name, count in wanted.items()
        }

    def start(
        self,
        y: DeviceArray,
        x: DeviceArray,
        k: DeviceArray,
        scratch: Mapping[str, DeviceArray] | None = None,
    ) -> None:
        """Start the convolution without waiting for it.

        The arrays are B x M x H_out x W_out, B x C x H x W and M x C x K x K; x and k
        have the variant's ``storage`` type; y is float32 and need not be cleared.
        Scratch arrays are allocated unless they are given.
        """
        own = self.scratch() if scratch is None else scratch
        arrays = {"y": y, "x": x, "k": k, **own}
        for name in self._part.constants:
            self._module.fill_constant(name, k)
        for launch in self._launches:
            self._module.launch(launch, arrays)


def load(device: Device, units: Iterable[Unit]) -> dict[Unit, Module]:
    """Load files on a device, from the cache or compiled."""
    wanted = list(dict.fromkeys(units))
    cubins = compiler.cubins(wanted, device.gpu.architecture, device.cuda)
    return dict(zip(wanted, map(device.load, cubins), strict=True))

"""The network on the CPU, by the best of what is installed."""

from __future__ import annotations

import cpu_convolution
from errors import CompilerError, MissingError

from backends import Backend
from backends.numpy_cpu import NumpyCpu

NAMES = ("mxnet", "numpy")


def library(name: str | None) -> tuple[Backend, str]:
    """Choose MXNet with its own convolution, else NumPy, and say why not MXNet."""
    backend, why = _mxnet(name, own=False)
    return backend or NumpyCpu(), why


def ours(name: str | None) -> tuple[Backend, str]:
    """Choose what runs our convolution: MXNet, else NumPy, and say what is missing."""
    backend, why = _mxnet(name, own=True)
    if backend is not None:
        return backend, ""
    try:
        cpu_convolution.load()
    except CompilerError as error:
        reasons = [why, f"{error}; NumPy convolves"]
        return NumpyCpu(), "; ".join(filter(None, reasons))
    return NumpyCpu(cpu_convolution.convolve), why


def _mxnet(name: str | None, *, own: bool) -> tuple[Backend | None, str]:
    """Choose MXNet unless the user names another, or it cannot be and need not."""
    if name == "numpy":
        return None, ""
    try:
        from backends.mxnet_cpu import MxnetCpu

        return MxnetCpu(own=own), ""
    except MissingError as error:
        if name is not None:
            raise
        return None, f"{error}; NumPy runs the network"

"""The network on the CPU, by the best of what is installed."""

from __future__ import annotations

from importlib.util import find_spec

from errors import MissingError

from backends import Backend
from backends.numpy_cpu import NumpyCpu

NAMES = ("mxnet", "numpy")


def library(name: str | None) -> tuple[Backend, str]:
    """Choose MXNet with its own convolution, else NumPy, and say why not MXNet."""
    if name != "numpy":
        try:
            if find_spec("backends.mxnet_cpu") is None:
                raise MissingError("MXNet is not installed")
            from backends.mxnet_cpu import MxnetCpu

            return MxnetCpu(), ""
        except MissingError as error:
            if name:
                raise
            return NumpyCpu(), f"{error}; NumPy runs the network"
    return NumpyCpu(), ""


def ours(name: str | None) -> tuple[Backend, str]:
    """Choose what runs our convolution: MXNet, else NumPy, and say what is missing."""
    return library(name)

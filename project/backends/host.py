"""The network on the CPU, by the best of what is installed."""

from __future__ import annotations

from collections.abc import Mapping

import cpu_convolution
import reference
from errors import CompilerError, MissingError

from backends import Backend
from backends.numpy_cpu import NumpyCpu

NAMES = ("mxnet", "numpy")


def baseline(name: str | None) -> tuple[Backend, str]:
    """Choose MXNet with its own convolution, else NumPy, and say why not MXNet."""
    backend, missing = _mxnet(name, own=False)
    return backend or NumpyCpu(), _said({"runs the network": missing})


def ours(name: str | None) -> tuple[Backend, str]:
    """Choose what runs our convolution: MXNet, else NumPy, and say what is missing."""
    backend, missing = _mxnet(name, own=True)
    if backend is not None:
        return backend, ""
    convolution, compiler = cpu_convolution.convolve, None
    try:
        cpu_convolution.load()
    except CompilerError as error:
        convolution, compiler = reference.convolve, error
    said = _said({"runs the network": missing, "convolves": compiler})
    return NumpyCpu(convolution), said


def _mxnet(
    name: str | None, *, own: bool
) -> tuple[Backend | None, MissingError | None]:
    """Choose MXNet unless the user names another, or it cannot be and need not."""
    if name == "numpy":
        return None, None
    try:
        from backends.mxnet_cpu import MxnetCpu

        return MxnetCpu(own=own), None
    except MissingError as error:
        if name is not None:
            raise
        return None, error


def _said(instead: Mapping[str, MissingError | None]) -> str:
    """Say what NumPy does, and what is missing for another to do it, each once."""
    does: dict[str, list[str]] = {}
    for work, missing in instead.items():
        if missing is not None:
            does.setdefault(str(missing), []).append(work)
    return "; ".join(f"NumPy {' and '.join(done)}: {why}" for why, done in does.items())

"""Choose the best installed backend that runs the network on the CPU."""

from __future__ import annotations

from collections.abc import Mapping

from course.errors import CompilerError, MissingError
from host import cpu_convolution, reference

from backends import Backend
from backends.numpy_cpu import NumpyCpu

NAMES = ("mxnet", "numpy")


def baseline(name: str | None) -> tuple[Backend, str]:
    """Choose MXNet with its own convolution, else NumPy; return why not MXNet."""
    backend, missing = _mxnet(name, own=False)
    return backend or NumpyCpu(), _note({"runs the network": missing})


def ours(name: str | None) -> tuple[Backend, str]:
    """Choose MXNet with our convolution, else NumPy; return what is missing."""
    backend, missing = _mxnet(name, own=True)
    if backend is not None:
        return backend, ""
    convolution, compiler = cpu_convolution.convolve, None
    try:
        cpu_convolution.load()
    except CompilerError as error:
        convolution, compiler = reference.convolve, error
    note = _note({"runs the network": missing, "convolves": compiler})
    return NumpyCpu(convolution), note


def _mxnet(
    name: str | None, *, own: bool
) -> tuple[Backend | None, MissingError | None]:
    """Return MXNet's backend, or why it is missing; raise if the user named it."""
    if name == "numpy":
        return None, None
    try:
        from backends.mxnet_cpu import MxnetCpu

        return MxnetCpu(own=own), None
    except MissingError as error:
        if name is not None:
            raise
        return None, error


def _note(instead: Mapping[str, MissingError | None]) -> str:
    """Return what NumPy does in place of something missing, each reason once."""
    does: dict[str, list[str]] = {}
    for work, missing in instead.items():
        if missing is not None:
            does.setdefault(str(missing), []).append(work)
    return "; ".join(f"NumPy {' and '.join(done)}: {why}" for why, done in does.items())

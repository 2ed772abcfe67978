"""The scripts' errors, printed as one message without a traceback."""

from __future__ import annotations


class ProjectError(Exception):
    """A file is missing, damaged or stale."""

    exit_code = 1


class NoWeightsError(ProjectError):
    """A model has no stored weights."""


class UsageError(ProjectError):
    """The command line is invalid, or asks for something unsupported."""

    exit_code = 2


class MissingError(ProjectError):
    """A library or a compiler is missing on this machine."""

    exit_code = 3


class NoGpuError(MissingError):
    """There is no GPU, or something needed to use it is missing."""


class GpuError(ProjectError):
    """CUDA failed on the GPU; the message starts with CUDA's name of the error."""

    exit_code = 4


class CompilerError(MissingError):
    """C++ cannot be compiled: there is no compiler, or it failed."""

"""What the scripts refuse; the message is the whole report, without a traceback."""

from __future__ import annotations


class ProjectError(Exception):
    """A file is missing, damaged or stale."""

    exit_code = 1


class NoWeightsError(ProjectError):
    """Nobody has trained a model here, or brought weights for it."""


class UsageError(ProjectError):
    """The command line asks for what cannot be."""

    exit_code = 2


class MissingError(ProjectError):
    """This machine lacks what was asked for: a library, a compiler."""

    exit_code = 3


class NoGpuError(MissingError):
    """This machine lacks a GPU, or what is needed to use it."""


class GpuError(ProjectError):
    """CUDA failed while the GPU computed; the message names CUDA's word for it."""

    exit_code = 4


class CompilerError(MissingError):
    """What is in C++ cannot be built here: there is no compiler, or it fails."""

"""A GPU fault that a program reported, and the run's reason that follows from it."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from runner.core.ending import Reason


class GpuFaultKind(StrEnum):
    """What went wrong."""

    OUT_OF_MEMORY = "out_of_memory"
    ILLEGAL_ADDRESS = "illegal_address"
    LAUNCH_FAILED = "launch_failed"
    NO_CODE = "no_code"
    DEVICE_LOST = "device_lost"
    DRIVER_ERROR = "driver_error"
    DRIVER_TOO_OLD = "driver_too_old"
    NO_DEVICE = "no_device"

    @property
    def words(self) -> str:
        """Return the name to show to a person."""
        return _WORDS[self]


_WORDS = {
    GpuFaultKind.OUT_OF_MEMORY: "the GPU ran out of memory",
    GpuFaultKind.ILLEGAL_ADDRESS: "a kernel accessed an illegal address",
    GpuFaultKind.LAUNCH_FAILED: "a kernel failed",
    GpuFaultKind.NO_CODE: "the program has no code for this GPU",
    GpuFaultKind.DEVICE_LOST: "the GPU was lost, damaged or not available",
    GpuFaultKind.DRIVER_ERROR: "the GPU's driver failed",
    GpuFaultKind.DRIVER_TOO_OLD: "the GPU's driver is too old for its CUDA",
    GpuFaultKind.NO_DEVICE: "the program found no GPU",
}

_REASONS = {
    GpuFaultKind.OUT_OF_MEMORY: Reason.GPU_MEMORY,
    GpuFaultKind.ILLEGAL_ADDRESS: Reason.GPU_FAULT,
    GpuFaultKind.LAUNCH_FAILED: Reason.GPU_FAULT,
    GpuFaultKind.NO_CODE: Reason.GPU_FAULT,
    GpuFaultKind.DEVICE_LOST: Reason.GPU_ERROR,
    GpuFaultKind.DRIVER_TOO_OLD: Reason.NO_GPU,
}


class GpuFault(Struct, frozen=True):
    """A fault, and the line of output that reported it, shortened.

    Only the program reports it; rai has not checked it.
    """

    kind: GpuFaultKind
    line: str

    def reason(self, given: bool) -> Reason:
        """Return the reason for a run that was, or was not, given a GPU.

        A program that was given a GPU and finds none ran on a broken machine. One that
        was given none needs a GPU, and cannot have lost one.
        """
        if self.kind is GpuFaultKind.DEVICE_LOST and not given:
            return Reason.COMMAND_FAILED
        return _REASONS.get(self.kind, Reason.GPU_ERROR if given else Reason.NO_GPU)

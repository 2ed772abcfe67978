"""Recognise the GPU faults that programs print, by CUDA's names and sentences.

The names are those of CUresult and cudaError_t, the sentences those of
cuGetErrorString and cudaGetErrorString (CUDA 8 to 13). PyCUDA, PyTorch, MXNet, CuPy,
Numba, TensorFlow and a program's own checks print one or the other; some print a few
of their own. Quoted source code, a sanitizer's report and a warning after which the
program continues are not faults.
"""

from __future__ import annotations

import re

from runner.core import GpuFault, GpuFaultKind

LONGEST_LINE = 240
"""The number of characters of a fault's line that are kept."""

_NAMES = {
    GpuFaultKind.OUT_OF_MEMORY: """
        OUT_OF_MEMORY MemoryAllocation STATUS_ALLOC_FAILED""",
    GpuFaultKind.ILLEGAL_ADDRESS: "ILLEGAL_ADDRESS IllegalAddress",
    GpuFaultKind.LAUNCH_FAILED: """
        LAUNCH_FAILED LaunchFailure ASSERT Assert LAUNCH_TIMEOUT LaunchTimeout
        MISALIGNED_ADDRESS MisalignedAddress ILLEGAL_INSTRUCTION IllegalInstruction
        INVALID_ADDRESS_SPACE InvalidAddressSpace INVALID_PC InvalidPc
        HARDWARE_STACK_ERROR HardwareStackError InvalidConfiguration
        LAUNCH_OUT_OF_RESOURCES LaunchOutOfResources
        COOPERATIVE_LAUNCH_TOO_LARGE CooperativeLaunchTooLarge
        STATUS_EXECUTION_FAILED STATUS_MAPPING_ERROR""",
    GpuFaultKind.NO_CODE: """
        NO_BINARY_FOR_GPU NoKernelImageForDevice InvalidDeviceFunction
        INVALID_PTX InvalidPtx INVALID_IMAGE InvalidKernelImage""",
    GpuFaultKind.DEVICE_LOST: """
        ECC_UNCORRECTABLE ECCUncorrectable NVLINK_UNCORRECTABLE NvlinkUncorrectable
        DEVICE_UNAVAILABLE DevicesUnavailable EXTERNAL_DEVICE ExternalDevice""",
    GpuFaultKind.DRIVER_ERROR: """
        UNKNOWN Unknown SYSTEM_NOT_READY SystemNotReady STUB_LIBRARY StubLibrary
        SYSTEM_DRIVER_MISMATCH SystemDriverMismatch""",
    GpuFaultKind.DRIVER_TOO_OLD: """
        InsufficientDriver UNSUPPORTED_PTX_VERSION UnsupportedPtxVersion
        COMPAT_NOT_SUPPORTED_ON_DEVICE CompatNotSupportedOnDevice""",
    GpuFaultKind.NO_DEVICE: "NO_DEVICE NoDevice",
}
_KINDS = {name: kind for kind, names in _NAMES.items() for name in names.split()}
_NAME = re.compile(
    r"(?<![=!]=)(?<![=!]= )\b(?:CUDA_ERROR_|cudaError|(?:CUBLAS|CUDNN)_(?=STATUS_))"
    rf"(?P<name>{'|'.join(_KINDS)})\b(?! ?(?:=|&&|\|\||\?))"
)

_SENTENCES = {
    "an illegal memory access was encountered": GpuFaultKind.ILLEGAL_ADDRESS,
    "unspecified launch failure": GpuFaultKind.LAUNCH_FAILED,
    "the launch timed out and was terminated": GpuFaultKind.LAUNCH_FAILED,
    "too many resources requested for launch": GpuFaultKind.LAUNCH_FAILED,
    "an illegal instruction was encountered": GpuFaultKind.LAUNCH_FAILED,
    "device-side assert triggered": GpuFaultKind.LAUNCH_FAILED,
    "no kernel image is available for execution": GpuFaultKind.NO_CODE,
    "device kernel image is invalid": GpuFaultKind.NO_CODE,
    "uncorrectable ECC error encountered": GpuFaultKind.DEVICE_LOST,
    "uncorrectable NVLink error detected": GpuFaultKind.DEVICE_LOST,
    "CUDA-capable device(s) is/are busy or unavailable": GpuFaultKind.DEVICE_LOST,
    "all CUDA-capable devices are busy or unavailable": GpuFaultKind.DEVICE_LOST,
    "GPU is lost": GpuFaultKind.DEVICE_LOST,
    "Unable to determine the device handle for GPU": GpuFaultKind.DEVICE_LOST,
    "CUDA unknown error": GpuFaultKind.DRIVER_ERROR,
    "Failed to initialize NVML": GpuFaultKind.DRIVER_ERROR,
    "NVIDIA-SMI has failed because": GpuFaultKind.DRIVER_ERROR,
    "has unsupported display driver / cuda driver": GpuFaultKind.DRIVER_ERROR,
    "CUDA driver is a stub library": GpuFaultKind.DRIVER_ERROR,
    "CUDA driver version is insufficient": GpuFaultKind.DRIVER_TOO_OLD,
    "NVIDIA driver on your system is too old": GpuFaultKind.DRIVER_TOO_OLD,
    "PTX was compiled with an unsupported toolchain": GpuFaultKind.DRIVER_TOO_OLD,
    "no CUDA-capable device is detected": GpuFaultKind.NO_DEVICE,
    "No CUDA GPUs are available": GpuFaultKind.NO_DEVICE,
    "Found no NVIDIA driver on your system": GpuFaultKind.NO_DEVICE,
    "libcuda.so.1: cannot open shared object file": GpuFaultKind.NO_DEVICE,
    "RESOURCE_EXHAUSTED: Out of memory while trying": GpuFaultKind.OUT_OF_MEMORY,
    "Resource exhausted: Out of memory while trying": GpuFaultKind.OUT_OF_MEMORY,
}
"""Sentences that only GPU software prints (the last two: XLA, of a device's memory)."""

_COMMON = {
    "misaligned address": GpuFaultKind.LAUNCH_FAILED,
    "operation not supported on global/shared": GpuFaultKind.LAUNCH_FAILED,
    "invalid program counter": GpuFaultKind.LAUNCH_FAILED,
    "hardware stack error": GpuFaultKind.LAUNCH_FAILED,
    "invalid configuration argument": GpuFaultKind.LAUNCH_FAILED,
    "invalid device function": GpuFaultKind.NO_CODE,
    "unknown error": GpuFaultKind.DRIVER_ERROR,
    "fallen off the bus": GpuFaultKind.DEVICE_LOST,
    "OOM when allocating": GpuFaultKind.OUT_OF_MEMORY,
}
"""Sentences that other software prints too: they need one of the brands beside them."""

_BRANDS = ("CUDA", "GPU", "NVIDIA", "pycuda", "cudaSuccess")
_TEXT = re.compile("|".join(map(re.escape, (*_SENTENCES, *_COMMON))))
_MEMORY = re.compile(
    r"(?=.*?(?:(?<![\w./-])(?:py)?(?:CUDA|Cuda|cuda|GPU|cupy\b)|\bcu[A-Z]))"
    r".*?[Oo]ut of memory"
)
_NO_FAULT = re.compile(
    r"={9}(?: |$)|[+*#] |//|>>> |[0-9]+ ?\||.*[;{\\]$"
    r"|(?:case|if|elif|else|while|for|switch|return|raise|throw|except|assert|print\w*)\b"
    r"|(?:[0-9-]{10} [0-9:.]+: )?[IW](?:[0-9]{4})? "
    r"|.*(?:Warning: |\bWARNING\b|failed call to cuInit|Killed process)"
    r"|.*(?:\([0-9]+\)|:[0-9]+:[0-9]+): (?:error|warning|note)\b"
)
WORDS = (*_SENTENCES, *_COMMON, "CUDA_ERROR_", "cudaError", "_STATUS_", "ut of memory")
"""A line that reports a fault contains one of these."""


def fault(line: str) -> GpuFault | None:
    """Parse a stripped line as a fault; None if it reports none."""
    reported = _reported(line)
    if reported is None or _NO_FAULT.match(line):
        return None
    kind, end = reported
    start = max(0, end - LONGEST_LINE) if len(line) > LONGEST_LINE else 0
    return GpuFault(kind, line[start : start + LONGEST_LINE])


def _reported(line: str) -> tuple[GpuFaultKind, int] | None:
    """Return the kind of fault that a line reports, and the end of the match."""
    if (match := _NAME.search(line)) is not None:
        return _KINDS[match["name"]], match.end()
    branded = any(brand in line for brand in _BRANDS)
    for match in _TEXT.finditer(line):
        kind = _SENTENCES.get(match[0]) or (_COMMON[match[0]] if branded else None)
        if kind is not None:
            return kind, match.end()
    if (match := _MEMORY.match(line)) is not None:
        return GpuFaultKind.OUT_OF_MEMORY, match.end()
    return None

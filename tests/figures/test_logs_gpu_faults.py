"""GPU faults are known by what programs print, and by nothing that resembles it."""

from __future__ import annotations

import pytest

from runner.core import Findings, GpuFault, GpuFaultKind, Reason
from runner.core.figures import combined
from runner.figures import printed
from runner.figures.printed import LONGEST_LINE, fault
from runner.figures.scanner import find

KIND = GpuFaultKind

MXNET = "[12:00:00] src/mshadow/./stream_gpu-inl.h:62: Check failed: "

TOLD = {
    KIND.OUT_OF_MEMORY: [
        "m3.1.py: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
        "pycuda._driver.MemoryError: cuMemAlloc failed: out of memory",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `f(h)`",
        "[12:00:00] src/storage/./pooled_storage_manager.h:157: cudaMalloc failed: "
        "out of memory",
        "mxnet.base.MXNetError: " + MXNET + "err == cudaSuccess (2 vs. 0) : CUDA: "
        "out of memory",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while "
        "trying to allocate 4294967296 bytes.",
        "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,000 bytes",
        "2026-01-02 03:04:05.678901: E cuda_driver.cc:764] failed to alloc 8 bytes; "
        "result: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
        "OOM when allocating tensor with shape[9,9] on /job:w/device:GPU:0",
        'CUDA error at a.cu:12 code=2(cudaErrorMemoryAllocation) "cudaMalloc(&d, n)"',
    ],
    KIND.ILLEGAL_ADDRESS: [
        "m3.1.py: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered",
        MXNET + "err == cudaSuccess (77 vs. 0) : Name: MapPlanKernel ErrStr:an illegal "
        "memory access was encountered",
        "GPUassert: an illegal memory access was encountered a.cu 42",
        "cudaErrorIllegalAddress",
        "E       RuntimeError: CUDA error: an illegal memory access was encountered",
    ],
    KIND.LAUNCH_FAILED: [
        "pycuda._driver.LaunchError: cuEventQuery failed: unspecified launch failure",
        "RuntimeError: CUDA error: device-side assert triggered",
        "RuntimeError: CUDA error: misaligned address",
        "Error: the launch timed out and was terminated",
        "pycuda._driver.LaunchError: cuLaunchKernel failed: too many resources "
        "requested for launch",
        "a.cu:9: cudaErrorLaunchOutOfResources (701)",
        "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
        "CUDA error: invalid configuration argument",
    ],
    KIND.NO_CODE: [
        "RuntimeError: CUDA error: no kernel image is available for execution on the "
        "device",
        "CUDA_ERROR_NO_BINARY_FOR_GPU: no kernel image is available",
        "CUDA error: invalid device function",
    ],
    KIND.DEVICE_LOST: [
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        "failed call to cuDevicePrimaryCtxRetain: CUDA_ERROR_ECC_UNCORRECTABLE: "
        "uncorrectable ECC error encountered",
        "CUDA error: CUDA-capable device(s) is/are busy or unavailable",
        "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.",
        "NVRM: Xid (PCI:0000:41:00): 79, pid=1, GPU has fallen off the bus.",
    ],
    KIND.DRIVER_ERROR: [
        "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up "
        "environment",
        "Failed to initialize NVML: Driver/library version mismatch",
    ],
    KIND.DRIVER_TOO_OLD: [
        "Error: CUDA driver version is insufficient for CUDA runtime version",
        "RuntimeError: The NVIDIA driver on your system is too old (found 11040).",
        "RuntimeError: CUDA error: the provided PTX was compiled with an unsupported "
        "toolchain.",
    ],
    KIND.NO_DEVICE: [
        "pycuda._driver.Error: cuInit failed: no CUDA-capable device is detected",
        "RuntimeError: No CUDA GPUs are available",
        "RuntimeError: Found no NVIDIA driver on your system. Please check it.",
        "ImportError: libcuda.so.1: cannot open shared object file: No such file",
    ],
}

RESEMBLING = [
    "out of memory",
    "Out of memory: Killed process 123 (python) total-vm:9kB",
    "java.lang.OutOfMemoryError: Java heap space",
    "cc1plus: out of memory allocating 65536 bytes",
    "/usr/local/cuda/bin/cicc: out of memory",
    "RESOURCE_EXHAUSTED: grpc: received message larger than max",
    "a.c:3:5: runtime error: load of misaligned address 0x01 for type 'int'",
    "epoch 1 on cuda:0, GPU memory 3.1 GiB, CUDA 13.0",
    "CUDA_ERROR_INVALID_VALUE: invalid argument",
    '========= Program hit CUDA_ERROR_ILLEGAL_ADDRESS (error 700) due to "an illegal '
    'memory access was encountered" on CUDA API call to cuCtxSynchronize.',
    "12 |     if (e == cudaErrorMemoryAllocation)",
    "case cudaErrorIllegalAddress:",
    "return CUDA_ERROR_OUT_OF_MEMORY;",
    'a.cu(3): error: identifier "cudaErrorMemoryAllocation" is undefined',
    "raise GpuError('CUDA_ERROR_LAUNCH_FAILED')",
    "+ grep CUDA_ERROR_OUT_OF_MEMORY log.txt",
    "UserWarning: CUDA initialization: Found no NVIDIA driver on your system.",
    "2026-01-02 03:04:05.678901: E cuda_driver.cc:1] failed call to cuInit: "
    "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected",
    "2026-01-02 03:04:05.678901: W bfc_allocator.cc:1] Allocator (GPU_0_bfc) ran out "
    "of memory trying to allocate 2.00GiB",
]


@pytest.mark.parametrize(
    ("kind", "line"),
    [(kind, line) for kind, lines in TOLD.items() for line in lines],
)
def test_a_fault_is_known_by_the_line_that_tells_it(kind, line):
    before = "loss 0.5\n" * 900
    found = find(f"{before}  {line}\r\n{before}")

    assert found.gpu_faults == (GpuFault(kind, line[:LONGEST_LINE]),)


@pytest.mark.parametrize("line", RESEMBLING)
def test_what_only_resembles_a_fault_is_none(line):
    assert fault(line) is None
    assert find(line).gpu_faults == ()


@pytest.mark.lengthy
def test_every_name_and_sentence_is_found_among_dull_lines():
    dull = "dull\n" * 300
    told = [
        *printed._SENTENCES.items(),
        *((f"CUDA error: {said}", kind) for said, kind in printed._COMMON.items()),
        *((f"CUDA_ERROR_{name}", kind) for name, kind in printed._KINDS.items()),
        *((f"cudaError{name}", kind) for name, kind in printed._KINDS.items()),
    ]
    for line, kind in told:
        found = find(f"{dull}{line}\n{dull}")

        assert [fault.kind for fault in found.gpu_faults] == [kind], line


def test_every_kind_of_fault_has_lines_and_words_and_a_reason():
    assert set(TOLD) == set(GpuFaultKind)
    for kind in GpuFaultKind:
        assert kind.words
        assert GpuFault(kind, "").reason(given=True).exit_code != 0


def test_the_first_fault_counts_since_the_others_follow_from_it():
    found = find("CUDA_ERROR_OUT_OF_MEMORY\nCUDA_ERROR_ILLEGAL_ADDRESS\n")

    assert [f.kind for f in found.gpu_faults] == [
        KIND.OUT_OF_MEMORY,
        KIND.ILLEGAL_ADDRESS,
    ]
    assert found.gpu_fault == GpuFault(KIND.OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY")


def test_a_lost_gpu_counts_before_all_also_from_the_other_stream():
    stdout = find("CUDA error: out of memory\n" * 3)
    stderr = find("CUDA_ERROR_LAUNCH_FAILED\nCUDA_ERROR_ECC_UNCORRECTABLE\n")

    fault = combined([stdout, stderr]).gpu_fault

    assert fault.kind is KIND.DEVICE_LOST


def test_output_without_a_fault_has_none():
    assert Findings().gpu_fault is None


def test_a_long_line_is_cut_to_where_it_tells_the_fault():
    line = (
        "/very/long/path" * 50 + " CUDA error: an illegal memory access was encountered"
    )

    told = fault(line + " and more" * 50)

    assert len(told.line) == LONGEST_LINE
    assert told.line.endswith("an illegal memory access was encountered")


def test_colours_and_the_time_of_a_verbose_run_are_no_part_of_the_line():
    stamp = "[ 2019-10-11 13:03:32.123456789 -0500 CDT ] "
    text = f"{stamp}\x1b[31mCUDA\x1b[0m error: unspecified \x1b[1mlaunch failure\n"

    found = find(text)

    line = "CUDA error: unspecified launch failure"
    assert found.gpu_faults == (GpuFault(KIND.LAUNCH_FAILED, line),)


@pytest.mark.parametrize(
    ("kind", "given", "reason"),
    [
        (KIND.OUT_OF_MEMORY, True, Reason.GPU_MEMORY),
        (KIND.ILLEGAL_ADDRESS, True, Reason.GPU_FAULT),
        (KIND.NO_CODE, True, Reason.GPU_FAULT),
        (KIND.DEVICE_LOST, True, Reason.GPU_ERROR),
        (KIND.DEVICE_LOST, False, Reason.COMMAND_FAILED),
        (KIND.DRIVER_ERROR, True, Reason.GPU_ERROR),
        (KIND.DRIVER_ERROR, False, Reason.NO_GPU),
        (KIND.DRIVER_TOO_OLD, True, Reason.NO_GPU),
        (KIND.NO_DEVICE, True, Reason.GPU_ERROR),
        (KIND.NO_DEVICE, False, Reason.NO_GPU),
    ],
)
def test_whose_trouble_it_is_may_depend_on_whether_a_gpu_was_given(kind, given, reason):
    assert GpuFault(kind, "").reason(given=given) is reason

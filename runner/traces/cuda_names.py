"""CUDA's names of copies and calls, by the numbers that CUPTI documents for them."""

from __future__ import annotations

_DIRECTIONS = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
}

COPIES = {number: f"[CUDA memcpy {how}]" for number, how in _DIRECTIONS.items()}
"""Copies as nvprof's table names them."""

COPY = "[CUDA memcpy] of kind"
SET = "[CUDA memset]"

RUNTIME_CALLS = {
    3: "cudaGetDeviceCount",
    4: "cudaGetDeviceProperties",
    8: "cudaConfigureCall",
    9: "cudaSetupArgument",
    10: "cudaGetLastError",
    11: "cudaPeekAtLastError",
    13: "cudaLaunch",
    14: "cudaFuncSetCacheConfig",
    15: "cudaFuncGetAttributes",
    16: "cudaSetDevice",
    17: "cudaGetDevice",
    19: "cudaSetDeviceFlags",
    20: "cudaMalloc",
    21: "cudaMallocPitch",
    22: "cudaFree",
    23: "cudaMallocArray",
    24: "cudaFreeArray",
    25: "cudaMallocHost",
    26: "cudaFreeHost",
    27: "cudaHostAlloc",
    28: "cudaHostGetDevicePointer",
    30: "cudaMemGetInfo",
    31: "cudaMemcpy",
    32: "cudaMemcpy2D",
    39: "cudaMemcpyToSymbol",
    40: "cudaMemcpyFromSymbol",
    41: "cudaMemcpyAsync",
    44: "cudaMemcpy2DAsync",
    47: "cudaMemcpyToSymbolAsync",
    48: "cudaMemcpyFromSymbolAsync",
    49: "cudaMemset",
    50: "cudaMemset2D",
    51: "cudaMemsetAsync",
    55: "cudaBindTexture",
    123: "cudaThreadExit",
    126: "cudaThreadSynchronize",
    129: "cudaStreamCreate",
    130: "cudaStreamDestroy",
    131: "cudaStreamSynchronize",
    132: "cudaStreamQuery",
    133: "cudaEventCreate",
    134: "cudaEventCreateWithFlags",
    135: "cudaEventRecord",
    136: "cudaEventDestroy",
    137: "cudaEventSynchronize",
    138: "cudaEventQuery",
    139: "cudaEventElapsedTime",
    140: "cudaMalloc3D",
    144: "cudaMemcpy3D",
    147: "cudaStreamWaitEvent",
    152: "cudaHostRegister",
    153: "cudaHostUnregister",
    164: "cudaDeviceReset",
    165: "cudaDeviceSynchronize",
    211: "cudaLaunchKernel",
}
"""The runtime's calls that programs make most, by CUPTI's callback IDs."""

RUNTIME_CALL = "runtime call"
DRIVER_CALL = "driver call"

// NVIDIA's wheels of CUDA 12 lack nvcc's headers. CUPTI's headers include this one for macros that
// mark nvcc's built-in types, which other compilers can ignore.
#pragma once

#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __align__(n) __attribute__((aligned(n)))
#define CUDARTAPI
#define CUDARTAPI_CDECL
#define __host__
#define __device__
#define __global__
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __specialization_static static

// NVIDIA's wheels of CUDA 12 come without the compiler and its headers, of which CUPTI's own
// include this one, for words that mark what nvcc has built in and mean nothing elsewhere.
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

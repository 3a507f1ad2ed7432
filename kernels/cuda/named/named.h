/*
 * named.h: kernels that are started by their names. nvcc compiles them to files
 * without host code ("fatbins"), and the compiler of the library compiles the
 * rest of their source. There a kernel is a function without code, whose
 * address is that of a VaeNamedKernel; names.py writes these.
 */
#ifndef VAE_NAMED_H
#define VAE_NAMED_H

#include <cuda_runtime_api.h>

typedef struct VaeFatbin {
    const void *data;
    cudaLibrary_t library; /* NULL: not loaded */
} VaeFatbin;

typedef struct VaeNamedKernel {
    VaeFatbin *fatbin;
    const char *name;
    cudaKernel_t kernel; /* NULL: not loaded */
} VaeNamedKernel;

#ifdef __cplusplus
#undef __global__
#undef __device__
#undef __host__
#undef __forceinline__
#undef __launch_bounds__
#include "words.h"

#define VAE_GLOBAL inline __attribute__((gnu_inline))
#define VAE_ENTRY(kernel) vae_named_entry(reinterpret_cast<void *>(kernel))

extern "C"
#endif
    /* What functions of the run time take as a kernel; NULL on failure, which
     * they report. */
    const void *
    vae_named_entry(void *kernel);

#endif

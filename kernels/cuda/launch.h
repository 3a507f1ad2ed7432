/*
 * launch.h: starts kernels and gives them shared memory. nvcc compiles it for
 * CUDA. With VAE_KERNELS_BY_NAME, another compiler compiles all but the
 * kernels, which nvcc has compiled to a file, see named.h. Otherwise "emu.h" of
 * the tests replaces it and runs kernels on the CPU.
 */
#ifndef VAE_LAUNCH_H
#define VAE_LAUNCH_H

#if defined __CUDACC__ || defined VAE_KERNELS_BY_NAME
#ifdef __CUDACC__
#include <cuda_runtime.h>

/*
 * The block's dynamic shared memory, 16-byte aligned. Kernels use no static
 * shared memory, so that an emulation knows its bounds.
 */
#define VAE_SHARED(type, name)                                                 \
    extern __shared__ __align__(16) unsigned char vae_shared[];                \
    type *const name = reinterpret_cast<type *>(vae_shared)

#define VAE_UNROLL _Pragma("unroll")
#define VAE_NO_UNROLL _Pragma("unroll 1")

#define VAE_GLOBAL static __global__
#define VAE_ENTRY(kernel) reinterpret_cast<const void *>(kernel)
#else
#include "named/named.h"
#endif

#include "kernels.h"

template <typename T> struct VaeSame {
    typedef T Type;
};

/*
 * Starts kernel(args...) with `block` threads in each of the grid's blocks and
 * smem bytes of shared memory, or only loads the kernel. Errors stay in the
 * CUDA error state.
 */
template <typename... P>
static inline void
vae_launch(void (*kernel)(P...), dim3 grid, unsigned block, size_t smem,
           void *stream, typename VaeSame<P>::Type... args)
{
    void *list[] = {static_cast<void *>(&args)...};
    const void *const entry = VAE_ENTRY(kernel);
    if (stream == VAE_ONLY_LOAD) {
        cudaFuncAttributes ignored;
        (void) cudaFuncGetAttributes(&ignored, entry);
        return;
    }
    if (smem > 48 << 10)
        (void) cudaFuncSetAttribute(
            entry, cudaFuncAttributeMaxDynamicSharedMemorySize, (int) smem);
    (void) cudaLaunchKernel(entry, grid, dim3(block), list, smem,
                            static_cast<cudaStream_t>(stream));
}

/* The current device's compute capability, as 90 for 9.0; 0 on error. */
static inline int
vae_launch_capability(void)
{
    int device = 0, major = 0, minor = 0;
    if (cudaGetDevice(&device) ||
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor,
                               device) ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor,
                               device))
        return 0;
    return 10 * major + minor;
}

#else
#define VAE_GLOBAL static
#include "emu.h"
#endif

#endif

/*
 * inline.h: small functions that host code and CUDA kernels share.
 */
#ifndef VAE_INLINE_H
#define VAE_INLINE_H

#ifdef __CUDACC__
#define VAE_INLINE static __host__ __device__ __forceinline__
#else
#define VAE_INLINE static inline
#endif

#endif

/*
 * vectors.c: chooses the vector code of the CPU kernels.
 */
#include "simd.h"

#if defined(VAE_HAVE_AVX2) || defined(VAE_HAVE_AVX512)
static bool
allowed(const VaeQueue *q, VaeVectors vectors)
{
    return q->vectors == VAE_VECTORS_BEST || q->vectors >= vectors;
}
#endif

const VaeSimd *
vae_cpu_simd(const VaeQueue *q)
{
#ifdef VAE_HAVE_AVX512
    if (allowed(q, VAE_VECTORS_AVX512) && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return &vae_simd_avx512;
#endif
#ifdef VAE_HAVE_AVX2
    if (allowed(q, VAE_VECTORS_AVX2) && __builtin_cpu_supports("avx2"))
        return &vae_simd_avx2;
#endif
    return &vae_simd_base;
}

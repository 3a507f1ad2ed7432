/*
 * table.c: the table of the CPU kernels; chooses their vector code.
 */
#include "cpu.h"
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

const VaeKernels vae_kernels_cpu = {
    .name = "cpu",
    .norm = vae_cpu_norm,
    .rearrange = vae_cpu_rearrange,
    .cast = vae_cpu_cast,
    .shortcut = vae_cpu_shortcut,
    .clamp = vae_cpu_clamp,
    .depthwise = vae_cpu_depthwise,
    .latent_in = vae_cpu_latent_in,
    .latent_out = vae_cpu_latent_out,
    .nonfinite = vae_cpu_nonfinite,
    .picture_out = vae_cpu_picture_out,
    .picture_in = vae_cpu_picture_in,
};

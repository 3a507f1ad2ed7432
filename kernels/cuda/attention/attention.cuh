/*
 * attention.cuh: the attention kernels, for their launcher.
 */
#ifndef VAE_ATTENTION_CUH
#define VAE_ATTENTION_CUH

#include "common.cuh"

/* Launches a kernel for the matrix units, whose blocks have so many queries and
 * bytes of shared memory. Its scale makes scores exponents of two. */
static inline void
vae_launch_attention(const VaeQueue *q, const VaeAttentionArgs *a,
                     void (*kernel)(VaeAttentionArgs, float), int rows,
                     size_t bytes)
{
    vae_launch(kernel, dim3(vae_blocks((size_t) a->n, rows), (unsigned) a->t),
               VAE_THREADS, bytes, q->stream, *a,
               1.44269504f / sqrtf((float) a->c));
}

/* On the matrix units: x_type of 16 bits, c <= 1024 and a multiple of 8,
 * compute capability 8.0 or more. */
void vae_cuda_attention_matrix(const VaeQueue *q, const VaeAttentionArgs *a);

/* The same on compute capability 9.0, for 256 < c <= 640; qkv is aligned to 16
 * bytes. */
void vae_cuda_attention_wgmma(const VaeQueue *q, const VaeAttentionArgs *a);

/* For F32, multiplied as TF32; qkv is aligned to 16 bytes. */
void vae_cuda_attention_tf32(const VaeQueue *q, const VaeAttentionArgs *a);

#endif

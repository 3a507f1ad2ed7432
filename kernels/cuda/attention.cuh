/*
 * attention.cuh: the ways to attend, for the launcher.
 */
#ifndef VAE_ATTENTION_CUH
#define VAE_ATTENTION_CUH

#include "kernels.h"

/* On the matrix units: 16-bit x_type, c <= 1024 a multiple of 8, compute
 * capability 8.0 or more. */
void vae_cuda_attention_matrix(const VaeQueue *q, const VaeAttentionArgs *a);

/* The same for F32, multiplied as TF32; qkv is a multiple of 16. */
void vae_cuda_attention_tf32(const VaeQueue *q, const VaeAttentionArgs *a);

#endif

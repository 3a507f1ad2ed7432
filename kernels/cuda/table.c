/*
 * table.c: the table of the CUDA kernels.
 */
#include "cuda.h"

const VaeKernels vae_kernels_cuda = {
    .name = "cuda",
    .pictures = VAE_PICTURES_CUDA,
    .conv_matrix = vae_cuda_convolve,
    .norm = vae_cuda_norm,
    .attention = vae_cuda_attention,
    .window = vae_cuda_window,
    .window_scratch = vae_cuda_window_scratch,
    .glu = vae_cuda_glu,
    .noise = vae_cuda_noise,
    .rearrange = vae_cuda_rearrange,
    .cast = vae_cuda_cast,
    .shortcut = vae_cuda_shortcut,
    .clamp = vae_cuda_clamp,
    .depthwise = vae_cuda_depthwise,
    .latent_in = vae_cuda_latent_in,
    .latent_out = vae_cuda_latent_out,
    .nonfinite = vae_cuda_nonfinite,
    .picture_out = vae_cuda_picture_out,
    .picture_in = vae_cuda_picture_in,
};

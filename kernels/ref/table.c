/*
 * table.c: the reference kernels as a table.
 */
#include "ref.h"

const VaeKernels vae_kernels_ref = {
    .name = "ref",
    .conv = vae_ref_conv,
    .norm = vae_ref_norm,
    .attention = vae_ref_attention,
    .window = vae_ref_window,
    .window_scratch = vae_ref_window_scratch,
    .glu = vae_ref_glu,
    .noise = vae_ref_noise,
    .rearrange = vae_ref_rearrange,
    .cast = vae_ref_cast,
    .shortcut = vae_ref_shortcut,
    .clamp = vae_ref_clamp,
    .depthwise = vae_ref_depthwise,
    .latent_in = vae_ref_latent_in,
    .latent_out = vae_ref_latent_out,
    .nonfinite = vae_ref_nonfinite,
    .picture_out = vae_ref_picture_out,
    .picture_in = vae_ref_picture_in,
};

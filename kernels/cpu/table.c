/*
 * table.c: the table of the CPU kernels.
 */
#include "cpu.h"

const VaeKernels vae_kernels_cpu = {
    .name = "cpu",
    .norm = vae_cpu_norm,
    .window = vae_cpu_window,
    .window_scratch = vae_cpu_window_scratch,
    .glu = vae_cpu_glu,
    .noise = vae_cpu_noise,
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

/*
 * cpu.h: the CPU kernels.
 */
#ifndef VAE_CPU_H
#define VAE_CPU_H

#include "kernels.h"

void vae_cpu_norm(const VaeQueue *q, const VaeNormArgs *a);
void vae_cpu_window(const VaeQueue *q, const VaeWindowArgs *a);
size_t vae_cpu_window_scratch(int tx, int h, int w, int c);
void vae_cpu_glu(const VaeQueue *q, const VaeGluArgs *a);
void vae_cpu_noise(const VaeQueue *q, const VaeNoiseArgs *a);
void vae_cpu_rearrange(const VaeQueue *q, const VaeRearrangeArgs *a);
void vae_cpu_cast(const VaeQueue *q, const VaeCastArgs *a);
void vae_cpu_shortcut(const VaeQueue *q, const VaeShortcutArgs *a);
void vae_cpu_clamp(const VaeQueue *q, const VaeClampArgs *a);
void vae_cpu_depthwise(const VaeQueue *q, const VaeDepthwiseArgs *a);
void vae_cpu_latent_in(const VaeQueue *q, const VaeLatentInArgs *a);
void vae_cpu_latent_out(const VaeQueue *q, const VaeLatentOutArgs *a);
void vae_cpu_nonfinite(const VaeQueue *q, const VaeNonfiniteArgs *a);
void vae_cpu_picture_out(const VaeQueue *q, const VaePictureOutArgs *a);
void vae_cpu_picture_in(const VaeQueue *q, const VaePictureInArgs *a);

#endif

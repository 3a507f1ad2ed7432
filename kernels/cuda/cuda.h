/*
 * cuda.h: the launchers of the CUDA kernels.
 */
#ifndef VAE_CUDA_H
#define VAE_CUDA_H

#include "kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

void vae_cuda_convolve(const VaeQueue *q, const VaeConvMatrixArgs *a);
void vae_cuda_convolve_groups(const VaeQueue *q, const VaeConvMatrixArgs *a);
void vae_cuda_convolve_head(const VaeQueue *q, const VaeConvMatrixArgs *a);
void vae_cuda_norm(const VaeQueue *q, const VaeNormArgs *a);
void vae_cuda_attention(const VaeQueue *q, const VaeAttentionArgs *a);
void vae_cuda_window(const VaeQueue *q, const VaeWindowArgs *a);
size_t vae_cuda_window_scratch(int tx, int h, int w, int c);
void vae_cuda_glu(const VaeQueue *q, const VaeGluArgs *a);
void vae_cuda_noise(const VaeQueue *q, const VaeNoiseArgs *a);
void vae_cuda_rearrange(const VaeQueue *q, const VaeRearrangeArgs *a);
void vae_cuda_cast(const VaeQueue *q, const VaeCastArgs *a);
void vae_cuda_shortcut(const VaeQueue *q, const VaeShortcutArgs *a);
void vae_cuda_clamp(const VaeQueue *q, const VaeClampArgs *a);
void vae_cuda_depthwise(const VaeQueue *q, const VaeDepthwiseArgs *a);
void vae_cuda_latent_in(const VaeQueue *q, const VaeLatentInArgs *a);
void vae_cuda_latent_out(const VaeQueue *q, const VaeLatentOutArgs *a);
void vae_cuda_nonfinite(const VaeQueue *q, const VaeNonfiniteArgs *a);
void vae_cuda_picture_out(const VaeQueue *q, const VaePictureOutArgs *a);
void vae_cuda_picture_in(const VaeQueue *q, const VaePictureInArgs *a);

#ifdef __cplusplus
}
#endif
#endif

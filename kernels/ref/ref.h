/*
 * ref.h: the reference kernels, for their table.
 */
#ifndef VAE_REF_H
#define VAE_REF_H

#include "kernels.h"

static inline bool
vae_ref_cancelled(const VaeQueue *q)
{
    return q->cancelled && q->cancelled(q->user);
}

void vae_ref_conv(const VaeQueue *q, const VaeConvArgs *a);
void vae_ref_norm(const VaeQueue *q, const VaeNormArgs *a);
void vae_ref_attention(const VaeQueue *q, const VaeAttentionArgs *a);
void vae_ref_window(const VaeQueue *q, const VaeWindowArgs *a);
size_t vae_ref_window_scratch(int tx, int h, int w, int c);
void vae_ref_glu(const VaeQueue *q, const VaeGluArgs *a);
void vae_ref_noise(const VaeQueue *q, const VaeNoiseArgs *a);
void vae_ref_rearrange(const VaeQueue *q, const VaeRearrangeArgs *a);
void vae_ref_cast(const VaeQueue *q, const VaeCastArgs *a);
void vae_ref_shortcut(const VaeQueue *q, const VaeShortcutArgs *a);
void vae_ref_clamp(const VaeQueue *q, const VaeClampArgs *a);
void vae_ref_depthwise(const VaeQueue *q, const VaeDepthwiseArgs *a);
void vae_ref_latent_in(const VaeQueue *q, const VaeLatentInArgs *a);
void vae_ref_latent_out(const VaeQueue *q, const VaeLatentOutArgs *a);
void vae_ref_nonfinite(const VaeQueue *q, const VaeNonfiniteArgs *a);
void vae_ref_picture_out(const VaeQueue *q, const VaePictureOutArgs *a);
void vae_ref_picture_in(const VaeQueue *q, const VaePictureInArgs *a);

#endif

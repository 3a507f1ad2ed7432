/*
 * blocks.h: blocks that the models share. Names are relative to the entered
 * path.
 */
#ifndef VAE_BLOCKS_H
#define VAE_BLOCKS_H

#include "builder.h"

/* groups 0: RMS norm over channels (gamma); VAE_PIXEL_NORM: the same without
 * gains, with an eps of 1e-8; else group norm (weight, bias). */
#define VAE_PIXEL_NORM (-1)
const VaeTensor *vae_block_norm_silu(VaeBuilder *b, const char *name,
                                     const VaeTensor *x, int groups);

typedef struct VaeResidual {
    const char *norm1, *conv1, *norm2, *conv2, *shortcut;
    bool two_d; /* of one frame: weights are [c, cin, 3, 3] */
    VaeConvPad pad;
} VaeResidual;

/*
 * shortcut(x) + conv2(silu(norm2(conv1(silu(norm1(x)))))), both convs causal
 * 3x3x3, or 3x3; x (t, h, w, cin) -> (t, h, w, c). The shortcut is a 1x1x1 conv
 * if cin != c. Carries two frames for each conv. Unless keep, the sum
 * overwrites x, and x must not be read later.
 */
const VaeTensor *vae_block_residual(VaeBuilder *b, const VaeResidual *names,
                                    const VaeTensor *x, int c, int groups,
                                    bool keep);

typedef struct VaeAttentionBlock {
    const char *norm;
    const char *qkv;      /* one conv of 3c channels, or NULL */
    const char *stack[3]; /* three linear layers, if qkv is NULL */
    const char *out;
    bool linear; /* weights are [c, c], not [c, c, 1, 1] */
    bool video;  /* weights are [c, c, 1, 1, 1] unless linear, gains [c, 1, 1,
                    1]; a pixel also sees those of all earlier latents */
} VaeAttentionBlock;

/* x + out(attention(norm(x))), one head over the pixels of a frame. */
const VaeTensor *vae_block_attention(VaeBuilder *b,
                                     const VaeAttentionBlock *names,
                                     const VaeTensor *x, int groups);

/* A residual block `resnets.i`, and the block mid_block of two of them around
 * an attention, with diffusers' names. */
const VaeTensor *vae_block_resnet(VaeBuilder *b, const VaeResidual *names,
                                  int i, const VaeTensor *x, int c, int groups);
const VaeTensor *vae_block_middle(VaeBuilder *b, const VaeResidual *names,
                                  const VaeAttentionBlock *attention,
                                  const VaeTensor *x, int groups);

#endif

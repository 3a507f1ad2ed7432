/*
 * seedvr2.c: the VAE of SeedVR and SeedVR2, and of the demo model.
 *
 * 16 latent channels, 8x8 pixels and 4 frames per latent. Convolutions begin
 * with copies of their own first frame; norms are per frame and group.
 */
#include "blocks.h"
#include "seedvr2.h"

static const VaeResidual residual = {"norm1", "conv1", "norm2", "conv2",
                                     "conv_shortcut"};
static const VaeAttentionBlock attention = {.norm = "group_norm",
                                            .stack = {"to_q", "to_k", "to_v"},
                                            .out = "to_out.0",
                                            .linear = true};

static const VaeTensor *
head(VaeBuilder *b, const VaeTensor *x, int c)
{
    const VaeSeedVr2 *a = vae_arch_data(b);
    x = vae_block_norm_silu(b, "conv_norm_out", x, a->groups);
    return vae_conv(b, "conv_out", x, (VaeConv){.c = c, .k = 3, .kt = 3});
}

/* (t, h, w, c) -> (t or 2t, 2h, 2w, c). The first step makes two frames of
 * its one, as every step does, and drops the second. */
static const VaeTensor *
up(VaeBuilder *b, const VaeTensor *x, bool temporal)
{
    const int ft = temporal ? 2 : 1;
    if (!x)
        return NULL;
    const int c = x->shape.c;
    vae_enter(b, "upsamplers.0");
    x = vae_conv(b, "upscale_conv", x, (VaeConv){.c = 4 * ft * c});
    x = vae_rearrange(b, "shuffle", x,
                      (VaeMove){.kind = VAE_SHUFFLE_RQTC,
                                .ft = ft,
                                .fs = 2,
                                .drop = temporal && vae_is_first(b)});
    x = vae_conv(b, "conv", x, (VaeConv){.c = c, .k = 3, .kt = 3});
    vae_leave(b);
    return x;
}

/* (t, h, w, c) -> (t or t / 2, h / 2, w / 2, c). */
static const VaeTensor *
down(VaeBuilder *b, const VaeTensor *x, bool temporal)
{
    if (!x)
        return NULL;
    vae_enter(b, "downsamplers.0");
    x = vae_conv(b, "conv", x,
                 (VaeConv){.c = x->shape.c,
                           .k = 3,
                           .kt = temporal ? 3 : 1,
                           .s = 2,
                           .st = temporal ? 2 : 1,
                           .pad = VAE_PAD_RIGHT_BOTTOM});
    vae_leave(b);
    return x;
}

/* The levels of a side, up or down: residual blocks, then a resampler. */
static const VaeTensor *
levels(VaeBuilder *b, const VaeTensor *x, const VaeSeedVr2Side *side,
       bool is_up)
{
    const VaeSeedVr2 *a = vae_arch_data(b);
    for (int i = 0; i < side->n; i++) {
        const VaeSeedVr2Block *block = &side->blocks[i];
        vae_enter(b, is_up ? "up_blocks.%d" : "down_blocks.%d", i);
        for (int j = 0; j < block->n_res; j++)
            x = vae_block_resnet(b, &residual, j, x, block->c, a->groups);
        if (block->sampler)
            x = (is_up ? up : down)(b, x, block->temporal);
        vae_leave(b);
    }
    return x;
}

static void
decode(VaeBuilder *b)
{
    const VaeSeedVr2 *a = vae_arch_data(b);
    vae_set_head(b, VAE_HEAD_REPEAT);
    const VaeTensor *x = vae_input(b);
    vae_enter(b, "decoder");
    x = vae_conv(b, "conv_in", x, (VaeConv){.c = a->dec.c, .k = 3, .kt = 3});
    x = vae_block_middle(b, &residual, &attention, x, a->groups);
    x = levels(b, x, &a->dec, true);
    x = head(b, x, 3);
    vae_leave(b);
    vae_output(b, x);
}

static void
encode(VaeBuilder *b)
{
    const VaeSeedVr2 *a = vae_arch_data(b);
    vae_set_head(b, VAE_HEAD_REPEAT);
    const VaeTensor *x = vae_input(b);
    vae_enter(b, "encoder");
    x = vae_conv(b, "conv_in", x, (VaeConv){.c = a->enc.c, .k = 3, .kt = 3});
    x = levels(b, x, &a->enc, false);
    x = vae_block_middle(b, &residual, &attention, x, a->groups);
    x = head(b, x, 2 * a->z);
    vae_leave(b);
    vae_output(b, x);
}

const VaeArch vae_arch_seedvr2 = {.name = "seedvr2",
                                  .data_size = sizeof(VaeSeedVr2),
                                  .other_names = 1,
                                  .rename = vae_seedvr2_rename,
                                  .recognise = vae_seedvr2_recognise,
                                  .stated = vae_seedvr2_stated,
                                  .preset = vae_seedvr2_preset,
                                  .ramp = VAE_RAMP_COSINE,
                                  .decode = decode,
                                  .encode = encode};

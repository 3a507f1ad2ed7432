/*
 * seedvr2.c: the VAE of SeedVR and SeedVR2, and of the demo model.
 *
 * 16 latent channels, 8x8 pixels and 4 frames per latent. Convolutions begin
 * with copies of their own first frame; norms are per frame and group.
 */
#include <stdio.h>
#include <string.h>

#include "blocks.h"
#include "model_internal.h"

#define MAX_BLOCKS 6

/* One of encoder.down_blocks or decoder.up_blocks. */
typedef struct Block {
    int c, n_res;
    bool sampler, temporal;
} Block;

typedef struct Side {
    int c; /* channels after conv_in */
    int n;
    Block blocks[MAX_BLOCKS];
} Side;

typedef struct SeedVr2 {
    int z, groups;
    float scale; /* normalized = raw * scale */
    bool old_names;
    Side enc, dec;
} SeedVr2;

static const VaeResidual residual = {"norm1", "conv1", "norm2", "conv2",
                                     "conv_shortcut"};
static const VaeAttentionBlock attention = {.norm = "group_norm",
                                            .stack = {"to_q", "to_k", "to_v"},
                                            .out = "to_out.0",
                                            .linear = true};

/* ------------------------------------------------------------------ */
/* The forward passes.                                                 */

static const VaeTensor *
res_block(VaeBuilder *b, int index, const VaeTensor *x, int c)
{
    const SeedVr2 *a = vae_arch_data(b);
    vae_enter(b, "resnets.%d", index);
    x = vae_block_residual(b, &residual, x, c, a->groups, false);
    vae_leave(b);
    return x;
}

static const VaeTensor *
middle(VaeBuilder *b, const VaeTensor *x)
{
    const SeedVr2 *a = vae_arch_data(b);
    if (!x)
        return NULL;
    const int c = x->shape.c;
    vae_enter(b, "mid_block");
    x = res_block(b, 0, x, c);
    vae_enter(b, "attentions.0");
    x = vae_block_attention(b, &attention, x, a->groups);
    vae_leave(b);
    x = res_block(b, 1, x, c);
    vae_leave(b);
    return x;
}

static const VaeTensor *
head(VaeBuilder *b, const VaeTensor *x, int c)
{
    const SeedVr2 *a = vae_arch_data(b);
    x = vae_block_norm_silu(b, "conv_norm_out", x, a->groups);
    return vae_conv(b, "conv_out", x, (VaeConv){.c = c, .k = 3, .kt = 3});
}

/* (t, h, w, c) -> (t or 2t, 2h, 2w, c). The first step makes two frames of
 * its one as every step does, and drops the second. */
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

static void
decode(VaeBuilder *b)
{
    const SeedVr2 *a = vae_arch_data(b);
    vae_set_head(b, VAE_HEAD_REPEAT);
    const VaeTensor *x = vae_input(b);
    vae_enter(b, "decoder");
    x = vae_conv(b, "conv_in", x, (VaeConv){.c = a->dec.c, .k = 3, .kt = 3});
    x = middle(b, x);
    for (int i = 0; i < a->dec.n; i++) {
        const Block *block = &a->dec.blocks[i];
        vae_enter(b, "up_blocks.%d", i);
        for (int j = 0; j < block->n_res; j++)
            x = res_block(b, j, x, block->c);
        if (block->sampler)
            x = up(b, x, block->temporal);
        vae_leave(b);
    }
    x = head(b, x, 3);
    vae_leave(b);
    vae_output(b, x);
}

static void
encode(VaeBuilder *b)
{
    const SeedVr2 *a = vae_arch_data(b);
    vae_set_head(b, VAE_HEAD_REPEAT);
    const VaeTensor *x = vae_input(b);
    vae_enter(b, "encoder");
    x = vae_conv(b, "conv_in", x, (VaeConv){.c = a->enc.c, .k = 3, .kt = 3});
    for (int i = 0; i < a->enc.n; i++) {
        const Block *block = &a->enc.blocks[i];
        vae_enter(b, "down_blocks.%d", i);
        for (int j = 0; j < block->n_res; j++)
            x = res_block(b, j, x, block->c);
        if (block->sampler)
            x = down(b, x, block->temporal);
        vae_leave(b);
    }
    x = middle(b, x);
    x = head(b, x, 2 * a->z);
    vae_leave(b);
    vae_output(b, x);
}

/* ------------------------------------------------------------------ */
/* Names and recognition.                                              */

/* Early files call the attention's layers query, key, value, proj_attn. */
static bool
rename_tensor(const VaeModel *m, const char *name, char *out)
{
    static const char *const pairs[][2] = {{".to_q.", ".query."},
                                           {".to_k.", ".key."},
                                           {".to_v.", ".value."},
                                           {".to_out.0.", ".proj_attn."}};
    if (strlen(name) > 200)
        return false;
    strcpy(out, name);
    if (!m->naming)
        return true;
    for (int i = 0; i < 4; i++) {
        const char *at = strstr(name, pairs[i][0]);
        if (at)
            sprintf(out + (at - name), "%s%s", pairs[i][1],
                    at + strlen(pairs[i][0]));
    }
    return true;
}

static int
res_width(const VaeModel *m, const char *list, int i, int j)
{
    int c = vae_model_width(m, "%s.%d.resnets.%d.norm2", list, i, j);
    if (!c)
        c = vae_model_width(m, "%s.%d.resnets.%d.conv2", list, i, j);
    return c ? c : vae_model_width(m, "%s.%d.resnets.%d.conv1", list, i, j);
}

static void
read_side(const VaeModel *m, const char *list, bool up_side, Side *side)
{
    for (int i = 0; i < MAX_BLOCKS; i++) {
        Block *block = &side->blocks[i];
        for (int j = 0; j < 16; j++) {
            const int c = res_width(m, list, i, j);
            if (c) {
                block->n_res = j + 1;
                block->c = c;
            }
        }
        if (!block->n_res)
            return;
        side->n = i + 1;
        const char *sampler =
            up_side ? "upsamplers.0.upscale_conv" : "downsamplers.0.conv";
        const int c = vae_model_width(m, "%s.%d.%s", list, i, sampler);
        block->sampler = c > 0;
        block->temporal = up_side ? c == 8 * block->c
                                  : vae_model_dim(m, 2, "%s.%d.%s.weight", list,
                                                  i, sampler) == 3;
    }
}

static void
describe(VaeModelInfo *info, const SeedVr2 *a)
{
    int space = 0, time = 0;
    const Side *side = info->has_decoder ? &a->dec : &a->enc;
    for (int i = 0; i < side->n; i++) {
        space += side->blocks[i].sampler;
        time += side->blocks[i].temporal;
    }
    info->arch = "seedvr2";
    info->space = "seedvr2";
    info->latent_channels = a->z;
    info->spatial = 1 << space;
    info->temporal = 1 << time;
    info->has_posterior = info->has_encoder;
    info->decode = (VaeSteps){1, 1, 1, info->temporal};
    info->encode = (VaeSteps){1, 1, info->temporal, 1};
    info->pixel_low = -1;
    info->pixel_high = 1;
    info->fps_n = 16;
    info->fps_d = 1;
    for (int i = 0; i < a->z; i++) {
        info->mean[i] = 0;
        info->std[i] = 1 / a->scale;
    }
}

static bool
is_mine(const VaeModel *m)
{
    return (vae_model_find(m, "decoder.mid_block.resnets.0.norm1.weight") &&
            vae_model_find(
                m, "decoder.up_blocks.0.upsamplers.0.upscale_conv.weight")) ||
           (vae_model_find(m, "encoder.mid_block.resnets.0.norm1.weight") &&
            vae_model_dim(m, 2, "encoder.conv_in.weight") == 3);
}

static bool
read_stated(VaeRecognise *r, SeedVr2 *a, VaeError *error)
{
    double number;
    a->groups = 32;
    a->scale = 0.9152f;
    if (vae_model_meta_number(r->model, "norm_num_groups", &number)) {
        if (!(number >= 1 && number <= 1024)) {
            vae_fail(error, VAE_ERR_MODEL,
                     "norm_num_groups is %g, expected "
                     "1..1024",
                     number);
            return false;
        }
        a->groups = (int) number;
    }
    if (vae_model_meta_number(r->model, "scaling_factor", &number)) {
        if (!(number > 1e-6 && number < 1e6)) {
            vae_fail(error, VAE_ERR_MODEL,
                     "scaling_factor is %g, expected a "
                     "positive number",
                     number);
            return false;
        }
        a->scale = (float) number;
    }
    return true;
}

static bool
recognise(VaeRecognise *r, VaeError *error)
{
    VaeModel *m = (VaeModel *) r->model;
    SeedVr2 *a = r->data;
    m->naming = 0;
    if (!is_mine(m))
        return false;
    m->naming =
        vae_model_has_prefix(m, "decoder.mid_block.attentions.0.query.") ||
        vae_model_has_prefix(m, "encoder.mid_block.attentions.0.query.");
    r->info->names = m->naming ? "official, old attention names" : "official";
    r->info->reason = "up_blocks.0.upsamplers.0.upscale_conv";
    read_side(m, "encoder.down_blocks", false, &a->enc);
    read_side(m, "decoder.up_blocks", true, &a->dec);
    a->enc.c = vae_model_width(m, "encoder.conv_in");
    a->dec.c = vae_model_width(m, "decoder.conv_in");
    a->z = vae_model_dim(m, 1, "decoder.conv_in.weight");
    if (!a->z)
        a->z = vae_model_width(m, "encoder.conv_out") / 2;
    if (a->z < 1 || a->z > VAE_MAX_LATENT_CHANNELS) {
        vae_fail(error, VAE_ERR_MODEL,
                 "neither decoder.conv_in.weight nor "
                 "encoder.conv_out tells a number of latent channels in "
                 "1..%d",
                 VAE_MAX_LATENT_CHANNELS);
        return true;
    }
    if (read_stated(r, a, error))
        describe(r->info, a);
    return true;
}

static void
preset(VaeRecognise *r)
{
    static const int width[4] = {128, 256, 512, 512};
    SeedVr2 *a = r->data;
    *a = (SeedVr2){.z = 16,
                   .groups = 32,
                   .scale = 0.9152f,
                   .enc.c = 128,
                   .dec.c = 512,
                   .enc.n = 4,
                   .dec.n = 4};
    for (int i = 0; i < 4; i++) {
        a->enc.blocks[i] = (Block){.c = width[i],
                                   .n_res = 2,
                                   .sampler = i < 3,
                                   .temporal = i == 1 || i == 2};
        a->dec.blocks[i] = (Block){
            .c = width[3 - i], .n_res = 3, .sampler = i < 3, .temporal = i < 2};
    }
    r->info->names = "official";
    describe(r->info, a);
}

const VaeArch vae_arch_seedvr2 = {.name = "seedvr2",
                                  .data_size = sizeof(SeedVr2),
                                  .rename = rename_tensor,
                                  .recognise = recognise,
                                  .preset = preset,
                                  .decode = decode,
                                  .encode = encode};

/*
 * hunyuan10.c: the VAE of HunyuanVideo 1.0, also of FramePack and Kandinsky 5.
 *
 * 16 latent channels, 8x8 pixels and 4 frames per latent. Its group norms are
 * over all frames of a clip, so it computes tiles, each as a clip of
 * its own. Convolutions begin with copies of their first frame and repeat the
 * edges of the picture.
 */
#include <stddef.h>
#include <string.h>

#include "blocks.h"
#include "arch.h"
#include "ldm.h"

/* All levels but the last have a resampler, and all but the first and the last
 * also resample in time. */
enum { LEVELS = 4, MOST_BLOCKS = 16 };

typedef struct Side {
    int c; /* channels after conv_in */
    int width[LEVELS], blocks[LEVELS];
} Side;

typedef struct Hunyuan10 {
    int z, groups;
    bool linear;   /* weights of attention are [c, c] */
    double factor; /* of latents, as the file states; 0: it does not */
    Side enc, dec;
} Hunyuan10;

/* ------------------------------------------------------------------ */
/* The forward pass.                                                   */

static const VaeResidual residual = {.norm1 = "norm1",
                                     .conv1 = "conv1.conv",
                                     .norm2 = "norm2",
                                     .conv2 = "conv2.conv",
                                     .shortcut = "conv_shortcut.conv",
                                     .pad = VAE_PAD_REPLICATE};

static const VaeTensor *
conv(VaeBuilder *b, const char *name, const VaeTensor *x, int c)
{
    return vae_conv(
        b, name, x,
        (VaeConv){.c = c, .k = 3, .kt = 3, .pad = VAE_PAD_REPLICATE});
}

static const VaeTensor *
down(VaeBuilder *b, const VaeTensor *x, int c, bool temporal)
{
    return vae_conv(b, "downsamplers.0.conv.conv", x,
                    (VaeConv){.c = c,
                              .k = 3,
                              .kt = 3,
                              .s = 2,
                              .st = temporal ? 2 : 1,
                              .pad = VAE_PAD_REPLICATE});
}

static const VaeTensor *
res_block(VaeBuilder *b, int index, const VaeTensor *x, int c)
{
    const Hunyuan10 *a = vae_arch_data(b);
    vae_enter(b, "resnets.%d", index);
    x = vae_block_residual(b, &residual, x, c, a->groups, false);
    vae_leave(b);
    return x;
}

static const VaeTensor *
middle(VaeBuilder *b, const VaeTensor *x)
{
    const Hunyuan10 *a = vae_arch_data(b);
    const VaeAttentionBlock attention = {.norm = "group_norm",
                                         .stack = {"to_q", "to_k", "to_v"},
                                         .out = "to_out.0",
                                         .linear = a->linear,
                                         .video = true};
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

/* Makes one frame of the first one, and two of each later one if temporal. */
static const VaeTensor *
up(VaeBuilder *b, const VaeTensor *x, int c, bool temporal)
{
    vae_enter(b, "upsamplers.0");
    x = vae_rearrange(b, "nearest", x,
                      (VaeMove){.kind = VAE_NEAREST,
                                .ft = temporal ? 2 : 1,
                                .fs = 2,
                                .drop = temporal});
    x = conv(b, "conv.conv", x, c);
    vae_leave(b);
    return x;
}

/* The levels of a side, up or down: residual blocks, then a resampler. */
static const VaeTensor *
levels(VaeBuilder *b, const VaeTensor *x, const Side *s, bool is_up)
{
    for (int i = 0; i < LEVELS; i++) {
        vae_enter(b, is_up ? "up_blocks.%d" : "down_blocks.%d", i);
        for (int j = 0; j < s->blocks[i]; j++)
            x = res_block(b, j, x, s->width[i]);
        if (i < LEVELS - 1)
            x = (is_up ? up : down)(b, x, s->width[i], i > 0);
        vae_leave(b);
    }
    return x;
}

static void
decode(VaeBuilder *b)
{
    const Hunyuan10 *a = vae_arch_data(b);
    const Side *s = &a->dec;
    vae_set_head(b, VAE_HEAD_REPEAT);
    const VaeTensor *x = vae_input(b);
    x = vae_conv(b, "post_quant_conv", x, (VaeConv){.c = a->z});
    vae_enter(b, "decoder");
    x = conv(b, "conv_in.conv", x, s->c);
    x = middle(b, x);
    x = levels(b, x, s, true);
    x = vae_block_norm_silu(b, "conv_norm_out", x, a->groups);
    x = conv(b, "conv_out.conv", x, 3);
    vae_leave(b);
    vae_output(b, x);
}

static void
encode(VaeBuilder *b)
{
    const Hunyuan10 *a = vae_arch_data(b);
    const Side *s = &a->enc;
    vae_set_head(b, VAE_HEAD_REPEAT);
    const VaeTensor *x = vae_input(b);
    vae_enter(b, "encoder");
    x = conv(b, "conv_in.conv", x, s->c);
    x = levels(b, x, s, false);
    x = middle(b, x);
    x = vae_block_norm_silu(b, "conv_norm_out", x, a->groups);
    x = conv(b, "conv_out.conv", x, 2 * a->z);
    vae_leave(b);
    x = vae_conv(b, "quant_conv", x, (VaeConv){.c = 2 * a->z});
    vae_output(b, x);
}

/* ------------------------------------------------------------------ */
/* Names and recognition.                                              */

static bool
rename_tensor(int naming, const char *name, char *out)
{
    if (strlen(name) > 150)
        return false;
    strcpy(out, name);
    vae_rename_ldm(out, LEVELS);
    return true;
}

static bool
has_half(const VaeModel *m, const char *side)
{
    return vae_model_has_block(m, "%s.conv_in.conv.", side) &&
           vae_model_has_block(m, "%s.mid_block.resnets.0.", side) &&
           vae_model_width(m, "%s.conv_norm_out", side) > 0;
}

static bool
has_names(const VaeModel *m)
{
    return has_half(m, "decoder") || has_half(m, "encoder");
}

static int
block_width(const VaeModel *m, const char *list, int i, int j)
{
    return vae_model_likelier(
        m, vae_model_width(m, "%s.%d.resnets.%d.conv1.conv", list, i, j),
        vae_model_width(m, "%s.%d.resnets.%d.conv2.conv", list, i, j));
}

static void
read_side(const VaeModel *m, const char *list, Side *s)
{
    for (int i = 0; i < LEVELS; i++)
        while (
            s->blocks[i] < MOST_BLOCKS &&
            vae_model_has_block(m, "%s.%d.resnets.%d.", list, i, s->blocks[i]))
            s->width[i] = block_width(m, list, i, s->blocks[i]++);
}

static void
describe(VaeRecognise *r, const Hunyuan10 *a)
{
    r->info->in_tiles = true;
    vae_describe_causal(r, "hunyuan", a->z, 8, 4);
    vae_describe_factor(r, a->factor, 0);
}

static bool
recognise(VaeRecognise *r, VaeError *error)
{
    const VaeModel *m = r->model;
    Hunyuan10 *a = r->data;
    *r->naming = 0;
    if (!has_names(m)) {
        *r->naming = 1;
        r->info->names = "ComfyUI";
        if (!has_names(m))
            return false;
    }
    r->info->reason = "conv_in.conv and conv_norm_out";
    read_side(m, "encoder.down_blocks", &a->enc);
    read_side(m, "decoder.up_blocks", &a->dec);
    a->enc.c = vae_model_width(m, "encoder.conv_in.conv");
    a->dec.c = vae_model_width(m, "decoder.conv_in.conv");
    a->z = vae_read_latent_channels(m, "decoder.conv_in.conv",
                                    "encoder.conv_out.conv", error);
    a->linear = vae_ldm_is_linear(m);
    describe(r, a);
    return true;
}

static void
preset(VaeRecognise *r)
{
    static const int width[LEVELS] = {512, 512, 256, 128};
    Hunyuan10 *a = r->data;
    *a = (Hunyuan10){.z = 16, .linear = true, .enc.c = 128, .dec.c = 512};
    for (int i = 0; i < LEVELS; i++) {
        a->enc.width[i] = width[LEVELS - 1 - i];
        a->enc.blocks[i] = 2;
        a->dec.width[i] = width[i];
        a->dec.blocks[i] = 3;
    }
    describe(r, a);
}

static const VaeStated stated[] = {
    {"norm_num_groups", 32, 1, 1024, offsetof(Hunyuan10, groups),
     .label = "groups"},
    {"scaling_factor", 0, 1e-6, 1e6, offsetof(Hunyuan10, factor), .real = true},
    {0}};

static const VaeFixed fixed[] = {{"act_fn", "silu"},
                                 {"mid_block_add_attention", "true"},
                                 {"spatial_compression_ratio", "8"},
                                 {"temporal_compression_ratio", "4"},
                                 {0}};

const VaeArch vae_arch_hunyuan10 = {.name = "hunyuan1.0",
                                    .data_size = sizeof(Hunyuan10),
                                    .other_names = 1,
                                    .rename = rename_tensor,
                                    .recognise = recognise,
                                    .stated = stated,
                                    .fixed = fixed,
                                    .preset = preset,
                                    .decode = decode,
                                    .encode = encode};

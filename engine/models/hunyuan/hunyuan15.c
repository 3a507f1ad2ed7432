/*
 * hunyuan15.c: the VAE of HunyuanVideo 1.5.
 *
 * 32 latent channels, 16x16 pixels and 4 frames per latent. Convolutions begin
 * with copies of their own first frame and repeat the edges of the picture.
 * Resamplers move channels to pixels and frames and back, and add their input
 * through a shortcut without weights.
 */
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "blocks.h"
#include "arch.h"

enum { LEVELS = 8, MOST_BLOCKS = 16 };

/* One of encoder.down or decoder.up. */
typedef struct Level {
    int c, n_res;
    bool sampler, temporal;
} Level;

typedef struct Side {
    int c; /* channels after conv_in */
    int n;
    Level levels[LEVELS];
} Side;

typedef struct Hunyuan15 {
    int z;
    double factor; /* of latents, as the file states; 0: it does not */
    Side enc, dec;
} Hunyuan15;

/* ------------------------------------------------------------------ */
/* The forward passes.                                                 */

static const VaeResidual residual = {.norm1 = "norm1",
                                     .conv1 = "conv1.conv",
                                     .norm2 = "norm2",
                                     .conv2 = "conv2.conv",
                                     .pad = VAE_PAD_REPLICATE};
static const VaeAttentionBlock attention = {
    .norm = "norm", .stack = {"q", "k", "v"}, .out = "proj_out", .video = true};

static const VaeTensor *
conv(VaeBuilder *b, const char *name, const VaeTensor *x, int c, bool narrow)
{
    return vae_conv(b, name, x,
                    (VaeConv){.c = c,
                              .k = 3,
                              .kt = 3,
                              .pad = VAE_PAD_REPLICATE,
                              .narrow = narrow});
}

static const VaeTensor *
res_block(VaeBuilder *b, const char *name, int index, const VaeTensor *x)
{
    if (!x)
        return NULL;
    vae_enter(b, name, index);
    x = vae_block_residual(b, &residual, x, x->shape.c, 0, false);
    vae_leave(b);
    return x;
}

static const VaeTensor *
middle(VaeBuilder *b, const VaeTensor *x)
{
    vae_enter(b, "mid");
    x = res_block(b, "block_%d", 1, x);
    vae_enter(b, "attn_1");
    x = vae_block_attention(b, &attention, x, 0);
    vae_leave(b);
    x = res_block(b, "block_%d", 2, x);
    vae_leave(b);
    return x;
}

/* Up, (t, h, w, .) -> (t or 2t, 2h, 2w, c), or down, -> (t or t / 2, h / 2,
 * w / 2, c). The first step has one frame before and after it: up, it drops the
 * second of each pixel's two groups of c channels; down, the convolution's
 * result takes the places of two frames. */
static const VaeTensor *
resample(VaeBuilder *b, const VaeTensor *x, int c, bool temporal, bool up)
{
    const int ft = temporal ? 2 : 1;
    const bool one = temporal && vae_is_first(b);
    vae_enter(b, up ? "upsample" : "downsample");
    const VaeTensor *y =
        conv(b, "conv.conv", x, up ? 4 * ft * c : c / (4 * ft), true);
    y = vae_rearrange(b, up ? "shuffle" : "pack", y,
                      (VaeMove){.kind = !up   ? VAE_FOLD_TRQC
                                        : one ? VAE_SHUFFLE_RQTC
                                              : VAE_SHUFFLE_TRQC,
                                .ft = ft,
                                .fs = 2,
                                .drop = up && one,
                                .wide = true});
    y = vae_shortcut(
        b, "shortcut", y, x,
        (VaeShortcutMove){.kind = up ? VAE_SHORTCUT_DUP : VAE_SHORTCUT_AVERAGE,
                          .ft = one ? 1 : ft,
                          .fs = 2,
                          .channels_fast = true});
    vae_leave(b);
    return y;
}

/* The levels of a side, up or down: residual blocks, then a resampler. */
static const VaeTensor *
levels(VaeBuilder *b, const VaeTensor *x, const Side *side, bool up)
{
    for (int i = 0; i < side->n; i++) {
        const Level *level = &side->levels[i];
        vae_enter(b, up ? "up.%d" : "down.%d", i);
        for (int j = 0; j < level->n_res; j++)
            x = res_block(b, "block.%d", j, x);
        if (level->sampler)
            x = resample(b, x, level[1].c, level->temporal, up);
        vae_leave(b);
    }
    return x;
}

static void
decode(VaeBuilder *b)
{
    const Hunyuan15 *a = vae_arch_data(b);
    const Side *side = &a->dec;
    vae_set_head(b, VAE_HEAD_REPEAT);
    const VaeTensor *z = vae_input(b);
    vae_enter(b, "decoder");
    const VaeTensor *x = conv(b, "conv_in.conv", z, side->c, false);
    z = vae_rearrange(b, "latent", z,
                      (VaeMove){.kind = VAE_FOLD_CRQ, .wide = true});
    x = vae_shortcut(b, "repeat", x, z,
                     (VaeShortcutMove){.kind = VAE_SHORTCUT_DUP});
    x = middle(b, x);
    x = levels(b, x, side, true);
    x = vae_block_norm_silu(b, "norm_out", x, 0);
    x = conv(b, "conv_out.conv", x, 3, false);
    vae_leave(b);
    vae_output(b, x);
}

static void
encode(VaeBuilder *b)
{
    const Hunyuan15 *a = vae_arch_data(b);
    const Side *side = &a->enc;
    vae_set_head(b, VAE_HEAD_REPEAT);
    const VaeTensor *x = vae_input(b);
    vae_enter(b, "encoder");
    x = conv(b, "conv_in.conv", x, side->c, false);
    x = levels(b, x, side, false);
    x = middle(b, x);
    const VaeTensor *y = vae_block_norm_silu(b, "norm_out", x, 0);
    y = conv(b, "conv_out.conv", y, 2 * a->z, false);
    y = vae_shortcut(b, "average", y, x,
                     (VaeShortcutMove){.kind = VAE_SHORTCUT_AVERAGE});
    vae_leave(b);
    vae_output(b, y);
}

/* ------------------------------------------------------------------ */
/* Names and recognition.                                              */

/* Appends diffusers' name for what follows "encoder." or "decoder.". */
static void
rename_rest(const char *rest, char *out)
{
    static const char *const pairs[][2] = {
        {"mid.block_1.", "mid_block.resnets.0."},
        {"mid.block_2.", "mid_block.resnets.1."},
        {"mid.attn_1.q.", "mid_block.attentions.0.to_q."},
        {"mid.attn_1.k.", "mid_block.attentions.0.to_k."},
        {"mid.attn_1.v.", "mid_block.attentions.0.to_v."},
        {"mid.attn_1.", "mid_block.attentions.0."}};
    int i, j, end = 0;
    const bool up = strncmp(rest, "up.", 3) == 0;
    const char *list = up ? "up" : "down";
    if (sscanf(rest, up ? "up.%d.block.%d.%n" : "down.%d.block.%d.%n", &i, &j,
               &end) == 2 &&
        end) {
        sprintf(out, "%s_blocks.%d.resnets.%d.%s", list, i, j, rest + end);
        return;
    }
    if (sscanf(rest, up ? "up.%d.upsample.%n" : "down.%d.downsample.%n", &i,
               &end) == 1 &&
        end) {
        sprintf(out, "%s_blocks.%d.%ssamplers.0.%s", list, i, list, rest + end);
        return;
    }
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++) {
        const size_t n = strlen(pairs[k][0]);
        if (strncmp(rest, pairs[k][0], n) == 0) {
            sprintf(out, "%s%s", pairs[k][1], rest + n);
            return;
        }
    }
    strcpy(out, rest);
}

static bool
to_diffusers(int naming, const char *name, char *out)
{
    if (strlen(name) < 8 || strlen(name) > 128)
        return false;
    memcpy(out, name, 8); /* encoder. or decoder. */
    rename_rest(name + 8, out + 8);
    return true;
}

static int
res_width(const VaeModel *m, const char *list, int i, int j)
{
    return vae_model_likelier(
        m, vae_model_width(m, "%s.%d.block.%d.conv1.conv", list, i, j),
        vae_model_width(m, "%s.%d.block.%d.conv2.conv", list, i, j));
}

static void
read_side(const VaeModel *m, bool decoder, Side *side)
{
    const char *list = decoder ? "decoder.up" : "encoder.down";
    const char *sampler = decoder ? "upsample" : "downsample";
    int made[LEVELS];
    side->c = vae_model_width(m, decoder ? "decoder.conv_in.conv"
                                         : "encoder.conv_in.conv");
    for (side->n = 0; side->n < LEVELS; side->n++) {
        const int i = side->n;
        Level *level = &side->levels[i];
        while (level->n_res < MOST_BLOCKS &&
               vae_model_has_block(m, "%s.%d.block.%d.", list, i, level->n_res))
            level->n_res++;
        if (!level->n_res)
            break;
        level->c = res_width(m, list, i, 0);
        made[i] = vae_model_width(m, "%s.%d.%s.conv.conv", list, i, sampler);
    }
    for (int i = 0; i + 1 < side->n; i++) {
        const int c = side->levels[i + 1].c;
        side->levels[i].sampler = made[i] > 0;
        /* 4c or 8c channels, c / 4 or c / 8; one may be of the wrong length */
        side->levels[i].temporal = decoder ? made[i] > 6 * c : 6 * made[i] < c;
    }
}

static void
describe(VaeRecognise *r, const Hunyuan15 *a)
{
    int space = 0, time = 0;
    const Side *side = r->info->has_decoder ? &a->dec : &a->enc;
    for (int i = 0; i < side->n; i++) {
        space += side->levels[i].sampler;
        time += side->levels[i].temporal;
    }
    vae_describe_causal(r, "hunyuan1.5", a->z, 1 << space, 1 << time);
    vae_describe_factor(r, a->factor, 0);
}

static bool
has_names(const VaeModel *m)
{
    static const char *const sides[] = {"decoder", "encoder"};
    for (int i = 0; i < 2; i++)
        if (vae_model_has_block(m, "%s.conv_in.conv.", sides[i]) &&
            vae_model_has_block(m, "%s.mid.attn_1.q.", sides[i]) &&
            vae_model_dim(m, 0, "%s.mid.attn_1.norm.gamma", sides[i]) > 0)
            return true;
    return false;
}

/* The class of the network in its configuration, if diffusers wrote it; else
 * "". */
static void
read_class(const VaeModel *m, char out[80], VaeError *error)
{
    json_t *config = NULL;
    out[0] = '\0';
    if (!vae_model_config(m, &config, error))
        return;
    const char *name =
        json_string_value(json_object_get(config, "_class_name"));
    snprintf(out, 80, "%s", name ? name : "");
    json_decref(config);
}

/* The refiner of HunyuanImage 2.1 has the same names and shapes. Its latents
 * are folded in pairs outside the network, and it has no space here. */
static bool
is_video(VaeRecognise *r, VaeError *error)
{
    static const VaeVariant variants[] = {
        {"hunyuan1.5", "hunyuan1.5", "hunyuanvideo15"},
        {"hunyuanimage-refiner", "hunyuan1.5", "hunyuan_image_refiner"}};
    char class[80] = "";
    if (!vae_model_variant(r->model))
        read_class(r->model, class, error);
    bool refiner = strstr(class, "HunyuanImageRefiner") != NULL;
    if (strstr(class, "HunyuanVideo15"))
        r->info->reason = "names of its tensors, and its _class_name";
    else if (!refiner)
        refiner = vae_model_choose_variant(r, variants, 2,
                                           "variant of this VAE", error) == 1;
    if (refiner)
        vae_fail(error, VAE_ERR_MODEL,
                 "these are the weights of HunyuanImage 2.1's refiner, which "
                 "gst-vae does not have; expected those of HunyuanVideo 1.5, "
                 "whose tensors have the same names (if they are, state the "
                 "variant hunyuan1.5)");
    return error->status == VAE_OK;
}

static bool
recognise(VaeRecognise *r, VaeError *error)
{
    const VaeModel *m = r->model;
    Hunyuan15 *a = r->data;
    *r->naming = 0;
    if (!has_names(m)) {
        *r->naming = 1;
        r->info->names = "diffusers";
        if (!has_names(m))
            return false;
    }
    if (!is_video(r, error))
        return true;
    read_side(m, false, &a->enc);
    read_side(m, true, &a->dec);
    a->z = vae_read_latent_channels(m, "decoder.conv_in.conv",
                                    "encoder.conv_out.conv", error);
    if (a->z)
        describe(r, a);
    return true;
}

static void
preset(VaeRecognise *r)
{
    static const int width[5] = {128, 256, 512, 1024, 1024};
    Hunyuan15 *a = r->data;
    *a = (Hunyuan15){
        .z = 32, .enc.c = 128, .enc.n = 5, .dec.c = 1024, .dec.n = 5};
    for (int i = 0; i < 5; i++) {
        a->enc.levels[i] = (Level){.c = width[i],
                                   .n_res = 2,
                                   .sampler = i < 4,
                                   .temporal = i == 2 || i == 3};
        a->dec.levels[i] = (Level){
            .c = width[4 - i], .n_res = 3, .sampler = i < 4, .temporal = i < 2};
    }
    describe(r, a);
}

static const VaeStated stated[] = {
    {"scaling_factor", 0, 1e-6, 1e6, offsetof(Hunyuan15, factor), .real = true},
    {0}};

const VaeArch vae_arch_hunyuan15 = {.name = "hunyuan1.5",
                                    .data_size = sizeof(Hunyuan15),
                                    .other_names = 1,
                                    .rename = to_diffusers,
                                    .recognise = recognise,
                                    .stated = stated,
                                    .preset = preset,
                                    .decode = decode,
                                    .encode = encode};

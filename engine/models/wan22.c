/*
 * wan22.c: the VAEs of Wan2.2 (TI2V-5B) and Qwen-Image-2.1.
 *
 * Wan2.2: 48 latent channels, 16x16 pixels (2x2 of them folded into channels)
 * and 4 frames per latent. Like Wan2.1, but each stage also adds its input
 * through a shortcut without weights.
 *
 * Qwen-Image-2.1: the same for images, 64 latent channels and 16x16 pixels of
 * RGBA, not folded. Its convolutions over time are in the file, but each image
 * is a first frame, which does not use them.
 */
#include <stdio.h>
#include <string.h>

#include "arch.h"
#include "wan_parts.h"

#define MAX_STAGES 8

/* One of encoder.downsamples or decoder.upsamples. */
typedef struct Stage {
    int c, n_res;
    bool resample, temporal;
} Stage;

typedef struct Side {
    int c; /* channels after conv1 */
    int n;
    Stage stages[MAX_STAGES];
} Side;

typedef struct Wan22 {
    int z;
    int patch;   /* the side of the squares that fold into channels */
    int colours; /* channels of a pixel */
    bool flat;   /* a network of images */
    Side enc, dec;
} Wan22;

/* ------------------------------------------------------------------ */
/* The forward passes.                                                 */

/* The stage's residual blocks. keep: x is read again later. */
static const VaeTensor *
residuals(VaeBuilder *b, const char *list, const VaeTensor *x,
          const Stage *stage, bool keep)
{
    const Wan22 *a = vae_arch_data(b);
    for (int j = 0; j < stage->n_res; j++)
        x = vae_wan_residual(b, list, j, x,
                             (VaeWanBlock){.c = stage->c,
                                           .flat = a->flat,
                                           .keep = keep && j == 0});
    return x;
}

/* Adds the input of the stage. */
static const VaeTensor *
shortcut(VaeBuilder *b, VaeShortcut kind, const VaeTensor *x,
         const VaeTensor *in, const Stage *stage)
{
    const Wan22 *a = vae_arch_data(b);
    return vae_shortcut(b, "shortcut", x, in,
                        (VaeShortcutMove){.kind = kind,
                                          .ft = stage->temporal ? 2 : 1,
                                          .fs = stage->resample ? 2 : 1,
                                          .single = a->flat});
}

static void
decode(VaeBuilder *b)
{
    const Wan22 *a = vae_arch_data(b);
    const VaeTensor *x = vae_input(b);
    x = vae_conv(b, "conv2", x, (VaeConv){.c = a->z, .two_d = a->flat});
    vae_enter(b, "decoder");
    x = vae_conv(b, "conv1", x, vae_wan_conv(a->dec.c, a->flat));
    x = vae_wan_middle(b, x, a->flat);
    for (int i = 0; i < a->dec.n; i++) {
        const Stage *stage = &a->dec.stages[i];
        const VaeTensor *in = x;
        vae_enter(b, "upsamples.%d", i);
        x = residuals(b, "upsamples", x, stage, stage->resample);
        if (stage->resample) {
            vae_enter(b, "upsamples.%d", stage->n_res);
            x = vae_wan_up(b, x, stage->c, stage->temporal && !a->flat);
            vae_leave(b);
            x = shortcut(b, VAE_SHORTCUT_DUP, x, in, stage);
        }
        vae_leave(b);
    }
    x = vae_wan_head(b, x, a->colours * a->patch * a->patch, a->flat);
    vae_leave(b);
    x = vae_patches(b, "unpatchify", x, VAE_UNFOLD_CQR, a->patch);
    vae_output(b, x);
}

static void
encode(VaeBuilder *b)
{
    const Wan22 *a = vae_arch_data(b);
    const VaeTensor *x = vae_input(b);
    if (a->patch > 1)
        x = vae_rearrange(b, "patchify", x,
                          (VaeMove){.kind = VAE_FOLD_CQR, .fs = a->patch});
    vae_enter(b, "encoder");
    x = vae_conv(b, "conv1", x, vae_wan_conv(a->enc.c, a->flat));
    for (int i = 0; i < a->enc.n; i++) {
        const Stage *stage = &a->enc.stages[i];
        const VaeTensor *in = x;
        vae_enter(b, "downsamples.%d", i);
        x = residuals(b, "downsamples", x, stage, true);
        if (stage->resample) {
            vae_enter(b, "downsamples.%d", stage->n_res);
            x = vae_wan_down(b, x, stage->c, stage->temporal && !a->flat);
            vae_leave(b);
        }
        x = shortcut(b, VAE_SHORTCUT_AVERAGE, x, in, stage);
        vae_leave(b);
    }
    x = vae_wan_middle(b, x, a->flat);
    x = vae_wan_head(b, x, 2 * a->z, a->flat);
    vae_leave(b);
    x = vae_conv(b, "conv1", x, (VaeConv){.c = 2 * a->z, .two_d = a->flat});
    vae_output(b, x);
}

/* ------------------------------------------------------------------ */
/* Names and recognition.                                              */

static bool
to_diffusers(int naming, const char *name, char *out)
{
    const char *rest = name;
    int s, j, end = 0;
    out[0] = '\0';
    if (strlen(name) > 128)
        return false;
    const bool enc = vae_wan_swap(&rest, "encoder.", "encoder.", out);
    if (!enc && !vae_wan_swap(&rest, "decoder.", "decoder.", out))
        return vae_wan_rename_top(name, out);
    const char *pattern = enc ? "downsamples.%d.downsamples.%d.%n"
                              : "upsamples.%d.upsamples.%d.%n";
    if (sscanf(rest, pattern, &s, &j, &end) == 2 && end) {
        rest += end;
        sprintf(out + strlen(out), enc ? "down_blocks.%d." : "up_blocks.%d.",
                s);
        if (strncmp(rest, "res", 3) == 0 && rest[3] == 'a')
            strcat(out, enc ? "downsampler." : "upsampler.");
        else if (strncmp(rest, "time_conv.", 10) == 0)
            strcat(out, enc ? "downsampler." : "upsampler.");
        else
            sprintf(out + strlen(out), "resnets.%d.", j);
    }
    vae_wan_rename_rest(rest, out);
    return true;
}

/* A stage's resampler comes after its residual blocks. Diffusers' name of the
 * resampler has no index, so there any index finds it. */
static void
read_side(const VaeModel *m, const char *part, const char *list, Side *side)
{
    char block[96];
    side->c = vae_model_width(m, "%s.conv1", part);
    for (int s = 0; s < MAX_STAGES; s++) {
        Stage *stage = &side->stages[s];
        int j = 0;
        for (; j < 16; j++) {
            snprintf(block, sizeof block, "%s.%s.%d.%s.%d", part, list, s, list,
                     j);
            const int c = vae_wan_width(m, block);
            if (!c)
                break;
            stage->c = c;
        }
        if (!j)
            return;
        stage->n_res = j;
        stage->resample = vae_model_width(m, "%s.resample.1", block) > 0;
        stage->temporal = vae_model_width(m, "%s.time_conv", block) > 0;
        side->n = s + 1;
    }
}

static void
describe(VaeRecognise *r, const Wan22 *a)
{
    int space = 0, time = 0;
    const Side *side = r->info->has_decoder ? &a->dec : &a->enc;
    for (int i = 0; i < side->n; i++) {
        space += side->stages[i].resample;
        time += side->stages[i].temporal;
    }
    vae_describe_causal(r, r->arch->name, a->z, a->patch << space,
                        a->flat ? 1 : 1 << time);
    r->info->in_channels = r->info->out_channels = a->colours;
}

static void
set_kind(VaeRecognise *r)
{
    Wan22 *a = r->data;
    a->flat = r->arch->patch == 0;
    a->patch = a->flat ? 1 : r->arch->patch;
    a->colours = a->flat ? 4 : 3;
}

/* In a network of images a kernel has no frames, or one. */
static bool
is_flat(const VaeModel *m)
{
    static const char *const convs[] = {"decoder.conv1.weight",
                                        "encoder.conv1.weight"};
    for (int i = 0; i < 2; i++) {
        const VaeTensorInfo *t = vae_model_find(m, convs[i]);
        if (t)
            return t->n_dims == 4 || (t->n_dims == 5 && t->dims[2] == 1);
    }
    return false;
}

/* Which stages resample time, although the network of images does not: the
 * shortcuts follow them. */
static void
set_flat_times(Wan22 *a)
{
    for (int s = 0; s < MAX_STAGES; s++) {
        a->enc.stages[s].temporal = a->enc.stages[s].resample && s > 0;
        a->dec.stages[s].temporal = s < a->dec.n - 2;
    }
}

static bool
ignores(const VaeModelInfo *info, const char *name)
{
    return info->temporal == 1 && strstr(name, ".time_conv.");
}

static bool
recognise(VaeRecognise *r, VaeError *error)
{
    const VaeModel *m = r->model;
    Wan22 *a = r->data;
    static const char *const marks[] = {
        "decoder.upsamples.0.upsamples.0.residual.2.weight",
        "encoder.downsamples.0.downsamples.0.residual.2.weight"};
    r->info->reason = "upsamples.0.upsamples.0.residual.2.weight";
    if (!vae_model_find(m, marks[0]) && !vae_model_find(m, marks[1])) {
        *r->naming = 1;
        r->info->names = "diffusers";
        r->info->reason = "up_blocks.0.upsampler.";
        if (!vae_model_has_prefix(m, "decoder.up_blocks.0.upsampler.") &&
            !vae_model_has_prefix(m, "encoder.down_blocks.0.downsampler."))
            return false;
    }
    set_kind(r);
    if (is_flat(m) != a->flat)
        return false;
    read_side(m, "encoder", "downsamples", &a->enc);
    read_side(m, "decoder", "upsamples", &a->dec);
    if (a->flat)
        set_flat_times(a);
    a->z = vae_read_latent_channels(m, "conv2", "conv1", error);
    if (a->z)
        describe(r, a);
    return true;
}

static void
preset_side(Side *side, const int *width, int n, int n_res)
{
    side->c = width[0];
    side->n = n;
    for (int s = 0; s < n; s++)
        side->stages[s] =
            (Stage){.c = width[s], .n_res = n_res, .resample = s < n - 1};
}

static void
preset(VaeRecognise *r)
{
    static const int enc[4] = {160, 320, 640, 640};
    static const int dec[4] = {1024, 1024, 512, 256};
    Wan22 *a = r->data;
    set_kind(r);
    a->z = 48;
    preset_side(&a->enc, enc, 4, 2);
    preset_side(&a->dec, dec, 4, 3);
    a->enc.stages[1].temporal = a->enc.stages[2].temporal = true;
    a->dec.stages[0].temporal = a->dec.stages[1].temporal = true;
    describe(r, a);
}

static void
preset_images(VaeRecognise *r)
{
    static const int enc[5] = {96, 192, 384, 768, 768};
    static const int dec[5] = {1152, 1152, 576, 288, 144};
    Wan22 *a = r->data;
    set_kind(r);
    a->z = 64;
    preset_side(&a->enc, enc, 5, 2);
    preset_side(&a->dec, dec, 5, 3);
    set_flat_times(a);
    describe(r, a);
}

static const VaeFixed folds[] = {{"patch_size", "2"}, {0}};
static const VaeFixed folds_not[] = {{"patch_size", "null"}, {0}};

#define WAN22(symbol, text, ...)                                               \
    const VaeArch symbol = {.name = (text),                                    \
                            .data_size = sizeof(Wan22),                        \
                            .other_names = 1,                                  \
                            .rename = to_diffusers,                            \
                            .ignores = ignores,                                \
                            .recognise = recognise,                            \
                            .decode = decode,                                  \
                            .encode = encode,                                  \
                            __VA_ARGS__}

/* patch: blended before they unfold */
WAN22(vae_arch_wan22, "wan2.2", .preset = preset, .patch = 2, .fixed = folds);
WAN22(vae_arch_qwenimage21, "qwenimage2.1", .preset = preset_images,
      .fixed = folds_not);

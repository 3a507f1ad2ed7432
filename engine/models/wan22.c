/*
 * wan22.c: the VAE of Wan2.2 (TI2V-5B).
 *
 * 48 latent channels, 16x16 pixels (2x2 of them folded into channels) and 4
 * frames per latent. Like Wan2.1, but each stage also adds its input
 * through a shortcut without weights.
 */
#include <stdio.h>
#include <string.h>

#include "describe.h"
#include "wan_parts.h"

#define MAX_STAGES 8
#define PATCH 2

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
    Side enc, dec;
} Wan22;

/* ------------------------------------------------------------------ */
/* The forward passes.                                                 */

/* The stage's residual blocks. keep: x is read again later. */
static const VaeTensor *
residuals(VaeBuilder *b, const char *list, const VaeTensor *x,
          const Stage *stage, bool keep)
{
    for (int j = 0; j < stage->n_res; j++)
        x = vae_wan_residual(b, list, j, x, stage->c, keep && j == 0);
    return x;
}

static void
decode(VaeBuilder *b)
{
    const Wan22 *a = vae_arch_data(b);
    const VaeTensor *x = vae_input(b);
    x = vae_conv(b, "conv2", x, (VaeConv){.c = a->z});
    vae_enter(b, "decoder");
    x = vae_conv(b, "conv1", x, (VaeConv){.c = a->dec.c, .k = 3, .kt = 3});
    x = vae_wan_middle(b, x);
    for (int i = 0; i < a->dec.n; i++) {
        const Stage *stage = &a->dec.stages[i];
        const VaeTensor *in = x;
        vae_enter(b, "upsamples.%d", i);
        x = residuals(b, "upsamples", x, stage, stage->resample);
        if (stage->resample) {
            vae_enter(b, "upsamples.%d", stage->n_res);
            x = vae_wan_up(b, x, stage->c, stage->temporal);
            vae_leave(b);
            x = vae_shortcut(b, "shortcut", x, in,
                             (VaeShortcutMove){VAE_SHORTCUT_DUP,
                                               stage->temporal ? 2 : 1, 2});
        }
        vae_leave(b);
    }
    x = vae_wan_head(b, x, 3 * PATCH * PATCH);
    vae_leave(b);
    x = vae_rearrange(
        b, "unpatchify", x,
        (VaeMove){.kind = VAE_UNFOLD_CQR, .fs = PATCH, .wide = true});
    vae_output(b, x);
}

static void
encode(VaeBuilder *b)
{
    const Wan22 *a = vae_arch_data(b);
    const VaeTensor *x = vae_input(b);
    x = vae_rearrange(b, "patchify", x,
                      (VaeMove){.kind = VAE_FOLD_CQR, .fs = PATCH});
    vae_enter(b, "encoder");
    x = vae_conv(b, "conv1", x, (VaeConv){.c = a->enc.c, .k = 3, .kt = 3});
    for (int i = 0; i < a->enc.n; i++) {
        const Stage *stage = &a->enc.stages[i];
        const VaeTensor *in = x;
        vae_enter(b, "downsamples.%d", i);
        x = residuals(b, "downsamples", x, stage, true);
        if (stage->resample) {
            vae_enter(b, "downsamples.%d", stage->n_res);
            x = vae_wan_down(b, x, stage->c, stage->temporal);
            vae_leave(b);
        }
        x = vae_shortcut(b, "shortcut", x, in,
                         (VaeShortcutMove){VAE_SHORTCUT_AVERAGE,
                                           stage->temporal ? 2 : 1,
                                           stage->resample ? 2 : 1});
        vae_leave(b);
    }
    x = vae_wan_middle(b, x);
    x = vae_wan_head(b, x, 2 * a->z);
    vae_leave(b);
    x = vae_conv(b, "conv1", x, (VaeConv){.c = 2 * a->z});
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
    vae_describe_causal(r, "wan2.2", a->z, PATCH << space, 1 << time);
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
    read_side(m, "encoder", "downsamples", &a->enc);
    read_side(m, "decoder", "upsamples", &a->dec);
    a->z = vae_wan_latent_channels(m, error);
    if (a->z)
        describe(r, a);
    return true;
}

static void
preset(VaeRecognise *r)
{
    static const int enc[4] = {160, 320, 640, 640};
    static const int dec[4] = {1024, 1024, 512, 256};
    Wan22 *a = r->data;
    *a = (Wan22){.z = 48, .enc.c = 160, .enc.n = 4, .dec.c = 1024, .dec.n = 4};
    for (int s = 0; s < 4; s++) {
        a->enc.stages[s] = (Stage){.c = enc[s],
                                   .n_res = 2,
                                   .resample = s < 3,
                                   .temporal = s == 1 || s == 2};
        a->dec.stages[s] = (Stage){
            .c = dec[s], .n_res = 3, .resample = s < 3, .temporal = s < 2};
    }
    describe(r, a);
}

const VaeArch vae_arch_wan22 = {.name = "wan2.2",
                                .data_size = sizeof(Wan22),
                                .other_names = 1,
                                .rename = to_diffusers,
                                .recognise = recognise,
                                .preset = preset,
                                .patch = 2, /* blended before they unfold */
                                .decode = decode,
                                .encode = encode};

/*
 * magi.c: the fast decoder of MAGI-2 (TurboVAED), for the latents of Wan2.2.
 *
 * Its convolutions over time are centred, and it decodes windows of latents,
 * each as a clip of its own with a latent of context on either side.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "describe.h"

enum { WINDOW = 7, MOST_BLOCKS = 8, MOST_RESNETS = 16 };

/* One of up_blocks. */
typedef struct Block {
    int c, n_res;
    bool change; /* begins with a residual block to other channels */
    bool up;     /* doubles the size; the first activation of each residual
                    block after that is ReLU */
    bool time;   /* also doubles the frames */
} Block;

typedef struct Magi {
    int z, c, n_mid, n, patch;
    double eps; /* of the norms before shortcuts */
    Block blocks[MOST_BLOCKS];
} Magi;

/* ------------------------------------------------------------------ */
/* The forward pass.                                                   */

static VaeConv
centred(int c)
{
    return (VaeConv){.c = c, .k = 3, .kt = 3, .centred = true};
}

static const VaeTensor *
norm(VaeBuilder *b, const char *name, const VaeTensor *x, VaeActivation act)
{
    return vae_pixel_norm(b, name, x, 1e-8f, act, NULL);
}

/* shortcut(x) + conv2(silu(norm(conv1(act(norm(x)))))). */
static const VaeTensor *
resnet(VaeBuilder *b, const VaeTensor *x, int c, VaeActivation act)
{
    const Magi *a = vae_arch_data(b);
    if (!x)
        return NULL;
    VaeConv conv = centred(c);
    const bool change = x->shape.c != c;
    const VaeTensor *line = vae_line(b, "conv1.conv", x);
    const VaeTensor *skip = vae_delayed(b, line, 2);
    if (change) {
        skip = vae_pixel_norm(b, "conv_shortcut.norm", skip, (float) a->eps,
                              VAE_LINEAR, NULL);
        skip = vae_conv(b, "conv_shortcut.conv", skip, (VaeConv){.c = c});
    }
    x = norm(b, "norm1", line, act);
    conv.narrow = true;
    x = vae_conv(b, "conv1.conv", x, conv);
    x = norm(b, "norm2", x, VAE_SILU);
    conv.narrow = false;
    conv.add = skip;
    conv.keep = !change;
    return vae_conv(b, "conv2.conv", x, conv);
}

static const VaeTensor *
resnets(VaeBuilder *b, const VaeTensor *x, int n, VaeActivation act)
{
    for (int i = 0; i < n && x; i++) {
        vae_enter(b, "resnets.%d", i);
        x = resnet(b, x, x->shape.c, act);
        vae_leave(b);
    }
    return x;
}

/* In time it makes one frame more than the network has; that is the one
 * before the first. */
static const VaeTensor *
up(VaeBuilder *b, const VaeTensor *x, int c, bool time)
{
    vae_enter(b, "upsamplers.0");
    if (time)
        x = vae_conv(
            b, "time_conv.conv", x,
            (VaeConv){.c = 2 * c, .kt = 3, .centred = true, .narrow = true});
    x = vae_rearrange(
        b, "resample.0", x,
        (VaeMove){.kind = VAE_UNFOLD_NEAREST, .ft = time ? 2 : 1, .fs = 2});
    x = vae_conv(b, "resample.1", x, (VaeConv){.c = c, .k = 3, .two_d = true});
    vae_leave(b);
    return x;
}

static void
decode(VaeBuilder *b)
{
    const Magi *a = vae_arch_data(b);
    const VaeTensor *x = vae_input(b);
    vae_enter(b, "decoder");
    x = vae_conv(b, "conv_in.conv", x, centred(a->c));
    vae_enter(b, "mid_block");
    x = resnets(b, x, a->n_mid, VAE_SILU);
    vae_leave(b);
    for (int i = 0; i < a->n; i++) {
        const Block *block = &a->blocks[i];
        vae_enter(b, "up_blocks.%d", i);
        if (block->change) {
            vae_enter(b, "conv_in");
            x = resnet(b, x, block->c, VAE_SILU);
            vae_leave(b);
        }
        if (block->up)
            x = up(b, x, block->c, block->time);
        x = resnets(b, x, block->n_res, block->up ? VAE_RELU : VAE_SILU);
        vae_leave(b);
    }
    x = vae_line(b, "conv_out.conv", x);
    x = norm(b, "norm_out", x, VAE_SILU);
    VaeConv out = centred(3 * a->patch * a->patch);
    out.narrow = true;
    x = vae_conv(b, "conv_out.conv", x, out);
    vae_leave(b);
    vae_output(b, vae_patches(b, "unpatchify", x, VAE_UNFOLD_CQR, a->patch));
}

/* ------------------------------------------------------------------ */
/* Recognition.                                                        */

/* The checkpoint of a training has the names without "decoder.", some with
 * "module." in its place. */
static const char *const namings[] = {"", "module."};

static bool
rename_tensor(int naming, const char *name, char *out)
{
    if (strncmp(name, "decoder.", 8) != 0 || strlen(name) > 200)
        return false;
    sprintf(out, "%s%s", namings[naming - 1], name + 8);
    return true;
}

/* A training keeps other tensors beside those of the decoder. */
static bool
ignores(const VaeModelInfo *info, const char *name)
{
    (void) info;
    (void) name;
    return true;
}

static void
read_shapes(const VaeModel *m, Magi *a)
{
    a->z = vae_model_dim(m, 1, "decoder.conv_in.conv.weight");
    int c = a->c = vae_model_width(m, "decoder.conv_in.conv");
    while (a->n_mid < MOST_RESNETS &&
           vae_model_has_block(m, "decoder.mid_block.resnets.%d.", a->n_mid))
        a->n_mid++;
    for (; a->n < MOST_BLOCKS; a->n++) {
        const int i = a->n;
        Block *block = &a->blocks[i];
        if (!vae_model_has_block(m, "decoder.up_blocks.%d.", i))
            break;
        block->change =
            vae_model_has_block(m, "decoder.up_blocks.%d.conv_in.", i);
        block->up =
            vae_model_has_block(m, "decoder.up_blocks.%d.upsamplers.0.", i);
        block->time = vae_model_has_block(
            m, "decoder.up_blocks.%d.upsamplers.0.time_conv.", i);
        if (block->change)
            c = vae_model_width(m, "decoder.up_blocks.%d.conv_in.conv2.conv",
                                i);
        block->c = c;
        while (block->n_res < MOST_RESNETS &&
               vae_model_has_block(m, "decoder.up_blocks.%d.resnets.%d.", i,
                                   block->n_res))
            block->n_res++;
    }
    a->patch = vae_patch_side(vae_model_width(m, "decoder.conv_out.conv"));
}

static void
describe(VaeRecognise *r, const Magi *a)
{
    int space = 0, time = 0;
    for (int i = 0; i < a->n; i++) {
        space += a->blocks[i].up;
        time += a->blocks[i].time;
    }
    r->info->has_decoder = true;
    r->info->has_encoder = false;
    vae_describe_causal(r, "wan2.2", a->z, a->patch << space, 1 << time);
    *r->window = WINDOW;
}

static bool
has_depthwise(const VaeModel *m)
{
    static const char *const blocks[] = {
        "mid_block.resnets.0", "up_blocks.0.resnets.0", "up_blocks.1.resnets.0",
        "up_blocks.2.resnets.0", "up_blocks.3.resnets.0"};
    for (int i = 0; i < 5; i++)
        if (vae_model_has_block(m, "decoder.%s.conv1.depthwise_conv.",
                                blocks[i]))
            return true;
    return false;
}

/* Fails for what the network cannot be. */
static void
check(const VaeModel *m, Magi *a, VaeError *error)
{
    if (has_depthwise(m))
        vae_fail(error, VAE_ERR_UNSUPPORTED,
                 "the decoder of MAGI-2 has depthwise convolutions "
                 "(depthwise_conv), expected those of the released one, which "
                 "has none");
    else if (a->z < 1 || a->z > VAE_MAX_LATENT_CHANNELS || a->patch < 1)
        vae_fail(error, VAE_ERR_MODEL,
                 "decoder.conv_in.conv.weight has %d input channels and "
                 "decoder.conv_out.conv %d outputs, expected 1 to %d and 3 for "
                 "each pixel of a square",
                 a->z, vae_model_width(m, "decoder.conv_out.conv"),
                 VAE_MAX_LATENT_CHANNELS);
}

static bool
recognise(VaeRecognise *r, VaeError *error)
{
    const VaeModel *m = r->model;
    Magi *a = r->data;
    const char *const mark = "decoder.up_blocks.0.upsamplers.0.time_conv.conv.";
    r->info->reason = "up_blocks.0.upsamplers.0.time_conv.conv";
    while (!vae_model_has_block(m, "%s", mark))
        if (++*r->naming > r->arch->other_names) {
            *r->naming = 0;
            return false;
        }
    if (*r->naming)
        r->info->names = "official, of a training";
    read_shapes(m, a);
    check(m, a, error);
    describe(r, a);
    return true;
}

static void
preset(VaeRecognise *r)
{
    Magi *a = r->data;
    *a = (Magi){.z = 48,
                .c = 512,
                .n_mid = 3,
                .n = 4,
                .patch = 2,
                .blocks = {{.c = 512, .n_res = 3, .up = true, .time = true},
                           {256, 2, true, true, true},
                           {128, 2, true, true, false},
                           {64, 2, true, false, false}}};
    describe(r, a);
}

static const VaeStated stated[] = {{"first_chunk_size", WINDOW, WINDOW, WINDOW},
                                   {"step_size", WINDOW, WINDOW, WINDOW},
                                   {"resnet_norm_eps", 1e-6, 1e-30, 1,
                                    offsetof(Magi, eps), .real = true,
                                    .label = "eps"},
                                   {0}};

const VaeArch vae_arch_magi2_turbo = {.name = "magi2_turbo",
                                      .encode_by = "wan2.2",
                                      .data_size = sizeof(Magi),
                                      .other_names = 2,
                                      .rename = rename_tensor,
                                      .ignores = ignores,
                                      .recognise = recognise,
                                      .stated = stated,
                                      .preset = preset,
                                      .decode = decode};

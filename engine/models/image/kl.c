/*
 * kl.c: AutoencoderKL, the VAE of Stable Diffusion and FLUX.
 *
 * One latent is one frame, and no layer reads another frame. FLUX.2 folds its
 * latents: a latent pixel of the stream is 2x2 pixels of the network.
 */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "blocks.h"
#include "arch.h"
#include "ldm.h"
#include "vae-private/spaces.h"
#include "vae-private/os.h"

enum { LEVELS = 6, MOST_BLOCKS = 16 };
/* Latent channels of the networks without quant_conv and post_quant_conv. */
enum { WITHOUT_CONVS = 16 };

/* An encoder or a decoder. */
typedef struct Side {
    int c; /* channels after conv_in */
    int n; /* levels; all but the last have a resampler */
    int width[LEVELS], blocks[LEVELS];
} Side;

typedef struct Kl {
    int z, groups, patch;
    bool quant, post_quant; /* convolutions between the halves */
    bool linear;            /* weights of attention are [c, c] */
    double factor, shift;   /* of latents, as the file states; 0: it does not */
    Side enc, dec;
} Kl;

/* ------------------------------------------------------------------ */
/* The forward passes.                                                 */

static const VaeResidual residual = {.norm1 = "norm1",
                                     .conv1 = "conv1",
                                     .norm2 = "norm2",
                                     .conv2 = "conv2",
                                     .shortcut = "conv_shortcut",
                                     .two_d = true};

static const VaeTensor *
middle(VaeBuilder *b, const VaeTensor *x)
{
    const Kl *a = vae_arch_data(b);
    const VaeAttentionBlock attention = {.norm = "group_norm",
                                         .stack = {"to_q", "to_k", "to_v"},
                                         .out = "to_out.0",
                                         .linear = a->linear};
    return vae_block_middle(b, &residual, &attention, x, a->groups);
}

static const VaeTensor *
head(VaeBuilder *b, const VaeTensor *x, int c)
{
    const Kl *a = vae_arch_data(b);
    x = vae_block_norm_silu(b, "conv_norm_out", x, a->groups);
    return vae_conv(b, "conv_out", x, (VaeConv){.c = c, .k = 3, .two_d = true});
}

static const VaeTensor *
up(VaeBuilder *b, const VaeTensor *x, int c)
{
    vae_enter(b, "upsamplers.0");
    x = vae_rearrange(b, "nearest", x,
                      (VaeMove){.kind = VAE_UNFOLD_NEAREST, .fs = 2});
    x = vae_conv(b, "conv", x, (VaeConv){.c = c, .k = 3, .two_d = true});
    vae_leave(b);
    return x;
}

static const VaeTensor *
down(VaeBuilder *b, const VaeTensor *x, int c)
{
    vae_enter(b, "downsamplers.0");
    x = vae_conv(b, "conv", x,
                 (VaeConv){.c = c,
                           .k = 3,
                           .s = 2,
                           .two_d = true,
                           .pad = VAE_PAD_RIGHT_BOTTOM});
    vae_leave(b);
    return x;
}

/* The levels of a side, up or down: residual blocks, then a resampler. */
static const VaeTensor *
levels(VaeBuilder *b, const VaeTensor *x, const Side *s, bool is_up)
{
    const Kl *a = vae_arch_data(b);
    for (int i = 0; i < s->n; i++) {
        vae_enter(b, is_up ? "up_blocks.%d" : "down_blocks.%d", i);
        for (int j = 0; j < s->blocks[i]; j++)
            x = vae_block_resnet(b, &residual, j, x, s->width[i], a->groups);
        if (i < s->n - 1)
            x = (is_up ? up : down)(b, x, s->width[i]);
        vae_leave(b);
    }
    return x;
}

static void
decode(VaeBuilder *b)
{
    const Kl *a = vae_arch_data(b);
    const Side *s = &a->dec;
    const VaeTensor *x = vae_input(b);
    x = vae_patches(b, "unfold", x, VAE_UNFOLD_CRQ, a->patch);
    if (a->post_quant)
        x = vae_conv(b, "post_quant_conv", x,
                     (VaeConv){.c = a->z, .two_d = true});
    vae_enter(b, "decoder");
    x = vae_conv(b, "conv_in", x, (VaeConv){.c = s->c, .k = 3, .two_d = true});
    x = middle(b, x);
    x = levels(b, x, s, true);
    x = head(b, x, 3);
    vae_leave(b);
    vae_output(b, x);
}

static void
encode(VaeBuilder *b)
{
    const Kl *a = vae_arch_data(b);
    const Side *s = &a->enc;
    const VaeTensor *x = vae_input(b);
    vae_enter(b, "encoder");
    x = vae_conv(b, "conv_in", x, (VaeConv){.c = s->c, .k = 3, .two_d = true});
    x = levels(b, x, s, false);
    x = middle(b, x);
    x = head(b, x, 2 * a->z);
    vae_leave(b);
    if (a->quant)
        x = vae_conv(b, "quant_conv", x,
                     (VaeConv){.c = 2 * a->z, .two_d = true});
    x = vae_patches(b, "fold", x, VAE_FOLD_CRQ, a->patch);
    vae_output(b, x);
}

/* ------------------------------------------------------------------ */
/* Names.                                                              */

/* BFL_4 is the file of FLUX.2's makers. LDM_3 has three levels. */
enum { DIFFUSERS, OLD, LDM_4, LDM_3, BFL_4, NAMINGS };

static const char *const naming_names[] = {[DIFFUSERS] = "diffusers",
                                           [OLD] = "old diffusers",
                                           [LDM_4] = "ldm",
                                           [LDM_3] = "ldm",
                                           [BFL_4] = "BFL"};

static bool
rename_tensor(int naming, const char *name, char *out)
{
    if (strlen(name) > 150)
        return false;
    const bool own = strncmp(name, "quant_conv.", 11) == 0;
    const bool outside = own || strncmp(name, "post_quant_conv.", 16) == 0;
    sprintf(out, "%s%s",
            !outside || naming != BFL_4 ? ""
            : own                       ? "encoder."
                                        : "decoder.",
            name);
    if (naming == OLD)
        vae_rename_old(out);
    else
        vae_rename_ldm(out, naming == LDM_3 ? 3 : 4);
    return true;
}

/* A counter of FLUX.2's training. */
static bool
ignores(const VaeModelInfo *info, const char *name)
{
    (void) info;
    return strcmp(name, "bn.num_batches_tracked") == 0;
}

/* ------------------------------------------------------------------ */
/* Recognition.                                                        */

/* The first of these networks with equal shapes is the default. */
static const VaeVariant variants[] = {{"sd", "sd", NULL},
                                      {"sdxl", "sdxl", "xl"},
                                      {"flux1", "flux1", "flux"},
                                      {"sd3", "sd3", NULL},
                                      {"flux2", "flux2", "flux"}};

enum { N_VARIANTS = sizeof variants / sizeof *variants };

static bool
has_half(const VaeModel *m, const char *side)
{
    return vae_model_has_block(m, "%s.mid_block.resnets.0.", side) &&
           vae_model_dim(m, 3, "%s.conv_in.weight", side) > 0 &&
           vae_model_dim(m, 4, "%s.conv_in.weight", side) == 0;
}

static bool
find_naming(VaeRecognise *r)
{
    const VaeModel *m = r->model;
    for (*r->naming = 0; *r->naming < NAMINGS; ++*r->naming) {
        const char *const side = has_half(m, "decoder")   ? "decoder"
                                 : has_half(m, "encoder") ? "encoder"
                                                          : NULL;
        /* Without attention, an error tells what is missing. */
        const bool right =
            side &&
            (vae_model_has_block(m, "%s.mid_block.attentions.0.to_q.", side) ||
             (vae_model_width(m, "%s.mid_block.resnets.0.norm1", side) > 0 &&
              !vae_model_has_block(m, "%s.mid_block.attentions.0.", side)));
        const bool bfl = vae_model_has_prefix(m, "encoder.quant_conv.") ||
                         vae_model_has_prefix(m, "decoder.post_quant_conv.");
        const bool four = vae_model_has_prefix(m, "encoder.down.3.") ||
                          vae_model_has_prefix(m, "decoder.up.3.");
        r->info->names = naming_names[*r->naming];
        if (right && (*r->naming < LDM_4 || *r->naming == (!four ? LDM_3
                                                           : bfl ? BFL_4
                                                                 : LDM_4)))
            return true;
    }
    *r->naming = 0;
    return false;
}

static int
block_width(const VaeModel *m, const char *list, int i, int j)
{
    int c = vae_model_width(m, "%s.%d.resnets.%d.conv2", list, i, j);
    if (!c)
        c = vae_model_width(m, "%s.%d.resnets.%d.norm2", list, i, j);
    return c ? c : vae_model_width(m, "%s.%d.resnets.%d.conv1", list, i, j);
}

static void
read_side(const VaeModel *m, const char *list, Side *s)
{
    for (s->n = 0; s->n < LEVELS; s->n++) {
        const int i = s->n;
        for (int j = 0; j < MOST_BLOCKS; j++)
            if (vae_model_has_block(m, "%s.%d.resnets.%d.", list, i, j)) {
                s->blocks[i] = j + 1;
                s->width[i] = block_width(m, list, i, j);
            }
        if (!s->blocks[i])
            return;
    }
}

/* A convolution between the halves. Only the networks of 16 channels have none,
 * unless the configuration says so. */
static bool
has_conv(const VaeModel *m, const char *name, int z)
{
    char key[32];
    double stated = z != WITHOUT_CONVS;
    snprintf(key, sizeof key, "use_%s", name);
    vae_model_meta_number(m, key, &stated);
    return stated == 1 || vae_model_has_block(m, "%s.", name);
}

static void
read_shapes(const VaeModel *m, Kl *a)
{
    read_side(m, "encoder.down_blocks", &a->enc);
    read_side(m, "decoder.up_blocks", &a->dec);
    a->enc.c = vae_model_width(m, "encoder.conv_in");
    a->dec.c = vae_model_width(m, "decoder.conv_in");
    a->z = vae_model_dim(m, 1, "decoder.conv_in.weight");
    if (!a->z)
        a->z = vae_model_width(m, "encoder.conv_out") / 2;
    a->post_quant = has_conv(m, "post_quant_conv", a->z);
    a->quant = has_conv(m, "quant_conv", a->z);
    a->linear = vae_ldm_is_linear(m);
}

/* Also for weights that lack the statistics, so that an error names these. */
static bool
has_folded_latents(const VaeModel *m, int z)
{
    return vae_model_has_block(m, "bn.") ||
           4 * z == vae_space_find("flux2")->channels;
}

static void
describe(VaeRecognise *r, const Kl *a, const char *space)
{
    VaeModelInfo *info = r->info;
    const Side *s = info->has_decoder ? &a->dec : &a->enc;
    vae_describe_causal(r, space, a->z * a->patch * a->patch,
                        a->patch << (s->n - 1), 1);
    info->arch = space;
}

/* Keeps the variants with that many latent channels. If the file states a
 * factor: those with this factor. */
static int
list_fitting(const Kl *a, bool stated, VaeVariant *out)
{
    int n = 0;
    for (int i = 0; i < N_VARIANTS; i++) {
        const VaeSpace *s = vae_space_find(variants[i].space);
        if (s->channels == a->z * a->patch * a->patch &&
            (!stated || fabs(a->factor - (double) s->factor) < 1e-4))
            out[n++] = variants[i];
    }
    return n;
}

/* SDXL's weights have activations above 3e5, and a trial shows nothing about
 * other inputs. */
static const char *
refusal_of_fp16(const VaeModel *m, const char *path)
{
    double upcast = 1;
    vae_model_meta_number(m, "force_upcast", &upcast);
    if (strstr(vae_os_file_name(path), "fp16") || upcast == 0)
        return NULL;
    return "AutoencoderKL may have activations above 65504, the largest number "
           "of fp16, unless the weights have fp16 in the name of their file or "
           "state force_upcast as false";
}

static bool
recognise(VaeRecognise *r, VaeError *error)
{
    const VaeModel *m = r->model;
    Kl *a = r->data;
    VaeVariant fitting[N_VARIANTS];
    char what[80];
    const bool folded = r->arch->mean != NULL;
    const bool found = find_naming(r);
    read_shapes(m, a);
    if (!found || has_folded_latents(m, a->z) != folded) {
        *r->naming = 0;
        return false;
    }
    a->patch = folded ? 2 : 1;
    snprintf(what, sizeof what, "AutoencoderKL of %d latent channels", a->z);
    /* A variant that the user states is above the factor of another. */
    const bool stated = a->factor > 0 && !folded;
    int n = stated ? list_fitting(a, true, fitting) : 0;
    const bool known = n > 0;
    if (!known || vae_model_variant(m))
        n = list_fitting(a, false, fitting);
    const int i = vae_model_choose_variant(r, fitting, n, what, error);
    if (i < 0)
        return true;
    describe(r, a, fitting[i].space);
    *r->no_fp16 = refusal_of_fp16(m, r->info->path);
    if (stated && !(known && vae_model_variant(m)))
        vae_describe_factor(r, a->factor, a->shift);
    return true;
}

static void
preset(VaeRecognise *r)
{
    static const int width[4] = {128, 256, 512, 512};
    const VaeSpace *space = vae_space_find(r->arch->name);
    Kl *a = r->data;
    *a = (Kl){.patch = r->arch->mean ? 2 : 1,
              .linear = true,
              .enc = {.c = 128, .n = 4},
              .dec = {.c = 512, .n = 4}};
    a->z = space->channels / (a->patch * a->patch);
    a->quant = a->post_quant = a->z != WITHOUT_CONVS;
    for (int i = 0; i < 4; i++) {
        a->enc.width[i] = width[i];
        a->enc.blocks[i] = 2;
        a->dec.width[i] = width[3 - i];
        a->dec.blocks[i] = 3;
    }
    describe(r, a, space->name);
}

static const VaeStated stated[] = {
    {"norm_num_groups", 32, 1, 1024, offsetof(Kl, groups), .label = "groups"},
    {"scaling_factor", 0, 1e-6, 1024, offsetof(Kl, factor), .real = true},
    {"shift_factor", 0, -1024, 1024, offsetof(Kl, shift), .real = true},
    {0}};

static const VaeFixed fixed[] = {{"act_fn", "silu"},
                                 {"mid_block_add_attention", "true"},
                                 {"batch_norm_eps", "0.0001"},
                                 {"patch_size", "[2, 2]"},
                                 {0}};

#define KL(symbol, text, ...)                                                  \
    const VaeArch symbol = {.name = (text),                                    \
                            .data_size = sizeof(Kl),                           \
                            .other_names = NAMINGS - 1,                        \
                            .rename = rename_tensor,                           \
                            .ignores = ignores,                                \
                            .recognise = recognise,                            \
                            .stated = stated,                                  \
                            .fixed = fixed,                                    \
                            .preset = preset,                                  \
                            .decode = decode,                                  \
                            .encode = encode,                                  \
                            __VA_ARGS__}

KL(vae_arch_sd, "sd", .mean = NULL);
KL(vae_arch_sdxl, "sdxl", .mean = NULL);
KL(vae_arch_sd3, "sd3", .mean = NULL);
KL(vae_arch_flux1, "flux1", .mean = NULL);
KL(vae_arch_flux2, "flux2", .mean = "bn.running_mean", .std = "bn.running_var",
   .std_eps = 1e-4f);

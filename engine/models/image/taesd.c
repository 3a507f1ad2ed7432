/*
 * taesd.c: the tiny image autoencoders of the TAESD family.
 *
 * One latent is one frame, and no layer reads another frame. Pixels are 0..1;
 * latents are normalized.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch.h"

enum { MAX_UP = 5 };

typedef struct Tae {
    int z;     /* channels inside of the network */
    int patch; /* a latent pixel of the stream is patch x patch of it */
    int up;    /* resamplings of each half */
    bool deep; /* the encoder begins with two strided convolutions */
    int dec[MAX_UP + 1]; /* widths, from the latents on */
    int enc[2];          /* width of the first convolution, and of all blocks */
} Tae;

/* ------------------------------------------------------------------ */
/* The forward passes. Layers have the numbers of their official names. */

static const VaeTensor *
conv(VaeBuilder *b, int index, const VaeTensor *x, VaeConv c)
{
    char name[16];
    snprintf(name, sizeof name, "%d", index);
    c.k = 3;
    c.two_d = true;
    return vae_conv(b, name, x, c);
}

/* x + conv(relu(group norm(conv(x)))), both convolutions 1x1. */
static const VaeTensor *
pool(VaeBuilder *b, const VaeTensor *x, int n)
{
    VaeConv c = {.c = 4 * n, .two_d = true, .no_bias = true, .narrow = true};
    const VaeTensor *y = vae_conv(b, "pool.0", x, c);
    y = vae_group_norm(b, "pool.1", y,
                       (VaeGroups){.n = 4, .eps = 1e-5f, .relu = true});
    c = (VaeConv){.c = n, .two_d = true, .no_bias = true, .add = x};
    return vae_conv(b, "pool.3", y, c);
}

/* relu(conv(relu(conv(relu(conv(x))))) + x). */
static const VaeTensor *
block(VaeBuilder *b, int index, const VaeTensor *x, bool pooled)
{
    if (!x)
        return NULL;
    VaeConv c = {.c = x->shape.c, .k = 3, .two_d = true, .relu = true};
    vae_enter(b, "%d", index);
    if (pooled)
        x = pool(b, x, c.c);
    c.narrow = true;
    const VaeTensor *y = vae_conv(b, "conv.0", x, c);
    y = vae_conv(b, "conv.2", y, c);
    c.narrow = false;
    c.add = x;
    y = vae_conv(b, "conv.4", y, c);
    vae_leave(b);
    return y;
}

static void
decode(VaeBuilder *b)
{
    const Tae *a = vae_arch_data(b);
    const VaeTensor *x = vae_input(b);
    int at = 3;
    x = vae_patches(b, "unfold", x, VAE_UNFOLD_CRQ, a->patch);
    vae_enter(b, "decoder");
    x = vae_clamp(b, "0", x);
    x = conv(b, 1, x, (VaeConv){.c = a->dec[0], .relu = true});
    for (int i = 1; i <= a->up; i++, at += 5) {
        char name[16];
        for (int j = 0; j < 3; j++)
            x = block(b, at + j, x, a->patch > 1 && i == 1);
        snprintf(name, sizeof name, "%d", at + 3);
        x = vae_rearrange(b, name, x,
                          (VaeMove){.kind = VAE_UNFOLD_NEAREST, .fs = 2});
        x = conv(b, at + 4, x, (VaeConv){.c = a->dec[i], .no_bias = true});
    }
    x = block(b, at, x, false);
    x = conv(b, at + 1, x, (VaeConv){.c = 3});
    vae_leave(b);
    vae_output(b, x);
}

static void
encode(VaeBuilder *b)
{
    const Tae *a = vae_arch_data(b);
    const VaeTensor *x = vae_input(b);
    int at = 1, down = a->up;
    vae_enter(b, "encoder");
    if (a->deep) {
        VaeConv c = {.c = a->enc[0], .s = 2, .relu = true, .narrow = true};
        x = conv(b, 0, x, c);
        c.c = a->enc[1];
        c.narrow = false;
        x = conv(b, 2, x, c);
        at = 4;
        down -= 2;
    } else {
        x = conv(b, 0, x, (VaeConv){.c = a->enc[0]});
    }
    x = block(b, at++, x, false);
    for (int i = 1; i <= down; i++, at += 4) {
        x = conv(b, at, x, (VaeConv){.c = a->enc[1], .s = 2, .no_bias = true});
        for (int j = 1; j <= 3; j++)
            x = block(b, at + j, x, a->patch > 1 && i == down);
    }
    x = conv(b, at, x, (VaeConv){.c = a->z});
    vae_leave(b);
    x = vae_patches(b, "fold", x, VAE_FOLD_CRQ, a->patch);
    vae_output(b, x);
}

/* ------------------------------------------------------------------ */
/* Recognition.                                                        */

enum { OFFICIAL, DIFFUSERS, COMFYUI, NAMINGS };

static const char *const naming_names[] = {
    [OFFICIAL] = "official", [DIFFUSERS] = "diffusers", [COMFYUI] = "ComfyUI"};

static bool
rename_tensor(int naming, const char *name, char *out)
{
    const bool decoder = strncmp(name, "decoder.", 8) == 0;
    if ((!decoder && strncmp(name, "encoder.", 8) != 0) || strlen(name) > 200)
        return false;
    char *rest;
    const long index = strtol(name + 8, &rest, 10);
    if (naming == DIFFUSERS)
        sprintf(out, "%.8slayers.%ld%s", name, index - decoder, rest);
    else
        sprintf(out, "taesd_%s", name);
    return true;
}

/* ComfyUI's factors from raw latents to normalized ones. */
static bool
ignores(const VaeModelInfo *info, const char *name)
{
    (void) info;
    return strcmp(name, "vae_scale") == 0 || strcmp(name, "vae_shift") == 0;
}

/* The TAEHV family has other layers at these places. */
static bool
find_halves(VaeRecognise *r)
{
    const VaeModel *m = r->model;
    VaeModelInfo *info = r->info;
    for (*r->naming = 0; *r->naming < NAMINGS; ++*r->naming) {
        info->has_decoder = vae_model_has_block(m, "decoder.18.conv.");
        info->has_encoder = vae_model_has_block(m, "encoder.0.") &&
                            vae_model_has_block(m, "encoder.8.conv.");
        info->names = naming_names[*r->naming];
        if (info->has_decoder || info->has_encoder)
            return true;
    }
    *r->naming = 0;
    return false;
}

/* The first of these networks with equal shapes is the default. */
static const struct Variant {
    VaeVariant names;
    int z, patch, up;
} variants[] = {{{"taesd", "sd", .family = true}, 4, 1, 3},
                {{"taesdxl", "sdxl"}, 4, 1, 3},
                {{"taef1", "flux1"}, 16, 1, 3},
                {{"taesd3", "sd3"}, 16, 1, 3},
                {{"taef2", "flux2"}, 32, 2, 3},
                {{"taesana", "sana"}, 32, 1, 5}};

enum { N_VARIANTS = sizeof variants / sizeof *variants };

static void
describe(VaeRecognise *r, const Tae *a, const VaeVariant *v)
{
    VaeModelInfo *info = r->info;
    info->arch = v->name;
    vae_describe_causal(r, v->space, a->z * a->patch * a->patch,
                        a->patch << a->up, 1);
    info->has_posterior = false;
    info->pixel_low = 0;
    info->takes_normalized = true;
}

static void
read_shapes(const VaeModel *m, Tae *a)
{
    a->z = vae_model_dim(m, 1, "decoder.1.weight");
    a->deep = !vae_model_has_block(m, "encoder.1.conv.");
    a->up = vae_model_has_block(m, "decoder.23.conv.") ||
                    vae_model_has_block(m, "encoder.16.conv.")
                ? 5
                : 3;
    a->dec[0] = vae_model_width(m, "decoder.1");
    for (int i = 1; i <= a->up; i++)
        a->dec[i] = vae_model_width(m, "decoder.%d", 2 + 5 * i);
    for (int i = 0; i < 2; i++)
        a->enc[i] = vae_model_width(m, "encoder.%d", 2 * i);
    if (!a->z)
        a->z = vae_model_width(m, "encoder.%d", a->deep ? 17 : 14);
    a->patch = vae_model_has_block(m, "decoder.3.pool.") ||
                       vae_model_has_block(m, "encoder.11.pool.")
                   ? 2
                   : 1;
}

static bool
recognise(VaeRecognise *r, VaeError *error)
{
    Tae *a = r->data;
    VaeVariant fitting[N_VARIANTS];
    char what[100];
    int n = 0;
    if (!find_halves(r))
        return false;
    read_shapes(r->model, a);
    if (!a->z && !vae_model_needs(r->model, "decoder.1.weight", error))
        return true;
    for (int i = 0; i < N_VARIANTS; i++)
        if (variants[i].z == a->z && variants[i].patch == a->patch &&
            variants[i].up == a->up)
            fitting[n++] = variants[i].names;
    snprintf(what, sizeof what,
             "tiny autoencoder of %d latent channels and %d resamplings %s "
             "pools",
             a->z, a->up, a->patch > 1 ? "with" : "without");
    const int i = vae_model_choose_variant(r, fitting, n, what, error);
    if (i >= 0)
        describe(r, a, &fitting[i]);
    return true;
}

static void
preset(VaeRecognise *r)
{
    static const int wide[MAX_UP + 1] = {256, 128, 64, 64, 64, 64};
    Tae *a = r->data;
    const struct Variant *v = variants;
    while (strcmp(v->names.name, r->arch->name) != 0)
        v++;
    const bool deep = v->up > 3;
    *a = (Tae){.z = v->z,
               .patch = v->patch,
               .up = v->up,
               .deep = deep,
               .enc = {deep ? 32 : 64, 64}};
    for (int i = 0; i <= v->up; i++)
        a->dec[i] = deep ? wide[i] : 64;
    describe(r, a, &v->names);
}

static const VaeFixed fixed[] = {{"act_fn", "relu"},
                                 {"upsample_fn", "nearest"},
                                 {"upsampling_scaling_factor", "2"},
                                 {0}};

#define TAE(symbol, text)                                                      \
    const VaeArch symbol = {.name = (text),                                    \
                            .data_size = sizeof(Tae),                          \
                            .other_names = NAMINGS - 1,                        \
                            .rename = rename_tensor,                           \
                            .ignores = ignores,                                \
                            .recognise = recognise,                            \
                            .fixed = fixed,                                    \
                            .preset = preset,                                  \
                            .decode = decode,                                  \
                            .encode = encode}

TAE(vae_arch_taesd, "taesd");
TAE(vae_arch_taesdxl, "taesdxl");
TAE(vae_arch_taesd3, "taesd3");
TAE(vae_arch_taef1, "taef1");
TAE(vae_arch_taef2, "taef2");
TAE(vae_arch_taesana, "taesana");

/*
 * taehv.c: recognises the TAEHV family by names and shapes.
 */
#include <stdio.h>
#include <string.h>

#include "arch.h"
#include "taehv.h"
#include "vae-private/spaces.h"

/* The variants and the latent spaces they stand in for. Shapes give z, patch
 * and the kind of blocks only; of variants that these do not distinguish, the
 * first is the default, unless the file's name has that of another. */
typedef struct Variant {
    const char *name;
    const char *other; /* its name with other blocks, or NULL */
    VaeTaeBlocks blocks;
    const char *space; /* a name of the table of spaces */
    bool raw;          /* it takes raw latents, and has no other blocks */
    const char *doubt; /* as VaeRecognise has it */
} Variant;

/* The author's example for CogVideoX 1.5 (examples/TAECVX_T2I_Demo.ipynb of
 * madebyollin/taehv, commit 1f14a56) divides the latents by 0.7, unlike those
 * for other networks. The README there says that no network needs a scale, and
 * in issue 2 the author is not sure. */
#define TAECVX_DOUBT                                                           \
    "it is not known if taecvx works on normalized latents, as is assumed "    \
    "here, or on raw ones, as in the example of its author: compare with the " \
    "full VAE of CogVideoX. If on raw ones, set normalization to "             \
    "normalized, and use raw latents (normalized ones / 0.7). This warning "   \
    "ends once normalization is set"

static const Variant variants[] = {
    {"taew2_1", NULL, VAE_TAE_BASE, "wan2.1"},
    {"taehv", NULL, VAE_TAE_BASE, "hunyuan"},
    {"taecvx", NULL, VAE_TAE_BASE, "cogvideox", .doubt = TAECVX_DOUBT},
    {"taeos1_3", NULL, VAE_TAE_BASE, "opensora1.3"},
    {"taew2_2", "taew2_2_super", VAE_TAE_SUPER, "wan2.2"},
    {"taehv1_5", "taehv1_5_super", VAE_TAE_SUPER, "hunyuan1.5"},
    {"taeh3", NULL, VAE_TAE_BASE, "h3"},
    {"taeltx_2", NULL, VAE_TAE_BASE, "ltx2"},
    {"taeltx2_3", "taeltx2_3_wide", VAE_TAE_WIDE, "ltx2"},
    {"lighttaew2_1", NULL, VAE_TAE_BASE, "wan2.1", true},
    {"lighttaew2_2", NULL, VAE_TAE_BASE, "wan2.2", true}};

/* Pixels of a side of a latent pixel, for patches of 1x1. */
#define PATCH_SCALE 8

#define N_VARIANTS (sizeof variants / sizeof *variants)

static bool
has_name(const Variant *v, const char *name)
{
    return strcmp(v->name, name) == 0 ||
           (v->other && strcmp(v->other, name) == 0);
}

static const char *
name_of(const Variant *v, const VaeTae *a)
{
    return a->blocks && a->blocks == v->blocks ? v->other : v->name;
}

static bool
fits(const Variant *v, const VaeTae *a)
{
    const VaeSpace *s = vae_space_find(v->space);
    return s->channels == a->z && s->spatial == PATCH_SCALE * a->patch &&
           (a->blocks != VAE_TAE_WIDE || v->blocks == VAE_TAE_WIDE) &&
           (a->blocks == VAE_TAE_BASE || !v->raw);
}

static const Variant *
find_variant(VaeRecognise *r, const VaeTae *a, VaeError *error)
{
    const Variant *fitting[N_VARIANTS];
    VaeVariant names[N_VARIANTS];
    char what[100];
    int n = 0;
    for (const Variant *v = variants; v < variants + N_VARIANTS; v++)
        if (fits(v, a)) {
            const bool base = name_of(v, a) == v->name;
            names[n] =
                (VaeVariant){name_of(v, a), v->space, base ? v->other : v->name,
                             strcmp(v->name, "taehv") == 0};
            fitting[n++] = v;
        }
    snprintf(what, sizeof what,
             "tiny autoencoder of %d latent channels and %dx%d pixel patches",
             a->z, a->patch, a->patch);
    const int i = vae_model_choose_variant(r, names, n, what, error);
    return i < 0 ? NULL : fitting[i];
}

/* The time factor of a resampler: its weight has one width that is so many
 * times the narrow one; 0: none. If the weight is missing, the factor is 1:
 * vae_model_match() then names the tensor. */
static int
factor(const VaeModel *m, const char *half, int index, int dim, int narrow)
{
    char name[40];
    snprintf(name, sizeof name, "%s.%d.conv.weight", half, index);
    const int wide = vae_model_dim(m, dim, "%s", name);
    if (!vae_model_find(m, name))
        return 1;
    return narrow > 0 && wide % narrow == 0 && wide / narrow <= 4
               ? wide / narrow
               : 0;
}

static void
read_decoder(const VaeModel *m, VaeTae *a)
{
    const bool super = a->blocks == VAE_TAE_SUPER;
    const int step = super ? 7 : 6;
    a->dec_c[0] = vae_model_dim(m, 0, "decoder.%d.weight", super ? 0 : 1);
    for (int i = 0; i < 3; i++) {
        const int at = 7 + step * i;
        a->grow[i] = factor(m, "decoder", at, 0,
                            vae_model_dim(m, 1, "decoder.%d.conv.weight", at));
        a->dec_c[i + 1] =
            super ? vae_model_width(m, "decoder.%d", at - 3) / 4
                  : vae_model_dim(m, 0, "decoder.%d.weight", at + 1);
        a->group_c[i] = vae_model_dim(m, 1, "decoder.%d.conv.2.weight", at - 4);
    }
}

static void
describe(VaeRecognise *r, const VaeTae *a, const Variant *v)
{
    VaeModelInfo *info = r->info;
    const VaeSpace *space = vae_space_find(v->space);
    const int *t = info->has_decoder ? a->grow : a->pool;
    info->arch = name_of(v, a);
    info->space = v->space;
    info->latent_channels = a->z;
    info->spatial = PATCH_SCALE * a->patch;
    info->temporal = t[0] * t[1] * t[2];
    info->has_posterior = false;
    info->decode = (VaeSteps){1, 1, 1, info->temporal};
    info->encode = (VaeSteps){info->temporal, 1, info->temporal, 1};
    info->chunk = space->counts.chunk;
    /* The encoder begins each chunk anew, after black frames. */
    if (info->chunk)
        info->encode.first_in = 1;
    info->pixel_low = 0;
    info->pixel_high = 1;
    info->fps_n = space->fps;
    info->fps_d = 1;
    info->takes_normalized = !v->raw;
    *r->doubt = v->doubt;
    vae_space_statistics(info->space, a->z, r->mean, r->std);
}

bool
vae_tae_recognise(VaeRecognise *r, VaeError *error)
{
    const VaeModel *m = r->model;
    VaeTae *a = r->data;
    const char *first = "decoder.1.weight";
    if (vae_model_has_block(m, "decoder.1.conv."))
        a->blocks = VAE_TAE_SUPER;
    else if (vae_model_has_block(m, "decoder.3.conv.6."))
        a->blocks = VAE_TAE_WIDE;
    else if (!vae_model_has_block(m, "decoder.3.conv.4.") &&
             !vae_model_has_block(m, "encoder.4.conv.4."))
        return false;
    read_decoder(m, a);
    a->enc_c = vae_model_width(m, "encoder.0");
    for (int i = 0; i < 3; i++)
        a->pool[i] = factor(m, "encoder", 2 + 5 * i, 1, a->enc_c);
    if (!r->info->has_decoder)
        first = "encoder.0.weight";
    else if (a->blocks == VAE_TAE_SUPER)
        first = "decoder.0.weight";
    if (r->info->has_decoder)
        a->z = vae_model_dim(m, 1, "%s", first);
    if (!a->z)
        a->z = vae_model_width(m, "encoder.17");
    a->patch =
        vae_patch_side(r->info->has_decoder ? vae_model_width(m, "decoder.22")
                                            : vae_model_dim(m, 1, "%s", first));
    if ((!a->z || !a->patch) && !vae_model_needs(m, first, error))
        return true;
    for (int i = 0; i < 3; i++)
        if ((r->info->has_decoder && !a->grow[i]) ||
            (r->info->has_encoder && !a->pool[i])) {
            vae_fail(
                error, VAE_ERR_MODEL,
                "the shapes of the time resamplers (decoder.7, .13, .19 or "
                "encoder.2, .7, .12) give no factor of 1 to 4");
            return true;
        }
    const Variant *v = find_variant(r, a, error);
    if (v)
        describe(r, a, v);
    return true;
}

/* ------------------------------------------------------------------ */
/* Full-size configurations.                                           */

void
vae_tae_preset(VaeRecognise *r)
{
    const char *name = r->arch->name;
    VaeTae *a = r->data;
    const Variant *v = variants;
    while (!has_name(v, name))
        v++;
    const VaeSpace *space = vae_space_find(v->space);
    *a = (VaeTae){.z = space->channels,
                  .patch = space->spatial / PATCH_SCALE,
                  .enc_c = 64,
                  .blocks = strcmp(v->name, name) ? v->blocks : VAE_TAE_BASE,
                  .group_c = {64, 64, 64}};
    static const int widths[][4] = {[VAE_TAE_BASE] = {256, 128, 64, 64},
                                    [VAE_TAE_SUPER] = {512, 256, 128, 64},
                                    [VAE_TAE_WIDE] = {1024, 512, 256, 64}};
    memcpy(a->dec_c, widths[a->blocks], sizeof a->dec_c);
    const bool ltx = a->patch == 4;
    for (int i = 0; i < 3; i++) {
        a->grow[i] = i > 0 || ltx ? 2 : 1;
        a->pool[i] = i < 2 || ltx ? 2 : 1;
    }
    describe(r, a, v);
}

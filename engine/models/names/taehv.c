/*
 * taehv.c: recognises the TAEHV family by names and shapes.
 */
#include <stdio.h>
#include <string.h>

#include "latent_spaces.h"
#include "taehv.h"

/* The variants and the latent spaces they stand in for. Shapes give z, patch
 * and the kind of blocks only; of variants that these do not distinguish, the
 * first is the default, unless the file's name has that of another. */
typedef struct Variant {
    const char *name;
    const char *other; /* its name with other blocks, or NULL */
    VaeTaeBlocks blocks;
    const char *space;
    int z, patch, fps;
    bool raw; /* it takes raw latents, and has no other blocks */
} Variant;

static const Variant variants[] = {
    {"taew2_1", NULL, VAE_TAE_BASE, "wan2.1", 16, 1, 16},
    {"taehv", NULL, VAE_TAE_BASE, "hunyuan", 16, 1, 24},
    {"taecvx", NULL, VAE_TAE_BASE, "cogvideox", 16, 1, 8},
    {"taeos1_3", NULL, VAE_TAE_BASE, "opensora1.3", 16, 1, 24},
    {"taew2_2", "taew2_2_super", VAE_TAE_SUPER, "wan2.2", 48, 2, 24},
    {"taehv1_5", "taehv1_5_super", VAE_TAE_SUPER, "hunyuan1.5", 32, 2, 24},
    {"taeh3", NULL, VAE_TAE_BASE, "h3", 24, 2, 24},
    {"taeltx_2", NULL, VAE_TAE_BASE, "ltx2", 128, 4, 24},
    {"taeltx2_3", "taeltx2_3_wide", VAE_TAE_WIDE, "ltx2", 128, 4, 24},
    {"lighttaew2_1", NULL, VAE_TAE_BASE, "wan2.1", 16, 1, 16, true},
    {"lighttaew2_2", NULL, VAE_TAE_BASE, "wan2.2", 48, 2, 24, true}};

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
    return v->z == a->z && v->patch == a->patch &&
           (a->blocks != VAE_TAE_WIDE || v->blocks == VAE_TAE_WIDE) &&
           (a->blocks == VAE_TAE_BASE || !v->raw);
}

/* The variant whose name is part of the name of the file, or whose latent space
 * an installed file is named after; NULL: none. The longest name counts, since
 * that of the family is also that of one variant. */
static const Variant *
named_by_file(const char *path, const VaeTae *a)
{
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    const Variant *first = NULL, *best = NULL;
    size_t longest = 0;
    for (const Variant *v = variants; v < variants + N_VARIANTS; v++) {
        if (!fits(v, a))
            continue;
        first = first ? first : v;
        const size_t name = strlen(v->name), space = strlen(v->space);
        if (name > longest && strstr(file, v->name)) {
            best = v;
            longest = name;
        } else if (!best && strcmp(v->space, first->space) != 0 &&
                   strncmp(file, v->space, space) == 0 && file[space] == '.') {
            best = v;
        }
    }
    return best;
}

static const Variant *
find_variant(const VaeModel *m, const VaeTae *a, const Variant *named,
             VaeError *error)
{
    const char *stated = vae_model_variant(m);
    if (!stated && named)
        return named;
    for (size_t i = 0; i < N_VARIANTS; i++)
        if (fits(&variants[i], a) &&
            (!stated || has_name(&variants[i], stated)))
            return &variants[i];
    VaeListing fitting = {0};
    for (size_t i = 0; i < N_VARIANTS; i++)
        if (fits(&variants[i], a))
            vae_listing_add(&fitting, "%s", name_of(&variants[i], a));
    vae_fail(error, VAE_ERR_MODEL,
             "no tiny autoencoder%s%s of %d latent channels and %dx%d "
             "pixel patches is known%s%s",
             stated ? " " : "", stated ? stated : "", a->z, a->patch, a->patch,
             fitting.count ? "; variants that fit: " : "", fitting.text);
    return NULL;
}

/* The reason for the choice; some variants have the same shapes. */
static const char *
reason(const VaeModel *m, const VaeTae *a, const Variant *named)
{
    const bool same = (a->z == 16 && a->patch == 1) ||
                      (a->z == 48 && a->blocks == VAE_TAE_BASE) ||
                      (a->z == 128 && a->blocks != VAE_TAE_WIDE);
    if (vae_model_variant(m))
        return "names of its blocks, shapes, and the variant stated";
    if (same && named)
        return "names of its blocks, shapes, and the name of the file";
    if (same && a->z == 16)
        return "names of its blocks and shapes, which taehv, taecvx, "
               "taeos1_3 and lighttaew2_1 share: variant taew2_1 assumed";
    if (same && a->z == 48)
        return "names of its blocks and shapes, which lighttaew2_2 shares: "
               "variant taew2_2 assumed";
    if (same && a->z == 128)
        return "names of its blocks and shapes, which taeltx2_3 shares: "
               "variant taeltx_2 assumed";
    return "names of its blocks and shapes";
}

static int
ratio(int a, int b)
{
    return b > 0 && a % b == 0 && a / b <= 4 ? a / b : 0;
}

static void
read_decoder(const VaeModel *m, VaeTae *a)
{
    const bool super = a->blocks == VAE_TAE_SUPER;
    const int step = super ? 7 : 6;
    a->dec_c[0] = vae_model_dim(m, 0, "decoder.%d.weight", super ? 0 : 1);
    for (int i = 0; i < 3; i++) {
        const int from =
            vae_model_dim(m, 1, "decoder.%d.conv.weight", 7 + step * i);
        a->grow[i] = ratio(
            vae_model_dim(m, 0, "decoder.%d.conv.weight", 7 + step * i), from);
        a->dec_c[i + 1] =
            super ? from
                  : vae_model_dim(m, 0, "decoder.%d.weight", 8 + step * i);
        a->group_c[i] =
            vae_model_dim(m, 1, "decoder.%d.conv.2.weight", 3 + step * i);
    }
}

static void
describe(VaeRecognise *r, const VaeTae *a, const Variant *v)
{
    VaeModelInfo *info = r->info;
    const int *t = info->has_decoder ? a->grow : a->pool;
    info->arch = name_of(v, a);
    info->space = v->space;
    info->latent_channels = a->z;
    info->spatial = 8 * a->patch;
    info->temporal = t[0] * t[1] * t[2];
    info->has_posterior = false;
    info->decode = (VaeSteps){1, 1, 1, info->temporal};
    info->encode = (VaeSteps){info->temporal, 1, info->temporal, 1};
    if (strcmp(info->space, "h3") == 0) {
        /* The encoder begins each chunk anew, behind black frames. */
        info->chunk = 5;
        info->encode = (VaeSteps){1, 1, info->temporal, 1};
    }
    info->pixel_low = 0;
    info->pixel_high = 1;
    info->fps_n = v->fps;
    info->fps_d = 1;
    info->takes_normalized = !v->raw;
    vae_space_statistics(info->space, a->z, r->mean, r->std);
}

bool
vae_tae_recognise(VaeRecognise *r, VaeError *error)
{
    const VaeModel *m = r->model;
    VaeTae *a = r->data;
    if (vae_model_find(m, "decoder.1.conv.1.weight"))
        a->blocks = VAE_TAE_SUPER;
    else if (vae_model_find(m, "decoder.3.conv.6.weight"))
        a->blocks = VAE_TAE_WIDE;
    else if (!vae_model_find(m, "decoder.3.conv.4.weight") &&
             !vae_model_find(m, "encoder.4.conv.4.weight"))
        return false;
    read_decoder(m, a);
    a->enc_c = vae_model_width(m, "encoder.0");
    for (int i = 0; i < 3; i++)
        a->pool[i] = ratio(
            vae_model_dim(m, 1, "encoder.%d.conv.weight", 2 + 5 * i), a->enc_c);
    a->z = vae_model_dim(m, 1, "decoder.%d.weight",
                         a->blocks == VAE_TAE_SUPER ? 0 : 1);
    if (!a->z)
        a->z = vae_model_width(m, "encoder.17");
    a->patch = vae_patch_side(r->info->has_decoder
                                  ? vae_model_width(m, "decoder.22")
                                  : vae_model_dim(m, 1, "encoder.0.weight"));
    for (int i = 0; i < 3; i++)
        if ((r->info->has_decoder && !a->grow[i]) ||
            (r->info->has_encoder && !a->pool[i])) {
            vae_fail(
                error, VAE_ERR_MODEL,
                "the shapes of the time resamplers (decoder.7, .13, .19 or "
                "encoder.2, .7, .12) give no factor of 1 to 4");
            return true;
        }
    const Variant *named = named_by_file(r->info->path, a);
    r->info->reason = reason(m, a, named);
    const Variant *v = find_variant(m, a, named, error);
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
    *a = (VaeTae){.z = v->z,
                  .patch = v->patch,
                  .enc_c = 64,
                  .blocks = strcmp(v->name, name) ? v->blocks : VAE_TAE_BASE,
                  .group_c = {64, 64, 64}};
    static const int widths[][4] = {[VAE_TAE_BASE] = {256, 128, 64, 64},
                                    [VAE_TAE_SUPER] = {512, 256, 128, 64},
                                    [VAE_TAE_WIDE] = {1024, 512, 256, 64}};
    memcpy(a->dec_c, widths[a->blocks], sizeof a->dec_c);
    const bool ltx = v->patch == 4;
    for (int i = 0; i < 3; i++) {
        a->grow[i] = i > 0 || ltx ? 2 : 1;
        a->pool[i] = i < 2 || ltx ? 2 : 1;
    }
    describe(r, a, v);
}

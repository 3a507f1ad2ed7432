/*
 * taehv.c: the tiny autoencoders of the TAEHV family.
 *
 * Frame-recursive: memory blocks see the frame before, zeros at first. Pixels
 * are 0..1, latents are the diffusion model's. The decoder makes all frames
 * of the first latent and gives only the last; the encoder takes whole groups
 * of frames from the first on.
 */
#include <stdio.h>
#include <string.h>

#include "blocks.h"
#include "model_internal.h"

typedef struct Tae {
    int z, patch;
    bool super;
    int enc_c, dec_c[4];
    int pool[3], grow[3]; /* time factors */
} Tae;

/* What stands in for what; shapes tell z and patch only. Of those that shapes
 * cannot tell apart the first is taken unless the variant is stated. */
typedef struct Variant {
    const char *name, *super, *space;
    int z, patch, fps;
} Variant;

static const Variant variants[] = {
    {"taew2_1", NULL, "wan2.1", 16, 1, 16},
    {"taehv", NULL, "hunyuan", 16, 1, 24},
    {"taecvx", NULL, "cogvideox", 16, 1, 8},
    {"taeos1_3", NULL, "opensora1.3", 16, 1, 24},
    {"taew2_2", "taew2_2_super", "wan2.2", 48, 2, 24},
    {"taehv1_5", "taehv1_5_super", "hunyuan1.5", 32, 2, 24},
    {"taeltx_2", NULL, "ltx2", 128, 4, 24}};

#define N_VARIANTS (sizeof variants / sizeof *variants)

/* ------------------------------------------------------------------ */
/* Blocks. n: channels of x.                                           */

/* relu(conv(relu(conv(relu(conv(x, frame before))))) + x). */
static const VaeTensor *
memory_block(VaeBuilder *b, int index, const VaeTensor *x)
{
    if (!x)
        return NULL;
    const int n = x->shape.c;
    vae_enter(b, "%d", index);
    const VaeTensor *y = vae_conv(b, "conv.0", x,
                                  (VaeConv){.c = n,
                                            .k = 3,
                                            .kt = 2,
                                            .taps = VAE_TAPS_NEWEST_FIRST,
                                            .relu = true,
                                            .narrow = true});
    y = vae_conv(
        b, "conv.2", y,
        (VaeConv){.c = n, .k = 3, .two_d = true, .relu = true, .narrow = true});
    y = vae_conv(
        b, "conv.4", y,
        (VaeConv){.c = n, .k = 3, .two_d = true, .relu = true, .add = x});
    vae_leave(b);
    return y;
}

/* conv(relu(conv(depthwise(x, frame before)))) + x. */
static const VaeTensor *
super_block(VaeBuilder *b, int index, const VaeTensor *x)
{
    if (!x)
        return NULL;
    const int n = x->shape.c;
    vae_enter(b, "%d", index);
    const VaeTensor *y = vae_depthwise(b, "conv.0", x);
    y = vae_conv(
        b, "conv.1", y,
        (VaeConv){.c = 4 * n, .two_d = true, .relu = true, .narrow = true});
    y = vae_conv(b, "conv.3", y,
                 (VaeConv){.c = n, .two_d = true, .no_bias = true, .add = x});
    vae_leave(b);
    return y;
}

/* 1x1 from n to s * n channels, dealt to s frames, each pixel to 2x2: the
 * conv commutes with the upsampling and is done before it. */
static const VaeTensor *
grow(VaeBuilder *b, int index, const VaeTensor *x, int s)
{
    if (!x)
        return NULL;
    const int n = x->shape.c;
    vae_enter(b, "%d", index);
    x = vae_conv(
        b, "conv", x,
        (VaeConv){.c = s * n, .two_d = true, .no_bias = true, .narrow = true});
    x = vae_rearrange(b, "unfold", x,
                      (VaeMove){.kind = VAE_UNFOLD_NEAREST, .ft = s, .fs = 2});
    vae_leave(b);
    return x;
}

static const VaeTensor *
decode_base(VaeBuilder *b, const Tae *a, const VaeTensor *x)
{
    x = vae_clamp(b, "0", x);
    x = vae_conv(
        b, "1", x,
        (VaeConv){.c = a->dec_c[0], .k = 3, .two_d = true, .relu = true});
    for (int i = 0; i < 3; i++) {
        char name[4];
        for (int j = 0; j < 3; j++)
            x = memory_block(b, 3 + 6 * i + j, x);
        x = grow(b, 7 + 6 * i, x, a->grow[i]);
        snprintf(name, sizeof name, "%d", 8 + 6 * i);
        x = vae_conv(b, name, x,
                     (VaeConv){.c = a->dec_c[i + 1],
                               .k = 3,
                               .two_d = true,
                               .no_bias = true,
                               .relu = i == 2,
                               .narrow = i == 2});
    }
    return x;
}

static const VaeTensor *
decode_super(VaeBuilder *b, const Tae *a, const VaeTensor *x)
{
    x = vae_conv(b, "0", x,
                 (VaeConv){.c = a->dec_c[0], .two_d = true, .no_bias = true});
    for (int i = 0; i < 3; i++) {
        char name[16];
        for (int j = 0; j < 3; j++)
            x = super_block(b, 1 + 7 * i + j, x);
        snprintf(name, sizeof name, "%d", 4 + 7 * i);
        x = vae_conv(b, name, x,
                     (VaeConv){.c = 4 * a->dec_c[i + 1],
                               .k = 3,
                               .two_d = true,
                               .relu = true,
                               .narrow = true});
        x = vae_rearrange(b, "shuffle", x,
                          (VaeMove){.kind = VAE_UNFOLD_CRQ, .fs = 2});
        snprintf(name, sizeof name, "%d.conv", 7 + 7 * i);
        x = vae_conv(b, name, x,
                     (VaeConv){.c = a->dec_c[i + 1] * a->grow[i],
                               .two_d = true,
                               .no_bias = true});
        if (a->grow[i] > 1)
            x = vae_rearrange(b, "unfold", x,
                              (VaeMove){.kind = VAE_UNFOLD_NEAREST,
                                        .ft = a->grow[i],
                                        .wide = true});
    }
    return x;
}

static void
decode(VaeBuilder *b)
{
    const Tae *a = vae_arch_data(b);
    const VaeTensor *x = vae_input(b);
    vae_enter(b, "decoder");
    x = a->super ? decode_super(b, a, x) : decode_base(b, a, x);
    x = vae_conv(
        b, "22", x,
        (VaeConv){.c = 3 * a->patch * a->patch, .k = 3, .two_d = true});
    vae_leave(b);
    if (a->patch > 1)
        x = vae_rearrange(
            b, "shuffle", x,
            (VaeMove){.kind = VAE_UNFOLD_CRQ, .fs = a->patch, .wide = true});
    vae_output(b, x);
}

static void
encode(VaeBuilder *b)
{
    const Tae *a = vae_arch_data(b);
    const VaeTensor *x = vae_input(b);
    if (a->patch > 1)
        x = vae_rearrange(b, "unshuffle", x,
                          (VaeMove){.kind = VAE_FOLD_CRQ, .fs = a->patch});
    vae_enter(b, "encoder");
    x = vae_conv(b, "0", x,
                 (VaeConv){.c = a->enc_c,
                           .k = 3,
                           .two_d = true,
                           .relu = true,
                           .narrow = true});
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d.conv", 2 + 5 * i);
        x = vae_conv(b, name, x,
                     (VaeConv){.c = a->enc_c,
                               .kt = a->pool[i],
                               .st = a->pool[i],
                               .taps = VAE_TAPS_OLDEST_FIRST,
                               .no_bias = true,
                               .narrow = true});
        snprintf(name, sizeof name, "%d", 3 + 5 * i);
        x = vae_conv(
            b, name, x,
            (VaeConv){
                .c = a->enc_c, .k = 3, .s = 2, .two_d = true, .no_bias = true});
        for (int j = 0; j < 3; j++)
            x = memory_block(b, 4 + 5 * i + j, x);
    }
    x = vae_conv(b, "17", x, (VaeConv){.c = a->z, .k = 3, .two_d = true});
    vae_leave(b);
    vae_output(b, x);
}

/* ------------------------------------------------------------------ */
/* Recognition.                                                        */

static bool
same_name(const VaeModel *m, const char *name, char *out)
{
    return snprintf(out, 256, "%s", name) < 256;
}

static bool
is_called(const Variant *v, const char *name)
{
    return strcmp(v->name, name) == 0 ||
           (v->super && strcmp(v->super, name) == 0);
}

static const Variant *
find_variant(const VaeModel *m, const Tae *a, VaeError *error)
{
    const char *stated = vae_model_variant(m);
    for (size_t i = 0; i < N_VARIANTS; i++)
        if (variants[i].z == a->z && variants[i].patch == a->patch &&
            (!stated || is_called(&variants[i], stated)))
            return &variants[i];
    if (a->z == 24)
        vae_fail(error, VAE_ERR_UNSUPPORTED,
                 "taeh3 (24 latent channels) works in chunks of 17 frames, "
                 "each from an empty state, and cannot run as a stream");
    else {
        VaeListing fitting = {0};
        for (size_t i = 0; i < N_VARIANTS; i++)
            if (variants[i].z == a->z && variants[i].patch == a->patch)
                vae_listing_add(&fitting, "%s",
                                a->super && variants[i].super
                                    ? variants[i].super
                                    : variants[i].name);
        vae_fail(error, VAE_ERR_MODEL,
                 "no tiny autoencoder%s%s of %d latent channels and %dx%d "
                 "pixel patches is known%s%s",
                 stated ? " " : "", stated ? stated : "", a->z, a->patch,
                 a->patch, fitting.count ? "; variants that fit: " : "",
                 fitting.text);
    }
    return NULL;
}

/* Of 16 channels there are four models of the same shapes. */
static const char *
reason(const VaeModel *m, const Tae *a)
{
    if (vae_model_variant(m))
        return "names of its blocks, shapes, and the variant stated";
    return a->z == 16 && a->patch == 1
               ? "names of its blocks and shapes, which taehv, taecvx and "
                 "taeos1_3 share: variant taew2_1 assumed"
               : "names of its blocks and shapes";
}

static int
patch_of(int channels)
{
    int p = 1;
    while (p < 8 && 3 * p * p < channels)
        p++;
    return 3 * p * p == channels ? p : 0;
}

static int
ratio(int a, int b)
{
    return b > 0 && a % b == 0 && a / b <= 4 ? a / b : 0;
}

static void
read_decoder(const VaeModel *m, Tae *a)
{
    const int step = a->super ? 7 : 6;
    a->dec_c[0] = vae_model_dim(m, 0, "decoder.%d.weight", a->super ? 0 : 1);
    for (int i = 0; i < 3; i++) {
        const int from =
            vae_model_dim(m, 1, "decoder.%d.conv.weight", 7 + step * i);
        a->grow[i] = ratio(
            vae_model_dim(m, 0, "decoder.%d.conv.weight", 7 + step * i), from);
        a->dec_c[i + 1] =
            a->super ? from
                     : vae_model_dim(m, 0, "decoder.%d.weight", 8 + step * i);
    }
}

static void
describe(VaeModelInfo *info, const Tae *a, const Variant *v)
{
    const int *t = info->has_decoder ? a->grow : a->pool;
    info->arch = a->super && v->super ? v->super : v->name;
    info->space = v->space;
    info->latent_channels = a->z;
    info->spatial = 8 * a->patch;
    info->temporal = t[0] * t[1] * t[2];
    info->has_posterior = false;
    info->decode = (VaeSteps){1, 1, 1, info->temporal};
    info->encode = (VaeSteps){info->temporal, 1, info->temporal, 1};
    info->pixel_low = 0;
    info->pixel_high = 1;
    info->fps_n = v->fps;
    info->fps_d = 1;
    for (int i = 0; i < a->z; i++)
        info->std[i] = 1;
}

static bool
recognise(VaeRecognise *r, VaeError *error)
{
    const VaeModel *m = r->model;
    Tae *a = r->data;
    a->super = vae_model_find(m, "decoder.1.conv.1.weight") != NULL;
    if (!a->super && !vae_model_find(m, "decoder.3.conv.4.weight") &&
        !vae_model_find(m, "encoder.4.conv.4.weight"))
        return false;
    r->info->names = "official";
    read_decoder(m, a);
    a->enc_c = vae_model_width(m, "encoder.0");
    for (int i = 0; i < 3; i++)
        a->pool[i] = ratio(
            vae_model_dim(m, 1, "encoder.%d.conv.weight", 2 + 5 * i), a->enc_c);
    a->z = vae_model_dim(m, 1, "decoder.%d.weight", a->super ? 0 : 1);
    if (!a->z)
        a->z = vae_model_width(m, "encoder.17");
    a->patch = patch_of(r->info->has_decoder
                            ? vae_model_width(m, "decoder.22")
                            : vae_model_dim(m, 1, "encoder.0.weight"));
    for (int i = 0; i < 3; i++)
        if ((r->info->has_decoder && !a->grow[i]) ||
            (r->info->has_encoder && !a->pool[i])) {
            vae_fail(error, VAE_ERR_MODEL,
                     "the shapes of the time resamplers "
                     "(decoder.7, .13, .19 or encoder.2, .7, .12) tell no "
                     "factor of 1 to 4");
            return true;
        }
    r->info->reason = reason(m, a);
    const Variant *v = find_variant(m, a, error);
    if (v)
        describe(r->info, a, v);
    return true;
}

/* ------------------------------------------------------------------ */
/* Full-size configurations.                                           */

static void
preset(VaeRecognise *r)
{
    const char *name = r->model->arch->name;
    Tae *a = r->data;
    const Variant *v = variants;
    while (!is_called(v, name))
        v++;
    *a = (Tae){.z = v->z,
               .patch = v->patch,
               .enc_c = 64,
               .super = strcmp(v->name, name) != 0};
    const int base[4] = {256, 128, 64, 64}, super[4] = {512, 256, 128, 64};
    for (int i = 0; i < 4; i++)
        a->dec_c[i] = a->super ? super[i] : base[i];
    const bool ltx = v->patch == 4;
    for (int i = 0; i < 3; i++) {
        a->grow[i] = i > 0 || ltx ? 2 : 1;
        a->pool[i] = i < 2 || ltx ? 2 : 1;
    }
    r->info->names = "official";
    describe(r->info, a, v);
}

#define TAE(symbol, text)                                                      \
    const VaeArch symbol = {.name = text,                                      \
                            .data_size = sizeof(Tae),                          \
                            .rename = same_name,                               \
                            .recognise = recognise,                            \
                            .preset = preset,                                  \
                            .decode = decode,                                  \
                            .encode = encode}

TAE(vae_arch_taew2_1, "taew2_1");
TAE(vae_arch_taew2_2, "taew2_2");
TAE(vae_arch_taew2_2_super, "taew2_2_super");
TAE(vae_arch_taehv, "taehv");
TAE(vae_arch_taehv1_5, "taehv1_5");
TAE(vae_arch_taehv1_5_super, "taehv1_5_super");
TAE(vae_arch_taeltx_2, "taeltx_2");

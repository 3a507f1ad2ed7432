/*
 * wan21.c: the VAE of Wan2.1 (also Wan2.2-A14B, Qwen-Image).
 *
 * 16 latent channels, 8x8 pixels and 4 frames per latent. Convolutions begin
 * with zeros. The first step skips the time resamplers: the carry of an
 * upsampler stays empty, the carry of a downsampler holds the first frame.
 *
 * The last layer of some decoders makes a square patch of pixels in place of
 * each, so their frames are larger than those that the latents were made of.
 */
#include <stdio.h>
#include <string.h>

#include "arch.h"
#include "wan_parts.h"

#define MAX_ITEMS 48

/* One entry of encoder.downsamples or decoder.upsamples. */
typedef struct Item {
    bool resample, temporal;
    int c; /* output channels */
} Item;

typedef struct Side {
    int c; /* channels after conv1 */
    int n;
    Item items[MAX_ITEMS];
} Side;

typedef struct Wan21 {
    int z;
    int side;    /* of the patches of pixels that the decoder makes */
    int colours; /* channels of a pixel that it makes, also alpha */
    Side enc, dec;
} Wan21;

/* ------------------------------------------------------------------ */
/* The forward passes.                                                 */

static void
decode(VaeBuilder *b)
{
    const Wan21 *a = vae_arch_data(b);
    const VaeTensor *x = vae_input(b);
    x = vae_conv(b, "conv2", x, (VaeConv){.c = a->z});
    vae_enter(b, "decoder");
    x = vae_conv(b, "conv1", x, vae_wan_conv(a->dec.c, false));
    x = vae_wan_middle(b, x, false);
    for (int i = 0; i < a->dec.n; i++) {
        const Item *item = &a->dec.items[i];
        if (!item->resample) {
            x = vae_wan_residual(b, "upsamples", i, x,
                                 (VaeWanBlock){.c = item->c});
            continue;
        }
        vae_enter(b, "upsamples.%d", i);
        x = vae_wan_up(b, x, item->c, item->temporal);
        vae_leave(b);
    }
    x = vae_wan_head(b, x, a->colours * a->side * a->side, false);
    vae_leave(b);
    x = vae_patches(b, "pixel_shuffle", x, VAE_UNFOLD_CRQ, a->side);
    vae_output(b, x);
}

static void
encode(VaeBuilder *b)
{
    const Wan21 *a = vae_arch_data(b);
    const VaeTensor *x = vae_input(b);
    vae_enter(b, "encoder");
    x = vae_conv(b, "conv1", x, vae_wan_conv(a->enc.c, false));
    for (int i = 0; i < a->enc.n; i++) {
        const Item *item = &a->enc.items[i];
        if (!item->resample) {
            x = vae_wan_residual(b, "downsamples", i, x,
                                 (VaeWanBlock){.c = item->c});
            continue;
        }
        vae_enter(b, "downsamples.%d", i);
        x = vae_wan_down(b, x, item->c, item->temporal);
        vae_leave(b);
    }
    x = vae_wan_middle(b, x, false);
    x = vae_wan_head(b, x, 2 * a->z, false);
    vae_leave(b);
    x = vae_conv(b, "conv1", x, (VaeConv){.c = 2 * a->z});
    vae_output(b, x);
}

/* ------------------------------------------------------------------ */
/* Names.                                                              */

/* Diffusers' name. naming is the number of entries per decoder stage:
 * residual blocks and the upsampler. */
static bool
to_diffusers(int naming, const char *name, char *out)
{
    const char *rest = name;
    out[0] = '\0';
    if (strlen(name) > 128)
        return false;
    if (!vae_wan_swap(&rest, "encoder.", "encoder.", out) &&
        !vae_wan_swap(&rest, "decoder.", "decoder.", out))
        return vae_wan_rename_top(name, out);
    int i, end = 0;
    if (sscanf(rest, "downsamples.%d.%n", &i, &end) == 1 && end) {
        sprintf(out + strlen(out), "down_blocks.%d.", i);
        rest += end;
    } else if (sscanf(rest, "upsamples.%d.%n", &i, &end) == 1 && end) {
        const int stage = i / naming, j = i % naming;
        sprintf(out + strlen(out),
                j < naming - 1 ? "up_blocks.%d.resnets.%d."
                               : "up_blocks.%d.upsamplers.0.",
                stage, j);
        rest += end;
    }
    vae_wan_rename_rest(rest, out);
    return true;
}

/* ------------------------------------------------------------------ */
/* Recognition.                                                        */

static void
read_side(const VaeModel *m, const char *list, const char *conv1, Side *side)
{
    side->c = vae_model_width(m, "%s", conv1);
    int c = side->c;
    for (int i = 0; i < MAX_ITEMS; i++) {
        char block[64];
        Item *item = &side->items[i];
        item->c = c;
        if (!vae_model_has_block(m, "%s.%d.", list, i))
            continue;
        snprintf(block, sizeof block, "%s.%d", list, i);
        const int res = vae_wan_width(m, block);
        const int resample = vae_model_width(m, "%s.%d.resample.1", list, i);
        if (res || resample)
            side->n = i + 1;
        item->resample = resample && !res;
        c = res ? res : resample ? resample : c;
        item->c = c;
        item->temporal = vae_model_width(m, "%s.%d.time_conv", list, i) > 0;
    }
}

static void
describe(VaeRecognise *r, const Wan21 *a)
{
    int down = 0, time = 0;
    const Side *side = r->info->has_decoder ? &a->dec : &a->enc;
    for (int i = 0; i < side->n; i++) {
        down += side->items[i].resample;
        time += side->items[i].temporal;
    }
    vae_describe_causal(r, "wan2.1", a->z, a->side << (down < 8 ? down : 8),
                        1 << (time < 8 ? time : 8));
    r->info->scale = a->side;
    r->info->out_channels = a->colours;
}

/* The side of the patches that the decoder's last layer makes. If weight and
 * bias differ, and for a number of channels that no known network has, the
 * usual side: the error then names these tensors. */
static int
read_patch(VaeRecognise *r)
{
    const int bias =
        vae_patch_side(vae_model_dim(r->model, 0, "decoder.head.2.bias"));
    const int weight =
        vae_patch_side(vae_model_dim(r->model, 0, "decoder.head.2.weight"));
    return bias > 1 && bias == weight ? bias : 1;
}

/* 4 if the weight of a layer has so many channels of pictures, else 3. */
static int
read_channels(const VaeModel *m, int dim, const char *layer)
{
    return vae_model_dim(m, dim, "%s.weight", layer) == 4 ? 4 : 3;
}

/* The encoder beside a decoder that makes larger frames takes small ones. */
static void
drop_encoder(VaeRecognise *r)
{
    r->info->reason = r->info->has_encoder
                          ? "middle.0.residual.0.gamma; its last layer makes "
                            "frames of a larger size than its encoder takes, "
                            "so it only decodes; to encode, use the usual "
                            "weights of wan2.1"
                          : "middle.0.residual.0.gamma; its last layer makes "
                            "frames of a larger size";
    r->info->has_encoder = false;
}

static bool
ignores(const VaeModelInfo *info, const char *name)
{
    return info->scale > 1 && strncmp(name, "encoder.", 8) == 0;
}

static bool
is_mine(const VaeModel *m)
{
    static const char *const marks[] = {"decoder.middle.0.residual.0.gamma",
                                        "encoder.middle.0.residual.0.gamma"};
    for (int i = 0; i < 2; i++)
        if (vae_model_find(m, marks[i]))
            return !vae_model_find(
                       m,
                       "decoder.upsamples.0.upsamples.0.residual.2.weight") &&
                   !vae_model_find(m, "encoder.downsamples.0.downsamples.0"
                                      ".residual.2.weight");
    return false;
}

/* Fails for channels of pictures that no known network has. */
static void
check_colours(const VaeRecognise *r, VaeError *error)
{
    const char *name = "decoder.head.2.weight";
    const int n = vae_model_dim(r->model, 0, "decoder.head.2.weight");
    if (n != vae_model_dim(r->model, 0, "decoder.head.2.bias") || n < 1 ||
        n == 3 || n == 4 || vae_patch_side(n) > 1)
        return;
    vae_mismatch(error, VAE_ERR_MODEL, name,
                 "tensor \"%s\" has {%d channels}, expected {=3 (RGB), 4 "
                 "(RGBA), or 12 (twice the size)}",
                 name, n);
}

static bool
recognise(VaeRecognise *r, VaeError *error)
{
    const VaeModel *m = r->model;
    Wan21 *a = r->data;
    r->info->reason = "middle.0.residual.0.gamma";
    if (!is_mine(m)) {
        *r->naming = 1;
        char prefix[64];
        do
            snprintf(prefix, sizeof prefix, "decoder.up_blocks.0.resnets.%d.",
                     *r->naming - 1);
        while (vae_model_has_prefix(m, prefix) && ++*r->naming < 16);
        r->info->names = "diffusers";
        r->info->reason = "mid_block.resnets.0.norm1.gamma";
        if (!is_mine(m) ||
            vae_model_has_prefix(m, "decoder.up_blocks.0.upsampler.") ||
            vae_model_has_prefix(m, "encoder.down_blocks.0.downsampler."))
            return false;
    }
    read_side(m, "encoder.downsamples", "encoder.conv1", &a->enc);
    read_side(m, "decoder.upsamples", "decoder.conv1", &a->dec);
    a->z = vae_read_latent_channels(m, "conv2", "conv1", error);
    a->side = read_patch(r);
    a->colours = read_channels(m, 0, "decoder.head.2");
    r->info->in_channels = read_channels(m, 1, "encoder.conv1");
    if (a->side > 1)
        drop_encoder(r);
    if (a->z)
        describe(r, a);
    check_colours(r, error);
    return true;
}

static void
preset(VaeRecognise *r)
{
    Wan21 *a = r->data;
    *a = (Wan21){.z = 16, .side = 1, .colours = 3, .enc.c = 96, .dec.c = 384};
    static const int width[4] = {96, 192, 384, 384};
    for (int s = 0; s < 4; s++) {
        for (int i = 0; i < 2; i++)
            a->enc.items[a->enc.n++] = (Item){.c = width[s]};
        if (s < 3)
            a->enc.items[a->enc.n++] =
                (Item){.resample = true, .temporal = s > 0, .c = width[s]};
        for (int i = 0; i < 3; i++)
            a->dec.items[a->dec.n++] = (Item){.c = width[3 - s]};
        if (s < 3)
            a->dec.items[a->dec.n++] = (Item){
                .resample = true, .temporal = s < 2, .c = width[3 - s] / 2};
    }
    describe(r, a);
}

/* patch_size: diffusers orders these pixels in another way. */
static const VaeFixed fixed[] = {{"patch_size", "null"}, {0}};

const VaeArch vae_arch_wan21 = {.name = "wan2.1",
                                .data_size = sizeof(Wan21),
                                .other_names = 5,
                                .rename = to_diffusers,
                                .ignores = ignores,
                                .recognise = recognise,
                                .fixed = fixed,
                                .preset = preset,
                                .decode = decode,
                                .encode = encode};

/*
 * toy.c: a small network with a history in both directions.
 */
#include "model.h"
#include "toy.h"

enum { C = 8 };

static const VaeTensor *
attend(VaeBuilder *b, const VaeTensor *x)
{
    const VaeTensor *y = vae_conv(b, "qkv", x, (VaeConv){.c = 3 * C});
    y = vae_attention_so_far(b, "attention", y);
    return vae_conv(b, "out", y, (VaeConv){.c = C, .add = x});
}

static void
decode(VaeBuilder *b)
{
    const VaeTensor *x = vae_input(b);
    const int drop = vae_is_first(b) ? 1 : 0;
    vae_enter(b, "decoder");
    x = attend(b, vae_conv(b, "in", x, (VaeConv){.c = C}));
    x = vae_conv(b, "up", x, (VaeConv){.c = 2 * C, .narrow = true});
    x = vae_rearrange(
        b, "unfold", x,
        (VaeMove){.kind = VAE_UNFOLD_NEAREST, .ft = 2, .fs = 2, .drop = drop});
    x = vae_conv(b, "last", x, (VaeConv){.c = 3, .k = 3, .kt = 2});
    vae_leave(b);
    vae_output(b, x);
}

static void
encode(VaeBuilder *b)
{
    const VaeTensor *x = vae_input(b);
    vae_enter(b, "encoder");
    x = vae_conv(b, "first", x, (VaeConv){.c = C, .k = 3, .kt = 2});
    x = vae_conv(b, "in", x,
                 (VaeConv){.c = C,
                           .k = 3,
                           .kt = 3,
                           .s = 2,
                           .st = 2,
                           .pad = VAE_PAD_RIGHT_BOTTOM});
    x = vae_conv(b, "last", attend(b, x), (VaeConv){.c = 4});
    vae_leave(b);
    vae_output(b, x);
}

static void
preset(VaeRecognise *r)
{
    r->info->latent_channels = 4;
    r->info->spatial = r->info->temporal = 2;
    r->info->decode = (VaeSteps){1, 1, 1, 2};
    r->info->encode = (VaeSteps){1, 1, 2, 1};
    r->info->fps_n = r->info->fps_d = 1;
    r->info->pixel_low = -1;
    r->info->pixel_high = 1;
}

const VaeArch toy_so_far = {
    .name = "so-far", .preset = preset, .decode = decode, .encode = encode};

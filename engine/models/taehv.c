/*
 * taehv.c: the tiny autoencoders of the TAEHV family.
 *
 * Frame-recursive: memory blocks read the previous frame, zeros for the first.
 * Pixels are 0..1; latents are normalized. The decoder makes all frames of the
 * first latent and returns only the last. The encoder takes whole groups of
 * frames from the first on.
 */
#include <stdio.h>

#include "blocks.h"
#include "taehv.h"

/* ------------------------------------------------------------------ */
/* Blocks. n: channels of x.                                           */

/* relu(conv(relu(conv(relu(conv(x, previous frame))))) + x). */
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

/* As memory_block(), of four convolutions: 1x1, grouped 3x3, and both again. */
static const VaeTensor *
wide_block(VaeBuilder *b, int index, const VaeTensor *x, int group_c)
{
    if (!x)
        return NULL;
    const int n = x->shape.c;
    VaeConv point = {.c = n, .two_d = true, .relu = true, .narrow = true};
    VaeConv grouped = {.c = n, .k = 3, .two_d = true, .relu = true};
    grouped.groups = group_c > 0 ? n / group_c : 1;
    grouped.narrow = true;
    vae_enter(b, "%d", index);
    const VaeTensor *y = vae_conv(b, "conv.0", x,
                                  (VaeConv){.c = n,
                                            .kt = 2,
                                            .taps = VAE_TAPS_NEWEST_FIRST,
                                            .relu = true,
                                            .narrow = true});
    y = vae_conv(b, "conv.2", y, grouped);
    y = vae_conv(b, "conv.4", y, point);
    grouped.narrow = false;
    grouped.add = x;
    y = vae_conv(b, "conv.6", y, grouped);
    vae_leave(b);
    return y;
}

/* conv(relu(conv(depthwise(x, previous frame)))) + x. */
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

/* A 1x1 conv from n to s * n channels, which become s frames; nearest
 * upsampling to 2x2; a 3x3 conv. The 1x1 conv commutes with the upsampling and
 * comes first.
 */
static const VaeTensor *
grow(VaeBuilder *b, int index, const VaeTensor *x, int s, VaeConv conv)
{
    if (!x)
        return NULL;
    char widen[16], unfold[16], name[16];
    snprintf(widen, sizeof widen, "%d.conv", index);
    snprintf(unfold, sizeof unfold, "%d", index);
    snprintf(name, sizeof name, "%d", index + 1);
    x = vae_conv(b, widen, x,
                 (VaeConv){.c = s * x->shape.c,
                           .two_d = true,
                           .no_bias = true,
                           .narrow = true});
    x = vae_rearrange(b, unfold, x,
                      (VaeMove){.kind = VAE_UNFOLD_NEAREST, .ft = s, .fs = 2});
    return vae_conv(b, name, x, conv);
}

static const VaeTensor *
decode_base(VaeBuilder *b, const VaeTae *a, const VaeTensor *x)
{
    x = vae_clamp(b, "0", x);
    x = vae_conv(
        b, "1", x,
        (VaeConv){.c = a->dec_c[0], .k = 3, .two_d = true, .relu = true});
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++)
            x = a->blocks == VAE_TAE_WIDE
                    ? wide_block(b, 3 + 6 * i + j, x, a->group_c[i])
                    : memory_block(b, 3 + 6 * i + j, x);
        x = grow(b, 7 + 6 * i, x, a->grow[i],
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
decode_super(VaeBuilder *b, const VaeTae *a, const VaeTensor *x)
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
    const VaeTae *a = vae_arch_data(b);
    const VaeTensor *x = vae_input(b);
    vae_enter(b, "decoder");
    x = a->blocks == VAE_TAE_SUPER ? decode_super(b, a, x)
                                   : decode_base(b, a, x);
    x = vae_conv(
        b, "22", x,
        (VaeConv){.c = 3 * a->patch * a->patch, .k = 3, .two_d = true});
    vae_leave(b);
    x = vae_patches(b, "shuffle", x, VAE_UNFOLD_CRQ, a->patch);
    vae_output(b, x);
}

static void
encode(VaeBuilder *b)
{
    const VaeTae *a = vae_arch_data(b);
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

#define TAE(symbol, text)                                                      \
    const VaeArch symbol = {.name = (text),                                    \
                            .data_size = sizeof(VaeTae),                       \
                            .recognise = vae_tae_recognise,                    \
                            .preset = vae_tae_preset,                          \
                            .decode = decode,                                  \
                            .encode = encode}

TAE(vae_arch_taew2_1, "taew2_1");
TAE(vae_arch_taew2_2, "taew2_2");
TAE(vae_arch_taew2_2_super, "taew2_2_super");
TAE(vae_arch_taehv, "taehv");
TAE(vae_arch_taehv1_5, "taehv1_5");
TAE(vae_arch_taehv1_5_super, "taehv1_5_super");
TAE(vae_arch_taecvx, "taecvx");
TAE(vae_arch_taeos1_3, "taeos1_3");
TAE(vae_arch_taeh3, "taeh3");
TAE(vae_arch_taeltx_2, "taeltx_2");
TAE(vae_arch_taeltx2_3, "taeltx2_3");
TAE(vae_arch_taeltx2_3_wide, "taeltx2_3_wide");
TAE(vae_arch_lighttaew2_1, "lighttaew2_1");
TAE(vae_arch_lighttaew2_2, "lighttaew2_2");

/*
 * ltx2_decoder.c: the decoder of LTX-2. All of its convolutions are centred in
 * time, so it has a delay (program/delay.h).
 */
#include <stdio.h>

#include "ltx2.h"

static const float eps = 1e-8f; /* of norms */

static VaeConv
centred(const VaeLtx2 *a, int c)
{
    return (VaeConv){.c = c,
                     .k = 3,
                     .kt = 3,
                     .centred = true,
                     .pad = a->reflect ? VAE_PAD_REFLECT : VAE_PAD_SAME};
}

/* A norm, with its gains and offsets in the decoders that have a timestep. */
static const VaeTensor *
norm_silu(VaeBuilder *b, const char *name, const VaeTensor *x, VaeModulation m)
{
    const VaeLtx2 *a = vae_arch_data(b);
    m.multiplier = VAE_LTX2_MULTIPLIER;
    m.timestep = a->timestep;
    return vae_pixel_norm(b, name, x, eps, VAE_SILU, a->timed ? &m : NULL);
}

/* The norm of a line holds what its convolution needs, so that the line serves
 * the sum as well. */
static const VaeTensor *
res_block(VaeBuilder *b, const VaeTensor *x, const char *embedder)
{
    const VaeLtx2 *a = vae_arch_data(b);
    VaeModulation m = {"scale_shift_table", embedder, .rows = 4};
    if (!x)
        return NULL;
    VaeConv conv = centred(a, x->shape.c);
    const VaeTensor *line = vae_line(b, "conv1.conv", x, 2);
    m.gain_row = 1;
    x = norm_silu(b, "norm1", line, m);
    conv.narrow = true;
    x = vae_conv(b, "conv1.conv", x, conv);
    m.offset_row = 2;
    m.gain_row = 3;
    x = norm_silu(b, "norm2", x, m);
    conv.narrow = false;
    conv.add = vae_delayed(b, line, 2);
    conv.keep = true;
    return vae_conv(b, "conv2.conv", x, conv);
}

/* (t, h, w, .) -> (ft * t, fs * h, fs * w, c). In time it makes one frame more
 * than the network has; that is the one before the first. The shortcut is
 * x, moved in the same way, for each c / N channels of the N that a pixel of x
 * becomes; before the move these are the first channels, then all again. */
static const VaeTensor *
up(VaeBuilder *b, const VaeTensor *x, const VaeLtx2Stage *stage, int c)
{
    const VaeLtx2 *a = vae_arch_data(b);
    const VaeTensor *line = NULL;
    VaeConv conv = centred(a, c * stage->ft * stage->fs * stage->fs);
    conv.narrow = !stage->shortcut;
    if (stage->shortcut)
        x = line = vae_line(b, "conv.conv", x, 2);
    x = vae_conv(b, "conv.conv", x, conv);
    if (stage->shortcut)
        x = vae_shortcut(b, "shortcut", x, vae_delayed(b, line, 1),
                         (VaeShortcutMove){.kind = VAE_SHORTCUT_TILE});
    return vae_rearrange(b, "shuffle", x,
                         (VaeMove){.kind = VAE_UNFOLD_CRQ,
                                   .ft = stage->ft,
                                   .fs = stage->fs,
                                   .wide = true});
}

void
vae_ltx2_decode(VaeBuilder *b)
{
    const VaeLtx2 *a = vae_arch_data(b);
    const VaeLtx2Stage *stage = a->dec.stages;
    const VaeTensor *x = vae_input(b);
    vae_enter(b, "decoder");
    x = vae_conv(b, "conv_in.conv", x, centred(a, stage->c));
    for (int i = 0; i < a->dec.n; i++, stage++) {
        char embedder[80];
        snprintf(embedder, sizeof embedder,
                 "decoder.up_blocks.%d.time_embedder.timestep_embedder", 2 * i);
        vae_enter(b, "up_blocks.%d", 2 * i);
        for (int j = 0; j < stage->n_res; j++) {
            vae_enter(b, "res_blocks.%d", j);
            x = res_block(b, x, embedder);
            vae_leave(b);
        }
        vae_leave(b);
        if (i == a->dec.n - 1)
            break;
        vae_enter(b, "up_blocks.%d", 2 * i + 1);
        x = up(b, x, stage, stage[1].c);
        vae_leave(b);
    }
    x = vae_line(b, "conv_out.conv", x, 2);
    x = norm_silu(b, "conv_norm_out", x,
                  (VaeModulation){VAE_LTX2_LAST_TABLE, VAE_LTX2_LAST_EMBEDDER,
                                  .rows = 2, .gain_row = 1});
    VaeConv out = centred(a, 3 * a->patch * a->patch);
    out.narrow = true;
    x = vae_conv(b, "conv_out.conv", x, out);
    vae_leave(b);
    vae_output(b, vae_patches(b, "unpatchify", x, VAE_UNFOLD_CQR, a->patch));
}

/*
 * ltx2.c: the VAE of LTX-2.0, LTX-2.3 and LTX-2.5 (conv): 128 latent channels,
 * 32x32 pixels (4x4 of them folded into channels) and 8 frames per latent.
 *
 * The encoder is causal: its convolutions begin with copies of their own first
 * frame. All norms are over the channels of a pixel, without gains. The
 * decoder, in ltx2_decoder.c, is not causal.
 */
#include "blocks.h"
#include "ltx2.h"

static const VaeResidual residual = {"norm1", "conv1.conv", "norm2",
                                     "conv2.conv", NULL};

/* (t, h, w, .) -> (t / ft, h / fs, w / fs, c), with the mean over neighbouring
 * channels of the folded input as shortcut. In time the first step has a second
 * copy of its frame in front, so that it gives one frame. */
static const VaeTensor *
down(VaeBuilder *b, const VaeTensor *x, const VaeLtx2Stage *stage, int c)
{
    const int ft = stage->ft, fs = stage->fs;
    const VaeTensor *y = vae_conv(
        b, "conv.conv", x,
        (VaeConv){.c = c / (ft * fs * fs), .k = 3, .kt = 3, .lead = ft - 1});
    y = vae_rearrange(
        b, "fold", y,
        (VaeMove){.kind = VAE_FOLD_CRQ, .ft = ft, .fs = fs, .wide = true});
    return vae_shortcut(
        b, "shortcut", y, x,
        (VaeShortcutMove){
            .kind = VAE_SHORTCUT_AVERAGE, .ft = ft, .fs = fs, .repeat = true});
}

static const VaeTensor *
residuals(VaeBuilder *b, const VaeTensor *x, const VaeLtx2Stage *stage)
{
    for (int j = 0; j < stage->n_res; j++) {
        vae_enter(b, "res_blocks.%d", j);
        x = vae_block_residual(b, &residual, x, stage->c, VAE_PIXEL_NORM,
                               false);
        vae_leave(b);
    }
    return x;
}

void
vae_ltx2_encode(VaeBuilder *b)
{
    const VaeLtx2 *a = vae_arch_data(b);
    const VaeLtx2Stage *stage = a->enc.stages;
    vae_set_head(b, VAE_HEAD_REPEAT);
    const VaeTensor *x = vae_input(b);
    x = vae_rearrange(b, "patchify", x,
                      (VaeMove){.kind = VAE_FOLD_CQR, .fs = a->patch});
    vae_enter(b, "encoder");
    x = vae_conv(b, "conv_in.conv", x,
                 (VaeConv){.c = stage->c, .k = 3, .kt = 3});
    for (int i = 0; i < a->enc.n; i++, stage++) {
        vae_enter(b, "down_blocks.%d", 2 * i);
        x = residuals(b, x, stage);
        vae_leave(b);
        if (i == a->enc.n - 1)
            break;
        vae_enter(b, "down_blocks.%d", 2 * i + 1);
        x = down(b, x, stage, stage[1].c);
        vae_leave(b);
    }
    x = vae_block_norm_silu(b, "conv_norm_out", x, VAE_PIXEL_NORM);
    x = vae_conv(b, "conv_out.conv", x,
                 (VaeConv){.c = a->head, .k = 3, .kt = 3});
    vae_leave(b);
    vae_output(b, x);
}

#define LTX2(symbol, text)                                                     \
    const VaeArch symbol = {.name = (text),                                    \
                            .data_size = sizeof(VaeLtx2),                      \
                            .other_names = 1,                                  \
                            .rename = vae_ltx2_rename,                         \
                            .ignores = vae_ltx2_ignores,                       \
                            .mean = VAE_LTX2_MEAN,                             \
                            .std = VAE_LTX2_STD,                               \
                            .recognise = vae_ltx2_recognise,                   \
                            .settings = vae_ltx2_settings,                     \
                            .preset = vae_ltx2_preset,                         \
                            .decode = vae_ltx2_decode,                         \
                            .encode = vae_ltx2_encode}

LTX2(vae_arch_ltx2_0, "ltx2.0"); /* any file: recognise() names its version */
LTX2(vae_arch_ltx2_3, "ltx2.3"); /* for presets */

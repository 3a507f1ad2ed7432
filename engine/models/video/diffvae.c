/*
 * diffvae.c: the decoder of LTX-2.5 (DiffVAE): linear layers and attention over
 * windows. Its last stage turns noise of the size of the video into pictures,
 * in one step, beside the context that the other stages make of the latents.
 *
 * A decoder that looks ahead, see program/delay.h.
 */
#include "diffvae.h"

static const float eps = 1e-6f;

/* A linear layer to c channels. */
static VaeConv
linear(int c)
{
    return (VaeConv){.c = c, .linear = true};
}

/* The hidden numbers of a pixel are 12 times its channels, so few pixels are
 * computed at once. */
enum { PIXELS = 4096 };

/* x + w_down(silu(w_gate y) * (w_up y)), y = norm2(x). m: modulates the norm,
 * or NULL. */
static const VaeTensor *
mlp(VaeBuilder *b, const VaeTensor *x, const VaeModulation *m)
{
    const VaeDiff *a = vae_arch_data(b);
    if (!x)
        return NULL;
    const int c = x->shape.c;
    VaeConv up = linear(8 * c), down = linear(c);
    up.narrow = true;
    up.stack[0] = "mlp.w_gate";
    up.stack[1] = "mlp.w_up";
    up.no_bias = down.no_bias = true;
    down.gate = m && a->gated ? "gate_mlp" : NULL;
    down.add = x;
    x = vae_gain_norm(b, "norm2", x, eps, m);
    x = vae_conv(b, "mlp", x, up);
    x = vae_glu(b, "mlp.glu", x);
    return vae_conv(b, "mlp.w_down", x, down);
}

static VaeModulation
modulation(const VaeDiff *a, int row)
{
    return (VaeModulation){.table = "scale_shift_table",
                           .embedder = "decoder.t_embedder.mlp",
                           .proj = "decoder.shared_adaln.proj",
                           .rows = 7,
                           .gain_row = row,
                           .offset_row = row + 1,
                           .timestep = a->multiplier,
                           .width = a->embedding};
}

static const VaeTensor *
plain_mlp(VaeBuilder *b, const VaeTensor *x)
{
    return mlp(b, x, NULL);
}

static const VaeTensor *
modulated_mlp(VaeBuilder *b, const VaeTensor *x)
{
    const VaeModulation m = modulation(vae_arch_data(b), 3);
    return mlp(b, x, &m);
}

/* The queries, keys and values of norm1(x). m: modulates the norm, or NULL. */
static const VaeTensor *
qkv(VaeBuilder *b, const VaeTensor *x, const VaeModulation *m)
{
    if (!x)
        return NULL;
    VaeConv all = linear(3 * x->shape.c);
    all.narrow = true;
    x = vae_gain_norm(b, "norm1", x, eps, m);
    return vae_conv(b, "attn.qkv", x, all);
}

static const VaeTensor *
plain_qkv(VaeBuilder *b, const VaeTensor *x)
{
    return qkv(b, x, NULL);
}

static const VaeTensor *
modulated_qkv(VaeBuilder *b, const VaeTensor *x)
{
    const VaeModulation m = modulation(vae_arch_data(b), 0);
    return qkv(b, x, &m);
}

/* x + proj(attention(norm1(x))), then the mlp. modulated: both norms are. */
static const VaeTensor *
block(VaeBuilder *b, const VaeTensor *x, VaeAttentionWindow window,
      bool modulated)
{
    const VaeDiff *a = vae_arch_data(b);
    const int d = window.kt / 2;
    if (!x)
        return NULL;
    const VaeTensor *line = vae_past(b, "attn", x, 3 * d);
    VaeConv proj = linear(x->shape.c);
    proj.gate = modulated && a->gated ? "gate_msa" : NULL;
    x = vae_in_groups(b, line, PIXELS, modulated ? modulated_qkv : plain_qkv);
    x = vae_attention_window(b, "attn", x, window);
    proj.add = vae_earlier(b, line, d, d);
    proj.keep = true;
    x = vae_conv(b, "attn.proj", x, proj);
    return vae_in_groups(b, x, PIXELS, modulated ? modulated_mlp : plain_mlp);
}

/* The stages that make the context of the latents. */
static const VaeTensor *
make_context(VaeBuilder *b, const VaeTensor *x)
{
    const VaeDiff *a = vae_arch_data(b);
    for (int i = 0; i < VAE_DIFF_STAGES; i++) {
        const VaeDiffStage *stage = &a->stages[i];
        for (int j = 0; j < stage->n; j++) {
            vae_enter(b, "det_stages.%d.%d", i, j);
            x = block(b, x, stage->window, false);
            vae_leave(b);
        }
        vae_enter(b, "upsamples.%d", i);
        VaeConv proj = linear(stage[1].c * stage->ft * stage->fs * stage->fs);
        proj.narrow = true;
        x = vae_conv(b, "proj", x, proj);
        x = vae_rearrange(b, "shuffle", x,
                          (VaeMove){.kind = VAE_UNFOLD_CRQ,
                                    .ft = stage->ft,
                                    .fs = stage->fs,
                                    .wide = i + 1 < VAE_DIFF_STAGES});
        vae_leave(b);
    }
    return x;
}

/* The context of block i of the last stage, with `lead` late frames. */
static const VaeTensor *
context_of(VaeBuilder *b, const VaeTensor *context, const VaeTensor *line,
           int i, int lead)
{
    const VaeDiff *a = vae_arch_data(b);
    const int d = a->stages[VAE_DIFF_STAGES].window.kt / 2;
    return i && line ? vae_earlier(b, line, i * d, lead) : context;
}

void
vae_diff_decode(VaeBuilder *b)
{
    const VaeDiff *a = vae_arch_data(b);
    const VaeDiffStage *last = &a->stages[VAE_DIFF_STAGES];
    const int d = last->window.kt / 2;
    const VaeTensor *x = vae_input(b), *context, *line = NULL;
    x = vae_repeat_last(b, "latents", x, a->stages[0].window.kt / 2 * 2);
    vae_enter(b, "decoder");
    x = vae_conv(b, "conv_in", x, linear(a->stages[0].c));
    context = make_context(b, x);
    if (last->n > 1)
        line = vae_past(b, "context", context, last->n * d);
    x = vae_noise(b, "x_t", context, a->patch);
    x = vae_conv(b, "conv_in_x_t", x, linear(last->c));
    for (int i = 0; i < last->n && x; i++) {
        VaeConv proj = linear(last->c);
        proj.gate = a->gated ? "gate_ctx" : NULL;
        proj.add = x;
        vae_enter(b, "diff_blocks.%d", i);
        x = vae_conv(b, "context_proj",
                     context_of(b, context, line, i, x->lead), proj);
        x = block(b, x, last->window, true);
        vae_leave(b);
    }
    x = vae_gain_norm(b, "norm_out", x, eps, NULL);
    VaeConv out = linear(3 * a->patch * a->patch);
    out.narrow = true;
    x = vae_conv(b, "conv_out", x, out);
    vae_leave(b);
    vae_output(b, vae_patches(b, "unpatchify", x, VAE_UNFOLD_CQR, a->patch));
}

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

/* x + proj(attention(norm1(x))), then + w_down(silu(w_gate y) * (w_up y)) with
 * y = norm2 of that. m: modulates both norms, or NULL. */
static const VaeTensor *
block(VaeBuilder *b, const VaeTensor *x, VaeAttentionWindow window,
      const VaeModulation *m)
{
    const VaeDiff *a = vae_arch_data(b);
    const int d = window.kt / 2;
    if (!x)
        return NULL;
    const int c = x->shape.c;
    const bool gated = m && a->gated;
    const VaeTensor *line = vae_past(b, "attn", x, 3 * d);
    VaeConv qkv = linear(3 * c), proj = linear(c), mlp = linear(8 * c),
            down = linear(c);
    qkv.narrow = mlp.narrow = true;
    mlp.stack[0] = "mlp.w_gate";
    mlp.stack[1] = "mlp.w_up";
    mlp.no_bias = down.no_bias = true;
    proj.gate = gated ? "gate_msa" : NULL;
    down.gate = gated ? "gate_mlp" : NULL;
    VaeModulation second = m ? *m : (VaeModulation){0};
    second.gain_row += 3;
    second.offset_row += 3;
    x = vae_gain_norm(b, "norm1", line, eps, m);
    x = vae_conv(b, "attn.qkv", x, qkv);
    x = vae_attention_window(b, "attn", x, window);
    proj.add = vae_earlier(b, line, d, d);
    proj.keep = true;
    down.add = x = vae_conv(b, "attn.proj", x, proj);
    x = vae_gain_norm(b, "norm2", x, eps, m ? &second : NULL);
    x = vae_conv(b, "mlp", x, mlp);
    x = vae_glu(b, "mlp.glu", x);
    return vae_conv(b, "mlp.w_down", x, down);
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
            x = block(b, x, stage->window, NULL);
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
    const VaeModulation m = {.table = "scale_shift_table",
                             .embedder = "decoder.t_embedder.mlp",
                             .proj = "decoder.shared_adaln.proj",
                             .rows = 7,
                             .offset_row = 1,
                             .timestep = a->multiplier,
                             .width = a->embedding};
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
        x = block(b, x, last->window, &m);
        vae_leave(b);
    }
    x = vae_gain_norm(b, "norm_out", x, eps, NULL);
    VaeConv out = linear(3 * a->patch * a->patch);
    out.narrow = true;
    x = vae_conv(b, "conv_out", x, out);
    vae_leave(b);
    x = vae_rearrange(
        b, "unpatchify", x,
        (VaeMove){.kind = VAE_UNFOLD_CQR, .fs = a->patch, .wide = true});
    vae_output(b, x);
}

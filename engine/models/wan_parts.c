/*
 * wan_parts.c: see wan_parts.h.
 */
#include <stdio.h>
#include <string.h>

#include "wan_parts.h"

static const VaeAttentionBlock attention = {
    .norm = "norm", .qkv = "to_qkv", .out = "proj"};

VaeConv
vae_wan_conv(int c, bool flat)
{
    return (VaeConv){.c = c, .k = 3, .kt = flat ? 1 : 3, .two_d = flat};
}

const VaeTensor *
vae_wan_residual(VaeBuilder *b, const char *name, int index, const VaeTensor *x,
                 VaeWanBlock block)
{
    const VaeResidual names = {.norm1 = "residual.0",
                               .conv1 = "residual.2",
                               .norm2 = "residual.3",
                               .conv2 = "residual.6",
                               .shortcut = "shortcut",
                               .two_d = block.flat};
    vae_enter(b, "%s.%d", name, index);
    x = vae_block_residual(b, &names, x, block.c, 0, block.keep);
    vae_leave(b);
    return x;
}

const VaeTensor *
vae_wan_middle(VaeBuilder *b, const VaeTensor *x, bool flat)
{
    if (!x)
        return NULL;
    const VaeWanBlock block = {.c = x->shape.c, .flat = flat};
    x = vae_wan_residual(b, "middle", 0, x, block);
    vae_enter(b, "middle.1");
    x = vae_block_attention(b, &attention, x, 0);
    vae_leave(b);
    return vae_wan_residual(b, "middle", 2, x, block);
}

const VaeTensor *
vae_wan_head(VaeBuilder *b, const VaeTensor *x, int c, bool flat)
{
    x = vae_block_norm_silu(b, "head.0", x, 0);
    return vae_conv(b, "head.2", x, vae_wan_conv(c, flat));
}

const VaeTensor *
vae_wan_up(VaeBuilder *b, const VaeTensor *x, int c, bool temporal)
{
    int ft = 1;
    if (temporal && vae_is_first(b)) {
        vae_carry_zero(b, "time_conv", x, 2);
    } else if (temporal && x) {
        ft = 2;
        x = vae_conv(b, "time_conv", x,
                     (VaeConv){.c = 2 * x->shape.c, .k = 1, .kt = 3});
    }
    x = vae_rearrange(b, "resample.0", x,
                      (VaeMove){.kind = VAE_UNFOLD_NEAREST, .ft = ft, .fs = 2});
    return vae_conv(b, "resample.1", x,
                    (VaeConv){.c = c, .k = 3, .two_d = true});
}

const VaeTensor *
vae_wan_down(VaeBuilder *b, const VaeTensor *x, int c, bool temporal)
{
    x = vae_conv(b, "resample.1", x,
                 (VaeConv){.c = c,
                           .k = 3,
                           .s = 2,
                           .two_d = true,
                           .pad = VAE_PAD_RIGHT_BOTTOM});
    if (!temporal)
        return x;
    if (vae_is_first(b)) {
        vae_carry_keep(b, "time_conv", x, 1);
        return x;
    }
    return vae_conv(b, "time_conv", x,
                    (VaeConv){.c = c, .k = 1, .kt = 3, .st = 2});
}

/* ------------------------------------------------------------------ */
/* Names.                                                              */

bool
vae_wan_swap(const char **rest, const char *from, const char *to, char *out)
{
    const size_t n = strlen(from);
    if (strncmp(*rest, from, n) != 0)
        return false;
    strcat(out, to);
    *rest += n;
    return true;
}

void
vae_wan_rename_rest(const char *rest, char *out)
{
    static const char *const pairs[][2] = {
        {"conv1.", "conv_in."},
        {"head.0.", "norm_out."},
        {"head.2.", "conv_out."},
        {"middle.0.", "mid_block.resnets.0."},
        {"middle.2.", "mid_block.resnets.1."},
        {"middle.1.", "mid_block.attentions.0."},
        {"residual.0.", "norm1."},
        {"residual.2.", "conv1."},
        {"residual.3.", "norm2."},
        {"residual.6.", "conv2."},
        {"shortcut.", "conv_shortcut."}};
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++)
        vae_wan_swap(&rest, pairs[k][0], pairs[k][1], out);
    strcat(out, rest);
}

bool
vae_wan_rename_top(const char *name, char *out)
{
    const char *rest = name;
    out[0] = '\0';
    return (vae_wan_swap(&rest, "conv1.", "quant_conv.", out) ||
            vae_wan_swap(&rest, "conv2.", "post_quant_conv.", out)) &&
           strcat(out, rest);
}

int
vae_wan_width(const VaeModel *m, const char *block)
{
    const int c = vae_model_dim(m, 0, "%s.residual.3.gamma", block);
    return vae_model_likelier(
        m, vae_model_likelier(m, c, vae_model_width(m, "%s.residual.6", block)),
        vae_model_width(m, "%s.residual.2", block));
}

/*
 * blocks.c: see blocks.h.
 */
#include "blocks.h"

static const VaeTensor *
norm(VaeBuilder *b, const char *name, const VaeTensor *x, int groups, bool silu,
     bool image)
{
    if (groups == VAE_PIXEL_NORM)
        return vae_pixel_norm(b, name, x, 1e-8f, silu ? VAE_SILU : VAE_LINEAR,
                              NULL);
    return groups ? vae_group_norm(b, name, x,
                                   (VaeGroups){.n = groups, .silu = silu})
                  : vae_rms(b, name, x, silu, image);
}

const VaeTensor *
vae_block_norm_silu(VaeBuilder *b, const char *name, const VaeTensor *x,
                    int groups)
{
    return norm(b, name, x, groups, true, false);
}

const VaeTensor *
vae_block_residual(VaeBuilder *b, const VaeResidual *names, const VaeTensor *x,
                   int c, int groups, bool keep)
{
    if (!x)
        return NULL;
    const bool flat = names->two_d;
    const VaeTensor *skip = x;
    const VaeTensor *y = norm(b, names->norm1, x, groups, true, false);
    if (x->shape.c != c)
        skip =
            vae_conv(b, names->shortcut, x, (VaeConv){.c = c, .two_d = flat});
    VaeConv conv = {
        .c = c, .k = 3, .kt = flat ? 1 : 3, .two_d = flat, .pad = names->pad};
    conv.narrow = true;
    y = vae_conv(b, names->conv1, y, conv);
    y = norm(b, names->norm2, y, groups, true, false);
    conv.narrow = false;
    conv.add = skip;
    conv.keep = keep && skip == x;
    return vae_conv(b, names->conv2, y, conv);
}

const VaeTensor *
vae_block_attention(VaeBuilder *b, const VaeAttentionBlock *names,
                    const VaeTensor *x, int groups)
{
    if (!x)
        return NULL;
    const int c = x->shape.c;
    const bool flat = !names->linear && !names->video;
    VaeConv qkv = {.c = 3 * c, .linear = names->linear, .two_d = flat};
    if (!names->qkv)
        for (int i = 0; i < 3; i++)
            qkv.stack[i] = names->stack[i];
    const VaeTensor *y = norm(b, names->norm, x, groups, false, !names->video);
    y = vae_conv(b, names->qkv ? names->qkv : "qkv", y, qkv);
    y = names->video ? vae_attention_so_far(b, "attention", y)
                     : vae_attention(b, "attention", y);
    return vae_conv(
        b, names->out, y,
        (VaeConv){.c = c, .linear = names->linear, .two_d = flat, .add = x});
}

const VaeTensor *
vae_block_resnet(VaeBuilder *b, const VaeResidual *names, int i,
                 const VaeTensor *x, int c, int groups)
{
    vae_enter(b, "resnets.%d", i);
    x = vae_block_residual(b, names, x, c, groups, false);
    vae_leave(b);
    return x;
}

const VaeTensor *
vae_block_middle(VaeBuilder *b, const VaeResidual *names,
                 const VaeAttentionBlock *attention, const VaeTensor *x,
                 int groups)
{
    if (!x)
        return NULL;
    const int c = x->shape.c;
    vae_enter(b, "mid_block");
    x = vae_block_resnet(b, names, 0, x, c, groups);
    vae_enter(b, "attentions.0");
    x = vae_block_attention(b, attention, x, groups);
    vae_leave(b);
    x = vae_block_resnet(b, names, 1, x, c, groups);
    vae_leave(b);
    return x;
}

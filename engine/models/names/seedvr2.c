/*
 * seedvr2.c: recognises SeedVR2's weights by names and shapes.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "arch.h"
#include "seedvr2.h"

const VaeStated vae_seedvr2_stated[] = {
    {"norm_num_groups", 32, 1, 1024, offsetof(VaeSeedVr2, groups),
     .label = "groups"},
    {"scaling_factor", 0, 1e-6, 1e6, offsetof(VaeSeedVr2, scale), .real = true},
    {0}};

/* Early files call the attention's layers query, key, value, proj_attn. */
bool
vae_seedvr2_rename(int naming, const char *name, char *out)
{
    static const char *const pairs[][2] = {{".to_q.", ".query."},
                                           {".to_k.", ".key."},
                                           {".to_v.", ".value."},
                                           {".to_out.0.", ".proj_attn."}};
    if (strlen(name) > 200)
        return false;
    strcpy(out, name);
    for (int i = 0; i < 4; i++) {
        const char *at = strstr(name, pairs[i][0]);
        if (at)
            sprintf(out + (at - name), "%s%s", pairs[i][1],
                    at + strlen(pairs[i][0]));
    }
    return true;
}

static int
res_width(const VaeModel *m, const char *list, int i, int j)
{
    int c = vae_model_width(m, "%s.%d.resnets.%d.norm2", list, i, j);
    if (!c)
        c = vae_model_width(m, "%s.%d.resnets.%d.conv2", list, i, j);
    return c ? c : vae_model_width(m, "%s.%d.resnets.%d.conv1", list, i, j);
}

static void
read_side(const VaeModel *m, const char *list, bool up_side,
          VaeSeedVr2Side *side)
{
    for (int i = 0; i < VAE_SEEDVR2_BLOCKS; i++) {
        VaeSeedVr2Block *block = &side->blocks[i];
        for (int j = 0; j < 16; j++) {
            const int c =
                vae_model_has_block(m, "%s.%d.resnets.%d.", list, i, j)
                    ? res_width(m, list, i, j)
                    : 0;
            if (c) {
                block->n_res = j + 1;
                block->c = c;
            }
        }
        if (!block->n_res)
            return;
        side->n = i + 1;
        const char *sampler =
            up_side ? "upsamplers.0.upscale_conv" : "downsamplers.0.conv";
        const int c = vae_model_width(m, "%s.%d.%s", list, i, sampler);
        block->sampler = c > 0;
        block->temporal = up_side ? c == 8 * block->c
                                  : vae_model_dim(m, 2, "%s.%d.%s.weight", list,
                                                  i, sampler) == 3;
    }
}

static void
describe(VaeRecognise *r, const VaeSeedVr2 *a)
{
    int space = 0, time = 0;
    const VaeSeedVr2Side *side = r->info->has_decoder ? &a->dec : &a->enc;
    for (int i = 0; i < side->n; i++) {
        space += side->blocks[i].sampler;
        time += side->blocks[i].temporal;
    }
    vae_describe_causal(r, "seedvr2", a->z, 1 << space, 1 << time);
    vae_describe_factor(r, a->scale, 0);
}

static bool
is_mine(const VaeModel *m)
{
    return (vae_model_find(m, "decoder.mid_block.resnets.0.norm1.weight") &&
            vae_model_find(
                m, "decoder.up_blocks.0.upsamplers.0.upscale_conv.weight")) ||
           (vae_model_find(m, "encoder.mid_block.resnets.0.norm1.weight") &&
            vae_model_dim(m, 4, "encoder.conv_in.weight") == 3);
}

bool
vae_seedvr2_recognise(VaeRecognise *r, VaeError *error)
{
    const VaeModel *m = r->model;
    VaeSeedVr2 *a = r->data;
    if (!is_mine(m))
        return false;
    *r->naming =
        vae_model_has_prefix(m, "decoder.mid_block.attentions.0.query.") ||
        vae_model_has_prefix(m, "encoder.mid_block.attentions.0.query.");
    if (*r->naming)
        r->info->names = "official, old attention names";
    r->info->reason = "up_blocks.0.upsamplers.0.upscale_conv";
    read_side(m, "encoder.down_blocks", false, &a->enc);
    read_side(m, "decoder.up_blocks", true, &a->dec);
    a->enc.c = vae_model_width(m, "encoder.conv_in");
    a->dec.c = vae_model_width(m, "decoder.conv_in");
    a->z = vae_read_latent_channels(m, "decoder.conv_in", "encoder.conv_out",
                                    error);
    if (a->z)
        describe(r, a);
    return true;
}

void
vae_seedvr2_preset(VaeRecognise *r)
{
    static const int width[4] = {128, 256, 512, 512};
    VaeSeedVr2 *a = r->data;
    *a = (VaeSeedVr2){
        .z = 16, .enc.c = 128, .dec.c = 512, .enc.n = 4, .dec.n = 4};
    for (int i = 0; i < 4; i++) {
        a->enc.blocks[i] = (VaeSeedVr2Block){.c = width[i],
                                             .n_res = 2,
                                             .sampler = i < 3,
                                             .temporal = i == 1 || i == 2};
        a->dec.blocks[i] = (VaeSeedVr2Block){
            .c = width[3 - i], .n_res = 3, .sampler = i < 3, .temporal = i < 2};
    }
    describe(r, a);
}

/*
 * ldm.c: see ldm.h.
 */
#include "ldm.h"

#include <stdio.h>
#include <string.h>

typedef struct Pair {
    const char *from, *to;
} Pair;

static const Pair old_names[] = {{".to_q.", ".query."},
                                 {".to_k.", ".key."},
                                 {".to_v.", ".value."},
                                 {".to_out.0.", ".proj_attn."},
                                 {NULL, NULL}};
static const Pair ldm_names[] = {{".mid_block.resnets.0.", ".mid.block_1."},
                                 {".mid_block.resnets.1.", ".mid.block_2."},
                                 {".mid_block.attentions.0.", ".mid.attn_1."},
                                 {".group_norm.", ".norm."},
                                 {".to_q.", ".q."},
                                 {".to_k.", ".k."},
                                 {".to_v.", ".v."},
                                 {".to_out.0.", ".proj_out."},
                                 {".conv_norm_out.", ".norm_out."},
                                 {".conv_shortcut.", ".nin_shortcut."},
                                 {".resnets.", ".block."},
                                 {".downsamplers.0.", ".downsample."},
                                 {".upsamplers.0.", ".upsample."},
                                 {".down_blocks.", ".down."},
                                 {NULL, NULL}};

/* Replaces `from` in the name, if it is there. */
static void
replace(char *name, const char *from, const char *to)
{
    char rest[256];
    char *at = strstr(name, from);
    if (!at)
        return;
    strcpy(rest, at + strlen(from));
    sprintf(at, "%s%s", to, rest);
}

void
vae_rename_old(char *name)
{
    for (const Pair *p = old_names; p->from; p++)
        replace(name, p->from, p->to);
}

void
vae_rename_ldm(char *name, int levels)
{
    static const char block[] = ".up_blocks.";
    for (const Pair *p = ldm_names; p->from; p++)
        replace(name, p->from, p->to);
    const char *at = strstr(name, block);
    if (!at)
        return;
    const int i = at[strlen(block)] - '0';
    char from[32], to[32];
    snprintf(from, sizeof from, "%s%d.", block, i);
    snprintf(to, sizeof to, ".up.%d.", levels - 1 - i);
    replace(name, from, to);
}

bool
vae_ldm_is_linear(const VaeModel *m)
{
    static const char *const to_q[] = {
        "decoder.mid_block.attentions.0.to_q.weight",
        "encoder.mid_block.attentions.0.to_q.weight"};
    for (int i = 0; i < 2; i++) {
        const VaeTensorInfo *q = vae_model_find(m, to_q[i]);
        if (q)
            return q->n_dims == 2;
    }
    return true;
}

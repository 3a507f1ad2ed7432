/*
 * diffvae.h: the configuration of LTX-2.5's decoder, read from its weights and
 * what the file states.
 */
#ifndef VAE_DIFFVAE_H
#define VAE_DIFFVAE_H

#include "ltx2.h"

enum { VAE_DIFF_STAGES = 4 }; /* before the last one */

/* Blocks, then an upsampling, which the last stage lacks. */
typedef struct VaeDiffStage {
    int c, n;
    VaeAttentionWindow window;
    int ft, fs; /* the factors of the upsampling in time and space */
} VaeDiffStage;

typedef struct VaeDiff {
    VaeLtx2 ltx2; /* the encoder of the file */
    int z, patch, embedding;
    bool gated; /* the last stage has gates, to be multiplied into weights */
    double multiplier; /* of the timestep, which is 1 */
    VaeDiffStage stages[VAE_DIFF_STAGES + 1];
} VaeDiff;

void vae_diff_decode(VaeBuilder *b);

#endif

/*
 * taehv.h: the configuration of a tiny autoencoder, read from its weights.
 */
#ifndef VAE_TAEHV_H
#define VAE_TAEHV_H

#include "arch.h"

typedef enum VaeTaeBlocks {
    VAE_TAE_BASE,
    VAE_TAE_SUPER, /* depthwise 7x7 */
    VAE_TAE_WIDE   /* 1x1 and grouped 3x3 */
} VaeTaeBlocks;

typedef struct VaeTae {
    int z, patch;
    VaeTaeBlocks blocks; /* of the decoder */
    int enc_c, dec_c[4];
    int group_c[3];       /* channels of a group of the wide blocks */
    int pool[3], grow[3]; /* time factors */
} VaeTae;

/* VaeArch.recognise and .preset of all variants. */
bool vae_tae_recognise(VaeRecognise *r, VaeError *error);
void vae_tae_preset(VaeRecognise *r);

#endif

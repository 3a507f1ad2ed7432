/*
 * taehv.h: the configuration of a tiny autoencoder, read from its weights.
 */
#ifndef VAE_TAEHV_H
#define VAE_TAEHV_H

#include "arch.h"

typedef struct VaeTae {
    int z, patch;
    bool super;
    int enc_c, dec_c[4];
    int pool[3], grow[3]; /* time factors */
} VaeTae;

/* VaeArch.recognise and .preset of all variants. */
bool vae_tae_recognise(VaeRecognise *r, VaeError *error);
void vae_tae_preset(VaeRecognise *r);

#endif

/*
 * seedvr2.h: the configuration of a SeedVR2 network, read from its weights.
 */
#ifndef VAE_SEEDVR2_H
#define VAE_SEEDVR2_H

#include "arch.h"

#define VAE_SEEDVR2_BLOCKS 6

/* One of encoder.down_blocks or decoder.up_blocks. */
typedef struct VaeSeedVr2Block {
    int c, n_res;
    bool sampler, temporal;
} VaeSeedVr2Block;

typedef struct VaeSeedVr2Side {
    int c; /* channels after conv_in */
    int n;
    VaeSeedVr2Block blocks[VAE_SEEDVR2_BLOCKS];
} VaeSeedVr2Side;

typedef struct VaeSeedVr2 {
    int z, groups;
    double scale; /* normalized = raw * scale; 0: that of the table of spaces */
    VaeSeedVr2Side enc, dec;
} VaeSeedVr2;

/* VaeArch.rename, .recognise, .stated and .preset. */
bool vae_seedvr2_rename(int naming, const char *name, char *out);
bool vae_seedvr2_recognise(VaeRecognise *r, VaeError *error);
extern const VaeStated vae_seedvr2_stated[];
void vae_seedvr2_preset(VaeRecognise *r);

#endif

/*
 * ltx2.h: the configuration of an LTX-2 network, read from its weights and what
 * the file states.
 */
#ifndef VAE_LTX2_H
#define VAE_LTX2_H

#include "arch.h"

#define VAE_LTX2_STAGES 8
#define VAE_LTX2_MEAN "per_channel_statistics.mean-of-means"
#define VAE_LTX2_STD "per_channel_statistics.std-of-means"
#define VAE_LTX2_MULTIPLIER "decoder.timestep_scale_multiplier"
#define VAE_LTX2_LAST_TABLE "last_scale_shift_table"
#define VAE_LTX2_LAST_EMBEDDER "decoder.last_time_embedder.timestep_embedder"

/* Residual blocks, and the resampler after them; the last stage has none. */
typedef struct VaeLtx2Stage {
    int c, n_res;
    int ft, fs;    /* the resampler's factors in time and space */
    bool shortcut; /* of an upsampler; a downsampler always has one */
} VaeLtx2Stage;

typedef struct VaeLtx2Side {
    int n;
    VaeLtx2Stage stages[VAE_LTX2_STAGES]; /* as they run */
} VaeLtx2Side;

typedef struct VaeLtx2 {
    int z, patch;
    int head;     /* channels of the encoder's result */
    bool reflect; /* padding in space of the decoder; else zeros */
    bool timed;   /* the decoder's norms depend on a timestep */
    double timestep;
    VaeLtx2Side enc, dec;
    char reason[300]; /* VaeModelInfo.reason */
} VaeLtx2;

/* Members of VaeArch. */
bool vae_ltx2_rename(int naming, const char *name, char *out);
bool vae_ltx2_ignores(const VaeModelInfo *info, const char *name);
bool vae_ltx2_recognise(VaeRecognise *r, VaeError *error);
void vae_ltx2_settings(const void *data, char *out, size_t size);
void vae_ltx2_preset(VaeRecognise *r);
void vae_ltx2_decode(VaeBuilder *b);
void vae_ltx2_encode(VaeBuilder *b);

#endif

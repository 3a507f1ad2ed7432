/*
 * doubts.h: shared by doubts.c and doubt_latents.c.
 */
#ifndef VAE_STREAM_DOUBTS_H
#define VAE_STREAM_DOUBTS_H

#include "stream.h"
#include "vae/doubts.h"

/* Where a doubt is written. */
typedef struct Line {
    char *text;
    size_t size;
} Line;

/* What latents are taken as. */
typedef struct Taken {
    VaeNormalization normalization;
    VaeDoubtWords words;
} Taken;

/* Writes a doubt about the numbers of a latent; false if there is none. plane:
 * the elements of a channel. */
bool vae_doubt_one_latent(const VaeModelInfo *info, Taken taken,
                          const VaeLatentIn *latent, size_t plane, Line line);

#endif

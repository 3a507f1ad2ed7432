/*
 * statements.h: what the metadata of a file of latents state.
 */
#ifndef VAE_STATEMENTS_H
#define VAE_STATEMENTS_H

#include "vae/latents.h"

/* A statement in the metadata. */
typedef struct VaeStatement {
    const char *key, *expected;
    const char *option; /* overrides it; NULL: none does */
    bool ignored;       /* so that a value that cannot be read is a warning */
} VaeStatement;

/* The channels that the model or the latent space says, or 0. *images: it is
 * one of images. */
int64_t vae_latent_channels(const VaeTensorFile *file,
                            const VaeLatentOptions *o, bool *images);

/* Passes a line to the caller of vae_latent_clip_find(). */
void vae_latent_warn(const VaeLatentOptions *o, const char *line);

/* Reports a value that cannot be read: by an error, or a warning if it is
 * ignored. */
VaeStatus vae_statement_refuse(const VaeTensorFile *file,
                               const VaeLatentOptions *o, const VaeStatement *s,
                               const char *value, VaeError *error);

/* Reads the members of the clip that its shape and its tensor do not tell. */
VaeStatus vae_latent_metadata_read(const VaeTensorFile *file,
                                   const VaeLatentOptions *o,
                                   VaeLatentClip *clip, VaeError *error);

#endif

/*
 * arch.h: an architecture: how its files are recognised, and its forward
 * passes. Each network in engine/models is one.
 */
#ifndef VAE_ARCH_H
#define VAE_ARCH_H

#include "builder.h"

typedef struct VaeArch VaeArch;

/* Input and results of recognise() and preset(). */
typedef struct VaeRecognise {
    const VaeModel *model; /* for vae_model_find() and so on */
    const VaeArch *arch;
    int *naming; /* the naming that vae_model_find() uses from now on */
    VaeModelInfo *info;
    float *mean, *std; /* of info */
    void *data;        /* the architecture's own description, zeroed */
} VaeRecognise;

struct VaeArch {
    const char *name;
    size_t data_size;
    int other_names; /* namings beside the official, 1 to this */

    /* The file's name for a canonical name under that naming, or false where
     * the naming has none. buffer holds 256 bytes. */
    bool (*rename)(int naming, const char *name, char *buffer);
    /* True when the file's names are this architecture's; fills info (names,
     * reason, latent_channels, statistics, steps) and data. */
    bool (*recognise)(VaeRecognise *r, VaeError *error);
    /* The released, full-size configuration. */
    void (*preset)(VaeRecognise *r);
    void (*decode)(VaeBuilder *b);
    void (*encode)(VaeBuilder *b);
};

extern const VaeArch *const vae_archs[]; /* NULL-terminated */

/* ------------------------------------------------------------------ */
/* Questions that recognise() asks about a file.                       */

/* A tensor of the file by canonical name; NULL where there is none. */
const VaeTensorInfo *vae_model_find(const VaeModel *model, const char *name);
const VaeTensorInfo *vae_model_findf(const VaeModel *model, const char *format,
                                     ...) VAE_PRINTF(2, 3);
/* dims[dim] of the first that exists, else 0. */
int vae_model_dim(const VaeModel *model, int dim, const char *format, ...)
    VAE_PRINTF(3, 4);
/* Output channels of a conv, told by name.bias, else name.weight, else 0. */
int vae_model_width(const VaeModel *model, const char *format, ...)
    VAE_PRINTF(2, 3);
/* True if the file has a tensor whose name begins with prefix. */
bool vae_model_has_prefix(const VaeModel *model, const char *prefix);
/* True if the file has a tensor whose canonical name begins so, up to a dot. */
bool vae_model_has_block(const VaeModel *model, const char *format, ...)
    VAE_PRINTF(2, 3);
/* A number stated in __metadata__ or config.json. */
bool vae_model_meta_number(const VaeModel *model, const char *key, double *out);
/* Per-channel statistics stated as vae.latents_mean / latents_mean and _std:
 * false where none are. A wrong count is an error. */
bool vae_model_meta_statistics(const VaeModel *model, int channels, float *mean,
                               float *std, VaeError *error);

/* The variant asked for, else stated as vae.variant or variant, else NULL. */
const char *vae_model_variant(const VaeModel *model);

/* A growing list of names for one message; `most` of them are written out. */
#define VAE_LISTED 6
typedef struct VaeListing {
    int count, most; /* most: 0 means VAE_LISTED */
    char text[400];
} VaeListing;
void vae_listing_add(VaeListing *list, const char *format, ...)
    VAE_PRINTF(2, 3);

#endif

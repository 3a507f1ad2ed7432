/*
 * model.h: the model's inside, for the engine's own files.
 */
#ifndef VAE_MODEL_INTERNAL_H
#define VAE_MODEL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "backend.h"

/* One tensor that the network wants, under its canonical name. */
typedef struct VaeDemand {
    char *name;
    int n_dims;
    int64_t dims[VAE_MAX_DIMS];
    VaeTensorInfo found; /* data and type; name is the canonical one */
    bool missing;
} VaeDemand;

typedef struct VaeArch VaeArch;

/* What recognise() looks at and fills. */
typedef struct VaeRecognise {
    const VaeModel *model; /* for vae_model_find() and _meta() */
    VaeModelInfo *info;
    float *mean, *std; /* of info */
    void *data;        /* the architecture's own description, zeroed */
} VaeRecognise;

struct VaeArch {
    const char *name;
    size_t data_size;
    int other_names; /* namings beside the official, 1 to this */

    /* The name in the file for a canonical name under this model's naming,
     * or false where the naming has none. buffer holds 256 bytes. */
    bool (*rename)(const VaeModel *model, const char *name, char *buffer);
    /* True when the file's names are this architecture's; fills info (names,
     * reason, latent_channels, statistics, steps) and data. */
    bool (*recognise)(VaeRecognise *r, VaeError *error);
    /* The released, full-size configuration. */
    void (*preset)(VaeRecognise *r);
    void (*decode)(VaeBuilder *b);
    void (*encode)(VaeBuilder *b);
};

extern const VaeArch *const vae_archs[]; /* NULL-terminated */
extern const VaeArch vae_arch_wan21, vae_arch_wan22, vae_arch_seedvr2,
    vae_arch_taew2_1, vae_arch_taew2_2, vae_arch_taew2_2_super, vae_arch_taehv,
    vae_arch_taehv1_5, vae_arch_taehv1_5_super, vae_arch_taeltx_2;

struct VaeKept {
    VaeKept *next;
    void *key;
    size_t key_size, bytes;
    void *blob; /* NULL: moved out */
    void (*blob_free)(void *blob, int place);
    int place;
    int users, resting; /* those that let it rest are no users */
    void *out;          /* the copy in the host's memory, or NULL */
    void (*out_free)(void *copy);
};

struct VaeModel {
    atomic_int refs;
    VaeModelInfo info;
    float mean[VAE_MAX_LATENT_CHANNELS], std[VAE_MAX_LATENT_CHANNELS];
    const VaeArch *arch;
    void *arch_data;
    char *path, *variant; /* asked for, or NULL */
    int naming;           /* the architecture's: 0 official */
    VaeTensorFile *file;
    void *config;      /* json_t of config.json beside the file, or NULL */
    float **generated; /* one block per demand, or NULL */
    bool outline;      /* no tensor has data */

    VaeDemand *demands; /* the decoder's first */
    size_t n_demands, n_decoder, demands_room;
    size_t *by_name; /* demand indices sorted by name */

    pthread_mutex_t lock; /* guards what follows */
    VaeKept *kept;
    char fingerprint[65]; /* empty until it is asked for */
};

/* Frees all kept weights, which nobody uses. */
void vae_model_drop_weights(VaeModel *model);

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
/* Whether any tensor's name in the file begins so. */
bool vae_model_has_prefix(const VaeModel *model, const char *prefix);
/* Whether any canonical name begins so, up to a dot. */
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

/* The released configuration with its demands and without weights. */
VaeStatus vae_model_preset(const VaeArch *arch, bool decoder, bool encoder,
                           VaeModel **out, VaeError *error);
/* Counts what was found for the demands into info. */
void vae_model_summarise(VaeModel *model);
/* Fails with the nearest known model and what differs. */
VaeStatus vae_model_unknown(const VaeModel *model, VaeError *error);

/* Index of a demand, or -1. likely: where it is looked for first. */
long vae_model_demand(const VaeModel *model, const char *name, long likely);
/* The same; where there is none, one is added, and -1 tells that memory is
 * out. */
long vae_model_want(VaeModel *model, const char *name, const int64_t *dims,
                    int n_dims, long likely);
/* Runs the builders dry, which lists every tensor that they want. */
VaeStatus vae_model_learn(VaeModel *model, VaeError *error);
/* Finds each of them in the file; an error lists what is missing, of another
 * shape, or not wanted. */
VaeStatus vae_model_match(VaeModel *model, VaeError *error);

/* ------------------------------------------------------------------ */
/* Building.                                                           */

/* The carries of one stream, shared by its programs. */
typedef struct VaeCarrySet {
    VaeCarry **items;
    int n;
    size_t bytes; /* of the block that holds them all */
} VaeCarrySet;
void vae_carry_set_free(VaeCarrySet *set);

typedef struct VaeBuildParams {
    VaeModel *model;
    VaeDirection direction;
    bool first;
    bool cold; /* a later step that sees nothing of those before */
    int steps;
    int height, width; /* of the input: latent pixels, or padded pixels */
    VaeType act, sum;  /* of what convolutions read; of what is added up */
    bool conv_up;      /* the backend takes convs that double what they read */
    bool conv_tiles;   /* it takes convs in tiles of pixels */
    const char *label;
    VaeCarrySet *carries;
    bool learn; /* only learn which tensors are wanted */
} VaeBuildParams;

VaeStatus vae_program_build(const VaeBuildParams *params, VaeProgram **out,
                            VaeError *error);
/* Only what makes two frames and more in a step of `next`, the program of later
 * steps (which may be p), is computed in tiles: so in all programs of a stream
 * an op has the same kernels, and those that save little are not kept. */
void vae_program_settle_tiles(VaeProgram *p, const VaeProgram *next);

#endif

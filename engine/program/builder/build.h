/*
 * build.h: from a forward pass to a program.
 */
#ifndef VAE_BUILD_H
#define VAE_BUILD_H

#include "builder.h"

/* The carries of one stream, shared by its programs. */
typedef struct VaeCarrySet {
    VaeCarry **items;
    int n;
    size_t bytes;   /* of all, without histories */
    size_t history; /* of a latent in all histories */
    int each;       /* latents of a block of histories */
    size_t spilled; /* bytes of the spilled carries, which are placed first */
} VaeCarrySet;
/* Sets the place of each carry, the largest first, and the bytes of the set.
 * Spills carries, the largest first, until at least `spill` bytes are not on
 * the device. window: of the histories. Call it before the programs are fused.
 * False: out of memory. */
bool vae_carry_set_place(VaeCarrySet *set, size_t spill, int window);
void vae_carry_set_free(VaeCarrySet *set);

/* One tensor that a forward pass asks for. */
typedef struct VaeTensorQuery {
    const char *name;    /* canonical */
    const int64_t *dims; /* the shape that the network requires */
    int n_dims;
    long likely; /* its probable index, which find() tries first */
} VaeTensorQuery;

/* The tensors of a model, by index. */
typedef struct VaeTensorSource {
    /* Sets *out to the index of the tensor. Errors: VAE_ERR_MODEL (there is
     * none), VAE_ERR_MEMORY. */
    VaeStatus (*find)(void *user, const VaeTensorQuery *query, long *out,
                      VaeError *error);
    const VaeTensorInfo *(*at)(void *user, long i);
    void *user;
    const VaeTensorFile *file; /* the file with the tensors, or NULL */
} VaeTensorSource;

/* One direction of a model, from which programs are recorded. */
typedef struct VaeNetwork {
    void (*forward)(VaeBuilder *b);
    const void *arch_data; /* see vae_arch_data() */
    VaeSteps steps;
    bool whole; /* a run is a sequence of its own, without carries */
    int black;  /* black frames before the first one, for an encoder */
    int latent_channels, spatial;
    int picture_channels; /* 3, or 4 with alpha */
    VaeTensorSource tensors;
} VaeNetwork;

typedef struct VaeBuildParams {
    VaeNetwork network; /* vae_model_build() fills it in */
    VaeDirection direction;
    bool first; /* first step of a sequence, or of a chunk that is encoded */
    bool without_context; /* a later step without context from earlier ones */
    int steps;
    int height, width; /* of the input: latent pixels, or padded pixels */
    VaeType act, sum;  /* types of convolutions' inputs, and of sums */
    int history;       /* VaeStreamParams.history */
    const char *label;
    VaeCarrySet *carries;
    bool dry_run; /* only lists the required tensors */
} VaeBuildParams;

/* Records a program. Fuse it (fuse.h) if you like, then plan it. Errors:
 * VAE_ERR_MODEL (the network does not fit its tensors), VAE_ERR_MEMORY. */
VaeStatus vae_program_build(const VaeBuildParams *params, VaeProgram **out,
                            VaeError *error);

#endif

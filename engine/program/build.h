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
    size_t bytes;   /* of all */
    size_t spilled; /* bytes of the spilled carries, which are placed first */
} VaeCarrySet;
/* Gives each carry its place, the largest first. Spills the largest carries
 * until the device has `spill` bytes less to hold. Call it before the programs
 * are fused. False: out of memory. */
bool vae_carry_set_place(VaeCarrySet *set, size_t spill);
void vae_carry_set_free(VaeCarrySet *set);

/* One tensor that a forward pass asks for. */
typedef struct VaeTensorQuery {
    const char *name;    /* canonical */
    const int64_t *dims; /* the shape that the network requires */
    int n_dims;
    long likely; /* a guess at its number, which find() tries first */
} VaeTensorQuery;

/* The tensors of a model, numbered. */
typedef struct VaeTensorSource {
    /* Sets *out to the number of the tensor. Errors: VAE_ERR_MODEL (there is
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
    int black; /* frames in front of the first one, for an encoder */
    int latent_channels, spatial;
    VaeTensorSource tensors;
} VaeNetwork;

typedef struct VaeBuildParams {
    VaeNetwork network; /* vae_model_build() fills it in */
    VaeDirection direction;
    bool first; /* of a sequence, or of a chunk that is encoded */
    bool cold;  /* a later step without context from earlier ones */
    int steps;
    int height, width; /* of the input: latent pixels, or padded pixels */
    VaeType act, sum;  /* types of convolutions' inputs, and of sums */
    const char *label;
    VaeCarrySet *carries;
    bool dry_run; /* only lists the required tensors */
} VaeBuildParams;

/* Records a program. It can be fused (fuse.h), and is planned before it runs.
 * Errors: VAE_ERR_MODEL (the network does not fit its tensors),
 * VAE_ERR_MEMORY. */
VaeStatus vae_program_build(const VaeBuildParams *params, VaeProgram **out,
                            VaeError *error);

#endif

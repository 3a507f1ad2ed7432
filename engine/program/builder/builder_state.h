/*
 * builder_state.h: the struct of the builder, for its own files.
 */
#ifndef VAE_BUILDER_STATE_H
#define VAE_BUILDER_STATE_H

#include "build.h"

#define VAE_MAX_PATH 256
#define VAE_MAX_DEPTH 8

struct VaeBuilder {
    const VaeBuildParams *params;
    VaeProgram *program;
    VaeHead head;
    VaeStatus status;
    VaeError error;
    char path[VAE_MAX_PATH];
    size_t path_end[VAE_MAX_DEPTH];
    int depth;
    int ops_room, tensors_room;
    /* Probable indices of the next carry and of the next tensor of the file.
     * The search tries them first. */
    int next_carry;
    long next_tensor;
};

/* Appends an op and names it by path and name. Invalidates pointers to earlier
 * ops. NULL: the builder has failed. */
VaeOp *vae_builder_op(VaeBuilder *b, VaeOpKind kind, const char *name);
VaeTensor *vae_builder_tensor(VaeBuilder *b, const char *name, VaeShape shape,
                              VaeType type);
/* Sets the rate and delay of y, which has ft frames for each frame of x. */
void vae_builder_follow(VaeTensor *y, const VaeTensor *x, int ft);
/* Appends an op that writes a new tensor of that shape and type from x, which
 * has the same frames. */
VaeOp *vae_builder_op_to(VaeBuilder *b, VaeOpKind kind, const char *name,
                         const VaeTensor *x, VaeShape shape, VaeType type);
/* x in the type of activations. */
const VaeTensor *vae_builder_cast(VaeBuilder *b, const char *name,
                                  const VaeTensor *x);
/* True if x has that shape and type. Otherwise the builder fails, and the error
 * names the op. */
bool vae_builder_expect(VaeBuilder *b, const VaeOp *op, const VaeTensor *x,
                        VaeShape shape, VaeType type);
/* The carry of that name for `frames` frames like those of `like`. */
VaeCarry *vae_builder_carry(VaeBuilder *b, const char *name,
                            const VaeTensor *like, int frames);
/* The history of that name. Each latent has a frame like `like` in it. */
VaeCarry *vae_builder_history(VaeBuilder *b, const char *name,
                              const VaeTensor *like);
/* Writes path.name or path.name.suffix. An empty name has no dot. */
void vae_builder_full_name(const VaeBuilder *b, const char *name,
                           const char *suffix, char out[VAE_MAX_PATH]);
/* Makes a weight without parts. */
VaeWeight *vae_builder_new_weight(VaeBuilder *b, VaeWeightKind kind);
/* Adds a tensor of the file to a weight. */
void vae_builder_weight_part(VaeBuilder *b, VaeWeight *w, const char *full,
                             const int64_t *dims, int n_dims);
/* The c gains, or offsets, of the modulated norm of that name. */
VaeWeight *vae_builder_modulation_weight(VaeBuilder *b, const VaeModulation *m,
                                         int c, const char *norm, bool gain);
/* The weight name.suffix, of n_dims dims [c, 1, ...]. */
VaeWeight *vae_builder_vector_weight(VaeBuilder *b, const char *name,
                                     const char *suffix, int c, int n_dims);
/* The weight, or the bias, of a convolution. */
VaeWeight *vae_builder_conv_weight(VaeBuilder *b, const char *name,
                                   const VaeConv *conv, int c_in, bool bias);
/* The weight name.weight, of dims [c, 1, k, k]. */
VaeWeight *vae_builder_depthwise_weight(VaeBuilder *b, const char *name, int c,
                                        int k);

#endif

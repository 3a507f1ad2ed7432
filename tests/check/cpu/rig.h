/*
 * rig.h: runs a program of one op on a backend.
 */
#ifndef VAE_CHECK_RIG_H
#define VAE_CHECK_RIG_H

#include "../check.h"
#include "backend.h"

/* A convolution or an attention over y.t frames. */
typedef struct VaeOneOp {
    VaeOpKind kind;
    VaeShape x, y; /* x.t counts the context too */
    VaeType type;  /* type of a convolution's x and of an attention's y; all
                      other tensors are F32 */
    int k, kt, s, st, pad;
    bool add, relu;
    bool up;     /* x is read as if each pixel were 2x2 */
    int tiles;   /* frames of a step in Winograd tiles; 0: no tiles */
    bool narrow; /* the result of the convolution also has `type` */
    bool so_far; /* an attention with a history, of the frames of all calls */
    int window;  /* latents that it reads; 0: all */
    const float *weight, *bias; /* in the file's order; bias may be NULL */
} VaeOneOp;

typedef struct VaeRig VaeRig;

size_t vae_rig_cached(const VaeWeightCache *cache); /* number of entries */

/* Makes a program of one op, prepares and binds it. cache NULL: the op is only
 * planned. Returns NULL if the case has failed. */
VaeRig *vae_rig_new(VaeCheck *t, const VaeBackendClass *class,
                    VaeBackend *backend, VaeWeightCache *cache,
                    const VaeOneOp *op);
void vae_rig_free(VaeRig **rig);

/* Runs the op. x: x.t frames of floats, rounded to the op's type if x has it.
 * y: y.t frames of floats, which hold the residual before the call if the op
 * adds. */
void vae_rig_run(VaeCheck *t, VaeRig *rig, const float *x, float *y);

/* The same, but cancels the op when its result begins to change. Returns true
 * if it ended with VAE_ERR_CANCELLED before it computed the last number. */
bool vae_rig_cancel(VaeRig *rig, const float *x);

size_t vae_rig_scratch(const VaeRig *rig);
size_t vae_rig_weight_bytes(const VaeRig *rig);
const char *vae_rig_impl(const VaeRig *rig);

#endif

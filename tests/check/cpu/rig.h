/*
 * rig.h: one op as a program of its own, run by a backend.
 */
#ifndef VAE_CHECK_RIG_H
#define VAE_CHECK_RIG_H

#include "../check.h"
#include "backend.h"

/* A convolution or an attention over y.t frames. */
typedef struct VaeOneOp {
    VaeOpKind kind;
    VaeShape x, y; /* x.t counts the context too */
    VaeType type;  /* of a convolution's x and of an attention's y; all else is
                      F32 */
    int k, kt, s, st, pad;
    bool add, relu;
    bool up;     /* x is read as if each pixel were 2x2 */
    int tiles;   /* frames of a step in Winograd tiles; 0: no tiles */
    bool narrow; /* the result of the convolution has `type`, too */
    const float *weight, *bias; /* in the file's order; bias may be NULL */
} VaeOneOp;

typedef struct VaeRig VaeRig;

size_t vae_rig_cached(const VaeWeightCache *cache); /* entries */

/* Makes a program of one op, prepared and bound. cache NULL: only planned.
 * NULL: the case has failed. */
VaeRig *vae_rig_new(VaeCheck *t, const VaeBackendClass *class,
                    VaeBackend *backend, VaeWeightCache *cache,
                    const VaeOneOp *op);
void vae_rig_free(VaeRig **rig);

/* Runs the op. x: x.t frames of floats, rounded to the op's type if x has it.
 * y: y.t frames of floats, which hold the residual before the call if the op
 * adds. */
void vae_rig_run(VaeCheck *t, VaeRig *rig, const float *x, float *y);

/* The same, but cancels the op when the result begins to change. True if it
 * ended with VAE_ERR_CANCELLED and did not compute the last number. */
bool vae_rig_cancel(VaeRig *rig, const float *x);

size_t vae_rig_scratch(const VaeRig *rig);
size_t vae_rig_weight_bytes(const VaeRig *rig);
const char *vae_rig_impl(const VaeRig *rig);

#endif

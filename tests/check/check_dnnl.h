/*
 * check_dnnl.h: one op as a program of its own, run by a backend.
 */
#ifndef VAE_CHECK_DNNL_H
#define VAE_CHECK_DNNL_H

#include "check.h"
#include "backend.h"

/* A convolution or an attention over y.t frames. */
typedef struct VaeOneOp {
    VaeOpKind kind;
    VaeShape x, y; /* x.t counts the context too */
    VaeType type;  /* of the conv's x, of the attention's y; else F32 */
    int k, kt, s, st, pad;
    bool add, relu;
    bool up;                    /* x is read as if each pixel were 2x2 */
    int tiles;                  /* frames of a step, in tiles; 0: not so */
    bool narrow;                /* the conv's y is of its type, too */
    const float *weight, *bias; /* in the file's order; bias may be NULL */
} VaeOneOp;

typedef struct VaeRig VaeRig;

size_t vae_rig_cached(const VaeWeightCache *cache); /* entries */

/* One program, prepared and bound; on failure the case fails and NULL is
 * returned. cache NULL: only planned. */
VaeRig *vae_rig_new(VaeCheck *t, const VaeBackendClass *class,
                    VaeBackend *backend, VaeWeightCache *cache,
                    const VaeOneOp *op);
void vae_rig_free(VaeRig **rig);

/* x: x.t frames of floats, rounded to the op's type where x has it. y: y.t
 * frames as floats; in: the residual where the op adds. */
void vae_rig_run(VaeCheck *t, VaeRig *rig, const float *x, float *y);

size_t vae_rig_scratch(const VaeRig *rig);
size_t vae_rig_weight_bytes(const VaeRig *rig);
const char *vae_rig_impl(const VaeRig *rig);

#endif

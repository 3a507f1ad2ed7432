/*
 * backends.h: compares the cpu backend, with several numbers of threads, with
 * the ref backend.
 */
#ifndef VAE_CHECK_BACKENDS_H
#define VAE_CHECK_BACKENDS_H

#include "rig.h"

enum { VAE_FRAMES = 6, VAE_MAX_THREADS = 3 };

/* The cpu backend with 1, 2 and 3 threads; NULL if it lacks the precision. */
typedef struct VaeBackends {
    VaePrecision precision;
    VaeBackend *cpu[VAE_MAX_THREADS], *ref;
} VaeBackends;

/* The inputs of an op; add may be NULL. */
typedef struct VaeOneInput {
    const float *x, *add;
} VaeOneInput;

/* Returns false if the cpu backend lacks the precision. */
bool vae_backends_open(VaeCheck *t, VaePrecision precision, VaeBackends *b);
void vae_backends_close(VaeBackends *b);

static inline size_t
vae_frame_size(VaeShape s)
{
    return (size_t) s.h * s.w * s.c;
}

/* Random numbers that both backends read exactly. In bf16 the products are then
 * exact in fp32, and only the sums round. */
float *vae_exact_numbers(VaeCheck *t, size_t n, VaeType type);
float *vae_absolutes(VaeCheck *t, const float *x, size_t n);

/* Returns the number of weights that the backend prepares for one op. */
size_t vae_prepared_weights(const VaeOneOp *op);

float *vae_backends_ref(VaeCheck *t, const VaeBackends *b, VaeOneOp op,
                        const float *x, const float *add);

/* Checks that the results with each number of threads are within the bounds of
 * want, and that all frames in one call equal single frames (with Winograd
 * tiles: single steps). */
void vae_backends_compare(VaeCheck *t, const VaeBackends *b, const VaeOneOp *op,
                          VaeOneInput in, const float *want,
                          const float *bounds);

#endif

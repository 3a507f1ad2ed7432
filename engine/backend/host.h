/*
 * host.h: backends that compute in host memory: ref and cpu.
 */
#ifndef VAE_HOST_H
#define VAE_HOST_H

#include "executor.h"

/* An exec of a host backend. */
typedef struct VaeHostExec {
    VaeExec exec;
    const VaeKernels *kernels;
    VaeQueue queue;
    const atomic_bool *cancel; /* of the last run; NULL: there was none */
} VaeHostExec;

static inline int
vae_host_threads(const VaeExec *exec)
{
    return ((const VaeHostExec *) exec)->queue.threads;
}

/* For ops that take long: true if the run was cancelled, so that they may end
 * early. The next op then fails. */
static inline bool
vae_host_cancelled(const VaeExec *exec)
{
    const atomic_bool *cancel = ((const VaeHostExec *) exec)->cancel;
    return cancel && atomic_load_explicit(cancel, memory_order_relaxed);
}

/* Makes an exec, and the weights of the ops that the table of kernels computes,
 * in its layout: norms, depthwise convolutions and, if it has conv,
 * convolutions. cache NULL: sets only sizes. */
VaeStatus vae_host_prepare(const VaeProgram *program, VaeWeightCache *cache,
                           const VaeKernels *kernels,
                           const VaeBackendParams *params, VaeExec **out,
                           VaeError *error);
/* Sets *out to w as floats in the table's layout. Adds its bytes to
 * exec->weight_bytes, and raises exec->loading if needed. */
VaeStatus vae_host_weight(VaeExec *exec, VaeWeightCache *cache, VaeWeight *w,
                          const void **out, VaeError *error);
VaeStatus vae_host_run(VaeExec *exec, const VaeRun *run, VaeError *error);

/* Functions of VaeBackendClass. The backend begins with its VaeBackendParams.
 * vae_host_alloc() can take seconds, so it may also be cancelled. */
VaeStatus vae_host_alloc(VaeBackend *backend, VaePlace place, size_t bytes,
                         void **out, VaeError *error);
void vae_host_free(VaeBackend *backend, VaePlace place, void *block);
VaeStatus vae_host_bind(VaeBackend *backend, VaeExec *exec,
                        const VaeMemory *memory, VaeError *error);

/* Sets *out to the processor's name and the number of threads. */
void vae_host_describe(VaeDevice *out, int threads);

#endif

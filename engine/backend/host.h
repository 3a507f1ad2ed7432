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
} VaeHostExec;

static inline int
vae_host_threads(const VaeExec *exec)
{
    return ((const VaeHostExec *) exec)->queue.threads;
}

/* An exec with weights for the table's kernels: norms and depthwise
 * convolutions and, where the table computes them, convolutions, in its layout.
 * cache NULL: sizes only. */
VaeStatus vae_host_prepare(const VaeProgram *program, VaeWeightCache *cache,
                           const VaeKernels *kernels, int threads,
                           VaeExec **out, VaeError *error);
/* w as floats in the table's layout; exec->weight_bytes and loading grow. */
VaeStatus vae_host_weight(VaeExec *exec, VaeWeightCache *cache, VaeWeight *w,
                          const void **out, VaeError *error);
VaeStatus vae_host_run(VaeExec *exec, const VaeRun *run, VaeError *error);

/* Entries of the class. */
VaeStatus vae_host_alloc(VaeBackend *backend, VaePlace place, size_t bytes,
                         void **out, VaeError *error);
void vae_host_free(VaeBackend *backend, VaePlace place, void *block);
VaeStatus vae_host_bind(VaeBackend *backend, VaeExec *exec,
                        const VaeMemory *memory, VaeError *error);

/* processor.c: the processor and that number of threads. */
void vae_host_describe(VaeDevice *out, int threads);
/* The processor's name, the first as a file like /proc/cpuinfo
 * has it. */
bool vae_processor_name(const char *path, char *out, size_t size);

#endif

/*
 * executor.h: running a program op by op in host memory; what `ref` and
 * `cpu` share. A backend gives a kernel table and, per op, optionally a
 * function of its own.
 */
#ifndef VAE_BACKEND_HOST_H
#define VAE_BACKEND_HOST_H

#include "backend.h"

typedef struct VaeHostOp {
    const char *impl;
    const float *weight, *bias; /* for the table's conv and norm */
    void *own;                  /* backend's, e.g. a oneDNN primitive */
    VaeStatus (*run)(void *own, const VaeOp *op, VaeError *error);
    void (*own_free)(void *own);
} VaeHostOp;

struct VaeExec {
    const VaeProgram *program;
    const VaeKernels *kernels;
    VaeQueue queue;
    VaeHostOp *ops;
    VaeMemory memory;
    size_t scratch, weight_bytes, loading;
    VaeOpTime *times;
};

/* An exec with the table's kernels for every op that needs no weights, norm
 * weights read; conv weights packed as the table wants them where
 * with_conv. cache NULL: sizes only. */
VaeStatus vae_host_prepare(const VaeProgram *program, VaeWeightCache *cache,
                           const VaeKernels *kernels, int threads,
                           bool with_conv, VaeExec **out, VaeError *error);
void vae_host_exec_free(VaeExec **exec);
/* w as floats in the table's layout; exec->weight_bytes and loading grow. */
VaeStatus vae_host_weight(VaeExec *exec, VaeWeightCache *cache, VaeWeight *w,
                          const float **out, VaeError *error);
/* processor.c: the processor's name, the first as a file like /proc/cpuinfo
 * has it. */
bool vae_processor_name(const char *path, char *out, size_t size);
void vae_host_device(const VaeBackend *backend, char *out, size_t size);

VaeStatus vae_host_run(VaeExec *exec, const VaeRun *run, VaeError *error);

/* The vtable entries that host backends answer alike. */
VaeStatus vae_host_alloc(VaeBackend *backend, size_t bytes, void **out,
                         VaeError *error);
void vae_host_free(VaeBackend *backend, void *block);
size_t vae_host_scratch(const VaeExec *exec);
size_t vae_host_weight_bytes(const VaeExec *exec);
size_t vae_host_loading(const VaeExec *exec);
const char *vae_host_impl(const VaeExec *exec, int op);
void vae_host_profile(VaeExec *exec, VaeOpTime *rows);

/* Addresses in bound memory: body (frame 0) and slab (first context frame). */
static inline uint8_t *
vae_host_body(const VaeExec *e, const VaeTensor *t)
{
    return e->memory.arena + t->offset;
}
uint8_t *vae_host_slab(const VaeExec *e, const VaeTensor *t);
/* Of op->carry. */
uint8_t *vae_host_carry(const VaeExec *e, const VaeOp *op);

#endif

/*
 * launch.h: kernels, memory, input and output of the ops of a run.
 */
#ifndef VAE_LAUNCH_H
#define VAE_LAUNCH_H

#include "backend.h"

typedef struct VaeLaunch VaeLaunch;
struct VaeLaunch {
    const VaeExec *exec;
    const VaeKernels *kernels;
    VaeQueue queue;
    bool tf32; /* attention in F32 may use TF32 */

    /* Copy and clear memory of alloc(), in the order of the queue. Return 0 or
     * an error code. */
    int (*copy)(const VaeQueue *queue, void *dst, const void *src, size_t n);
    int (*zero)(const VaeQueue *queue, void *dst, size_t n);
    /* Returns when what is in the queue is done; NULL: it is. */
    int (*wait)(const VaeQueue *queue);
    VaeStatus (*failed)(const VaeLaunch *launch, int code, VaeError *error);
    /* Computes an attention whose history may be spilled, and returns 0 or an
     * error code; NULL: none is. */
    int (*attend)(const VaeLaunch *launch, const VaeOp *op,
                  const VaeAttentionArgs *args);

    /* Called before and after each op, for example to measure times; or NULL.
     * after() gets the op's status and returns it, or an error of its own. */
    VaeStatus (*before)(VaeLaunch *launch, int op, VaeError *error);
    VaeStatus (*after)(VaeLaunch *launch, int op, VaeStatus status,
                       VaeError *error);
    void *user; /* for before() and after() */

    int ahead; /* VaeRun.ahead, or 0: all ops run */
    /* The run, or NULL if the ops read and write no units. The pointers are
     * addresses of units that kernels read and write, the strides are bytes
     * from unit to unit. */
    const VaeRun *run;
    const VaeLatentIn *latents_in;
    const VaeLatentOut *latents_out;
    const VaePicture *pictures_in, *pictures_out;
    size_t in_stride, out_stride;
    const float *scale, *shift, *mean, *std;
    uint64_t *nonfinite;
    uint64_t *bad; /* non-finite values of the result; NULL: not counted */
};

/* transfer.c: runs an op that copies units in or out, a context or a carry.
 * Returns 0, or the error code of copy() or zero(). */
int vae_exec_transfer(const VaeLaunch *launch, const VaeOp *op);
/* Copies t's rows of the carry of op to the context of t. */
int vae_exec_load_context(const VaeLaunch *launch, const VaeOp *op,
                          const VaeTensor *t);

/* Addresses in bound memory: frame 0 of a tensor, its first context frame, and
 * the carry of an op. */
static inline uint8_t *
vae_exec_body(const VaeExec *e, const VaeTensor *t)
{
    return e->memory.arena + t->offset;
}
static inline uint8_t *
vae_exec_slab(const VaeExec *e, const VaeTensor *t)
{
    return vae_exec_body(e, t) - (size_t) t->ctx * vae_frame_stride(t);
}
static inline uint8_t *
vae_exec_carry(const VaeExec *e, const VaeOp *op)
{
    if (op->window)
        return vae_exec_body(e, op->window);
    return (op->carry->spilled ? e->memory.spilled : e->memory.carries) +
           op->carry->place;
}
/* The history of frame f of an attention; without one, all 0. */
static inline VaeHistory
vae_exec_history(const VaeExec *e, const VaeOp *op, int f)
{
    const VaeCarry *c = op->carry;
    return c ? (VaeHistory){.blocks = e->memory.history,
                            .bytes = c->stride,
                            .place = c->place,
                            .each = c->each,
                            .window = op->attention.window,
                            .frame = op->attention.first + f}
             : (VaeHistory){0};
}
/* The first frame of x that a convolution reads. x may have more context than
 * this convolution needs, or none if it reads the carry. */
static inline uint8_t *
vae_exec_conv_input(const VaeExec *e, const VaeOp *op)
{
    const int back = op->carry ? 0
                               : (op->y->shape.t - 1) * op->conv.st +
                                     op->conv.kt - op->x->shape.t;
    return vae_exec_body(e, op->x) - (size_t) back * vae_frame_bytes(op->x);
}

#endif

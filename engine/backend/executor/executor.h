/*
 * executor.h: runs a prepared program op by op, for every backend.
 *
 * Only the executor walks the ops and makes the arguments of kernels. A backend
 * provides a table of kernels, their queue, functions that copy memory, and for
 * some ops a function of its own (VaeExecOp.run).
 */
#ifndef VAE_EXECUTOR_H
#define VAE_EXECUTOR_H

#include "launch.h"

/* Runs the ops from..to-1. Errors: VAE_ERR_CANCELLED, those of the ops. */
VaeStatus vae_execute(VaeLaunch *launch, int from, int to, VaeError *error);

/* Makes an exec in which no op is prepared. size: of the backend's struct,
 * which begins with a VaeExec. NULL: out of memory. */
VaeExec *vae_exec_new(const VaeProgram *program, size_t size);
/* Frees what ops own, and the exec. */
void vae_exec_free(VaeExec **exec);
/* Call it after an op is prepared, so that weights that it shares with an
 * earlier op count once. before: weight_bytes before the op was prepared. */
static inline void
vae_exec_weigh(VaeExec *e, const VaeOp *op, size_t before)
{
    if (op->group > 1 || op->strip > 1)
        e->weight_bytes = before;
}
static inline void
vae_exec_needs_scratch(VaeExec *e, size_t bytes)
{
    if (bytes > e->scratch)
        e->scratch = bytes;
}

/* True if the op does not run in this run, see program/delay.h. */
bool vae_exec_idle(const VaeExec *e, const VaeRun *run, const VaeOp *op);
/* Sets *out to the tensor to dump after op: its result or, after the last
 * strip, the whole result. False: there is none. */
bool vae_exec_shown(const VaeOp *op, VaeTensor *out);
/* Calls run->dump for that tensor. values: its body in host memory. */
VaeStatus vae_exec_dump(const VaeRun *run, const VaeOp *op, const VaeTensor *y,
                        const void *values, VaeError *error);

#endif

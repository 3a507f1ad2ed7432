/*
 * plain.h: a convolution of a program as the library computes it: one
 * primitive for each frame, and no fusions. Its operands are zeros.
 */
#ifndef PLAIN_H
#define PLAIN_H

#include "dnnl.h"
#include "program.h"

typedef struct Plain {
    VaeDnnlPrimitive primitive;
    void *operand[VAE_DNNL_SLOTS];
} Plain;

/* op is a convolution. The primitive is made for OpenMP's number of threads.
 * Ends the process with status 3 if the library refuses. */
void plain_open(Plain *plain, VaeDnnl *dnnl, const VaeOp *op);
void plain_close(Plain *plain);

/* Computes all frames of op. */
void plain_run(const Plain *plain, const VaeDnnl *dnnl, const VaeOp *op);
/* The operations of op as the network defines it. */
double plain_flop(const VaeOp *op);

#endif

/*
 * backend_cpu_conv.h: a oneDNN convolution for one output frame, for the files
 * that run it.
 */
#ifndef VAE_BACKEND_CPU_CONV_H
#define VAE_BACKEND_CPU_CONV_H

#include "backend_cpu.h"

/* Of an op that doubles what it reads (op->conv.up), the pixels of one phase:
 * of rows 2i + row and columns 2j + column. */
typedef struct VaeCpuPhase {
    int row, column; /* 0 or 1 each */
} VaeCpuPhase;

/* Of an op that computes two frames at a time (op->conv.pairs), the products
 * with two of its four kernels, for so many rows of the result; x has one row
 * more above and below. See backend_cpu_conv_pairs.c. */
typedef struct VaeCpuProducts {
    bool outer; /* with kernels 0 and 3, added to what is there; else 1, 2 */
    int rows;
} VaeCpuProducts;

typedef struct VaeCpuConv {
    VaeBackend *cpu;
    VaeExec *exec;
    const VaeOp *op;
    /* At most one of both; NULL: all of op's pixels, by its own kernel. */
    const VaeCpuPhase *phase;
    const VaeCpuProducts *products;
    int kernel;       /* of products: the one that weights are made for */
    void *kernels[2]; /* of products: their weights, of the model */
    VaeCpuPrimitive primitive;
    int bias, add; /* arguments of the primitive; 0: none */
} VaeCpuConv;

/*
 * Makes the primitive and gives it its weights; exec->scratch, weight_bytes and
 * loading grow. c has cpu, exec, op, and phase or products. model NULL: sizes
 * only. On failure, too, the caller calls vae_cpu_primitive_free().
 */
VaeStatus vae_cpu_conv_make(VaeCpuConv *c, VaeModel *model, VaeError *error);
/* One frame; add: of the residual, or NULL where it is none or y itself. */
dnnl_status_t vae_cpu_conv_frame(VaeCpuConv *c, const void *x, void *y,
                                 const void *add);

/* Rows of the result that an op with conv.pairs computes at a time. */
int vae_cpu_pair_rows(const VaeOp *op);

/* Of products, those with kernels[i] come next. */
dnnl_status_t vae_cpu_conv_kernel(VaeCpuConv *c, int i);

/* Whether c adds the product to what is there. */
bool vae_cpu_conv_sums(const VaeCpuConv *c);

/* Argument i of the primitive holds weight w from here on: the sums of those of
 * its taps that meet one pixel of x, where c is of a phase; of its frames,
 * for c->kernel, where c is of products. */
VaeStatus vae_cpu_conv_weight(VaeCpuConv *c, VaeModel *model,
                              const VaeWeight *w, int i, VaeError *error);

#endif

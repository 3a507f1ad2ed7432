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

typedef struct VaeCpuConv {
    VaeBackend *cpu;
    VaeExec *exec;
    const VaeOp *op;
    const VaeCpuPhase *phase; /* NULL: all of op's pixels */
    VaeCpuPrimitive primitive;
    int bias, add; /* arguments of the primitive; 0: none */
} VaeCpuConv;

/*
 * Makes the primitive and gives it its weights; exec->scratch, weight_bytes and
 * loading grow. c has cpu, exec, op and phase. model NULL: sizes only. On
 * failure, too, the caller calls vae_cpu_primitive_free().
 */
VaeStatus vae_cpu_conv_make(VaeCpuConv *c, VaeModel *model, VaeError *error);
/* One frame; add: of the residual, or NULL where it is none or y itself. */
dnnl_status_t vae_cpu_conv_frame(VaeCpuConv *c, const void *x, void *y,
                                 const void *add);

/* Argument i of the primitive holds weight w from here on: the sums of those of
 * its taps that meet one pixel of x, where c is of a phase. */
VaeStatus vae_cpu_conv_weight(VaeCpuConv *c, VaeModel *model,
                              const VaeWeight *w, int i, VaeError *error);

#endif

/*
 * conv.h: a oneDNN convolution for one output frame, for the files
 * that run it.
 */
#ifndef VAE_BACKEND_CPU_CONV_H
#define VAE_BACKEND_CPU_CONV_H

#include "cpu.h"
#include "upsample_phases.h"

typedef struct VaeCpuConv {
    VaeBackend *cpu;
    VaeExec *exec;
    const VaeOp *op;
    const VaePhase *phase; /* NULL: all of op's pixels, by its own kernel */
    VaeDnnlPrimitive primitive;
    bool copies; /* the residual into y, before each frame */
} VaeCpuConv;

/*
 * Makes the primitive and gives it its weights; exec->scratch, weight_bytes and
 * loading grow. c has cpu, exec, op and phase. cache NULL: sizes
 * only. On failure, too, the caller calls vae_dnnl_free().
 */
VaeStatus vae_cpu_conv_make(VaeCpuConv *c, VaeWeightCache *cache,
                            VaeError *error);
/* One frame; add: of the residual, ignored where it is none or y itself. */
VaeDnnlStatus vae_cpu_conv_frame(VaeCpuConv *c, const void *x, void *y,
                                 const void *add);

/* An argument of the primitive holds weight w from here on: the sums of those
 * of its taps that meet one pixel of x, where c is of a phase. */
VaeStatus vae_cpu_conv_weight(VaeCpuConv *c, VaeWeightCache *cache,
                              const VaeWeight *w, VaeDnnlSlot slot,
                              VaeError *error);

/* ------------------------------------------------------------------ */

/* A tile is so many pixels high and wide; see cpu/winograd.c. */
enum { VAE_CPU_TILE_SIDE = 4 };

/* Of an op with conv.winograd, the tiles of a frame and of what is computed at
 * a time. */
typedef struct VaeCpuChunk {
    int across, down;
    int w, h;
} VaeCpuChunk;

VaeCpuChunk vae_cpu_chunk(const VaeOp *op);

/* op's sixteen kernels of three taps, in that layout, each of
 * vae_cpu_tile_kernel() bytes; exec->weight_bytes and loading grow. cache NULL:
 * sizes only. */
VaeStatus vae_cpu_tile_weight(VaeBackend *cpu, VaeExec *exec, const VaeOp *op,
                              const VaeDnnlLayout *layout,
                              VaeWeightCache *cache, const void **out,
                              VaeError *error);
size_t vae_cpu_tile_kernel(const VaeDnnlLayout *layout);

#endif

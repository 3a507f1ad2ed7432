/*
 * conv.h: a oneDNN convolution for one output frame, shared by the files that
 * run it, and the weights of Winograd convolutions.
 */
#ifndef VAE_BACKEND_CPU_CONV_H
#define VAE_BACKEND_CPU_CONV_H

#include "cpu.h"
#include "upsample_phases.h"

typedef struct VaeCpuConv {
    VaeBackend *cpu;
    VaeExec *exec;
    const VaeOp *op;
    const VaePhase *phase; /* NULL: all of op's pixels with its own kernel */
    VaeDnnlPrimitive primitive;
    bool copies; /* copies the residual to y before each frame */
    bool alone;  /* is made and run by one thread */
} VaeCpuConv;

/*
 * Makes the primitive and gives it its weights. Increases exec->scratch,
 * weight_bytes and loading. The caller has set cpu, exec, op and phase of c.
 * cache NULL: sizes only. The caller calls vae_dnnl_free(), on failure as well.
 */
VaeStatus vae_cpu_conv_make(VaeCpuConv *c, VaeWeightCache *cache,
                            VaeError *error);
/* Computes one frame. add: the frame of the residual; ignored if the op has no
 * residual or adds in place. */
VaeDnnlStatus vae_cpu_conv_frame(VaeCpuConv *c, const void *x, void *y,
                                 const void *add);

/*
 * True where the library convolves by a matrix product. The order of a pixel's
 * sum then depends on how many pixels there are and on which of them it is: the
 * product is cut into blocks, and the last rows of a block are added up in
 * another way. Pixels computed in another picture, or beside fewer or more of
 * them, thus have other bytes.
 */
bool vae_cpu_is_product(const VaeDnnlPrimitive *conv);

/* Sets an argument of the primitive to weight w. If c computes a phase, the
 * weight holds sums of the taps that meet the same pixel of x. */
VaeStatus vae_cpu_conv_weight(VaeCpuConv *c, VaeWeightCache *cache,
                              const VaeWeight *w, VaeDnnlSlot slot,
                              VaeError *error);

/* ------------------------------------------------------------------ */

/* Height and width in pixels of the input of a Winograd tile; see
 * cpu/winograd.c. */
enum { VAE_CPU_TILE_SIDE = 4 };

/* The weight of an op with conv.winograd, in that layout. */
typedef struct VaeCpuTileWeight {
    VaeBackend *cpu;
    VaeExec *exec;
    const VaeOp *op;
    const VaeDnnlLayout *layout;
} VaeCpuTileWeight;

/* Gets the op's sixteen Winograd kernels of three taps, each of
 * vae_cpu_tile_kernel() bytes. Increases exec->weight_bytes and loading. cache
 * NULL: sizes only. */
VaeStatus vae_cpu_tile_weight(const VaeCpuTileWeight *weight,
                              VaeWeightCache *cache, const void **out,
                              VaeError *error);
size_t vae_cpu_tile_kernel(const VaeDnnlLayout *layout);

/* vae_cpu_can_strip() of an op without and with conv.winograd; on the worker.
 */
bool vae_cpu_conv_can_strip(VaeBackend *cpu, const VaeOp *op);
bool vae_cpu_tiles_can_strip(VaeBackend *cpu, const VaeOp *op);

#endif

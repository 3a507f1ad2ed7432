/*
 * conv.h: a oneDNN convolution for one output frame, and the weights of
 * Winograd convolutions.
 */
#ifndef VAE_BACKEND_CPU_CONV_H
#define VAE_BACKEND_CPU_CONV_H

#include "cpu.h"
#include "upsample_phases.h"

typedef struct VaeCpuConv {
    VaeBackend *cpu;
    VaeExec *exec;
    const VaeOp *op;
    const VaePhase
        *phase; /* NULL: computes all pixels, with the op's own kernel */
    VaeDnnlPrimitive primitive;
    bool copies; /* copies the residual to y before each frame */
    bool aside;  /* copies it to aside_at in the scratch memory instead */
    size_t aside_at;
    bool alone; /* made and run by one thread */
} VaeCpuConv;

/*
 * Makes the primitive and sets its weights. Increases exec->scratch,
 * weight_bytes and loading. The caller has set cpu, exec, op and phase of c,
 * and calls vae_dnnl_free(), also after an error. cache NULL: only sizes.
 */
VaeStatus vae_cpu_conv_make(VaeCpuConv *c, VaeWeightCache *cache,
                            VaeError *error);
/* Computes one frame. add: the frame of the residual; not read if the op has no
 * residual or the primitive adds in place. */
VaeDnnlStatus vae_cpu_conv_frame(VaeCpuConv *c, const void *x, void *y,
                                 const void *add);

/*
 * True if the library convolves by a matrix product. It cuts the product into
 * blocks, and adds up the last rows of a block in another order. The bytes of a
 * pixel then depend on its position and on the number of pixels.
 */
bool vae_cpu_is_product(const VaeDnnlPrimitive *conv);

/* Sets an argument of the primitive to weight w or, if c computes a phase, to
 * the weight of that phase. */
VaeStatus vae_cpu_conv_weight(VaeCpuConv *c, VaeWeightCache *cache,
                              const VaeWeight *w, VaeDnnlSlot slot,
                              VaeError *error);

/* ------------------------------------------------------------------ */

/* Height and width in pixels, and frames, of the input of a Winograd tile; see
 * cpu/winograd.c. */
enum { VAE_CPU_TILE_SIDE = 4 };

/* The weight of an op with conv.winograd, in that layout. */
typedef struct VaeCpuTileWeight {
    VaeBackend *cpu;
    VaeExec *exec;
    const VaeOp *op;
    const VaeDnnlLayout *layout;
} VaeCpuTileWeight;

/* Gets the op's Winograd kernels of one tap, 16 for each of vae_tile_times(),
 * each of vae_cpu_tile_kernel() bytes. Increases exec->weight_bytes and
 * loading. cache NULL: only sizes. */
VaeStatus vae_cpu_tile_weight(const VaeCpuTileWeight *weight,
                              VaeWeightCache *cache, const void **out,
                              VaeError *error);
size_t vae_cpu_tile_kernel(const VaeDnnlLayout *layout);

/* vae_cpu_can_strip() for an op without and with conv.winograd. Called on the
 * worker. */
bool vae_cpu_conv_can_strip(VaeBackend *cpu, const VaeOp *op);
bool vae_cpu_tiles_can_strip(VaeBackend *cpu, const VaeOp *op);

#endif

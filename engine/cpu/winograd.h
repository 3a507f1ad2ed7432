/*
 * winograd.h: a convolution in Winograd tiles, and one chunk of them. See
 * winograd.c.
 */
#ifndef VAE_BACKEND_CPU_WINOGRAD_H
#define VAE_BACKEND_CPU_WINOGRAD_H

#include "conv.h"
#include "cpu/simd/simd.h"

/* How a picture is divided into chunks. */
typedef struct VaeTileChunk {
    int across, down; /* tiles of a frame of the whole picture */
    int w, h;         /* tiles of a chunk */
} VaeTileChunk;

/* Memory objects and parts of scratch memory of a thread. */
typedef struct VaeTileLane {
    VaeDnnlPrimitive product; /* shared */
    float *zeros;             /* one pixel of zeros */
    float *in;                /* [columns][times][pairs][tiles][x.c] */
    float *out;               /* the same with y.c */
} VaeTileLane;

typedef struct VaeConvTiles {
    VaeBackend *cpu;
    VaeExec *exec;
    const VaeOp *op; /* that is prepared or runs: strips and groups of
                        frames share the struct */
    const VaeSimd *simd;
    VaeTileChunk chunk;
    int steps;   /* of the run; a group of frames is one step, see split.h */
    int frames;  /* of a step */
    int times;   /* of the products; without time, a pair is one frame */
    int odd;     /* of the op that runs: 1 if its first frame is the second one
                    of a pair, which only a group of an odd number has */
    int pairs;   /* of a step */
    int at_once; /* pairs in one product: all or one */
    VaeDnnlPrimitive product;
    const uint8_t *kernels; /* of kernel_bytes each */
    size_t kernel_bytes;
    const float *bias;
    int n_lanes;
    VaeTileLane *lanes;
    /* Offsets in the scratch memory of a lane, and its bytes. */
    size_t zeros_at, in_at, out_at, lane_bytes;
    char impl[sizeof((VaeDnnlPrimitive *) 0)->impl + 10];
} VaeConvTiles;

/* Input and output of a chunk. */
typedef struct VaeTileStep {
    /* The input: `back` frames of context, then x. */
    const float *context, *x;
    int back;
    int frame;        /* the first input frame of the step */
    const float *add; /* residual of the step; NULL: none */
    float *y;
    int row, column; /* the chunk's first tile */
} VaeTileStep;

/* Computes a chunk of a step of p->op. Other lanes may run at the same time. */
VaeDnnlStatus vae_cpu_tile_chunk(const VaeConvTiles *p, VaeTileLane *lane,
                                 const VaeTileStep *step);

#endif

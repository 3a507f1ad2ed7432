/*
 * block.h: attention of 16 queries over their windows, in vector code. block.c
 * is compiled once for each instruction set. Products and sums may be one
 * operation (fma), so the instruction set changes the bytes.
 */
#ifndef VAE_CPU_BLOCK_H
#define VAE_CPU_BLOCK_H

#include "kernels.h"

enum {
    VAE_BLOCK_SIDE = 4, /* the queries are a square of the picture */
    VAE_BLOCK = VAE_BLOCK_SIDE * VAE_BLOCK_SIDE,
    /* The most keys of a frame that the queries see together: (kh + 3) (kw + 3)
     * with kh * kw <= VAE_WINDOW_KEYS. */
    VAE_BLOCK_KEYS = 4 * (VAE_WINDOW_KEYS + 3)
};

/* The queries see `rows` rows of `columns` keys of each frame together. Query i
 * sees kh rows from first_row[i] and kw columns from first_column[i] on. */
typedef struct VaeBlock {
    const float *k, *v;          /* keys and values: (frames, h, w, 64) */
    size_t frame_step, row_step; /* elements from frame to frame, row to row */
    int frames, rows, columns, kh, kw;
    int32_t first_row[VAE_BLOCK], first_column[VAE_BLOCK];
    float q[VAE_WINDOW_HEAD][VAE_BLOCK];
    float y[VAE_WINDOW_HEAD][VAE_BLOCK];    /* results */
    float score[VAE_BLOCK_KEYS][VAE_BLOCK]; /* of one frame, then weights */
} VaeBlock;

/* A head of a row of q or k: cosines, and sines with the sign of their product,
 * for each of its channels. */
typedef struct VaeTurns {
    const float *gain;
    float eps;
    float cos[VAE_WINDOW_HEAD], sin[VAE_WINDOW_HEAD];
} VaeTurns;

typedef struct VaeBlocks {
    void (*attend)(VaeBlock *b);
    /* y = x, from element `at` on, normed and turned. */
    void (*turn)(const VaeTurns *t, const void *x, VaeType type, size_t at,
                 float *y);
} VaeBlocks;

extern const VaeBlocks vae_blocks_base;
#ifdef VAE_HAVE_AVX2
extern const VaeBlocks vae_blocks_avx2;
#endif
#ifdef VAE_HAVE_AVX512
extern const VaeBlocks vae_blocks_avx512;
#endif

#endif

/*
 * simd.h: the vector code, one table per instruction set.
 *
 * simd.c is compiled once for each. All do the same operations in the same
 * order on every element, so they give the same bits.
 */
#ifndef VAE_SIMD_H
#define VAE_SIMD_H

#include "kernels.h"
#include "tiles.h"

/* Pixel indices run over all frames of a call. */
typedef struct VaeSimd {
    const char *name;

    /* The rms norm of pixels first..first+n-1. */
    void (*rms)(const VaeNormArgs *a, size_t first, size_t n);

    /* sums[2g], sums[2g+1] = sum and sum of squares of group g over pixels
     * first..first+n-1. */
    void (*group_sums)(const VaeNormArgs *a, size_t first, size_t n,
                       double *sums);

    /* The group norm of these pixels; stats[2g] is the mean of group g and
     * stats[2g+1] its scale. */
    void (*group_apply)(const VaeNormArgs *a, size_t first, size_t n,
                        const double *stats);

    /* n elements, F32 or BF16 each. */
    void (*convert)(void *y, VaeType y_type, const void *x, VaeType x_type,
                    size_t n);

    /* One row. */
    void (*glu)(const VaeGluArgs *a, size_t row);

    /* One row of a frame of y. */
    void (*depthwise)(const VaeDepthwiseArgs *a, int frame, int row);

    const VaeTiles *tiles;

    /* p = e^(v - most) of n scores, where most is the largest of them and of
     * *most, which it becomes. Returns the sum of p before rounding. p may be
     * score if its type is F32. */
    float (*weigh)(void *p, VaeType type, const float *score, int n,
                   float *most);
    /* y = y * shrink + x, of n floats. */
    void (*gather)(float *y, const float *x, float shrink, int n);

    /* Network values to RGB codes and to words, see colour.h. */
    void (*bytes)(uint8_t *y, const float *x, size_t n, float low, float high);
    void (*words)(uint16_t *y, const float *x, size_t n, float low, float high);
} VaeSimd;

/* The widest code that the queue allows and this machine supports. */
const VaeSimd *vae_cpu_simd(const VaeQueue *q);

extern const VaeSimd vae_simd_base;
#ifdef VAE_HAVE_AVX2
extern const VaeSimd vae_simd_avx2;
#endif
#ifdef VAE_HAVE_AVX512
extern const VaeSimd vae_simd_avx512;
#endif

#endif

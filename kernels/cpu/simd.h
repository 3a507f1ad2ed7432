/*
 * simd.h: the vector code, one table per instruction set.
 *
 * simd.c is compiled once for each. All do the same operations in the same
 * order on every element, so they give the same bits.
 */
#ifndef VAE_SIMD_H
#define VAE_SIMD_H

#include "kernels.h"

/*
 * The input transform of Winograd's F(2x2x2, 3x3x3) for one row of kernels,
 * from four frames of a row of 4x4 tiles: of two pixel rows a and b of each
 * frame, two pixels apart, e = a + b or a - b. Of the four e, and then of four
 * columns of each result, it computes v0 - v2, v1 + v2, v2 - v1 and v3 - v1.
 * That of F(2x2, 3x3) has one frame and takes its e as the only result in time.
 */
typedef struct VaeTileIn {
    const float *a[4], *b[4]; /* the second pixel of the first tile */
    size_t a_step, b_step; /* to the next pixel; 0: all pixels are the same */
    bool minus;            /* e = a - b */
    int first, end;        /* range of valid pixels, counted from the first
                              pixel of the first tile; the others are zero.
                              first is 0 or 1 */
    int tiles, n;          /* n channels */
    int times;             /* results in time: 4, or 1 without time */
    int from, until;       /* results in time that are wanted; of 0..2, frame 3
                              is not read, and of 1..3, frame 0 */
    float *y[4][4];        /* [time][column]: [tiles][n] */
} VaeTileIn;

/* One of the two output rows of a tile in a frame: from + bias, plus or minus
 * n0 + n1 + n2 and n1 - n2 + n3 of four columns; then max(y, 0) if relu. */
typedef struct VaeTileRow {
    float *y;                 /* first pixel of the first tile; NULL: no row */
    const float *from, *bias; /* NULL: zeros; from may be y */
    bool minus, relu;
} VaeTileRow;

/* The columns n of frame 0 are m[0] + m[1] + m[2], those of frame 1 are
 * m[1] - m[2] + m[3]. The products of a frame without rows are not read. With
 * one time, there is only frame 0, and its columns are m[0]. */
typedef struct VaeTileOut {
    int times;            /* 4 or 1 */
    const float *m[4][4]; /* [time][column]: [tiles][n] */
    VaeTileRow row[2][2]; /* [frame][row] */
    int pixels, n;        /* pixels of a row, at most two per tile; channels */
} VaeTileOut;

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

    /* Winograd's weight transform of n 3x3 kernels, to sixteen values each,
     * `stride` floats apart: g0, (g0 + g1 + g2) / 2, (g0 - g1 + g2) / 2, g2
     * along rows, then columns. */
    void (*tile_taps)(float *y, size_t stride, const float *taps, size_t n);
    void (*tile_in)(const VaeTileIn *a);
    void (*tile_out)(const VaeTileOut *a);

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

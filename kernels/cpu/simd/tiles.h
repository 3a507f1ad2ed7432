/*
 * tiles.h: the transforms of Winograd's method, one table per instruction set.
 */
#ifndef VAE_TILES_H
#define VAE_TILES_H

#include <stdbool.h>
#include <stddef.h>

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

typedef struct VaeTiles {
    /* Winograd's weight transform of n 3x3 kernels, to sixteen values each,
     * `stride` floats apart: g0, (g0 + g1 + g2) / 2, (g0 - g1 + g2) / 2, g2
     * along rows, then columns. */
    void (*taps)(float *y, size_t stride, const float *taps, size_t n);
    void (*in)(const VaeTileIn *a);
    void (*out)(const VaeTileOut *a);
} VaeTiles;

extern const VaeTiles vae_tiles_base;
#ifdef VAE_HAVE_AVX2
extern const VaeTiles vae_tiles_avx2;
#endif
#ifdef VAE_HAVE_AVX512
extern const VaeTiles vae_tiles_avx512;
#endif

#endif

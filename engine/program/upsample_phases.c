/*
 * upsample_phases.c: a 3x3 convolution over a picture of which each pixel is
 * read as 2x2. The pixels of the result with one parity of row and column are a
 * 2x2 convolution over the small picture, of taps that are sums of those that
 * meet the same pixel of it; the ring of zeros around the doubled picture is
 * one around the small one. So four convolutions over the small picture, 16
 * multiplications where there were 36, and nothing is doubled.
 */
#include <string.h>

#include "upsample_phases.h"

VaePhase
vae_phase(int i)
{
    return (VaePhase){i / 2, i % 2};
}

/* Rows 2i of the result meet row i - 1 of the small picture by their first row
 * of taps and row i by the other two, rows 2i + 1 row i by the first two and
 * row i + 1 by the last; columns likewise. */
void
vae_phase_taps(float *dst, const float *src, size_t n, VaePhase phase)
{
    for (size_t k = 0; k < n; k++) {
        float sum[4] = {0};
        for (int t = 0; t < 9; t++) {
            const int row = (t / 3 + 1 - phase.row) / 2;
            const int column = (t % 3 + 1 - phase.column) / 2;
            sum[2 * row + column] += src[9 * k + (size_t) t];
        }
        memcpy(dst + 4 * k, sum, sizeof sum);
    }
}

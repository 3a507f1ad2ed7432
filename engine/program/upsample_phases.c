/*
 * upsample_phases.c: a 3x3 convolution after a nearest upsampling by two,
 * computed from the small picture. In the doubled picture several of the nine
 * taps read copies of the same small pixel. Their sum is one tap of a 2x2
 * convolution over the small picture. There are four such convolutions, one for
 * each parity of row and column of the result: 16 multiplications instead of
 * 36. Zeros around the doubled picture become zeros around the small one.
 */
#include <string.h>

#include "upsample_phases.h"

VaePhase
vae_phase(int i)
{
    return (VaePhase){i / 2, i % 2};
}

/* For rows 2i of the result, the first row of taps reads row i - 1 of the small
 * picture, and the other two read row i. For rows 2i + 1, the first two read
 * row i, and the last reads row i + 1. The same holds for columns. */
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

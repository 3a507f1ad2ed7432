/*
 * conv.c: convolution, one output pixel at a time.
 *
 * The inner loop runs along output channels, which are contiguous in the
 * weights, so that a compiler can vectorise it without changing the order of
 * any sum: bias, then taps in the order of the weights, then add.
 */
#include "ref.h"

enum { BLOCK = 64 };

/* Sanitizers would check each product and take thirty times as long. The guards
 * and NaN of tests/check notice a wrong address here without them. */
#define UNCHECKED __attribute__((no_sanitize("address", "undefined")))

/* acc[0..n-1] += the c values at x times their rows of weights. */
UNCHECKED static inline __attribute__((always_inline)) void
multiply(float *restrict acc, const float *restrict x,
         const float *restrict weight, int c, int c_out, int n)
{
    for (int i = 0; i < c; i++) {
        const float v = x[i];
        const float *row = weight + (size_t) i * c_out;
        for (int j = 0; j < n; j++)
            acc[j] += v * row[j];
    }
}

/* One tap of one pixel. With constant widths the compiler unrolls the loops. */
UNCHECKED static void
tap(float *acc, const float *x, const float *weight, int c, int c_out, int n)
{
    if (n == BLOCK)
        multiply(acc, x, weight, c, c_out, BLOCK);
    else if (n == 32)
        multiply(acc, x, weight, c, c_out, 32);
    else if (n == 8)
        multiply(acc, x, weight, c, c_out, 8);
    else
        multiply(acc, x, weight, c, c_out, n);
}

/* Channels first..first+n-1 of output pixel (f, py, px). */
static void
pixel(const VaeConvArgs *a, int f, int py, int px, int first, int n)
{
    float acc[BLOCK];
    for (int j = 0; j < n; j++)
        acc[j] = a->bias ? a->bias[first + j] : 0;
    const int taps = a->kt * a->k * a->k;
    for (int i = 0; i < taps; i++) {
        const int frame = f * a->st + i / (a->k * a->k);
        const int y = py * a->s + i / a->k % a->k - a->pad_y;
        const int x = px * a->s + i % a->k - a->pad_x;
        if (y < 0 || y >= a->h || x < 0 || x >= a->w)
            continue;
        const size_t at = ((size_t) frame * a->h + y) * a->w + x;
        tap(acc, (const float *) a->x + at * a->c_in,
            a->weight + (size_t) i * a->c_in * a->c_out + first, a->c_in,
            a->c_out, n);
    }
    const size_t at = ((size_t) f * a->ho + py) * a->wo + px;
    const size_t offset = at * a->c_out + first;
    const float *add = a->add ? (const float *) a->add + offset : NULL;
    float *y = (float *) a->y + offset;
    for (int j = 0; j < n; j++) {
        const float v = add ? acc[j] + add[j] : acc[j];
        y[j] = a->relu && v < 0 ? 0 : v;
    }
}

void
vae_ref_conv(const VaeQueue *q, const VaeConvArgs *a)
{
    for (int first = 0; first < a->c_out; first += BLOCK) {
        const int left = a->c_out - first;
        const int n = left < BLOCK ? left : BLOCK;
        for (int f = 0; f < a->t; f++)
            for (int y = 0; y < a->ho && !vae_ref_cancelled(q); y++)
                for (int x = 0; x < a->wo; x++)
                    pixel(a, f, y, x, first, n);
    }
}

/*
 * pointwise.c: the soft clamp and the depthwise convolution.
 */
#include <math.h>

#include "cpu.h"
#include "number.h"

enum { LANES = 64 };

void
vae_cpu_clamp(const VaeQueue *q, const VaeClampArgs *a)
{
#pragma omp parallel for num_threads(q->threads) schedule(static)
    for (size_t i = 0; i < a->n; i++)
        vae_store(a->y, a->y_type, i,
                  (float) (3 * tanh(vae_load(a->x, a->x_type, i) / 3.0)));
}

/* sum[k] += weight[k] * x[k]; the loops are vector code at -O3. */
static void
multiply(float *restrict sum, const float *restrict weight, const void *x,
         VaeType type, size_t at, int n)
{
    if (type == VAE_TYPE_F32) {
        const float *v = (const float *) x + at;
        for (int k = 0; k < n; k++)
            sum[k] += weight[k] * v[k];
    } else {
        const uint16_t *v = (const uint16_t *) x + at;
        for (int k = 0; k < n; k++)
            sum[k] += weight[k] * vae_from_bf16(v[k]);
    }
}

/* n <= LANES channels of y from channel c on, all from one frame of x. */
static void
lanes(const VaeDepthwiseArgs *a, int frame, int py, int px, int c, int n,
      float *sum)
{
    for (int k = 0; k < n; k++)
        sum[k] = 0;
    for (int i = 0; i < 7; i++)
        for (int j = 0; j < 7; j++) {
            const int y = py + i - 3, x = px + j - 3;
            if (y < 0 || y >= a->h || x < 0 || x >= a->w)
                continue;
            const size_t at = ((size_t) frame * a->h + y) * a->w + x;
            multiply(sum, a->weight + (size_t) (i * 7 + j) * 2 * a->n + c, a->x,
                     a->x_type, at * a->n + c % a->n, n);
        }
}

static void
depthwise_row(const VaeDepthwiseArgs *a, int f, int y)
{
    float sum[LANES];
    for (int x = 0; x < a->w; x++)
        for (int half = 0; half < 2; half++)
            for (int c = 0; c < a->n; c += LANES) {
                const int n = a->n - c < LANES ? a->n - c : LANES;
                const int to = half * a->n + c;
                lanes(a, f + 1 - half, y, x, to, n, sum);
                const size_t at =
                    (((size_t) f * a->h + y) * a->w + x) * 2 * a->n + to;
                for (int k = 0; k < n; k++)
                    vae_store(a->y, a->y_type, at + k, sum[k]);
            }
}

void
vae_cpu_depthwise(const VaeQueue *q, const VaeDepthwiseArgs *a)
{
#pragma omp parallel for collapse(2) num_threads(q->threads) schedule(static)
    for (int f = 0; f < a->t; f++)
        for (int y = 0; y < a->h; y++)
            depthwise_row(a, f, y);
}

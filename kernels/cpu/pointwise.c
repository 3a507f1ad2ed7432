/*
 * pointwise.c: the soft clamp, the gated unit, noise, and the depthwise
 * convolution.
 */
#include <math.h>

#include "cpu.h"
#include "number.h"
#include "sample.h"
#include "simd/simd.h"

void
vae_cpu_clamp(const VaeQueue *q, const VaeClampArgs *a)
{
#pragma omp parallel for num_threads(q->threads) schedule(static)
    for (size_t i = 0; i < a->n; i++)
        vae_store(a->y, a->y_type, i,
                  (float) (3 * tanh(vae_load(a->x, a->x_type, i) / 3.0)));
}

void
vae_cpu_glu(const VaeQueue *q, const VaeGluArgs *a)
{
    const VaeSimd *simd = vae_cpu_simd(q);
#pragma omp parallel for num_threads(q->threads) schedule(static)
    for (size_t i = 0; i < a->rows; i++)
        simd->glu(a, i);
}

void
vae_cpu_noise(const VaeQueue *q, const VaeNoiseArgs *a)
{
    const int c = 3 * a->side * a->side;
#pragma omp parallel for collapse(2) num_threads(q->threads) schedule(static)
    for (int f = 0; f < a->t; f++)
        for (int i = 0; i < a->h * a->w; i++)
            for (int l = 0; l < c; l++)
                vae_store(a->y, a->y_type,
                          ((size_t) f * a->h * a->w + (size_t) i) * c + l,
                          vae_normal_in_patch(a->seed, a->place->frame + f,
                                              a->side, l, i / a->w, i % a->w));
}

void
vae_cpu_depthwise(const VaeQueue *q, const VaeDepthwiseArgs *a)
{
    const VaeSimd *simd = vae_cpu_simd(q);
#pragma omp parallel for collapse(2) num_threads(q->threads) schedule(static)
    for (int f = 0; f < a->t; f++)
        for (int y = 0; y < a->h; y++)
            simd->depthwise(a, f, y);
}

/*
 * attention.c: see attention.h. A row is computed on one thread, so the number
 * of threads changes no byte.
 */
#include <math.h>
#include <string.h>

#include "attention.h"
#include "simd/simd.h"

void
vae_cpu_begin_rows(const VaeRowSums *s)
{
    for (int i = 0; i < s->rows; i++)
        s->most[i] = -INFINITY;
    memset(s->sum, 0, (size_t) s->rows * sizeof *s->sum);
    memset(s->y, 0, (size_t) s->rows * (size_t) s->c * sizeof *s->y);
}

void
vae_cpu_weigh_rows(const VaeQueue *q, const VaeRowSums *s, float *score, int n,
                   void *weight, VaeType type)
{
    const VaeSimd *simd = vae_cpu_simd(q);
    const size_t step = (size_t) n * (type == VAE_TYPE_F32 ? 4 : 2);
#pragma omp parallel for num_threads(q->threads) schedule(static)
    for (int i = 0; i < s->rows; i++) {
        const float before = s->most[i];
        const float sum =
            simd->weigh((uint8_t *) weight + (size_t) i * step, type,
                        score + (size_t) i * (size_t) n, n, &s->most[i]);
        s->shrink[i] = before == -INFINITY ? 0 : expf(before - s->most[i]);
        s->sum[i] = s->sum[i] * s->shrink[i] + sum;
    }
}

void
vae_cpu_add_rows(const VaeQueue *q, const VaeRowSums *s, const float *product)
{
    const VaeSimd *simd = vae_cpu_simd(q);
    const size_t c = (size_t) s->c;
#pragma omp parallel for num_threads(q->threads) schedule(static)
    for (int i = 0; i < s->rows; i++)
        simd->gather(s->y + (size_t) i * c, product + (size_t) i * c,
                     s->shrink[i], s->c);
}

void
vae_cpu_end_rows(const VaeQueue *q, const VaeRowSums *s, void *y, VaeType type)
{
    const VaeSimd *simd = vae_cpu_simd(q);
    const size_t c = (size_t) s->c, step = c * (type == VAE_TYPE_F32 ? 4 : 2);
#pragma omp parallel for num_threads(q->threads) schedule(static)
    for (int i = 0; i < s->rows; i++) {
        float *row = s->y + (size_t) i * c;
        const float sum = s->most[i] == -INFINITY ? NAN : s->sum[i];
        for (size_t l = 0; l < c; l++)
            row[l] /= sum;
        simd->convert((uint8_t *) y + (size_t) i * step, type, row,
                      VAE_TYPE_F32, c);
    }
}

void
vae_cpu_keep_rows(const VaeQueue *q, int rows, int c, const void *qkv,
                  VaeType from, void *kept, VaeType type)
{
    const VaeSimd *simd = vae_cpu_simd(q);
    const size_t in = from == VAE_TYPE_F32 ? 4 : 2;
    const size_t out = type == VAE_TYPE_F32 ? 4 : 2, n = (size_t) c;
#pragma omp parallel for num_threads(q->threads) schedule(static)
    for (int i = 0; i < rows; i++)
        simd->convert((uint8_t *) kept + (size_t) i * 2 * n * out, type,
                      (const uint8_t *) qkv + ((size_t) i * 3 + 1) * n * in,
                      from, 2 * n);
}

/*
 * norm.c: the norms; threads share them in blocks of pixels.
 */
#include <math.h>

#include "cpu.h"
#include "simd/simd.h"

/* Pixels that a thread processes at a time; a multiple of ROWS in simd.c. */
enum { PART = 256 };

static void
rms(const VaeQueue *q, const VaeNormArgs *a)
{
    const VaeSimd *simd = vae_cpu_simd(q);
    const size_t n = (size_t) a->t * a->h * a->w;
#pragma omp parallel for num_threads(q->threads) schedule(static)
    for (size_t p = 0; p < n; p += PART)
        simd->rms(a, p, n - p < PART ? n - p : PART);
}

/* Adds up the blocks of group g, in their order, and sets its mean and scale.
 * These may be where block 0 had its sums. */
static void
statistics(const VaeNormArgs *a, size_t blocks, double count, int g, double *to)
{
    double sum = 0, squares = 0;
    for (size_t b = 0; b < blocks; b++) {
        const double *block = a->sums + (b * a->groups + g) * 2;
        sum += block[0];
        squares += block[1];
    }
    const double mean = sum / count;
    const double var = squares / count - mean * mean;
    to[g * 2] = mean;
    to[g * 2 + 1] = 1 / sqrt((var < 0 ? 0 : var) + (double) a->eps);
}

static void
group(const VaeQueue *q, const VaeNormArgs *a)
{
    const VaeSimd *simd = vae_cpu_simd(q);
    const size_t n = (size_t) a->h * a->w, part = VAE_NORM_BLOCK;
    const size_t blocks = (n + part - 1) / part;
    const int channels = a->c / a->groups;
    const double count = (double) n * channels;
    for (int f = 0; f < a->t; f++) {
        const size_t frame = f * n;
        double *of = a->statistics ? a->statistics + (size_t) f * a->groups * 2
                                   : a->sums;
        const bool add_up = !a->y || !a->statistics;
#pragma omp parallel num_threads(q->threads)
        {
#pragma omp for schedule(static)
            for (size_t b = 0; b < (add_up ? blocks : 0); b++) {
                const size_t left = n - b * part;
                simd->group_sums(a, frame + b * part, left < part ? left : part,
                                 a->sums + b * a->groups * 2);
            }
#pragma omp for schedule(static)
            for (int g = 0; g < (add_up ? a->groups : 0); g++)
                statistics(a, blocks, count, g, of);
#pragma omp for schedule(static)
            for (size_t b = 0; b < (a->y ? blocks : 0); b++) {
                const size_t left = n - b * part;
                simd->group_apply(a, frame + b * part,
                                  left < part ? left : part, of);
            }
        }
    }
}

void
vae_cpu_norm(const VaeQueue *q, const VaeNormArgs *a)
{
    if (a->kind == VAE_NORM_RMS)
        rms(q, a);
    else
        group(q, a);
}

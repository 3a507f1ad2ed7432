/*
 * latent.c: converts latents to and from the network's layout.
 */
#include "cpu.h"
#include "number.h"
#include "sample.h"

void
vae_cpu_latent_in(const VaeQueue *q, const VaeLatentInArgs *a)
{
    const size_t n = (size_t) a->h * a->w;
    uint64_t bad = 0;
#pragma omp parallel for num_threads(q->threads) reduction(+ : bad)
    for (size_t p = 0; p < n; p++)
        for (int c = 0; c < a->c; c++) {
            const float v = vae_load(a->src, a->src_type, c * n + p);
            bad += !vae_is_finite(v);
            vae_store(a->y, a->y_type, p * a->c + c,
                      v * a->scale[c] + a->shift[c]);
        }
    *a->nonfinite += bad;
}

void
vae_cpu_latent_out(const VaeQueue *q, const VaeLatentOutArgs *a)
{
    const float *x = a->x;
    const size_t n = (size_t) a->h * a->w;
    uint64_t bad = 0;
#pragma omp parallel for num_threads(q->threads) reduction(+ : bad)
    for (int c = 0; c < a->c; c++)
        for (size_t p = 0; p < n; p++) {
            const float mean = x[p * a->cx + c];
            const float v =
                a->sample
                    ? vae_sample(
                          mean,
                          x[p * a->cx + vae_logvar_channel(c, a->c, a->cx)],
                          vae_normal(a->seed, a->index, c, (int) p / a->w,
                                     (int) p % a->w))
                    : mean;
            bad += !vae_is_finite(v);
            vae_store(a->dst, a->dst_type, c * n + p,
                      a->normalise ? (v - a->mean[c]) / a->std[c] : v);
            if (a->mean_out)
                a->mean_out[c * n + p] = mean;
            if (a->logvar_out && a->cx > a->c)
                a->logvar_out[c * n + p] =
                    x[p * a->cx + vae_logvar_channel(c, a->c, a->cx)];
        }
    *a->nonfinite += bad;
}

void
vae_cpu_nonfinite(const VaeQueue *q, const VaeNonfiniteArgs *a)
{
    const size_t n = a->n;
    uint64_t bad = 0;
#pragma omp parallel for num_threads(q->threads) reduction(+ : bad)
    for (size_t i = 0; i < n; i++)
        bad += !vae_is_finite(vae_load(a->x, a->x_type, i));
    *a->counter += bad;
}

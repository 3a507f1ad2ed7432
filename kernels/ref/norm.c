/*
 * norm.c: the two norms; their statistics are in double.
 */
#include <math.h>

#include "ref.h"
#include "number.h"

size_t
vae_norm_sums(int h, int w, int groups)
{
    const size_t n = (size_t) h * w;
    const size_t blocks = (n + VAE_NORM_BLOCK - 1) / VAE_NORM_BLOCK;
    return blocks * groups * 2;
}

static float
silu(float v)
{
    return (float) (v / (1 + exp(-(double) v)));
}

/* The result, from its value before the activation. */
static float
activate(const VaeNormArgs *a, float v)
{
    const float least = a->relu && v < 0 ? 0 : v;
    return a->silu ? silu(v) : least;
}

static void
rms(const VaeNormArgs *a)
{
    const size_t n = (size_t) a->t * a->h * a->w;
    const float root = sqrtf((float) a->c);
    for (size_t p = 0; p < n; p++) {
        double sum = 0;
        for (int i = 0; i < a->c; i++) {
            const float v = vae_load(a->x, a->x_type, p * a->c + i);
            sum += (double) v * v;
        }
        const float length = (float) sqrt(sum + (double) a->c * a->eps);
        const float norm = length < 1e-12f ? 1e-12f : length;
        for (int i = 0; i < a->c; i++) {
            const float v = vae_load(a->x, a->x_type, p * a->c + i);
            const float y = v / norm * root * (a->gain ? a->gain[i] : 1) +
                            (a->offset ? a->offset[i] : 0);
            vae_store(a->y, a->y_type, p * a->c + i, activate(a, y));
        }
    }
}

/* The mean and the scale of channels first..first+n-1 of the frame that begins
 * at element `start`. */
static void
statistics(const VaeNormArgs *a, size_t start, int first, int n, double to[2])
{
    const size_t pixels = (size_t) a->h * a->w;
    double sum = 0, squares = 0;
    for (size_t p = 0; p < pixels; p++)
        for (int i = first; i < first + n; i++)
            sum += vae_load(a->x, a->x_type, start + p * a->c + i);
    const double mean = sum / ((double) pixels * n);
    for (size_t p = 0; p < pixels; p++)
        for (int i = first; i < first + n; i++) {
            const double d =
                vae_load(a->x, a->x_type, start + p * a->c + i) - mean;
            squares += d * d;
        }
    to[0] = mean;
    to[1] = 1 / sqrt(squares / ((double) pixels * n) + (double) a->eps);
}

static void
apply(const VaeNormArgs *a, size_t start, int first, int n,
      const double statistics[2])
{
    const size_t pixels = (size_t) a->h * a->w;
    const double mean = statistics[0], scale = statistics[1];
    for (size_t p = 0; p < pixels; p++)
        for (int i = first; i < first + n; i++) {
            const size_t at = start + p * a->c + i;
            const double v = vae_load(a->x, a->x_type, at);
            const float y =
                (float) ((v - mean) * scale * a->gain[i] + a->offset[i]);
            vae_store(a->y, a->y_type, at, activate(a, y));
        }
}

void
vae_ref_norm(const VaeQueue *q, const VaeNormArgs *a)
{
    if (a->kind == VAE_NORM_RMS) {
        rms(a);
        return;
    }
    const int n = a->c / a->groups;
    const size_t frame = (size_t) a->h * a->w * a->c;
    for (int f = 0; f < a->t; f++)
        for (int g = 0; g < a->groups; g++) {
            double own[2];
            double *of = a->statistics
                             ? a->statistics + 2 * ((size_t) f * a->groups + g)
                             : own;
            if (!a->y || !a->statistics)
                statistics(a, f * frame, g * n, n, of);
            if (a->y)
                apply(a, f * frame, g * n, n, of);
        }
}

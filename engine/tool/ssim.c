/*
 * ssim.c: structural similarity by separable windows.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "ssim.h"

enum { WINDOW = 11, MAPS = 5 };

typedef struct Window {
    int n;
    double w[WINDOW];
} Window;

static Window
window_for(int64_t length)
{
    Window g = {.n = length < WINDOW ? (int) length : WINDOW};
    double sum = 0;
    for (int i = 0; i < g.n; i++) {
        const double x = i - (g.n - 1) * 0.5;
        g.w[i] = exp(-x * x / (2 * 1.5 * 1.5));
        sum += g.w[i];
    }
    for (int i = 0; i < g.n; i++)
        g.w[i] /= sum;
    return g;
}

/* The weighted sums along x of a, b, aa, bb and ab in one row and colour. */
static void
filter_row(const Window *g, const float *a, const float *b, int64_t out,
           double *sums)
{
    for (int64_t x = 0; x < out; x++) {
        double s[MAPS] = {0};
        for (int i = 0; i < g->n; i++) {
            const double p = a[(x + i) * 3], q = b[(x + i) * 3], w = g->w[i];
            s[0] += w * p;
            s[1] += w * q;
            s[2] += w * p * p;
            s[3] += w * q * q;
            s[4] += w * p * q;
        }
        for (int m = 0; m < MAPS; m++)
            sums[x * MAPS + m] = s[m];
    }
}

static double
similarity(const double *s, double peak)
{
    const double c1 = 0.01 * peak * 0.01 * peak;
    const double c2 = 0.03 * peak * 0.03 * peak;
    const double va = s[2] - s[0] * s[0], vb = s[3] - s[1] * s[1];
    const double cov = s[4] - s[0] * s[1];
    return (2 * s[0] * s[1] + c1) * (2 * cov + c2) /
           ((s[0] * s[0] + s[1] * s[1] + c1) * (va + vb + c2));
}

/* Mean over the windows of one frame and colour. rows: scratch for h * out_w *
 * MAPS values. */
static double
ssim_plane(const float *a, const float *b, int64_t h, int64_t w, double peak,
           double *rows)
{
    const Window gx = window_for(w), gy = window_for(h);
    const int64_t out_w = w - gx.n + 1, out_h = h - gy.n + 1;
    double sum = 0;
    assert(h > 0 && w > 0);
    for (int64_t y = 0; y < h; y++)
        filter_row(&gx, a + y * w * 3, b + y * w * 3, out_w,
                   rows + y * out_w * MAPS);
    for (int64_t y = 0; y < out_h; y++) {
        for (int64_t x = 0; x < out_w; x++) {
            double s[MAPS] = {0};
            for (int i = 0; i < gy.n; i++) {
                const double *r = rows + ((y + i) * out_w + x) * MAPS;
                for (int m = 0; m < MAPS; m++)
                    s[m] += gy.w[i] * r[m];
            }
            sum += similarity(s, peak);
        }
    }
    return sum / ((double) out_w * (double) out_h);
}

double
ssim_video(const VaeTensorInfo *a, const VaeTensorInfo *b,
           const VideoRange *range, double peak)
{
    const int64_t t = a->dims[0], h = a->dims[1], w = a->dims[2];
    const size_t n = (size_t) (h * w * 3);
    float *fa = malloc(n * sizeof *fa), *fb = malloc(n * sizeof *fb);
    double *rows = malloc((size_t) (h * w) * MAPS * sizeof *rows);
    double sum = (double) NAN;
    if (!fa || !fb || !rows || t < 1 || n == 0)
        goto done;
    sum = 0;
    for (int64_t k = 0; k < t; k++) {
        const size_t at = (size_t) k * n;
        video_read(fa, (const uint8_t *) a->data + at * vae_type_size(a->type),
                   a->type, n, range);
        video_read(fb, (const uint8_t *) b->data + at * vae_type_size(b->type),
                   b->type, n, range);
        for (int c = 0; c < 3; c++)
            sum += ssim_plane(fa + c, fb + c, h, w, peak, rows);
    }
    sum /= (double) t * 3;
done:
    free(fa);
    free(fb);
    free(rows);
    return sum;
}

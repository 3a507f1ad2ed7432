/*
 * shortcut.c: the shortcuts without weights, by rows of y.
 */
#include "cpu.h"

static void
dup_row(const VaeShortcutArgs *a, int f, int r)
{
    const int rep = a->cy * a->ft * a->fs * a->fs / a->cx;
    const int w = a->w * a->fs, step = a->ft * a->fs * a->fs;
    const float *x = (const float *) a->x +
                     ((size_t) (f / a->ft) * a->h + r / a->fs) * a->w * a->cx;
    float *y = (float *) a->y +
               ((size_t) (f - a->drop) * a->h * a->fs + r) * w * a->cy;
    for (int q = 0; q < w; q++) {
        const float *from = x + (size_t) (q / a->fs) * a->cx;
        const int first = ((f % a->ft) * a->fs + r % a->fs) * a->fs + q % a->fs;
        for (int o = 0; o < a->cy && !a->channels_fast; o++)
            y[o] += from[(o * step + first) / rep];
        for (int o = 0; o < a->cy && a->channels_fast; o++)
            y[o] += from[(first * a->cy + o) / rep];
        y += a->cy;
    }
}

static void
average_row(const VaeShortcutArgs *a, int f, int r, int front)
{
    const int area = a->fs * a->fs, deep = a->ft * area;
    const int g = a->cx * deep / a->cy, w = a->w / a->fs;
    const float *x = a->x;
    float *y = (float *) a->y + ((size_t) f * (a->h / a->fs) + r) * w * a->cy;
    for (int q = 0; q < w; q++)
        for (int o = 0; o < a->cy; o++) {
            double sum = 0;
            for (int j = o * g; j < (o + 1) * g; j++) {
                const int c = a->channels_fast ? j % a->cx : j / deep;
                const int place = a->channels_fast ? j / a->cx : j % deep;
                int frame = f * a->ft + place / area - front;
                if (frame < 0 && !a->repeat)
                    continue;
                frame = frame < 0 ? 0 : frame;
                const size_t row = (size_t) r * a->fs + place / a->fs % a->fs;
                const size_t column = (size_t) q * a->fs + place % a->fs;
                sum +=
                    x[(((size_t) frame * a->h + row) * a->w + column) * a->cx +
                      c];
            }
            *y++ += (float) (sum / g);
        }
}

static void
tile_row(const VaeShortcutArgs *a, size_t row)
{
    const float *x = (const float *) a->x + row * a->w * a->cx;
    float *y = (float *) a->y + row * a->w * a->cy;
    for (int q = 0; q < a->w; q++, x += a->cx)
        for (int o = 0; o < a->cy; o += a->cx, y += a->cx)
            for (int c = 0; c < a->cx; c++)
                y[c] += x[c];
}

void
vae_cpu_shortcut(const VaeQueue *q, const VaeShortcutArgs *a)
{
    if (a->kind == VAE_SHORTCUT_TILE) {
#pragma omp parallel for num_threads(q->threads) schedule(static)
        for (int row = 0; row < a->t * a->h; row++)
            tile_row(a, (size_t) row);
        return;
    }
    if (a->kind == VAE_SHORTCUT_DUP) {
#pragma omp parallel for collapse(2) num_threads(q->threads) schedule(static)
        for (int f = a->drop; f < a->t * a->ft; f++)
            for (int r = 0; r < a->h * a->fs; r++)
                dup_row(a, f, r);
        return;
    }
    const int t = (a->t + a->ft - 1) / a->ft;
#pragma omp parallel for collapse(2) num_threads(q->threads) schedule(static)
    for (int f = 0; f < t; f++)
        for (int r = 0; r < a->h / a->fs; r++)
            average_row(a, f, r, t * a->ft - a->t);
}

/*
 * shortcut.c: the shortcuts without weights.
 */
#include "ref.h"

/* The index in the block of channel c, of n, at `place` in time, row, column.
 */
static int
index_of(const VaeShortcutArgs *a, int c, int n, int place)
{
    return a->channels_fast ? place * n + c : c * a->ft * a->fs * a->fs + place;
}

static void
duplicate(const VaeShortcutArgs *a)
{
    const int rep = a->cy * a->ft * a->fs * a->fs / a->cx;
    const int h = a->h * a->fs, w = a->w * a->fs;
    const float *x = a->x;
    float *y = a->y;
    for (int f = a->drop; f < a->t * a->ft; f++)
        for (int r = 0; r < h; r++)
            for (int q = 0; q < w; q++) {
                const size_t at =
                    ((size_t) (f / a->ft) * a->h + r / a->fs) * a->w +
                    q / a->fs;
                const int place =
                    (f % a->ft * a->fs + r % a->fs) * a->fs + q % a->fs;
                for (int o = 0; o < a->cy; o++)
                    *y++ += x[at * a->cx + index_of(a, o, a->cy, place) / rep];
            }
}

/* Element j of the block at (f, r, q) of y, with `front` frames added. */
static double
element(const VaeShortcutArgs *a, int f, int r, int q, int j, int front)
{
    const float *x = a->x;
    const int area = a->fs * a->fs, deep = a->ft * area;
    const int c = a->channels_fast ? j % a->cx : j / deep;
    const int place = a->channels_fast ? j / a->cx : j % deep;
    int frame = f * a->ft + place / area - front;
    if (frame < 0 && !a->repeat)
        return 0;
    frame = frame < 0 ? 0 : frame;
    const size_t row = (size_t) r * a->fs + place / a->fs % a->fs;
    const size_t column = (size_t) q * a->fs + place % a->fs;
    return x[(((size_t) frame * a->h + row) * a->w + column) * a->cx + c];
}

static void
average(const VaeShortcutArgs *a)
{
    const int g = a->cx * a->ft * a->fs * a->fs / a->cy;
    const int t = (a->t + a->ft - 1) / a->ft;
    const int front = t * a->ft - a->t;
    float *y = a->y;
    for (int f = 0; f < t; f++)
        for (int r = 0; r < a->h / a->fs; r++)
            for (int q = 0; q < a->w / a->fs; q++)
                for (int o = 0; o < a->cy; o++) {
                    double sum = 0;
                    for (int j = o * g; j < (o + 1) * g; j++)
                        sum += element(a, f, r, q, j, front);
                    *y++ += (float) (sum / g);
                }
}

static void
tile(const VaeShortcutArgs *a)
{
    const float *x = a->x;
    float *y = a->y;
    for (size_t i = 0; i < (size_t) a->t * a->h * a->w; i++, x += a->cx)
        for (int o = 0; o < a->cy; o++)
            *y++ += x[o % a->cx];
}

void
vae_ref_shortcut(const VaeQueue *q, const VaeShortcutArgs *a)
{
    if (a->kind == VAE_SHORTCUT_DUP)
        duplicate(a);
    else if (a->kind == VAE_SHORTCUT_TILE)
        tile(a);
    else
        average(a);
}

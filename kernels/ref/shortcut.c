/*
 * shortcut.c: the shortcuts without weights.
 */
#include "ref.h"

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
                for (int o = 0; o < a->cy; o++) {
                    const int block =
                        ((o * a->ft + f % a->ft) * a->fs + r % a->fs) * a->fs +
                        q % a->fs;
                    *y++ += x[at * a->cx + block / rep];
                }
            }
}

/* Element j of the block at (f, r, q) of y, with `front` frames added. */
static double
element(const VaeShortcutArgs *a, int f, int r, int q, int j, int front)
{
    const float *x = a->x;
    const int area = a->fs * a->fs;
    const int c = j / (a->ft * area), i = j / area % a->ft;
    int frame = f * a->ft + i - front;
    if (frame < 0 && !a->repeat)
        return 0;
    frame = frame < 0 ? 0 : frame;
    const size_t row = (size_t) r * a->fs + j / a->fs % a->fs;
    const size_t column = (size_t) q * a->fs + j % a->fs;
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

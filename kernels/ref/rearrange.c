/*
 * rearrange.c: moves and converts elements.
 */
#include "ref.h"
#include "number.h"

/* The element of x with channel 0 of phase i, row r, column q of a pixel. */
static size_t
source(const VaeRearrangeArgs *a, size_t pixel, int i, int r, int q)
{
    const size_t fs = (size_t) a->fs;
    const size_t square = r * fs + q;
    if (a->kind == VAE_UNFOLD_NEAREST)
        return (pixel * a->ft + i) * a->c;
    if (a->kind == VAE_NEAREST)
        return pixel * a->c;
    if (a->kind == VAE_SHUFFLE_TRQC)
        return ((pixel * a->ft + i) * fs * fs + square) * a->c;
    if (a->kind == VAE_JOIN_PHASES)
        return square * a->phase + pixel * a->c;
    return ((pixel * fs * fs + square) * a->ft + i) * a->c;
}

/* Writes phase i of frame f to frame `to` of y. */
static void
frame(const VaeRearrangeArgs *a, int f, int i, int to)
{
    const int h = a->h * a->fs, w = a->w * a->fs;
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            const size_t pixel =
                ((size_t) f * a->h + y / a->fs) * a->w + x / a->fs;
            const size_t from = source(a, pixel, i, y % a->fs, x % a->fs);
            const size_t at = (((size_t) to * h + y) * w + x) * a->c;
            for (int c = 0; c < a->c; c++)
                vae_store(a->y, a->y_type, at + c,
                          vae_load(a->x, a->x_type, from + c));
        }
}

/* To depth, or back: loops over the elements of the folded side. */
static void
fold(const VaeRearrangeArgs *a, bool back, bool column_first)
{
    const int p = a->fs, block = a->ft * p * p;
    const int h = back ? a->h : a->h / p, w = back ? a->w : a->w / p;
    const int colours = back ? a->c : a->c / block, deep = colours * block;
    const int t = back ? a->t : a->t / a->ft;
    for (size_t i = 0; i < (size_t) t * h * w * deep; i++) {
        const int k = (int) (i % deep), slow = k / p % p, fast = k % p;
        const int r = column_first ? fast : slow;
        const int q = column_first ? slow : fast;
        const size_t c = k / block, x = i / deep % w;
        const size_t y = i / deep / w % h;
        const size_t f = i / deep / w / h * a->ft + k / (p * p) % a->ft;
        const size_t flat =
            ((f * h * p + y * p + r) * w * p + x * p + q) * colours + c;
        vae_store(a->y, a->y_type, back ? flat : i,
                  vae_load(a->x, a->x_type, back ? i : flat));
    }
}

/* To depth with the channels fastest. */
static void
fold_runs(const VaeRearrangeArgs *a)
{
    const int area = a->fs * a->fs, block = a->ft * area;
    const int t = (a->t + a->ft - 1) / a->ft, front = t * a->ft - a->t;
    const int h = a->h / a->fs, w = a->w / a->fs, colours = a->c / block;
    for (size_t i = 0; i < (size_t) t * h * w * a->c; i++) {
        const int k = (int) (i % a->c) / colours;
        const size_t site = i / a->c;
        const int f = (int) (site / w / h) * a->ft + k / area - front;
        const size_t y = site / w % h * a->fs + k / a->fs % a->fs;
        const size_t x = site % w * a->fs + k % a->fs;
        const size_t from = ((f < 0 ? 0 : f) * (size_t) a->h + y) * a->w + x;
        vae_store(a->y, a->y_type, i,
                  vae_load(a->x, a->x_type, from * colours + i % colours));
    }
}

/* Returns the row or column, of n, that is number i with a border in front. */
static size_t
inside(const VaeRearrangeArgs *a, int i, int n)
{
    const int past = a->kind == VAE_REFLECT;
    return (size_t) (i < 0 ? past : i >= n ? n - 1 - past : i);
}

static void
border(const VaeRearrangeArgs *a)
{
    size_t to = 0;
    for (int f = 0; f < a->t; f++)
        for (int y = 0; y < a->rows; y++)
            for (int x = 0; x < a->w + 2; x++) {
                const size_t row =
                    (size_t) f * a->h + inside(a, y - a->top, a->h);
                const size_t at = row * a->w + inside(a, x - 1, a->w);
                for (int c = 0; c < a->c; c++)
                    vae_store(a->y, a->y_type, to++,
                              vae_load(a->x, a->x_type, at * a->c + c));
            }
}

void
vae_ref_rearrange(const VaeQueue *q, const VaeRearrangeArgs *a)
{
    if (vae_rearrange_is_border(a->kind)) {
        border(a);
        return;
    }
    if (a->kind == VAE_FOLD_TRQC) {
        fold_runs(a);
        return;
    }
    if (a->kind >= VAE_FOLD_CQR) {
        fold(a, a->kind == VAE_UNFOLD_CQR || a->kind == VAE_UNFOLD_CRQ,
             a->kind == VAE_FOLD_CQR || a->kind == VAE_UNFOLD_CQR);
        return;
    }
    int to = 0;
    for (int k = 0; k < a->t * a->ft; k++)
        if (k != 1 || !a->drop)
            frame(a, k / a->ft, k % a->ft, to++);
}

void
vae_ref_cast(const VaeQueue *q, const VaeCastArgs *a)
{
    for (size_t i = 0; i < a->n; i++)
        vae_store(a->y, a->y_type, i, vae_load(a->x, a->x_type, i));
}

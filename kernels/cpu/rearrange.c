/*
 * rearrange.c: moves and converts elements, by rows of y.
 */
#include <string.h>

#include "cpu.h"
#include "number.h"
#include "simd/simd.h"

static size_t
size_of(VaeType type)
{
    return type == VAE_TYPE_F32 ? 4 : 2;
}

/* The element of x with channel 0 of phase i, row r, column q, counted from the
 * start of its pixel. */
static size_t
source(const VaeRearrangeArgs *a, int i, int r, int q)
{
    const size_t square = (size_t) r * a->fs + q;
    if (a->kind == VAE_UNFOLD_NEAREST)
        return (size_t) i * a->c;
    if (a->kind == VAE_NEAREST)
        return 0;
    if (a->kind == VAE_SHUFFLE_TRQC)
        return ((size_t) i * a->fs * a->fs + square) * a->c;
    if (a->kind == VAE_JOIN_PHASES)
        return square * a->phase;
    return (square * a->ft + i) * a->c;
}

/* Channels between pixels of x. */
static size_t
pixel_channels(const VaeRearrangeArgs *a)
{
    if (a->kind == VAE_JOIN_PHASES || a->kind == VAE_NEAREST)
        return (size_t) a->c;
    const size_t c = (size_t) a->ft * a->c;
    return a->kind == VAE_UNFOLD_NEAREST ? c : c * a->fs * a->fs;
}

/* Writes row r of phase i of the w pixels at x. */
static void
row(const VaeRearrangeArgs *a, const VaeSimd *simd, uint8_t *y,
    const uint8_t *x, int i, int r)
{
    const size_t cx = pixel_channels(a);
    const size_t from = size_of(a->x_type), to = size_of(a->y_type);
    for (int p = 0; p < a->w; p++)
        for (int q = 0; q < a->fs; q++) {
            const uint8_t *at = x + (p * cx + source(a, i, r, q)) * from;
            if (a->x_type == a->y_type)
                memcpy(y, at, a->c * to);
            else
                simd->convert(y, a->y_type, at, a->x_type, a->c);
            y += a->c * to;
        }
}

/* Moves row y of frame f of the folded side from or to its fs rows of ft
 * frames. */
static void
fold_row(const VaeRearrangeArgs *a, int f, int y, int h, int w)
{
    const bool back = a->kind == VAE_UNFOLD_CQR || a->kind == VAE_UNFOLD_CRQ;
    const bool column_first =
        a->kind == VAE_FOLD_CQR || a->kind == VAE_UNFOLD_CQR;
    const int p = a->fs, block = a->ft * p * p;
    const int colours = back ? a->c : a->c / block;
    size_t deep = ((size_t) f * h + y) * w * colours * block;
    for (int x = 0; x < w; x++)
        for (int c = 0; c < colours; c++)
            for (int k = 0; k < block; k++, deep++) {
                const int r = column_first ? k % p : k / p % p;
                const int q = column_first ? k / p % p : k % p;
                const size_t row =
                    ((size_t) f * a->ft + k / (p * p)) * h * p + y * p + r;
                const size_t flat = (row * w * p + x * p + q) * colours + c;
                vae_store(a->y, a->y_type, back ? flat : deep,
                          vae_load(a->x, a->x_type, back ? deep : flat));
            }
}

static void
fold(const VaeQueue *q, const VaeRearrangeArgs *a)
{
    const bool back = a->kind == VAE_UNFOLD_CQR || a->kind == VAE_UNFOLD_CRQ;
    const int p = a->fs, t = back ? a->t : a->t / a->ft;
    const int h = back ? a->h : a->h / p, w = back ? a->w : a->w / p;
#pragma omp parallel for collapse(2) num_threads(q->threads) schedule(static)
    for (int f = 0; f < t; f++)
        for (int y = 0; y < h; y++)
            fold_row(a, f, y, h, w);
}

static void
move(const VaeRearrangeArgs *a, const VaeSimd *simd, size_t to, size_t from,
     size_t n)
{
    uint8_t *y = (uint8_t *) a->y + to * size_of(a->y_type);
    const uint8_t *x = (const uint8_t *) a->x + from * size_of(a->x_type);
    if (a->x_type == a->y_type)
        memcpy(y, x, n * size_of(a->y_type));
    else
        simd->convert(y, a->y_type, x, a->x_type, n);
}

/* Row y of the picture with a border. */
static void
border_row(const VaeRearrangeArgs *a, const VaeSimd *simd, int f, int y)
{
    const size_t c = (size_t) a->c, w = (size_t) a->w;
    const int past = a->kind == VAE_REFLECT, at = y - a->top;
    const int row = at < 0 ? past : at >= a->h ? a->h - 1 - past : at;
    const size_t from = ((size_t) f * a->h + row) * w * c;
    const size_t to = ((size_t) f * a->rows + y) * (w + 2) * c;
    move(a, simd, to, from + past * c, c);
    move(a, simd, to + c, from, w * c);
    move(a, simd, to + (w + 1) * c, from + (w - 1 - past) * c, c);
}

static void
border(const VaeQueue *q, const VaeRearrangeArgs *a)
{
    const VaeSimd *simd = vae_cpu_simd(q);
#pragma omp parallel for collapse(2) num_threads(q->threads) schedule(static)
    for (int f = 0; f < a->t; f++)
        for (int y = 0; y < a->rows; y++)
            border_row(a, simd, f, y);
}

/* Row y of frame f of VAE_FOLD_TRQC. */
static void
fold_runs_row(const VaeRearrangeArgs *a, const VaeSimd *simd, int f, int y)
{
    const int p = a->fs, w = a->w / p, block = a->ft * p * p;
    const size_t n = (size_t) a->c / block * p; /* of p pixels of x */
    size_t to = ((size_t) f * (a->h / p) + y) * w * a->c;
    for (int x = 0; x < w; x++)
        for (int k = 0; k < a->ft * p; k++, to += n) {
            const int front = (a->ft - a->t % a->ft) % a->ft;
            const int at = f * a->ft + k / p - front;
            const size_t row = (size_t) (at < 0 ? 0 : at) * a->h + y * p;
            move(a, simd, to, ((row + k % p) * w + x) * n, n);
        }
}

static void
fold_runs(const VaeQueue *q, const VaeRearrangeArgs *a)
{
    const VaeSimd *simd = vae_cpu_simd(q);
    const int t = (a->t + a->ft - 1) / a->ft;
#pragma omp parallel for collapse(2) num_threads(q->threads) schedule(static)
    for (int f = 0; f < t; f++)
        for (int y = 0; y < a->h / a->fs; y++)
            fold_runs_row(a, simd, f, y);
}

void
vae_cpu_rearrange(const VaeQueue *q, const VaeRearrangeArgs *a)
{
    if (vae_rearrange_is_border(a->kind)) {
        border(q, a);
        return;
    }
    if (a->kind == VAE_FOLD_TRQC) {
        fold_runs(q, a);
        return;
    }
    if (a->kind >= VAE_FOLD_CQR) {
        fold(q, a);
        return;
    }
    const VaeSimd *simd = vae_cpu_simd(q);
    const bool nearest = vae_rearrange_is_nearest(a->kind);
    const int frames = a->t * a->ft;
    const size_t x_row = a->w * pixel_channels(a) * size_of(a->x_type);
    const size_t y_row = (size_t) a->w * a->fs * a->c * size_of(a->y_type);
#pragma omp parallel for collapse(2) num_threads(q->threads) schedule(static)
    for (int k = 0; k < frames; k++)
        for (int h = 0; h < a->h; h++) {
            if (k == 1 && a->drop)
                continue;
            const size_t to = k > 1 && a->drop ? k - 1 : k;
            const uint8_t *x = (const uint8_t *) a->x +
                               ((size_t) (k / a->ft) * a->h + h) * x_row;
            uint8_t *y = (uint8_t *) a->y + (to * a->h + h) * a->fs * y_row;
            for (int r = 0; r < a->fs; r++)
                if (nearest && r)
                    memcpy(y + r * y_row, y, y_row);
                else
                    row(a, simd, y + r * y_row, x, k % a->ft, r);
        }
}

void
vae_cpu_cast(const VaeQueue *q, const VaeCastArgs *a)
{
    const VaeSimd *simd = vae_cpu_simd(q);
    const size_t part = 1 << 14;
#pragma omp parallel for num_threads(q->threads) schedule(static)
    for (size_t i = 0; i < a->n; i += part)
        simd->convert((uint8_t *) a->y + i * size_of(a->y_type), a->y_type,
                      (const uint8_t *) a->x + i * size_of(a->x_type),
                      a->x_type, a->n - i < part ? a->n - i : part);
}

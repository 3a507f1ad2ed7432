/*
 * tiles.c: tests the transforms of Winograd's F(2x2, 3x3): of tiles, of results
 * and of taps. Each result is a sum in a fixed order, so every vector code must
 * give the same bytes. winograd.c tests whole convolutions.
 */

#include "../check.h"
#include "cpu/simd.h"

static const int lengths[] = {1, 3, 8, 15, 16, 17, 31, 33, 96};

static float *
floats(VaeCheck *t, size_t n)
{
    return vae_check_buffer(t, n * sizeof(float), sizeof(float));
}

enum { MOST_TILES = 4 };

/* The flags of a case of check_in(). */
enum { IN_MINUS = 1, IN_FIRST = 2, IN_ZEROS = 4, IN_FLAGS = 8 };

/* Returns channel c of the sum for pixel i. */
static float
tile_sum(const VaeTileIn *a, int i, int c)
{
    if (i < a->first || i >= a->end)
        return 0;
    const float p = a->a[(ptrdiff_t) a->a_step * (i - 1) + c];
    const float q = a->b[(ptrdiff_t) a->b_step * (i - 1) + c];
    return a->minus ? p - q : p + q;
}

/* behind: number of pixels by which the last tiles exceed the row. */
static void
check_one_in(VaeCheck *t, int n, int tiles, int behind, int flags)
{
    if (!vae_check_begin(t, "tile_in_%d_%d_%d_%d", n, tiles, behind, flags))
        return;
    const int end = 2 * tiles + 2 - behind, first = flags & IN_FIRST ? 1 : 0;
    const size_t step = (size_t) n + 3, bytes = (size_t) (tiles * n) * 4;
    VaeTileIn a = {.minus = flags & IN_MINUS,
                   .first = first,
                   .end = end,
                   .tiles = tiles,
                   .n = n,
                   .a_step = step,
                   .b_step = flags & IN_ZEROS ? 0 : step};
    /* There is no memory after the end. */
    const size_t count = (size_t) (end - first - 1) * step + (size_t) n;
    const float *x = vae_check_random(t, count, 1);
    a.a = first ? x : x + step;
    x = flags & IN_ZEROS ? floats(t, (size_t) n)
                         : vae_check_random(t, count, 1);
    a.b = flags & IN_ZEROS || first ? x : x + step;
    if (flags & IN_ZEROS)
        memset((float *) a.b, 0, (size_t) n * sizeof(float));
    float *want[4];
    for (int k = 0; k < 4; k++)
        want[k] = floats(t, (size_t) (tiles * n));
    for (int i = 0; i < tiles; i++)
        for (int c = 0; c < n; c++) {
            float e[4];
            for (int k = 0; k < 4; k++)
                e[k] = tile_sum(&a, 2 * i + k, c);
            want[0][i * n + c] = e[0] - e[2];
            want[1][i * n + c] = e[1] + e[2];
            want[2][i * n + c] = e[2] - e[1];
            want[3][i * n + c] = e[3] - e[1];
        }
    VaeQueue q;
    for (size_t set = 0; vae_check_queue(set, &q); set++) {
        for (int k = 0; k < 4; k++)
            a.y[k] = floats(t, (size_t) (tiles * n));
        vae_cpu_simd(&q)->tile_in(&a);
        for (int k = 0; k < 4; k++)
            vae_check_equal(t, "y", a.y[k], want[k], bytes);
    }
}

static void
check_in(VaeCheck *t)
{
    for (size_t i = 0; i < VAE_COUNT(lengths); i++)
        for (int tiles = 1; tiles <= MOST_TILES; tiles++)
            for (int behind = 0; behind < 2 * tiles && behind < 4; behind++)
                for (int flags = 0; flags < IN_FLAGS; flags++)
                    check_one_in(t, lengths[i], tiles, behind, flags);
}

/* The flags of a Row. */
enum { MINUS = 1, RELU = 2, BIAS = 4, FROM = 8, THERE = 16, FLAGS = 32 };

/* One of a tile's two rows. */
typedef struct Row {
    int flags;
    float *want;
    const float *from;
} Row;

static Row
make_row(VaeCheck *t, const VaeTileOut *a, const float *bias, int flags)
{
    const size_t n = (size_t) a->pixels * (size_t) a->n;
    Row row = {.flags = flags};
    if (!(flags & THERE))
        return row;
    row.want = floats(t, n);
    if (flags & FROM)
        row.from = vae_check_random(t, n, 1);
    for (int i = 0; i < a->pixels; i++)
        for (int c = 0; c < a->n; c++) {
            const int at = i * a->n + c, m = i / 2 * a->n + c;
            const float m1 = a->m[1][m], m2 = a->m[2][m];
            const float z = i % 2 ? m1 - m2 + a->m[3][m] : a->m[0][m] + m1 + m2;
            float y = row.from ? row.from[at] : 0;
            if (flags & BIAS)
                y += bias[c];
            y = flags & MINUS ? y - z : y + z;
            row.want[at] = flags & RELU && y < 0 ? 0 : y;
        }
    return row;
}

static void
set_row(VaeCheck *t, const VaeTileOut *a, const Row *row, const float *bias,
        bool over, VaeTileRow *out)
{
    const size_t n = (size_t) a->pixels * (size_t) a->n;
    *out = (VaeTileRow){.minus = row->flags & MINUS,
                        .relu = row->flags & RELU,
                        .bias = row->flags & BIAS ? bias : NULL,
                        .from = row->from};
    if (!(row->flags & THERE))
        return;
    out->y = floats(t, n);
    if (!over || !row->from)
        return;
    memcpy(out->y, row->from, n * sizeof(float));
    out->from = out->y;
}

static void
check_one_out(VaeCheck *t, int n, int pixels, int upper, int lower)
{
    if (!vae_check_begin(t, "tile_out_%d_%d_%d_%d", n, pixels, upper, lower))
        return;
    const size_t tiles = (size_t) (pixels + 1) / 2;
    const float *bias = vae_check_random(t, (size_t) n, 1);
    VaeTileOut a = {.pixels = pixels, .n = n};
    for (int k = 0; k < 4; k++)
        a.m[k] = vae_check_random(t, tiles * (size_t) n, 1);
    ((float *) a.m[1])[n / 2] = NAN; /* remains NaN */
    const Row rows[2] = {make_row(t, &a, bias, upper),
                         make_row(t, &a, bias, lower)};
    VaeQueue q;
    for (size_t set = 0; vae_check_queue(set, &q); set++)
        for (int over = 0; over < 2; over++) {
            for (int k = 0; k < 2; k++)
                set_row(t, &a, &rows[k], bias, over, &a.row[k]);
            vae_cpu_simd(&q)->tile_out(&a);
            for (int k = 0; k < 2; k++)
                if (a.row[k].y)
                    vae_check_close(t, over ? "y over itself" : "y", a.row[k].y,
                                    rows[k].want, (size_t) pixels * (size_t) n,
                                    vae_no_difference);
        }
}

static void
check_out(VaeCheck *t)
{
    for (size_t i = 0; i < VAE_COUNT(lengths); i++)
        for (int pixels = 1; pixels <= 2 * MOST_TILES; pixels++)
            for (int flags = 0; flags < FLAGS; flags++)
                check_one_out(t, lengths[i], pixels, flags,
                              (7 * flags + pixels) % FLAGS);
}

/* Returns transformed tap `which` of three taps at `stride`. */
static float
tap(const float *g, size_t stride, int which)
{
    const float ends = 0.5f * (g[0] + g[2 * stride]);
    return which == 0   ? g[0]
           : which == 3 ? g[2 * stride]
           : which == 1 ? ends + 0.5f * g[stride]
                        : ends - 0.5f * g[stride];
}

static void
check_taps(VaeCheck *t)
{
    for (size_t i = 0; i < VAE_COUNT(lengths); i++) {
        const size_t n = (size_t) lengths[i], stride = n + i % 2 * 5;
        if (!vae_check_begin(t, "tile_taps_%zu", n))
            continue;
        const float *taps = vae_check_random(t, 9 * n, 1);
        float *want = floats(t, 16 * stride);
        for (size_t k = 0; k < n; k++)
            for (int part = 0; part < 16; part++) {
                float row[3];
                for (size_t c = 0; c < 3; c++)
                    row[c] = tap(taps + 9 * k + c, 3, part / 4);
                want[(size_t) part * stride + k] = tap(row, 1, part % 4);
            }
        VaeQueue q;
        for (size_t set = 0; vae_check_queue(set, &q); set++) {
            float *y = floats(t, 16 * stride);
            vae_cpu_simd(&q)->tile_taps(y, stride, taps, n);
            vae_check_equal(t, "taps", y, want, 16 * stride * sizeof *y);
        }
    }
}

VAE_CHECK_MAIN(check_in, check_out, check_taps)

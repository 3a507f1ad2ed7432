/*
 * tiles.c: tests the transforms of Winograd's F(2x2x2, 3x3x3) and F(2x2, 3x3):
 * of tiles, of results and of taps. Each result is a sum in a fixed order, so
 * every vector code must give the same bytes. winograd.c tests whole
 * convolutions.
 */

#include "../check.h"
#include "cpu/simd/simd.h"

static const int lengths[] = {1, 3, 8, 15, 16, 17, 31, 33, 96};

static float *
floats(VaeCheck *t, size_t n)
{
    return vae_check_buffer(t, n * sizeof(float), sizeof(float));
}

enum { MOST_TILES = 4 };

/* The flags of a case of check_in(): SECOND and ALONE are pairs of which only
 * the second or the first frame is wanted. TIMELESS: one frame, without time.
 */
enum {
    IN_MINUS = 1,
    IN_FIRST = 2,
    IN_ZEROS = 4,
    IN_SECOND = 8,
    IN_ALONE = 16,
    IN_TIMELESS = 24,
    IN_FLAGS = 32
};

/* Result k of the transform of v. */
static float
turned(const float v[4], int k)
{
    return k == 0   ? v[0] - v[2]
           : k == 1 ? v[1] + v[2]
           : k == 2 ? v[2] - v[1]
                    : v[3] - v[1];
}

/* Returns channel c of result `time` for pixel i. */
static float
tile_sum(const VaeTileIn *a, int i, int c, int time)
{
    float v[4] = {0};
    for (int f = a->from; f < a->until && i >= a->first && i < a->end; f++) {
        const float p = a->a[f][(ptrdiff_t) a->a_step * (i - 1) + c];
        const float q = a->b[f][(ptrdiff_t) a->b_step * (i - 1) + c];
        v[f] = a->minus ? p - q : p + q;
    }
    return a->times == 1 ? v[0] : turned(v, time);
}

/* Sets the rows of four frames. There is no memory after their end, and none
 * for a frame that is not read. */
static void
make_rows(VaeCheck *t, VaeTileIn *a, int flags)
{
    const size_t step = (size_t) a->n + 3;
    const size_t count =
        (size_t) (a->end - a->first - 1) * step + (size_t) a->n;
    for (int f = a->from; f < a->until; f++) {
        const float *x = vae_check_random(t, count, 1);
        a->a[f] = a->first ? x : x + step;
        x = flags & IN_ZEROS ? floats(t, (size_t) a->n)
                             : vae_check_random(t, count, 1);
        a->b[f] = flags & IN_ZEROS || a->first ? x : x + step;
        if (flags & IN_ZEROS)
            memset((float *) a->b[f], 0, (size_t) a->n * sizeof(float));
    }
}

/* behind: number of pixels by which the last tiles exceed the row. */
static void
check_one_in(VaeCheck *t, int n, int tiles, int behind, int flags)
{
    if (!vae_check_begin(t, "tile_in_%d_%d_%d_%d", n, tiles, behind, flags))
        return;
    const size_t step = (size_t) n + 3;
    const size_t count = (size_t) tiles * (size_t) n;
    const bool timeless = flags >= IN_TIMELESS;
    VaeTileIn a = {.times = timeless ? 1 : 4,
                   .minus = flags & IN_MINUS,
                   .first = flags & IN_FIRST ? 1 : 0,
                   .end = 2 * tiles + 2 - behind,
                   .tiles = tiles,
                   .n = n,
                   .a_step = step,
                   .b_step = flags & IN_ZEROS ? 0 : step,
                   .from = !timeless && flags & IN_SECOND ? 1 : 0,
                   .until = timeless           ? 1
                            : flags & IN_ALONE ? 3
                                               : 4};
    make_rows(t, &a, flags);
    float *want[16];
    for (int k = 0; k < 16; k++) {
        want[k] = floats(t, count);
        for (int i = 0; i < tiles * n; i++) {
            float e[4];
            for (int q = 0; q < 4; q++)
                e[q] = tile_sum(&a, 2 * (i / n) + q, i % n, k / 4);
            want[k][i] = turned(e, k % 4);
        }
    }
    VaeQueue q;
    for (size_t set = 0; vae_check_queue(set, &q); set++) {
        for (int k = 4 * a.from; k < 4 * a.until; k++)
            a.y[k / 4][k % 4] = floats(t, count);
        vae_cpu_simd(&q)->tiles->in(&a);
        for (int k = 4 * a.from; k < 4 * a.until; k++)
            vae_check_equal(t, "y", a.y[k / 4][k % 4], want[k],
                            count * sizeof(float));
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
make_row(VaeCheck *t, const VaeTileOut *a, const float *bias, int frame,
         int flags)
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
            float k[4];
            for (int q = 0; q < 4; q++)
                k[q] = a->times == 1 ? a->m[0][q][m]
                       : frame ? a->m[1][q][m] - a->m[2][q][m] + a->m[3][q][m]
                               : a->m[0][q][m] + a->m[1][q][m] + a->m[2][q][m];
            const float z = i % 2 ? k[1] - k[2] + k[3] : k[0] + k[1] + k[2];
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

/* rows: the flags of the four rows; a frame without rows has no products. */
static void
check_one_out(VaeCheck *t, int n, int times, int pixels, const int rows[4])
{
    if (!vae_check_begin(t, "tile_out_%d_%d_%d_%d_%d_%d_%d", n, times, pixels,
                         rows[0], rows[1], rows[2], rows[3]))
        return;
    const size_t tiles = (size_t) (pixels + 1) / 2;
    const float *bias = vae_check_random(t, (size_t) n, 1);
    const bool first = (rows[0] | rows[1]) & THERE;
    const bool second = (rows[2] | rows[3]) & THERE;
    VaeTileOut a = {.times = times, .pixels = pixels, .n = n};
    const int end = times == 1 ? 4 : second ? 16 : 12;
    for (int k = first || times == 1 ? 0 : 4; k < end; k++)
        a.m[k / 4][k % 4] = vae_check_random(t, tiles * (size_t) n, 1);
    ((float *) a.m[times / 4][1])[n / 2] = NAN; /* remains NaN */
    Row row[4];
    for (int k = 0; k < 4; k++)
        row[k] = make_row(t, &a, bias, k / 2, rows[k]);
    VaeQueue q;
    for (size_t set = 0; vae_check_queue(set, &q); set++)
        for (int over = 0; over < 2; over++) {
            for (int k = 0; k < 4; k++)
                set_row(t, &a, &row[k], bias, over, &a.row[k / 2][k % 2]);
            vae_cpu_simd(&q)->tiles->out(&a);
            for (int k = 0; k < 4; k++)
                if (a.row[k / 2][k % 2].y)
                    vae_check_close(t, over ? "y over itself" : "y",
                                    a.row[k / 2][k % 2].y, row[k].want,
                                    (size_t) pixels * (size_t) n,
                                    vae_no_difference);
        }
}

static void
check_out(VaeCheck *t)
{
    for (size_t i = 0; i < VAE_COUNT(lengths); i++)
        for (int pixels = 1; pixels <= 2 * MOST_TILES; pixels++)
            for (int flags = 0; flags < FLAGS; flags++) {
                const int other = (7 * flags + pixels) % FLAGS;
                const int late = (11 * flags + 5) % FLAGS;
                check_one_out(
                    t, lengths[i], 4, pixels,
                    (const int[4]){flags, other, late, (3 * late + 1) % FLAGS});
                check_one_out(t, lengths[i], 4, pixels,
                              (const int[4]){0, 0, flags, other});
                check_one_out(t, lengths[i], 1, pixels,
                              (const int[4]){flags, other, 0, 0});
            }
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
            vae_cpu_simd(&q)->tiles->taps(y, stride, taps, n);
            vae_check_equal(t, "taps", y, want, 16 * stride * sizeof *y);
        }
    }
}

VAE_CHECK_MAIN(check_in, check_out, check_taps)

/*
 * tiles.c: see tiles.h. It is compiled once for each instruction set, as
 * simd.c.
 */
#include "tiles.h"

#include <string.h>

#include "number.h"
#include "vector.h"

#define TABLE_OF(x) vae_tiles_##x
#define TABLE(x) TABLE_OF(x)

INLINE V
tile_tap(V g0, V g1, V g2, int which)
{
    return which == 0   ? g0
           : which == 1 ? 0.5f * (g0 + g2) + 0.5f * g1
           : which == 2 ? 0.5f * (g0 + g2) - 0.5f * g1
                        : g2;
}

/* Transforms `some` kernels, at most LANES. */
INLINE void
tile_taps_some(float *y, size_t stride, const float *taps, int some)
{
    float turned[9 * LANES] = {0};
    V g[9], row[3];
    for (int k = 0; k < some; k++)
        for (int i = 0; i < 9; i++)
            turned[i * LANES + k] = taps[9 * k + i];
    for (int i = 0; i < 9; i++)
        g[i] = load(turned, VAE_TYPE_F32, (size_t) i * LANES);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        for (int k = 0; k < 3; k++)
            row[k] = tile_tap(g[k], g[3 + k], g[6 + k], i / 4);
        store_some(y + (size_t) i * stride, VAE_TYPE_F32, 0,
                   tile_tap(row[0], row[1], row[2], i % 4), some);
    }
}

static void
tile_taps(float *y, size_t stride, const float *taps, size_t n)
{
    size_t k = 0;
    for (; k + LANES <= n; k += LANES)
        tile_taps_some(y + k, stride, taps + 9 * k, LANES);
    if (k < n)
        tile_taps_some(y + k, stride, taps + 9 * k, (int) (n - k));
}

/* n channels of pixel i of the sums, from channel c on, in frame f. */
INLINE V
tile_sum(const VaeTileIn *a, int f, int i, size_t c, int n, bool minus)
{
    const V p = load_some(a->a[f] + (ptrdiff_t) a->a_step * (i - 1),
                          VAE_TYPE_F32, c, n);
    const V q = load_some(a->b[f] + (ptrdiff_t) a->b_step * (i - 1),
                          VAE_TYPE_F32, c, n);
    return minus ? p - q : p + q;
}

/* Result k of the transform of four values. */
INLINE V
tile_turn(V v0, V v1, V v2, V v3, int k)
{
    return k == 0 ? v0 - v2 : k == 1 ? v1 + v2 : k == 2 ? v2 - v1 : v3 - v1;
}

/* The fields of a VaeTileIn that the compiler knows. */
typedef struct TileIn {
    int times;
    bool minus;
} TileIn;

/* Transforms pixel i in time, to e[0..times-1]. */
INLINE void
tile_times(const VaeTileIn *a, int i, size_t c, int n, TileIn in, V e[4])
{
    V v[4] = {{0}};
#pragma GCC unroll 4
    for (int f = 0; f < in.times; f++)
        if (i >= a->first && i < a->end && f + 1 > a->from && f < a->until)
            v[f] = tile_sum(a, f, i, c, n, in.minus);
#pragma GCC unroll 4
    for (int k = 0; k < in.times; k++)
        e[k] = in.times == 1 ? v[0] : tile_turn(v[0], v[1], v[2], v[3], k);
}

/* n channels of all tiles from c on. */
INLINE void
tile_in_some(const VaeTileIn *a, size_t c, int n, TileIn in)
{
    V e[4][4]; /* [column][time] */
    tile_times(a, 0, c, n, in, e[0]);
    tile_times(a, 1, c, n, in, e[1]);
    for (int i = 0; i < a->tiles; i++) {
        const size_t to = (size_t) i * (size_t) a->n + c;
        tile_times(a, 2 * i + 2, c, n, in, e[2]);
        tile_times(a, 2 * i + 3, c, n, in, e[3]);
#pragma GCC unroll 4
        for (int k = 0; k < in.times; k++) {
            if (k >= a->from && k < a->until)
                for (int q = 0; q < 4; q++)
                    store_some(a->y[k][q], VAE_TYPE_F32, to,
                               tile_turn(e[0][k], e[1][k], e[2][k], e[3][k], q),
                               n);
            e[0][k] = e[2][k];
            e[1][k] = e[3][k];
        }
    }
}

INLINE void
tile_in_all(const VaeTileIn *a, TileIn in)
{
    int c = 0;
    for (; c + LANES <= a->n; c += LANES)
        tile_in_some(a, (size_t) c, LANES, in);
    if (c < a->n)
        tile_in_some(a, (size_t) c, a->n - c, in);
}

static void
tile_in(const VaeTileIn *a)
{
    const VaeTileIn own = *a; /* a copy that no store can alias */
    if (own.times == 1 && own.minus)
        tile_in_all(&own, (TileIn){1, true});
    else if (own.times == 1)
        tile_in_all(&own, (TileIn){1, false});
    else if (own.minus)
        tile_in_all(&own, (TileIn){4, true});
    else
        tile_in_all(&own, (TileIn){4, false});
}

/* Adds or subtracts z at channel c of a pixel of the row. */
INLINE void
tile_row(const VaeTileRow *r, size_t pixel, size_t c, int n, V z)
{
    V y = r->from ? load_some(r->from, VAE_TYPE_F32, pixel + c, n) : (V){0};
    if (r->bias)
        y += load_some(r->bias, VAE_TYPE_F32, c, n);
    y = r->minus ? y - z : y + z;
    if (r->relu)
        y = choose(y < (V){0}, (V){0}, y);
    store_some(r->y, VAE_TYPE_F32, pixel + c, y, n);
}

/* n channels of product `time` of column k. */
INLINE V
tile_product(const VaeTileOut *a, int time, int k, size_t at, int n)
{
    return load_some(a->m[time][k], VAE_TYPE_F32, at, n);
}

/* What the compiler knows: the frame, of `times` times. */
typedef struct TileOut {
    int times, frame;
} TileOut;

/* The pixels of tile i in one frame; `both`: its columns. */
INLINE void
tile_out_some(const VaeTileOut *a, TileOut out, int i, size_t c, int n,
              bool both)
{
    const size_t channels = (size_t) a->n;
    const size_t at = (size_t) i * channels + c;
    const size_t pixel = 2 * (size_t) i * channels;
    V m[4];
    for (int k = 0; k < 4; k++) {
        if (out.times == 1) {
            m[k] = tile_product(a, 0, k, at, n);
            continue;
        }
        const V m1 = tile_product(a, 1, k, at, n);
        const V m2 = tile_product(a, 2, k, at, n);
        m[k] = out.frame ? m1 - m2 + tile_product(a, 3, k, at, n)
                         : tile_product(a, 0, k, at, n) + m1 + m2;
    }
    const V z0 = m[0] + m[1] + m[2], z1 = m[1] - m[2] + m[3];
    for (int k = 0; k < 2; k++) {
        const VaeTileRow *row = &a->row[out.frame][k];
        if (!row->y)
            continue;
        tile_row(row, pixel, c, n, z0);
        if (both)
            tile_row(row, pixel + channels, c, n, z1);
    }
}

INLINE void
tile_out_tile(const VaeTileOut *a, TileOut out, int i, bool both)
{
    int c = 0;
    for (; c + LANES <= a->n; c += LANES)
        tile_out_some(a, out, i, (size_t) c, LANES, both);
    if (c < a->n)
        tile_out_some(a, out, i, (size_t) c, a->n - c, both);
}

INLINE void
tile_out_frame(const VaeTileOut *a, TileOut out)
{
    if (!a->row[out.frame][0].y && !a->row[out.frame][1].y)
        return;
    for (int i = 0; i < a->pixels / 2; i++)
        tile_out_tile(a, out, i, true);
    if (a->pixels % 2)
        tile_out_tile(a, out, a->pixels / 2, false);
}

static void
tile_out(const VaeTileOut *a)
{
    const VaeTileOut own = *a;
    if (own.times == 1) {
        tile_out_frame(&own, (TileOut){1, 0});
        return;
    }
    tile_out_frame(&own, (TileOut){4, 0});
    tile_out_frame(&own, (TileOut){4, 1});
}

const VaeTiles TABLE(VAE_SIMD) = {
    .taps = tile_taps,
    .in = tile_in,
    .out = tile_out,
};

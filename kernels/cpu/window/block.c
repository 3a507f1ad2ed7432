/*
 * block.c: see block.h. A lane of the vectors is a query, so that no sum
 * crosses lanes, and a key is the same number for all lanes. A query's sums
 * contain the keys of the others as zeros, so its place in the block changes no
 * byte.
 */
#include <math.h>

#include "../simd/vector.h"
#include "block.h"

#define TABLE_OF(x) vae_blocks_##x
#define TABLE(x) TABLE_OF(x)

enum {
    HEAD = VAE_WINDOW_HEAD,
    /* Keys or channels at a time: their sums fit in registers. */
    MOST = LANES == 16  ? 14
           : LANES == 8 ? 5
                        : 2,
    WIDE = LANES == 16  ? 16
           : LANES == 8 ? 4
                        : 2
};

#if LANES == 16
#define SWAPPED 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14
#elif LANES == 8
#define SWAPPED 1, 0, 3, 2, 5, 4, 7, 6
#else
#define SWAPPED 1, 0, 3, 2
#endif

static void
turn(const VaeTurns *t, const void *x, VaeType type, size_t at, float *y)
{
    V v[HEAD / LANES], part[PARTS] = {{0}};
    for (int i = 0; i < HEAD / LANES; i++) {
        const size_t from = at + (size_t) i * LANES;
        v[i] = type == VAE_TYPE_F32 ? load(x, VAE_TYPE_F32, from)
                                    : load(x, VAE_TYPE_BF16, from);
        part[i % PARTS] += v[i] * v[i];
    }
    const float scale = 1 / sqrtf(total(part) / HEAD + t->eps);
    for (int i = 0; i < HEAD / LANES; i++) {
        const size_t l = (size_t) i * LANES;
        const V n = v[i] * scale * load(t->gain, VAE_TYPE_F32, l);
        const V other = __builtin_shufflevector(n, n, SWAPPED);
        store(y, VAE_TYPE_F32, l,
              n * load(t->cos, VAE_TYPE_F32, l) +
                  other * load(t->sin, VAE_TYPE_F32, l));
    }
}

/* Vector p of the lanes of a row. */
INLINE V
lanes(const float *row, int p)
{
    return load(row, VAE_TYPE_F32, (size_t) p * LANES);
}

/* True in the lanes whose window of n positions has this position. */
INLINE I
sees(const int32_t *first, int n, int position, int p)
{
    I from;
    memcpy(&from, first + p * LANES, sizeof from);
    return (I) (from <= position) & (I) (position < from + n);
}

/* The scores of n keys from k on, which are in row y and in columns from x on.
 * to: the score of the first key. */
INLINE void
scores_of(const VaeBlock *b, const float *k, int y, int x, int n,
          float (*to)[VAE_BLOCK], V *most)
{
    V sum[MOST][PARTS];
#pragma GCC unroll 16
    for (int j = 0; j < n; j++)
        for (int p = 0; p < PARTS; p++)
            sum[j][p] = (V){0};
    for (int l = 0; l < HEAD; l++) {
        V q[PARTS];
        for (int p = 0; p < PARTS; p++)
            q[p] = lanes(b->q[l], p);
#pragma GCC unroll 16
        for (int j = 0; j < n; j++)
            for (int p = 0; p < PARTS; p++)
                sum[j][p] += q[p] * k[j * HEAD + l];
    }
#pragma GCC unroll 16
    for (int j = 0; j < n; j++)
        for (int p = 0; p < PARTS; p++) {
            const I mask = sees(b->first_row, b->kh, y, p) &
                           sees(b->first_column, b->kw, x + j, p);
            const V s = choose(mask, sum[j][p], splat(-INFINITY));
            most[p] = choose(s > most[p], s, most[p]);
            store(to[j], VAE_TYPE_F32, (size_t) p * LANES, s);
        }
}

#define CASE(n)                                                                \
    case n:                                                                    \
        scores_of(b, k, y, x, n, to, most);                                    \
        break;

static void
some_scores(const VaeBlock *b, const float *k, int y, int x, int n,
            float (*to)[VAE_BLOCK], V *most)
{
    switch (n) {
        CASE(1)
        CASE(2)
#if LANES > 4
        CASE(3)
        CASE(4)
        CASE(5)
#endif
#if LANES == 16
        CASE(6)
        CASE(7)
        CASE(8)
        CASE(9)
        CASE(10)
        CASE(11)
        CASE(12)
        CASE(13)
        CASE(14)
#endif
    default:
        break;
    }
}

/* The scores of a frame. most: each lane's largest score so far. */
static void
scores(VaeBlock *b, const float *k, V *most)
{
    const int parts = (b->columns + MOST - 1) / MOST;
    const int each = (b->columns + parts - 1) / parts;
    for (int y = 0; y < b->rows; y++)
        for (int x = 0; x < b->columns; x += each) {
            const int left = b->columns - x;
            some_scores(b, k + (size_t) y * b->row_step + (size_t) x * HEAD, y,
                        x, left < each ? left : each,
                        b->score + y * b->columns + x, most);
        }
}

/* Turns the scores into weights, and adds them to sum. */
static void
weigh(VaeBlock *b, const V *most, V *sum)
{
    for (int i = 0; i < b->rows * b->columns; i++)
        for (int p = 0; p < PARTS; p++) {
            const V v = lanes(b->score[i], p) - most[p];
            const V w = choose(v < -87.0f, (V){0}, exponential(v));
            sum[p] += w;
            store(b->score[i], VAE_TYPE_F32, (size_t) p * LANES, w);
        }
}

/* y = y * shrink + the weighted values of a frame. */
static void
add_values(VaeBlock *b, const float *v, const V *shrink)
{
    for (int l = 0; l < HEAD; l += WIDE) {
        V sum[WIDE][PARTS];
#pragma GCC unroll 16
        for (int j = 0; j < WIDE; j++)
            for (int p = 0; p < PARTS; p++)
                sum[j][p] = lanes(b->y[l + j], p) * shrink[p];
        for (int y = 0; y < b->rows; y++) {
            const float *from = v + (size_t) y * b->row_step + l;
            const float *weight = b->score[y * b->columns];
            for (int x = 0; x < b->columns; x++) {
                V w[PARTS];
                for (int p = 0; p < PARTS; p++)
                    w[p] = lanes(weight, p);
#pragma GCC unroll 16
                for (int j = 0; j < WIDE; j++)
                    for (int p = 0; p < PARTS; p++)
                        sum[j][p] += w[p] * from[j];
                from += HEAD;
                weight += VAE_BLOCK;
            }
        }
#pragma GCC unroll 16
        for (int j = 0; j < WIDE; j++)
            for (int p = 0; p < PARTS; p++)
                store(b->y[l + j], VAE_TYPE_F32, (size_t) p * LANES, sum[j][p]);
    }
}

static void
attend(VaeBlock *b)
{
    V most[PARTS], sum[PARTS];
    for (int p = 0; p < PARTS; p++) {
        most[p] = splat(-INFINITY);
        sum[p] = (V){0};
    }
    memset(b->y, 0, sizeof b->y);
    for (int f = 0; f < b->frames; f++) {
        const size_t at = (size_t) f * b->frame_step;
        V before[PARTS], shrink[PARTS];
        memcpy(before, most, sizeof before);
        scores(b, b->k + at, most);
        for (int p = 0; p < PARTS; p++) {
            shrink[p] = f ? exponential(before[p] - most[p]) : (V){0};
            sum[p] *= shrink[p];
        }
        weigh(b, most, sum);
        add_values(b, b->v + at, shrink);
    }
    for (int l = 0; l < HEAD; l++)
        for (int p = 0; p < PARTS; p++)
            store(b->y[l], VAE_TYPE_F32, (size_t) p * LANES,
                  lanes(b->y[l], p) / sum[p]);
}

const VaeBlocks TABLE(VAE_SIMD) = {.attend = attend, .turn = turn};

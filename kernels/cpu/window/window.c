/*
 * window.c: attention over a window, in squares of 16 queries. One head at a
 * time, the threads first prepare its keys and values, and then share the
 * squares. A square is computed on one thread, so the number of threads changes
 * no byte.
 */
#include <math.h>
#include <string.h>

#include "../cpu.h"
#include "../simd/simd.h"
#include "block.h"
#include "number.h"

enum {
    HEAD = VAE_WINDOW_HEAD,
    TIME = VAE_WINDOW_TIME,
    SPACE = VAE_WINDOW_SPACE,
    SIDE = VAE_BLOCK_SIDE
};

/* Memory of one call: keys and values of a head, (tx, h, w, HEAD), then the
 * cosines and sines of each frame, row and column. */
typedef struct Room {
    float *keys, *values, *time, *rows, *columns;
    const VaeBlocks *blocks;
    float q_gain[HEAD];
} Room;

size_t
vae_cpu_window_scratch(int tx, int h, int w, int c)
{
    const size_t keys = (size_t) tx * (size_t) h * (size_t) w * HEAD;
    const size_t turns = (size_t) tx * TIME + ((size_t) h + (size_t) w) * SPACE;
    return 2 * (keys + turns) * sizeof(float);
}

static const VaeBlocks *
choose_blocks(const VaeQueue *q)
{
    const VaeSimd *simd = vae_cpu_simd(q);
#ifdef VAE_HAVE_AVX512
    if (simd == &vae_simd_avx512)
        return &vae_blocks_avx512;
#endif
#ifdef VAE_HAVE_AVX2
    if (simd == &vae_simd_avx2 && __builtin_cpu_supports("fma"))
        return &vae_blocks_avx2;
#endif
    (void) simd;
    return &vae_blocks_base;
}

/* The cosines of n positions from `first` on for d channels, then the sines
 * with the sign of their product. */
static float *
fill_turns(float *to, double first, int n, int d)
{
    for (int i = 0; i < n; i++, to += 2 * d)
        for (int l = 0; l < d; l += 2) {
            const double angle =
                (first + i) * (float) pow(10000, -(double) l / d);
            to[l] = to[l + 1] = (float) cos(angle);
            to[d + l + 1] = (float) sin(angle);
            to[d + l] = -to[d + l + 1];
        }
    return to;
}

static Room
make_room(const VaeQueue *q, const VaeWindowArgs *a)
{
    const size_t n = (size_t) a->tx * (size_t) a->h * (size_t) a->w * HEAD;
    Room r = {.keys = a->scratch, .blocks = choose_blocks(q)};
    r.values = r.keys + n;
    r.time = r.values + n;
    r.rows = fill_turns(r.time, (double) a->place->frame, a->tx, TIME);
    r.columns = fill_turns(r.rows, 0, a->h, SPACE);
    fill_turns(r.columns, 0, a->w, SPACE);
    for (int l = 0; l < HEAD; l++)
        r.q_gain[l] = a->q_gain[l] * 0.125f;
    return r;
}

/* Sets n channels from `first` on to turns of one position. */
static void
set_turns(VaeTurns *t, int first, const float *from, int n)
{
    const size_t bytes = (size_t) n * sizeof(float);
    memcpy(t->cos + first, from, bytes);
    memcpy(t->sin + first, from + n, bytes);
}

static void
turn_to(VaeTurns *t, const Room *r, int f, int y)
{
    set_turns(t, 0, r->time + (size_t) f * 2 * TIME, TIME);
    set_turns(t, TIME, r->rows + (size_t) y * 2 * SPACE, SPACE);
}

static void
turn_to_column(VaeTurns *t, const Room *r, int x)
{
    set_turns(t, TIME + SPACE, r->columns + (size_t) x * 2 * SPACE, SPACE);
}

/* The first position of the window around i, of those from first to end - 1. */
static int
start_of(int i, int k, int first, int end)
{
    const int start = i - k / 2;
    return start < first ? first : start > end - k ? end - k : start;
}

/* Prepares the keys and values of a row of a frame. */
static void
prepare_row(const VaeWindowArgs *a, const Room *r, int head, int f, int y)
{
    VaeTurns t = {.gain = a->k_gain, .eps = a->eps};
    size_t pixel = ((size_t) f * (size_t) a->h + (size_t) y) * (size_t) a->w;
    const size_t c = (size_t) a->c, from = (size_t) head * HEAD;
    turn_to(&t, r, f, y);
    for (int x = 0; x < a->w; x++, pixel++) {
        const size_t k = pixel * 3 * c + c + from;
        float *v = r->values + pixel * HEAD;
        turn_to_column(&t, r, x);
        r->blocks->turn(&t, a->qkv, a->x_type, k, r->keys + pixel * HEAD);
        for (size_t l = 0; l < HEAD; l++)
            v[l] = vae_load(a->qkv, a->x_type, k + c + l);
    }
}

/* A square of queries of frame f of y. The last ones of a row or column of
 * squares may be outside of the picture. */
typedef struct Square {
    int head, f, y, x;
} Square;

static int
inside(int i, int n)
{
    return i < n ? i : n - 1;
}

/* Sets the queries; those outside are copies of the nearest one inside. */
static void
set_queries(const VaeWindowArgs *a, const Room *r, Square s, VaeBlock *b)
{
    VaeTurns t = {.gain = r->q_gain, .eps = a->eps};
    const int f = s.f + a->shift;
    float q[HEAD];
    for (int i = 0; i < VAE_BLOCK; i++) {
        const int y = inside(s.y + i / SIDE, a->h);
        const int x = inside(s.x + i % SIDE, a->w);
        const size_t pixel =
            ((size_t) f * (size_t) a->h + (size_t) y) * (size_t) a->w +
            (size_t) x;
        turn_to(&t, r, f, y);
        turn_to_column(&t, r, x);
        r->blocks->turn(&t, a->qkv, a->x_type,
                        pixel * 3 * (size_t) a->c + (size_t) s.head * HEAD, q);
        for (int l = 0; l < HEAD; l++)
            b->q[l][i] = q[l];
        b->first_row[i] = start_of(y, a->kh, 0, a->h);
        b->first_column[i] = start_of(x, a->kw, 0, a->w);
    }
}

/* Sets the keys that the queries see in frames from `start` on. */
static void
set_keys(const VaeWindowArgs *a, const Room *r, int start, VaeBlock *b)
{
    const int last = VAE_BLOCK - 1;
    const int row = b->first_row[0], column = b->first_column[0];
    const size_t at =
        (((size_t) start * (size_t) a->h + (size_t) row) * (size_t) a->w +
         (size_t) column) *
        HEAD;
    b->k = r->keys + at;
    b->v = r->values + at;
    b->row_step = (size_t) a->w * HEAD;
    b->frame_step = (size_t) a->h * b->row_step;
    b->frames = a->kt;
    b->kh = a->kh;
    b->kw = a->kw;
    b->rows = b->first_row[last] + a->kh - row;
    b->columns = b->first_column[last] + a->kw - column;
    for (int i = 0; i < VAE_BLOCK; i++) {
        b->first_row[i] -= row;
        b->first_column[i] -= column;
    }
}

/* Stores the results of a square, or zeros without a block. */
static void
store_square(const VaeWindowArgs *a, Square s, const VaeBlock *b)
{
    for (int i = 0; i < VAE_BLOCK; i++) {
        const int y = s.y + i / SIDE, x = s.x + i % SIDE;
        if (y >= a->h || x >= a->w)
            continue;
        const size_t pixel =
            ((size_t) s.f * (size_t) a->h + (size_t) y) * (size_t) a->w +
            (size_t) x;
        const size_t at = pixel * (size_t) a->c + (size_t) s.head * HEAD;
        for (size_t l = 0; l < HEAD; l++)
            vae_store(a->y, a->y_type, at + l, b ? b->y[l][i] : 0);
    }
}

static void
square(const VaeWindowArgs *a, const Room *r, Square s)
{
    const VaePlaceInVideo *p = a->place;
    const int at = s.f + a->shift;
    const int start = start_of(at, a->kt, p->first, p->end);
    VaeBlock b;
    if (at < p->first || at >= p->end || at < 0 || at >= a->tx || start < 0 ||
        start < p->first || start + a->kt > a->tx) {
        store_square(a, s, NULL);
        return;
    }
    set_queries(a, r, s, &b);
    set_keys(a, r, start, &b);
    r->blocks->attend(&b);
    store_square(a, s, &b);
}

static bool
cancelled(const VaeQueue *q)
{
    return q->cancelled && q->cancelled(q->user);
}

void
vae_cpu_window(const VaeQueue *q, const VaeWindowArgs *a)
{
    const Room r = make_room(q, a);
    const int first = a->place->first > 0 ? a->place->first : 0;
    const int end = a->place->end < a->tx ? a->place->end : a->tx;
    for (int head = 0; head < a->c / HEAD; head++)
#pragma omp parallel num_threads(q->threads)
    {
#pragma omp for collapse(2) schedule(static)
        for (int f = first; f < end; f++)
            for (int y = 0; y < a->h; y++)
                if (!cancelled(q))
                    prepare_row(a, &r, head, f, y);
#pragma omp for collapse(3) schedule(dynamic)
        for (int f = 0; f < a->t; f++)
            for (int y = 0; y < a->h; y += SIDE)
                for (int x = 0; x < a->w; x += SIDE)
                    if (!cancelled(q))
                        square(a, &r, (Square){head, f, y, x});
    }
}

/*
 * window.cuh: what the kernels of attention over a window share.
 *
 * A block computes one head of a square of 8 x 8 queries of a frame, and reads
 * the keys of their windows together, frame after frame: up to 18 x 18 for a
 * window of 11 x 11. A key that a query does not see has the weight 0.
 */
#ifndef VAE_WINDOW_CUH
#define VAE_WINDOW_CUH

#include "common.cuh"

enum {
    HEAD = VAE_WINDOW_HEAD,
    PAIRS = HEAD / 2, /* each lane of a warp has one */
    SIDE = 8,
    QUERIES = SIDE * SIDE,
    TIME_PAIRS = VAE_WINDOW_TIME / 2,
    SPACE_PAIRS = VAE_WINDOW_SPACE / 2,
    /* Most keys of a frame: (kh + 7) (kw + 7), kh * kw <= VAE_WINDOW_KEYS. */
    SEEN = 8 * (VAE_WINDOW_KEYS + 7)
};

/* Turns of each frame, row and column, then keys of `heads` heads, normed and
 * turned. */
typedef struct VaeWindowRoom {
    float *turns; /* pairs of cosine and sine */
    void *keys;   /* (tx, h, w, heads, HEAD) */
    int head, heads;
    VaePlaceInVideo place; /* of qkv */
} VaeWindowRoom;

/* A position of a kernel's block. */
typedef struct VaeWindowSquare {
    int f, y, x, head; /* f: of y */
    int start;         /* first frame of the window, or -1: not there */
    int row, column, rows, columns; /* the keys of a frame that are read */
} VaeWindowSquare;

VAE_DEVICE int
vae_window_start(int i, int k, int first, int end)
{
    const int start = i - k / 2;
    return start < first ? first : start > end - k ? end - k : start;
}

VAE_DEVICE int
vae_window_inside(int i, int n)
{
    return i < n ? i : n - 1;
}

VAE_DEVICE VaeWindowSquare
vae_window_square(const VaeWindowArgs &a, const VaeWindowRoom &r)
{
    VaeWindowSquare s;
    const int across = (a.w + SIDE - 1) / SIDE;
    const VaePlaceInVideo p = r.place;
    s.f = (int) blockIdx.z;
    s.y = (int) blockIdx.x / across * SIDE;
    s.x = (int) blockIdx.x % across * SIDE;
    s.head = r.head + (int) blockIdx.y;
    const int at = s.f + a.shift;
    s.start = vae_window_start(at, a.kt, p.first, p.end);
    if (at < p.first || at >= p.end || at < 0 || at >= a.tx || s.start < 0 ||
        s.start < p.first || s.start + a.kt > a.tx)
        s.start = -1;
    s.row = vae_window_start(s.y, a.kh, 0, a.h);
    s.column = vae_window_start(s.x, a.kw, 0, a.w);
    s.rows =
        vae_window_start(vae_window_inside(s.y + SIDE - 1, a.h), a.kh, 0, a.h) +
        a.kh - s.row;
    s.columns =
        vae_window_start(vae_window_inside(s.x + SIDE - 1, a.w), a.kw, 0, a.w) +
        a.kw - s.column;
    return s;
}

/* Sets where[i] to 256 times the row of key i plus its column, counted from
 * the first key of the square. */
VAE_DEVICE void
vae_window_list(const VaeWindowSquare &s, uint16_t *where, int threads)
{
    for (int i = (int) threadIdx.x; i < s.rows * s.columns; i += threads)
        where[i] = (uint16_t) (i / s.columns * 256 + i % s.columns);
}

/* The pixel of a key of frame f of qkv. */
VAE_DEVICE size_t
vae_window_pixel(const VaeWindowArgs &a, const VaeWindowSquare &s, int f,
                 unsigned where)
{
    return ((size_t) f * a.h + s.row + where / 256) * a.w + s.column +
           where % 256;
}

/* The first row and column that a query sees, packed as in
 * vae_window_list(). */
VAE_DEVICE unsigned
vae_window_sees(const VaeWindowArgs &a, const VaeWindowSquare &s, int query)
{
    const int y = vae_window_inside(s.y + query / SIDE, a.h);
    const int x = vae_window_inside(s.x + query % SIDE, a.w);
    return (unsigned) (vae_window_start(y, a.kh, 0, a.h) - s.row) * 256 +
           (unsigned) (vae_window_start(x, a.kw, 0, a.w) - s.column);
}

VAE_DEVICE bool
vae_window_has(const VaeWindowArgs &a, unsigned sees, unsigned where)
{
    return where / 256 - sees / 256 < (unsigned) a.kh &&
           where % 256 - sees % 256 < (unsigned) a.kw;
}

/* Element 0 of the result of a query; false: outside of the picture. */
VAE_DEVICE bool
vae_window_result(const VaeWindowArgs &a, const VaeWindowSquare &s, int query,
                  size_t *at)
{
    const int y = s.y + query / SIDE, x = s.x + query % SIDE;
    *at = (((size_t) s.f * a.h + y) * a.w + x) * a.c + (size_t) s.head * HEAD;
    return y < a.h && x < a.w;
}

/* Stores zeros as the results of the square. */
VAE_DEVICE void
vae_window_nothing(const VaeWindowArgs &a, const VaeWindowSquare &s,
                   int threads)
{
    for (int i = (int) threadIdx.x; i < QUERIES * HEAD; i += threads) {
        size_t at;
        if (vae_window_result(a, s, i / HEAD, &at))
            vae_store(a.y, a.y_type, at + i % HEAD, 0);
    }
}

/* The lane's pair of 64 channels from element `at` of qkv on, normed and turned
 * for row y and column x of frame f. All lanes of a warp must call it. */
VAE_DEVICE void
vae_window_turn(const VaeWindowArgs &a, const VaeWindowRoom &r, size_t at,
                const float *gain, int f, int y, int x, float *pair)
{
    const int lane = (int) threadIdx.x % 32, space = lane - TIME_PAIRS;
    const size_t rows = (size_t) a.tx * TIME_PAIRS;
    const size_t columns = rows + (size_t) a.h * SPACE_PAIRS;
    const size_t i = space < 0 ? (size_t) f * TIME_PAIRS + lane
                     : space < SPACE_PAIRS
                         ? rows + (size_t) y * SPACE_PAIRS + space
                         : columns + (size_t) (x - 1) * SPACE_PAIRS + space;
    const float even = vae_load(a.qkv, a.x_type, at + 2 * lane);
    const float odd = vae_load(a.qkv, a.x_type, at + 2 * lane + 1);
    const float sum = vae_lanes_sum(fmaf(even, even, odd * odd), 32);
    const float scale = 1 / sqrtf(sum / HEAD + a.eps);
    const float e = even * scale * gain[2 * lane];
    const float o = odd * scale * gain[2 * lane + 1];
    const float cos = r.turns[2 * i], sin = r.turns[2 * i + 1];
    pair[0] = fmaf(e, cos, -(o * sin));
    pair[1] = fmaf(e, sin, o * cos);
}

/* vae_window_turn() of a query, which is also divided by 8. A query outside of
 * the picture is a copy of the nearest one inside. */
VAE_DEVICE void
vae_window_query(const VaeWindowArgs &a, const VaeWindowRoom &r,
                 const VaeWindowSquare &s, int query, float *pair)
{
    const int f = s.f + a.shift;
    const int y = vae_window_inside(s.y + query / SIDE, a.h);
    const int x = vae_window_inside(s.x + query % SIDE, a.w);
    const size_t pixel = ((size_t) f * a.h + y) * a.w + x;
    vae_window_turn(a, r, pixel * 3 * a.c + (size_t) s.head * HEAD, a.q_gain, f,
                    y, x, pair);
    pair[0] *= 0.125f;
    pair[1] *= 0.125f;
}

/* Launches the kernel for the matrix units, for the heads of r. */
void vae_cuda_window_matrix(const VaeQueue *q, const VaeWindowArgs *a,
                            const VaeWindowRoom *r);

/* The grid of the squares. */
static inline dim3
vae_window_grid(const VaeWindowArgs *a, const VaeWindowRoom *r)
{
    return dim3(vae_blocks((size_t) a->h, SIDE) *
                    vae_blocks((size_t) a->w, SIDE),
                (unsigned) r->heads, (unsigned) a->t);
}

#endif

/*
 * window.cu: attention over a window, in fp32; also gated units and noise, of
 * the same network.
 *
 * First small kernels compute the turns of all positions and the keys of some
 * heads. Then blocks as in window.cuh add KEYS keys at a time, as in
 * attention.cu.
 */
#include "cuda.h"
#include "sample.h"
#include "window.cuh"

enum { WARPS = VAE_THREADS / 32, KEYS = 32, PAD = 4 };

/* The most bytes of keys in scratch, unless one head needs more. */
#define KEY_BYTES ((size_t) 256 << 20)

/* ---------------------------------------------------- turns and keys */

/* The angle of each pair at position 1. */
typedef struct Steps {
    float time[TIME_PAIRS], space[SPACE_PAIRS];
} Steps;

/* Element i of a list. Reading it by index would put the list into local
 * memory. */
template <int N>
VAE_DEVICE double
pick(const float *list, int i)
{
    float found = 0;
    VAE_UNROLL
    for (int k = 0; k < N; k++)
        found = k == i ? list[k] : found;
    return (double) found;
}

/* A thread has the turn of a pair at one position. cos() and sin() of a double
 * would also need local memory. */
VAE_KERNEL void
window_turns(VaeWindowArgs a, VaeWindowRoom r, Steps steps)
{
    const int i = (int) (blockIdx.x * VAE_THREADS + threadIdx.x);
    const int times = a.tx * TIME_PAIRS, rows = a.h * SPACE_PAIRS;
    const int j = i < times          ? i
                  : i < times + rows ? i - times
                                     : i - times - rows;
    if (i >= times + rows + a.w * SPACE_PAIRS)
        return;
    const double angle =
        i < times ? (double) (r.place.frame + j / TIME_PAIRS) *
                        pick<TIME_PAIRS>(steps.time, j % TIME_PAIRS)
                  : (double) (j / SPACE_PAIRS) *
                        pick<SPACE_PAIRS>(steps.space, j % SPACE_PAIRS);
    float *to = r.turns + 2 * (size_t) i;
#ifdef __CUDA_ARCH__
    to[0] = (float) cospi(angle / 3.141592653589793);
    to[1] = (float) sinpi(angle / 3.141592653589793);
#else
    to[0] = (float) cos(angle);
    to[1] = (float) sin(angle);
#endif
}

/* Keys of frame blockIdx.y, a warp for each head of each pixel. */
template <int Z>
VAE_KERNEL void
window_keys(VaeWindowArgs a, VaeWindowRoom r)
{
    const int lane = (int) threadIdx.x % 32;
    const int i = (int) (blockIdx.x * WARPS + threadIdx.x / 32);
    const int pixel = i / r.heads, y = pixel / a.w;
    if (pixel >= a.h * a.w)
        return;
    const size_t site = (size_t) blockIdx.y * a.h * a.w + pixel;
    float pair[2];
    vae_window_turn(
        a, r, site * 3 * a.c + a.c + (size_t) (r.head + i % r.heads) * HEAD,
        a.k_gain, (int) blockIdx.y, y, pixel - y * a.w, pair);
    const size_t at = ((site * r.heads + i % r.heads) * HEAD) / 2 + lane;
    if (Z == VAE_TYPE_F32) {
        static_cast<float *>(r.keys)[2 * at] = pair[0];
        static_cast<float *>(r.keys)[2 * at + 1] = pair[1];
    } else {
        static_cast<uint32_t *>(r.keys)[at] = vae_pair<Z>(pair[0], pair[1]);
    }
}

/* ------------------------------------------------------------- fp32 */

typedef struct Tile {
    float query[QUERIES][HEAD + PAD];
    float key[KEYS][HEAD + PAD], value[KEYS][HEAD + PAD];
    float weight[QUERIES][KEYS + PAD]; /* scores, then weights */
    float most[QUERIES], sum[QUERIES], shrink[QUERIES];
    uint16_t where[SEEN];
} Tile;

/* Loads keys and values from key `first` of a frame on; zeros past the last. */
VAE_DEVICE void
load_keys(const VaeWindowArgs &a, const VaeWindowRoom &r,
          const VaeWindowSquare &s, Tile *tile, int f, int first)
{
    const float *keys = static_cast<const float *>(r.keys);
    for (int i = (int) threadIdx.x; i < KEYS * HEAD; i += VAE_THREADS) {
        const int key = i / HEAD, l = i % HEAD;
        const bool inside = first + key < s.rows * s.columns;
        const size_t pixel =
            vae_window_pixel(a, s, f, inside ? tile->where[first + key] : 0);
        const size_t k = (pixel * r.heads + (s.head - r.head)) * HEAD + l;
        const size_t v = (pixel * 3 + 2) * a.c + (size_t) s.head * HEAD + l;
        tile->key[key][l] = inside ? keys[k] : 0;
        tile->value[key][l] = inside ? vae_load(a.qkv, a.x_type, v) : 0;
    }
}

/* A thread has two queries and four keys. */
VAE_DEVICE void
scores(const VaeWindowArgs &a, const VaeWindowSquare &s, Tile *tile, int first)
{
    const int query = (int) threadIdx.x / 8 * 2, key = (int) threadIdx.x % 8;
    float dot[2][4] = {};
    VAE_NO_UNROLL
    for (int l = 0; l < HEAD; l += 4) {
        uint32_t q[2][4], k[4];
        VAE_UNROLL
        for (int i = 0; i < 2; i++)
            vae_load16(q[i], tile->query[query + i] + l);
        VAE_UNROLL
        for (int j = 0; j < 4; j++) {
            vae_load16(k, tile->key[key + 8 * j] + l);
            VAE_UNROLL
            for (int i = 0; i < 2; i++)
                VAE_UNROLL
            for (int m = 0; m < 4; m++)
                dot[i][j] = fmaf(vae_from_bits(q[i][m]), vae_from_bits(k[m]),
                                 dot[i][j]);
        }
    }
    VAE_UNROLL
    for (int i = 0; i < 2; i++) {
        const unsigned sees = vae_window_sees(a, s, query + i);
        VAE_UNROLL
        for (int j = 0; j < 4; j++) {
            const int at = key + 8 * j;
            tile->weight[query + i][at] =
                first + at < s.rows * s.columns &&
                        vae_window_has(a, sees, tile->where[first + at])
                    ? dot[i][j]
                    : -INFINITY;
        }
    }
}

/* Turns scores into weights; a warp has one row at a time, a lane one key. */
VAE_DEVICE void
weigh(Tile *tile)
{
    const int lane = (int) threadIdx.x % 32;
    for (int row = (int) threadIdx.x / 32; row < QUERIES; row += WARPS) {
        const float score = tile->weight[row][lane], before = tile->most[row];
        const float most = fmaxf(before, vae_lanes_max(score, 32));
        const float zero = vae_largest_score(most);
        const float weight = vae_ptx_ex2((score - zero) * 1.44269504f);
        const float shrink = vae_ptx_ex2((before - zero) * 1.44269504f);
        const float sum = vae_lanes_sum(weight, 32);
        tile->weight[row][lane] = weight;
        __syncwarp();
        if (lane == 0) {
            tile->most[row] = most;
            tile->shrink[row] = shrink;
            tile->sum[row] = fmaf(tile->sum[row], shrink, sum);
        }
    }
}

/* Adds the values to the thread's four queries and four channels. */
VAE_DEVICE void
add_values(const Tile *tile, float (*y)[4])
{
    const int query = (int) threadIdx.x / 16 * 4;
    const int channel = (int) threadIdx.x % 16 * 4;
    VAE_UNROLL
    for (int i = 0; i < 4; i++)
        VAE_UNROLL
    for (int l = 0; l < 4; l++)
        y[i][l] *= tile->shrink[query + i];
    VAE_NO_UNROLL
    for (int key = 0; key < KEYS; key++) {
        uint32_t v[4];
        vae_load16(v, tile->value[key] + channel);
        VAE_UNROLL
        for (int i = 0; i < 4; i++)
            VAE_UNROLL
        for (int l = 0; l < 4; l++)
            y[i][l] = fmaf(tile->weight[query + i][key], vae_from_bits(v[l]),
                           y[i][l]);
    }
}

VAE_DEVICE void
begin(const VaeWindowArgs &a, const VaeWindowRoom &r, const VaeWindowSquare &s,
      Tile *tile)
{
    const int lane = (int) threadIdx.x % 32;
    for (int i = (int) threadIdx.x / 32; i < QUERIES; i += WARPS) {
        float pair[2];
        vae_window_query(a, r, s, i, pair);
        tile->query[i][2 * lane] = pair[0];
        tile->query[i][2 * lane + 1] = pair[1];
    }
    if (threadIdx.x < QUERIES) {
        tile->most[threadIdx.x] = -INFINITY;
        tile->sum[threadIdx.x] = 0;
    }
    vae_window_list(s, tile->where, VAE_THREADS);
}

VAE_KERNEL void
window(VaeWindowArgs a, VaeWindowRoom r)
{
    VAE_SHARED(Tile, tile);
    const VaeWindowSquare s = vae_window_square(a, r);
    float y[4][4] = {};
    if (s.start < 0) {
        vae_window_nothing(a, s, VAE_THREADS);
        return;
    }
    begin(a, r, s, tile);
    VAE_NO_UNROLL
    for (int f = s.start; f < s.start + a.kt; f++)
        VAE_NO_UNROLL
    for (int first = 0; first < s.rows * s.columns; first += KEYS) {
        __syncthreads();
        load_keys(a, r, s, tile, f, first);
        __syncthreads();
        scores(a, s, tile, first);
        __syncthreads();
        weigh(tile);
        __syncthreads();
        add_values(tile, y);
    }
    VAE_UNROLL
    for (int i = 0; i < 4; i++) {
        const int query = (int) threadIdx.x / 16 * 4 + i;
        size_t at;
        if (!vae_window_result(a, s, query, &at))
            continue;
        VAE_UNROLL
        for (int l = 0; l < 4; l++)
            vae_store(a.y, a.y_type, at + threadIdx.x % 16 * 4 + l,
                      y[i][l] / tile->sum[query]);
    }
}

/* ------------------------------------------------------------------ */

static size_t
turn_floats(int tx, int h, int w)
{
    const size_t n =
        (size_t) tx * TIME_PAIRS + ((size_t) h + (size_t) w) * SPACE_PAIRS;
    return (2 * n + 3) / 4 * 4;
}

/* The number of heads whose keys are in scratch at a time. */
static int
heads_of(int tx, int h, int w, int c)
{
    const size_t one = (size_t) tx * h * w * HEAD * sizeof(float);
    const size_t all = (size_t) c / HEAD, most = KEY_BYTES / (one ? one : 1);
    return (int) (most < 1 ? 1 : most < all ? most : all);
}

/* 16 bytes more, because the keys begin at a multiple of 16. */
size_t
vae_cuda_window_scratch(int tx, int h, int w, int c)
{
    const size_t keys = (size_t) tx * h * w * HEAD * heads_of(tx, h, w, c);
    return (turn_floats(tx, h, w) + keys) * sizeof(float) + 16;
}

static Steps
steps_of_pairs(void)
{
    Steps s;
    for (int i = 0; i < TIME_PAIRS; i++)
        s.time[i] = (float) pow(10000, -(double) i / TIME_PAIRS);
    for (int i = 0; i < SPACE_PAIRS; i++)
        s.space[i] = (float) pow(10000, -(double) i / SPACE_PAIRS);
    return s;
}

static void
some_heads(const VaeQueue *q, const VaeWindowArgs *a, const VaeWindowRoom *r,
           bool matrix)
{
    const size_t pixels = (size_t) a->h * a->w;
    const dim3 grid(vae_blocks(pixels * r->heads, WARPS), (unsigned) a->tx);
    vae_launch(!matrix                      ? window_keys<VAE_TYPE_F32>
               : a->x_type == VAE_TYPE_BF16 ? window_keys<VAE_TYPE_BF16>
                                            : window_keys<VAE_TYPE_F16>,
               grid, VAE_THREADS, 0, q->stream, *a, *r);
    if (matrix)
        vae_cuda_window_matrix(q, a, r);
    else
        vae_launch(window, vae_window_grid(a, r), VAE_THREADS, sizeof(Tile),
                   q->stream, *a, *r);
}

void
vae_cuda_window(const VaeQueue *q, const VaeWindowArgs *a)
{
    const bool matrix =
        a->x_type != VAE_TYPE_F32 && vae_launch_capability() >= 80;
    const size_t turns = turn_floats(a->tx, a->h, a->w);
    const int all = a->c / HEAD, heads = heads_of(a->tx, a->h, a->w, a->c);
    VaeWindowRoom r = {};
    r.turns = reinterpret_cast<float *>(
        (reinterpret_cast<uintptr_t>(a->scratch) + 15) / 16 * 16);
    r.keys = r.turns + turns;
    r.place = *a->place;
    if (!a->t || !all)
        return;
    vae_launch(window_turns, vae_blocks(turns / 2, VAE_THREADS), VAE_THREADS, 0,
               q->stream, *a, r, steps_of_pairs());
    for (; r.head < all; r.head += heads) {
        r.heads = all - r.head < heads ? all - r.head : heads;
        some_heads(q, a, &r, matrix);
    }
}

/* --------------------------------------------------- gates and noise */

/* An octet of y. */
template <int X, int Y>
VAE_KERNEL void
glu(VaeGluArgs a)
{
    const size_t octets = ((size_t) a.c + 7) / 8;
    const size_t i = (size_t) blockIdx.x * VAE_THREADS + threadIdx.x;
    const size_t row = i / octets;
    const int first = (int) (i % octets) * 8;
    const int n = X == VAE_ANY ? vae_octet_valid(first, a.c) : 8;
    if (row >= a.rows)
        return;
    VaeOctet<X> gate, value;
    VaeOctet<Y> y;
    float v[8];
    vae_octet_load<X>(gate, a.x, a.x_type, 2 * row * a.c + first, n);
    vae_octet_load<X>(value, a.x, a.x_type, (2 * row + 1) * a.c + first, n);
    VAE_UNROLL
    for (int l = 0; l < 8; l++)
        v[l] = vae_silu_for<Y>(vae_octet_get<X>(gate, l), a.y_type) *
               vae_octet_get<X>(value, l);
    vae_octet_set<Y>(y, v);
    vae_octet_store<Y>(a.y, a.y_type, row * a.c + first, y, n);
}

void
vae_cuda_glu(const VaeQueue *q, const VaeGluArgs *a)
{
    const size_t n = a->rows * (((size_t) a->c + 7) / 8);
    const auto run = [&](auto x, auto y) {
        vae_launch(glu<decltype(x)::value, decltype(y)::value>,
                   vae_blocks(n, VAE_THREADS), VAE_THREADS, 0, q->stream, *a);
    };
    if (!n)
        return;
    if (vae_octets_aligned(a->x, (size_t) a->c) &&
        vae_octets_aligned(a->y, (size_t) a->c))
        vae_with_types(a->x_type, a->y_type, run);
    else
        run(VaeTypeIs<VAE_ANY>(), VaeTypeIs<VAE_ANY>());
}

/* An element of frame blockIdx.y of y. */
VAE_KERNEL void
noise(VaeNoiseArgs a, int64_t frame)
{
    const int c = 3 * a.side * a.side;
    const size_t n = (size_t) a.h * a.w * c;
    const size_t i = (size_t) blockIdx.x * VAE_THREADS + threadIdx.x;
    if (i >= n)
        return;
    const int pixel = (int) (i / c), y = pixel / a.w;
    vae_store(a.y, a.y_type, blockIdx.y * n + i,
              vae_normal_in_patch(a.seed, frame + (int) blockIdx.y, a.side,
                                  (int) (i % c), y, pixel - y * a.w));
}

void
vae_cuda_noise(const VaeQueue *q, const VaeNoiseArgs *a)
{
    const size_t n = (size_t) a->h * a->w * 3 * a->side * a->side;
    if (n && a->t)
        vae_launch(noise, dim3(vae_blocks(n, VAE_THREADS), (unsigned) a->t),
                   VAE_THREADS, 0, q->stream, *a, a->place->frame);
}

/*
 * window_matrix.cu: attention over a window on the matrix units, in 16 bits.
 *
 * A warp has 16 of the block's queries. Their softmax stays in its registers.
 * While KEYS keys and values are multiplied, the next ones are copied to shared
 * memory.
 */
#include "attention/fragment.cuh"
#include "window.cuh"

enum { WARPS = 4, THREADS = 32 * WARPS, KEYS = 64, TILES = KEYS / 8, PAD = 8 };
enum { STRIDE = HEAD + PAD, PIECE = KEYS * STRIDE };
static_assert(QUERIES == 16 * WARPS, "a warp has 16 queries");

typedef uint16_t Half;

typedef struct Memory {
    Half key[2][PIECE], value[2][PIECE];
    uint16_t where[SEEN];
} Memory;

/* Starts to copy the keys and values of a step; zeros past the last key. */
VAE_DEVICE void
copy(const VaeWindowArgs &a, const VaeWindowRoom &r, const VaeWindowSquare &s,
     Memory *m, int step, int steps)
{
    const Half *keys = static_cast<const Half *>(r.keys);
    const Half *qkv = static_cast<const Half *>(a.qkv);
    const bool aligned = (uintptr_t) qkv % 16 == 0;
    const int f = s.start + step / steps, first = step % steps * KEYS;
    const int n = s.rows * s.columns;
    for (int i = (int) threadIdx.x; i < KEYS * HEAD / 8; i += THREADS) {
        const int key = i / (HEAD / 8), l = i % (HEAD / 8) * 8;
        const bool out = first + key >= n;
        const size_t pixel =
            vae_window_pixel(a, s, f, out ? 0 : m->where[first + key]);
        const Half *k = keys + (pixel * r.heads + (s.head - r.head)) * HEAD + l;
        const Half *v =
            qkv + (pixel * 3 + 2) * a.c + (size_t) s.head * HEAD + l;
        const int to = key * STRIDE + l;
        vae_ptx_copy_async(m->key[step % 2] + to, k, out);
        if (aligned)
            vae_ptx_copy_async(m->value[step % 2] + to, v, out);
        else
            vae_copy_now(m->value[step % 2] + to, v, out);
    }
}

/* Loads the warp's queries by way of the second piece of keys. */
template <int T>
VAE_DEVICE void
load_queries(const VaeWindowArgs &a, const VaeWindowRoom &r,
             const VaeWindowSquare &s, Memory *m, uint32_t (*q)[4])
{
    const int warp = (int) threadIdx.x / 32, lane = (int) threadIdx.x % 32;
    Half *at = m->key[1] + warp * 16 * STRIDE;
    VAE_NO_UNROLL
    for (int i = 0; i < 16; i++) {
        float pair[2];
        vae_window_query(a, r, s, 16 * warp + i, pair);
        *reinterpret_cast<uint32_t *>(at + i * STRIDE + 2 * lane) =
            vae_pair<T>(pair[0], pair[1]);
    }
    __syncwarp();
    VAE_UNROLL
    for (int k = 0; k < HEAD / 16; k++)
        vae_ptx_load_matrices<false>(q[k], vae_corner(at, STRIDE, 0, 16 * k));
}

template <int T>
VAE_DEVICE void
scores(const Half *keys, const uint32_t (*q)[4], float (*score)[4])
{
    VAE_UNROLL
    for (int k = 0; k < HEAD / 16; k++)
        VAE_UNROLL
    for (int j = 0; j < TILES; j += 2) {
        uint32_t b[4];
        vae_ptx_load_matrices<false>(
            b, vae_corner_across(keys, STRIDE, j * 8, 16 * k));
        vae_ptx_multiply<T>(score[j], q[k], b);
        vae_ptx_multiply<T>(score[j + 1], q[k], b + 2);
    }
}

/* The lane's sums: two rows. */
typedef struct Sums {
    unsigned sees[2];
    float most[2], sum[2];
    float y[HEAD / 8][4];
} Sums;

/* Turns scores into weights, and scales the previous sums down. left: keys from
 * the first of this step on. */
VAE_DEVICE void
weigh(const VaeWindowArgs &a, const uint16_t *where, int left,
      float (*score)[4], Sums *s)
{
    const int key = (int) threadIdx.x % 4 * 2;
    float most[2] = {s->most[0], s->most[1]};
    VAE_UNROLL
    for (int j = 0; j < TILES; j++)
        VAE_UNROLL
    for (int i = 0; i < 2; i++) {
        const int at = key + j * 8 + i;
        const unsigned place = at < left ? where[at] : 0xffff;
        VAE_UNROLL
        for (int row = 0; row < 2; row++) {
            float *x = &score[j][2 * row + i];
            *x = vae_window_has(a, s->sees[row], place) ? *x * 1.44269504f
                                                        : -INFINITY;
            most[row] = fmaxf(most[row], *x);
        }
    }
    VAE_UNROLL
    for (int row = 0; row < 2; row++) {
        most[row] = vae_lanes_max(most[row], 4);
        const float zero = vae_largest_score(most[row]);
        const float shrink = vae_ptx_ex2(s->most[row] - zero);
        s->most[row] = most[row];
        s->sum[row] *= shrink;
        VAE_UNROLL
        for (int j = 0; j < TILES; j++)
            VAE_UNROLL
        for (int i = 0; i < 2; i++) {
            float *x = &score[j][2 * row + i];
            *x = vae_ptx_ex2(*x - zero);
            s->sum[row] += *x;
        }
        VAE_UNROLL
        for (int l = 0; l < HEAD / 8; l++)
            VAE_UNROLL
        for (int i = 0; i < 2; i++)
            s->y[l][2 * row + i] *= shrink;
    }
}

template <int T>
VAE_DEVICE void
add_values(const Half *values, const float (*weight)[4], float (*y)[4])
{
    VAE_UNROLL
    for (int key = 0; key < TILES; key += 2) {
        uint32_t w[4], v[4];
        VAE_UNROLL
        for (int i = 0; i < 4; i++)
            w[i] = vae_pair<T>(weight[key + i / 2][i % 2 * 2],
                               weight[key + i / 2][i % 2 * 2 + 1]);
        VAE_UNROLL
        for (int l = 0; l < HEAD / 8; l += 2) {
            vae_ptx_load_matrices<true>(
                v, vae_corner(values, STRIDE, key * 8, l * 8));
            vae_ptx_multiply<T>(y[l], w, v);
            vae_ptx_multiply<T>(y[l + 1], w, v + 2);
        }
    }
}

VAE_DEVICE void
store(const VaeWindowArgs &a, const VaeWindowSquare &square, const Sums &s)
{
    const int lane = (int) threadIdx.x % 32;
    VAE_UNROLL
    for (int row = 0; row < 2; row++) {
        const int query = (int) threadIdx.x / 32 * 16 + lane / 4 + 8 * row;
        const float sum = vae_lanes_sum(s.sum[row], 4);
        size_t at;
        if (!vae_window_result(a, square, query, &at))
            continue;
        VAE_UNROLL
        for (int i = 0; i < HEAD / 4; i++)
            vae_store(a.y, a.y_type, at + i / 2 * 8 + lane % 4 * 2 + i % 2,
                      s.y[i / 2][2 * row + i % 2] / sum);
    }
}

template <int T>
VAE_GLOBAL
__launch_bounds__(THREADS, 3) void window_matrix(VaeWindowArgs a,
                                                 VaeWindowRoom r)
{
    VAE_SHARED(Memory, m);
    const VaeWindowSquare s = vae_window_square(a, r);
    const int n = s.rows * s.columns, steps = (n + KEYS - 1) / KEYS;
    const int lane = (int) threadIdx.x % 32, warp = (int) threadIdx.x / 32;
    uint32_t q[HEAD / 16][4];
    Sums sums = {};
    if (s.start < 0) {
        vae_window_nothing(a, s, THREADS);
        return;
    }
    vae_window_list(s, m->where, THREADS);
    VAE_UNROLL
    for (int row = 0; row < 2; row++) {
        sums.sees[row] = vae_window_sees(a, s, 16 * warp + lane / 4 + 8 * row);
        sums.most[row] = -INFINITY;
    }
    load_queries<T>(a, r, s, m, q);
    __syncthreads();
    copy(a, r, s, m, 0, steps);
    vae_ptx_copy_commit();
    VAE_NO_UNROLL
    for (int step = 0; step < a.kt * steps; step++) {
        float score[TILES][4] = {};
        const int first = step % steps * KEYS;
        vae_ptx_copy_wait<0>();
        __syncthreads();
        if (step + 1 < a.kt * steps)
            copy(a, r, s, m, step + 1, steps);
        vae_ptx_copy_commit();
        scores<T>(m->key[step % 2], q, score);
        weigh(a, m->where + first, n - first, score, &sums);
        add_values<T>(m->value[step % 2], score, sums.y);
    }
    vae_ptx_copy_wait<0>();
    store(a, s, sums);
}

void
vae_cuda_window_matrix(const VaeQueue *q, const VaeWindowArgs *a,
                       const VaeWindowRoom *r)
{
    vae_launch(a->x_type == VAE_TYPE_BF16 ? window_matrix<VAE_TYPE_BF16>
                                          : window_matrix<VAE_TYPE_F16>,
               vae_window_grid(a, r), THREADS, sizeof(Memory), q->stream, *a,
               *r);
}

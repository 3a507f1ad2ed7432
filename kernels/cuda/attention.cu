/*
 * attention.cu: one head with the softmax made on the way, in fp32.
 *
 * A block has ROWS queries and goes through all keys of their frame, KEYS at a
 * time: scores, their weights relative to the largest score so far, and what
 * the weights make of V. When the largest score grows, all that was summed
 * before is scaled down. Memory is that of the block, whatever n is.
 */
#include "attention.cuh"
#include "common.cuh"
#include "cuda.h"

enum { WARPS = 8, EACH = 4, KEYS = WARPS * EACH }; /* keys of a warp: EACH */

template <int ROWS> struct Tile {
    static const int STRIDE = ROWS + 4; /* of weight, fewer bank conflicts */
    float weight[KEYS * STRIDE];        /* scores, then weights: [key][row] */
    float most[ROWS], sum[ROWS], shrink[ROWS];
};

/*
 * v[0..N-1] summed over groups of 2 * BIT lanes; with 32, lane l keeps the
 * sums from number l * N / 32 on.
 */
template <int N, int BIT>
VAE_DEVICE void
sum_scattered(float *v, int lane)
{
    const bool upper = lane & BIT;
    VAE_UNROLL
    for (int i = 0; i < N / 2; i++) {
        const float send = upper ? v[i] : v[i + N / 2];
        const float keep = upper ? v[i + N / 2] : v[i];
        v[i] = keep + __shfl_xor_sync(VAE_ALL_LANES, send, BIT);
    }
    if constexpr (BIT > 1)
        sum_scattered<N / 2, BIT / 2>(v, lane);
}

/* Scores of a warp's EACH keys from `key` on; those past n are -inf. */
template <int X, int ROWS>
VAE_DEVICE void
scores(const VaeAttentionArgs &a, Tile<ROWS> *tile, const float *query, int key,
       float scale)
{
    const int lane = (int) threadIdx.x % 32, warp = (int) threadIdx.x / 32;
    const int stride = (a.c + 7) / 8 * 8, N = EACH * ROWS;
    float dot[N] = {0};
    for (int first = 8 * lane; first < a.c; first += 256) {
        VaeOctet<X> k[EACH];
        VAE_UNROLL
        for (int j = 0; j < EACH; j++) {
            const int site = key + j < a.n ? key + j : a.n - 1;
            vae_octet_load<X>(k[j], a.qkv, a.x_type,
                              ((size_t) blockIdx.y * a.n + site) * 3 * a.c +
                                  a.c + first,
                              vae_octet_valid(first, a.c));
        }
        VAE_UNROLL
        for (int row = 0; row < ROWS; row++) {
            uint32_t q[8];
            vae_load16(q, query + row * stride + first);
            vae_load16(q + 4, query + row * stride + first + 4);
            VAE_UNROLL
            for (int j = 0; j < EACH; j++)
                VAE_UNROLL
            for (int i = 0; i < 8; i++)
                dot[j * ROWS + row] =
                    fmaf(vae_from_bits(q[i]), vae_octet_get<X>(k[j], i),
                         dot[j * ROWS + row]);
        }
    }
    sum_scattered<N, 16>(dot, lane);
    VAE_UNROLL
    for (int i = 0; i < N / 32; i++) {
        const int j = (lane * (N / 32) + i) / ROWS;
        const int row = (lane * (N / 32) + i) % ROWS;
        tile->weight[(warp * EACH + j) * Tile<ROWS>::STRIDE + row] =
            key + j < a.n ? dot[i] * scale : -INFINITY;
    }
}

/* Scores to weights, a row for a warp at a time and a key for a lane. */
template <int ROWS>
VAE_DEVICE void
weigh(Tile<ROWS> *tile)
{
    const int lane = (int) threadIdx.x % 32;
    for (int row = (int) threadIdx.x / 32; row < ROWS; row += WARPS) {
        float *at = tile->weight + lane * Tile<ROWS>::STRIDE + row;
        const float score = *at, before = tile->most[row];
        const float most = fmaxf(before, vae_lanes_max(score, 32));
        const float weight = vae_ptx_ex2((score - most) * 1.44269504f);
        const float shrink = vae_ptx_ex2((before - most) * 1.44269504f);
        const float sum = vae_lanes_sum(weight, 32);
        *at = weight;
        __syncwarp();
        if (lane == 0) {
            tile->most[row] = most;
            tile->shrink[row] = shrink;
            tile->sum[row] = tile->sum[row] * shrink + sum;
        }
    }
}

/* Adds KEYS sites of V to columns threadIdx.x, + 256, ... of the result. */
template <int X, int ROWS, int COLUMNS>
VAE_DEVICE void
add_values(const VaeAttentionArgs &a, const Tile<ROWS> *tile,
           float (*y)[COLUMNS], int key)
{
    VAE_UNROLL
    for (int row = 0; row < ROWS; row++)
        VAE_UNROLL
    for (int j = 0; j < COLUMNS; j++)
        y[row][j] *= tile->shrink[row];
    const int keys = a.n - key < KEYS ? a.n - key : KEYS;
    for (int k = 0; k < keys; k++) {
        const size_t site = (size_t) blockIdx.y * a.n + key + k;
        const float *weight = tile->weight + k * Tile<ROWS>::STRIDE;
        float v[COLUMNS];
        VAE_UNROLL
        for (int j = 0; j < COLUMNS; j++) {
            const int c = (int) threadIdx.x + j * VAE_THREADS;
            v[j] = c < a.c
                       ? vae_load(a.qkv, X == VAE_ANY ? a.x_type : (VaeType) X,
                                  site * 3 * a.c + 2 * a.c + c)
                       : 0;
        }
        VAE_UNROLL
        for (int row = 0; row < ROWS; row++)
            VAE_UNROLL
        for (int j = 0; j < COLUMNS; j++)
            y[row][j] = fmaf(weight[row], v[j], y[row][j]);
    }
}

/* The block's queries as floats; rows past n and channels past c are zero. */
template <int X, int ROWS>
VAE_DEVICE void
load_queries(const VaeAttentionArgs &a, float *query, int first_row)
{
    const int octets = (a.c + 7) / 8;
    for (int i = (int) threadIdx.x; i < ROWS * octets; i += VAE_THREADS) {
        const int row = i / octets, first = i % octets * 8;
        const size_t site = (size_t) blockIdx.y * a.n + first_row + row;
        const int n = first_row + row < a.n ? vae_octet_valid(first, a.c) : 0;
        VaeOctet<X> x;
        vae_octet_load<X>(x, a.qkv, a.x_type, site * 3 * a.c + first, n);
        VAE_UNROLL
        for (int l = 0; l < 8; l++)
            query[8 * i + l] = vae_octet_get<X>(x, l);
    }
}

/* Queries blockIdx.x * ROWS and on of frame blockIdx.y. */
template <int X, int ROWS, int COLUMNS>
VAE_KERNEL_LARGE void
attention(VaeAttentionArgs a, float scale)
{
    VAE_SHARED(Tile<ROWS>, tile);
    float *query = reinterpret_cast<float *>(tile + 1);
    const int first_row = (int) blockIdx.x * ROWS;
    const int warp = (int) threadIdx.x / 32;
    float y[ROWS][COLUMNS] = {};
    load_queries<X, ROWS>(a, query, first_row);
    if (threadIdx.x < ROWS) {
        tile->most[threadIdx.x] = -INFINITY;
        tile->sum[threadIdx.x] = 0;
    }
    for (int key = 0; key < a.n; key += KEYS) {
        __syncthreads();
        scores<X, ROWS>(a, tile, query, key + warp * EACH, scale);
        __syncthreads();
        weigh<ROWS>(tile);
        __syncthreads();
        add_values<X, ROWS, COLUMNS>(a, tile, y, key);
    }
    VAE_UNROLL
    for (int row = 0; row < ROWS; row++)
        VAE_UNROLL
    for (int j = 0; j < COLUMNS; j++) {
        const int c = (int) threadIdx.x + j * VAE_THREADS;
        const size_t site = (size_t) blockIdx.y * a.n + first_row + row;
        if (first_row + row < a.n && c < a.c)
            vae_store(a.y, a.y_type, site * a.c + c,
                      y[row][j] / tile->sum[row]);
    }
}

template <int X, int ROWS, int COLUMNS>
static void
launch(const VaeQueue *q, const VaeAttentionArgs *a)
{
    const size_t stride = ((size_t) a->c + 7) / 8 * 8;
    vae_launch(attention<X, ROWS, COLUMNS>,
               dim3(vae_blocks((size_t) a->n, ROWS), (unsigned) a->t),
               VAE_THREADS, sizeof(Tile<ROWS>) + stride * ROWS * sizeof(float),
               q->stream, *a, 1 / sqrtf((float) a->c));
}

void
vae_cuda_attention(const VaeQueue *q, const VaeAttentionArgs *a)
{
    const bool aligned = vae_octets_aligned(a->qkv, (size_t) a->c);
    const auto run = [&](auto x) {
        if (a->c <= 2 * VAE_THREADS)
            launch<decltype(x)::value, 16, 2>(q, a);
        else
            launch<decltype(x)::value, 8, 4>(q, a);
    };
    if (!a->t || !a->n)
        return;
    if (a->x_type != VAE_TYPE_F32 && a->c % 8 == 0 &&
        vae_launch_capability() >= 80)
        vae_cuda_attention_matrix(q, a);
    else if (!aligned)
        run(VaeTypeIs<VAE_ANY>());
    else
        vae_with_type(a->x_type, run);
}

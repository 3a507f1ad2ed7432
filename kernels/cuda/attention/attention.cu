/*
 * attention.cu: attention with one head and an online softmax, in fp32.
 *
 * A block has ROWS queries and loops over all keys of their frame, KEYS at a
 * time: scores, weights relative to the largest score so far, weighted sum of
 * V. If the largest score grows, the previous sums are scaled down. The memory
 * of a block does not depend on n. With a history (SO_FAR), the loop goes over
 * the keys of one latent after another.
 */
#include "attention.cuh"
#include "common.cuh"
#include "cuda.h"

enum { WARPS = 8, EACH = 4, KEYS = WARPS * EACH }; /* a warp has EACH keys */
enum { WIDTH = VAE_THREADS / 2 }; /* threads across the columns */

template <int ROWS, int COLUMNS> struct Tile {
    static const int STRIDE = ROWS + 4; /* of weight; avoids bank conflicts */
    static const int DEEP = COLUMNS * WIDTH; /* most channels */
    float weight[KEYS * STRIDE];             /* scores, then weights */
    float most[ROWS], sum[ROWS], shrink[ROWS];
    float query[ROWS * DEEP];
};

/*
 * Sums v[0..N-1] over groups of 2 * BIT lanes. Over 32 lanes, lane l keeps the
 * sums from index l * N / 32 on.
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

/* Loads four channels from `at` on, or zeros if n is 0; n is 0 or 4 except for
 * VAE_ANY. */
template <int X>
VAE_DEVICE void
load_quad(float *v, const void *p, VaeType type, size_t at, int n)
{
    uint32_t word[4] = {0, 0, 0, 0};
    if (X == VAE_TYPE_F32 && n)
        vae_load16(word, static_cast<const float *>(p) + at);
    VAE_UNROLL
    for (int i = 0; i < 4; i++)
        v[i] = X == VAE_TYPE_F32 ? vae_from_bits(word[i])
               : i < n           ? vae_load(p, type, at + i)
                                 : 0;
}

/* Scores of a warp's EACH keys from `key` of the rows on; -inf past n. A lane
 * has every 32nd group of four channels, so that neighbouring lanes read
 * neighbouring banks. */
template <int X, int ROWS, int COLUMNS>
VAE_DEVICE void
scores(const VaeAttentionArgs &a, Tile<ROWS, COLUMNS> *tile,
       const VaeRows &rows, int key, float scale)
{
    const VaeType type = X == VAE_ANY ? a.x_type : (VaeType) X;
    const int lane = (int) threadIdx.x % 32, warp = (int) threadIdx.x / 32;
    const int N = EACH * ROWS;
    float dot[N] = {0};
    size_t at = (size_t) key * rows.row + 4 * lane;
    VAE_NO_UNROLL
    for (int first = 4 * lane; first < a.c; first += 128, at += 128) {
        const int n = a.c - first < 4 ? a.c - first : 4;
        float k[EACH][4];
        VAE_UNROLL
        for (int j = 0; j < EACH; j++)
            load_quad<X>(k[j], rows.k, type, at + (size_t) j * rows.row,
                         key + j < a.n ? n : 0);
        VAE_UNROLL
        for (int row = 0; row < ROWS; row++) {
            uint32_t q[4];
            vae_load16(q, tile->query + row * tile->DEEP + first);
            VAE_UNROLL
            for (int j = 0; j < EACH; j++)
                VAE_UNROLL
            for (int i = 0; i < 4; i++)
                dot[j * ROWS + row] =
                    fmaf(vae_from_bits(q[i]), k[j][i], dot[j * ROWS + row]);
        }
    }
    sum_scattered<N, 16>(dot, lane);
    const int j = lane * (N / 32) / ROWS, row = lane * (N / 32) % ROWS;
    float *to =
        tile->weight + (warp * EACH + j) * Tile<ROWS, COLUMNS>::STRIDE + row;
    VAE_UNROLL
    for (int i = 0; i < N / 32; i++)
        to[i] = key + j < a.n ? dot[i] * scale : -INFINITY;
}

/* Turns scores into weights; a warp has one row at a time, a lane one key. */
template <int ROWS, int COLUMNS>
VAE_DEVICE void
weigh(Tile<ROWS, COLUMNS> *tile)
{
    const int lane = (int) threadIdx.x % 32;
    for (int row = (int) threadIdx.x / 32; row < ROWS; row += WARPS) {
        float *at = tile->weight + lane * Tile<ROWS, COLUMNS>::STRIDE + row;
        const float score = *at, before = tile->most[row];
        const float most = fmaxf(before, vae_lanes_max(score, 32));
        const float zero = vae_largest_score(most);
        const float weight = vae_ptx_ex2((score - zero) * 1.44269504f);
        const float shrink = vae_ptx_ex2((before - zero) * 1.44269504f);
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

/* Adds KEYS rows of V to the thread's half of the rows and columns. */
template <int X, int ROWS, int COLUMNS>
VAE_DEVICE void
add_values(const VaeAttentionArgs &a, const Tile<ROWS, COLUMNS> *tile,
           float (*y)[COLUMNS], const VaeRows &rows, int key)
{
    const VaeType type = X == VAE_ANY ? a.x_type : (VaeType) X;
    const int first_row = (int) threadIdx.x / WIDTH * (ROWS / 2);
    VAE_UNROLL
    for (int row = 0; row < ROWS / 2; row++)
        VAE_UNROLL
    for (int j = 0; j < COLUMNS; j++)
        y[row][j] *= tile->shrink[first_row + row];
    const int keys = a.n - key < KEYS ? a.n - key : KEYS;
    const int column = (int) threadIdx.x % WIDTH;
    size_t at = (size_t) key * rows.row + a.c + column;
    for (int k = 0; k < keys; k++, at += rows.row) {
        uint32_t weight[ROWS / 2];
        float v[COLUMNS];
        VAE_UNROLL
        for (int row = 0; row < ROWS / 2; row += 4)
            vae_load16(weight + row, tile->weight +
                                         k * Tile<ROWS, COLUMNS>::STRIDE +
                                         first_row + row);
        VAE_UNROLL
        for (int j = 0; j < COLUMNS; j++)
            v[j] = column + j * WIDTH < a.c
                       ? vae_load(rows.k, type, at + j * WIDTH)
                       : 0;
        VAE_UNROLL
        for (int row = 0; row < ROWS / 2; row++)
            VAE_UNROLL
        for (int j = 0; j < COLUMNS; j++)
            y[row][j] = fmaf(vae_from_bits(weight[row]), v[j], y[row][j]);
    }
}

/* Loads the block's queries as floats; rows past n and channels past c are
 * zero. */
template <int X, int ROWS, int COLUMNS>
VAE_DEVICE void
load_queries(const VaeAttentionArgs &a, Tile<ROWS, COLUMNS> *tile,
             int first_row)
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
            tile->query[row * tile->DEEP + first + l] = vae_octet_get<X>(x, l);
    }
}

/* Calls f for each number of the thread: row and column of y, row of the block,
 * and channel. */
template <int ROWS, int COLUMNS, typename F>
VAE_DEVICE void
each_number(const VaeAttentionArgs &a, int first_row, F f)
{
    VAE_UNROLL
    for (int i = 0; i < ROWS / 2; i++)
        VAE_UNROLL
    for (int j = 0; j < COLUMNS; j++) {
        const int row = (int) threadIdx.x / WIDTH * (ROWS / 2) + i;
        const int c = (int) threadIdx.x % WIDTH + j * WIDTH;
        if (first_row + row < a.n && c < a.c)
            f(i, j, row, c);
    }
}

/* Sets the sums of no keys, or those of the parts before. */
template <bool SO_FAR, int ROWS, int COLUMNS>
VAE_DEVICE void
begin(const VaeAttentionArgs &a, Tile<ROWS, COLUMNS> *tile, float (*y)[COLUMNS],
      int first_row)
{
    const int row = (int) threadIdx.x;
    const bool goes_on = vae_continues<SO_FAR>(a);
    const bool has_sums = goes_on && first_row + row < a.n;
    if (row < ROWS) {
        const float *sums =
            has_sums ? vae_sums_of(a, first_row + row) : nullptr;
        tile->most[row] = has_sums ? sums[a.c] : -INFINITY;
        tile->sum[row] = has_sums ? sums[a.c + 1] : 0;
    }
    if (goes_on)
        each_number<ROWS, COLUMNS>(
            a, first_row, [&](int i, int j, int block_row, int c) {
                y[i][j] = vae_sums_of(a, first_row + block_row)[c];
            });
}

/* Writes the result, or the sums for the next part. */
template <bool SO_FAR, int ROWS, int COLUMNS>
VAE_DEVICE void
end(const VaeAttentionArgs &a, const Tile<ROWS, COLUMNS> *tile,
    const float (*y)[COLUMNS], int first_row)
{
    const bool keeps = vae_goes_on<SO_FAR>(a);
    const int row = (int) threadIdx.x;
    each_number<ROWS, COLUMNS>(
        a, first_row, [&](int i, int j, int block_row, int c) {
            const size_t site =
                (size_t) blockIdx.y * a.n + first_row + block_row;
            if (keeps)
                vae_sums_of(a, first_row + block_row)[c] = y[i][j];
            else
                vae_store(a.y, a.y_type, site * a.c + c,
                          y[i][j] / tile->sum[block_row]);
        });
    if (keeps && row < ROWS && first_row + row < a.n) {
        vae_sums_of(a, first_row + row)[a.c] = tile->most[row];
        vae_sums_of(a, first_row + row)[a.c + 1] = tile->sum[row];
    }
}

/* AttentionBlocks per multiprocessor: two if the assembler does not spill for
 * the second. */
template <int X, int COLUMNS> struct AttentionBlocks {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
    static const int N = X == VAE_TYPE_F32 && COLUMNS == 3 ? 2 : 1;
#else
    static const int N = 1;
#endif
};

/*
 * Computes queries from blockIdx.x * ROWS on of frame blockIdx.y. A thread has
 * half of the result's rows, and columns threadIdx.x % WIDTH, + WIDTH, ...
 */
template <int X, int ROWS, int COLUMNS, bool SO_FAR>
VAE_GLOBAL
__launch_bounds__(VAE_THREADS, (AttentionBlocks<X, COLUMNS>::N)) void attention(
    VaeAttentionArgs a, float scale)
{
    typedef Tile<ROWS, COLUMNS> Block;
    VAE_SHARED(Block, tile);
    const int first_row = (int) blockIdx.x * ROWS;
    const int warp = (int) threadIdx.x / 32;
    float y[ROWS / 2][COLUMNS] = {};
    load_queries<X>(a, tile, first_row);
    begin<SO_FAR>(a, tile, y, first_row);
    const VaeType type = X == VAE_ANY ? a.x_type : (VaeType) X;
    const VaeKeys keys = vae_keys<SO_FAR>(a);
    for (int i = 0; i < keys.latents; i++) {
        const VaeRows rows =
            vae_rows<SO_FAR>(a, keys, i, type == VAE_TYPE_F32 ? 4 : 2);
        for (int key = 0; key < a.n; key += KEYS) {
            __syncthreads();
            scores<X>(a, tile, rows, key + warp * EACH, scale);
            __syncthreads();
            weigh(tile);
            __syncthreads();
            add_values<X>(a, tile, y, rows, key);
        }
    }
    end<SO_FAR>(a, tile, y, first_row);
}

/* Copies K and V of row blockIdx.x to the history. */
template <typename Word>
VAE_GLOBAL void
keep(VaeAttentionArgs a)
{
    const uint64_t latent = a.part.rows ? (uint64_t) a.part.latents - 1
                                        : vae_history_last(&a.history);
    const size_t row = 2 * (size_t) a.c;
    const Word *from =
        static_cast<const Word *>(a.qkv) + (size_t) blockIdx.x * 3 * a.c + a.c;
    Word *to =
        reinterpret_cast<Word *>(vae_rows_of(a, latent)) + blockIdx.x * row;
    for (size_t i = threadIdx.x; i < row; i += VAE_THREADS)
        to[i] = from[i];
}

template <int X, int ROWS, int COLUMNS, bool SO_FAR>
static void
launch(const VaeQueue *q, const VaeAttentionArgs *a)
{
    vae_launch(attention<X, ROWS, COLUMNS, SO_FAR>,
               dim3(vae_blocks((size_t) a->n, ROWS), (unsigned) a->t),
               VAE_THREADS, sizeof(Tile<ROWS, COLUMNS>), q->stream, *a,
               1 / sqrtf((float) a->c));
}

/* Only the kernels for the most channels, which are those of the networks with
 * a history. */
static void
so_far(const VaeQueue *q, const VaeAttentionArgs *a, bool matrix, bool aligned)
{
    if (!a->part.rows || a->part.last)
        vae_launch(a->x_type == VAE_TYPE_F32 ? keep<uint32_t> : keep<uint16_t>,
                   dim3((unsigned) a->n), VAE_THREADS, 0, q->stream, *a);
    if (matrix && a->x_type != VAE_TYPE_F32)
        vae_cuda_attention_matrix(q, a);
    else if (aligned && a->x_type == VAE_TYPE_F32)
        launch<VAE_TYPE_F32, 8, 8, true>(q, a);
    else
        launch<VAE_ANY, 8, 8, true>(q, a);
}

void
vae_cuda_attention(const VaeQueue *q, const VaeAttentionArgs *a)
{
    const bool aligned = vae_octets_aligned(a->qkv, (size_t) a->c);
    const auto run = [&](auto x) {
        if (a->c <= 3 * WIDTH)
            launch<decltype(x)::value, 16, 3, false>(q, a);
        else if (a->c <= 4 * WIDTH)
            launch<decltype(x)::value, 16, 4, false>(q, a);
        else if (a->c <= 8 * WIDTH)
            launch<decltype(x)::value, 8, 8, false>(q, a);
        else
            launch<decltype(x)::value, 8, 9, false>(q, a);
    };
    if (!a->t || !a->n)
        return;
    const int capability = vae_launch_capability();
    const bool matrix = a->c % 8 == 0 && capability >= 80;
    if (a->history.blocks) {
        so_far(q, a, matrix, aligned);
        return;
    }
    const bool groups =
        matrix && capability == 90 && aligned && a->c > 256 && a->c <= 640;
    if (groups && a->x_type != VAE_TYPE_F32)
        vae_cuda_attention_wgmma(q, a);
    else if (matrix && a->x_type != VAE_TYPE_F32)
        vae_cuda_attention_matrix(q, a);
    else if (matrix && aligned && a->tf32 && a->y_type == VAE_TYPE_F32)
        vae_cuda_attention_tf32(q, a);
    else if (!aligned)
        run(VaeTypeIs<VAE_ANY>());
    else
        vae_with_type(a->x_type, run);
}

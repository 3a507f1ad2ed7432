/*
 * attention_matrix.cu: attention with one head on the matrix units.
 *
 * Like attention.cu, with 64 keys at a time. Eight warps share the block's
 * queries: for the scores, each warp has 16 rows of some keys; for the result,
 * all rows of some columns. K passes through shared memory in pieces of 64
 * channels, V in pieces of 16 keys. While one piece is multiplied, the next is
 * copied.
 */
#include "attention.cuh"
#include "fragment.cuh"

enum { WARPS = 8, KEYS = 64, DEEP = 64, VALUES = 16, PAD = 8 };

/*
 * Sizes for up to C channels. PAD: elements between rows, so that the rows of
 * an 8 x 8 matrix are in different banks. The total must fit into 99 KiB, the
 * shared memory of a block on sm_86, 89 and 120. The result, ROWS x C floats,
 * is in registers.
 */
template <int C_, int ROWS_, int WIDE_> struct Plan {
    static const int C = C_, ROWS = ROWS_;
    static const int WIDE = WIDE_;      /* columns of a piece of V */
    static const int SPLITS = C / WIDE; /* pieces for the same keys */
    static const int TALL = ROWS / 16;  /* 16-row matrices */
    static const int DOWN = TALL;       /* warps that share the keys' rows */
    static const int BESIDE = WARPS / DOWN;
    static const int SCORES = KEYS / BESIDE / 8; /* per warp, of 8 keys each */
    static const int COLUMNS = WIDE / WARPS / 8; /* per warp, 8 wide */
    static const int PIECES = C / DEEP;
    static const int QUERY = ROWS * (C + PAD); /* elements */
    static const int WEIGHT = ROWS * (KEYS + PAD);
    static const int K = KEYS * (DEEP + PAD), V = VALUES * (WIDE + PAD);
    static const int PIECE = K > V ? K : V;
    static const int FLOATS = ROWS * (2 * BESIDE + 4);
    static const int BYTES =
        2 * (QUERY + WEIGHT + 2 * PIECE) + (int) sizeof(float) * FLOATS;
    static_assert(BYTES <= 99 << 10, "shared memory of a block");
    static_assert(SCORES % 2 == 0 && COLUMNS % 2 == 0, "pairs are loaded");
};

typedef uint16_t Half;

/* The block's shared memory. */
typedef struct Memory {
    Half *query;       /* [ROWS][C + PAD] */
    Half *weight;      /* [ROWS][KEYS + PAD] */
    Half *piece;       /* two pieces */
    float *most, *sum; /* [ROWS]; `most` twice, for even and odd steps */
    float *shrink;
    float *part_most, *part_sum; /* [ROWS][BESIDE] */
} Memory;

template <typename P>
VAE_DEVICE Memory
divide(Half *all)
{
    Memory m;
    m.query = all;
    m.weight = m.query + P::QUERY;
    m.piece = m.weight + P::WEIGHT;
    m.most = reinterpret_cast<float *>(m.piece + 2 * P::PIECE);
    m.sum = m.most + 2 * P::ROWS;
    m.shrink = m.sum + P::ROWS;
    m.part_most = m.shrink + P::ROWS;
    m.part_sum = m.part_most + P::ROWS * P::BESIDE;
    return m;
}

/* `rows` pixels from `site` on, `wide` channels from `first` on. from: channel
 * 0 of pixel 0; row: elements from pixel to pixel. */
struct Piece {
    const Half *from;
    int row, site, rows, first, wide;
};

/* Starts to copy a piece. Pixels past n and channels past c become zero. */
VAE_DEVICE void
copy(const VaeAttentionArgs &a, Half *to, const Piece &p)
{
    const bool aligned = (uintptr_t) p.from % 16 == 0;
    const int octets = p.wide / 8;
    for (int i = (int) threadIdx.x; i < p.rows * octets; i += VAE_THREADS) {
        const int row = i / octets, c = p.first + i % octets * 8;
        const bool inside = p.site + row < a.n && c < a.c;
        const size_t at = (size_t) (p.site + row) * p.row + c;
        Half *place = to + row * (p.wide + PAD) + i % octets * 8;
        const Half *from = p.from + (inside ? at : 0);
        if (aligned)
            vae_ptx_copy_async(place, from, !inside);
        else
            vae_copy_now(place, from, !inside);
    }
}

/* A step reads KEYS keys of one latent. */
VAE_DEVICE int
steps_of(const VaeAttentionArgs &a)
{
    return (a.n + KEYS - 1) / KEYS;
}

template <bool SO_FAR>
VAE_DEVICE int
key_of(const VaeAttentionArgs &a, int step)
{
    return (SO_FAR ? step % steps_of(a) : step) * KEYS;
}

/* Starts to copy piece `index` of all steps: K by channels, then V by keys. */
template <typename P, bool SO_FAR>
VAE_DEVICE void
copy_piece(const VaeAttentionArgs &a, const Memory &m, const VaeKeys &keys,
           int index)
{
    const int per_step = P::PIECES + KEYS / VALUES * P::SPLITS;
    const int step = index / per_step, i = index % per_step;
    const int v = i - P::PIECES, steps = steps_of(a);
    Half *to = m.piece + index % 2 * P::PIECE;
    if (step < keys.latents * steps) {
        const int key = key_of<SO_FAR>(a, step);
        const VaeRows rows =
            vae_rows<SO_FAR>(a, keys, SO_FAR ? step / steps : 0, sizeof(Half));
        const Half *k = reinterpret_cast<const Half *>(rows.k);
        if (v < 0)
            copy(a, to, {k, rows.row, key, KEYS, i * DEEP, DEEP});
        else
            copy(a, to,
                 {k + a.c, rows.row, key + v / P::SPLITS * VALUES, VALUES,
                  v % P::SPLITS * P::WIDE, P::WIDE});
    }
    vae_ptx_copy_commit();
}

/* Waits for piece `index` and starts to copy the next. */
template <typename P, bool SO_FAR>
VAE_DEVICE const Half *
next_piece(const VaeAttentionArgs &a, const Memory &m, const VaeKeys &keys,
           int *index)
{
    vae_ptx_copy_wait<0>();
    __syncthreads();
    copy_piece<P, SO_FAR>(a, m, keys, *index + 1);
    return m.piece + (*index)++ % 2 * P::PIECE;
}

/* Adds the products of DEEP channels to the warp's scores. */
template <typename P, int T>
VAE_DEVICE void
add_scores(const Memory &m, const Half *keys, float (*score)[4], int channel)
{
    const int warp = (int) threadIdx.x / 32;
    const int row = warp % P::DOWN * 16;
    const int key = warp / P::DOWN * P::SCORES * 8;
    VAE_UNROLL
    for (int k = 0; k < DEEP; k += 16) {
        uint32_t q[4];
        vae_ptx_load_matrices<false>(
            q, vae_corner(m.query, P::C + PAD, row, channel + k));
        VAE_UNROLL
        for (int j = 0; j < P::SCORES; j += 2) {
            uint32_t b[4];
            vae_ptx_load_matrices<false>(
                b, vae_corner_across(keys, DEEP + PAD, key + j * 8, k));
            vae_ptx_multiply<T>(score[j], q, b);
            vae_ptx_multiply<T>(score[j + 1], q, b + 2);
        }
    }
}

/*
 * Turns scores into weights. A lane has two rows of `score`; four lanes of the
 * warp and BESIDE warps share a row. Scores are exponents of two.
 */
template <typename P, int T>
VAE_DEVICE void
weigh(const Memory &m, float (*score)[4], int left, float scale, int odd)
{
    const int lane = (int) threadIdx.x % 32, warp = (int) threadIdx.x / 32;
    const int row = warp % P::DOWN * 16 + lane / 4, beside = warp / P::DOWN;
    const int key = beside * P::SCORES * 8 + lane % 4 * 2;
    float most[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
    VAE_UNROLL
    for (int j = 0; j < P::SCORES; j++)
        VAE_UNROLL
    for (int i = 0; i < 4; i++) {
        const bool inside = key + j * 8 + i % 2 < left;
        score[j][i] = inside ? score[j][i] * scale : -INFINITY;
        most[i / 2] = fmaxf(most[i / 2], score[j][i]);
    }
    VAE_UNROLL
    for (int i = 0; i < 2; i++) {
        most[i] = vae_lanes_max(most[i], 4);
        if (lane % 4 == 0)
            m.part_most[(row + 8 * i) * P::BESIDE + beside] = most[i];
    }
    __syncthreads();
    VAE_UNROLL
    for (int i = 0; i < 2; i++) {
        const float before = m.most[odd * P::ROWS + row + 8 * i];
        most[i] = before;
        VAE_UNROLL
        for (int j = 0; j < P::BESIDE; j++)
            most[i] =
                fmaxf(most[i], m.part_most[(row + 8 * i) * P::BESIDE + j]);
        if (beside == 0 && lane % 4 == 0) {
            m.most[(1 - odd) * P::ROWS + row + 8 * i] = most[i];
            m.shrink[row + 8 * i] =
                vae_ptx_ex2(before - vae_largest_score(most[i]));
        }
        most[i] = vae_largest_score(most[i]);
    }
    VAE_UNROLL
    for (int j = 0; j < P::SCORES; j++)
        VAE_UNROLL
    for (int i = 0; i < 2; i++) {
        const float x = vae_ptx_ex2(score[j][2 * i] - most[i]);
        const float y = vae_ptx_ex2(score[j][2 * i + 1] - most[i]);
        sum[i] += x + y;
        *reinterpret_cast<uint32_t *>(m.weight + (row + 8 * i) * (KEYS + PAD) +
                                      key + j * 8) = vae_pair<T>(x, y);
    }
    VAE_UNROLL
    for (int i = 0; i < 2; i++) {
        sum[i] = vae_lanes_sum(sum[i], 4);
        if (lane % 4 == 0)
            m.part_sum[(row + 8 * i) * P::BESIDE + beside] = sum[i];
    }
}

/* After weigh() and a barrier: scales the previous sums down. */
template <typename P>
VAE_DEVICE void
shrink(const Memory &m, float (*y)[P::TALL][P::COLUMNS][4])
{
    const int lane = (int) threadIdx.x % 32, row = (int) threadIdx.x;
    if (row < P::ROWS) {
        float sum = m.sum[row] * m.shrink[row];
        for (int j = 0; j < P::BESIDE; j++)
            sum += m.part_sum[row * P::BESIDE + j];
        m.sum[row] = sum;
    }
    VAE_UNROLL
    for (int t = 0; t < P::TALL; t++) {
        const float upper = m.shrink[16 * t + lane / 4];
        const float lower = m.shrink[16 * t + lane / 4 + 8];
        VAE_UNROLL
        for (int s = 0; s < P::SPLITS; s++)
            VAE_UNROLL
        for (int j = 0; j < P::COLUMNS; j++)
            VAE_UNROLL
        for (int i = 0; i < 4; i++)
            y[s][t][j][i] *= i < 2 ? upper : lower;
    }
}

/* Adds the products of 16 keys to the warp's columns of one piece. */
template <typename P, int T>
VAE_DEVICE void
add_values(const Memory &m, const Half *values, float (*y)[P::COLUMNS][4],
           int key)
{
    const int column = (int) threadIdx.x / 32 * P::COLUMNS * 8;
    VAE_UNROLL
    for (int j = 0; j < P::COLUMNS; j += 2) {
        uint32_t v[4];
        vae_ptx_load_matrices<true>(
            v, vae_corner(values, P::WIDE + PAD, 0, column + j * 8));
        VAE_UNROLL
        for (int t = 0; t < P::TALL; t++) {
            uint32_t w[4];
            vae_ptx_load_matrices<false>(
                w, vae_corner(m.weight, KEYS + PAD, 16 * t, key));
            vae_ptx_multiply<T>(y[t][j], w, v);
            vae_ptx_multiply<T>(y[t][j + 1], w, v + 2);
        }
    }
}

/* Calls f for each two neighbours of the thread: both, the row of the block,
 * and the channel of the left one. */
template <typename P, typename F>
VAE_DEVICE void
each_pair(const VaeAttentionArgs &a, float (*y)[P::TALL][P::COLUMNS][4],
          int first_row, F f)
{
    const int lane = (int) threadIdx.x % 32;
    const int column = (int) threadIdx.x / 32 * P::COLUMNS * 8 + lane % 4 * 2;
    VAE_UNROLL
    for (int t = 0; t < P::TALL; t++)
        VAE_UNROLL
    for (int i = 0; i < 2; i++) {
        const int row = 16 * t + lane / 4 + 8 * i;
        if (first_row + row >= a.n)
            continue;
        VAE_UNROLL
        for (int k = 0; k < P::SPLITS * P::COLUMNS; k++) {
            const int s = k / P::COLUMNS, j = k % P::COLUMNS;
            const int c = s * P::WIDE + column + j * 8;
            if (c >= a.c)
                continue;
            f(y[s][t][j] + 2 * i, row, c);
        }
    }
}

/* Sets the sums of no keys, or those of the parts before. */
template <typename P, bool SO_FAR>
VAE_DEVICE void
begin(const VaeAttentionArgs &a, const Memory &m,
      float (*y)[P::TALL][P::COLUMNS][4], int first_row)
{
    const int row = (int) threadIdx.x;
    const bool goes_on = vae_continues<SO_FAR>(a);
    const bool has_sums = goes_on && first_row + row < a.n;
    if (row < P::ROWS) {
        const float *sums =
            has_sums ? vae_sums_of(a, first_row + row) : nullptr;
        m.most[row] = has_sums ? sums[a.c] : -INFINITY;
        m.sum[row] = has_sums ? sums[a.c + 1] : 0;
    }
    if (goes_on)
        each_pair<P>(a, y, first_row, [&](float *v, int block_row, int c) {
            v[0] = vae_sums_of(a, first_row + block_row)[c];
            v[1] = vae_sums_of(a, first_row + block_row)[c + 1];
        });
}

/* Writes the result, or the sums for the next part. odd: of the number of
 * steps. */
template <typename P, bool SO_FAR>
VAE_DEVICE void
end(const VaeAttentionArgs &a, const Memory &m,
    float (*y)[P::TALL][P::COLUMNS][4], int first_row, int odd)
{
    const bool keeps = vae_goes_on<SO_FAR>(a);
    const int row = (int) threadIdx.x;
    float *const by = m.shrink; /* no longer needed */
    if (row < P::ROWS)
        by[row] = 1 / m.sum[row];
    __syncthreads();
    each_pair<P>(a, y, first_row, [&](const float *v, int block_row, int c) {
        const size_t site = (size_t) blockIdx.y * a.n + first_row + block_row;
        if (keeps) {
            vae_sums_of(a, first_row + block_row)[c] = v[0];
            vae_sums_of(a, first_row + block_row)[c + 1] = v[1];
        } else {
            vae_store_pair(a, site * a.c + c, v[0] * by[block_row],
                           v[1] * by[block_row]);
        }
    });
    if (keeps && row < P::ROWS && first_row + row < a.n) {
        vae_sums_of(a, first_row + row)[a.c] = m.most[odd * P::ROWS + row];
        vae_sums_of(a, first_row + row)[a.c + 1] = m.sum[row];
    }
}

/* Computes queries from blockIdx.x * ROWS on of frame blockIdx.y. */
template <typename P, int T, bool SO_FAR>
VAE_KERNEL_LARGE void
attention_matrix(VaeAttentionArgs a, float scale)
{
    VAE_SHARED(Half, all);
    const Memory m = divide<P>(all);
    const int first_row = (int) blockIdx.x * P::ROWS;
    float y[P::SPLITS][P::TALL][P::COLUMNS][4] = {};
    int piece = 0;
    const VaeKeys keys = vae_keys<SO_FAR>(a);
    const int steps = keys.latents * steps_of(a);
    const Half *q =
        static_cast<const Half *>(a.qkv) + (size_t) blockIdx.y * a.n * 3 * a.c;
    copy(a, m.query, {q, 3 * a.c, first_row, P::ROWS, 0, P::C});
    copy_piece<P, SO_FAR>(a, m, keys, 0);
    begin<P, SO_FAR>(a, m, y, first_row);
    /* next_piece() separates each write to shared memory from its reads. */
    VAE_NO_UNROLL
    for (int step = 0; step < steps; step++) {
        float score[P::SCORES][4] = {};
        VAE_NO_UNROLL
        for (int c = 0; c < P::C; c += DEEP)
            add_scores<P, T>(m, next_piece<P, SO_FAR>(a, m, keys, &piece),
                             score, c);
        weigh<P, T>(m, score, a.n - key_of<SO_FAR>(a, step), scale, step % 2);
        VAE_NO_UNROLL
        for (int key = 0; key < KEYS; key += VALUES)
            VAE_UNROLL
        for (int s = 0; s < P::SPLITS; s++) {
            const Half *values = next_piece<P, SO_FAR>(a, m, keys, &piece);
            if (key == 0 && s == 0)
                shrink<P>(m, y);
            add_values<P, T>(m, values, y[s], key);
        }
    }
    end<P, SO_FAR>(a, m, y, first_row, steps % 2);
}

template <typename P, bool SO_FAR>
static void
launch(const VaeQueue *q, const VaeAttentionArgs *a)
{
    vae_launch_attention(q, a,
                         a->x_type == VAE_TYPE_BF16
                             ? attention_matrix<P, VAE_TYPE_BF16, SO_FAR>
                             : attention_matrix<P, VAE_TYPE_F16, SO_FAR>,
                         P::ROWS, P::BYTES);
}

void
vae_cuda_attention_matrix(const VaeQueue *q, const VaeAttentionArgs *a)
{
    if (a->history.blocks)
        launch<Plan<1024, 32, 256>, true>(q, a);
    else if (a->c <= 384)
        launch<Plan<384, 64, 384>, false>(q, a);
    else if (a->c <= 512)
        launch<Plan<512, 64, 256>, false>(q, a);
    else if (a->c <= 640)
        launch<Plan<640, 32, 640>, false>(q, a);
    else if (a->c <= 1024)
        launch<Plan<1024, 32, 256>, false>(q, a);
    else
        launch<Plan<1152, 32, 128>, false>(q, a);
}

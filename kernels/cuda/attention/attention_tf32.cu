/*
 * attention_tf32.cu: attention with one head in fp32, multiplied as TF32 on the
 * matrix units.
 *
 * Like attention_matrix.cu, but the queries are in registers: with four bytes
 * they would leave no shared memory for K and V. For the scores, each warp has
 * some channels of some rows, and the softmax adds the parts of the warps. For
 * the result, each warp has all rows of some columns. K and V pass through
 * shared memory in pieces of eight keys; several pieces are copied ahead.
 */
#include "attention.cuh"
#include "common.cuh"
#include "ptx/matrix.cuh"

enum { WARPS = 8, KEYS = 32, SITES = 8, TURNS = KEYS / SITES };
enum { KEY_PAD = 4, VALUE_PAD = 8 }; /* against bank conflicts */
static_assert(SITES == WARPS, "a warp copies a row");

/*
 * Sizes for up to C channels. For the scores, the warps form DOWN rows with
 * ROWS / DOWN queries each. A thread has ROWS x C / 256 values of Q and as
 * many of the result in registers.
 */
template <int C_, int ROWS_, int DOWN_, int STAGES_> struct Plan {
    static const int C = C_, ROWS = ROWS_, DOWN = DOWN_;
    static const int STAGES = STAGES_;      /* pieces loaded or being loaded */
    static const int GROUPS = WARPS / DOWN; /* warps that share the channels */
    static const int DEEP = C / GROUPS;     /* channels of a warp */
    static const int TALL = ROWS / 16;      /* 16-row matrices */
    static const int HIGH = TALL / DOWN; /* matrices per warp, for the scores */
    static const int SUMS = HIGH > 2 ? 1 : 2; /* independent sums */
    static const int COLUMNS = C / WARPS;     /* per warp, for the result */
    static const int PAIRS = COLUMNS / 16;    /* pairs of matrices */
    static const int BESIDE =
        ROWS > 32 ? 4 : 8;                 /* threads per row of the softmax */
    static const int EACH = KEYS / BESIDE; /* keys per thread */
    static const int SCORES = ROWS * KEYS;
    static const int PIECE = SITES * (C + VALUE_PAD);
    static const int BYTES =
        (int) sizeof(float) * (GROUPS * SCORES + STAGES * PIECE + ROWS);
    static_assert(BYTES <= 99 << 10, "shared memory of a block");
    static_assert(DEEP % 16 == 0 && COLUMNS % 16 == 0, "pairs are loaded");
    static_assert(TALL % DOWN == 0 && C % 128 == 0, "nothing is left over");
    static_assert(ROWS * BESIDE <= VAE_THREADS, "a thread has one row");
};

/* The block's shared memory. */
typedef struct Tf32Memory {
    float *score; /* [GROUPS][ROWS][KEYS], see at(); weights in the first */
    float *piece; /* [STAGES] */
    float *row;   /* [ROWS], the factor for y; at the end the sum */
} Tf32Memory;

template <typename P>
VAE_DEVICE Tf32Memory
divide(float *all)
{
    Tf32Memory m;
    m.score = all;
    m.piece = m.score + P::GROUPS * P::SCORES;
    m.row = m.piece + P::STAGES * P::PIECE;
    return m;
}

/* Index of a score. Groups of four keys are permuted differently in eight
 * rows, so that reading a matrix or a row has no bank conflicts. */
VAE_DEVICE int
at(int row, int key)
{
    const int turn = row % 4 * 8 + row / 4 % 2 * 4;
    return row * KEYS + (key ^ turn);
}

/* Converts to TF32, assuming that the matrix units cut off the lower 13 bits.
 * TF32 values do not change. For other values the mean is right if their
 * logarithms are uniformly distributed, and the error is below 0.7 units. This
 * takes one instruction; vae_ptx_tf32() takes three on sm_90. */
VAE_DEVICE uint32_t
nearly(uint32_t bits)
{
    return vae_ptx_tf32_cut(vae_from_bits(bits) * (1 + 0x1p-11f * 0.6931472f));
}

/*
 * Starts to copy piece `index`, counted from key `first` on: for each 32 keys
 * four pieces of K, then four of V. Pixels past n and channels past c become
 * zero. `kv` is the lane's address of K in the frame's pixel `warp`.
 */
template <typename P>
VAE_DEVICE void
copy_piece(const VaeAttentionArgs &a, float *to, const float *kv, int first,
           int index)
{
    const int warp = (int) threadIdx.x / 32, lane = (int) threadIdx.x % 32;
    const unsigned which = (unsigned) index / TURNS % 2;
    const unsigned site = (unsigned) first +
                          (unsigned) index / (2 * TURNS) * KEYS +
                          (unsigned) index % TURNS * SITES;
    const float *from = kv + (size_t) (3 * site + which) * (unsigned) a.c;
    const int left = (int) site + warp < a.n ? a.c - 4 * lane : 0;
    to += warp * (P::C + (which ? VALUE_PAD : KEY_PAD)) + 4 * lane;
    VAE_UNROLL
    for (int c = 0; c < P::C; c += 128)
        vae_ptx_copy_async(to + c, from + c, c >= left);
    vae_ptx_copy_commit();
}

/* Waits for piece `index` and starts to copy another into the place of the
 * previous one, `last`. */
template <typename P>
VAE_DEVICE const float *
next_piece(const VaeAttentionArgs &a, const Tf32Memory &m, int *last,
           const float *kv, int first, int index)
{
    float *const free = m.piece + *last;
    vae_ptx_copy_wait<P::STAGES - 2>();
    __syncthreads();
    copy_piece<P>(a, free, kv, first, index + P::STAGES - 1);
    *last = *last == (P::STAGES - 1) * P::PIECE ? 0 : *last + P::PIECE;
    return m.piece + *last;
}

/* Loads the warp's rows and channels of Q; zeros past n and c. */
template <typename P>
VAE_DEVICE void
load_queries(const VaeAttentionArgs &a, uint32_t (*q)[P::DEEP / 8][4],
             int first_row)
{
    const int warp = (int) threadIdx.x / 32, lane = (int) threadIdx.x % 32;
    const int row = first_row + warp % P::DOWN * P::HIGH * 16 + lane / 4;
    const int channel = warp / P::DOWN * P::DEEP + lane % 4;
    const float *from = static_cast<const float *>(a.qkv) +
                        ((size_t) blockIdx.y * a.n + row) * 3 * a.c + channel;
    VAE_UNROLL
    for (int t = 0; t < P::HIGH; t++)
        VAE_UNROLL
    for (int k = 0; k < P::DEEP / 8; k++)
        VAE_UNROLL
    for (int i = 0; i < 4; i++) {
        const int down = 16 * t + i % 2 * 8, right = 8 * k + i / 2 * 4;
        const bool inside = row + down < a.n && channel + right < a.c;
        q[t][k][i] =
            vae_ptx_tf32(inside ? from[(size_t) down * 3 * a.c + right] : 0);
    }
}

/* Computes the part of the warp's channels in the scores of its rows and eight
 * keys. */
template <typename P>
VAE_DEVICE void
add_scores(const Tf32Memory &m, const float *keys,
           const uint32_t (*q)[P::DEEP / 8][4], int key)
{
    const int warp = (int) threadIdx.x / 32, lane = (int) threadIdx.x % 32;
    const int row = warp % P::DOWN * P::HIGH * 16, group = warp / P::DOWN;
    float *to = m.score + group * P::SCORES + row * KEYS +
                at(lane / 4, key + lane % 4 * 2);
    const float *from =
        keys + lane % 8 * (P::C + KEY_PAD) + group * P::DEEP + lane / 8 * 4;
    float score[P::HIGH][P::SUMS][4] = {};
    VAE_UNROLL
    for (int k = 0; k < P::DEEP / 8; k += 2) {
        uint32_t b[4];
        vae_ptx_load_matrices<false>(b, from + 8 * k);
        VAE_UNROLL
        for (int i = 0; i < 4; i++)
            b[i] = nearly(b[i]);
        VAE_UNROLL
        for (int t = 0; t < P::HIGH; t++) {
            vae_ptx_multiply_tf32(score[t][0], q[t][k], b);
            vae_ptx_multiply_tf32(score[t][P::SUMS - 1], q[t][k + 1], b + 2);
        }
    }
    VAE_UNROLL
    for (int t = 0; t < P::HIGH; t++)
        VAE_UNROLL
    for (int i = 0; i < 4; i += 2) {
        float x = score[t][0][i], y = score[t][0][i + 1];
        if (P::SUMS > 1) {
            x += score[t][P::SUMS - 1][i];
            y += score[t][P::SUMS - 1][i + 1];
        }
        *reinterpret_cast<uint64_t *>(to + (16 * t + 4 * i) * KEYS) =
            vae_bits(x) | (uint64_t) vae_bits(y) << 32;
    }
}

/* The row whose softmax the thread computes with BESIDE - 1 others; some warps
 * have none. Four of eight threads have a row four further down, in other
 * banks. */
template <typename P>
VAE_DEVICE int
softmax_row(int thread)
{
    return P::BESIDE == 8
               ? thread / 8
               : thread / 32 * 8 + thread / 8 % 4 + thread / 4 % 2 * 4;
}

/*
 * Turns scores into weights; `most` is that of the row, `sum` that of the
 * thread's weights. Scores are exponents of two.
 */
template <typename P>
VAE_DEVICE void
weigh(const Tf32Memory &m, int left, float scale, float *most, float *sum)
{
    const int thread = vae_ptx_anew((int) threadIdx.x);
    const int row = softmax_row<P>(thread);
    const int key = thread % P::BESIDE * P::EACH;
    if (row >= P::ROWS)
        return;
    const float before = *most;
    float score[P::EACH] = {};
    VAE_NO_UNROLL /* unrolled, it takes too many registers */
        for (int four = 0; four < P::GROUPS; four += 4)
            VAE_UNROLL for (int g = 0; g < 4; g++)
                VAE_UNROLL for (int i = 0; i < P::EACH; i += 4)
    {
        uint32_t part[4];
        vae_load16(part, m.score + (four + g) * P::SCORES + at(row, key + i));
        VAE_UNROLL
        for (int j = 0; j < 4; j++)
            score[i + j] += vae_from_bits(part[j]);
    }
    VAE_UNROLL
    for (int i = 0; i < P::EACH; i++) {
        score[i] = key + i < left ? score[i] * scale : -INFINITY;
        *most = fmaxf(*most, score[i]);
    }
    *most = vae_lanes_max(*most, P::BESIDE);
    const float zero = vae_largest_score(*most);
    const float shrink = vae_ptx_ex2(before - zero);
    *sum *= shrink;
    VAE_UNROLL
    for (int i = 0; i < P::EACH; i += 4) {
        uint32_t weight[4];
        VAE_UNROLL
        for (int j = 0; j < 4; j++) {
            weight[j] = vae_ptx_tf32(vae_ptx_ex2(score[i + j] - zero));
            *sum += vae_from_bits(weight[j]);
        }
        vae_store16(m.score + at(row, key + i), weight);
    }
    if (key == 0)
        m.row[row] = shrink;
}

/* Scales the previous sums down, mostly by one. Call it after weigh() and a
 * barrier. */
template <typename P>
VAE_DEVICE void
shrink(const Tf32Memory &m, float (*y)[2 * P::PAIRS][4])
{
    const int lane = (int) threadIdx.x % 32;
    float by[P::TALL][2];
    bool any = false;
    VAE_UNROLL
    for (int t = 0; t < P::TALL; t++)
        VAE_UNROLL
    for (int i = 0; i < 2; i++) {
        by[t][i] = m.row[16 * t + lane / 4 + 8 * i];
        any = any || by[t][i] != 1;
    }
    if (!__ballot_sync(VAE_ALL_LANES, any))
        return;
    VAE_UNROLL
    for (int t = 0; t < P::TALL; t++)
        VAE_UNROLL
    for (int j = 0; j < 2 * P::PAIRS; j++)
        VAE_UNROLL
    for (int i = 0; i < 4; i++)
        y[t][j][i] *= by[t][i / 2];
}

/*
 * Adds the products of eight keys to the warp's columns. Two neighbouring
 * matrices have the even and the odd ones of 16 columns, so that a lane loads
 * both at once.
 */
template <typename P>
VAE_DEVICE void
add_values(const Tf32Memory &m, const float *values,
           float (*y)[2 * P::PAIRS][4], int key)
{
    const int warp = (int) threadIdx.x / 32, lane = (int) threadIdx.x % 32;
    const float *from = values + lane % 4 * (P::C + VALUE_PAD) +
                        warp * P::COLUMNS + lane / 4 * 2;
    uint32_t v[P::PAIRS][2][2];
    VAE_UNROLL
    for (int j = 0; j < P::PAIRS; j++)
        VAE_UNROLL
    for (int k = 0; k < 2; k++) {
        const uint64_t two = *reinterpret_cast<const uint64_t *>(
            from + 4 * k * (P::C + VALUE_PAD) + 16 * j);
        v[j][0][k] = nearly((uint32_t) two);
        v[j][1][k] = nearly((uint32_t) (two >> 32));
    }
    VAE_UNROLL
    for (int t = 0; t < P::TALL; t++) {
        uint32_t w[4];
        vae_ptx_load_matrices<false>(w, m.score + 16 * t * KEYS +
                                            at(lane % 16, key + lane / 16 * 4));
        VAE_UNROLL
        for (int j = 0; j < P::PAIRS; j++) {
            vae_ptx_multiply_tf32(y[t][2 * j], w, v[j][0]);
            vae_ptx_multiply_tf32(y[t][2 * j + 1], w, v[j][1]);
        }
    }
}

template <typename P>
VAE_DEVICE void
store(const VaeAttentionArgs &a, const Tf32Memory &m,
      const float (*y)[2 * P::PAIRS][4])
{
    const int thread = vae_ptx_anew((int) threadIdx.x);
    const int warp = thread / 32, lane = thread % 32;
    const int first_row = vae_ptx_anew((int) blockIdx.x) * P::ROWS;
    const int column = warp * P::COLUMNS + lane % 4 * 4;
    VAE_UNROLL
    for (int t = 0; t < P::TALL; t++)
        VAE_UNROLL
    for (int i = 0; i < 2; i++) {
        const int row = 16 * t + lane / 4 + 8 * i;
        const float by = 1 / m.row[row];
        const size_t site = (size_t) blockIdx.y * a.n + first_row + row;
        if (first_row + row >= a.n)
            continue;
        VAE_UNROLL
        for (int j = 0; j < 4 * P::PAIRS; j++) {
            const int c = column + j / 4 * 16 + j % 4;
            if (c < a.c)
                static_cast<float *>(a.y)[site * a.c + c] =
                    y[t][j / 4 * 2 + j % 2][2 * i + j % 4 / 2] * by;
        }
    }
}

/* Computes queries from blockIdx.x * ROWS on of frame blockIdx.y. */
template <typename P>
VAE_KERNEL_LARGE void
attention_tf32(VaeAttentionArgs a, float scale)
{
    VAE_SHARED(float, all);
    const Tf32Memory m = divide<P>(all);
    const int thread = (int) threadIdx.x;
    uint32_t q[P::HIGH][P::DEEP / 8][4];
    float y[P::TALL][2 * P::PAIRS][4] = {};
    float most = -INFINITY, sum = 0;
    const float *kv = static_cast<const float *>(a.qkv) +
                      ((size_t) blockIdx.y * a.n + thread / 32) * 3 * a.c +
                      a.c + thread % 32 * 4;
    int last = (P::STAGES - 1) * P::PIECE;
    VAE_UNROLL
    for (int i = 0; i < P::STAGES - 1; i++)
        copy_piece<P>(a, m.piece + i * P::PIECE, kv, 0, i);
    load_queries<P>(a, q, (int) blockIdx.x * P::ROWS);
    /* A barrier separates reading the weights from writing the next scores.
     * Scaling by m.row ends long before it is written again. */
    VAE_NO_UNROLL
    for (int first = 0; first < a.n; first += KEYS) {
        VAE_NO_UNROLL
        for (int i = 0; i < TURNS; i++) {
            const float *keys = next_piece<P>(a, m, &last, kv, first, i);
            add_scores<P>(m, keys, q, i * SITES);
        }
        __syncthreads();
        weigh<P>(m, a.n - first, scale, &most, &sum);
        VAE_NO_UNROLL
        for (int i = 0; i < TURNS; i++) {
            const float *values =
                next_piece<P>(a, m, &last, kv, first, TURNS + i);
            if (i == 0)
                shrink<P>(m, y);
            add_values<P>(m, values, y, i * SITES);
        }
    }
    vae_ptx_copy_wait<0>(); /* for pieces past the end */
    const int row = softmax_row<P>(vae_ptx_anew(thread));
    sum = vae_lanes_sum(sum, P::BESIDE);
    if (row < P::ROWS)
        m.row[row] = sum;
    __syncthreads();
    store<P>(a, m, y);
}

template <typename P>
static void
launch(const VaeQueue *q, const VaeAttentionArgs *a)
{
    vae_launch_attention(q, a, attention_tf32<P>, P::ROWS, P::BYTES);
}

void
vae_cuda_attention_tf32(const VaeQueue *q, const VaeAttentionArgs *a)
{
    if (a->c <= 384)
        launch<Plan<384, 64, 2, 5>>(q, a);
    else if (a->c <= 512)
        launch<Plan<512, 48, 1, 3>>(q, a);
    else if (a->c <= 640)
        launch<Plan<640, 32, 1, 3>>(q, a);
    else if (a->c <= 1024)
        launch<Plan<1024, 16, 1, 2>>(q, a);
    else
        launch<Plan<1152, 16, 1, 2>>(q, a);
}

/*
 * attention_wgmma.cu: the attention of attention_matrix.cu with the
 * instructions of compute capability 9.0, which multiply matrices in shared
 * memory by groups of four warps.
 *
 * A block has two groups. Each has 64 queries of its own or, where their result
 * needs too many registers, both have the same queries, both compute all
 * weights, and each has half of the columns. Scores, weights and the result
 * are in registers; weights are multiplied from there.
 *
 * K and V pass through shared memory in pieces of 64 keys and 128 channels:
 * first those of K, then those of V, for each 64 keys. While some pieces are
 * multiplied, the next are copied. The second group is one piece behind the
 * first, so that one multiplies while the other computes weights.
 */
#include "attention.cuh"
#include "common.cuh"
#include "ptx/matrix.cuh"

enum { KEYS = 64, DEEP = 128, GROUP = 128, GROUPS = VAE_THREADS / GROUP };
/* A square has 64 rows of 64 channels, swizzled; a piece has two. */
enum { SIDE = 64, SQUARE = SIDE * SIDE * 2, PIECE = 2 * SQUARE };
/* Pieces in shared memory: each group multiplies two, one of them is the same
 * for both; the others are being copied. */
enum { STAGES = 8, AHEAD = STAGES - GROUPS - 1, WARPS = VAE_THREADS / 32 };
static_assert(AHEAD <= WARPS, "a warp copies one piece at a time");
enum { REPEAT = 1024 }; /* bytes of the swizzle's pattern: eight rows */

/* Sizes for up to C channels. SHARED: the groups have the same queries. */
template <int C_, bool SHARED_> struct Plan {
    static const int C = C_;
    static const bool SHARED = SHARED_;
    static const int ROWS = SHARED ? SIDE : GROUPS * SIDE;
    static const int PIECES = C / DEEP;
    static const int WIDE = SHARED ? DEEP / GROUPS : DEEP; /* of a piece */
    static const int QUERY = ROWS * C * 2;
    static const int BYTES = REPEAT + QUERY + STAGES * PIECE;
    static_assert(BYTES <= 227 << 10, "shared memory of a block");
    static_assert(C % DEEP == 0, "whole pieces");
};

/* The ring of pieces of K and V. next: the piece that the thread's group takes
 * next. behind: how many pieces this group is behind the other. */
struct Ring {
    char *pieces;
    unsigned behind, next;
};

/*
 * Starts to copy a piece by one warp: 64 rows from `site` on, DEEP channels
 * from `first` on of block `which` (Q, K, V). Rows past n and channels past c
 * become zero. A lane has one octet of every second row.
 */
VAE_DEVICE void
copy(const VaeAttentionArgs &a, char *to, int site, int which, int first)
{
    const int lane = vae_ptx_anew((int) threadIdx.x) % 32, row = lane / 16;
    const int c = first + lane % 16 * 8;
    const size_t pitch = 6 * (size_t) (unsigned) a.c; /* bytes */
    const char *from = static_cast<const char *>(a.qkv) +
                       ((size_t) blockIdx.y * a.n + site + row) * pitch +
                       2 * ((size_t) which * a.c + c);
    int left = c < a.c ? a.n - site - row : 0;
    to += lane % 16 / 8 * SQUARE + row * 128;
    VAE_NO_UNROLL
    for (int i = 0; i < SIDE; i += 8) {
        VAE_UNROLL
        for (int j = 0; j < 8; j += 2)
            vae_ptx_copy_async(to + j * 128 + (lane ^ (row + j)) % 8 * 16,
                               from + j * pitch, j >= left);
        to += REPEAT;
        from += 8 * pitch;
        left -= 8;
    }
    vae_ptx_copy_commit();
}

/* Starts to copy a piece of K or V, by its warp. Behind the last 64 keys there
 * are none. */
template <typename P>
VAE_DEVICE void
copy_piece(const VaeAttentionArgs &a, const Ring &ring, unsigned piece)
{
    if (threadIdx.x / 32 != piece % WARPS)
        return;
    const int site = (int) (piece / (2 * P::PIECES)) * KEYS;
    const int i = (int) (piece % (2 * P::PIECES)), which = 1 + i / P::PIECES;
    if (site < a.n)
        copy(a, ring.pieces + piece % STAGES * PIECE, site, which,
             i % P::PIECES * DEEP);
}

/* Copies the queries, each warp some pieces, and starts to copy the first
 * pieces of K and V. */
template <typename P>
VAE_DEVICE void
copy_first(const VaeAttentionArgs &a, const Ring &ring, char *query)
{
    const int pieces = P::ROWS / SIDE * P::PIECES;
    VAE_NO_UNROLL
    for (int i = (int) threadIdx.x / 32; i < pieces; i += WARPS)
        copy(a, query + i * PIECE,
             (int) blockIdx.x * P::ROWS + i / P::PIECES * SIDE, 0,
             i % P::PIECES * DEEP);
    VAE_NO_UNROLL
    for (unsigned i = 0; i < AHEAD; i++)
        copy_piece<P>(a, ring, i);
    vae_ptx_copy_wait<0>();
    vae_ptx_group_visible();
}

/* Waits for all threads of the block. Its groups are at different pieces. */
VAE_DEVICE void
meet(void)
{
    __syncthreads();
}

/*
 * Waits for the next piece. The warp that copies it waits for the copies. It
 * has no others then, so the fence, which is slow while copies run, costs
 * little.
 */
VAE_DEVICE const char *
next_piece(Ring &ring)
{
    if (threadIdx.x / 32 == (ring.next + ring.behind) % WARPS) {
        vae_ptx_copy_wait<0>();
        vae_ptx_group_visible();
    }
    meet();
    return ring.pieces + ring.next++ % STAGES * PIECE;
}

/* Starts to copy a piece to a buffer that no multiplication reads any more.
 * Call it after meet(), and after the next multiplications have begun. */
template <typename P>
VAE_DEVICE void
copy_ahead(const VaeAttentionArgs &a, const Ring &ring)
{
    copy_piece<P>(a, ring, ring.next + ring.behind + AHEAD - 1);
}

/* Starts to add the products of one piece's channels to the scores. */
template <int T>
VAE_DEVICE void
add_scores(const char *query, const char *keys, float *score)
{
    const uint64_t q = vae_ptx_describe128(query, 0, REPEAT);
    const uint64_t k = vae_ptx_describe128(keys, 0, REPEAT);
    vae_ptx_group_begin();
    VAE_UNROLL
    for (int i = 0; i < DEEP / 16; i++) {
        const int at = (i / 4 * SQUARE + i % 4 * 32) / 16;
        vae_ptx_group_multiply<T, KEYS>(score, q + at, k + at);
    }
    vae_ptx_group_commit();
}

/* Starts to add the products of the weights and one piece of V. `first`: of
 * these weights. */
template <typename P, int T>
VAE_DEVICE void
add_values(const uint32_t *weight, const char *values, float *y, bool first)
{
    const uint64_t v = vae_ptx_describe128(values, SQUARE, REPEAT);
    if (first)
        vae_ptx_group_begin();
    VAE_UNROLL
    for (int i = 0; i < KEYS / 16; i++)
        vae_ptx_group_multiply_held<T, P::WIDE>(y, weight + 4 * i,
                                                v + i * 16 * 128 / 16);
    vae_ptx_group_commit();
}

/* The online softmax of a thread's two rows; `sum` is that of its own keys. */
struct Rows {
    float most[2], sum[2], shrink[2];
};

/* Turns scores into weights. Four lanes share a row of eight keys. `left` keys
 * remain; the products with `scale` are exponents of two. */
template <int T>
VAE_DEVICE void
weigh(float *score, uint32_t *weight, Rows &rows, int left, float scale)
{
    const int key = (int) threadIdx.x % 4 * 2;
    if (left < KEYS)
        VAE_UNROLL
    for (int i = 0; i < KEYS / 2; i++)
        if (key + i / 4 * 8 + i % 2 >= left)
            score[i] = -INFINITY;
    VAE_UNROLL
    for (int r = 0; r < 2; r++) {
        float most = rows.most[r];
        VAE_UNROLL
        for (int i = 0; i < KEYS / 2; i += 4)
            most = fmaxf(most, fmaxf(score[2 * r + i], score[2 * r + i + 1]));
        most = vae_lanes_max(most, 4);
        const float zero = vae_largest_score(most);
        rows.shrink[r] = vae_ptx_ex2((rows.most[r] - zero) * scale);
        rows.most[r] = most;
        rows.sum[r] *= rows.shrink[r];
        VAE_UNROLL
        for (int i = 0; i < KEYS / 2; i += 4) {
            const float x = vae_ptx_ex2((score[2 * r + i] - zero) * scale);
            const float y = vae_ptx_ex2((score[2 * r + i + 1] - zero) * scale);
            rows.sum[r] += x + y;
            weight[i / 2 + r] = vae_pair<T>(x, y);
        }
    }
}

/* Scales the previous sums down, mostly by one. */
template <typename P>
VAE_DEVICE void
shrink(const Rows &rows, float (*y)[P::WIDE / 2])
{
    if (!__ballot_sync(VAE_ALL_LANES,
                       rows.shrink[0] != 1 || rows.shrink[1] != 1))
        return;
    VAE_UNROLL
    for (int piece = 0; piece < P::PIECES; piece++)
        VAE_UNROLL
    for (int i = 0; i < P::WIDE / 2; i++)
        y[piece][i] *= rows.shrink[i / 2 % 2];
}

template <typename P>
VAE_DEVICE void
store(const VaeAttentionArgs &a, const Rows &rows,
      const float (*y)[P::WIDE / 2])
{
    const int thread = (int) threadIdx.x, group = thread / GROUP;
    const int first_row = (int) blockIdx.x * P::ROWS +
                          (P::SHARED ? 0 : group * SIDE) +
                          thread / 32 % 4 * 16 + thread % 32 / 4;
    const int column = (P::SHARED ? group * P::WIDE : 0) + thread % 4 * 2;
    VAE_UNROLL
    for (int r = 0; r < 2; r++) {
        const int row = first_row + 8 * r;
        const float by = 1 / vae_lanes_sum(rows.sum[r], 4);
        const size_t site = (size_t) blockIdx.y * a.n + row;
        if (row >= a.n)
            continue;
        VAE_UNROLL
        for (int piece = 0; piece < P::PIECES; piece++)
            VAE_UNROLL
        for (int i = 2 * r; i < P::WIDE / 2; i += 4) {
            const int c = piece * DEEP + column + i / 4 * 8;
            if (c < a.c)
                vae_store_pair(a, site * a.c + c, y[piece][i] * by,
                               y[piece][i + 1] * by);
        }
    }
}

template <typename P, int T>
VAE_DEVICE void
attend(const VaeAttentionArgs &a, float scale)
{
    VAE_SHARED(char, all);
    /* __shfl_sync() tells the compiler that the value is that of all lanes. */
    const int group = __shfl_sync(VAE_ALL_LANES, (int) threadIdx.x / GROUP, 0);
    char *const query = all + (0 - vae_ptx_shared_address(all)) % REPEAT;
    Ring ring = {query + P::QUERY, 0, 0};
    Rows rows = {{-INFINITY, -INFINITY}, {0, 0}, {0, 0}};
    float y[P::PIECES][P::WIDE / 2] = {};
    copy_first<P>(a, ring, query);
    if (group) {
        meet();
        ring.behind = 1;
        copy_ahead<P>(a, ring);
    }
    VAE_NO_UNROLL
    for (int key = 0; key < a.n; key += KEYS) {
        float score[KEYS / 2] = {};
        uint32_t weight[KEYS / 4];
        const char *q = query + (P::SHARED ? 0 : group * P::PIECES * PIECE);
        VAE_NO_UNROLL
        for (int i = 0; i < P::PIECES; i++) {
            add_scores<T>(q + i * PIECE, next_piece(ring), score);
            copy_ahead<P>(a, ring);
            vae_ptx_group_wait<1>();
        }
        vae_ptx_group_wait<0>();
        weigh<T>(score, weight, rows, a.n - key, scale);
        shrink<P>(rows, y);
        VAE_UNROLL
        for (int i = 0; i < P::PIECES; i++) {
            const char *values = next_piece(ring);
            add_values<P, T>(weight, values + (P::SHARED ? group * SQUARE : 0),
                             y[i], i == 0);
            copy_ahead<P>(a, ring);
            if (i > 0 && i < P::PIECES - 1)
                vae_ptx_group_wait<1>();
        }
        vae_ptx_group_wait<0>();
    }
    if (!group)
        meet();
    store<P>(a, rows, y);
}

/* Other devices trap. */
template <typename P, int T>
VAE_KERNEL_LARGE void
attention_wgmma(VaeAttentionArgs a, float scale)
{
    if (VAE_PTX_GROUPS)
        attend<P, T>(a, scale);
    else
        vae_ptx_group_multiply<T, KEYS>(NULL, 0, 0);
}

template <typename P>
static void
launch(const VaeQueue *q, const VaeAttentionArgs *a)
{
    vae_launch_attention(q, a,
                         a->x_type == VAE_TYPE_BF16
                             ? attention_wgmma<P, VAE_TYPE_BF16>
                             : attention_wgmma<P, VAE_TYPE_F16>,
                         P::ROWS, P::BYTES);
}

void
vae_cuda_attention_wgmma(const VaeQueue *q, const VaeAttentionArgs *a)
{
    if (a->c <= 384)
        launch<Plan<384, false>>(q, a);
    else if (a->c <= 512)
        launch<Plan<512, true>>(q, a);
    else
        launch<Plan<640, true>>(q, a);
}

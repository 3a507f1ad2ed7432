/*
 * conv.cu: convolution on the matrix units, as an implicit product of matrices.
 *
 * A block computes ROWS x 16 pixels of one frame for N output channels. Eight
 * warps share them: each has 64 pixels (four rows of 16) and WIDE channels. The
 * pixels that it reads, with one more on each side, are copied to shared memory
 * once for each frame and 32 channels, and serve all taps in the plane. Weights
 * pass through three buffers, one tap and 32 channels at a time.
 *
 * Each sum runs over frames, then over pieces of 32 channels, then over taps,
 * so it depends neither on the number of frames nor on the size of the picture.
 */
#include "cuda.h"
#include "norm.cuh"

enum {
    WARPS = 8,
    ACROSS = 16, /* columns of pixels of a block */
    MORE = 2,    /* the largest k, less one */
    DEEP = 32,   /* input channels at a time */
    PITCH = 40,  /* elements from one pixel or row of weights to the next, so
                    that the rows of an 8 x 8 matrix are in different banks */
    STAGES = 3,  /* buffers of weights */
    AHEAD = 2,   /* steps between the copy of weights and their use */
    OCTETS = DEEP / 8
};

/* DOWN warps share the pixels; the total must fit into 99 KiB, the shared
 * memory of a block on sm_86, 89 and 120. */
template <int DOWN_, int WIDE_> struct Tile {
    static const int DOWN = DOWN_, WIDE = WIDE_;
    static const int N = WARPS / DOWN * WIDE;
    static const int ROWS = 4 * DOWN;
    static const int PIXELS = (ROWS + MORE) * (ACROSS + MORE);
    static const int HALO = PIXELS * PITCH; /* elements */
    static const int WEIGHT = N * PITCH;
    static const int BYTES = 2 * (2 * HALO + STAGES * WEIGHT);
    static const int COLUMNS = WIDE / 8; /* matrices of a warp, side by side */
    static const int RESULT = N + 8; /* elements from one pixel's results to the
                                        next; these go where the input was */
    static_assert(BYTES <= 99 << 10, "shared memory of a block");
    static_assert(COLUMNS % 2 == 0, "pairs are loaded");
    static_assert(2 * ROWS * ACROSS * RESULT <= BYTES, "results");
};

typedef uint16_t Half;

/* What the block computes. */
struct Place {
    int x, y, t, n; /* of its first pixel and channel */
    int pieces, taps, steps;
    size_t at, down; /* element of the frame's first pixel; from row to row */
    int beside;      /* from pixel to pixel */
};

template <typename P>
VAE_DEVICE Place
place(const VaeConvMatrixArgs &a)
{
    const int beside = (a.wo + ACROSS - 1) / ACROSS;
    Place p;
    p.x = (int) blockIdx.x % beside * ACROSS;
    p.y = (int) blockIdx.x / beside * P::ROWS;
    p.t = (int) blockIdx.z;
    p.n = (int) blockIdx.y * P::N;
    p.pieces = (a.c_in + DEEP - 1) / DEEP;
    p.taps = a.k * a.k;
    p.steps = a.kt * p.pieces * p.taps;
    const int by = a.joined ? 2 : 1;
    const size_t row = (size_t) by * a.wo * a.c_out; /* of y */
    p.beside = by * a.c_out;
    p.down = by * row;
    p.at = (size_t) (p.t * by * a.ho + a.row) * row + a.column * a.c_out;
    return p;
}

VAE_DEVICE size_t
element(const Place &p, int row, int column)
{
    return p.at + row * p.down + column * p.beside;
}

/* Starts to copy the pixels that a section reads: one frame and DEEP channels.
 * What is outside of the picture, and channels past c_in, become zero. */
template <typename P>
VAE_DEVICE void
copy_pixels(const VaeConvMatrixArgs &a, const Place &p, Half *to, int section)
{
    const int frame = p.t + section / p.pieces;
    const bool past = frame < a.past_frames;
    const Half *x =
        static_cast<const Half *>(past ? a.past : a.x) +
        (size_t) (past ? frame : frame - a.past_frames) * a.h * a.w * a.c_in;
    const int first = section % p.pieces * DEEP;
    for (int i = (int) threadIdx.x; i < P::PIXELS * OCTETS; i += VAE_THREADS) {
        const int pixel = i / OCTETS, c = first + i % OCTETS * 8;
        const int row = p.y + pixel / (ACROSS + MORE) - a.pad_y;
        const int column = p.x + pixel % (ACROSS + MORE) - a.pad_x;
        const bool inside =
            row >= 0 && row < a.h && column >= 0 && column < a.w && c < a.c_in;
        const size_t at = ((size_t) row * a.w + column) * a.c_in + c;
        vae_ptx_copy_async(to + pixel * PITCH + i % OCTETS * 8,
                           x + (inside ? at : 0), !inside);
    }
}

/*
 * Starts to copy the weights of a step: one tap of a section. Channels are in
 * another order: of 16, the first matrix of a pair gets 0, 1, 4, 5, 8, 9, 12
 * and 13, so that a lane's results are four neighbours.
 */
template <typename P>
VAE_DEVICE void
copy_weights(const VaeConvMatrixArgs &a, const Place &p, Half *to, int step)
{
    const int section = step / p.taps, frame = section / p.pieces;
    const int first = section % p.pieces * DEEP;
    const int tap = frame * p.taps + step % p.taps;
    const Half *weight = static_cast<const Half *>(a.weight);
    for (int i = (int) threadIdx.x; i < P::N * OCTETS; i += VAE_THREADS) {
        const int n = i / OCTETS, c = first + i % OCTETS * 8;
        const int row = n / 16 * 16 + n % 16 / 4 * 2 + n % 2 + n / 2 % 2 * 8;
        const bool inside = p.n + n < a.c_out && c < a.c_in;
        const size_t at =
            ((size_t) (p.n + n) * a.kt * p.taps + tap) * a.c_in + c;
        vae_ptx_copy_async(to + row * PITCH + i % OCTETS * 8,
                           weight + (inside ? at : 0), !inside);
    }
}

/* Makes a group of the copies of a step's weights and, at the first tap of a
 * section, of the next section's pixels. Past the last step it is empty. */
template <typename P>
VAE_DEVICE void
copy_ahead(const VaeConvMatrixArgs &a, const Place &p, Half *halo, Half *weight,
           int step)
{
    const int next = step / p.taps + 1;
    if (step % p.taps == 0 && next * p.taps < p.steps)
        copy_pixels<P>(a, p, halo + next % 2 * P::HALO, next);
    if (step + AHEAD < p.steps)
        copy_weights<P>(a, p, weight + (step + AHEAD) % STAGES * P::WEIGHT,
                        step + AHEAD);
    vae_ptx_copy_commit();
}

/* Adds the products of one tap and DEEP channels. `pixels` begins at the tap's
 * first pixel. */
template <typename P, int T>
VAE_DEVICE void
multiply(const Half *pixels, const Half *weight, float (*sum)[P::COLUMNS][4])
{
    const int lane = (int) threadIdx.x % 32, warp = (int) threadIdx.x / 32;
    const Half *a = pixels + lane / 16 * 8 +
                    (warp % P::DOWN * 4 * (ACROSS + MORE) + lane % 16) * PITCH;
    const Half *b =
        weight + lane / 8 % 2 * 8 +
        (warp / P::DOWN * P::WIDE + lane % 8 + lane / 16 * 8) * PITCH;
    VAE_UNROLL
    for (int k = 0; k < DEEP; k += 16) {
        uint32_t w[P::COLUMNS][2];
        VAE_UNROLL
        for (int j = 0; j < P::COLUMNS; j += 2)
            vae_ptx_load_matrices<false>(w[j], b + j * 8 * PITCH + k);
        VAE_UNROLL
        for (int i = 0; i < 4; i++) {
            uint32_t x[4];
            vae_ptx_load_matrices<false>(x,
                                         a + i * (ACROSS + MORE) * PITCH + k);
            VAE_UNROLL
            for (int j = 0; j < P::COLUMNS; j++)
                vae_ptx_multiply<T>(sum[i][j], x, w[j]);
        }
    }
}

/* The two values of a word. */
template <int T>
VAE_DEVICE void
unpack(uint32_t word, float *v)
{
    VaeOctet<T> o;
    o.word[0] = word;
    v[0] = vae_octet_get<T>(o, 0);
    v[1] = vae_octet_get<T>(o, 1);
}

/* Four neighbouring results of one pixel: adds, rounds once, stores. */
template <int T>
VAE_DEVICE void
store(const VaeConvMatrixArgs &a, size_t at, const float *sum,
      const float *bias, uint32_t *word)
{
    float add[4] = {};
    if (a.add) {
        vae_load8(word, static_cast<const Half *>(a.add) + at);
        unpack<T>(word[0], add);
        unpack<T>(word[1], add + 2);
    }
    float v[4];
    VAE_UNROLL
    for (int i = 0; i < 4; i++) {
        v[i] = sum[i] + add[i] + bias[i];
        v[i] = a.relu && v[i] < 0 ? 0 : v[i];
    }
    word[0] = vae_pair<T>(v[0], v[1]);
    word[1] = vae_pair<T>(v[2], v[3]);
    if (a.y)
        vae_store8(static_cast<Half *>(a.y) + at, word);
}

/* Stores the results; for a norm also to `kept`. */
template <typename P, int T>
VAE_DEVICE void
store_all(const VaeConvMatrixArgs &a, const Place &p,
          float (*sum)[P::COLUMNS][4], Half *kept)
{
    const int lane = (int) threadIdx.x % 32, warp = (int) threadIdx.x / 32;
    const int first = warp / P::DOWN * P::WIDE + lane % 4 * 4;
    VAE_UNROLL
    for (int j = 0; j < P::COLUMNS; j += 2) {
        const int c = p.n + first + j * 8;
        float bias[4];
        uint32_t word[2];
        if (c >= a.c_out)
            continue;
        vae_load8(word, static_cast<const Half *>(a.bias) + c);
        unpack<T>(word[0], bias);
        unpack<T>(word[1], bias + 2);
        VAE_UNROLL
        for (int i = 0; i < 8; i++) {
            const int y = warp % P::DOWN * 4 + i / 2;
            const int x = lane / 4 + i % 2 * 8;
            const int row = p.y + y, column = p.x + x;
            const float *low = sum[i / 2][j] + i % 2 * 2;
            const float *high = sum[i / 2][j + 1] + i % 2 * 2;
            const float v[4] = {low[0], low[1], high[0], high[1]};
            if (row >= a.ho || column >= a.wo)
                continue;
            store<T>(a, element(p, row, column) + c, v, bias, word);
            if (a.norm.y)
                vae_store8(kept + (y * ACROSS + x) * P::RESULT + c, word);
        }
    }
}

/* The norm of the results, with the sums in the order of the norm's kernels. */
template <typename P, int T>
VAE_DEVICE void
norm_all(const VaeConvMatrixArgs &a, const Place &p, const Half *kept,
         int lanes)
{
    const int lane = (int) threadIdx.x & (lanes - 1);
    const float root = sqrtf((float) a.c_out);
    VAE_NO_UNROLL
    for (int i = (int) threadIdx.x / lanes; i < P::ROWS * ACROSS;
         i += VAE_THREADS / lanes) {
        const int row = p.y + i / ACROSS, column = p.x + i % ACROSS;
        const int c = row < a.ho && column < a.wo ? a.c_out : 0;
        const size_t at = element(p, row, column);
        const Half *pixel = kept + i * P::RESULT;
        VaeOctet<T> x;
        float sum = 0;
        VAE_NO_UNROLL
        for (int first = 8 * lane; first < c; first += 8 * lanes) {
            vae_load16(x.word, pixel + first);
            sum = vae_rms_squares<T>(sum, x);
        }
        const float scale =
            vae_rms_scale(a.norm, vae_lanes_sum(sum, lanes), root);
        VAE_NO_UNROLL
        for (int first = 8 * lane; first < c; first += 8 * lanes) {
            vae_load16(x.word, pixel + first);
            vae_rms_octet<T, T>(a.norm, vae_rms_options(a.norm), x,
                                {at + first, first, 8, false}, scale);
        }
    }
}

template <typename P, int T>
VAE_KERNEL_LARGE void
conv_matrix(VaeConvMatrixArgs a, int lanes)
{
    VAE_SHARED(Half, halo);
    Half *const weight = halo + 2 * P::HALO;
    const Place p = place<P>(a);
    float sum[4][P::COLUMNS][4] = {};
    copy_pixels<P>(a, p, halo, 0);
    VAE_UNROLL
    for (int i = 0; i < AHEAD; i++) {
        copy_weights<P>(a, p, weight + i * P::WEIGHT, i);
        vae_ptx_copy_commit();
    }
    /* The barrier separates the copies of all threads from their use, and the
     * use of buffers from the copies that overwrite them. */
    VAE_NO_UNROLL
    for (int step = 0; step < p.steps; step++) {
        const int section = step / p.taps, tap = step % p.taps;
        vae_ptx_copy_wait<AHEAD - 1>();
        __syncthreads();
        copy_ahead<P>(a, p, halo, weight, step);
        multiply<P, T>(halo + section % 2 * P::HALO +
                           (tap / a.k * (ACROSS + MORE) + tap % a.k) * PITCH,
                       weight + step % STAGES * P::WEIGHT, sum);
    }
    if (a.norm.y)
        __syncthreads(); /* the input is read */
    store_all<P, T>(a, p, sum, halo);
    if (!a.norm.y)
        return;
    __syncthreads();
    norm_all<P, T>(a, p, halo, lanes);
}

template <typename P>
static void
launch(const VaeQueue *q, const VaeConvMatrixArgs *args)
{
    VaeConvMatrixArgs a = *args;
    const int lanes = vae_rms_lanes(a.c_out);
    const dim3 grid(vae_blocks((size_t) a.wo, ACROSS) *
                        vae_blocks((size_t) a.ho, P::ROWS),
                    vae_blocks((size_t) a.c_out, P::N), (unsigned) a.t);
    a.norm.c = a.c_out;
    if (a.type == VAE_TYPE_BF16)
        vae_launch(conv_matrix<P, VAE_TYPE_BF16>, grid, VAE_THREADS, P::BYTES,
                   q->stream, a, lanes);
    else
        vae_launch(conv_matrix<P, VAE_TYPE_F16>, grid, VAE_THREADS, P::BYTES,
                   q->stream, a, lanes);
}

void
vae_cuda_convolve(const VaeQueue *q, const VaeConvMatrixArgs *a)
{
    if (a->c_out % 256 == 0)
        launch<Tile<2, 64>>(q, a);
    else if (a->c_out % 192 == 0)
        launch<Tile<2, 48>>(q, a);
    else if (a->c_out % 128 == 0)
        launch<Tile<4, 64>>(q, a);
    else
        launch<Tile<4, 48>>(q, a);
}

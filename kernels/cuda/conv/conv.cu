/*
 * conv.cu: convolution on the matrix units, as an implicit product of matrices.
 *
 * A block computes ROWS x 16 pixels of one frame for N output channels. Eight
 * warps share them: each has 64 pixels (four rows of 16) and WIDE channels. The
 * pixels that it reads, with one more on each side, are copied to shared memory
 * once for each frame and 32 channels, and serve all taps in the plane. Weights
 * pass through three buffers, one tap and 32 channels at a time.
 *
 * From a picture, the colours of all taps in the plane are the channels of one
 * tap. A block copies the lines of the picture that it reads to shared memory,
 * and takes the channels of its pixels from them, one frame at a time.
 *
 * Each sum runs over frames, then over pieces of 32 channels, then over taps,
 * so it depends neither on the number of frames nor on the size of the picture.
 * Bias, residual and ReLU are added before the one rounding. If a block has all
 * channels of a pixel, it also computes the norm of its result, with the bits
 * of norm.cu.
 *
 * With HalfSums<Tile>, half_sums.cuh sums the products of a step in F16.
 */
#include "half_sums.cuh"

enum {
    WARPS = 8,
    PITCH = 40 /* elements from one pixel or row of weights to the next, so
                  that the rows of an 8 x 8 matrix are in different banks */
};

/* DOWN warps share the pixels; the total must fit into 99 KiB, the shared
 * memory of a block on sm_86, 89 and 120. */
template <int DOWN_, int WIDE_> struct Tile {
    static const int DOWN = DOWN_, WIDE = WIDE_;
    static const int N = WARPS / DOWN * WIDE;
    static const int PHASES = 1, SHARE = N; /* see Phases */
    static const bool HALF_SUMS = false;    /* see HalfSums */
    static const int THREADS = VAE_THREADS, COPIERS = THREADS;
    static const int STAGES = 3; /* buffers of weights */
    static const int TAPS = 1, LATE = 0;
    static const int PARTS = 8; /* pixels of a thread */
    static const int ROWS = 4 * DOWN;
    static const int PIXELS = (ROWS + MORE) * (ACROSS + MORE);
    static const int HALO = PIXELS * PITCH; /* elements */
    static const int WEIGHT = N * PITCH;
    static const int PLACES = 2 * HALO + STAGES * WEIGHT;
    static const int BYTES = 2 * PLACES + 4 * PIXELS;
    static const int COLUMNS = WIDE / 8; /* matrices of a warp, side by side */
    static const int RESULT = N + 8; /* elements from one pixel's results to the
                                        next; these go where the input was */
    static_assert(BYTES <= 99 << 10, "shared memory of a block");
    static_assert(COLUMNS % 2 == 0, "pairs are loaded");
    static_assert(2 * ROWS * ACROSS * RESULT <= BYTES, "results");

    VAE_DEVICE uint32_t *
    places(Half *halo)
    {
        return reinterpret_cast<uint32_t *>(halo + PLACES);
    }
    VAE_DEVICE int
    halo_at(int pixel, int octet)
    {
        return pixel * PITCH + octet * 8;
    }
    VAE_DEVICE int
    weight_at(int row, int octet)
    {
        return row * PITCH + octet * 8;
    }
    VAE_DEVICE int
    down(int thread, int i)
    {
        return thread / 32 % DOWN * 4 + i / 2;
    }
    VAE_DEVICE int
    across(int thread, int i)
    {
        return thread % 32 / 4 + i % 2 * 8;
    }
    VAE_DEVICE bool
    copies(int)
    {
        return true;
    }
    VAE_DEVICE uint32_t
    copier()
    {
        return threadIdx.x;
    }
    VAE_DEVICE int
    channel(int thread)
    {
        return thread / 32 / DOWN * WIDE;
    }
};

/* The places in shared memory that a lane gives to the loads of matrices. */
struct Lane {
    const Half *a, *b; /* of a row of pixels, and of a pair of columns */
};

/* `pixels` begins at the tap's first pixel. */
template <typename P>
VAE_DEVICE Lane
place_lane(const Half *pixels, const Half *weight)
{
    const int lane = (int) threadIdx.x % 32, warp = (int) threadIdx.x / 32;
    static_assert(P::PHASES == 1 || P::SHARE == P::WIDE,
                  "a warp has one phase");
    if (P::PHASES > 1)
        pixels += phase_pixel(warp / P::DOWN) * PITCH;
    return {pixels + lane / 16 * 8 +
                (warp % P::DOWN * 4 * (ACROSS + MORE) + lane % 16) * PITCH,
            weight + lane / 8 % 2 * 8 +
                (warp / P::DOWN * P::WIDE + lane % 8 + lane / 16 * 8) * PITCH};
}

/* The weights of 16 channels from k on, of N columns from `first` on. */
template <int N>
VAE_DEVICE void
load_weights(const Lane &lane, int first, int k, uint32_t (*w)[2])
{
    VAE_UNROLL
    for (int j = 0; j < N; j += 2)
        vae_ptx_load_matrices<false>(w[j],
                                     lane.b + (first + j) * 8 * PITCH + k);
}

/* The pixels of row i, of 16 channels from k on. */
VAE_DEVICE void
load_row(const Lane &lane, int i, int k, uint32_t *x)
{
    vae_ptx_load_matrices<false>(x, lane.a + i * (ACROSS + MORE) * PITCH + k);
}

/* Adds the products of one tap and DEEP channels. */
template <typename P, int T>
VAE_DEVICE void
multiply(const Lane &lane, float (*sum)[P::COLUMNS][4])
{
    VAE_UNROLL
    for (int k = 0; k < DEEP; k += 16) {
        uint32_t w[P::COLUMNS][2];
        load_weights<P::COLUMNS>(lane, 0, k, w);
        VAE_UNROLL
        for (int i = 0; i < 4; i++) {
            uint32_t x[4];
            load_row(lane, i, k, x);
            VAE_UNROLL
            for (int j = 0; j < P::COLUMNS; j++)
                vae_ptx_multiply<T>(sum[i][j], x, w[j]);
        }
    }
}

/* Adds the products of one tap, DEEP channels and N columns, first summed in
 * F16. */
template <typename P, int N>
VAE_DEVICE void
multiply_some(const Lane &lane, int first, float (*sum)[P::COLUMNS][4])
{
    uint32_t w[DEEP / 16][N][2];
    VAE_UNROLL
    for (int k = 0; k < DEEP; k += 16)
        load_weights<N>(lane, first, k, w[k / 16]);
    VAE_UNROLL
    for (int i = 0; i < 4; i++) {
        uint32_t part[N][2] = {};
        VAE_UNROLL
        for (int k = 0; k < DEEP; k += 16) {
            uint32_t x[4];
            load_row(lane, i, k, x);
            VAE_UNROLL
            for (int j = 0; j < N; j++)
                vae_ptx_multiply_f16(part[j], x, w[k / 16][j]);
        }
        VAE_UNROLL
        for (int j = 0; j < N; j++)
            add_half_sums(sum[i][first + j], part[j]);
    }
}

template <typename P>
VAE_DEVICE void
multiply_half(const Lane &lane, float (*sum)[P::COLUMNS][4])
{
    /* With the weights of eight columns, registers would be spilled. */
    const int some = P::COLUMNS > 6 ? P::COLUMNS / 2 : P::COLUMNS;
    VAE_UNROLL
    for (int first = 0; first < P::COLUMNS; first += some)
        multiply_some<P, some>(lane, first, sum);
}

/* Stores the results, and their norm. */
template <typename P, int T>
VAE_DEVICE void
end_block(const VaeConvMatrixArgs &a, const Place &p,
          float (*sum)[P::COLUMNS][4], Half *halo, int lanes)
{
    const bool norms = P::PHASES == 1 && a.norm.y;
    if (norms)
        __syncthreads(); /* the input is read */
    store_all<P, T>(a, p, sum, halo);
    if (!norms)
        return;
    __syncthreads();
    norm_all<P, T>(a, p, halo, lanes);
}

template <typename P, int T>
VAE_KERNEL_LARGE void
conv_matrix(VaeConvMatrixArgs a, int lanes)
{
    VAE_SHARED(Half, halo);
    Half *const weight = halo + 2 * P::HALO;
    const Place p = place<P>(a);
    float sum[4][P::COLUMNS][4] = {};
    Step now = {};
    find_pixels<P>(a, p, halo);
    copy_first<P>(a, p, halo, weight);
    /* The barrier separates the copies of all threads from their use, and the
     * use of buffers from the copies that overwrite them. */
    VAE_NO_UNROLL
    for (; now.index < p.steps; next_step(p, now)) {
        vae_ptx_copy_wait<AHEAD - 1>();
        __syncthreads();
        copy_ahead<P>(a, p, halo, weight, now);
        const Lane lane = place_lane<P>(
            halo + now.section % 2 * P::HALO + tap_pixel(a, now) * PITCH,
            weight + now.index % P::STAGES * P::WEIGHT);
        if constexpr (P::HALF_SUMS)
            multiply_half<P>(lane, sum);
        else
            multiply<P, T>(lane, sum);
    }
    if (P::HALF_SUMS)
        replace_infinite<P>(a, p, sum);
    end_block<P, T>(a, p, sum, halo, lanes);
}

/* ------------------------------------------------------------------ */
/* From a picture.                                                     */

enum {
    COLOURS = 3,
    ROW = 3 * COLOURS,         /* channels of a row of taps */
    FRONT = 8,                 /* elements of a line before the block's first
                                  pixel, so that it begins at a multiple of 16 bytes */
    LINE_OCTETS = 8,           /* of a line */
    LINE = LINE_OCTETS * 8 + 8 /* elements from one line to the next, so that
                                  the rows of taps are in different banks */
};

template <typename P> struct Im2col : P {
    static const int BLOCKS = P::N <= 96 ? 2 : 1; /* of a multiprocessor */
    static const int LINES = P::ROWS + MORE;      /* of a frame */
    /* cppcheck-suppress duplInheritedMember; more than P has */
    static const int BYTES = 2 * (P::PLACES + P::STAGES * LINES * LINE);
    static_assert(FRONT + (ACROSS + MORE) * COLOURS <= LINE_OCTETS * 8,
                  "a line has all pixels");
    static_assert(3 * ROW <= DEEP, "a step has all channels");
    static_assert(BYTES <= 99 << 10, "shared memory of a block");
};

/* Stores an octet of n values, value k from from[at(k)], then zeros. */
template <typename At>
VAE_DEVICE void
store_values(Half *to, const Half *from, const At &at, int n)
{
    uint32_t word[4];
    VAE_UNROLL
    for (int k = 0; k < 8; k += 2) {
        const uint32_t low = k < n ? from[at(k)] : 0;
        const uint32_t high = k + 1 < n ? from[at(k + 1)] : 0;
        word[k / 2] = low | high << 16;
    }
    vae_store16(to, word);
}

/* Copies the weights of a frame, which can be at any address. */
template <typename P>
VAE_DEVICE void
copy_frame_weights(const VaeConvMatrixArgs &a, const Place &p, Half *weight,
                   int frame)
{
    const int octet = (int) threadIdx.x % OCTETS;
    const Half *const from =
        static_cast<const Half *>(a.weight) + frame * 3 * ROW + octet * 8;
    for (int n = (int) threadIdx.x / OCTETS; n < P::N;
         n += VAE_THREADS / OCTETS) {
        const int c = p.n + n;
        store_values(
            weight + frame * P::WEIGHT +
                P::weight_at((int) weight_row((uint32_t) n), octet),
            from + (c < a.c_out ? c * a.kt * 3 * ROW : 0),
            [](int k) { return k; },
            c < a.c_out ? vae_octet_valid(octet * 8, 3 * ROW) : 0);
    }
}

/* Starts to copy the lines that the block reads, of all frames. Zeros replace
 * pixels outside of the picture. */
template <typename P>
VAE_DEVICE void
copy_lines(const VaeConvMatrixArgs &a, const Place &p, Half *lines)
{
    const int wide = a.w * COLOURS;
    for (int i = (int) threadIdx.x; i < a.kt * P::LINES * LINE_OCTETS;
         i += VAE_THREADS) {
        const int line = i / LINE_OCTETS, octet = i % LINE_OCTETS;
        const int row = p.y + line % P::LINES - a.pad_y;
        const int at = p.x * COLOURS - FRONT + octet * 8;
        const Half *const x = input_frame(a, p.t + line / P::LINES);
        const bool inside = row >= 0 && row < a.h && at >= 0 && at < wide;
        vae_ptx_copy_async(lines + line * LINE + octet * 8,
                           x + (inside ? (size_t) row * wide + at : 0),
                           !inside);
    }
    vae_ptx_copy_commit();
}

/* Takes the channels of the block's pixels from the lines of a frame. An octet
 * has colours of one or two rows of taps. */
template <typename P>
VAE_DEVICE void
take_channels(const VaeConvMatrixArgs &a, const Half *lines, Half *halo)
{
    const int octet = (int) threadIdx.x % OCTETS, first = octet * 8;
    const int left = ROW - first % ROW; /* in the first row of taps */
    lines += FRONT - a.pad_x * COLOURS + first / ROW * LINE + first % ROW;
    VAE_NO_UNROLL
    for (int pixel = (int) threadIdx.x / OCTETS; pixel < P::ROWS * ACROSS;
         pixel += VAE_THREADS / OCTETS) {
        const int row = pixel / ACROSS, column = pixel % ACROSS;
        store_values(
            halo + P::halo_at(row * (ACROSS + MORE) + column, octet),
            lines + row * LINE + column * COLOURS,
            [left](int k) { return k < left ? k : k + LINE - ROW; },
            vae_octet_valid(first, 3 * ROW));
    }
}

template <typename P, int T>
VAE_GLOBAL
__launch_bounds__(VAE_THREADS, P::BLOCKS) void conv_picture(VaeConvMatrixArgs a,
                                                            int lanes)
{
    VAE_SHARED(Half, halo);
    Half *const weight = halo + 2 * P::HALO;
    Half *const lines = weight + P::STAGES * P::WEIGHT;
    const Place p = place<P>(a);
    float sum[4][P::COLUMNS][4] = {};
    copy_lines<P>(a, p, lines);
    VAE_NO_UNROLL
    for (int f = 0; f < a.kt; f++)
        copy_frame_weights<P>(a, p, weight, f);
    vae_ptx_copy_wait<0>();
    __syncthreads();
    VAE_NO_UNROLL
    for (int f = 0; f < a.kt; f++) {
        Half *const pixels = halo + f % 2 * P::HALO;
        take_channels<P>(a, lines + f * P::LINES * LINE, pixels);
        __syncthreads();
        multiply<P, T>(place_lane<P>(pixels, weight + f * P::WEIGHT), sum);
    }
    end_block<P, T>(a, p, sum, halo, lanes);
}

/* ------------------------------------------------------------------ */

template <typename P>
static void
launch_tile(const VaeQueue *q, const VaeConvMatrixArgs *args,
            void (*kernel)(VaeConvMatrixArgs, int))
{
    VaeConvMatrixArgs a = *args;
    const int lanes = vae_rms_lanes(a.c_out);
    a.norm.c = a.c_out;
    vae_launch(kernel, grid_of<P>(a), VAE_THREADS, P::BYTES, q->stream, a,
               lanes);
}

template <typename P>
static void
launch(const VaeQueue *q, const VaeConvMatrixArgs *a)
{
    if constexpr (P::HALF_SUMS)
        launch_tile<P>(q, a, conv_matrix<P, VAE_TYPE_F16>);
    else
        launch_tile<P>(q, a,
                       a->type == VAE_TYPE_BF16 ? conv_matrix<P, VAE_TYPE_BF16>
                                                : conv_matrix<P, VAE_TYPE_F16>);
}

template <typename P> using Plain = P;

/* With<Tile>: the tile of the kernel. */
template <template <typename> class With>
static void
launch_tiles(const VaeQueue *q, const VaeConvMatrixArgs *a)
{
    if (a->up && a->c_out % 64 == 0)
        launch<With<Phases<Tile<2, 64>>>>(q, a);
    else if (a->up)
        launch<With<Phases<Tile<2, 48>>>>(q, a);
    else if (a->c_out % 256 == 0)
        launch<With<Tile<2, 64>>>(q, a);
    else if (a->c_out % 192 == 0)
        launch<With<Tile<2, 48>>>(q, a);
    else if (a->c_out % 128 == 0)
        launch<With<Tile<4, 64>>>(q, a);
    else
        launch<With<Tile<4, 48>>>(q, a);
}

template <typename T>
static void
launch_picture(const VaeQueue *q, const VaeConvMatrixArgs *a)
{
    typedef Im2col<T> P;
    launch_tile<P>(q, a,
                   a->type == VAE_TYPE_BF16 ? conv_picture<P, VAE_TYPE_BF16>
                                            : conv_picture<P, VAE_TYPE_F16>);
}

void
vae_cuda_convolve(const VaeQueue *q, const VaeConvMatrixArgs *a)
{
    if (a->c_out == 3)
        vae_cuda_convolve_head(q, a);
    else if (a->c_in == COLOURS && a->c_out <= 64)
        launch_picture<Tile<4, 32>>(q, a);
    else if (a->c_in == COLOURS && a->c_out <= 96)
        launch_picture<Tile<4, 48>>(q, a);
    else if (a->c_in == COLOURS)
        launch_picture<Tile<4, 64>>(q, a);
    else if (a->warpgroups)
        vae_cuda_convolve_groups(q, a);
    else if (a->half_sums)
        launch_tiles<HalfSums>(q, a);
    else
        launch_tiles<Plain>(q, a);
}

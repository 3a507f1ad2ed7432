/*
 * conv_wgmma.cu: the convolution of conv.cu with the instructions of compute
 * capability 9.0, which multiply matrices in shared memory by groups of four
 * warps.
 *
 * Two to four groups share a block's pixels: each has one or two squares of 8 x
 * 8, and all N channels. Eight pixels beside each other are eight rows of a
 * matrix, and a tap moves its beginning by whole pixels. A row is DEEP
 * channels, 64 bytes. Its octets are swizzled, so that eight threads copy 128
 * bytes in one cycle, and multiplications read as many.
 *
 * The copies are those of conv.cu, with cp.async. TMA would need a descriptor
 * from the driver for each address that a layer reads. The fence after them
 * may wait for all of a warp's copies. So one half of the warps copies for even
 * steps and one for odd steps, and no warp has copies of two steps under way.
 *
 * A step is a row of taps, so that its multiplications take longer than its
 * barrier and its copies. They run while the next step's begin. So one buffer
 * of weights more is in use, and pixels are copied one step later, when the
 * last step of the section before is done.
 *
 * A block has as many pixels as fit into the registers of a multiprocessor. The
 * more it has, the fewer bytes of weights the blocks read from the L2 cache.
 */
#include "conv.cuh"
#include "ptx/matrix.cuh"

/* All shared memory is within what a block may have on sm_90. */
template <int GROUPS_, int SQUARES_, int N_, int PART_, int TAPS_> struct Tile {
    static const int GROUPS = GROUPS_, SQUARES = SQUARES_, N = N_;
    static const int THREADS = 128 * GROUPS, COPIERS = THREADS / 2;
    static const int PART = PART_;          /* channels of one multiplication */
    static const int PHASES = 1, SHARE = N; /* see Phases */
    static const int TAPS = TAPS_;          /* of a step */
    static const int STAGES = 4;            /* buffers of a step's weights */
    static const int LATE = 1;
    static const int PARTS = 2 * SQUARES; /* pixels of a thread */
    static const int ROWS = 4 * SQUARES * GROUPS;
    static const int PIXELS = (ROWS + MORE) * (ACROSS + MORE);
    /* Elements of a buffer; the swizzle's pattern repeats every 512 bytes. */
    static const int HALO = (PIXELS * DEEP + 255) / 256 * 256;
    static const int WEIGHT = N * DEEP;
    static const int COLUMNS = N / 8;
    static const int RESULT = N + 8; /* as in conv.cu */
    static const int PLACES = 2 * HALO + STAGES * TAPS * WEIGHT;
    static const int INPUT = 2 * PLACES + 4 * PIXELS;
    static const int OUTPUT = 2 * ROWS * ACROSS * RESULT;
    static const int BYTES = INPUT > OUTPUT ? INPUT : OUTPUT;
    static_assert(BYTES <= 227 << 10, "shared memory of a block");
    static_assert(WEIGHT % 256 == 0, "whole patterns");
    static_assert(N % PART == 0, "whole parts");
    static_assert(COPIERS / OCTETS % 16 == 0, "the same places of a pattern");

    VAE_DEVICE uint32_t *
    places(Half *halo)
    {
        return reinterpret_cast<uint32_t *>(halo + PLACES);
    }
    VAE_DEVICE int
    halo_at(int pixel, int octet)
    {
        return pixel * DEEP + (octet ^ (pixel / 2 & 3)) * 8;
    }
    VAE_DEVICE int
    weight_at(int row, int octet)
    {
        return row * DEEP + (octet ^ (row / 2 & 3)) * 8;
    }
    /* The square of element i of a thread's part; two are beside each other. */
    VAE_DEVICE int
    square(int thread, int i)
    {
        return thread / 128 * SQUARES + i / 2;
    }
    VAE_DEVICE int
    down(int thread, int i)
    {
        return square(thread, i) / 2 * 8 + thread / 32 % 4 * 2 + i % 2;
    }
    VAE_DEVICE int
    across(int thread, int i)
    {
        return square(thread, i) % 2 * 8 + thread % 32 / 4;
    }
    VAE_DEVICE bool
    copies(int step)
    {
        return ((int) threadIdx.x / 32 - step) % 2 == 0;
    }
    VAE_DEVICE uint32_t
    copier()
    {
        const uint32_t thread = vae_ptx_anew(threadIdx.x);
        return thread / 64 * 32 + thread % 32;
    }
    VAE_DEVICE int
    channel(int)
    {
        return 0;
    }
};

/* Starts to add the products of a step's taps and DEEP channels. `pixels`
 * begins at the first tap's first pixel. */
template <typename P, int T>
VAE_DEVICE void
multiply(const Half *pixels, const Half *weight, int taps,
         float (*sum)[P::COLUMNS][4])
{
    const int row = 2 * DEEP * (ACROSS + MORE); /* bytes */
    const uint64_t a = vae_ptx_describe64(pixels, row);
    const uint64_t b = vae_ptx_describe64(weight, 2 * DEEP * 8);
    vae_ptx_group_begin();
    VAE_UNROLL
    for (int tap = 0; tap < P::TAPS; tap++) {
        if (tap == taps)
            break;
        VAE_UNROLL
        for (int k = 0; k < DEEP; k += 16)
            VAE_UNROLL
        for (int i = 0; i < P::SQUARES; i++)
            VAE_UNROLL
        for (int n = 0; n < P::N; n += P::PART)
            vae_ptx_group_multiply<T, P::PART>(
                sum[i][n / 8],
                a + (2 * k +
                     2 * DEEP *
                         (8 * i + tap +
                          (P::PHASES > 1 ? phase_pixel(n / P::SHARE) : 0))) /
                        16,
                b + (2 * k + 2 * DEEP * n + 2 * tap * P::WEIGHT) / 16);
        vae_ptx_group_commit();
    }
}

template <typename P, int T>
VAE_DEVICE void
convolve(const VaeConvMatrixArgs &a, int lanes)
{
    VAE_SHARED(Half, halo);
    Half *const weight = halo + 2 * P::HALO;
    const Place p = place<P>(a);
    /* the group's first pixel */
    const int first = vae_ptx_uniform((int) threadIdx.x / 128) * 128;
    const int square = P::square(first, 0);
    const int group = square / 2 * 8 * (ACROSS + MORE) + square % 2 * 8;
    float sum[P::SQUARES][P::COLUMNS][4] = {};
    Step now = {};
    find_pixels<P>(a, p, halo);
    copy_first<P>(a, p, halo, weight);
    /* The barrier separates the copies of all threads from their use. There
     * all groups have done all multiplications but those of the last step, so
     * that their buffers can be overwritten. */
    VAE_NO_UNROLL
    for (; now.index < p.steps; next_step(p, now)) {
        /* with two steps in a section, the one before has its pixels */
        if (P::copies(now.index) || P::TAPS == 2 || a.k == 2) {
            vae_ptx_copy_wait<0>();
            vae_ptx_group_visible();
        }
        __syncthreads();
        multiply<P, T>(halo + now.section % 2 * P::HALO +
                           (tap_pixel(a, now) + group) * DEEP,
                       weight + now.index % P::STAGES * P::TAPS * P::WEIGHT,
                       p.together, sum);
        copy_ahead<P>(a, p, halo, weight, now);
        /* for those of all steps before */
        if (P::TAPS == 2 || a.k == 2)
            vae_ptx_group_wait<2>();
        else
            vae_ptx_group_wait<3>();
    }
    vae_ptx_group_wait<0>();
    VAE_UNROLL
    for (int i = 0; i < P::SQUARES * P::COLUMNS * 4; i++)
        vae_ptx_group_end(&sum[0][0][0] + i);
    const bool norms = P::PHASES == 1 && a.norm.y;
    if (norms)
        __syncthreads(); /* the input is read */
    store_all<P, T>(a, p, sum, halo);
    if (!norms)
        return;
    __syncthreads();
    norm_all<P, T>(a, p, halo, lanes);
}

/* Other devices trap. */
template <typename P, int T>
VAE_GLOBAL
__launch_bounds__(P::THREADS, 1) void conv_wgmma(VaeConvMatrixArgs a, int lanes)
{
    if constexpr (VAE_PTX_GROUPS)
        convolve<P, T>(a, lanes);
    else
        vae_ptx_group_multiply<T, P::PART>(NULL, 0, 0);
}

template <typename P>
static void
launch(const VaeQueue *q, const VaeConvMatrixArgs *args)
{
    VaeConvMatrixArgs a = *args;
    const int lanes = vae_rms_lanes(a.c_out);
    const dim3 grid = grid_of<P>(a);
    a.norm.c = a.c_out;
    if (a.type == VAE_TYPE_BF16)
        vae_launch(conv_wgmma<P, VAE_TYPE_BF16>, grid, P::THREADS, P::BYTES,
                   q->stream, a, lanes);
    else
        vae_launch(conv_wgmma<P, VAE_TYPE_F16>, grid, P::THREADS, P::BYTES,
                   q->stream, a, lanes);
}

void
vae_cuda_convolve_groups(const VaeQueue *q, const VaeConvMatrixArgs *a)
{
    if (a->up && a->c_out % 96 && a->c_out % 64 == 0)
        launch<Phases<Tile<2, 1, 256, 64, 2>>>(q, a);
    else if (a->up)
        launch<Phases<Tile<2, 1, 384, 96, 2>>>(q, a);
    else if (a->c_out % 192 == 0)
        launch<Tile<2, 2, 192, 192, 3>>(q, a);
    else if (a->c_out % 96 && a->c_out % 128 == 0)
        launch<Tile<3, 2, 128, 128, 3>>(q, a);
    else
        launch<Tile<4, 2, 96, 96, 3>>(q, a);
}

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
#include "conv.cuh"

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
    static const int THREADS = VAE_THREADS, COPIERS = THREADS;
    static const int STAGES = 3; /* buffers of weights */
    static const int TAPS = 1, LATE = 0;
    static const int PARTS = 8; /* pixels of a thread */
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
    VAE_DEVICE int
    copier()
    {
        return (int) threadIdx.x;
    }
    VAE_DEVICE int
    channel(int thread)
    {
        return thread / 32 / DOWN * WIDE;
    }
};

/* Adds the products of one tap and DEEP channels. `pixels` begins at the tap's
 * first pixel. */
template <typename P, int T>
VAE_DEVICE void
multiply(const Half *pixels, const Half *weight, float (*sum)[P::COLUMNS][4])
{
    const int lane = (int) threadIdx.x % 32, warp = (int) threadIdx.x / 32;
    static_assert(P::PHASES == 1 || P::SHARE == P::WIDE,
                  "a warp has one phase");
    if (P::PHASES > 1)
        pixels += phase_pixel(warp / P::DOWN) * PITCH;
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

template <typename P, int T>
VAE_KERNEL_LARGE void
conv_matrix(VaeConvMatrixArgs a, int lanes)
{
    VAE_SHARED(Half, halo);
    Half *const weight = halo + 2 * P::HALO;
    const Place p = place<P>(a);
    float sum[4][P::COLUMNS][4] = {};
    Step now = {};
    copy_first<P>(a, p, halo, weight);
    /* The barrier separates the copies of all threads from their use, and the
     * use of buffers from the copies that overwrite them. */
    VAE_NO_UNROLL
    for (; now.index < p.steps; next_step(p, now)) {
        vae_ptx_copy_wait<AHEAD - 1>();
        __syncthreads();
        copy_ahead<P>(a, p, halo, weight, now);
        multiply<P, T>(halo + now.section % 2 * P::HALO +
                           tap_pixel(a, now) * PITCH,
                       weight + now.index % P::STAGES * P::WEIGHT, sum);
    }
    const bool norms = P::PHASES == 1 && a.norm.y;
    if (norms)
        __syncthreads(); /* the input is read */
    store_all<P, T>(a, p, sum, halo);
    if (!norms)
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
    const dim3 grid = grid_of<P>(a);
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
    if (a->c_out == 3)
        vae_cuda_convolve_head(q, a);
    else if (a->warpgroups)
        vae_cuda_convolve_groups(q, a);
    else if (a->up && a->c_out % 64 == 0)
        launch<Phases<Tile<2, 64>>>(q, a);
    else if (a->up)
        launch<Phases<Tile<2, 48>>>(q, a);
    else if (a->c_out % 256 == 0)
        launch<Tile<2, 64>>(q, a);
    else if (a->c_out % 192 == 0)
        launch<Tile<2, 48>>(q, a);
    else if (a->c_out % 128 == 0)
        launch<Tile<4, 64>>(q, a);
    else
        launch<Tile<4, 48>>(q, a);
}

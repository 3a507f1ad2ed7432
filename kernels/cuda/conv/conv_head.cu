/*
 * conv_head.cu: the convolution of many channels to the three of a picture, on
 * the matrix units, with the norm before it.
 *
 * A block computes DOWN x ACROSS pixels of all frames. It reads each frame of
 * the input once, with all channels and one more pixel on each side, and
 * computes the norm in shared memory. The taps in time are rows of one matrix:
 * row 3f + o has the weights of output channel o and frame f of kt. So the
 * products of a frame are parts of kt results. They are added in fp32 in shared
 * memory, until the last frame that a result needs.
 *
 * Each sum runs over taps and then channels in a frame, and the frames are
 * added in their order. So it depends neither on the number of frames nor on
 * the size of the picture.
 */
#include "conv.cuh"
#include "ptx/matrix.cuh"

enum {
    OUT = 3,
    TAPS = 9,
    DOWN = VAE_THREADS / 32, /* each warp has a row of pixels */
    PIXELS = DOWN * ACROSS,
    READ = (DOWN + MORE) * (ACROSS + MORE),
    AT_ONCE = 16 /* channels of one multiplication */
};

/* The layout of shared memory. */
struct Head {
    int pitch; /* elements from one pixel or row of weights to the next, so that
                  the rows of an 8 x 8 matrix are in different banks */
    int rows;  /* of weights, for one tap */
    int lanes; /* threads that share a pixel */
};

static __host__ __device__ inline Head
head_of(const VaeConvMatrixArgs &a, int lanes)
{
    const int channels = (a.c_in + AT_ONCE - 1) / AT_ONCE * AT_ONCE;
    return {channels + 8, OUT * a.kt, lanes};
}

/* Elements of pixels and of weights. The last row of weights is zeros. */
static __host__ __device__ inline int
head_halves(const Head &h)
{
    return (READ + TAPS * h.rows + 1) * h.pitch;
}

/* A pixel that the block reads: the first of its octets that this thread
 * copies, and their number of channels; 0: it is outside of the picture. */
struct Pixel {
    size_t at;
    int c;
};

VAE_DEVICE Pixel
pixel_of(const VaeConvMatrixArgs &a, int i)
{
    const int beside = (a.wo + ACROSS - 1) / ACROSS;
    const int row = (int) blockIdx.x / beside * DOWN + i / (ACROSS + MORE);
    const int column = (int) blockIdx.x % beside * ACROSS + i % (ACROSS + MORE);
    const int y = row - a.pad_y, x = column - a.pad_x;
    const bool inside = y >= 0 && y < a.h && x >= 0 && x < a.w;
    return {inside ? ((size_t) y * a.w + x) * a.c_in : 0, inside ? a.c_in : 0};
}

/* Starts to copy the weights. */
VAE_DEVICE void
copy_weights(const VaeConvMatrixArgs &a, const Head &h, Half *weight)
{
    const int octets = h.pitch / 8 - 1;
    const int all = (TAPS * h.rows + 1) * octets;
    VAE_NO_UNROLL
    for (int i = (int) threadIdx.x; i < all; i += VAE_THREADS) {
        const int line = i / octets, c = i % octets * 8;
        const int tap = line / h.rows, row = line % h.rows;
        const size_t frame = (size_t) (row % OUT * a.kt + row / OUT);
        const bool inside = tap < TAPS && c < a.c_in;
        const size_t from = (frame * TAPS + tap) * a.c_in + c;
        vae_ptx_copy_async(
            weight + line * h.pitch + c,
            static_cast<const Half *>(a.weight) + (inside ? from : 0), !inside);
    }
}

/* Starts to copy the pixels of a frame. */
VAE_DEVICE void
copy_frame(const VaeConvMatrixArgs &a, const Head &h, int frame, Half *pixels)
{
    const bool past = frame < a.past_frames;
    const Half *x =
        static_cast<const Half *>(past ? a.past : a.x) +
        (size_t) (past ? frame : frame - a.past_frames) * a.h * a.w * a.c_in;
    const int lane = (int) threadIdx.x & (h.lanes - 1);
    VAE_NO_UNROLL
    for (int i = (int) threadIdx.x / h.lanes; i < READ;
         i += VAE_THREADS / h.lanes) {
        const Pixel p = pixel_of(a, i);
        VAE_NO_UNROLL
        for (int c = 8 * lane; c < h.pitch - 8; c += 8 * h.lanes)
            vae_ptx_copy_async(pixels + i * h.pitch + c,
                               x + (c < p.c ? p.at + c : 0), c >= p.c);
    }
}

/* The norm of the octets that this thread has copied, with the sums in the
 * order of the norm's kernels. */
template <int T>
VAE_DEVICE void
norm_frame(const VaeConvMatrixArgs &a, const Head &h, Half *pixels)
{
    const int lane = (int) threadIdx.x & (h.lanes - 1);
    const float root = sqrtf((float) a.c_in);
    VAE_NO_UNROLL
    for (int first = 0; first < READ; first += VAE_THREADS / h.lanes) {
        const int i = first + (int) threadIdx.x / h.lanes;
        const int c = i < READ ? pixel_of(a, i).c : 0;
        Half *const pixel = pixels + i * h.pitch;
        VaeOctet<T> x, y;
        float sum = 0;
        VAE_NO_UNROLL
        for (int at = 8 * lane; at < c; at += 8 * h.lanes) {
            vae_load16(x.word, pixel + at);
            sum = vae_rms_squares<T>(sum, x);
        }
        const float scale =
            vae_rms_scale(a.front, vae_lanes_sum(sum, h.lanes), root);
        VAE_NO_UNROLL
        for (int at = 8 * lane; at < c; at += 8 * h.lanes) {
            vae_load16(x.word, pixel + at);
            vae_rms_values<T, T>(a.front, vae_rms_options(a.front, false), x,
                                 {0, at, 8, false}, scale, y);
            vae_store16(pixel + at, y.word);
        }
    }
}

/* The products of the warp's 16 pixels and all rows of weights: a lane has rows
 * lane / 4 and 8 more, and columns as in vae_ptx_multiply(). */
template <int T>
VAE_DEVICE void
multiply(const Head &h, const Half *pixels, const Half *weight, float (*sum)[4])
{
    const int lane = (int) threadIdx.x % 32, warp = (int) threadIdx.x / 32;
    const bool has = lane % 16 < h.rows;
    const Half *w =
        weight + (has ? lane % 16 : TAPS * h.rows) * h.pitch + lane / 16 * 8;
    const Half *x =
        pixels + lane / 8 % 2 * 8 +
        (warp * (ACROSS + MORE) + lane % 8 + lane / 16 * 8) * h.pitch;
    VAE_NO_UNROLL
    for (int tap = 0; tap < TAPS; tap++) {
        const Half *from = x + (tap / 3 * (ACROSS + MORE) + tap % 3) * h.pitch;
        VAE_UNROLL
        for (int k = 0; k < h.pitch - 8; k += AT_ONCE) {
            uint32_t a[4], b[4];
            vae_ptx_load_matrices<false>(a, w + k);
            vae_ptx_load_matrices<false>(b, from + k);
            vae_ptx_multiply<T>(sum[0], a, b);
            vae_ptx_multiply<T>(sum[1], a, b + 2);
        }
        w += has ? h.rows * h.pitch : 0;
    }
}

/* Adds a frame's products to the results. Their first frame begins them. */
VAE_DEVICE void
add_frame(const VaeConvMatrixArgs &a, const Head &h, int frame, float (*sum)[4],
          float *results)
{
    const int lane = (int) threadIdx.x % 32, warp = (int) threadIdx.x / 32;
    VAE_UNROLL
    for (int i = 0; i < 8; i++) {
        const int row = lane / 4 + i % 4 / 2 * 8;
        const int x = i / 4 * 8 + lane % 4 * 2 + i % 2;
        const int f = row / OUT, t = frame - f;
        if (row >= h.rows || t < 0 || t >= a.t)
            continue;
        float *to =
            results + (t % a.kt * PIXELS + warp * ACROSS + x) * OUT + row % OUT;
        *to = f ? *to + sum[i / 4][i % 4] : sum[i / 4][i % 4];
    }
}

VAE_DEVICE void
store_frame(const VaeConvMatrixArgs &a, int t, const float *results)
{
    const int beside = (a.wo + ACROSS - 1) / ACROSS;
    VAE_NO_UNROLL
    for (int i = (int) threadIdx.x; i < PIXELS * OUT; i += VAE_THREADS) {
        const int pixel = i / OUT, o = i % OUT;
        const int y = (int) blockIdx.x / beside * DOWN + pixel / ACROSS;
        const int x = (int) blockIdx.x % beside * ACROSS + pixel % ACROSS;
        const float v = results[t % a.kt * PIXELS * OUT + i] +
                        vae_load(a.bias, a.type, (size_t) o);
        if (y < a.ho && x < a.wo)
            vae_store(a.y, a.wide ? VAE_TYPE_F32 : a.type,
                      (((size_t) t * a.ho + y) * a.wo + x) * OUT + o, v);
    }
}

template <int T>
VAE_KERNEL void
conv_head(VaeConvMatrixArgs a, int lanes)
{
    VAE_SHARED(Half, pixels);
    const Head h = head_of(a, lanes);
    Half *const weight = pixels + READ * h.pitch;
    float *const results = reinterpret_cast<float *>(pixels + head_halves(h));
    copy_weights(a, h, weight);
    VAE_NO_UNROLL
    for (int frame = 0; frame < a.t + a.kt - 1; frame++) {
        float sum[2][4] = {};
        copy_frame(a, h, frame, pixels);
        vae_ptx_copy_commit();
        vae_ptx_copy_wait<0>();
        if (a.front.c && frame >= a.normed_frames)
            norm_frame<T>(a, h, pixels);
        __syncthreads();
        multiply<T>(h, pixels, weight, sum);
        add_frame(a, h, frame, sum, results);
        __syncthreads(); /* the frame is read, and a result complete */
        if (frame >= a.kt - 1)
            store_frame(a, frame - a.kt + 1, results);
    }
}

void
vae_cuda_convolve_head(const VaeQueue *q, const VaeConvMatrixArgs *args)
{
    const VaeConvMatrixArgs a = *args;
    const int lanes = vae_rms_lanes(a.c_in);
    const Head h = head_of(a, lanes);
    const size_t bytes = sizeof(Half) * (size_t) head_halves(h) +
                         sizeof(float) * (size_t) (a.kt * PIXELS * OUT);
    const unsigned grid =
        vae_blocks((size_t) a.wo, ACROSS) * vae_blocks((size_t) a.ho, DOWN);
    vae_launch(a.type == VAE_TYPE_BF16 ? conv_head<VAE_TYPE_BF16>
                                       : conv_head<VAE_TYPE_F16>,
               dim3(grid), VAE_THREADS, bytes, q->stream, a, lanes);
}

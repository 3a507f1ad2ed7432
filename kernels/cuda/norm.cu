/*
 * norm.cu: the two norms.
 */
#include "cuda.h"
#include "norm.cuh"

enum { ROUNDS = 4 }; /* pixels per group of lanes, one after another */

/* -------------------------------------------------------------- rms */

/*
 * `lanes` (a power of two) neighbouring lanes share a pixel, with CHUNKS
 * octets each. Octet i of a lane is the pixel's octet i * lanes + lane, so
 * that a warp loads whole sectors. The pixel stays in registers between the
 * sum and the result: one read, one write.
 */
template <int X, int Y, int CHUNKS>
VAE_DEVICE void
rms_pixels(const VaeNormArgs &a, VaeRmsOptions has, int lanes, float root)
{
    const size_t end = (size_t) a.t * a.h * a.w * a.c;
    const int first = 8 * ((int) threadIdx.x & (lanes - 1)), next = 8 * lanes;
    const unsigned step = VAE_THREADS / (unsigned) lanes;
    const size_t p = (size_t) blockIdx.x * step * ROUNDS + threadIdx.x / lanes;
    size_t at = p * a.c + first;
    const size_t tail = vae_norm_tail_from(a);
    VAE_NO_UNROLL
    for (int round = 0; round < ROUNDS; round++) {
        VaeOctet<X> x[CHUNKS];
        const int c = at < end ? a.c : 0; /* 0: after the last pixel */
        VAE_UNROLL
        for (int i = 0; i < CHUNKS; i++)
            vae_octet_load<X>(x[i], a.x, a.x_type, at + i * next,
                              first + i * next < c ? 8 : 0);
        float sum = 0;
        VAE_UNROLL
        for (int i = 0; i < CHUNKS; i++)
            sum = vae_rms_squares<X>(sum, x[i]);
        const float scale = vae_rms_scale(a, vae_lanes_sum(sum, lanes), root);
        const bool kept = at >= tail;
        VAE_UNROLL
        for (int i = 0; i < CHUNKS; i++)
            vae_rms_octet<X, Y>(a, has, x[i],
                                {at + i * next, first + i * next,
                                 first + i * next < c ? 8 : 0, kept},
                                scale);
        at += (size_t) step * a.c;
    }
}

/* Blocks per multiprocessor: enough loads in flight to hide their latency, and
 * no spills. */
template <int X, int Y, int CHUNKS> struct Rms {
    static const bool LARGE = VaeOctet<X>::WIDE || VaeOctet<Y>::WIDE;
    static const int BLOCKS = LARGE || CHUNKS > 3 ? 2 : 3;
};

/* A loop for each set of options that a model has. One loop for all would have
 * more instructions than a device issues while its memory delivers a pixel. */
template <int X, int Y, int CHUNKS>
VAE_GLOBAL
__launch_bounds__(VAE_THREADS,
                  (Rms<X, Y, CHUNKS>::BLOCKS)) void rms(VaeNormArgs a,
                                                        int lanes, float root)
{
    const VaeRmsOptions has = vae_rms_options(a, a.relu);
    if (has.relu)
        rms_pixels<X, Y, CHUNKS>(a, {false, false, false, true}, lanes, root);
    else if (!has.silu)
        rms_pixels<X, Y, CHUNKS>(a, {false, true, false, false}, lanes, root);
    else if (has.offset)
        rms_pixels<X, Y, CHUNKS>(a, {true, true, true, false}, lanes, root);
    else if (has.gain)
        rms_pixels<X, Y, CHUNKS>(a, {true, true, false, false}, lanes, root);
    else
        rms_pixels<X, Y, CHUNKS>(a, {true, false, false, false}, lanes, root);
}

/*
 * The same sums in the same order for any type, address and options; it reads
 * the pixel again for the result. Also for pixels too long for registers, and
 * for very short ones, which no model has.
 */
VAE_KERNEL void
rms_any(VaeNormArgs a, int lanes, float root)
{
    const size_t pixels = (size_t) a.t * a.h * a.w;
    const int lane = (int) threadIdx.x & (lanes - 1);
    const size_t p = ((size_t) blockIdx.x * VAE_THREADS + threadIdx.x) / lanes;
    const size_t row = p * a.c;
    const int c = p < pixels ? a.c : 0;
    VaeOctet<VAE_ANY> x;
    float sum = 0;
    for (int first = 8 * lane; first < c; first += 8 * lanes) {
        const int n = vae_octet_valid(first, c);
        vae_octet_load(x, a.x, a.x_type, row + first, n);
        sum = vae_rms_squares(sum, x);
    }
    const float scale = vae_rms_scale(a, vae_lanes_sum(sum, lanes), root);
    for (int first = 8 * lane; first < c; first += 8 * lanes) {
        const int n = vae_octet_valid(first, c);
        vae_octet_load(x, a.x, a.x_type, row + first, n);
        vae_rms_octet<VAE_ANY, VAE_ANY>(
            a, vae_rms_options(a, a.relu), x,
            {row + first, first, n, row >= vae_norm_tail_from(a)}, scale);
    }
}

template <int X, int Y, int CHUNKS>
static void
launch_rms(const VaeQueue *q, const VaeNormArgs *a, int lanes)
{
    const size_t pixels = (size_t) a->t * a->h * a->w;
    const size_t per_block = (size_t) VAE_THREADS / lanes * ROUNDS;
    vae_launch(rms<X, Y, CHUNKS>, vae_blocks(pixels, per_block), VAE_THREADS, 0,
               q->stream, *a, lanes, sqrtf((float) a->c));
}

static void
launch_rms_any(const VaeQueue *q, const VaeNormArgs *a, int lanes)
{
    const size_t pixels = (size_t) a->t * a->h * a->w;
    vae_launch(rms_any, vae_blocks(pixels, VAE_THREADS / lanes), VAE_THREADS, 0,
               q->stream, *a, lanes, sqrtf((float) a->c));
}

template <int X, int Y>
static void
choose_rms(const VaeQueue *q, const VaeNormArgs *a, int lanes, int chunks)
{
    if (chunks == 3)
        launch_rms<X, Y, 3>(q, a, lanes);
    else if (chunks == 4)
        launch_rms<X, Y, 4>(q, a, lanes);
    else
        launch_rms<X, Y, 5>(q, a, lanes);
}

static void
launch_rms(const VaeQueue *q, const VaeNormArgs *a, bool aligned)
{
    const int chunks = vae_rms_chunks((a->c + 7) / 8);
    const int lanes = vae_rms_lanes(a->c);
    const bool loop = a->relu   ? !a->gain && !a->offset
                      : a->silu ? a->gain || !a->offset
                                : a->gain && !a->offset;
    if (!aligned || !chunks || !loop)
        launch_rms_any(q, a, lanes);
    else
        vae_with_types(a->x_type, a->y_type, [&](auto x, auto y) {
            choose_rms<decltype(x)::value, decltype(y)::value>(q, a, lanes,
                                                               chunks);
        });
}

/* ------------------------------------------------------------ group */

/*
 * Three passes: sums over parts of a frame, statistics of each group, result.
 * A typical value of the group in the frame is subtracted from x before
 * summing, so that a mean far from zero costs no precision.
 */
typedef struct Group {
    VaeNormArgs a;
    int part;           /* pixels per part */
    int parts;          /* parts of a frame */
    double *statistics; /* STATISTICS per frame and group */
} Group;

enum { MEAN, SCALE, STATISTICS };

/* Elements per block of the sums: enough blocks for a small frame, enough work
 * per block for a large one. */
enum { PART_ELEMENTS = 1 << 16 };
enum { BATCH = 4 }; /* octets that a thread loads at once */
/* Floats between a thread's sums. A warp that adds the sums of four threads,
 * eight of each, reads 32 different banks. */
enum { SUMS_STRIDE = VAE_THREADS + 4 };

static int
part_pixels(int c)
{
    const int n = PART_ELEMENTS / c;
    return n < 32 ? 32 : n;
}

static int
part_count(int h, int w, int c)
{
    return (int) vae_blocks((size_t) h * w, (size_t) part_pixels(c));
}

extern "C" size_t
vae_norm_sums_cuda(int t, int h, int w, int c, int groups)
{
    return (size_t) t * groups * (part_count(h, w, c) * 2 + STATISTICS);
}

/* The first element of this block's frame in x and y. */
VAE_DEVICE size_t
frame_start(const Group &g)
{
    return (size_t) blockIdx.y * g.a.h * g.a.w * g.a.c;
}

/* A typical value of the group that begins at channel c, in this block's frame:
 * the median of three pixels, so that no single outlier is taken for one. */
VAE_DEVICE float
shift_of(const Group &g, VaeType type, int c)
{
    const size_t pixels = (size_t) g.a.h * g.a.w;
    const size_t first = frame_start(g) + c;
    const float u = vae_load(g.a.x, type, first + pixels / 6 * g.a.c);
    const float v = vae_load(g.a.x, type, first + pixels / 2 * g.a.c);
    const float w = vae_load(g.a.x, type, first + pixels * 5 / 6 * g.a.c);
    return fmaxf(fminf(u, v), fminf(fmaxf(u, v), w));
}

/* The same for n channels from `first` on, whatever their groups, then zeros up
 * to eight. */
template <int X>
VAE_DEVICE void
load_shifts(const Group &g, float *shift, int first, int n)
{
    const VaeType type = X == VAE_ANY ? g.a.x_type : (VaeType) X;
    const int per = g.a.c / g.a.groups;
    int group = first / per * per; /* its first channel */
    float value = shift_of(g, type, group);
    VAE_UNROLL
    for (int i = 0; i < 8; i++) {
        if (i < n && first + i == group + per) {
            group += per;
            value = shift_of(g, type, group);
        }
        shift[i] = i < n ? value : 0;
    }
}

/* Adds the columns of n octets to the sums of their channels. */
VAE_DEVICE void
add_rows(const float *part, double *sum, int base, int width, int rows, int c)
{
    for (int i = (int) threadIdx.x; i < 8 * width; i += VAE_THREADS) {
        const int channel = 8 * base + i;
        if (channel >= c)
            break;
        double s = 0, s2 = 0;
        for (int row = 0; row < rows; row++) {
            const int at = row * width + i / 8;
            s += part[i % 8 * SUMS_STRIDE + at];
            s2 += part[(8 + i % 8) * SUMS_STRIDE + at];
        }
        sum[2 * channel] = s;
        sum[2 * channel + 1] = s2;
    }
}

/* Loads octet o of a pixel of this block's frame; zeros from pixel `end` on. */
template <int X>
VAE_DEVICE void
load_pixel(const Group &g, VaeOctet<X> &x, int p, int end, int o, int n)
{
    vae_octet_load<X>(x, g.a.x, g.a.x_type,
                      frame_start(g) + (size_t) p * g.a.c + 8 * o,
                      p < end ? n : 0);
}

/* Sums a thread's octet over its pixels of the part. */
template <int X>
VAE_DEVICE void
sum_column(const Group &g, float *sum, float *squares, int o, int row, int rows)
{
    const int n = vae_octet_valid(8 * o, g.a.c);
    const int pixels = g.a.h * g.a.w, from = (int) blockIdx.x * g.part;
    const int end = from + g.part < pixels ? from + g.part : pixels;
    float shift[8];
    load_shifts<X>(g, shift, 8 * o, n);
    VAE_NO_UNROLL
    for (int p = from + row; p < end; p += BATCH * rows) {
        VaeOctet<X> x[BATCH];
        VAE_UNROLL
        for (int j = 0; j < BATCH; j++)
            load_pixel<X>(g, x[j], p + j * rows, end, o, n);
        VAE_UNROLL
        for (int j = 0; j < BATCH; j++)
            if (p + j * rows < end)
                VAE_UNROLL
        for (int i = 0; i < 8; i++) {
            const float d = vae_octet_get<X>(x[j], i) - shift[i];
            sum[i] += d;
            squares[i] = fmaf(d, d, squares[i]);
        }
    }
}

/* Sums and sums of squares of every group over part blockIdx.x of frame
 * blockIdx.y, first by channel. */
template <int X>
VAE_KERNEL void
group_sums(Group g)
{
    VAE_SHARED(double, sum); /* 2 per channel */
    float *part = reinterpret_cast<float *>(sum + 2 * g.a.c);
    const int octets = (g.a.c + 7) / 8;
    const int width = octets < VAE_THREADS ? octets : VAE_THREADS;
    const int rows = VAE_THREADS / width;
    const int column = (int) threadIdx.x % width;
    const int row = (int) threadIdx.x / width;
    for (int base = 0; base < octets; base += width) {
        float s[8] = {0}, s2[8] = {0};
        if (row < rows && base + column < octets)
            sum_column<X>(g, s, s2, base + column, row, rows);
        VAE_UNROLL
        for (int i = 0; i < 8; i++) {
            part[i * SUMS_STRIDE + threadIdx.x] = s[i];
            part[(8 + i) * SUMS_STRIDE + threadIdx.x] = s2[i];
        }
        __syncthreads();
        add_rows(part, sum, base, width, rows, g.a.c);
        __syncthreads();
    }
    const int per = g.a.c / g.a.groups;
    double *to = g.a.sums +
                 ((size_t) blockIdx.y * g.parts + blockIdx.x) * g.a.groups * 2;
    for (int i = (int) threadIdx.x; i < 2 * g.a.groups; i += VAE_THREADS) {
        double s = 0;
        for (int c = i / 2 * per; c < (i / 2 + 1) * per; c++)
            s += sum[2 * c + i % 2];
        to[i] = s;
    }
}

/* A warp adds the parts of group blockIdx.x of frame blockIdx.y. */
VAE_KERNEL void
group_statistics(Group g)
{
    const double *from =
        g.a.sums + (size_t) blockIdx.y * g.parts * g.a.groups * 2;
    double sum = 0, squares = 0;
    for (int i = (int) threadIdx.x; i < g.parts; i += 32) {
        const double *part = from + ((size_t) i * g.a.groups + blockIdx.x) * 2;
        sum += part[0];
        squares += part[1];
    }
    sum = vae_lanes_sum(sum, 32);
    squares = vae_lanes_sum(squares, 32);
    if (threadIdx.x)
        return;
    const int per = g.a.c / g.a.groups;
    const double count = (double) g.a.h * g.a.w * per;
    const double mean = sum / count, var = squares / count - mean * mean;
    double *to = g.statistics +
                 ((size_t) blockIdx.y * g.a.groups + blockIdx.x) * STATISTICS;
    to[MEAN] = shift_of(g, g.a.x_type, (int) blockIdx.x * per) + mean;
    to[SCALE] = 1 / sqrt((var < 0 ? 0 : var) + (double) g.a.eps);
}

/*
 * The parameters of an octet's channels for y = (x - mean) * scale + offset.
 * The offset corrects the rounding of the mean to float.
 */
typedef struct Channel8 {
    float mean[8], scale[8], offset[8];
} Channel8;

VAE_DEVICE void
load_channels(const Group &g, Channel8 &to, int o)
{
    const int n = vae_octet_valid(8 * o, g.a.c), per = g.a.c / g.a.groups;
    const double *from =
        g.statistics + (size_t) blockIdx.y * g.a.groups * STATISTICS;
    VAE_UNROLL
    for (int i = 0; i < 8; i++) {
        const int c = i < n ? 8 * o + i : 8 * o;
        const double *s = from + c / per * STATISTICS;
        to.mean[i] = (float) s[MEAN];
        to.scale[i] = (float) s[SCALE] * g.a.gain[c];
        to.offset[i] =
            fmaf((float) (to.mean[i] - s[MEAN]), to.scale[i], g.a.offset[c]);
    }
}

template <int X, int Y>
VAE_DEVICE void
apply(const Group &g, const Channel8 &k, const VaeOctet<X> &x, size_t at,
      size_t tail, int n)
{
    VaeOctet<Y> y;
    float v[8];
    VAE_UNROLL
    for (int i = 0; i < 8; i++) {
        v[i] =
            fmaf(vae_octet_get<X>(x, i) - k.mean[i], k.scale[i], k.offset[i]);
        if (g.a.silu)
            v[i] = vae_silu_for<Y>(v[i], g.a.y_type);
        else if (g.a.relu)
            v[i] = fmaxf(v[i], 0);
    }
    vae_octet_set<Y>(y, v);
    vae_norm_store<Y>(g.a, at, y, n, at >= tail);
}

/* Blocks per multiprocessor, and octets that a thread loads at once. 16-bit
 * octets leave registers for a third block; before sm_90 the assembler spills.
 */
template <int X, int Y> struct Apply {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    static const int BLOCKS = VaeOctet<X>::WIDE || VaeOctet<Y>::WIDE ? 2 : 3;
#else
    static const int BLOCKS = 2;
#endif
    static const int OCTETS = BLOCKS == 3 ? 3 : 4;
};

template <int X, int Y>
VAE_GLOBAL
__launch_bounds__(VAE_THREADS, (Apply<X, Y>::BLOCKS)) void group_apply(Group g)
{
    const int batch = Apply<X, Y>::OCTETS;
    const int octets = (g.a.c + 7) / 8, pixels = g.a.h * g.a.w;
    const int width = octets < VAE_THREADS ? octets : VAE_THREADS;
    const int rows = VAE_THREADS / width;
    const int row = (int) threadIdx.x / width;
    const int from = (int) blockIdx.x * g.part;
    const int end = from + g.part < pixels ? from + g.part : pixels;
    const size_t tail = vae_norm_tail_from(g.a);
    if (row >= rows)
        return;
    for (int o = (int) threadIdx.x % width; o < octets; o += width) {
        const int n = vae_octet_valid(8 * o, g.a.c);
        Channel8 k;
        load_channels(g, k, o);
        VAE_NO_UNROLL
        for (int p = from + row; p < end; p += batch * rows) {
            VaeOctet<X> x[batch];
            VAE_UNROLL
            for (int j = 0; j < batch; j++)
                load_pixel<X>(g, x[j], p + j * rows, end, o, n);
            VAE_UNROLL
            for (int j = 0; j < batch; j++) {
                const int q = p + j * rows;
                apply<X, Y>(g, k, x[j],
                            frame_start(g) + (size_t) q * g.a.c + 8 * o, tail,
                            q < end ? n : 0);
            }
        }
    }
}

static void
launch_group(const VaeQueue *q, const VaeNormArgs *a, bool aligned)
{
    Group g;
    g.a = *a;
    g.part = part_pixels(a->c);
    g.parts = part_count(a->h, a->w, a->c);
    g.statistics = a->statistics
                       ? a->statistics
                       : a->sums + (size_t) a->t * g.parts * a->groups * 2;
    const dim3 grid((unsigned) g.parts, (unsigned) a->t);
    const dim3 each((unsigned) a->groups, (unsigned) a->t);
    const size_t smem =
        sizeof(double) * 2 * a->c + sizeof(float) * 16 * SUMS_STRIDE;
    const auto sum = [&](auto x) {
        vae_launch(group_sums<decltype(x)::value>, grid, VAE_THREADS, smem,
                   q->stream, g);
        vae_launch(group_statistics, each, 32, 0, q->stream, g);
    };
    const auto apply = [&](auto x, auto y) {
        vae_launch(group_apply<decltype(x)::value, decltype(y)::value>, grid,
                   VAE_THREADS, 0, q->stream, g);
    };
    const bool add_up = !a->y || !a->statistics;
    if (add_up && aligned)
        vae_with_type(a->x_type, sum);
    else if (add_up)
        sum(VaeTypeIs<VAE_ANY>());
    if (a->y && aligned)
        vae_with_types(a->x_type, a->y_type, apply);
    else if (a->y)
        apply(VaeTypeIs<VAE_ANY>(), VaeTypeIs<VAE_ANY>());
}

void
vae_cuda_norm(const VaeQueue *q, const VaeNormArgs *a)
{
    const size_t c = (size_t) a->c;
    const bool aligned =
        vae_octets_aligned(a->x, c) && vae_octets_aligned(a->y, c) &&
        vae_octets_aligned(a->tail, c) && vae_octets_aligned(a->gain, c) &&
        vae_octets_aligned(a->offset, c);
    VaeNormArgs args = *a;
    if (!a->t || !a->h || !a->w)
        return;
    if (a->tail)
        args.tail =
            static_cast<char *>(a->tail) -
            vae_norm_tail_from(*a) * (a->y_type == VAE_TYPE_F32 ? 4 : 2);
    if (a->kind == VAE_NORM_GROUP)
        launch_group(q, &args, aligned);
    else
        launch_rms(q, &args, aligned);
}

/*
 * conv.cuh: what the convolutions on the matrix units have in common: the place
 * of a block, the copies to shared memory, and what becomes of the sums.
 *
 * Their template argument P is the tile of a block of THREADS: N channels of
 * ROWS x ACROSS pixels. halo_at() and weight_at() say where an octet of a
 * pixel, or of a row of weights, is in its buffer; places() is where the
 * block's pixels are in a frame. Thread t has the sums of
 * pixels down(t, i), across(t, i), of channels from channel(t) on. The COPIERS
 * of a step are the threads with copies(step); copier() is a thread's index of
 * them.
 *
 * With Phases<P>, a fourth of the channels are those of each phase of an
 * upsampling, so that all four read the pixels once. A phase's first tap is at
 * another pixel.
 */
#ifndef VAE_CONV_CUH
#define VAE_CONV_CUH

#include "cuda.h"
#include "norm.cuh"

enum {
    ACROSS = 16, /* columns of pixels of a block */
    MORE = 2,    /* the largest k, less one */
    DEEP = 32,   /* input channels at a time */
    AHEAD = 2,   /* steps between the copy of weights and their use */
    OCTETS = DEEP / 8
};

typedef uint16_t Half;

/* The place of a pixel outside of the picture. */
static const uint32_t OUTSIDE = ~0u;

/* Replaces two constants of P. */
template <typename P> struct Phases : P {
    /* cppcheck-suppress duplInheritedMember */
    static const int PHASES = 4;
    /* cppcheck-suppress duplInheritedMember */
    static const int SHARE = P::N / PHASES;
};

/* The part of the output that a block computes. */
struct Place {
    int x, y, t, n; /* of its first pixel and channel */
    int pieces, taps, steps;
    int together;    /* taps of a step */
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
    p.n = (int) blockIdx.y * P::SHARE;
    p.pieces = (a.c_in + DEEP - 1) / DEEP;
    p.taps = a.k * a.k;
    p.together = P::TAPS > 1 ? a.k : 1;
    p.steps = a.kt * p.pieces * p.taps / p.together;
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

/* A step is one tap, or a row of taps, of a section, which is one frame and
 * DEEP channels. */
struct Step {
    int index, section, frame, piece, tap;
};

VAE_DEVICE void
next_section(const Place &p, Step &s)
{
    s.section++;
    if (++s.piece < p.pieces)
        return;
    s.piece = 0;
    s.frame++;
}

VAE_DEVICE void
next_step(const Place &p, Step &s)
{
    s.index++;
    s.tap += p.together;
    if (s.tap < p.taps)
        return;
    s.tap = 0;
    next_section(p, s);
}

/* The first pixel of a step's first tap in a block's pixels. */
VAE_DEVICE int
tap_pixel(const VaeConvMatrixArgs &a, const Step &s)
{
    const int row = a.k == 2 ? s.tap / 2 : s.tap / 3;
    return row * (ACROSS + MORE) + s.tap - row * a.k;
}

/* The pixels from the first tap of phase 0 to that of another. */
VAE_DEVICE int
phase_pixel(int phase)
{
    return phase / 2 * (ACROSS + MORE) + phase % 2;
}

VAE_DEVICE const Half *
input_frame(const VaeConvMatrixArgs &a, int frame)
{
    const bool past = frame < a.past_frames;
    return static_cast<const Half *>(past ? a.past : a.x) +
           (size_t) (past ? frame : frame - a.past_frames) * a.h * a.w * a.c_in;
}

/* Writes where each of the block's pixels is in a frame. All sections read the
 * same ones, so copy_pixels() need not compute it each time. */
template <typename P>
VAE_DEVICE void
find_pixels(const VaeConvMatrixArgs &a, const Place &p, Half *halo)
{
    uint32_t *const place = P::places(halo);
    for (int i = (int) threadIdx.x; i < P::PIXELS; i += P::THREADS) {
        const int row = p.y + i / (ACROSS + MORE) - a.pad_y;
        const int column = p.x + i % (ACROSS + MORE) - a.pad_x;
        const bool inside =
            row >= 0 && row < a.h && column >= 0 && column < a.w;
        place[i] = inside ? (uint32_t) row * (uint32_t) a.w + (uint32_t) column
                          : OUTSIDE;
    }
    __syncthreads();
}

/* Starts to copy the pixels that a section reads. Zeros replace pixels outside
 * of the picture, and channels past c_in. */
template <typename P>
VAE_DEVICE void
copy_pixels(const VaeConvMatrixArgs &a, const Place &p, Half *halo,
            const Step &s)
{
    const uint32_t thread = P::copier(), octet = thread % OCTETS;
    const uint32_t first = thread / OCTETS, step = P::COPIERS / OCTETS;
    const uint32_t c = (uint32_t) s.piece * DEEP + octet * 8;
    const uint32_t depth = (uint32_t) a.c_in;
    const Half *const x = input_frame(a, p.t + s.frame) + (c < depth ? c : 0);
    const uint32_t *const place = P::places(halo) + first;
    Half *const to =
        halo + s.section % 2 * P::HALO + P::halo_at((int) first, (int) octet);
    VAE_UNROLL
    for (uint32_t i = 0; i < P::PIXELS; i += step) {
        if (i + step > P::PIXELS && first + i >= P::PIXELS)
            break;
        const uint32_t at = c < depth ? place[i] : OUTSIDE;
        const bool inside = at != OUTSIDE;
        vae_ptx_copy_async(to + P::halo_at((int) i, 0),
                           x + (uint64_t) (inside ? at : 0) * depth, !inside);
    }
}

/* The row of channel n. Channels are in another order: of 16, the first matrix
 * of a pair gets 0, 1, 4, 5, 8, 9, 12 and 13, so that a lane's results are four
 * neighbours. */
VAE_DEVICE uint32_t
weight_row(uint32_t n)
{
    return n / 16 * 16 + n % 16 / 4 * 2 + n % 2 + n / 2 % 2 * 8;
}

/* Starts to copy the weights of a step. All weights are fewer than 2^32. */
template <typename P>
VAE_DEVICE void
copy_weights(const VaeConvMatrixArgs &a, const Place &p, Half *weight,
             const Step &s)
{
    const uint32_t thread = P::copier(), octet = thread % OCTETS;
    const uint32_t n = thread / OCTETS, first = (uint32_t) p.n + n;
    const uint32_t c = (uint32_t) s.piece * DEEP + octet * 8;
    const uint32_t depth = (uint32_t) a.c_in;
    const uint32_t channel = (uint32_t) (a.kt * p.taps) * depth;
    const uint32_t from =
        first * channel + (uint32_t) (s.frame * p.taps + s.tap) * depth + c;
    const Half *const all = static_cast<const Half *>(a.weight);
    const Half *const one = all + from;
    Half *const to = weight + s.index % P::STAGES * P::TAPS * P::WEIGHT +
                     P::weight_at((int) weight_row(n), (int) octet);
    const uint32_t pass =
        P::COPIERS / OCTETS; /* rows that are copied at once */
    VAE_UNROLL
    for (uint32_t tap = 0; tap < P::TAPS; tap++) {
        if (tap == (uint32_t) p.together)
            break;
        VAE_UNROLL
        for (uint32_t phase = 0; phase < P::PHASES; phase++)
            VAE_UNROLL
        for (uint32_t row = 0; row < P::SHARE; row += pass) {
            const bool inside = first + row < (uint32_t) a.c_out && c < depth;
            const uint32_t on = row * channel + tap * depth;
            const size_t part = phase * a.phase_weights;
            /* Both ways give the same address. Each was faster for its number
             * of taps. */
            const Half *const x = P::TAPS > 1
                                      ? all + part + (inside ? from + on : 0)
                                  : inside ? one + part + on
                                           : all;
            if (row + pass <= P::SHARE || n + row < P::SHARE)
                vae_ptx_copy_async(
                    to + tap * P::WEIGHT +
                        P::weight_at((int) (phase * P::SHARE + row), 0),
                    x, !inside);
        }
    }
}

/* Makes a group of the copies of weights and, at step LATE of a section, of the
 * next section's pixels. Past the last step it is empty. */
template <typename P>
VAE_DEVICE void
copy_ahead(const VaeConvMatrixArgs &a, const Place &p, Half *halo, Half *weight,
           const Step &now)
{
    const bool mine = P::copies(now.index); /* and AHEAD steps later */
    if (mine && now.tap == P::LATE * p.together &&
        now.index + p.taps / p.together - P::LATE < p.steps) {
        Step next = now;
        next_section(p, next);
        copy_pixels<P>(a, p, halo, next);
    }
    Step ahead = now;
    VAE_UNROLL
    for (int i = 0; i < AHEAD; i++)
        next_step(p, ahead);
    if (mine && ahead.index < p.steps)
        copy_weights<P>(a, p, weight, ahead);
    vae_ptx_copy_commit();
}

/* Starts the copies before the first step. */
template <typename P>
VAE_DEVICE void
copy_first(const VaeConvMatrixArgs &a, const Place &p, Half *halo, Half *weight)
{
    Step s = {};
    if (P::copies(0))
        copy_pixels<P>(a, p, halo, s);
    VAE_UNROLL
    for (int i = 0; i < AHEAD; i++) {
        if (P::copies(i))
            copy_weights<P>(a, p, weight, s);
        next_step(p, s);
        vae_ptx_copy_commit();
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

/* Four neighbouring results: adds, rounds once. `word` has what is added. */
template <int T>
VAE_DEVICE void
finish(const float (*sum)[4], int half, const uint32_t *bias, float least,
       uint32_t *word)
{
    float v[4], more[4];
    unpack<T>(word[0], v);
    unpack<T>(word[1], v + 2);
    unpack<T>(bias[0], more);
    unpack<T>(bias[1], more + 2);
    VAE_UNROLL
    for (int i = 0; i < 4; i++) {
        v[i] = sum[i / 2][half + i % 2] + v[i] + more[i];
        v[i] = v[i] < least ? least : v[i];
    }
    word[0] = vae_pair<T>(v[0], v[1]);
    word[1] = vae_pair<T>(v[2], v[3]);
}

/* Stores the results of a pixel, whose first channel is element `at`; for a
 * norm also to `kept`. */
template <typename P, int T>
VAE_DEVICE void
store_pixel(const VaeConvMatrixArgs &a, const Place &p, size_t at,
            const float (*sum)[4], int half, Half *kept)
{
    const int in = P::channel((int) threadIdx.x) + (int) threadIdx.x % 4 * 4;
    const int first = p.n + in;
    const float least = a.relu ? 0 : -INFINITY;
    const bool adds = P::PHASES == 1 && a.add;
    const bool norms = P::PHASES == 1 && a.norm.y;
    const Half *const add = static_cast<const Half *>(a.add) + (adds ? at : 0);
    const Half *const bias = static_cast<const Half *>(a.bias) + first;
    Half *const y = static_cast<Half *>(a.y) + (a.y ? at + first : 0);
    uint32_t word[P::COLUMNS / 2][2] = {};
    VAE_UNROLL
    for (int j = 0; j < P::COLUMNS; j += 2)
        if (adds && first + j * 8 < a.c_out)
            vae_load8(word[j / 2], add + first + j * 8);
    VAE_UNROLL
    for (int j = 0; j < P::COLUMNS; j += 2) {
        const int phase = P::PHASES > 1 ? (in + j * 8) / P::SHARE : 0;
        const size_t to = (phase / 2 * p.down + phase % 2 * p.beside) / 2;
        const int c = j * 8 - phase * P::SHARE; /* from the first one on */
        const bool inside = first + c < a.c_out;
        uint32_t more[2] = {};
        if (inside)
            vae_load8(more, bias + c);
        finish<T>(sum + j, half, more, least, word[j / 2]);
        if (inside && a.y)
            vae_store8(y + to + c, word[j / 2]);
        if (inside && norms)
            vae_store8(kept + first + c, word[j / 2]);
    }
}

template <typename P, int T>
VAE_DEVICE void
store_all(const VaeConvMatrixArgs &a, const Place &p,
          float (*sum)[P::COLUMNS][4], Half *kept)
{
    VAE_UNROLL
    for (int i = 0; i < P::PARTS; i++) {
        const int y = P::down((int) threadIdx.x, i);
        const int x = P::across((int) threadIdx.x, i);
        const int row = p.y + y, column = p.x + x;
        if (row < a.ho && column < a.wo)
            store_pixel<P, T>(a, p, element(p, row, column), sum[i / 2],
                              i % 2 * 2, kept + (y * ACROSS + x) * P::RESULT);
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
         i += P::THREADS / lanes) {
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
            vae_rms_octet<T, T>(a.norm, vae_rms_options(a.norm, false), x,
                                {at + first, first, 8, false}, scale);
        }
    }
}

/* The grid of a launch. */
template <typename P>
static dim3
grid_of(const VaeConvMatrixArgs &a)
{
    return dim3(vae_blocks((size_t) a.wo, ACROSS) *
                    vae_blocks((size_t) a.ho, P::ROWS),
                vae_blocks((size_t) a.c_out, P::SHARE), (unsigned) a.t);
}

#endif

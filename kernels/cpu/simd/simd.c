/*
 * simd.c: vector code in the compiler's own vector types. It is compiled once
 * for each instruction set. VAE_SIMD is the name of the table, LANES the number
 * of floats in a register.
 *
 * A channel's result must be the same in the main loop and in the remainder,
 * and sums have the same 16 partial sums for every LANES. Then a pixel's result
 * does not depend on its neighbours or on the instruction set.
 */
#include <math.h>

#include "simd.h"
#include "colour.h"
#include "number.h"
#include "vector.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define TABLE_OF(x) vae_simd_##x
#define TABLE(x) TABLE_OF(x)
#define TILES_OF(x) vae_tiles_##x
#define TILES(x) TILES_OF(x)

enum { ROWS = 32, CHUNK = 256 };
/* Pixels of a depthwise strip: its sums and inputs fit in registers. */
enum { STRIP = LANES == 16 ? 8 : 4 };

/* ---------------------------------------------------------------- rms */

/* Writes sqrt(c) / max(norm, 1e-12) in place of the sum of squares. */
INLINE void
rms_scales(const VaeNormArgs *a, float *scale, int n)
{
    const float root = sqrtf((float) a->c), more = (float) a->c * a->eps;
    for (int p = 0; p < n; p++) {
        const float length = sqrtf(scale[p] + more);
        scale[p] = root / (length < 1e-12f ? 1e-12f : length);
    }
}

INLINE float
sum_of_squares(const void *x, VaeType type, size_t row, int c)
{
    V part[PARTS] = {{0}};
    int i = 0;
    for (; i + SUMS <= c; i += SUMS)
        for (int j = 0; j < PARTS; j++) {
            const V v = load(x, type, row + i + j * LANES);
            part[j] += v * v;
        }
    for (int j = 0; j < PARTS; j++, i += LANES)
        if (i < c) {
            const V v = load_some(x, type, row + i, c - i);
            part[j] += v * v;
        }
    return total(part);
}

/* The result of a norm, from its value before the activation. */
INLINE V
activate_norm(V v, const VaeNormArgs *a)
{
    const V y = activate(v, a->silu);
    return a->relu ? choose(y < (V){0}, (V){0}, y) : y;
}

/* At most ROWS pixels from element `at` on, for any c. */
INLINE void
rms_rows(const VaeNormArgs *a, size_t at, int n, VaeType xt, VaeType yt)
{
    const int c = a->c, whole = c / LANES * LANES, rest = c - whole;
    const V one = splat(1), none = splat(0);
    const V last =
        a->gain ? load_part(a->gain, VAE_TYPE_F32, whole, rest) : one;
    const V more =
        a->offset ? load_part(a->offset, VAE_TYPE_F32, whole, rest) : none;
    float scale[ROWS] = {0};
    for (int p = 0; p < n; p++)
        scale[p] = sum_of_squares(a->x, xt, at + (size_t) p * c, c);
    rms_scales(a, scale, n);
    for (int p = 0; p < n; p++) {
        const size_t row = at + (size_t) p * c;
        for (int i = 0; i < whole; i += LANES) {
            const V gain = a->gain ? load(a->gain, VAE_TYPE_F32, i) : one;
            const V add = a->offset ? load(a->offset, VAE_TYPE_F32, i) : none;
            const V v = load(a->x, xt, row + i) * scale[p] * gain + add;
            store(a->y, yt, row + i, activate_norm(v, a));
        }
        if (rest) {
            const V v = load_part(a->x, xt, row + whole, rest);
            store_part(a->y, yt, row + whole,
                       activate_norm(v * scale[p] * last + more, a), rest);
        }
    }
}

#if LANES == 16
/* Two times the same eight numbers, or `other` if there are none. */
INLINE V
twice8(const float *x, float other)
{
    if (!x)
        return splat(other);
    const V8 half = low_half(load_part(x, VAE_TYPE_F32, 0, 8));
    return __builtin_shufflevector(half, half, LOW, LOW);
}

/* c = 8: two pixels to a vector. */
INLINE void
rms_rows8(const VaeNormArgs *a, size_t at, int n, VaeType xt, VaeType yt)
{
    const V gain = twice8(a->gain, 1), offset = twice8(a->offset, 0);
    float scale[ROWS + 1] = {0};
    for (int p = 0; p < n; p += 2) {
        const V v = load_some(a->x, xt, at + (size_t) p * 8, (n - p) * 8);
        scale[p] = sum8(low_half(v * v));
        scale[p + 1] = sum8(high_half(v * v));
    }
    rms_scales(a, scale, n);
    for (int p = 0; p < n; p += 2) {
        const size_t row = at + (size_t) p * 8;
        const V one = splat(scale[p]), two = splat(scale[p + 1]);
        const V by = __builtin_shufflevector(one, two, LOW, 16, 17, 18, 19, 20,
                                             21, 22, 23);
        const V x = load_some(a->x, xt, row, (n - p) * 8);
        const V y = activate_norm(x * by * gain + offset, a);
        if (p + 2 <= n)
            store(a->y, yt, row, y);
        else
            store_part(a->y, yt, row, y, 8);
    }
}
#else
#define rms_rows8 rms_rows
#endif

INLINE void
rms_typed(const VaeNormArgs *a, size_t first, size_t n, VaeType xt, VaeType yt)
{
    for (size_t p = first; p < first + n; p += ROWS) {
        const size_t left = first + n - p;
        const int rows = left < ROWS ? (int) left : ROWS;
        if (a->c == 8)
            rms_rows8(a, p * 8, rows, xt, yt);
        else
            rms_rows(a, p * a->c, rows, xt, yt);
    }
}

static void
rms(const VaeNormArgs *a, size_t first, size_t n)
{
    const bool x16 = a->x_type == VAE_TYPE_BF16;
    const bool y16 = a->y_type == VAE_TYPE_BF16;
    if (x16 && y16)
        rms_typed(a, first, n, VAE_TYPE_BF16, VAE_TYPE_BF16);
    else if (x16)
        rms_typed(a, first, n, VAE_TYPE_BF16, VAE_TYPE_F32);
    else if (y16)
        rms_typed(a, first, n, VAE_TYPE_F32, VAE_TYPE_BF16);
    else
        rms_typed(a, first, n, VAE_TYPE_F32, VAE_TYPE_F32);
}

/* -------------------------------------------------------------- group */

/* Sums and sums of squares of one chunk of channels, lane by lane; the low
 * half of a vector's lanes before the high one. */
typedef struct Sums {
    double sum[CHUNK], square[CHUNK];
} Sums;

INLINE void
add_half(Sums *s, int i, Half half)
{
    const D v = __builtin_convertvector(half, D);
    D sum, square;
    memcpy(&sum, s->sum + i, sizeof sum);
    memcpy(&square, s->square + i, sizeof square);
    sum += v;
    square += v * v;
    memcpy(s->sum + i, &sum, sizeof sum);
    memcpy(s->square + i, &square, sizeof square);
}

INLINE void
group_sums_typed(const VaeNormArgs *a, size_t first, size_t n, double *sums,
                 VaeType xt)
{
    const int per = a->c / a->groups;
    for (int i = 0; i < 2 * a->groups; i++)
        sums[i] = 0;
    for (int from = 0; from < a->c; from += CHUNK) {
        const int c = a->c - from < CHUNK ? a->c - from : CHUNK;
        Sums s = {{0}, {0}};
        for (size_t p = first; p < first + n; p++)
            for (int i = 0; i < c; i += LANES) {
                const V v = load_some(a->x, xt, p * a->c + from + i, c - i);
                add_half(&s, i, low_half(v));
                add_half(&s, i + LANES / 2, high_half(v));
            }
        for (int i = 0; i < c; i++) {
            double *group = sums + (from + i) / per * 2;
            group[0] += s.sum[i];
            group[1] += s.square[i];
        }
    }
}

static void
group_sums(const VaeNormArgs *a, size_t first, size_t n, double *sums)
{
    if (a->x_type == VAE_TYPE_BF16)
        group_sums_typed(a, first, n, sums, VAE_TYPE_BF16);
    else
        group_sums_typed(a, first, n, sums, VAE_TYPE_F32);
}

/* The parameters that normalise one chunk of channels; lanes past c are 0. The
 * offset corrects the rounding of the mean. */
typedef struct Affine {
    float mean[CHUNK], scale[CHUNK], offset[CHUNK];
} Affine;

static void
affine(Affine *f, const VaeNormArgs *a, int from, int c, const double *stats)
{
    const int per = a->c / a->groups;
    memset(f, 0, sizeof *f);
    for (int i = 0; i < c; i++) {
        const double *group = stats + (from + i) / per * 2;
        const double scale = group[1] * a->gain[from + i];
        f->mean[i] = (float) group[0];
        f->scale[i] = (float) scale;
        f->offset[i] =
            (float) (a->offset[from + i] + (f->mean[i] - group[0]) * scale);
    }
}

INLINE V
affine_at(const Affine *f, int i, V v, const VaeNormArgs *a)
{
    const V centred = v - load(f->mean, VAE_TYPE_F32, i);
    return activate_norm(centred * load(f->scale, VAE_TYPE_F32, i) +
                             load(f->offset, VAE_TYPE_F32, i),
                         a);
}

INLINE void
group_apply_typed(const VaeNormArgs *a, size_t first, size_t n,
                  const double *stats, VaeType xt, VaeType yt)
{
    for (int from = 0; from < a->c; from += CHUNK) {
        const int c = a->c - from < CHUNK ? a->c - from : CHUNK;
        const int whole = c / LANES * LANES, rest = c - whole;
        Affine f;
        affine(&f, a, from, c, stats);
        for (size_t p = first; p < first + n; p++) {
            const size_t row = p * a->c + from;
            for (int i = 0; i < whole; i += LANES)
                store(a->y, yt, row + i,
                      affine_at(&f, i, load(a->x, xt, row + i), a));
            if (rest)
                store_part(a->y, yt, row + whole,
                           affine_at(&f, whole,
                                     load_part(a->x, xt, row + whole, rest), a),
                           rest);
        }
    }
}

static void
group_apply(const VaeNormArgs *a, size_t first, size_t n, const double *stats)
{
    const bool x16 = a->x_type == VAE_TYPE_BF16;
    const bool y16 = a->y_type == VAE_TYPE_BF16;
    if (x16 && y16)
        group_apply_typed(a, first, n, stats, VAE_TYPE_BF16, VAE_TYPE_BF16);
    else if (x16)
        group_apply_typed(a, first, n, stats, VAE_TYPE_BF16, VAE_TYPE_F32);
    else if (y16)
        group_apply_typed(a, first, n, stats, VAE_TYPE_F32, VAE_TYPE_BF16);
    else
        group_apply_typed(a, first, n, stats, VAE_TYPE_F32, VAE_TYPE_F32);
}

/* ------------------------------------------------------- flat arrays */

INLINE void
convert_typed(void *y, VaeType yt, const void *x, VaeType xt, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(y, yt, i, load(x, xt, i));
    for (; i < n; i++)
        vae_store(y, yt, i, vae_load(x, xt, i));
}

static void
convert(void *y, VaeType y_type, const void *x, VaeType x_type, size_t n)
{
    if (x_type == y_type)
        memcpy(y, x, n * (x_type == VAE_TYPE_F32 ? 4 : 2));
    else if (y_type == VAE_TYPE_BF16)
        convert_typed(y, VAE_TYPE_BF16, x, VAE_TYPE_F32, n);
    else
        convert_typed(y, VAE_TYPE_F32, x, VAE_TYPE_BF16, n);
}

static void
bytes(uint8_t *restrict y, const float *restrict x, size_t n, float low,
      float high)
{
    for (size_t i = 0; i < n; i++)
        y[i] = (uint8_t) vae_colour_byte(vae_colour_unit(x[i], low, high));
}

static void
words(uint16_t *restrict y, const float *restrict x, size_t n, float low,
      float high)
{
    for (size_t i = 0; i < n; i++)
        y[i] = (uint16_t) vae_colour_word(vae_colour_unit(x[i], low, high));
}

/* --------------------------------------------------------- depthwise */

/* A pixel of y. */
typedef struct Pixel {
    int f, y, x;
} Pixel;

/* Writes n channels from c on of STRIP pixels from p on. Pixels outside of the
 * picture read as zeros and are not written. */
INLINE void
depthwise_strip(const VaeDepthwiseArgs *a, VaeType xt, VaeType yt,
                const Pixel p, int c, int n)
{
    const int frame = c < a->n ? p.f + 1 : p.f, from = c < a->n ? c : c - a->n;
    V sum[STRIP] = {0};
    for (int i = 0; i < 7; i++) {
        const int y = p.y + i - 3;
        if (y < 0 || y >= a->h)
            continue;
        V v[STRIP + 6];
        for (int k = 0; k < STRIP + 6; k++) {
            const int x = p.x + k - 3;
            const size_t at = ((size_t) frame * a->h + y) * a->w + x;
            v[k] = (V){0};
            if (x >= 0 && x < a->w)
                v[k] = load_some(a->x, xt, at * a->n + from, n);
        }
        for (int j = 0; j < 7; j++) {
            const size_t at = (size_t) (i * 7 + j) * 2 * a->n + c;
            const V weight = load_some(a->weight, VAE_TYPE_F32, at, n);
            for (int k = 0; k < STRIP; k++)
                sum[k] += weight * v[k + j];
        }
    }
    for (int k = 0; k < STRIP && p.x + k < a->w; k++) {
        const size_t at = ((size_t) p.f * a->h + p.y) * a->w + p.x + k;
        store_some(a->y, yt, at * 2 * a->n + c, sum[k], n);
    }
}

INLINE void
depthwise_typed(const VaeDepthwiseArgs *a, VaeType xt, VaeType yt, int f, int y)
{
    for (int half = 0; half < 2; half++)
        for (int x = 0; x < a->w; x += STRIP) {
            const Pixel p = {f, y, x};
            int c = half * a->n;
            const int end = c + a->n;
            for (; c + LANES <= end; c += LANES)
                depthwise_strip(a, xt, yt, p, c, LANES);
            if (c < end)
                depthwise_strip(a, xt, yt, p, c, end - c);
        }
}

static void
depthwise(const VaeDepthwiseArgs *a, int frame, int row)
{
    const bool x16 = a->x_type == VAE_TYPE_BF16;
    const bool y16 = a->y_type == VAE_TYPE_BF16;
    if (x16 && y16)
        depthwise_typed(a, VAE_TYPE_BF16, VAE_TYPE_BF16, frame, row);
    else if (x16)
        depthwise_typed(a, VAE_TYPE_BF16, VAE_TYPE_F32, frame, row);
    else if (y16)
        depthwise_typed(a, VAE_TYPE_F32, VAE_TYPE_BF16, frame, row);
    else
        depthwise_typed(a, VAE_TYPE_F32, VAE_TYPE_F32, frame, row);
}

/* ------------------------------------------------------------- gates */

INLINE void
glu_typed(const VaeGluArgs *a, VaeType xt, VaeType yt, size_t row)
{
    const size_t c = (size_t) a->c;
    for (size_t i = 0; i < c; i += LANES) {
        const int n = c - i < LANES ? (int) (c - i) : LANES;
        const V gate = load_some(a->x, xt, 2 * row * c + i, n);
        const V value = load_some(a->x, xt, (2 * row + 1) * c + i, n);
        store_some(a->y, yt, row * c + i, activate(gate, true) * value, n);
    }
}

static void
glu(const VaeGluArgs *a, size_t row)
{
    const bool x16 = a->x_type == VAE_TYPE_BF16;
    const bool y16 = a->y_type == VAE_TYPE_BF16;
    if (x16 && y16)
        glu_typed(a, VAE_TYPE_BF16, VAE_TYPE_BF16, row);
    else if (x16)
        glu_typed(a, VAE_TYPE_BF16, VAE_TYPE_F32, row);
    else if (y16)
        glu_typed(a, VAE_TYPE_F32, VAE_TYPE_BF16, row);
    else
        glu_typed(a, VAE_TYPE_F32, VAE_TYPE_F32, row);
}

/* ---------------------------------------------------------- attention */

/* n scores from i on; those past the end are -inf. */
INLINE V
load_scores(const float *score, int i, int n)
{
    float some[LANES];
    if (i + LANES <= n)
        return load(score, VAE_TYPE_F32, (size_t) i);
    for (int j = 0; j < LANES; j++)
        some[j] = i + j < n ? score[i + j] : -INFINITY;
    return load(some, VAE_TYPE_F32, 0);
}

INLINE float
weigh_typed(void *p, VaeType type, const float *score, int n, float *most)
{
    V top = splat(*most), part[PARTS] = {{0}};
    for (int i = 0; i < n; i += LANES) {
        const V v = load_scores(score, i, n);
        top = choose(v > top, v, top);
    }
    for (int j = 0; j < LANES; j++)
        *most = top[j] > *most ? top[j] : *most;
    const V zero = splat(*most == -INFINITY ? 0 : *most);
    for (int i = 0; i < n; i += SUMS)
        for (int j = 0; j < PARTS && i + j * LANES < n; j++) {
            const int at = i + j * LANES;
            const V v = exponential(load_scores(score, at, n) - zero);
            part[j] += v;
            store_some(p, type, (size_t) at, v, n - at);
        }
    return total(part);
}

static float
weigh(void *p, VaeType type, const float *score, int n, float *most)
{
    return type == VAE_TYPE_F32 ? weigh_typed(p, VAE_TYPE_F32, score, n, most)
                                : weigh_typed(p, VAE_TYPE_BF16, score, n, most);
}

static void
gather(float *y, const float *x, float shrink, int n)
{
    int i = 0;
    for (; i + LANES <= n; i += LANES) {
        const V v = load(y, VAE_TYPE_F32, (size_t) i) * shrink +
                    load(x, VAE_TYPE_F32, (size_t) i);
        store(y, VAE_TYPE_F32, (size_t) i, v);
    }
    for (; i < n; i++)
        y[i] = y[i] * shrink + x[i];
}

const VaeSimd TABLE(VAE_SIMD) = {
    .name = TEXT(VAE_SIMD),
    .rms = rms,
    .group_sums = group_sums,
    .group_apply = group_apply,
    .convert = convert,
    .glu = glu,
    .depthwise = depthwise,
    .tiles = &TILES(VAE_SIMD),
    .weigh = weigh,
    .gather = gather,
    .bytes = bytes,
    .words = words,
};

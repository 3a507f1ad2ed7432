/*
 * colour.h: the colour formulas, the same for every backend.
 *
 * Out, network value v, its range low..high:
 *     u = (v - low) / (high - low), clamped to 0..1, NaN as 0
 *     RGB code = black + nearest even of u * span
 *     word = nearest even of u * 65535, for R, G, B of YUV
 * each fp32 operation rounded on its own; black and span of codes of d bits
 * are 0 and 2^d - 1 or, limited, 16 and 219 times 2^(d - 8). After the words
 * all arithmetic is integer:
 *     code = (kr * R + kg * G + kb * B + offset) >> (31 - d)
 * modulo 2^32; offset contains the range's zero and one half. Full-range chroma
 * ends at 2^d - 1/2 and stays below 2^d, because its weight is rounded down.
 * The luma weights sum to the scale, rounded once. The chroma weights sum to 0,
 * so that greys have no chroma. The error of the fixed point is at most 0.02
 * codes for 8 bits and 0.06 for 10.
 *
 * A chroma sample is a weighted mean of the words of the visible pixels around
 * it, with coordinates clamped to the picture. In a direction in which chroma
 * is subsampled, sample j reads
 *     sited on the first: 2j-1, 2j, 2j+1 with weights 1, 2, 1
 *     sited between:      2j, 2j+1 with weights 1, 1
 * and in another direction only j. The weights of both directions are
 * multiplied; the sum is divided by the sum of the weights and rounded half up.
 *
 * In: RGB u = (code - black) / span, codes clamped to the range. For YUV,
 * chroma is first interpolated without rounding, in sixteenths of a code. In a
 * direction in which it is subsampled, the weights are 3 : 1 towards the nearer
 * sample if samples are sited between; else an even position takes its sample
 * and an odd one 1 : 1. Beyond the plane, the last sample is repeated. Then
 *     word = (ky * (Y - black) + ku * (U - zero) + kv * (V - zero) + 2^12)
 *            >> 13, clamped to 0..65535, and u = word / 65535
 * and v = (u - mid) / step with mid = -low / (high - low), step = 1 / (high -
 * low), which is (u - 0.5) / 0.5 for -1..1 and u for 0..1.
 *
 * YUV codes have 8 to 10 bits; with more, the integers would overflow. Usable
 * in CUDA; the constants are computed on the host.
 */
#ifndef VAE_COLOUR_H
#define VAE_COLOUR_H

#include "vae/frames.h"
#include "inline.h"

/* fp32 operations that no compiler may fuse. */
#ifdef __CUDA_ARCH__
#define VAE_ADD(a, b) __fadd_rn(a, b)
#define VAE_MUL(a, b) __fmul_rn(a, b)
#define VAE_DIV(a, b) __fdiv_rn(a, b)
#else
#define VAE_ADD(a, b) ((a) + (b))
#define VAE_MUL(a, b) ((a) * (b))
#define VAE_DIV(a, b) ((a) / (b))
#endif

/* Constants of RGB codes. */
typedef struct VaeColourRgb {
    int black, span;
} VaeColourRgb;

/* Weights of R, G, B, and the offset; negative ones modulo 2^32. */
typedef struct VaeColourOut {
    uint32_t y[4], u[4], v[4];
    int shift;
} VaeColourOut;

typedef struct VaeColourIn {
    int32_t black, zero, ky;
    int32_t rv, gu, gv, bu; /* kv of R, ku and kv of G, ku of B */
} VaeColourIn;

VAE_INLINE float
vae_colour_unit(float v, float low, float high)
{
    const float u = VAE_DIV(VAE_ADD(v, -low), VAE_ADD(high, -low));
    return u > 0 ? (u < 1 ? u : 1) : 0;
}

/* Rounds 0 <= v < 2^22 to nearest even: from 2^23 on a float has no fraction.
 */
VAE_INLINE int
vae_colour_round(float v)
{
    return (int) VAE_ADD(VAE_ADD(v, 12582912.0f), -12582912.0f);
}

VAE_INLINE int
vae_colour_byte(float u)
{
    return vae_colour_round(VAE_MUL(u, 255.0f));
}

VAE_INLINE int
vae_colour_rgb_code(const VaeColourRgb *k, float u)
{
    return k->black + vae_colour_round(VAE_MUL(u, (float) k->span));
}

VAE_INLINE int
vae_colour_word(float u)
{
    return vae_colour_round(VAE_MUL(u, 65535.0f));
}

VAE_INLINE int
vae_colour_code(const uint32_t *k, int shift, int r, int g, int b)
{
    const uint32_t sum =
        k[0] * (uint32_t) r + k[1] * (uint32_t) g + k[2] * (uint32_t) b + k[3];
    return (int) (sum >> shift);
}

/*
 * The weight in a chroma sample of the pixel at offset d = -1, 0 or 1 from the
 * sample's first pixel; and, below, the binary logarithm of the weights' sum.
 * sub: the direction is subsampled. on: samples are sited on the first pixel.
 */
VAE_INLINE int
vae_colour_tap(int d, int sub, bool on)
{
    return !sub ? d == 0 : on ? 2 - d * d : d >= 0;
}

VAE_INLINE int
vae_colour_tap_sum(int sub, bool on)
{
    return !sub ? 0 : on ? 2 : 1;
}

/* y: code; u, v: sixteenths of a code. rgb: three words. */
VAE_INLINE void
vae_colour_words(const VaeColourIn *k, int y, int u, int v, int *rgb)
{
    const int luma = k->ky * (y - k->black) + (1 << 12);
    rgb[0] = luma + k->rv * (v - k->zero);
    rgb[1] = luma + k->gu * (u - k->zero) + k->gv * (v - k->zero);
    rgb[2] = luma + k->bu * (u - k->zero);
    for (int i = 0; i < 3; i++) {
        const int word = rgb[i] > 0 ? rgb[i] >> 13 : 0;
        rgb[i] = word < 65535 ? word : 65535;
    }
}

VAE_INLINE float
vae_colour_mid(float low, float high)
{
    return VAE_DIV(0.0f - low, VAE_ADD(high, -low));
}

VAE_INLINE float
vae_colour_step(float low, float high)
{
    return VAE_DIV(1.0f, VAE_ADD(high, -low));
}

VAE_INLINE float
vae_colour_value(int code, float full, float mid, float step)
{
    return VAE_DIV(VAE_ADD(VAE_DIV((float) code, full), -mid), step);
}

VAE_INLINE float
vae_colour_rgb_value(const VaeColourRgb *k, int code, float mid, float step)
{
    const int v = code - k->black;
    return vae_colour_value(v < 0         ? 0
                            : v < k->span ? v
                                          : k->span,
                            (float) k->span, mid, step);
}

/*
 * The two chroma samples around position i (a row or column) of the picture, in
 * a plane of n, and the weight of the first in quarters; the second has the
 * remainder. sub, on: as for vae_colour_tap().
 */
VAE_INLINE int
vae_colour_between(int i, int n, int sub, bool on, int *a, int *b)
{
    const int j = sub ? i >> 1 : i;
    const int other = !sub ? j : i & 1 || on ? j + 1 : j - 1;
    *a = j;
    *b = other < 0 ? 0 : other < n ? other : n - 1;
    return !sub ? 4 : !on ? 3 : i & 1 ? 2 : 4;
}

static inline double
vae_colour_kr(VaeMatrix matrix)
{
    return matrix == VAE_MATRIX_BT709    ? 0.2126
           : matrix == VAE_MATRIX_BT2020 ? 0.2627
                                         : 0.299;
}

static inline double
vae_colour_kb(VaeMatrix matrix)
{
    return matrix == VAE_MATRIX_BT709    ? 0.0722
           : matrix == VAE_MATRIX_BT2020 ? 0.0593
                                         : 0.114;
}

static inline int32_t
vae_colour_fixed(double v) /* v >= 0 */
{
    return (int32_t) (v + 0.5);
}

static inline VaeColourRgb
vae_colour_rgb(int depth, bool limited)
{
    const int scale = 1 << (depth - 8);
    const VaeColourRgb full = {0, (1 << depth) - 1};
    const VaeColourRgb narrow = {16 * scale, 219 * scale};
    return limited ? narrow : full;
}

static inline VaeColourOut
vae_colour_out(VaeMatrix matrix, bool full, int depth)
{
    const double kr = vae_colour_kr(matrix), kb = vae_colour_kb(matrix);
    const int scale = 1 << (depth - 8), shift = 31 - depth;
    const double one = (1 << shift) / 65535.0, most = (1 << depth) - 1;
    const double luma = (full ? most : 219 * scale) * one;
    const double chroma = (full ? most : 224 * scale) * one / 2;
    const int32_t all = vae_colour_fixed(luma);
    const int32_t yr = vae_colour_fixed(kr * luma);
    const int32_t yb = vae_colour_fixed(kb * luma);
    const int32_t c = vae_colour_fixed(chroma);
    const int32_t ur = vae_colour_fixed(kr / (1 - kb) * chroma);
    const int32_t vb = vae_colour_fixed(kb / (1 - kr) * chroma);
    const uint32_t half = 1u << (shift - 1);
    const uint32_t black = full ? 0 : 16u << 23, zero = 128u << 23;
    const VaeColourOut k = {
        {(uint32_t) yr, (uint32_t) (all - yr - yb), (uint32_t) yb,
         black + half},
        {(uint32_t) -ur, (uint32_t) (ur - c), (uint32_t) c, zero + half},
        {(uint32_t) c, (uint32_t) (vb - c), (uint32_t) -vb, zero + half},
        shift};
    return k;
}

static inline VaeColourIn
vae_colour_in(VaeMatrix matrix, bool full, int depth)
{
    const double kr = vae_colour_kr(matrix), kb = vae_colour_kb(matrix);
    const double kg = 1 - kr - kb, one = 65535.0 * 8192.0;
    const int scale = 1 << (depth - 8), most = (1 << depth) - 1;
    const double c = one / (full ? most : 224 * scale) / 16;
    VaeColourIn k;
    k.black = full ? 0 : 16 * scale;
    k.zero = 2048 * scale;
    k.ky = vae_colour_fixed(one / (full ? most : 219 * scale));
    k.rv = vae_colour_fixed(2 * (1 - kr) * c);
    k.gu = -vae_colour_fixed(2 * (1 - kb) * kb / kg * c);
    k.gv = -vae_colour_fixed(2 * (1 - kr) * kr / kg * c);
    k.bu = vae_colour_fixed(2 * (1 - kb) * c);
    return k;
}

#endif

/*
 * half_sums.cuh: what conv.cu needs to sum the products of a step in F16.
 *
 * GeForce devices multiply F16 twice as fast if the sums are F16, too. A step
 * sums 32 products, one tap and DEEP channels. Its sums are then added in F32.
 * Longer sums in F16 would lose 1 dB for each doubling, and would save only
 * instructions that run beside the matrix units.
 *
 * The sum of a step may be too large for F16. It is then infinite, and the sum
 * in F32 stays infinite or becomes NaN. A sum that is not finite is computed
 * once more, in F32 alone. So a result depends only on its own numbers.
 */
#ifndef VAE_HALF_SUMS_CUH
#define VAE_HALF_SUMS_CUH

#include "conv.cuh"
#include "ptx/matrix.cuh"

/* P, with sums of F16. */
template <typename P> struct HalfSums : P {
    /* cppcheck-suppress duplInheritedMember */
    static const bool HALF_SUMS = true;
};

/* Adds the sums of vae_ptx_multiply_f16() to those of vae_ptx_multiply(). */
VAE_DEVICE void
add_half_sums(float *sum, const uint32_t *part)
{
    VAE_UNROLL
    for (int i = 0; i < 4; i++)
        sum[i] +=
            vae_ptx_from_f16(i % 2 ? part[i / 2] >> 16 : part[i / 2] & 0xffffu);
}

/* The sum of a tap, from channel to channel. */
VAE_DEVICE float
sum_tap(float sum, const Half *x, const Half *weight, int c_in)
{
    VAE_NO_UNROLL
    for (int c = 0; c < c_in; c += 8) {
        VaeOctet<VAE_TYPE_F16> pixel, w;
        vae_load16(pixel.word, x + c);
        vae_load16(w.word, weight + c);
        VAE_UNROLL
        for (int i = 0; i < 8; i++)
            sum = fmaf(vae_octet_get<VAE_TYPE_F16>(pixel, i),
                       vae_octet_get<VAE_TYPE_F16>(w, i), sum);
    }
    return sum;
}

/* The sum for channel n of the block at one of its pixels. */
template <typename P>
VAE_DEVICE float
sum_alone(const VaeConvMatrixArgs &a, const Place &p, int row, int column,
          int n)
{
    const int phase = P::PHASES > 1 ? n / P::SHARE : 0;
    const int c = p.n + n - phase * P::SHARE, taps = a.k * a.k;
    const Half *weight = static_cast<const Half *>(a.weight) +
                         phase * a.phase_weights +
                         (size_t) c * a.kt * taps * a.c_in;
    float sum = 0;
    row += p.y - a.pad_y + phase / 2;
    column += p.x - a.pad_x + phase % 2;
    VAE_NO_UNROLL
    for (int i = 0; i < a.kt * taps && c < a.c_out; i++) {
        const int y = row + i % taps / a.k, x = column + i % a.k;
        if (y >= 0 && y < a.h && x >= 0 && x < a.w)
            sum = sum_tap(sum,
                          input_frame(a, p.t + i / taps) +
                              ((size_t) y * a.w + x) * a.c_in,
                          weight, a.c_in);
        weight += a.c_in;
    }
    return sum;
}

/* Replaces sums that are not finite, one after another, because hardly any sum
 * is. */
template <typename P>
VAE_DEVICE void
replace_infinite(const VaeConvMatrixArgs &a, const Place &p,
                 float (*sum)[P::COLUMNS][4])
{
    const int sums = 4 * P::COLUMNS * 4, thread = (int) threadIdx.x;
    const auto at = [sum](int i) -> float & {
        return sum[i / 4 / P::COLUMNS][i / 4 % P::COLUMNS][i % 4];
    };
    float zero = 0;
    VAE_UNROLL
    for (int i = 0; i < sums; i++)
        zero = fmaf(at(i), 0, zero);
    if (zero == 0)
        return;
    VAE_NO_UNROLL
    for (int from = 0;;) {
        int found = sums;
        VAE_UNROLL
        for (int i = sums - 1; i >= 0; i--)
            found = i >= from && !(fabsf(at(i)) < INFINITY) ? i : found;
        if (found == sums)
            return;
        const int column = found / 4 % P::COLUMNS;
        const int part = found / 4 / P::COLUMNS * 2 + found % 4 / 2;
        const float again =
            sum_alone<P>(a, p, P::down(thread, part), P::across(thread, part),
                         P::channel(thread) + thread % 4 * 4 + column / 2 * 16 +
                             column % 2 * 2 + found % 2);
        VAE_UNROLL
        for (int i = 0; i < sums; i++)
            at(i) = i == found ? again : at(i);
        from = found + 1;
    }
}

#endif

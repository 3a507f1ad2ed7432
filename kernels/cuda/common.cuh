/*
 * common.cuh: eight elements at a time, and sums over lanes.
 *
 * An octet is eight neighbouring channels. Its template argument is a type or
 * VAE_ANY. With a type, the octet is whole and its address is a multiple of 16.
 * With VAE_ANY, the type is known only at run time, and the octet has up to
 * eight elements at any address. Typed octets are converted when they are read,
 * not when they are loaded, so that a thread can have several loads in flight.
 * Both kinds give the same values; moved values keep their bits.
 */
#ifndef VAE_COMMON_CUH
#define VAE_COMMON_CUH

#include "kernels.h"
#include "ptx/ptx.cuh"

static const int VAE_THREADS = 256; /* threads of a block */

/* Two blocks per multiprocessor, or one with all registers. The bound keeps
 * the assembler from spilling to run more. */
#define VAE_KERNEL VAE_GLOBAL __launch_bounds__(VAE_THREADS, 2)
#define VAE_KERNEL_LARGE VAE_GLOBAL __launch_bounds__(VAE_THREADS, 1)
static const unsigned VAE_ALL_LANES = 0xffffffffu;
static const int VAE_ANY = -1;

template <int T> struct VaeOctet {
    static const bool WIDE = T == VAE_TYPE_F32 || T == VAE_ANY;
    static const int WORDS = WIDE ? 8 : 4;
    uint32_t word[WORDS];
};

/* The number of channels of an octet from `first` on: 0 to 8. */
VAE_DEVICE int
vae_octet_valid(int first, int c)
{
    const int left = c - first;
    return left < 0 ? 0 : left < 8 ? left : 8;
}

/* Converts two results to 16-bit T, a in the low half. A NaN has the bits that
 * the device's arithmetic gives. */
template <int T>
VAE_DEVICE uint32_t
vae_pair(float a, float b)
{
    return T == VAE_TYPE_BF16 ? vae_ptx_bf16x2(a, b) : vae_ptx_f16x2(a, b);
}

/* The same bits as vae_store() writes, for values that are only moved. */
template <int T>
VAE_DEVICE uint32_t
vae_pair_moved(float a, float b)
{
    if (a == a && b == b)
        return vae_pair<T>(a, b);
    return T == VAE_TYPE_BF16 ? vae_to_bf16(a) | (uint32_t) vae_to_bf16(b) << 16
                              : vae_to_f16(a) | (uint32_t) vae_to_f16(b) << 16;
}

/* Loads elements at..at+n-1 of p, then zeros; n is 0 or 8 except for VAE_ANY.
 */
template <int T>
VAE_DEVICE void
vae_octet_load(VaeOctet<T> &o, const void *p, VaeType type, size_t at, int n)
{
    const int half = VaeOctet<T>::WORDS - 4;
    VAE_UNROLL
    for (int i = 0; i < VaeOctet<T>::WORDS; i++)
        o.word[i] =
            T == VAE_ANY && i < n ? vae_bits(vae_load(p, type, at + i)) : 0;
    if (T == VAE_ANY || !n)
        return;
    const char *x = static_cast<const char *>(p) +
                    at * (T == VAE_TYPE_F32 ? sizeof(float) : 2);
    vae_load16(o.word, x);
    if (half)
        vae_load16(o.word + half, x + 16);
}

/* Element i for computing: as vae_load() gives, except for the bits of a NaN.
 */
template <int T>
VAE_DEVICE float
vae_octet_get(const VaeOctet<T> &o, int i)
{
    if (VaeOctet<T>::WIDE)
        return vae_from_bits(o.word[i % VaeOctet<T>::WORDS]);
    const uint32_t word = o.word[i / 2];
    if (T == VAE_TYPE_BF16)
        return vae_from_bits(i % 2 ? word & 0xffff0000u : word << 16);
    return vae_ptx_from_f16(i % 2 ? word >> 16 : word & 0xffffu);
}

/* Element i with the same bits as vae_load() gives. */
template <int T>
VAE_DEVICE float
vae_octet_moved(const VaeOctet<T> &o, int i)
{
    const float v = vae_octet_get<T>(o, i);
    if (T != VAE_TYPE_F16 || v == v)
        return v;
    const uint32_t word = o.word[i / 2];
    return vae_from_f16((uint16_t) (i % 2 ? word >> 16 : word & 0xffffu));
}

/* Sets the octet from results, see vae_pair(). */
template <int T>
VAE_DEVICE void
vae_octet_set(VaeOctet<T> &o, const float *v)
{
    VAE_UNROLL
    for (int i = 0; i < VaeOctet<T>::WORDS; i++)
        o.word[i] = VaeOctet<T>::WIDE
                        ? vae_bits(v[i])
                        : vae_pair<T>(v[2 * i % 8], v[(2 * i + 1) % 8]);
}

/* Stores n elements; those from n on do not change. */
template <int T>
VAE_DEVICE void
vae_octet_store(void *p, VaeType type, size_t at, const VaeOctet<T> &o, int n)
{
    const int half = VaeOctet<T>::WORDS - 4;
    if (T == VAE_ANY) {
        VAE_UNROLL
        for (int i = 0; i < VaeOctet<T>::WORDS; i++)
            if (i < n)
                vae_store(p, type, at + i, vae_from_bits(o.word[i]));
        return;
    }
    char *y =
        static_cast<char *>(p) + at * (T == VAE_TYPE_F32 ? sizeof(float) : 2);
    if (n) {
        vae_store16(y, o.word);
        if (half)
            vae_store16(y + 16, o.word + half);
    }
}

/* Converts an octet; NaN has the same bits as with vae_store(). */
template <int X, int Y>
VAE_DEVICE void
vae_octet_convert(VaeOctet<Y> &to, const VaeOctet<X> &from)
{
    if constexpr (X == Y) {
        to = from;
    } else {
        float v[8];
        VAE_UNROLL
        for (int i = 0; i < 8; i++)
            v[i] = vae_octet_moved<X>(from, i);
        VAE_UNROLL
        for (int i = 0; i < VaeOctet<Y>::WORDS; i++)
            to.word[i] =
                VaeOctet<Y>::WIDE
                    ? vae_bits(v[i])
                    : vae_pair_moved<Y>(v[2 * i % 8], v[(2 * i + 1) % 8]);
    }
}

/* ------------------------------------------------------------ lanes */

/* The sum over groups of `lanes` (a power of two) lanes, in each lane. */
template <typename T>
VAE_DEVICE T
vae_lanes_sum(T v, int lanes)
{
    for (int i = lanes >> 1; i > 0; i >>= 1)
        v += __shfl_xor_sync(VAE_ALL_LANES, v, i);
    return v;
}

VAE_DEVICE float
vae_lanes_max(float v, int lanes)
{
    for (int i = lanes / 2; i > 0; i /= 2)
        v = fmaxf(v, __shfl_xor_sync(VAE_ALL_LANES, v, i));
    return v;
}

/* The exponents of weights count from the largest score so far. If all scores
 * are minus infinity, they count from 0, so that the weights are 0 and not NaN.
 */
VAE_DEVICE float
vae_largest_score(float most)
{
    return most == -INFINITY ? 0 : most;
}

/*
 * v * sigmoid(v) within 5 units. The rounding error of -v * log2(e) enters
 * e^-v as a first-order term, limited to 2 so that infinities do not change.
 * 2^-8 keeps the reciprocal from being flushed to zero while the result is a
 * normal number.
 */
VAE_DEVICE float
vae_silu(float v)
{
    const float high = v * -1.44269502f;
    const float rest = fmaf(v, -1.92596303e-8f, fmaf(v, -1.44269502f, -high));
    const float more = fminf(fmaf(rest, 0x1.62e430p-9f, 0x1p-8f), 0x1p-7f);
    return v * 0x1p-8f * vae_ptx_rcp(fmaf(vae_ptx_ex2(high), more, 0x1p-8f));
}

/* v * sigmoid(v) for a result of 16 bits, in half of the instructions: within
 * 2^-17 of vae_silu(), and 0 for v < -87. */
VAE_DEVICE float
vae_silu_narrow(float v)
{
    return v * vae_ptx_rcp(vae_ptx_ex2(v * -1.44269502f) + 1);
}

/* For a result of type Y or, if that is VAE_ANY, of `type`. */
template <int Y>
VAE_DEVICE float
vae_silu_for(float v, VaeType type)
{
    const bool wide = Y == VAE_ANY ? type == VAE_TYPE_F32 : Y == VAE_TYPE_F32;
    return wide ? vae_silu(v) : vae_silu_narrow(v);
}

/* -------------------------------------------------------- launching */

static inline unsigned
vae_blocks(size_t n, size_t per_block)
{
    return (unsigned) ((n + per_block - 1) / per_block);
}

/* True if rows of c elements are whole octets at multiples of 16. */
static inline bool
vae_octets_aligned(const void *p, size_t c)
{
    return (uintptr_t) p % 16 == 0 && c % 8 == 0;
}

template <int T> struct VaeTypeIs {
    static const int value = T;
};

/* Calls f(T) with the type as a constant: decltype(T)::value. */
template <typename F>
static inline void
vae_with_type(VaeType type, F f)
{
    if (type == VAE_TYPE_F32)
        f(VaeTypeIs<VAE_TYPE_F32>());
    else if (type == VAE_TYPE_F16)
        f(VaeTypeIs<VAE_TYPE_F16>());
    else
        f(VaeTypeIs<VAE_TYPE_BF16>());
}

/* Calls f(X, Y) with both types as constants. */
template <typename F>
static inline void
vae_with_types(VaeType x_type, VaeType y_type, F f)
{
    vae_with_type(x_type, [&](auto x) {
        vae_with_type(y_type, [&](auto y) { f(x, y); });
    });
}

#endif

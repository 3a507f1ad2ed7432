/*
 * vector.h: a vector of LANES floats, in the compiler's own vector types:
 * loads, stores and functions of one vector.
 */
#ifndef VAE_CPU_VECTOR_H
#define VAE_CPU_VECTOR_H

#include <stdint.h>
#include <string.h>

#include "kernels.h"

#define INLINE static inline __attribute__((always_inline))

/* The partial sums of a sum, and the vectors that hold them. */
enum { SUMS = 16, PARTS = SUMS / LANES };

#define VECTOR(size) __attribute__((vector_size(size)))
typedef float V VECTOR(4 * LANES);
typedef int32_t I VECTOR(4 * LANES);
typedef uint32_t U VECTOR(4 * LANES);
typedef uint16_t H VECTOR(2 * LANES);
typedef float Half VECTOR(2 * LANES);
typedef uint16_t Quarter VECTOR(LANES);
typedef double D VECTOR(4 * LANES);
typedef float V8 VECTOR(32);
typedef float V4 VECTOR(16);

#if LANES == 16
#define LOW 0, 1, 2, 3, 4, 5, 6, 7
#define HIGH 8, 9, 10, 11, 12, 13, 14, 15
#elif LANES == 8
#define LOW 0, 1, 2, 3
#define HIGH 4, 5, 6, 7
#else
#define LOW 0, 1
#define HIGH 2, 3
#endif

INLINE V
splat(float v)
{
    return (V){} + v;
}

INLINE V
choose(I mask, V a, V b)
{
    return (V) ((mask & (I) a) | (~mask & (I) b));
}

INLINE V
load(const void *p, VaeType type, size_t i)
{
    if (type == VAE_TYPE_F32) {
        V v;
        memcpy(&v, (const float *) p + i, sizeof v);
        return v;
    }
    H h;
    memcpy(&h, (const uint16_t *) p + i, sizeof h);
    return (V) (__builtin_convertvector(h, U) << 16);
}

INLINE void
store(void *p, VaeType type, size_t i, V v)
{
    if (type == VAE_TYPE_F32) {
        memcpy((float *) p + i, &v, sizeof v);
        return;
    }
    const U u = (U) v;
    const I nan = (I) (u & 0x7fffffffu) > 0x7f800000;
    const U even = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
    const U quiet = u >> 16 | 0x40u;
    const U bits = ((U) nan & quiet) | (~(U) nan & even);
    const H h = __builtin_convertvector(bits, H);
    memcpy((uint16_t *) p + i, &h, sizeof h);
}

/* Loads n < LANES elements and zeros. Half a vector, the remainder of common
 * numbers of channels, is loaded without a detour through memory. */
INLINE V
load_part(const void *p, VaeType type, size_t i, int n)
{
    const size_t size = type == VAE_TYPE_F32 ? 4 : 2;
    const char *from = (const char *) p + i * size;
    float buffer[LANES] = {0};
    if (n != LANES / 2) {
        memcpy(buffer, from, n * size);
        return load(buffer, type, 0);
    }
    if (type == VAE_TYPE_F32) {
        Half half;
        memcpy(&half, from, sizeof half);
        return __builtin_shufflevector(half, (Half){0}, LOW, HIGH);
    }
    Quarter quarter;
    memcpy(&quarter, from, sizeof quarter);
    const H h = __builtin_shufflevector(quarter, (Quarter){0}, LOW, HIGH);
    return (V) (__builtin_convertvector(h, U) << 16);
}

INLINE void
store_part(void *p, VaeType type, size_t i, V v, int n)
{
    const size_t size = type == VAE_TYPE_F32 ? 4 : 2;
    char *to = (char *) p + i * size;
    float buffer[LANES];
    store(buffer, type, 0, v);
    if (n == LANES / 2)
        memcpy(to, buffer, LANES / 2 * size);
    else
        memcpy(to, buffer, n * size);
}

INLINE V
load_some(const void *p, VaeType type, size_t i, int n)
{
    return n >= LANES ? load(p, type, i) : load_part(p, type, i, n);
}

INLINE void
store_some(void *p, VaeType type, size_t i, V v, int n)
{
    if (n >= LANES)
        store(p, type, i, v);
    else
        store_part(p, type, i, v, n);
}

INLINE Half
low_half(V v)
{
    return __builtin_shufflevector(v, v, LOW);
}

INLINE Half
high_half(V v)
{
    return __builtin_shufflevector(v, v, HIGH);
}

INLINE float
sum4(V4 v)
{
    return (v[0] + v[2]) + (v[1] + v[3]);
}

#if LANES > 4
INLINE float
sum8(V8 v)
{
    return sum4(__builtin_shufflevector(v, v, 0, 1, 2, 3) +
                __builtin_shufflevector(v, v, 4, 5, 6, 7));
}
#endif

/* Sum of 16 floats: i with i + 8, then i + 4, and so on. */
INLINE float
total(const V *part)
{
#if LANES == 16
    return sum8(low_half(part[0]) + high_half(part[0]));
#elif LANES == 8
    return sum8(part[0] + part[1]);
#else
    return sum4((part[0] + part[2]) + (part[1] + part[3]));
#endif
}

/*
 * e^v to about 1.5 units in the last place between -87 and 88.3; smaller v
 * give e^-87, larger inf, NaN stays. v = k ln 2 + r with |r| <= ln 2 / 2; k
 * by adding 1.5 * 2^23, ln 2 in two parts so that k times the first is
 * exact; the polynomial interpolates e^r at Chebyshev nodes, error 1.1e-8.
 */
INLINE V
exponential(V v)
{
    const V magic = splat(12582912.0f);
    v = choose(v > 89.0f, splat(89.0f), v);
    v = choose(v < -87.0f, splat(-87.0f), v);
    const V m = v * 1.44269502f + magic;
    const V k = m - magic;
    const V r = (v - k * 0.69317627f) - k * -2.90889711e-05f;
    V p = 0.0013926191f * r + 0.00836318545f;
    p = p * r + 0.0416665561f;
    p = p * r + 0.166665763f;
    p = p * r + 0.5f;
    p = p * (r * r) + r + 1.0f;
    return p * (V) (((I) m - (I) magic + 127) << 23);
}

INLINE V
activate(V v, bool silu)
{
    return silu ? v / (1.0f + exponential(-v)) : v;
}

#endif

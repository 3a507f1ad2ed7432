/*
 * number.h: single elements of every type, on the host and in CUDA.
 * 16-bit stores round to nearest even; NaN stays NaN.
 */
#ifndef VAE_NUMBER_H
#define VAE_NUMBER_H

#include <string.h>

#include "vae/types.h"
#include "inline.h"

VAE_INLINE uint32_t
vae_bits(float v)
{
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

VAE_INLINE float
vae_from_bits(uint32_t u)
{
    float v;
    memcpy(&v, &u, sizeof v);
    return v;
}

VAE_INLINE bool
vae_is_finite(float v)
{
    return (vae_bits(v) & 0x7f800000u) != 0x7f800000u;
}

VAE_INLINE float
vae_from_bf16(uint16_t h)
{
    return vae_from_bits((uint32_t) h << 16);
}

VAE_INLINE uint16_t
vae_to_bf16(float v)
{
    const uint32_t u = vae_bits(v);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t) (u >> 16 | 0x40u);
    return (uint16_t) ((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

VAE_INLINE float
vae_from_f16(uint16_t h)
{
    const uint32_t sign = (uint32_t) (h & 0x8000u) << 16;
    const uint32_t rest = h & 0x7fffu;
    if (rest >= 0x7c00u) /* inf, NaN */
        return vae_from_bits(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    if (rest >= 0x400u)
        return vae_from_bits(sign | ((rest << 13) + (112u << 23)));
    const float v = (float) rest * 0x1p-24f; /* subnormal, exact */
    return sign ? -v : v;
}

VAE_INLINE uint16_t
vae_to_f16(float v)
{
    const uint32_t u = vae_bits(v);
    const uint16_t sign = (uint16_t) (u >> 16 & 0x8000u);
    const uint32_t rest = u & 0x7fffffffu;
    if (rest > 0x7f800000u)
        return (uint16_t) (sign | 0x7e00u | (rest >> 13 & 0x1ffu));
    if (rest >= 0x477ff000u) /* 65520 and more round to inf */
        return (uint16_t) (sign | 0x7c00u);
    if (rest < 0x38800000u) { /* below 2^-14: adding 0.5 aligns the bits */
        const float sum = vae_from_bits(rest) + 0.5f;
        return (uint16_t) (sign | (vae_bits(sum) - 0x3f000000u));
    }
    const uint32_t half = 0xfffu + (rest >> 13 & 1u);
    return (uint16_t) (sign | ((rest + half - (112u << 23)) >> 13));
}

/* Element i of an array of F32, F16 or BF16. */
VAE_INLINE float
vae_load(const void *p, VaeType type, size_t i)
{
    if (type == VAE_TYPE_F32)
        return ((const float *) p)[i];
    const uint16_t h = ((const uint16_t *) p)[i];
    return type == VAE_TYPE_BF16 ? vae_from_bf16(h) : vae_from_f16(h);
}

VAE_INLINE void
vae_store(void *p, VaeType type, size_t i, float v)
{
    if (type == VAE_TYPE_F32)
        ((float *) p)[i] = v;
    else
        ((uint16_t *) p)[i] =
            type == VAE_TYPE_BF16 ? vae_to_bf16(v) : vae_to_f16(v);
}

#endif

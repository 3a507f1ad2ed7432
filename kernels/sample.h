/*
 * sample.h: samples of a posterior, the same on every host table. In CUDA log,
 * cos and exp may differ in the last bits of a double.
 */
#ifndef VAE_SAMPLE_H
#define VAE_SAMPLE_H

#include <math.h>
#include <stdint.h>

#include "inline.h"

VAE_INLINE uint64_t
vae_mix64(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Output i of the generator SplitMix64 with that initial state. */
VAE_INLINE uint64_t
vae_split_mix64(uint64_t state, uint64_t i)
{
    return vae_mix64(state + (i + 1) * 0x9e3779b97f4a7c15u);
}

/*
 * A standard normal number for each seed, latent of the sequence, channel and
 * latent pixel (c, y, x below 2^16), by Box and Muller from two outputs of
 * SplitMix64. It does not depend on the size of the picture.
 */
VAE_INLINE double
vae_normal(uint64_t seed, uint64_t latent, int c, int y, int x)
{
    const uint64_t state = vae_mix64(vae_split_mix64(seed, 0) + latent);
    const uint64_t at = (uint64_t) c << 32 | (uint64_t) y << 16 | (uint64_t) x;
    const uint64_t a = vae_split_mix64(state, 2 * at);
    const uint64_t b = vae_split_mix64(state, 2 * at + 1);
    const double u = (double) ((a >> 11) + 1) * 0x1p-53; /* 0 < u <= 1 */
    const double v = (double) (b >> 11) * 0x1p-53;
#ifdef __CUDA_ARCH__
    return sqrt(-2 * log(u)) * cospi(2 * v); /* cos() needs local memory */
#else
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
#endif
}

/* Channel c of a patch of VaeNoiseArgs, that of pixel (y, x) of y. */
VAE_INLINE float
vae_normal_in_patch(uint64_t seed, int64_t frame, int side, int c, int y, int x)
{
    const int column = c / side % side, row = c % side;
    return frame < 0
               ? 0
               : (float) vae_normal(seed, (uint64_t) frame, c / (side * side),
                                    y * side + row, x * side + column);
}

/* The channel of the logvar of channel c. The head has cx channels: n means,
 * then n logvars or one for all. */
VAE_INLINE int
vae_logvar_channel(int c, int n, int cx)
{
    return cx == n + 1 ? n : n + c;
}

/* mean + exp(logvar / 2) * normal; logvar is clamped to -30..20. */
VAE_INLINE float
vae_sample(float mean, float logvar, double normal)
{
    const double l = logvar < -30 ? -30 : logvar > 20 ? 20 : (double) logvar;
    return (float) ((double) mean + exp(l / 2) * normal);
}

#endif

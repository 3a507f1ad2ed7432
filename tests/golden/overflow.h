/*
 * overflow.h: weights whose decoder overflows in bf16 and not in fp32.
 */
#ifndef VAE_TEST_OVERFLOW_H
#define VAE_TEST_OVERFLOW_H

#include "vae-private/tensors.h"

/*
 * Writes the small Wan2.1 at `weights` to `path` with one more channel in front
 * of its decoder that nothing reads: 2^127 (1.5 + 0.498 z / OVERFLOW_Z). z is
 * the first channel of a raw latent. If z is OVERFLOW_Z, the value is finite in
 * fp32 and infinite in bf16, and 0 times it is NaN. If z is 0, the value is
 * finite in both. All its factors are numbers of bf16. The decoder's first
 * convolution carries it for two more steps.
 *
 * LTX-2: the same, with z the first channel of a normalised latent.
 */
#define OVERFLOW_Z 16

VaeStatus overflow_write(const char *weights, const char *path,
                         VaeError *error);

#endif

/*
 * odd.h: weights whose decoder has odd numbers of channels everywhere.
 */
#ifndef VAE_TEST_ODD_H
#define VAE_TEST_ODD_H

#include "vae-private/tensors.h"

/* Writes the decoder of the small taew2_1 at `weights` to `path`, each width
 * less by one. */
VaeStatus odd_write(const char *weights, const char *path, VaeError *error);

#endif

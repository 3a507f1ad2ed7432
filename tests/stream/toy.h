/*
 * toy.h: a small network with a history.
 */
#ifndef VAE_TEST_TOY_H
#define VAE_TEST_TOY_H

#include "arch.h"

/* Two frames of two pixels in each direction for a latent. A decoded frame
 * depends on the latents of the history, and on one more before it. */
extern const VaeArch toy_so_far;

#endif

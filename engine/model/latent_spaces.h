/*
 * latent_spaces.h: the statistics of latent spaces.
 */
#ifndef VAE_SPACES_H
#define VAE_SPACES_H

#include "arch.h"

/* Fills mean and std per channel: raw = normalized * std + mean. They are 0 and
 * 1 for an unknown space or another number of channels. */
void vae_space_statistics(const char *space, int channels, float *mean,
                          float *std);

/*
 * Fills info for a causal video VAE: the first latent is one frame, each later
 * one `temporal` frames; a latent pixel is spatial x spatial pixels of -1..1;
 * the network takes raw latents of z channels, in the space of the
 * architecture's name, whose mean and std are filled, too; 16 frames per
 * second.
 */
void vae_describe_causal(VaeRecognise *r, int z, int spatial, int temporal);

/* The side of the square patches of three colours that fold into so many
 * channels, up to 8; 0: there is none. */
int vae_patch_side(int channels);

#endif

/*
 * latent_spaces.h: the statistics of latent spaces.
 */
#ifndef VAE_SPACES_H
#define VAE_SPACES_H

/* Fills mean and std per channel: raw = normalized * std + mean. They are 0 and
 * 1 for an unknown space or another number of channels. */
void vae_space_statistics(const char *space, int channels, float *mean,
                          float *std);

#endif

/*
 * latent_spaces.h: the statistics of latent spaces.
 */
#ifndef VAE_SPACES_H
#define VAE_SPACES_H

/* Fills mean and std of that many channels: raw = normalized * std + mean; 0
 * and 1 for a space without such statistics, or with other channels. */
void vae_space_statistics(const char *space, int channels, float *mean,
                          float *std);

#endif

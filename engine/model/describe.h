/*
 * describe.h: parts of VaeModelInfo that several networks fill in the same way.
 */
#ifndef VAE_DESCRIBE_H
#define VAE_DESCRIBE_H

#include "arch.h"

/*
 * Fills info for a causal video VAE: the first latent is one frame, each later
 * one `temporal` frames; a latent pixel is spatial x spatial pixels of -1..1;
 * the network takes raw latents of z channels. space: a name of the table,
 * whose mean, std and frame rate are filled, too.
 */
void vae_describe_causal(VaeRecognise *r, const char *space, int z, int spatial,
                         int temporal);

/* The channels of latents: the inputs of conv_in, the decoder's first layer;
 * else half the outputs of conv_out, the encoder's last, or NULL. Fails, and
 * returns 0, if these are not 1 to VAE_MAX_LATENT_CHANNELS. */
int vae_read_latent_channels(const VaeModel *m, const char *conv_in,
                             const char *conv_out, VaeError *error);

/* The side of the square patches of three colours that fold into so many
 * channels, up to 8; 0: there is none. */
int vae_patch_side(int channels);

#endif

/*
 * ldm.h: names of the code of latent diffusion, and older ones of diffusers,
 * for the names that diffusers has now.
 */
#ifndef VAE_LDM_H
#define VAE_LDM_H

#include "arch.h"

/* Replaces the name, of at most 150 characters, in its 256 bytes. levels: of
 * the decoder, which latent diffusion numbers from the last one on. */
void vae_rename_ldm(char *name, int levels);
void vae_rename_old(char *name);

/* True if the weights of attention are [c, c], not those of convolutions. */
bool vae_ldm_is_linear(const VaeModel *m);

#endif

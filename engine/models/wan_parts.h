/*
 * wan_parts.h: what Wan2.1 and Wan2.2 share. Convolutions begin with zeros.
 */
#ifndef VAE_WAN_PARTS_H
#define VAE_WAN_PARTS_H

#include "blocks.h"
#include "arch.h"

/* Entered as name.index; keep: x is read again later. */
const VaeTensor *vae_wan_residual(VaeBuilder *b, const char *name, int index,
                                  const VaeTensor *x, int c, bool keep);
/* Residual, attention, residual. */
const VaeTensor *vae_wan_middle(VaeBuilder *b, const VaeTensor *x);
/* RMS, SiLU, causal 3x3x3 conv to c channels. */
const VaeTensor *vae_wan_head(VaeBuilder *b, const VaeTensor *x, int c);
/* (t, h, w, .) -> (t or 2t, 2h, 2w, c). The first step keeps t: it passes
 * time_conv by and leaves its memory empty. */
const VaeTensor *vae_wan_up(VaeBuilder *b, const VaeTensor *x, int c,
                            bool temporal);
/* (t, h, w, .) -> (t or t / 2, h / 2, w / 2, c). The first step keeps t: its
 * frame passes time_conv by and becomes its memory. */
const VaeTensor *vae_wan_down(VaeBuilder *b, const VaeTensor *x, int c,
                              bool temporal);

/* Swaps the beginning `from` of *rest for `to`, appended to out. */
bool vae_wan_swap(const char **rest, const char *from, const char *to,
                  char *out);
/* Diffusers' names: of what follows a block's place, appended to out, and of
 * the two convs at the top; false for others. */
void vae_wan_rename_rest(const char *rest, char *out);
bool vae_wan_rename_top(const char *name, char *out);

/* Output channels of the residual block of that name, or 0. */
int vae_wan_width(const VaeModel *m, const char *block);
/* Told by conv2 or conv1; 0 and *error where neither does. */
int vae_wan_latent_channels(const VaeModel *m, VaeError *error);

#endif

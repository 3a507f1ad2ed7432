/*
 * wan_parts.h: parts of Wan2.1, Wan2.2 and Qwen-Image-2.1. Convolutions begin
 * with zeros. flat: the weights are those of images, [c, cin, 3, 3].
 */
#ifndef VAE_WAN_PARTS_H
#define VAE_WAN_PARTS_H

#include "blocks.h"
#include "arch.h"

/* A causal convolution to c channels, 3x3x3 or flat. */
VaeConv vae_wan_conv(int c, bool flat);
/* Residual block name.index to c channels. keep: x is read again later. */
typedef struct VaeWanBlock {
    int c;
    bool flat, keep;
} VaeWanBlock;
const VaeTensor *vae_wan_residual(VaeBuilder *b, const char *name, int index,
                                  const VaeTensor *x, VaeWanBlock block);
/* Residual, attention, residual. */
const VaeTensor *vae_wan_middle(VaeBuilder *b, const VaeTensor *x, bool flat);
/* RMS, SiLU, vae_wan_conv(). */
const VaeTensor *vae_wan_head(VaeBuilder *b, const VaeTensor *x, int c,
                              bool flat);
/* (t, h, w, .) -> (t or 2t, 2h, 2w, c). The first step keeps t: it skips
 * time_conv and leaves its carry empty. */
const VaeTensor *vae_wan_up(VaeBuilder *b, const VaeTensor *x, int c,
                            bool temporal);
/* (t, h, w, .) -> (t or t / 2, h / 2, w / 2, c). The first step keeps t: its
 * frame skips time_conv and becomes its carry. */
const VaeTensor *vae_wan_down(VaeBuilder *b, const VaeTensor *x, int c,
                              bool temporal);

/* If *rest begins with `from`, skips it and appends `to` to out. */
bool vae_wan_swap(const char **rest, const char *from, const char *to,
                  char *out);
/* Appends diffusers' name for the part after a block's index to out. */
void vae_wan_rename_rest(const char *rest, char *out);
/* Diffusers' names of the two convs outside the blocks; false for others. */
bool vae_wan_rename_top(const char *name, char *out);

/* Output channels of the residual block of that name; 0 if there is none. */
int vae_wan_width(const VaeModel *m, const char *block);

#endif

/*
 * vae-private/axes.h: which axis of an array of latents has the channels. Files
 * and arrays in memory are read alike.
 */
#ifndef VAE_PRIVATE_AXES_H
#define VAE_PRIVATE_AXES_H

#include "vae-private/types.h"
#include "vae/latents.h"

#ifdef __cplusplus
extern "C" {
#endif

/* True if latents of a known space of videos have so many channels. */
bool vae_axes_video_channels(int64_t n);

/* Writes which dimension of a tensor is C, T, h and w. [C,h,w] is one latent in
 * both layouts, and T is then -1. n_dims: 3 to 5, with 5 the batch is first. */
VAE_API void vae_axes_order(int n_dims, VaeLatentLayout layout, int axes[4]);

/* What is known of the latents beside their shape. */
typedef struct VaeAxesKnown {
    int64_t channels;      /* of the model or the latent space; 0: not known */
    bool images;           /* of the same: each latent is an image */
    bool comfyui;          /* they are of a file of ComfyUI */
    VaeLatentLayout guess; /* if both orders are possible: AUTO chooses one */
} VaeAxesKnown;

/*
 * Returns the layout of [C,T,h,w] or [T,C,h,w], of 5-D with the batch first, or
 * of [C,h,w], if nothing states it. *order_guessed: the other order is also
 * possible. *may_be_last: so is [T,h,w,C], which cannot be read. *may_be_video:
 * the channels say that these are images, but there are as many as a space of
 * videos has channels.
 */
VAE_API VaeLatentLayout vae_axes_find(const int64_t *dims, int n_dims,
                                      const VaeAxesKnown *known,
                                      bool *order_guessed, bool *may_be_last,
                                      bool *may_be_video);

/* One clip, as it was read. */
typedef struct VaeAxes {
    const char *what; /* begins the sentence */
    VaeLatentLayout layout;
    /* As of vae_axes_find(). */
    bool order_guessed, may_be_last, may_be_video;
    const void *data; /* NULL: not in memory */
    VaeType type;
    int64_t dims[4], strides[4]; /* of C, T, h, w; strides in bytes */
} VaeAxes;

/*
 * Returns true, and writes a sentence for the user, if the layout is a guess.
 * That the channels are last is doubted only if the numbers are in memory and
 * do not contradict: their mean differs between channels, but hardly along
 * other axes. That these are images is doubted only if the numbers contradict.
 */
VAE_API bool vae_axes_doubt(const VaeAxes *axes, char *text, size_t size);

/* Writes "; ..." with what to do if the channels are on another axis than that
 * of this layout, or "". Returns text. */
VAE_API const char *vae_axes_advice(const int64_t *dims, int n_dims,
                                    VaeLatentLayout layout, int64_t channels,
                                    char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif

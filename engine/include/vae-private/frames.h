/*
 * vae-private/frames.h: the number of pixel formats.
 */
#ifndef VAE_PRIVATE_FRAMES_H
#define VAE_PRIVATE_FRAMES_H

#include "vae/frames.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VAE_PIXELS_KINDS (VAE_PIXELS_RGBA_F32 + 1)

#ifdef __cplusplus
}
#endif
#endif

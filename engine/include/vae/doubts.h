/*
 * vae/doubts.h: finds input that can be computed, but looks like something else
 * than what it is taken as.
 *
 * A stream itself looks at its input and passes each doubt to
 * VaeStreamParams.doubt, once in each sequence. It also doubts input whose
 * units all have one value: at the end of the sequence, which is a reset that
 * no vae_stream_cancel() came before, or the end of the stream; or after enough
 * units; and one latent of one value among others. It does not look at pictures
 * in the memory of a device. If something is not known of the network itself,
 * the stream passes this once, with the first input. It also passes once that
 * alpha is lost.
 */
#ifndef VAE_DOUBTS_H
#define VAE_DOUBTS_H

#include "vae/frames.h"
#include "vae/model.h"
#include "vae/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Returns true if a latent clearly does not have this normalization, by the
 * statistics of the model's space, or if its values are much too large or too
 * small for both. Then writes a sentence of at most size - 1 bytes to text. The
 * first latent of a video, which has other statistics, is judged as a later
 * one. `plane` is the number of elements of one of its channels.
 */
VAE_API bool vae_doubt_latent(const VaeModelInfo *info,
                              VaeNormalization normalization,
                              const VaeLatentIn *latent, size_t plane,
                              char *text, size_t size);
/* The same for the values of a picture of floats: 0 to 1, -1 to 1, 0 to 255 or
 * others, where the model takes another range. */
VAE_API bool vae_doubt_picture(const VaeModelInfo *info,
                               const VaePicture *picture, char *text,
                               size_t size);
/* The same if alpha is lost: a decoder makes it, and the picture has no place
 * for it; or a picture to encode has transparent pixels, and the encoder reads
 * no alpha. In the memory of a device, a picture with alpha counts as
 * transparent. */
VAE_API bool vae_doubt_alpha(const VaeModelInfo *info, VaeDirection direction,
                             const VaePicture *picture, char *text,
                             size_t size);

#ifdef __cplusplus
}
#endif
#endif

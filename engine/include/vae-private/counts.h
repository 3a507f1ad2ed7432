/*
 * vae-private/counts.h: the frames of the latents of a sequence.
 */
#ifndef VAE_PRIVATE_COUNTS_H
#define VAE_PRIVATE_COUNTS_H

#include <stdint.h>

/*
 * The first latent is one frame, each later one `temporal` frames. If latents
 * come in chunks of `chunk` latents (0: no chunks), the first latent of each
 * chunk is one frame.
 */
typedef struct VaeCounts {
    int temporal, chunk;
} VaeCounts;

/* The frames of the first n latents. */
static inline int64_t
vae_count_frames(VaeCounts c, int64_t n)
{
    const int64_t chunks = c.chunk ? n / c.chunk : 0;
    const int64_t rest = n - chunks * c.chunk;
    return chunks * (1 + (int64_t) (c.chunk - 1) * c.temporal) +
           (rest > 0 ? 1 + (rest - 1) * c.temporal : 0);
}

/* The number of latents that hold the first `frames` frames. */
static inline int64_t
vae_count_latents(VaeCounts c, int64_t frames)
{
    const int64_t whole = 1 + (int64_t) (c.chunk - 1) * c.temporal;
    const int64_t chunks = c.chunk ? frames / whole : 0;
    const int64_t rest = frames - chunks * whole;
    return chunks * c.chunk +
           (rest > 0 ? 1 + (rest - 1 + c.temporal - 1) / c.temporal : 0);
}

#endif

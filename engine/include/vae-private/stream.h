/*
 * vae-private/stream.h: what a stream tells its measurers and its tests.
 */
#ifndef VAE_PRIVATE_STREAM_H
#define VAE_PRIVATE_STREAM_H

#include "vae-private/frames.h"
#include "vae-private/model.h"
#include "vae/checkpoint.h"

#ifdef __cplusplus
extern "C" {
#endif

/* True when the next step is the first of a sequence. */
VAE_API bool vae_stream_at_start(const VaeStream *stream);

/* Whether a call that was begun may still run when it has returned. Where not,
 * as on a processor, it is done then. */
VAE_API bool vae_stream_overlaps(const VaeStream *stream);

/* One row per op of a program, summed over its runs since profiling began. */
typedef struct VaeProfileRow {
    const char *program; /* "first", "next", "next1", "cold" */
    const char *op;      /* "conv", "norm", ... */
    const char *name;    /* checkpoint path */
    const char *impl;    /* "ref", "brgconv:avx512_core", "omp" ... */
    uint64_t calls, ns;
    double flop, bytes; /* of one call; bytes read and written once */
} VaeProfileRow;
VAE_API void vae_stream_profile(VaeStream *stream, bool on);
/* Row i or false past the end. Rows live as long as the stream. */
VAE_API bool vae_stream_profile_row(const VaeStream *stream, size_t i,
                                    VaeProfileRow *out);

/* Allocations made by the library in this process so far: the tests assert
 * that a step adds none. */
VAE_API uint64_t vae_allocation_count(void);

/*
 * Whether the file, open, is a whole checkpoint. What it says is then in its
 * metadata, as texts: vae.direction ("decode"), vae.arch, vae.weights (the
 * fingerprint), vae.backend, vae.precision, vae.size ("832x480"), vae.latents
 * and vae.frames (as in VaeCheckpoint), vae.carries (how many it has, 0 for
 * none), and what the caller added; what does not matter there is empty.
 *
 * Errors: VAE_ERR_FORMAT (no checkpoint, or a damaged one).
 */
VAE_API VaeStatus vae_checkpoint_check(const VaeTensorFile *file,
                                       VaeError *error);

#ifdef __cplusplus
}
#endif
#endif

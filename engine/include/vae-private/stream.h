/*
 * vae-private/stream.h: properties of a stream for measurements and tests.
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

/* Ends the doubts of a sequence, as a reset and the end of the stream do. Warns
 * if all its units were of one value, unless vae_stream_cancel() cut it: a
 * video may begin with a few black frames, and a seek follow. */
VAE_API void vae_stream_judge_end(VaeStream *stream);

/* What is known of the normalization, for the doubts about it. The words stay
 * valid with the stream. */
typedef struct VaeDoubtWords {
    const char *stated; /* "the file states": who states it; NULL: nobody */
    const char *owner;  /* " of vaedecode": who has the setting; NULL: it needs
                           no other name than its own */
    bool chosen; /* by the user: what nobody knows of the network's is then no
                    doubt */
} VaeDoubtWords;
VAE_API void vae_stream_word_doubts(VaeStream *stream, VaeDoubtWords words);

/* Returns the number of ordinary steps that take as many operations as a
 * warm-up of `steps` steps, rounded up. If a warm-up has no effect, this is
 * `steps`. */
VAE_API int vae_stream_warm_up_cost(const VaeStream *stream, int steps);

/* True if vae_stream_decode_begin() may return before the work is done. On a
 * processor it is false. */
VAE_API bool vae_stream_overlaps(const VaeStream *stream);

/*
 * Pins memory of the host, so that a device can write pictures there without
 * another copy (VaePicture.pinned). It takes about as long as a copy, so it
 * pays for memory that is used again. NULL: the stream's backend has no use for
 * it, or the system refuses it. Free the pin, from any thread, before the
 * memory; no call may use the memory then.
 */
typedef struct VaePin VaePin;
VAE_API VaePin *vae_stream_pin(VaeStream *stream, void *data, size_t bytes);
VAE_API void vae_pin_free(VaePin **pin);

/*
 * Replaces the noise that a decoder of LTX-2.5 begins from. noise() writes a
 * frame of the video, of height x width x 3 numbers. NULL: the noise of the
 * seed.
 */
typedef void (*VaeNoiseFunc)(void *user, int64_t frame, int width, int height,
                             float *out);
VAE_API void vae_stream_set_noise(VaeStream *stream, VaeNoiseFunc noise,
                                  void *user);

/* The chosen setting of the ladder in words: "slices of 1, 2 frames at once, a
 * part of the carries on the host". */
VAE_API void vae_plan_setting(const VaePlan *plan, char *out, size_t size);

/* A setting of the ladder, and its plan without a memory limit. */
typedef struct VaeRungPlan {
    VaePlan plan;
    bool chosen; /* plan is that of the stream */
} VaeRungPlan;
enum { VAE_RUNGS = 32 };
/*
 * Does the same as vae_stream_plan(), and writes the rungs that these params
 * allow, the fastest first. They are those of the whole picture, unless the
 * params set a size of tiles. If nothing fits, *n_rungs is set, too; after any
 * other error it is 0.
 */
VAE_API VaeStatus vae_stream_plan_ladder(VaeModel *model,
                                         const VaeStreamParams *params,
                                         VaePlan *out,
                                         VaeRungPlan rungs[VAE_RUNGS],
                                         int *n_rungs, VaeError *error);

/* One row per op of a program, summed over its runs since profiling began. */
typedef struct VaeProfileRow {
    const char *program; /* "first", "next", "next1", "without-context" */
    const char *op;      /* "conv", "norm", ... */
    const char *name;    /* checkpoint path */
    const char *impl;    /* "ref", "brgconv:avx512_core", "omp" ... */
    uint64_t calls, ns;
    double flop, bytes; /* of one call; bytes read and written once */
} VaeProfileRow;
VAE_API void vae_stream_profile(VaeStream *stream, bool on);
/* Writes row i to *out; false if there is none. The texts of a row are valid
 * until the stream is freed. */
VAE_API bool vae_stream_profile_row(const VaeStream *stream, size_t i,
                                    VaeProfileRow *out);

/* Number of allocations by the library in this process. The tests assert that a
 * step adds none. */
VAE_API uint64_t vae_allocation_count(void);

/*
 * Checks that an open file is a complete checkpoint. Its metadata then contain,
 * as texts: vae.direction ("decode"), vae.arch, vae.weights (the fingerprint),
 * vae.backend, vae.precision, vae.size ("832x480"), vae.latents and vae.frames
 * (as in VaeCheckpoint), vae.carries (their number), and the caller's own
 * entries. An entry that does not apply is empty.
 *
 * Errors: VAE_ERR_FORMAT (not a checkpoint, or a damaged one).
 */
VAE_API VaeStatus vae_checkpoint_check(const VaeTensorFile *file,
                                       VaeError *error);

#ifdef __cplusplus
}
#endif
#endif

/*
 * vae/checkpoint.h: where a stream stands, in a file, so that another process
 * goes on from there with the same bytes.
 *
 * A checkpoint is a safetensors file. Its metadata say where the stream stands
 * and what it was made with; with carries it also holds these, which take as
 * much as VaePlan.carries says (gigabytes for a full-size model and picture).
 * Without them it takes a kilobyte, and who goes on computes as much of the
 * past again as the network looks back (vae_model_history()): for clips that
 * can be read again. Live streams want the carries.
 *
 * The file is written to PATH.tmp first, brought to the disk and renamed, so
 * that at any moment the one before or the new one is there, whole.
 */
#ifndef VAE_CHECKPOINT_H
#define VAE_CHECKPOINT_H

#include "vae/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct VaeCheckpointParams {
    size_t struct_size; /* VAE_INIT() */
    const char *path;
    bool carries;    /* when saving: in the file */
    uint64_t frames; /* when saving: that the caller has handed on, or taken */
    const VaeMetadata *own; /* of the caller, such as what it reads: loading
                               wants the same. Keys without "vae." */
    size_t n_own;
} VaeCheckpointParams;

typedef struct VaeCheckpoint {
    size_t struct_size; /* VAE_INIT() */
    uint64_t latents;   /* of the sequence that were done */
    uint64_t begin;     /* of the latent that the stream takes or gives next:
                           latents, or less without carries; what comes of
                           those before latents is to be thrown away */
    uint64_t frames;    /* as they were when it was saved */
    bool carries;
} VaeCheckpoint;

/*
 * Waits for all calls that were begun and writes where the stream stands. The
 * stream goes on as if nothing had been. The first one for a model reads all of
 * its weights, for their fingerprint.
 *
 * Errors: VAE_ERR_ARGUMENT (the sequence was broken off by an error),
 * VAE_ERR_UNSUPPORTED (carries that only the fallback for NaN holds),
 * VAE_ERR_MEMORY (the host's, for the carries), VAE_ERR_BACKEND, and those of
 * vae_tensor_file_write().
 */
VAE_API VaeStatus vae_stream_save(VaeStream *stream,
                                  const VaeCheckpointParams *params,
                                  VaeError *error);

/*
 * Puts the stream where the one stood that was saved: with carries right behind
 * its last step, otherwise so many latents earlier that from there on the bytes
 * are the same (as vae_stream_restart(), or vae_stream_reset() at 0).
 *
 * All that decides the bytes must be as it was: direction, weights (by their
 * fingerprint), architecture, backend, precision, size, normalization, of an
 * encoder posterior and seed, of the cpu backend the number of threads, of cuda
 * `deterministic`, whether there is a fallback for NaN, and params->own; the
 * slice size need not. An error other than VAE_ERR_BACKEND leaves the stream as
 * it was.
 *
 * Errors: those of vae_tensor_file_open(); VAE_ERR_FORMAT (no checkpoint, or a
 * damaged one); VAE_ERR_ARGUMENT naming what differs, what was found and what
 * was wanted; the same for a stream without params.restarts where the file
 * has no carries; VAE_ERR_MEMORY; VAE_ERR_BACKEND.
 */
VAE_API VaeStatus vae_stream_load(VaeStream *stream,
                                  const VaeCheckpointParams *params,
                                  VaeCheckpoint *out, VaeError *error);

#ifdef __cplusplus
}
#endif
#endif

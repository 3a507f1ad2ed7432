/*
 * vae/checkpoint.h: saves the position of a stream in a file, so that another
 * process can continue with the same bytes.
 *
 * A checkpoint is a safetensors file. Its metadata contain the position and the
 * settings of the stream. It can also contain the carries, with the size of
 * VaePlan.carries (gigabytes for a full-size model and picture). Live streams
 * need them. Without carries a checkpoint has a kilobyte, and the process that
 * continues first computes the receptive field again (vae_model_history()).
 * This suits clips that can be read again.
 *
 * The file is first written as PATH.tmp, flushed to the disk and then renamed.
 * At any moment either the old or the new checkpoint exists completely.
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
    bool carries;    /* saving: write the carries, too */
    uint64_t frames; /* saving: frames that the caller has written or read */
    const VaeMetadata *own; /* entries of the caller, such as its input file.
                               Loading requires the same. Keys without "vae." */
    size_t n_own;
    uint64_t before; /* saving: latents of the caller's clip before the
                        sequence, if a clip may hold several sequences */
} VaeCheckpointParams;

typedef struct VaeCheckpoint {
    size_t struct_size; /* VAE_INIT() */
    uint64_t latents;   /* latents of the sequence that were finished */
    uint64_t begin;     /* index of the latent that the stream takes or gives
                           next. It is less than latents without carries:
                           discard the output up to latents */
    uint64_t frames;    /* VaeCheckpointParams.frames when it was saved */
    bool carries;       /* the file has them */
    uint64_t before;    /* VaeCheckpointParams.before when it was saved */
} VaeCheckpoint;

/*
 * Waits for all calls and writes a checkpoint. The stream can continue
 * afterwards. The first checkpoint of a model reads all its weights, for their
 * fingerprint.
 *
 * Errors: VAE_ERR_ARGUMENT (an error broke the sequence), VAE_ERR_UNSUPPORTED
 * (only nan_policy's fallback stream has the carries), VAE_ERR_MEMORY (no host
 * memory for the carries), VAE_ERR_BACKEND, and those of writing a file.
 */
VAE_API VaeStatus vae_stream_save(VaeStream *stream,
                                  const VaeCheckpointParams *params,
                                  VaeError *error);

/*
 * Sets the stream to the position of a checkpoint. With carries this is
 * directly behind the last finished step. Without, it is as many latents
 * earlier as the network looks back, as after vae_stream_restart(), or
 * vae_stream_reset() at 0.
 *
 * These must be the same: direction, weights (by their fingerprint),
 * architecture, backend, precision, size, tiles, normalization, delay and
 * params->own; for an encoder posterior and seed; for cpu the number of
 * threads; for cuda `deterministic`; and nan_policy's fallback. The slice size
 * may differ. An error other than VAE_ERR_BACKEND does not change the stream.
 *
 * Errors: those of vae_tensor_file_open(); VAE_ERR_FORMAT (not a checkpoint, or
 * a damaged one); VAE_ERR_ARGUMENT (something differs: the message names it,
 * with both values; or the file has no carries and the stream was created
 * without params.restarts); VAE_ERR_MEMORY; VAE_ERR_BACKEND.
 */
VAE_API VaeStatus vae_stream_load(VaeStream *stream,
                                  const VaeCheckpointParams *params,
                                  VaeCheckpoint *out, VaeError *error);

#ifdef __cplusplus
}
#endif
#endif

/*
 * vae/checkpoint.h: saves the position of a stream in a file, so that another
 * process can continue with the same bytes.
 *
 * A checkpoint is a safetensors file. Its metadata contain the position and the
 * settings of the stream. It can also contain the carries: the state of the
 * network between two steps, VaePlan.carries bytes (gigabytes for a full-size
 * model and picture). Live streams need them. Without carries a checkpoint has
 * about a kilobyte. The process that continues must then first send the latents
 * or frames again that the network looks back to (vae_model_history()). This
 * suits clips that can be read again.
 *
 * The file is first written as PATH.tmp, flushed to the disk and then renamed.
 * At any moment either the old or the new checkpoint exists completely.
 *
 * With vae_stream_send_*() and vae_stream_receive_*(), save when receive has
 * returned VAE_AGAIN: no result is waiting then. Units that were sent but not
 * computed are not in the file. After loading, the stream takes unit
 * VaeCheckpoint.next of the sequence: a latent of a decoder, a frame of an
 * encoder. An encoder then gives latent VaeCheckpoint.begin, and a decoder
 * frame VaeCheckpoint.frame. If the checkpoint has no carries, begin is earlier
 * than the position that was saved, and the caller discards the frames or
 * latents that it already has.
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
    bool carries;    /* saving: write the carries, too. A stream has no carries
                        before its first step */
    uint64_t frames; /* saving: frames that the caller has written or read.
                        Loading returns this number */
    const VaeMetadata *own; /* entries of the caller, such as its input file.
                               Loading fails if the file has other values. A
                               key must not begin with "vae.", and no two
                               entries have the same key */
    size_t n_own;           /* at most 16 */
    uint64_t before;        /* saving: latents of the caller's clip before this
                               sequence, if the clip has several sequences.
                               Loading returns this number */
} VaeCheckpointParams;

typedef struct VaeCheckpoint {
    size_t struct_size; /* VAE_INIT() */
    uint64_t latents;   /* latents of the sequence that were finished */
    uint64_t begin;     /* index of the latent that the stream takes or gives
                           next. Without carries it is less than `latents`, or
                           0 */
    uint64_t frames;    /* VaeCheckpointParams.frames of the saving call */
    bool carries;       /* true: the file has the carries, or the network has
                           none */
    uint64_t before;    /* VaeCheckpointParams.before of the saving call */
    uint64_t next;      /* index of the latent, or for an encoder of the frame,
                           that the stream takes next */
    uint64_t frame;     /* index of the frame that the stream gives or takes
                           next. A decoder with a delay has not given all frames
                           of the latents before `begin` */
} VaeCheckpoint;

/*
 * Waits for all calls and writes a checkpoint. The stream can continue
 * afterwards. The first save or load of a model reads all its weights, to
 * compute their fingerprint, a checksum by which the loading stream recognises
 * them.
 *
 * Errors: VAE_ERR_ARGUMENT (the end of the sequence was sent, or an error broke
 * the sequence; results wait to be received; wrong own entries),
 * VAE_ERR_UNSUPPORTED (with nan_policy FALLBACK: the carries have values that
 * do not fit into 16 bits; a later latent, or a checkpoint without carries, may
 * succeed), VAE_ERR_MEMORY (no host memory for the carries), VAE_ERR_BACKEND,
 * VAE_ERR_WRITE, VAE_ERR_NO_SPACE.
 */
VAE_API VaeStatus vae_stream_save(VaeStream *stream,
                                  const VaeCheckpointParams *params,
                                  VaeError *error);

/*
 * Sets the stream to the position of a checkpoint. With carries this is
 * directly after the last finished step. Without carries the stream begins
 * without context, as after vae_stream_restart(), as many latents earlier as
 * the network looks back; for a decoder with a delay also
 * VaeModelInfo.look_ahead latents earlier. If that is the start of the
 * sequence, it begins as after vae_stream_reset().
 *
 * The stream that loads must equal the one that saved in these points:
 * direction, weights (by their fingerprint), architecture, backend, precision,
 * size, tiles, normalization, delay and params->own. In 16 bits, both streams
 * use VAE_NAN_FALLBACK or neither does. Encoders also have the same posterior,
 * and for samples the same seed. On cpu the number of threads must be equal; on
 * cuda, `deterministic`. The slice size may differ.
 *
 * After VAE_ERR_MEMORY or VAE_ERR_BACKEND, call vae_stream_reset(). Other
 * errors do not change the stream.
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

/*
 * vae/stream.h: one direction of one model at one size, with its carry state.
 *
 * A sequence begins after vae_stream_new() or vae_stream_reset(). Its first
 * step takes first_in and gives first_out, every later one step_in and
 * step_out (VaeModelInfo.decode, .encode). How the steps are grouped into
 * calls never changes a byte of the output.
 *
 * Threads: one stream is used by one thread at a time (any thread);
 * vae_stream_cancel() may be called from another. Different streams, also of
 * one model, are independent. With the cuda backend, each call returns with the
 * thread's CUDA context and device as they were, and disturbs no recording of
 * another stream (a CUDA graph). While vae_stream_new(), or the first call
 * after vae_stream_release(), records a program, CUDA refuses any thread that
 * waits for that whole device (cudaDeviceSynchronize()): wait for streams and
 * events instead, or set VAE_CUDA_GRAPHS=0 in the environment.
 */
#ifndef VAE_STREAM_H
#define VAE_STREAM_H

#include "vae/frames.h"
#include "vae/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct VaeStream VaeStream;

/*
 * Sees every named intermediate result right after it was computed: name is the
 * checkpoint path of the block
 * ("decoder.upsamples.3"), values are [t, h, w, c] floats valid during the
 * call. step counts runs of a program since the sequence began.
 */
typedef void (*VaeDumpFunc)(void *user, int step, const char *name, int t,
                            int h, int w, int c, const float *values);

/* Sees sentences for a debug log, without a line break, while a stream is
 * planned or made; the last one, where that works, says what was taken:
 * "decode: cuda device 0 (NVIDIA H200), bf16, 416x240, slices of 4". */
typedef void (*VaeLogFunc)(void *user, const char *line);

/*
 * What an encoder with a posterior gives: its mean, or mean + exp(logvar / 2)
 * * e with logvar taken as -30..20 and e standard normal. e depends on the
 * seed, the latent's index in the sequence, its channel and its pixel only:
 * it is the same for every backend, slice size and number of threads.
 */
typedef enum VaePosterior {
    VAE_POSTERIOR_MEAN,
    VAE_POSTERIOR_SAMPLE
} VaePosterior;

typedef struct VaeStreamParams {
    size_t struct_size; /* VAE_INIT() */
    VaeDirection direction;
    VaeBackendKind backend;
    VaePrecision precision;
    int width, height;  /* visible pixels, 1 or more; rounded up inside to a
                           multiple of VaeModelInfo.spatial by edge repeat */
    int slice_size;     /* steps run as one; 0: the largest of 4, 2 and 1 that
                           fits, and 1 from 1280x720 pixels up */
    int frames_at_once; /* 0: all of a slice, or fewer where it would not fit;
                           else 1 or more: the layers that have as many frames
                           as the video compute so many of them at once */
    int threads;        /* 0: as many as the process may use; more than four
                           times that are not taken, nor more than the
                           environment lets OpenMP have (OMP_THREAD_LIMIT) */
    int device;         /* of the cuda backend: its number, or -1: 0; the
                           others have none and do not read it. Where AUTO
                           takes another than the cuda backend for a number,
                           warn is told */
    bool deterministic;
    bool restarts; /* vae_stream_restart() may come: one program more */
    VaeNormalization normalization; /* of the latents in or out */
    VaePosterior posterior;         /* read when encoding */
    VaeSpill spill; /* of the cuda backend; the others do not read it */
    uint64_t seed;  /* of samples */
    /*
     * FALLBACK and ERROR look at the results of each slice, and so wait for it.
     * FALLBACK in 16 bits holds a second stream in fp32 ready, with weights of
     * its own (VaePlan.fallback), and keeps a copy of the carries; only steps
     * that are not finite differ from those of PASS, whatever the slice size.
     * A step whose input is not finite cannot be recovered: it passes.
     */
    VaeNanPolicy nan_policy;
    VaePixels pixels;    /* the widest kind that pictures will have: what a
                            device keeps for them; RGB_F32 (0): any */
    size_t memory_limit; /* most bytes that the plan may have; 0: what is
                            free. A stream that is made takes no more than is
                            free, either: what the machine has and the
                            process's limits leave; for cuda, what the device
                            has */
    VaeDumpFunc dump;    /* or NULL */
    void *dump_user;
    VaeLogFunc log;      /* or NULL */
    VaeLogFunc warn;     /* or NULL; gets what was asked for and is not done */
    void *log_user;      /* of both */
    double memory_share; /* without memory_limit: the part of what is free that
                            may be taken, such as 0.75; 0: 0.9, or all of it
                            where nothing smaller fits */
    /*
     * Of a decoder with VaeModelInfo.delay. low_latency: frames wait for only
     * look_ahead latents after their own, 0 or more; in place of later ones
     * stands the end of the sequence, as the network treats it. This is not
     * exact, and each step computes many times as much. Without low_latency, or
     * where look_ahead is not less than the model's, the result is exact.
     */
    bool low_latency;
    int look_ahead;
} VaeStreamParams;

/* Bytes by purpose, as they are asked for; library alone is an estimate. */
typedef struct VaePlan {
    size_t struct_size; /* VAE_INIT() */
    uint64_t weights;   /* as the backend keeps them, once per model */
    uint64_t carries;
    uint64_t spilled;  /* of the carries: in pinned memory of the host, and so
                          not in total */
    uint64_t arena;    /* activations of one slice */
    uint64_t scratch;  /* the computing library's */
    uint64_t staging;  /* pinned or conversion buffers */
    uint64_t fallback; /* the stream in fp32 that nan_policy holds ready, and a
                          copy of the carries that are not spilled; 0: none */
    uint64_t library;  /* a margin for what the computing library keeps for
                          itself: code and tables of its primitives. Taken once
                          per process for all streams alike, and kept when they
                          are freed. 0 for ref, which has none, and for cuda,
                          where it is not known */
    uint64_t total; /* of these without spilled, as long as the stream lives */
    uint64_t loading; /* at most, while weights are laid out, beside those that
                         are; given back before anything else is taken */
    uint64_t peak;    /* total, or weights, loading and library where that is
                         more */
    double flop_first, flop_step; /* of the first and of a later step */
    int slice_size;               /* chosen */
    int frames_at_once;           /* chosen; 0: all of a slice */
    VaeBackendKind backend;       /* chosen */
    VaePrecision precision;       /* chosen */
    int threads;                  /* that compute */
    int padded_width, padded_height;
    int delay; /* frames: VaeModelInfo.delay, less with low_latency; 0 of an
                  encoder */
} VaePlan;

/* What would be taken, nothing is. Errors as vae_stream_new(). */
VAE_API VaeStatus vae_stream_plan(VaeModel *model,
                                  const VaeStreamParams *params, VaePlan *out,
                                  VaeError *error);

/*
 * Plans a stream and takes all its memory; model gains a reference. AUTO takes
 * the cpu backend where a device has too little memory, and warns.
 * Errors: VAE_ERR_ARGUMENT, VAE_ERR_SIZE, VAE_ERR_MODEL (the file lacks that
 * direction), VAE_ERR_UNSUPPORTED (backend or precision; samples of a model
 * without a posterior), VAE_ERR_MEMORY
 * (names the bytes and what would fit), VAE_ERR_BACKEND.
 */
VAE_API VaeStatus vae_stream_new(VaeModel *model, const VaeStreamParams *params,
                                 VaeStream **out, VaeError *error);
VAE_API void vae_stream_free(VaeStream **stream);

/* Begins a new sequence: equal to a new stream in every byte. */
VAE_API void vae_stream_reset(VaeStream *stream);

/*
 * Goes on in the middle of a sequence without a past, as after a change of
 * the model or a lost latent: the next step takes step_in and gives step_out
 * as every later one does, but in front of it is what is there at the start of
 * a sequence. The bytes depend on nothing that ran before. latents: how many of
 * the sequence there were; samples count from there.
 * Errors: VAE_ERR_ARGUMENT (the stream was made without params.restarts).
 */
VAE_API VaeStatus vae_stream_restart(VaeStream *stream, uint64_t latents,
                                     VaeError *error);

VAE_API const VaePlan *vae_stream_get_plan(const VaeStream *stream);

/* What the maker calls that which computes: the GPU, or the processor. Lives as
 * long as the stream. */
VAE_API const char *vae_stream_get_device(const VaeStream *stream);

/*
 * For a call with `steps` steps from here: units it takes and gives. A decoder
 * with VaePlan.delay gives no frames at first, then fewer than later on.
 */
VAE_API void vae_stream_count(const VaeStream *stream, int steps, int *n_in,
                              int *n_out);

/*
 * One latent of a decoder: [C, h, w], packed, with C = VaeModelInfo's
 * latent_channels, h = padded_height / spatial and w = padded_width / spatial.
 * Arrays are passed of this and the next struct and of VaePicture: they do not
 * grow.
 */
typedef struct VaeLatentIn {
    VaeType type; /* F32, F16 or BF16 */
    const void *data;
} VaeLatentIn;

/*
 * The same of an encoder. data is written with params.normalization applied;
 * mean and logvar, where not NULL, receive C*h*w floats each as the head gives
 * them (raw, logvar not clamped; both untouched for models without a
 * posterior).
 */
typedef struct VaeLatentOut {
    VaeType type; /* F32, F16 or BF16 */
    void *data;
    float *mean, *logvar;
} VaeLatentOut;

/*
 * Decoding and encoding one unit at a time:
 *
 *     while ((status = vae_stream_receive_picture(s, &picture, &error)) !=
 *            VAE_END) {
 *         if (status == VAE_OK)
 *             use(&picture);
 *         else if (status == VAE_AGAIN)
 *             vae_stream_send_latent(s, next_latent_or_null(), &error);
 *         else
 *             break;
 *     }
 *
 * Send gives the stream a copy of one unit: the caller's memory is its own
 * again when the call returns. VAE_AGAIN: the unit was not taken, since a slice
 * waits; receive first. NULL says that the sequence ends: a decoder with a delay
 * then gives the frames that are due (vae_stream_drain()), and an encoder
 * repeats the last frame until its latents, when they are decoded, give all
 * frames again (vae_model_latents_of()).
 *
 * Receive writes one unit to the caller's memory, which stays the caller's. It
 * computes where a whole slice was sent, the first step of a sequence alone or
 * what there is at the end. VAE_AGAIN: send first. VAE_END: all was received.
 * After both nothing was written, and *error is as it was. A picture whose
 * data[0] is NULL is left out.
 *
 * The bytes are those of vae_stream_decode() and vae_stream_encode(). All units
 * of a sequence on one side are of one kind: the type, and whether there are
 * mean and logvar; of pictures all but size, data and stride. Pictures are in
 * the host's memory. Memory for the copies, as many as a slice has on either
 * side, is taken with the first units and is not in VaePlan.
 *
 * vae_stream_reset() and vae_stream_restart() begin anew; what waits is lost.
 * A checkpoint knows nothing of what waits. The functions below that count
 * units are for a stream in which nothing waits.
 *
 * Errors: VAE_ERR_ARGUMENT (the direction; another kind; sent after the end;
 * the sequence is broken), VAE_ERR_SIZE, VAE_ERR_MEMORY; nothing ran, and the
 * call may be tried again. Of receiving also VAE_ERR_CANCELLED and
 * VAE_ERR_BACKEND: the sequence is broken, reset or free.
 */
VAE_API VaeStatus vae_stream_send_latent(VaeStream *stream,
                                         const VaeLatentIn *latent,
                                         VaeError *error);
VAE_API VaeStatus vae_stream_receive_picture(VaeStream *stream,
                                             const VaePicture *picture,
                                             VaeError *error);
VAE_API VaeStatus vae_stream_send_picture(VaeStream *stream,
                                          const VaePicture *picture,
                                          VaeError *error);
VAE_API VaeStatus vae_stream_receive_latent(VaeStream *stream,
                                            const VaeLatentOut *latent,
                                            VaeError *error);

/*
 * Runs n_latents latents into n_frames pictures, both as
 * vae_stream_count() tells for some number of steps >= 1. A frame whose
 * data[0] is NULL is computed and not converted. Pictures must have the
 * stream's visible size, and are on_device only with the cuda backend. Values
 * that are not finite pass through (but a ReLU may take NaN for 0) and are
 * counted, in the latents.
 *
 * Errors: VAE_ERR_ARGUMENT (counts, on_device; nothing ran), VAE_ERR_SIZE (a
 * picture of another size; nothing ran), VAE_ERR_CANCELLED and VAE_ERR_BACKEND
 * (the sequence is broken: reset or free).
 */
VAE_API VaeStatus vae_stream_decode(VaeStream *stream,
                                    const VaeLatentIn *latents, int n_latents,
                                    const VaePicture *frames, int n_frames,
                                    VaeError *error);

/* The reverse, with the same rules; every picture must have data. */
VAE_API VaeStatus vae_stream_encode(VaeStream *stream, const VaePicture *frames,
                                    int n_frames, const VaeLatentOut *latents,
                                    int n_latents, VaeError *error);

/*
 * The end of a sequence, of a decoder with VaePlan.delay: gives the frames that
 * are due, without latents. It takes vae_stream_drain_steps() steps, in one
 * call or in several; vae_stream_drain_count() tells the frames that the next
 * `steps` of them give, which may be none. The first call ends the sequence: it
 * takes no more latents and cannot be saved. Afterwards reset or restart the
 * stream. Until then drain_steps() tells what is left; it is 0 before the first
 * latent, and always where there is no delay.
 * Errors: those of vae_stream_decode(); VAE_ERR_ARGUMENT if there are not so
 * many steps.
 */
VAE_API int vae_stream_drain_steps(const VaeStream *stream);
VAE_API void vae_stream_drain_count(const VaeStream *stream, int steps,
                                    int *n_out);
VAE_API VaeStatus vae_stream_drain(VaeStream *stream, int steps,
                                   const VaePicture *frames, int n_frames,
                                   VaeError *error);

/*
 * As vae_stream_decode() and vae_stream_encode(), but what frames (when encoding: latents) point to may be written as
 * late as in vae_stream_wait() and must stay until then; the arrays and all
 * input but pictures on_device, which stay as long, may go when the call
 * returns. A backend with a device computes one call while the next is begun;
 * the others are done when the call returns. An error of one call may be told
 * by a later one or by vae_stream_wait(); after it nothing more is written.
 */
VAE_API VaeStatus vae_stream_decode_begin(VaeStream *stream,
                                          const VaeLatentIn *latents,
                                          int n_latents,
                                          const VaePicture *frames,
                                          int n_frames, VaeError *error);
VAE_API VaeStatus vae_stream_encode_begin(VaeStream *stream,
                                          const VaePicture *frames,
                                          int n_frames,
                                          const VaeLatentOut *latents,
                                          int n_latents, VaeError *error);
/* Waits until at most `left` (0 to 7) of the last calls that were begun are
 * not done: theirs are the last `left`. vae_stream_reset() and
 * vae_stream_free() end them all, and what was not waited for may be lost. */
VAE_API VaeStatus vae_stream_wait(VaeStream *stream, int left, VaeError *error);

/*
 * Makes the call that runs or, where none does, the next one return
 * VAE_ERR_CANCELLED within one op: a cancel that falls between two calls is not
 * lost. The sequence is broken then. vae_stream_reset() and
 * vae_stream_restart() end that, also where no call has seen it. May be called
 * from any thread at any time before vae_stream_free().
 */
VAE_API void vae_stream_cancel(VaeStream *stream);

/*
 * Gives back the memory that the stream holds on a device, for whoever else
 * wants it while this one has nothing to do: waits for all calls that were
 * begun, moves the carries into the host's memory and frees the rest. Weights
 * go the same way once all streams of the model on that device have given
 * theirs back. The next call takes all again and goes on as if nothing had
 * been, byte for byte. A stream on the host keeps its memory: there is nothing
 * to do.
 *
 * Errors: VAE_ERR_MEMORY (the host has none for what is kept): nothing was
 * given back, or all but some weights, which vae_stream_is_released() tells.
 * VAE_ERR_BACKEND, also of calls that were begun.
 */
VAE_API VaeStatus vae_stream_release(VaeStream *stream, VaeError *error);
/*
 * Takes the memory again now, which the next call does otherwise. Without
 * vae_stream_release() it does nothing. Errors of both: VAE_ERR_MEMORY and
 * VAE_ERR_BACKEND; nothing ran or was lost, and a later try may work.
 */
VAE_API VaeStatus vae_stream_resume(VaeStream *stream, VaeError *error);
VAE_API bool vae_stream_is_released(const VaeStream *stream);

typedef struct VaeStreamStats {
    uint64_t runs_first, runs_next, runs_next1, runs_cold; /* programs run */
    uint64_t units_in, units_out;
    uint64_t nonfinite;       /* values in the latents, in or out */
    uint64_t nonfinite_steps; /* steps with non-finite results; 0 with PASS */
    uint64_t recovered_steps; /* those that were finite when computed in fp32 */
    uint64_t busy_ns;         /* inside decode or encode calls */
    uint64_t last_ns;         /* the last call */
    /* What came in was put where the network reads it (converted or, for a
     * device, copied there); the network; the way out. Of a device that
     * overlaps them their sum may be more than busy_ns. */
    uint64_t upload_ns, compute_ns, download_ns;
} VaeStreamStats;
/* Counts since the stream was made. Owned by the stream, whose calls change
 * them. */
VAE_API const VaeStreamStats *vae_stream_stats(const VaeStream *stream);

/* Which backends this build and machine have: true, or false and in why
 * (may be NULL) a sentence. */
VAE_API bool vae_backend_available(VaeBackendKind kind, char *why,
                                   size_t why_size);

#ifdef __cplusplus
}
#endif
#endif

/*
 * vae/stream.h: one direction of one model at one size, with its carry state.
 *
 * A sequence begins after vae_stream_new() or vae_stream_reset(). The first
 * step of a sequence takes first_in units and gives first_out units. Each later
 * step takes step_in and gives step_out (VaeModelInfo.decode, .encode). One
 * call may run several steps. The grouping never changes a byte of the output.
 *
 * Threads: only one thread at a time may use a stream, but it need not always
 * be the same thread. vae_stream_cancel() may be called from any thread.
 * Different streams are independent, also streams of one model.
 *
 * CUDA: each call restores the thread's context and device before it returns,
 * and does not disturb the recording of a CUDA graph in another stream.
 * The first calls that compute after vae_stream_new() and vae_stream_release()
 * record graphs themselves. During that time CUDA refuses any thread that waits
 * for the whole device (cudaDeviceSynchronize()). Wait for streams and events
 * instead, or set VAE_CUDA_GRAPHS=0 in the environment.
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
 * Receives each named intermediate result directly after it is computed.
 * step    runs of a program since the sequence began
 * name    checkpoint path of the block, "decoder.upsamples.3"
 * values  [t, h, w, c] floats, valid during the call
 */
typedef void (*VaeDumpFunc)(void *user, int step, const char *name, int t,
                            int h, int w, int c, const float *values);

/* Receives sentences for a log, without a line break, while a stream is planned
 * or created. If that succeeds, the last sentence is the choice: "decode: cuda
 * device 0 (NVIDIA H200), bf16, 416x240, slices of 4". */
typedef void (*VaeLogFunc)(void *user, const char *line);

/*
 * The output of an encoder with a posterior. MEAN is the mean. SAMPLE is
 * mean + exp(logvar / 2) * e, with logvar clamped to -30..20 and e standard
 * normal. e depends only on the seed, the index of the latent in the sequence,
 * the channel and the pixel. It is the same for every backend, slice size and
 * number of threads.
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
    int width, height;  /* visible pixels, 1 or more. The stream pads them to a
                           multiple of VaeModelInfo.spatial by edge repeat */
    int slice_size;     /* steps that run together. 0 selects the largest of 4,
                           2 and 1 that fits, and 1 from 1280x720 pixels up */
    int frames_at_once; /* frames that the layers at the full frame rate compute
                           together. 0 selects all of a slice, or fewer if
                           these do not fit */
    int threads;        /* 0 selects as many as the process may use. The upper
                           limits are four times that number, and
                           OMP_THREAD_LIMIT of the environment */
    int device;         /* CUDA device index; -1 selects device 0. Other
                           backends ignore it. If AUTO does not select cuda
                           although an index is set, warn is called */
    bool deterministic;
    bool restarts; /* allows vae_stream_restart(), which needs one more program
                    */
    VaeNormalization normalization; /* of the latents in or out */
    VaePosterior posterior;         /* only for encoding */
    VaeSpill spill;                 /* only for the cuda backend */
    uint64_t seed;                  /* of samples */
    /*
     * FALLBACK and ERROR check the results of each slice. The next slice is
     * computed only after that; when decoding on a device, the frames are
     * copied meanwhile. In 16 bits FALLBACK opens a second stream in fp32, with
     * weights of its own (VaePlan.fallback), and keeps a copy of the carries.
     * Its output differs from that of PASS only in steps that are not finite,
     * for every slice size. A step with non-finite input cannot be recovered;
     * its results pass. With ERROR, and with FALLBACK in 32 bits, slices have
     * one step, so that the results before the first bad one are not lost, and
     * bad steps are counted one by one.
     */
    VaeNanPolicy nan_policy;
    VaePixels pixels;    /* the widest format that pictures will have. It sets
                            the size of a device's buffers. RGB_F32 (0) allows
                            every format */
    size_t memory_limit; /* largest plan in bytes; 0 selects the free memory.
                            A plan never exceeds the free memory: that of the
                            device for cuda, otherwise that of the machine
                            within the limits of the process */
    VaeDumpFunc dump;    /* or NULL */
    void *dump_user;
    VaeLogFunc log;      /* or NULL */
    VaeLogFunc warn;     /* or NULL; receives each request that is not met */
    void *log_user;      /* of log, warn and cancelled */
    double memory_share; /* if memory_limit is 0: usable part of the free
                            memory, such as 0.75. 0 selects 0.9, or all of it
                            if nothing smaller fits */
    /*
     * Only for a decoder with VaeModelInfo.delay. With low_latency a frame
     * waits for look_ahead latents after its own, 0 or more. The end of a
     * sequence then stands in place of later latents, so the result is not
     * exact, and a step computes many times as much. The result is exact
     * without low_latency, or if look_ahead is that of the model or more.
     */
    bool low_latency;
    int look_ahead;
    int64_t resume_ms; /* most milliseconds that the first call after
                          vae_stream_release() waits while others hold the
                          device's memory; 0: it does not wait */
    int64_t strips;    /* 0: whole pictures, or strips if those do not fit; 1:
                          whole pictures; else that number of strips of rows,
                          in which the inputs of large convolutions are
                          computed */
    int64_t pictures_on_device; /* 1: pictures will be on_device, so the stream
                                   plans no buffers for others. If one comes
                                   through the host all the same, or is wider
                                   than pixels, the stream waits and takes more
                                   memory than planned */
    /*
     * One of VaeTiling. VAE_TILES_BLEND computes the picture in tiles, one
     * after another, and blends them where they overlap. Each tile is computed
     * like a whole picture, so norms and attention see only their tile. The
     * output is therefore not exact, and `warn` gets a warning. Use it for
     * pictures that fit in no other way. A slice_size is then a maximum:
     * smaller slices, which are exact, come before tiles; `warn` tells it. It
     * does not work with VAE_NAN_FALLBACK, with a decoder that has a
     * VaeModelInfo.delay, or with pictures in device memory.
     */
    int64_t tiles;
    /* The size of a tile in pixels, a multiple of VaeModelInfo.spatial. If one
     * side is 0, tiles are square. If both are 0, there are tiles only if
     * nothing else fits, and they are as large as possible. Otherwise there are
     * always tiles, unless the picture is no larger than one. tile_overlap: 0
     * selects the overlap of the network's official pipeline, 1/4 or 1/8 of the
     * shorter side of a tile; -1 selects none. It is at most half a tile. */
    int64_t tile_width, tile_height, tile_overlap;
    /* Or NULL. A plan, a new stream and one that allocates its memory again ask
     * it before each op that they prepare. If it returns true, the call ends
     * with VAE_ERR_CANCELLED. It may run on another thread than the call. */
    bool (*cancelled)(void *user);
} VaeStreamParams;

/* Bytes by purpose, exactly as allocated. Only library is an estimate. */
typedef struct VaePlan {
    size_t struct_size; /* VAE_INIT() */
    uint64_t weights;   /* in the backend's layout, once per model */
    uint64_t carries;
    uint64_t spilled;  /* part of carries in pinned host memory; not in total */
    uint64_t arena;    /* activations of one slice */
    uint64_t scratch;  /* working memory of the computing library */
    uint64_t staging;  /* pinned or conversion buffers */
    uint64_t fallback; /* nan_policy's stream in fp32, and a copy of the
                          carries that are not spilled; low_latency needs
                          one more; or 0 */
    uint64_t library;  /* margin for the code and tables that the computing
                          library allocates itself, once per process. It keeps
                          them when streams are freed. 0 for ref, which needs
                          none, and for cuda, where the size is not known */
    uint64_t total;    /* sum of the above without spilled, held until the
                          stream is freed */
    uint64_t loading;  /* most that conversion of weights needs beside them;
                          freed before the rest is allocated */
    uint64_t peak;     /* the larger of total and weights + loading + library */
    double flop_first, flop_step; /* of the first and of a later step */
    int slice_size;               /* chosen */
    int frames_at_once;           /* chosen; 0: all of a slice */
    VaeBackendKind backend;       /* chosen */
    VaePrecision precision;       /* chosen */
    int threads;                  /* that compute */
    int padded_width, padded_height;
    int delay; /* frames: VaeModelInfo.delay, less with low_latency; 0 of an
                  encoder */
    /* Carries that a later step copies, in bytes: within the memory of the
     * backend, and to and from the host's memory if they are spilled. */
    uint64_t copied_step, bus_step;
    int strips; /* chosen; 0: whole pictures */
    /* The chosen tiles of a picture, or 0 without tiles. With tiles, the other
     * bytes of the plan are those of the largest tile. */
    int tiles, tile_width, tile_height, tile_overlap;
    uint64_t tiled; /* carries and results of all tiles, in host memory; part of
                       total only if there is no device */
} VaePlan;

/* Plans a stream without allocating its memory. Errors as vae_stream_new(). */
VAE_API VaeStatus vae_stream_plan(VaeModel *model,
                                  const VaeStreamParams *params, VaePlan *out,
                                  VaeError *error);

/*
 * Plans a stream and allocates all its memory. The stream holds a reference to
 * model. If a device has too little memory, AUTO selects the cpu backend and
 * warns.
 *
 * Errors: VAE_ERR_ARGUMENT, VAE_ERR_SIZE, VAE_ERR_MODEL (the file has no such
 * direction), VAE_ERR_UNSUPPORTED (the backend or precision; samples of a model
 * without a posterior), VAE_ERR_MEMORY (with the bytes, and settings that would
 * fit), VAE_ERR_BACKEND, VAE_ERR_CANCELLED.
 */
VAE_API VaeStatus vae_stream_new(VaeModel *model, const VaeStreamParams *params,
                                 VaeStream **out, VaeError *error);
VAE_API void vae_stream_free(VaeStream **stream);

/* Begins a new sequence. The output equals that of a new stream. A stream that
 * was refused memory, and therefore took a smaller setting, chooses its setting
 * again if there is more memory now. */
VAE_API void vae_stream_reset(VaeStream *stream);

/*
 * Continues a sequence without context, for example after a change of the model
 * or a lost latent. The next step takes step_in and gives step_out, like every
 * later step, but its context is that of the start of a sequence. The bytes do
 * not depend on earlier steps.
 *
 * latents  latents of the sequence before this step; samples count from there
 *
 * Errors: VAE_ERR_ARGUMENT (the stream was created without params.restarts).
 */
VAE_API VaeStatus vae_stream_restart(VaeStream *stream, uint64_t latents,
                                     VaeError *error);

VAE_API const VaePlan *vae_stream_get_plan(const VaeStream *stream);

/* The maker's name of the GPU or the processor. Owned by the stream. */
VAE_API const char *vae_stream_get_device(const VaeStream *stream);

/*
 * Units that the next call takes and gives if it runs `steps` steps. A decoder
 * with VaePlan.delay gives no frames at first, then fewer than later.
 */
VAE_API void vae_stream_count(const VaeStream *stream, int steps, int *n_in,
                              int *n_out);

/*
 * One latent of a decoder: [C, h, w], packed. C is
 * VaeModelInfo.latent_channels, h is padded_height / spatial and w is
 * padded_width / spatial. This struct, VaeLatentOut and VaePicture never grow,
 * because callers pass arrays of them.
 */
typedef struct VaeLatentIn {
    VaeType type; /* F32, F16 or BF16 */
    const void *data;
} VaeLatentIn;

/*
 * One latent of an encoder, of the same shape. data receives the latent with
 * params.normalization applied. mean and logvar may be NULL; otherwise each
 * receives C*h*w floats as the network's head gives them: raw, logvar not
 * clamped. Models without a posterior do not write them.
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
 * Send copies one unit into the stream. VAE_AGAIN means that a slice is waiting
 * and the unit was not taken: receive first. NULL ends the sequence. A decoder
 * with a delay then gives the frames that are due (vae_stream_drain()). An
 * encoder repeats the last frame until its latents decode to at least as many
 * frames as were sent (vae_model_latents_of()).
 *
 * Receive writes one unit to the caller's memory. It computes as soon as a
 * whole slice was sent, or the first step of a sequence, or the rest at the
 * end. VAE_AGAIN means: send first. VAE_END means: everything was received.
 * Neither writes a unit or *error. A picture whose data[0] is NULL is skipped.
 *
 * The bytes equal those of vae_stream_decode() and vae_stream_encode(). On each
 * side, all units of a sequence have the same type, and either all or none have
 * mean and logvar. All pictures have the same members except data and stride,
 * and are in host memory. The first units allocate the copies, one slice on
 * each side; they are not part of VaePlan.
 *
 * vae_stream_reset() and vae_stream_restart() discard units that are waiting. A
 * checkpoint does not include them. Call the functions below, which count
 * units, only if no unit is waiting.
 *
 * Errors: VAE_ERR_ARGUMENT (the wrong direction, another type, a unit after the
 * end, a broken sequence), VAE_ERR_SIZE, VAE_ERR_MEMORY. Nothing ran, and the
 * call may be repeated. Receiving also returns VAE_ERR_CANCELLED and
 * VAE_ERR_BACKEND; these break the sequence: reset or free the stream.
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
 * Decodes n_latents latents into n_frames pictures. Both numbers are those that
 * vae_stream_count() gives for one step or more. A picture whose data[0] is
 * NULL is computed but not converted. Pictures have the visible size of the
 * stream, and may be on_device only with the cuda backend. Non-finite values
 * pass through, except that a ReLU may turn NaN into 0. The statistics count
 * those in the latents.
 *
 * Errors: VAE_ERR_ARGUMENT (wrong counts or on_device; nothing ran),
 * VAE_ERR_SIZE (a picture of another size; nothing ran), VAE_ERR_CANCELLED and
 * VAE_ERR_BACKEND (the sequence is broken: reset or free the stream).
 */
VAE_API VaeStatus vae_stream_decode(VaeStream *stream,
                                    const VaeLatentIn *latents, int n_latents,
                                    const VaePicture *frames, int n_frames,
                                    VaeError *error);

/* Encodes, with the same rules. Every picture must have data. */
VAE_API VaeStatus vae_stream_encode(VaeStream *stream, const VaePicture *frames,
                                    int n_frames, const VaeLatentOut *latents,
                                    int n_latents, VaeError *error);

/*
 * Ends the sequence of a decoder with VaePlan.delay: gives the frames that are
 * due, without latents. This takes vae_stream_drain_steps() steps, in one call
 * or several. vae_stream_drain_count() gives the number of frames of the next
 * `steps` steps, which may be 0. After the first call the sequence takes no
 * more latents and cannot be saved. Reset or restart the stream after the last
 * step.
 *
 * vae_stream_drain_steps() is the number of steps that remain. It is 0 before
 * the first latent, and without a delay.
 *
 * Errors: those of vae_stream_decode(); VAE_ERR_ARGUMENT if fewer steps remain.
 */
VAE_API int vae_stream_drain_steps(const VaeStream *stream);
VAE_API void vae_stream_drain_count(const VaeStream *stream, int steps,
                                    int *n_out);
VAE_API VaeStatus vae_stream_drain(VaeStream *stream, int steps,
                                   const VaePicture *frames, int n_frames,
                                   VaeError *error);

/*
 * These begin to decode or encode. The output that the array points to may be
 * written as late as in vae_stream_wait(), so it must stay valid until then.
 * Input pictures on_device must stay valid as long, too. The arrays and all
 * other input may be freed when the call returns.
 *
 * A backend with a device computes one call while the next one begins. Other
 * backends finish before the call returns. A later call or vae_stream_wait()
 * may return the error of an earlier call. Nothing is written after an error.
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
/* Blocks until at most `pending` (0 to 7) calls are still running. Calls finish
 * in order. vae_stream_reset() and vae_stream_free() end all calls; their
 * output may be incomplete. */
VAE_API VaeStatus vae_stream_wait(VaeStream *stream, int pending,
                                  VaeError *error);

/*
 * Cancels the running call, or the next one if none is running. That call
 * returns VAE_ERR_CANCELLED within one op, and the sequence is broken.
 * vae_stream_reset() and vae_stream_restart() also end a cancel that no call
 * has seen yet. May be called from any thread before vae_stream_free().
 */
VAE_API void vae_stream_cancel(VaeStream *stream);

/*
 * Frees the device memory of a stream that is idle, so that others can use it.
 * Waits for all calls, copies the carries to host memory and frees the rest.
 * When the last stream of the model on the device is released, its weights are
 * copied and freed, too. The next call allocates everything again and continues
 * with the same bytes. A stream on the host keeps its memory.
 *
 * Errors: VAE_ERR_MEMORY (no host memory for the copies; nothing was freed, or
 * all but some weights, see vae_stream_is_released()), VAE_ERR_BACKEND (also
 * that of an earlier call).
 */
VAE_API VaeStatus vae_stream_release(VaeStream *stream, VaeError *error);
/*
 * Allocates the memory of a released stream now, instead of in the next call.
 * Does nothing if the stream is not released. If memory is refused, the stream
 * continues with smaller slices, fewer frames at once or spilled carries, as
 * the params allow. The bytes stay the same, and VaePlan has the new setting.
 * If none is left, the call waits for at most resume_ms.
 * Errors: VAE_ERR_MEMORY and VAE_ERR_BACKEND, also of the next call. Nothing
 * ran and nothing is lost; a later try may succeed. VAE_ERR_CANCELLED: the wait
 * was cancelled, and the sequence is broken.
 */
VAE_API VaeStatus vae_stream_resume(VaeStream *stream, VaeError *error);
VAE_API bool vae_stream_is_released(const VaeStream *stream);

typedef struct VaeStreamStats {
    uint64_t runs_first, runs_next, runs_next1, runs_cold; /* programs run */
    uint64_t units_in, units_out;
    uint64_t nonfinite;       /* values in the latents, in or out */
    uint64_t nonfinite_steps; /* steps with non-finite results; 0 with PASS */
    uint64_t recovered_steps; /* of these, finite when computed in fp32 */
    uint64_t busy_ns;         /* inside decode or encode calls */
    uint64_t last_ns;         /* the last call */
    /* Conversion or upload of the input, the network, and download of the
     * output. A device overlaps them, so that their sum may exceed busy_ns. */
    uint64_t upload_ns, compute_ns, download_ns;
} VaeStreamStats;
/* Counts since the stream was created. Owned by the stream, which updates them
 * in its calls. */
VAE_API const VaeStreamStats *vae_stream_stats(const VaeStream *stream);

/* Returns true if this build and machine have the backend. Otherwise returns
 * false and writes the reason to why, a sentence; why may be NULL. */
VAE_API bool vae_backend_available(VaeBackendKind kind, char *why,
                                   size_t why_size);

#ifdef __cplusplus
}
#endif
#endif

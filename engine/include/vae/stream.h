/*
 * vae/stream.h: a decoder or an encoder of one model, for one picture size.
 *
 * A unit is one latent or one picture. A sequence begins after vae_stream_new()
 * or vae_stream_reset(). The first step of a sequence takes first_in units and
 * gives first_out units. Each later step takes step_in and gives step_out
 * (VaeModelInfo.decode, .encode). One call may run several steps. Their number
 * never changes a byte of the output. A slice is the steps that the stream
 * computes together. A carry is a part of the state between two steps: the last
 * frames that a convolution over time has read. The context of a step is the
 * part of earlier steps that its results depend on. An op is one operation of
 * the network, such as a convolution or a norm.
 *
 * Threads: only one thread at a time may use a stream, but it need not always
 * be the same thread. vae_stream_cancel() may be called from any thread.
 * Different streams are independent, also streams of one model.
 *
 * CUDA: each call restores the thread's context and device before it returns,
 * and does not disturb the recording of a CUDA graph in another CUDA stream.
 * The first calls that compute after vae_stream_new() and vae_stream_release()
 * record graphs themselves. During that time cudaDeviceSynchronize() fails in
 * all threads. Wait for CUDA streams and events instead, or set
 * VAE_CUDA_GRAPHS=0 in the environment.
 */
#ifndef VAE_STREAM_H
#define VAE_STREAM_H

#include "vae/frames.h"
#include "vae/latents.h"
#include "vae/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct VaeStream VaeStream;

/*
 * A named intermediate result.
 * step    number of earlier runs of this sequence. A run computes the first
 *         step, a slice or a single step
 * name    name of the block in the weights, "decoder.upsamples.3", or of the op
 * values  [t, h, w, c] floats
 */
typedef struct VaeDump {
    int step;
    const char *name;
    int t, h, w, c;
    const float *values;
} VaeDump;

/* Receives each intermediate result directly after it is computed. A thread of
 * the library may call it. What dump points to is valid during the call. */
typedef void (*VaeDumpFunc)(void *user, const VaeDump *dump);

/* Receives sentences for a log, without a line break. A stream calls it while
 * it is planned or created, and when it allocates its memory again. A thread of
 * the library may call it. After a success the last sentence tells the choice:
 * "decode: cuda device 0 (NVIDIA H200), bf16, 416x240, slices of 4". */
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
    int width, height;  /* visible pixels, 1 to 65535. The network computes the
                           next multiples of VaeModelInfo.spatial, and a latent
                           has these divided by spatial. An encoder repeats the
                           edge of the picture */
    int slice_size;     /* steps that run together, at most 4096. 0 selects the
                           largest of 4, 2 and 1 that fits, and 1 for 1280x720
                           pixels or more */
    int frames_at_once; /* frames that the layers at the full frame rate compute
                           together. 0 selects all of a slice, or fewer if
                           these do not fit */
    int threads;        /* at most 1024. 0 selects one for each logical
                           processor that the process may use. The stream uses
                           at most four for each logical processor (8 for a
                           single one), and at most OMP_THREAD_LIMIT of the
                           environment */
    int device;         /* CUDA device index; -1 selects device 0. Other
                           backends ignore it. If it is more than 0 and AUTO
                           selects another backend, warn is called */
    bool deterministic; /* algorithms are chosen without timing */
    bool restarts;      /* allows vae_stream_restart(), and loading a checkpoint
                           without carries */
    VaeNormalization normalization; /* of the latents in or out */
    VaePosterior posterior; /* only for encoding; a decoder ignores it */
    VaeSpill spill;         /* other backends than cuda ignore it */
    uint64_t seed;          /* of samples, and of noise in a decoder */
    /*
     * FALLBACK and ERROR check the results of each slice before they compute
     * the next one. When decoding on a device, the frames are copied during the
     * check.
     *
     * In 16 bits FALLBACK opens a second stream in fp32 with its own weights
     * (VaePlan.fallback), and keeps a copy of the carries. The output differs
     * from that of PASS only in non-finite steps, for every slice size. A
     * step with non-finite input cannot be recovered; its results pass.
     *
     * With ERROR, and with FALLBACK in 32 bits, a slice has one step. The
     * results before the first non-finite one are therefore not lost, and
     * non-finite steps are counted one by one.
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
    void *log_user;      /* passed to log, warn and cancelled */
    double memory_share; /* if memory_limit is 0: usable part of the free
                            memory, such as 0.75. 0 selects 0.9, or 1 if not
                            even the smallest plan fits in 0.9 */
    /*
     * Only for a decoder with VaeModelInfo.delay; other streams ignore both.
     * With low_latency a frame waits for only look_ahead later latents, 0 or
     * more. It is then computed as if the sequence ended there. It is exact
     * only if look_ahead is at least that of the model. A step computes many
     * times as much. Without low_latency, look_ahead is ignored.
     */
    bool low_latency;
    int look_ahead;
    int64_t resume_ms; /* most milliseconds that the first call after
                          vae_stream_release() waits while others hold the
                          device's memory; 0: it does not wait */
    int64_t strips;    /* the inputs of large convolutions are computed in this
                          number of strips of rows, at most 1000; 1: whole
                          pictures; 0: strips only if whole pictures do not
                          fit */
    int64_t pictures_on_device; /* 1: pictures will be on_device, so the stream
                                   plans no buffers for others. If a picture is
                                   nevertheless in host memory, or has a wider
                                   format than pixels, the stream waits and
                                   allocates more memory than planned */
    /*
     * One of VaeTiling. VAE_TILES_BLEND is for pictures that fit in no other
     * way. It computes the picture in tiles, one after another, and blends them
     * where they overlap. Each tile is computed like a whole picture, so norms
     * and attention see only their tile. The output is therefore not exact, and
     * `warn` says so.
     *
     * If the size of tiles is 0, slice_size is a maximum. The stream tries
     * smaller slices, which are exact, before tiles, and `warn` says so.
     *
     * Tiles do not work with VAE_NAN_FALLBACK, with a decoder that has a
     * VaeModelInfo.delay, or with pictures in device memory.
     */
    int64_t tiles;
    /*
     * The size of a tile in pixels, a multiple of VaeModelInfo.spatial. If both
     * are 0, tiles are used only if nothing else fits, and they are as large as
     * possible. Otherwise tiles are always used, unless the picture fits into
     * one. If one of the two is 0, tiles are square.
     *
     * tile_overlap is at most half a tile. 0 selects the overlap of the
     * network's official pipeline, 1/4 or 1/8 of the shorter side of a tile. -1
     * selects none.
     *
     * With VAE_TILES_OFF, the stream ignores all three.
     */
    int64_t tile_width, tile_height, tile_overlap;
    /* Or NULL. Planning calls it for each program that it tries, also while it
     * looks for settings that would fit. Preparing calls it before each op, and
     * allocating host memory before every 64 MiB. This happens in
     * vae_stream_plan(), in vae_stream_new() and when a released stream
     * allocates its memory. If it returns true, the call ends with
     * VAE_ERR_CANCELLED. Another thread than the caller's may call it. */
    bool (*cancelled)(void *user);
    VaeLogFunc doubt; /* or NULL; receives each doubt about the input, see
                         vae/doubts.h, with log_user. Called by the thread that
                         sends the input */
    /* These change only the words of doubts. */
    float picture_low, picture_high; /* black and white of float pictures before
                                        the caller converted them to the range
                                        of the network, and can be set as
                                        pixel-range; both 0: neither */
    /* Latents whose keys and values an attention reads in a network with a
     * history (VAE_FROM_START), with the latent itself: 0 all of the sequence,
     * 1 only the latent itself. Each number gives other results; other networks
     * ignore it. All of the sequence take memory that grows with each latent.
     * If it does not fit into the limit, the call fails with VAE_ERR_MEMORY,
     * and results of earlier calls are complete. */
    int64_t history;
    /* One of VaeTilePlan; models without VaeModelInfo.in_tiles ignore it. */
    int64_t tile_plan;
} VaeStreamParams;

/* Bytes by purpose, exactly as allocated. Only library and ops are estimates.
 */
typedef struct VaePlan {
    size_t struct_size; /* VAE_INIT() */
    uint64_t weights;   /* in the backend's layout, once per model */
    uint64_t carries;
    uint64_t spilled;  /* part of carries in pinned host memory; not in total */
    uint64_t arena;    /* intermediate results of one slice */
    uint64_t scratch;  /* working memory of the computing library */
    uint64_t staging;  /* buffers for copies from and to the host, and for
                          conversions */
    uint64_t fallback; /* the fp32 stream of VAE_NAN_FALLBACK, and a copy of the
                          carries that are not spilled. low_latency needs
                          another copy. Otherwise 0 */
    uint64_t library;  /* estimate for the code and tables that the computing
                          library itself allocates, once per process. They stay
                          when streams are freed. 0 for ref, which needs none,
                          and for cuda, whose size is not known */
    uint64_t total;    /* sum of the members above except spilled, and of tiled
                          and ops if there is no device; allocated until the
                          stream is freed */
    uint64_t loading;  /* working memory for the conversion of weights; freed
                          before the rest is allocated */
    uint64_t peak;     /* the larger of total and weights + loading + library,
                          and ops if there is no device */
    double flop_first, flop_step; /* of the first and of a later step */
    int slice_size;               /* the chosen one */
    int frames_at_once;           /* the chosen number; 0: all of a slice */
    VaeBackendKind backend;       /* the chosen one */
    VaePrecision precision;       /* the chosen one */
    int threads;                  /* number of computing threads */
    int padded_width, padded_height;
    int delay; /* of a decoder, in frames: VaeModelInfo.delay, or less with
                  low_latency. Of an encoder, in latents: with
                  VaeModelInfo.in_tiles those that a tile has after its first
                  one, otherwise 0 */
    /* Bytes of carries that a later step copies: copied_step within the memory
     * of the backend, bus_step to and from host memory (spilled carries). */
    uint64_t copied_step, bus_step;
    int strips; /* the chosen number; 0: whole pictures */
    /* The number of tiles of a picture, their size and overlap; 0 without
     * tiles. With tiles, all other bytes of the plan except tiled are those of
     * the largest tile. */
    int tiles, tile_width, tile_height, tile_overlap;
    uint64_t tiled;     /* carries and results of all tiles, in host memory */
    const char *device; /* the maker's name of the GPU or the processor, which
                           the stream owns. vae_stream_plan() sets NULL */
    uint64_t ops; /* estimate for the lists of operations, in host memory. They
                     are long with many strips and few frames at once */
    int whole;    /* large layers that are not computed in strips, although the
                     setting has strips. The computing library would give them
                     other bytes in strips, or cannot compute them */
    /* The history of a latent, and that of VAE_PLANNED_LATENTS, or fewer by
     * VaeStreamParams.history, which is a part of total. 0: there is none. In
     * tiles of latents, `history` has the keys and values of a tile, and
     * history_latent is 0. If a device may spill the history, `history` also
     * has the two buffers through which it reads what is spilled. If all is
     * spilled, it has only these, and history_spilled, in pinned host memory,
     * has the latents. */
    uint64_t history_latent, history, history_spilled;
} VaePlan;

#define VAE_PLANNED_LATENTS 32

/* Plans a stream without allocating its memory. *out begins as
 * VAE_INIT(VaePlan). Errors: those of vae_stream_new(). */
VAE_API VaeStatus vae_stream_plan(VaeModel *model,
                                  const VaeStreamParams *params, VaePlan *out,
                                  VaeError *error);

/*
 * Plans a stream and allocates all its memory. The stream holds a reference to
 * model. If a device has too little memory, AUTO selects the cpu backend and
 * warns. *out is NULL after an error.
 *
 * Errors: VAE_ERR_ARGUMENT, VAE_ERR_SIZE, VAE_ERR_MODEL (the file has no such
 * direction), VAE_ERR_UNSUPPORTED (the backend or precision; samples of a model
 * without a posterior), VAE_ERR_MEMORY (with the bytes, and settings that would
 * fit), VAE_ERR_BACKEND, VAE_ERR_CANCELLED.
 */
VAE_API VaeStatus vae_stream_new(VaeModel *model, const VaeStreamParams *params,
                                 VaeStream **out, VaeError *error);
/* Ends all calls, frees the stream and sets *stream to NULL. *stream may be
 * NULL. */
VAE_API void vae_stream_free(VaeStream **stream);

/* Begins a new sequence. The output equals that of a new stream. If a device
 * refused memory earlier and the stream continued with a smaller setting, it
 * returns to a larger one if there is more memory now. */
VAE_API void vae_stream_reset(VaeStream *stream);

/*
 * Continues a sequence without context, for example after a change of the model
 * or a lost latent. The next step takes step_in and gives step_out, like every
 * later step, but its context is that of the start of a sequence. The bytes do
 * not depend on earlier steps.
 *
 * latents  number of latents of the sequence before this step. The samples of
 *          VAE_POSTERIOR_SAMPLE depend on it
 *
 * Errors: VAE_ERR_ARGUMENT (the stream was created without params.restarts);
 * the error of an earlier call, which breaks the sequence.
 */
VAE_API VaeStatus vae_stream_restart(VaeStream *stream, uint64_t latents,
                                     VaeError *error);

/*
 * Tells the stream that you will discard the results of the next `steps` steps,
 * which only give context to later ones. The backends cpu and ref then compute
 * only what later results depend on, and do not write the results of these
 * steps. Call it after vae_stream_restart(). A reset or another restart ends
 * it. It has no effect with cuda, with tiles, or with a nan_policy that checks
 * results.
 */
VAE_API void vae_stream_warm_up(VaeStream *stream, int steps);

/* Returns the plan of the stream. The stream owns it. vae_stream_reset() and
 * vae_stream_resume() may change it. */
VAE_API const VaePlan *vae_stream_get_plan(const VaeStream *stream);

/*
 * Writes the numbers of units that the next call takes (*n_in) and gives
 * (*n_out) if it runs `steps` steps (0 to 2^24), of which one may be the first
 * of a sequence. It does not count units that wait in the stream. A stream with
 * VaePlan.delay gives no results at first. Its first call with results may give
 * fewer than later calls.
 */
VAE_API void vae_stream_count(const VaeStream *stream, int steps, int *n_in,
                              int *n_out);

/*
 * One latent of a decoder: [C, h, w], packed. C is
 * VaeModelInfo.latent_channels, h is padded_height / spatial and w is
 * padded_width / spatial. The library reads C*h*w elements of data: it cannot
 * check the size of your memory. data is aligned to its type. This struct,
 * VaeLatentOut and VaePicture never grow, because callers pass arrays of them.
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
 *             status = vae_stream_send_latent(s, next_or_null(), &error);
 *         if (status != VAE_OK)
 *             break;
 *     }
 *
 * Send copies one unit into the stream. VAE_AGAIN: the stream has a whole slice
 * and did not take the unit; receive first. NULL ends the sequence. A stream
 * with a delay then gives the remaining results (vae_stream_drain()). An
 * encoder repeats the last frame until its latents decode to at least as many
 * frames as the sequence has (vae_model_latents_of()), also after a checkpoint.
 * After vae_stream_restart() it only completes the last step.
 *
 * Receive writes one unit to the caller's memory. It computes as soon as the
 * first step of a sequence, a whole slice, or the rest of an ended sequence was
 * sent. VAE_AGAIN: send first. VAE_END: everything was received. With these
 * two, receive writes neither a unit nor *error. A picture whose data[0] is
 * NULL is received, but not written.
 *
 * The bytes equal those of vae_stream_decode() and vae_stream_encode(). All
 * latents of a sequence have the same type, and either all or none have mean
 * and logvar. All pictures have the same members except data and stride, and
 * are in host memory. With the first units the stream allocates memory for
 * copies of one slice of latents and of one slice of pictures, in addition to
 * VaePlan.
 *
 * vae_stream_reset() and vae_stream_restart() discard units that are waiting in
 * the stream. A checkpoint does not include them. While a unit is waiting, the
 * functions below, which process whole steps, return VAE_ERR_ARGUMENT.
 *
 * Errors: VAE_ERR_ARGUMENT (the wrong direction, another type, a stride below a
 * row, a unit after the end, a broken sequence), VAE_ERR_SIZE, VAE_ERR_MEMORY.
 * After these errors nothing ran, and the call may be repeated. Receive also
 * returns VAE_ERR_CANCELLED and VAE_ERR_BACKEND, and with VAE_NAN_FALLBACK also
 * VAE_ERR_MEMORY of a step. These break the sequence: reset, restart or free
 * the stream.
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
 * Sends latent k of a clip that vae_latent_clip_find() has found, or the end of
 * the sequence if the clip has no latent k. Use it instead of
 * vae_stream_send_latent(), for k = 0, 1, 2, ... or from another k on, after
 * vae_stream_restart() or a checkpoint. The stream does not check the order of
 * k: it takes each latent as the next one of the sequence.
 *
 * If the clip that was sent last states its number of frames
 * (VaeLatentClip.frames), the sequence ends after so many, counted from its
 * first frame: receive returns VAE_END, and send takes no more latents. If a
 * clip has several sequences one after another, send a copy of the clip for
 * each: its data are the sequence's first latent, its t and frames those of the
 * sequence.
 *
 * Errors: those of vae_stream_send_latent(); VAE_ERR_ARGUMENT (k is negative;
 * only the header of the file is in memory; the clip states another
 * normalization than that of the stream); VAE_ERR_SIZE and VAE_ERR_MODEL (the
 * model and size of the stream do not fit the clip). Nothing ran, and the call
 * may be repeated.
 */
VAE_API VaeStatus vae_stream_send_clip(VaeStream *stream,
                                       const VaeLatentClip *clip, int k,
                                       VaeError *error);

/*
 * Decodes n_latents latents into n_frames pictures. Both numbers are those that
 * vae_stream_count() gives for one step or more. A picture whose data[0] is
 * NULL is computed but not written. Pictures have the visible size of the
 * stream, and may be on_device only with the cuda backend. With VAE_NAN_PASS,
 * non-finite values pass through, except that a ReLU may turn NaN into 0.
 * VaeStreamStats.nonfinite counts the non-finite values of latents.
 *
 * Errors: VAE_ERR_ARGUMENT (wrong counts, no data or a wrong type of a latent,
 * a missing plane, a stride below a row, on_device, or waiting units; nothing
 * ran), VAE_ERR_SIZE (a picture of another size;
 * nothing ran), VAE_ERR_CANCELLED, VAE_ERR_BACKEND, and with VAE_NAN_FALLBACK
 * also VAE_ERR_MEMORY of a step (the sequence is broken: reset, restart or free
 * the stream).
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
 * Ends the sequence of a decoder with VaePlan.delay: gives the remaining
 * frames, without latents. After the first vae_stream_drain() the sequence
 * takes no more latents and cannot be saved. Reset or restart the stream after
 * the last step.
 *
 * vae_stream_drain_count() returns the number of all steps that remain, for one
 * call or several. It is 0 before the first unit, and for a stream without a
 * delay. It writes to *n_out the number of results of the next `steps` of them,
 * or of all if there are fewer. n_out may be NULL. Units that wait in the
 * stream do not count.
 *
 * Errors: those of vae_stream_decode(); VAE_ERR_ARGUMENT if fewer steps remain.
 */
VAE_API int vae_stream_drain_count(const VaeStream *stream, int steps,
                                   int *n_out);
VAE_API VaeStatus vae_stream_drain(VaeStream *stream, int steps,
                                   const VaePicture *frames, int n_frames,
                                   VaeError *error);
/* The same for an encoder with VaePlan.delay: gives the remaining latents. */
VAE_API VaeStatus vae_stream_drain_latents(VaeStream *stream, int steps,
                                           const VaeLatentOut *latents,
                                           int n_latents, VaeError *error);

/*
 * These two functions begin to decode or encode. The stream may write the
 * output memory until vae_stream_wait() returns, so this memory must stay valid
 * until then, and so must input pictures on_device. The arrays and all other
 * input may be freed when the call returns.
 *
 * The cuda backend may return before it has computed. Other backends finish
 * before the call returns. The error of a call may come from a later call or
 * from vae_stream_wait(). Nothing is written after an error.
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
 * output may be incomplete. Errors: VAE_ERR_ARGUMENT (pending is not 0 to 7),
 * and the error of an earlier call, once. */
VAE_API VaeStatus vae_stream_wait(VaeStream *stream, int pending,
                                  VaeError *error);

/*
 * Cancels the running call, or the next one that computes if none is running.
 * Send calls do not compute. The cancelled call returns VAE_ERR_CANCELLED
 * within one op, and the sequence is broken. Until a call is cancelled,
 * vae_stream_reset() and vae_stream_restart() withdraw the request. Any thread
 * may call this function before vae_stream_free(), and so may a signal handler.
 * It does not end vae_stream_new(): see VaeStreamParams.cancelled.
 */
VAE_API void vae_stream_cancel(VaeStream *stream);

/*
 * Frees the device memory of a stream that is idle, so that others can use it.
 * Waits for all calls, copies the carries to host memory and frees the rest.
 * When the last stream of the model on the device is released, its weights are
 * copied and freed, too. The next call allocates everything again and continues
 * with the same bytes. A stream on the host keeps its memory.
 *
 * Errors: VAE_ERR_MEMORY (no host memory for the copies), VAE_ERR_BACKEND (also
 * that of an earlier call). After an error, VaeStreamStats.released tells the
 * state. True: all memory was freed except some weights. False: none was freed.
 */
VAE_API VaeStatus vae_stream_release(VaeStream *stream, VaeError *error);
/*
 * Allocates the memory of a released stream now, instead of in the next call.
 * Does nothing if the stream is not released. If memory is refused, the stream
 * continues with smaller slices, fewer frames at once or spilled carries, as
 * the params allow. The bytes stay the same, and VaePlan has the new setting.
 * If no setting fits, the call waits for at most resume_ms.
 *
 * Errors: VAE_ERR_MEMORY and VAE_ERR_BACKEND: nothing ran and nothing is lost;
 * a later call may succeed. VAE_ERR_CANCELLED: the wait was cancelled, and the
 * sequence is broken. Any call that allocates the memory may return the same
 * errors.
 */
VAE_API VaeStatus vae_stream_resume(VaeStream *stream, VaeError *error);
typedef struct VaeStreamStats {
    /* Runs of the network. */
    uint64_t runs_first;           /* of the first step of a sequence */
    uint64_t runs_next;            /* of a slice */
    uint64_t runs_next1;           /* of a single step, if slices have more */
    uint64_t runs_without_context; /* of a step without context */
    uint64_t units_in, units_out;
    uint64_t nonfinite;       /* non-finite values in latents, in or out */
    uint64_t nonfinite_steps; /* steps with non-finite results; 0 with PASS */
    uint64_t recovered_steps; /* of these, those that were finite in fp32 */
    uint64_t busy_ns;         /* time inside decode or encode calls */
    uint64_t last_ns;         /* time inside the last of these calls */
    /* Time for conversion or upload of the input, for the network, and for
     * download of the output. A device overlaps them, so their sum may exceed
     * busy_ns. */
    uint64_t upload_ns, compute_ns, download_ns;
    bool released; /* by vae_stream_release(), until the memory is allocated
                      again */
} VaeStreamStats;
/* Returns counts since the stream was created, and its state. The stream owns
 * them and updates them in its calls. */
VAE_API const VaeStreamStats *vae_stream_stats(const VaeStream *stream);

/* Returns true if this build and machine have the backend. Otherwise returns
 * false and writes the reason to why, a sentence; why may be NULL. */
VAE_API bool vae_backend_available(VaeBackendKind kind, char *why,
                                   size_t why_size);

#ifdef __cplusplus
}
#endif
#endif

/*
 * backend.h: the interface of a backend, which computes programs.
 *
 * A backend is one VaeBackendClass. It opens a device, allocates memory on it,
 * prepares the ops of a program, and runs them. ref.c is the smallest one.
 * host.h has these functions for backends that compute in host memory, and
 * executor.h runs the ops for all backends.
 *
 * A new backend is declared at the end of this file, and added to
 *   VaeBackendKind in vae/types.h, VAE_BACKEND_KINDS in vae-private/types.h
 *   the words of base/types.c, and the row of engine/settings/settings.c
 *   engine/meson.build: engine_rooms, and a -DVAE_HAVE_... if it is optional
 *   order[] and find_class() in engine/backend/choose.c
 *   BACKENDS in pipelines/cluster/streams.py
 *   the runs of tests/golden/meson.build and tests/stream/meson.build
 */
#ifndef VAE_BACKEND_H
#define VAE_BACKEND_H

#include <stdatomic.h>

#include "alloc.h"
#include "log.h"
#include "opening.h"
#include "delay.h"
#include "fuse.h"
#include "program.h"
#include "weight_cache.h"
#include "vae-private/stream.h"

typedef struct VaeBackendParams {
    VaePrecision precision; /* never AUTO */
    int threads;            /* >= 1 */
    int device;             /* index of the device; -1 selects device 0 */
    bool deterministic;
    VaePixels pixels; /* widest format of pictures; floats: any */
    bool pictures_on_device;
    VaeLog log;
    VaeOpening *opening;           /* receives times; or NULL */
    bool (*cancelled)(void *user); /* with log.user; or NULL */
} VaeBackendParams;

static inline VaeStatus
vae_was_cancelled(VaeError *error)
{
    return vae_fail(error, VAE_ERR_CANCELLED,
                    "VaeStreamParams.cancelled ended the call");
}

/* prepare() calls it before it prepares an op. Errors: VAE_ERR_CANCELLED. */
static inline VaeStatus
vae_backend_goes_on(const VaeBackendParams *p, VaeError *error)
{
    return p->cancelled && p->cancelled(p->log.user) ? vae_was_cancelled(error)
                                                     : VAE_OK;
}

/* The place of a block of memory. VAE_ON_HOST: pinned host memory, so that
 * copies run while the device computes. A backend without copy() has only host
 * memory, and ignores the place. */
typedef enum VaePlace { VAE_ON_DEVICE, VAE_ON_HOST } VaePlace;

/* What the host knows of a history: the addresses of its n blocks. Those from
 * `on_device` on are spilled. Kernels read a spilled block in one of the
 * `stages`, which are memory of the device for a block each. */
typedef struct VaeHistoryPlaces {
    uint8_t **blocks;
    int n, on_device;
    uint8_t *stages[2]; /* NULL: nothing is spilled */
} VaeHistoryPlaces;

/* Memory of one stream, zeroed when it is allocated. */
typedef struct VaeMemory {
    uint8_t *arena, *carries, *scratch;
    uint8_t *spilled;               /* carries on the host */
    VaeHistoryBlocks *history;      /* or NULL; in the memory of alloc() */
    const VaeHistoryPlaces *places; /* of history, which may change from run to
                                       run */
} VaeMemory;

/* Input and output of one run. The arrays have one element for each unit of the
 * program. Before run() returns, it has read the arrays, and the memory of
 * latents and of pictures on the host that are input. finish() may still write
 * to the memory of results, bad and stats. All other pointers stay valid as
 * long as the stream. */
typedef struct VaeRun {
    const VaeLatentIn *latents_in;   /* of a decoder */
    const VaeLatentOut *latents_out; /* of an encoder */
    const VaePicture *pictures;
    /* One number for each latent channel. A decoder computes from
     * v * scale[c] + shift[c]; an encoder writes (v - mean[c]) / std[c] if
     * normalise is set. */
    const float *scale, *shift;
    const float *mean, *std;
    bool normalise;
    bool sample;          /* an encoder writes random samples, not the mean */
    uint64_t seed, index; /* of the samples; index: of the run's first latent in
                             the sequence */
    VaeNoiseFunc noise;   /* see vae_stream_set_noise(), or NULL */
    void *noise_user;
    int channels;    /* of latents */
    float low, high; /* the network's values of black and white */
    bool alpha;      /* its pictures have a fourth channel */
    uint64_t *bad; /* receives the number of non-finite values of the result, by
                      run() or VAE_FINISH_COUNT; 0 before the run. Or NULL */
    VaeStreamStats *stats; /* run(), or finish() for runs in flight, adds
                              nonfinite and the three times */
    atomic_bool *cancel;   /* true: run() ends before its next op, with
                              VAE_ERR_CANCELLED */
    VaeDumpFunc dump;      /* receives the result of each op; or NULL */
    void *dump_user;
    int step;         /* of the run, for dump */
    uint64_t history; /* value for VaeHistoryBlocks.count, which run() writes */
    int ahead;      /* steps from this run on whose results the caller drops; 0:
                       the results of this run are wanted */
    VaeClock clock; /* for a program with delay lines */
} VaeRun;

typedef struct VaeOpTime {
    uint64_t calls, ns;
} VaeOpTime;

/* Weights whose layout a library chooses by the size of the picture: their
 * bytes, and a hash of the layout. All 0: no such weights. */
typedef struct VaeLayOut {
    size_t bytes;
    uint64_t layout;
} VaeLayOut;

/* One op, prepared. */
typedef struct VaeExecOp {
    const char *impl; /* for profiles: "ref", "brgconv:avx512_core" ... Valid
                         as long as the exec */
    const void *weight, *bias; /* in the memory of the backend; NULL: none */
    VaeLayOut laid_out[4];     /* [0]; after an upsampling: of each phase */
    /* Computes the op; NULL: a kernel of the table does. */
    VaeStatus (*run)(void *own, const VaeOp *op, VaeError *error);
    void *own;
    void (*own_free)(void *own);
} VaeExecOp;

/* A program, prepared by a backend, which may append fields of its own. */
typedef struct VaeExec {
    const VaeProgram *program;
    VaeExecOp *ops;   /* n_ops of the program */
    VaeMemory memory; /* set by bind() */
    /* Set by prepare(). */
    size_t scratch;      /* bytes of one run */
    size_t weight_bytes; /* of all weights, as the cache has them */
    /* If the class has memory_left(), these three count its memory. */
    size_t loading;   /* most temporary bytes while a weight is made */
    size_t staging;   /* bytes of alloc() for units in flight. All execs of a
                         backend share them */
    size_t library;   /* estimated bytes that the computing library allocates
                         itself */
    VaeOpTime *times; /* n_ops times, to which runs add. The caller sets the
                         pointer while no run is in flight; NULL: no
                         profile */
} VaeExec;

/* The type of convolutions' inputs. */
static inline VaeType
vae_act_type(VaePrecision precision)
{
    return precision == VAE_PRECISION_BF16   ? VAE_TYPE_BF16
           : precision == VAE_PRECISION_FP16 ? VAE_TYPE_F16
                                             : VAE_TYPE_F32;
}

/* How finish() ends runs in flight. */
typedef enum VaeFinish {
    VAE_FINISH_KEEP,    /* blocks until at most `left` runs are in flight */
    VAE_FINISH_DISCARD, /* the same, and discards their results */
    VAE_FINISH_COUNT    /* blocks until the last run is computed and its
                           VaeRun.bad is set. Its results may still be in
                           flight; `left` is ignored */
} VaeFinish;

/* Memory of the caller that pin() has pinned. */
struct VaePin {
    void *data;
    size_t bytes;
    int device;                 /* set by pin(), for unpin() */
    void (*unpin)(VaePin *pin); /* set by pin(). Any thread may call it, also
                                   after the backend is closed */
};

/* The processor or GPU of an open backend. */
typedef struct VaeDevice {
    char name[256];
    int threads; /* in use, which may be fewer than requested */
} VaeDevice;

typedef struct VaeBackendClass {
    const char *name;
    VaeBackendKind kind;
    /* AUTO for an encoder, because diffusion models are sensitive to 16-bit
     * errors of latents. */
    VaePrecision encode_precision;
    /* Tensors between residual blocks have vae_act_type(), not F32. */
    bool narrow_sums;
    VaeFusions fusions; /* neighbouring ops that the backend computes as one;
                           zeros: none */
    /* A checkpoint stores what the bytes of results depend on: */
    bool by_threads; /* the number of threads */
    bool by_timing;  /* timed choices, unless VaeBackendParams.deterministic */
    /* What run() does. */
    bool pictures_on_device; /* takes pictures that are on_device */
    bool leaves_out;         /* leaves out ops by VaeRun.ahead */

    /* All functions are required whose comment does not say what NULL means. */

    /* Resolves AUTO, and writes the reason to why ("the processor has AMX") or
     * leaves why unchanged. Returns false, with a sentence in why, if this
     * machine or build does not have the backend, or if it does not compute in
     * the requested precision. Takes no noticeable time. */
    bool (*usable)(VaePrecision requested, VaePrecision *out, char *why,
                   size_t size);

    /* Sets *out and *device. Copies params. One thread at a time calls the
     * functions of one open backend. A device may have several open backends.
     * Errors: after VAE_ERR_BACKEND and VAE_ERR_UNSUPPORTED, AUTO tries the
     * next backend. */
    VaeStatus (*open)(const VaeBackendParams *params, VaeBackend **out,
                      VaeDevice *device, VaeError *error);
    /* Frees the backend and sets *backend to NULL. Its execs and blocks are
     * freed before. */
    void (*close)(VaeBackend **backend);

    /* The bytes that alloc() can still allocate on the device. NULL: alloc()
     * uses host memory. Only backends with memory_left() get bind() without
     * memory and prepare() without out. */
    VaeStatus (*memory_left)(VaeBackend *backend, uint64_t *bytes,
                             VaeError *error);
    /* The block is zeroed and aligned to 64 bytes. For 0 bytes *out may be
     * NULL. Errors: VAE_ERR_MEMORY, VAE_ERR_CANCELLED. */
    VaeStatus (*alloc)(VaeBackend *backend, VaePlace place, size_t bytes,
                       void **out, VaeError *error);
    /* block may be NULL. */
    void (*free)(VaeBackend *backend, VaePlace place, void *block);
    /* Copies between blocks of alloc() of either place, and to and from other
     * host memory. It waits for the runs in flight first, and then for the
     * copy. NULL: all blocks are host memory, and runs are never in flight. */
    VaeStatus (*copy)(VaeBackend *backend, void *dst, const void *src,
                      size_t bytes, VaeError *error);

    /*
     * Prepares each op: makes primitives, and weights in the library's layout
     * (through vae_weight_cache_get(), once per model). Reads the plan's
     * offsets. The program must outlive the exec. If cache is NULL, only sizes
     * are set; no weight is read or converted.
     *
     * out NULL: only times the choices. Code that this loads lowers
     * memory_left().
     */
    VaeStatus (*prepare)(VaeBackend *backend, VaeWeightCache *cache,
                         const VaeProgram *program, VaeExec **out,
                         VaeError *error);
    void (*exec_free)(VaeBackend *backend, VaeExec **exec);
    /*
     * Called before the first run. Addresses stay fixed from then on.
     *
     * If memory is NULL, it frees the memory of alloc() that the exec owns, so
     * that other programs can use it. The blocks that it is bound to stay. The
     * next bind() allocates the memory again. It also undoes a bind() that
     * failed. No run may be in flight. After an error some memory is not freed.
     */
    VaeStatus (*bind)(VaeBackend *backend, VaeExec *exec,
                      const VaeMemory *memory, VaeError *error);

    /* Computes the program. With finish(), it may return before the results
     * are complete, or wait for earlier runs. After the first runs of a stream
     * it allocates nothing. Errors, also of earlier runs: VAE_ERR_CANCELLED,
     * VAE_ERR_BACKEND; the carries are then undefined. */
    VaeStatus (*run)(VaeBackend *backend, VaeExec *exec, const VaeRun *run,
                     VaeError *error);
    /* Runs finish in order. Returns the first error of the runs that it ended,
     * and writes no results after it. error may be NULL. Callers ignore the
     * errors of DISCARD. NULL: runs are never in flight. */
    VaeStatus (*finish)(VaeBackend *backend, int left, VaeFinish how,
                        VaeError *error);
    /* Times the largest convolutions of a model's fp32 program [0] and bf16
     * program [1], in seconds of processor time. Returns false if usable() has
     * already resolved AUTO to the faster one. No run may be in flight. NULL:
     * what usable() resolves is the faster one. */
    bool (*compare)(VaeBackend *backend, const VaeProgram *const programs[2],
                    double seconds[2]);

    /* Pins pin->data. NULL: pinning has no use. */
    bool (*pin)(VaeBackend *backend, VaePin *pin);
} VaeBackendClass;

/* The CUDA backend. NULL, with a sentence in why (size bytes): there is none.
 */
const VaeBackendClass *vae_backend_cuda_class(char *why, size_t size);
extern const VaeBackendClass vae_backend_ref;
#ifdef VAE_HAVE_ONEDNN
extern const VaeBackendClass vae_backend_cpu;
#endif

#endif

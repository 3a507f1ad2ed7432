/*
 * backend.h: the interface of a backend, which computes programs.
 *
 * A backend has the memory of a device (alloc, free, copy), prepares the ops of
 * a program, and runs them. executor.h runs most ops for it.
 */
#ifndef VAE_BACKEND_H
#define VAE_BACKEND_H

#include <stdatomic.h>

#include "alloc.h"
#include "log.h"
#include "delay.h"
#include "fuse.h"
#include "program.h"
#include "weight_cache.h"
#include "vae-private/stream.h"

typedef struct VaeBackendParams {
    VaePrecision precision; /* never AUTO */
    int threads;            /* >= 1 */
    int device;             /* CUDA device index; -1 selects device 0 */
    bool deterministic;
    VaePixels pixels; /* widest format of pictures; RGB_F32: any */
    bool pictures_on_device;
    VaeLog log;
} VaeBackendParams;

/* The memory that a block is in. HOST: pinned, and the device can copy to and
 * from it by itself. Without class->copy() both are the same. */
typedef enum VaePlace { VAE_ON_DEVICE, VAE_ON_HOST } VaePlace;

/* Memory of one stream, zeroed when it is allocated. */
typedef struct VaeMemory {
    uint8_t *arena, *carries, *scratch;
    uint8_t *spilled; /* carries on the host */
} VaeMemory;

/* Input and output of one run. The arrays have as many elements as the program
 * has units. run() reads the arrays before it returns; finish() may still write
 * to the memory that their elements point to. */
typedef struct VaeRun {
    const VaeLatentIn *latents_in;   /* when decoding */
    const VaeLatentOut *latents_out; /* when encoding */
    const VaePicture *pictures;
    const float *scale, *shift; /* decode: raw = v * scale[c] + shift[c] */
    const float *mean, *std;    /* encode */
    bool normalise, sample;
    uint64_t seed,
        index;    /* of samples; index: the first latent's in the sequence */
    int channels; /* latent channels */
    float low, high;
    uint64_t *bad; /* NULL, or 0 before the run: run(), or counted(), sets it to
                      the number of the result's non-finite values */
    VaeStreamStats *stats; /* run() or, for runs in flight, finish() adds to
                              nonfinite and to the three times */
    atomic_bool *cancel;
    VaeDumpFunc dump;
    void *dump_user;
    int step;
    VaeClock clock; /* of a program with delay lines */
} VaeRun;

typedef struct VaeOpTime {
    uint64_t calls, ns;
} VaeOpTime;

/* Weights in a layout that a library chooses by the size of the picture: their
 * bytes, and a hash of the layout. Zeros: others, or none. */
typedef struct VaeLayOut {
    size_t bytes;
    uint64_t layout;
} VaeLayOut;

/* One op, prepared. */
typedef struct VaeExecOp {
    const char *impl; /* for profiles: "ref", "brgconv:avx512_core" ... */
    const void *weight, *bias; /* where the backend computes; NULL: none */
    VaeLayOut laid_out[4]; /* the weights, of each phase behind an upsampling */
    /* Computes the op in place of the kernel table; NULL: the table does. */
    VaeStatus (*run)(void *own, const VaeOp *op, VaeError *error);
    void *own;
    void (*own_free)(void *own);
} VaeExecOp;

/* A program, prepared by a backend, which may append fields of its own. */
typedef struct VaeExec {
    const VaeProgram *program;
    VaeExecOp *ops; /* n_ops of the program */
    VaeMemory memory;
    size_t scratch;      /* bytes of one run */
    size_t weight_bytes; /* of all weights, as the cache has them */
    size_t loading;   /* most bytes beside a weight while it is made; freed */
    size_t staging;   /* of alloc()'s memory, for units in flight */
    size_t library;   /* margin for what the computing library itself takes */
    VaeOpTime *times; /* n_ops of the program, set by the caller between runs,
                         to which runs add; NULL: no profile */
} VaeExec;

/* Type of convolutions' inputs at that precision. */
static inline VaeType
vae_act_type(VaePrecision precision)
{
    return precision == VAE_PRECISION_BF16   ? VAE_TYPE_BF16
           : precision == VAE_PRECISION_FP16 ? VAE_TYPE_F16
                                             : VAE_TYPE_F32;
}

/* The processor or GPU of an open backend. */
typedef struct VaeDevice {
    char name[256];
    int threads; /* in use: those asked for, or fewer */
} VaeDevice;

typedef struct VaeBackendClass {
    const char *name;
    VaeBackendKind kind;
    /* AUTO for encoding: diffusion models are sensitive to 16-bit errors of
     * latents. */
    VaePrecision encode_precision;
    bool narrow_sums;   /* the residual stream has vae_act_type(); else F32 */
    VaeFusions fusions; /* neighbouring ops that the backend computes as one */

    /* Resolves AUTO, with the reason in why ("the processor has AMX") or why
     * unchanged. False and a sentence if this machine or build has no such
     * backend, or not in that precision. With AUTO only the former. Cheap. */
    bool (*usable)(VaePrecision wanted, VaePrecision *out, char *why,
                   size_t size);

    VaeStatus (*open)(const VaeBackendParams *params, VaeBackend **out,
                      VaeDevice *device, VaeError *error);
    void (*close)(VaeBackend **backend);

    /* Bytes that alloc() can still give; NULL: the machine's memory. */
    VaeStatus (*memory_left)(VaeBackend *backend, uint64_t *bytes,
                             VaeError *error);
    /* Zeroed, 64-byte aligned. */
    VaeStatus (*alloc)(VaeBackend *backend, VaePlace place, size_t bytes,
                       void **out, VaeError *error);
    void (*free)(VaeBackend *backend, VaePlace place, void *block);

    /* Finds out what prepare() would find out by runs. Code that is loaded for
     * them then counts in memory_left(). NULL: there are no such runs. */
    void (*learn)(VaeBackend *backend, const VaeProgram *program);
    /*
     * Prepares each op: primitives, and weights in the library's layout
     * (through vae_weight_cache_get(), once per model). Reads the plan's
     * offsets. The program must outlive the exec. cache NULL: only sizes; no
     * weight is read or converted.
     */
    VaeStatus (*prepare)(VaeBackend *backend, VaeWeightCache *cache,
                         const VaeProgram *program, VaeExec **out,
                         VaeError *error);
    void (*exec_free)(VaeBackend *backend, VaeExec **exec);
    /* VaeStrips.can, of a VaeBackend; NULL: always. */
    bool (*can_strip)(void *backend, const VaeOp *conv);
    /* Before the first run, and again after offload(), whose memory it takes
     * again. Addresses stay fixed from then on. */
    VaeStatus (*bind)(VaeBackend *backend, VaeExec *exec,
                      const VaeMemory *memory, VaeError *error);

    VaeStatus (*run)(VaeBackend *backend, VaeExec *exec, const VaeRun *run,
                     VaeError *error);
    /* Blocks until at most `left` runs are still in flight. Runs finish in
     * order. keep false: discards results. NULL: run() has finished when it
     * returns. */
    VaeStatus (*finish)(VaeBackend *backend, int left, bool keep,
                        VaeError *error);
    /* Blocks until the last run is computed and its VaeRun.bad is set. Its
     * results may still be on their way. NULL: as finish. */
    VaeStatus (*counted)(VaeBackend *backend, VaeError *error);
    /* Processor seconds of a model's largest convolutions, in its fp32 and its
     * bf16 program. False if usable() already resolves AUTO to the faster
     * one. No run is in flight. NULL: not needed. */
    bool (*compare)(VaeBackend *backend, const VaeProgram *const programs[2],
                    double seconds[2]);

    /*
     * For devices whose memory others need meanwhile; NULL, both: none.
     * No run is in flight. offload() frees all of alloc()'s memory that the
     * exec holds, except the blocks that it is bound to; on an error the rest
     * stays. It also undoes a bind() that failed.
     */
    VaeStatus (*offload)(VaeBackend *backend, VaeExec *exec, VaeError *error);
    /* Pins memory of the caller's, and undoes it from any thread, also when the
     * backend is closed; *device is for unpin(). NULL, both: it is of no use.
     */
    bool (*pin)(VaeBackend *backend, void *data, size_t bytes, int *device);
    void (*unpin)(int device, void *data);
    /* Copies between a block of alloc() and host memory, and waits. */
    VaeStatus (*copy)(VaeBackend *backend, void *dst, const void *src,
                      size_t bytes, VaeError *error);
} VaeBackendClass;

/* The CUDA backend, or NULL and a sentence in why (size bytes). */
const VaeBackendClass *vae_backend_cuda_class(char *why, size_t size);
extern const VaeBackendClass vae_backend_ref;
#ifdef VAE_HAVE_ONEDNN
extern const VaeBackendClass vae_backend_cpu;
#endif

#endif

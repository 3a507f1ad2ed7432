/*
 * backend.h: what turns a program into numbers.
 */
#ifndef VAE_BACKEND_H
#define VAE_BACKEND_H

#include <stdatomic.h>

#include "alloc.h"
#include "log.h"
#include "fuse.h"
#include "program.h"
#include "weight_cache.h"
#include "vae-private/stream.h"

typedef struct VaeBackendParams {
    VaePrecision precision; /* never AUTO */
    int threads;            /* >= 1 */
    int device;             /* -1: 0 */
    bool deterministic;
    VaePixels pixels; /* of pictures; RGB_F32 stands for any */
    VaeLog log;
} VaeBackendParams;

/* Memory of one stream. Blocks are zeroed when taken. */
typedef struct VaeMemory {
    uint8_t *arena, *carries, *scratch;
} VaeMemory;

/* What one run reads and writes; arrays as long as the program's counts. They
 * are read and written before run() returns, but what the elements point to
 * may be written as late as in finish(). */
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
    VaeStreamStats *stats; /* nonfinite and the three times grow, those of what
                              is on its way as late as in finish() */
    atomic_bool *cancel;
    VaeDumpFunc dump;
    void *dump_user;
    int step;
} VaeRun;

typedef struct VaeOpTime {
    uint64_t calls, ns;
} VaeOpTime;

/* One op, prepared. */
typedef struct VaeExecOp {
    const char *impl; /* for profiles: "ref", "brgconv:avx512_core" ... */
    const void *weight, *bias; /* where the backend computes; NULL: none */
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
    VaeOpTime *times; /* n_ops of the program; NULL: no profile */
} VaeExec;

typedef struct VaeBackendClass {
    const char *name;
    VaeBackendKind kind;

    /* False and a sentence when this machine or build cannot. Cheap. */
    bool (*available)(char *why, size_t size);
    /* Resolves AUTO, and says why it takes that one ("the processor has
     * AMX") or nothing; false and a sentence for one that it lacks. */
    bool (*precision)(VaePrecision wanted, VaePrecision *out, char *why,
                      size_t size);
    /* AUTO when encoding: latents feed a diffusion model, which is sensitive
     * to 16-bit errors. */
    VaePrecision encode_precision;
    /* Storage of conv inputs at that precision. */
    VaeType (*act_type)(VaePrecision precision);
    /* Storage of what is added up along the network; NULL: F32. */
    VaeType (*sum_type)(VaePrecision precision);
    /* The neighbouring ops that it computes as one. */
    VaeFusions fusions;

    VaeStatus (*open)(const VaeBackendParams *params, VaeBackend **out,
                      VaeError *error);
    void (*close)(VaeBackend **backend);
    /* That it computes with: those asked for, or fewer where the system gives
     * no more. NULL: as many. */
    int (*threads)(const VaeBackend *backend);

    /* Bytes that alloc() can give; NULL: the machine's memory. */
    VaeStatus (*memory_left)(VaeBackend *backend, uint64_t *bytes,
                             VaeError *error);
    /* Zeroed, 64-byte aligned. */
    VaeStatus (*alloc)(VaeBackend *backend, size_t bytes, void **out,
                       VaeError *error);
    void (*free)(VaeBackend *backend, void *block);

    /*
     * Makes what each op needs, weights in the library's layout included
     * (through vae_weight_cache_get(), so that they exist once per model).
     * Reads the plan's offsets. The program must outlive the exec.
     * cache NULL: only plan: sizes are told, no weight is read or made.
     */
    VaeStatus (*prepare)(VaeBackend *backend, VaeWeightCache *cache,
                         const VaeProgram *program, VaeExec **out,
                         VaeError *error);
    void (*exec_free)(VaeBackend *backend, VaeExec **exec);
    /* An estimate of what the computing library keeps for itself beside all
     * that, for n programs of one stream (NULL: none there); NULL: nothing
     * that is known. */
    size_t (*library)(VaeExec *const *execs, int n);
    /* Once, before the first run: addresses are fixed from here. */
    VaeStatus (*bind)(VaeBackend *backend, VaeExec *exec,
                      const VaeMemory *memory, VaeError *error);

    VaeStatus (*run)(VaeBackend *backend, VaeExec *exec, const VaeRun *run,
                     VaeError *error);
    /* Waits until at most `left` of the runs begun are not done. keep false:
     * results are not written any more. NULL: run() is done when it
     * returns. */
    VaeStatus (*finish)(VaeBackend *backend, int left, bool keep,
                        VaeError *error);
    /* Processor seconds that the largest convolutions of a model take: of its
     * program in fp32, and in bf16. False where the precision that precision()
     * takes of AUTO is the faster one anyway. No run is under way. NULL: never
     * asked. */
    bool (*compare)(VaeBackend *backend, const VaeProgram *const programs[2],
                    double seconds[2]);
    /* What the maker calls that which computes. */
    void (*device)(const VaeBackend *backend, char *out, size_t size);
    /* See vae_stream_rates(); NULL: not measured. No run is under way. */
    VaeStatus (*rates)(VaeBackend *backend, VaePrecision precision,
                       VaeRates *out, VaeError *error);
    /* NULL turns profiling off; else program->n_ops rows to add to. */
    void (*profile)(VaeExec *exec, VaeOpTime *rows);

    /*
     * For devices whose memory others need meanwhile; NULL, all three: none.
     * No run is in flight. offload() frees all of alloc()'s memory that the
     * exec holds, except the blocks that it is bound to; on an error the rest
     * stays. reload() takes it again; bind() comes next. offload() also undoes
     * a reload() that failed.
     */
    VaeStatus (*offload)(VaeBackend *backend, VaeExec *exec, VaeError *error);
    VaeStatus (*reload)(VaeBackend *backend, VaeExec *exec, VaeError *error);
    /* Between a block of alloc() and the host's memory, and waits for it. */
    VaeStatus (*copy)(VaeBackend *backend, void *dst, const void *src,
                      size_t bytes, VaeError *error);
} VaeBackendClass;

/* The CUDA backend, or NULL and in why (size bytes) a sentence. */
const VaeBackendClass *vae_backend_cuda_class(char *why, size_t size);
extern const VaeBackendClass vae_backend_ref;
#ifdef VAE_HAVE_ONEDNN
extern const VaeBackendClass vae_backend_cpu;
#endif

#endif

/*
 * backend.h: what turns a program into numbers.
 */
#ifndef VAE_BACKEND_H
#define VAE_BACKEND_H

#include <stdatomic.h>

#include "alloc.h"
#include "program.h"
#include "vae-private/stream.h"

typedef struct VaeBackend VaeBackend;
typedef struct VaeExec VaeExec;
typedef struct VaeKept VaeKept;

typedef struct VaeLog {
    VaeLogFunc func; /* or NULL */
    void *user;
} VaeLog;

/* One line, of at most 1023 bytes. */
void vae_log(const VaeLog *log, const char *format, ...) VAE_PRINTF(2, 3);

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
    uint8_t *saved; /* carries before a run; the stream's own, may be NULL */
} VaeMemory;

/* What one run reads and writes; arrays as long as the program's counts. They
 * are read and written before run() returns, but what the elements point to
 * may be written as late as in finish(). */
typedef struct VaeRun {
    const VaeLatent *latents;
    const VaePicture *pictures;
    const float *scale, *shift; /* decode: raw = v * scale[c] + shift[c] */
    const float *mean, *std;    /* encode */
    bool normalise, sample;
    uint64_t seed, index; /* of samples; index: latents[0]'s in the sequence */
    int channels;         /* latent channels */
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
    /* Whether it takes convolutions that double what they read. */
    bool conv_up;
    /* Whether it takes, in F32, convolutions in tiles of pixels. */
    bool conv_tiles;

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
     * (through vae_model_weight(), so that they exist once per model).
     * Reads the plan's offsets. The program must outlive the exec.
     * model NULL: only plan: sizes are told, no weight is read or made.
     */
    VaeStatus (*prepare)(VaeBackend *backend, VaeModel *model,
                         const VaeProgram *program, VaeExec **out,
                         VaeError *error);
    void (*exec_free)(VaeBackend *backend, VaeExec **exec);
    /* Scratch bytes of one run; weight bytes as kept. */
    size_t (*scratch)(const VaeExec *exec);
    size_t (*weight_bytes)(const VaeExec *exec);
    /* The most that making a weight takes beside it, and gives back; NULL:
     * nothing of the memory that alloc() gives. */
    size_t (*loading)(const VaeExec *exec);
    /* An estimate of what the computing library keeps for itself beside all
     * that, for n programs of one stream (NULL: none there); NULL: nothing
     * that is known. */
    size_t (*library)(VaeExec *const *execs, int n);
    /* Of the memory that alloc() gives, for units on their way; NULL: none. */
    size_t (*staging)(const VaeExec *exec);
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
    const char *(*impl)(const VaeExec *exec, int op);
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
     * For memory that others may want meanwhile; NULL, all three: there is no
     * such. No run is under way. rest() gives back all that the exec takes of
     * alloc()'s memory but the blocks that it is bound to; on an error that
     * much is kept which could not be moved. wake() takes it again; bind()
     * comes next. rest() also ends what a wake() that failed has begun.
     */
    VaeStatus (*rest)(VaeBackend *backend, VaeExec *exec, VaeError *error);
    VaeStatus (*wake)(VaeBackend *backend, VaeExec *exec, VaeError *error);
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

/* Kept weights, owned by the model; see model/model.h. memory: where they
 * lie, copied; NULL: with vae_mem_alloc(). user is for alloc() alone, in this
 * call, and place for free() alone, which any thread may call. What never rests
 * need not be let go. */
typedef VaeStatus (*VaeWeightMake)(void *user, void *dst, VaeError *error);
typedef struct VaeWeightMemory {
    void *(*alloc)(size_t bytes, void *user);
    void (*free)(void *block, int place);
    void *user;
    int place;
} VaeWeightMemory;
VaeStatus vae_model_weight(VaeModel *model, const void *key, size_t key_size,
                           size_t bytes, VaeWeightMake make, void *user,
                           const VaeWeightMemory *memory, const void **out,
                           VaeError *error);
/* Whether it is there and does not rest. */
bool vae_model_has_weight(VaeModel *model, const void *key, size_t key_size);

/*
 * Who got a weight uses it until vae_model_let_go(). Where others may want its
 * memory meanwhile, it rests between vae_model_rest() and vae_model_wake().
 * What all who use it let rest is moved into the host's memory, and back by the
 * first who wakes it. What nobody uses stays where it is.
 */
typedef struct VaeWeightMove {
    VaeBackend *backend;
    /* Each makes a copy; the original is the caller's to free. */
    VaeStatus (*out)(VaeBackend *backend, const void *block, size_t bytes,
                     void **copy, VaeError *error);
    VaeStatus (*back)(VaeBackend *backend, const void *copy, size_t bytes,
                      void **block, VaeError *error);
    void (*out_free)(void *copy);
} VaeWeightMove;

/* block is no more the caller's to use, but out to wake. On an error it is so,
 * too, and the weight stays where it is. */
VaeStatus vae_model_rest(VaeModel *model, const void *block,
                         const VaeWeightMove *move, VaeKept **out,
                         VaeError *error);
/* out: where it is now. On an error it rests as before. */
VaeStatus vae_model_wake(VaeModel *model, VaeKept *kept,
                         const VaeWeightMove *move, const void **out,
                         VaeError *error);
/* block, or NULL and kept where it rests. */
void vae_model_let_go(VaeModel *model, const void *block, VaeKept *kept,
                      const VaeWeightMove *move);

#endif

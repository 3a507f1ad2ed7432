/*
 * gpu.h: declarations that the files of the CUDA backend share. They access the
 * device only through cuda_rt.h, cuda/conv/convs.h and the table of kernels.
 *
 * There are three streams: up copies inputs to the device, compute runs the
 * programs, down copies results to the host. A run takes a slot of the staging
 * ring, enqueues all its work and returns. The caller gets the results when the
 * slot is needed again, or by finish().
 */
#ifndef VAE_BACKEND_CUDA_H
#define VAE_BACKEND_CUDA_H

#include <pthread.h>

#include "executor.h"
#include "layers.h"
#include "cuda_rt.h"
#include "plan_cache.h"

/* Runs in flight: one computes while another is copied. */
#define VAE_CUDA_SLOTS 2

extern const VaeBackendClass vae_backend_cuda;

/* One latent or picture in flight: the caller's copy and the one on the device.
 * A picture without data is not copied. */
typedef struct VaeCudaUnit {
    VaeLatentOut latent, device_latent;
    VaeLatentIn device_read; /* device_latent, as input of kernels */
    VaePicture picture, device_picture;
    bool direct;     /* the device copies the picture to the caller's memory */
    size_t elements; /* values of a latent */
    size_t begin, end; /* offsets of a result in the device's block */
} VaeCudaUnit;

/*
 * One run in flight. A host block and its copy on the device have the same
 * layout: `in` begins with the latents' statistics, `out` with two counters of
 * values that are not finite: those of latents, and of the result. The units
 * follow.
 */
typedef struct VaeCudaSlot {
    uint8_t *host_in, *host_out, *device_in, *device_out;
    size_t out_used;
    bool direct; /* at least one unit is direct */
    VaeRtEvent begun, uploaded, started, computed, downloaded;
    VaeCudaUnit *in, *out;
    int n_out;
    VaeStreamStats *stats; /* the caller's */
    uint64_t *bad;         /* of the caller, or NULL */
    bool busy;
} VaeCudaSlot;

/* Bytes of one statistic of all channels. */
#define VAE_CUDA_STATISTIC (VAE_MAX_LATENT_CHANNELS * sizeof(float))

/* Device addresses of statistic i (0 scale, 1 shift, 2 mean, 3 std) and of the
 * counters of non-finite values. */
static inline const float *
vae_cuda_stage_statistic(const VaeCudaSlot *slot, int i)
{
    return (const float *) (slot->device_in + (size_t) i * VAE_CUDA_STATISTIC);
}

static inline uint64_t *
vae_cuda_stage_counter(const VaeCudaSlot *slot)
{
    return (uint64_t *) slot->device_out;
}

typedef struct VaeCudaBlock VaeCudaBlock;
typedef struct VaeCudaShared VaeCudaShared;

/* Identifies the weights that are loaded: streams with the same cache,
 * direction and precision load the same ones. */
typedef struct VaeCudaLoad {
    const VaeWeightCache *cache;
    bool decode;
} VaeCudaLoad;

/* The way to compute a layer; one for each layer of all programs. */
typedef struct VaeCudaLayer {
    char name[VAE_CUDA_LAYER_NAME];
    VaeCudaChoice choice;
    bool timed; /* in this process or an earlier one; else guessed */
} VaeCudaLayer;

struct VaeBackend {
    VaeBackendParams params;
    int number; /* CUDA device index */
    VaeRtDevice device;
    VaeCudaShared *shared;
    VaeCudaConvs *convs; /* of shared */
    VaeRtStream up, compute, down;
    VaeRtStream fetching, storing; /* of spilled carries; or NULL */
    /* Of the stages of a spilled history, see memory/history.c; or NULL. */
    VaeRtEvent filled[2], read[2], stored;
    int stage; /* the next one */

    VaeRoom room; /* temporary memory for making weights */
    VaeCudaLoad load;
    VaeCudaBlock *block; /* open block for weights, see suballoc.c; or NULL */
    size_t missing;      /* bytes of weights that are not suballocated yet */
    int refused; /* error code of the last failed allocation of a block */

    VaeCudaLayer *layers;
    int n_layers, layers_room;
    VaeCudaStore *store; /* NULL before its first use, and if deterministic */

    VaeCudaSlot slots[VAE_CUDA_SLOTS];
    int next; /* slot of the next run */
    size_t in_bytes, out_bytes;
    int room_in, room_out; /* units */

    struct VaeCudaExec *unrecorded; /* bound, in that order */
};

typedef struct VaeCudaExec VaeCudaExec;

/* State of an op, in addition to its VaeExecOp. */
typedef struct VaeCudaOp {
    VaeCudaExec *exec;
    VaeCudaParts conv;
    VaeRtEvent ready, moved; /* events of a copy that the op begins, or NULL */
    size_t phases, gathered; /* offsets in scratch of phases and of gathered
                                rows, if any */
    VaeCachedWeight *offloaded_weight, *offloaded_bias; /* or NULL */
    char impl[VAE_CUDA_CHOICE + 8];
} VaeCudaOp;

struct VaeCudaExec {
    VaeExec exec;
    VaeBackend *cuda;
    VaeWeightCache *cache; /* NULL: for planning only, without weights */
    VaeCudaOp *ops;
    size_t in_bytes, out_bytes; /* of one slot */
    VaeRtGraph graph;  /* all ops except the first and the last, or NULL */
    VaeCudaExec *next; /* in the list of programs that are not recorded */
    bool loaded;       /* the code of all ops is loaded; before, kernels are
                          loaded and do not run */
    bool ran;
    bool waits; /* recording failed before its first run; it is tried again
                   after that run */
    VaeRtEvent *marks; /* n_ops + 1 while profiling, else NULL */
};

static inline VaeCudaExec *
vae_cuda_exec(VaeExec *exec)
{
    return (VaeCudaExec *) exec;
}

/* cuda/device.c. */
/* Held while a thread records a stream, and while a library waits for the whole
 * device. A wait during a recording makes both fail. */
extern pthread_mutex_t vae_cuda_recording;

/* Returns VAE_OK for code 0, else VAE_ERR_BACKEND or VAE_ERR_MEMORY with the
 * message "DEVICE cannot DOING: words". */
VaeStatus vae_cuda_status(const VaeBackend *cuda, int code, const char *doing,
                          VaeError *error);

/* Copies and waits. Returns 0 or an error code. After an error, too, both
 * blocks may be freed. */
int vae_cuda_copy_now(const VaeBackend *cuda, void *dst, const void *src,
                      size_t bytes);

/* Functions of the class without selecting the device, which cuda/class.c does.
 */
VaeStatus vae_cuda_memory_left(VaeBackend *cuda, uint64_t *bytes,
                               VaeError *error);
VaeStatus vae_cuda_alloc(VaeBackend *cuda, VaePlace place, size_t bytes,
                         void **out, VaeError *error);
void vae_cuda_free(VaePlace place, void *block);

/* cuda/cuda.c: find() chooses the device and does not use it. close() frees
 * everything but the struct, also after a failed open(). */
VaeStatus vae_cuda_find(VaeBackend *cuda, VaeError *error);
VaeStatus vae_cuda_open(VaeBackend *cuda, VaeError *error);
void vae_cuda_close(VaeBackend *cuda);
/* cuda/addresses.c. */
/* Address of the first row of t, which is op's y or add, that convolution i of
 * op's parts writes. */
uint8_t *vae_cuda_part_of(const VaeCudaOp *own, const VaeOp *op,
                          const VaeTensor *t, int i);
/* Address of the first row that convolution i reads of frame f of its input. */
const uint8_t *vae_cuda_input_of(const VaeCudaOp *own, const VaeOp *op, int i,
                                 int f);
/* The addresses of convolution i of the op's parts. */
VaeCudaConvArgs vae_cuda_conv_args(const VaeCudaExec *exec, int op, int i);

/* cuda/prepare.c. */
VaeStatus vae_cuda_prepare(VaeBackend *cuda, VaeWeightCache *cache,
                           const VaeProgram *program, VaeExec **out,
                           VaeError *error);
void vae_cuda_exec_free(VaeBackend *cuda, VaeExec **exec);
VaeStatus vae_cuda_bind(VaeBackend *cuda, VaeExec *exec,
                        const VaeMemory *memory, VaeError *error);

/* cuda/memory/weight.c: gets op's weight, or its bias, on the device. Weight
 * and bias of a convolution have the types of its tensors; all others are fp32.
 * A convolution without a bias gets zeros. *out does not change if op has no
 * such weight. If exec has no cache, only counts the bytes. */
VaeStatus vae_cuda_weight(VaeCudaExec *exec, const VaeOp *op, bool bias,
                          const void **out, VaeError *error);
/* Begins to load those weights of the program that are not on the device.
 * vae_cuda_suballoc_end() ends it. */
void vae_cuda_weights_begin(VaeBackend *cuda, VaeWeightCache *cache,
                            const VaeProgram *program);

/* cuda/memory/suballoc.c: between begin and end, suballocations share blocks. A
 * new block has `bytes` bytes; more blocks may follow. A block is freed with
 * its last suballocation. The caller of vae_cuda_suballoc() holds the lock of
 * the weight cache. */
void vae_cuda_suballoc_begin(VaeBackend *cuda, const VaeCudaLoad *load,
                             size_t bytes);
void vae_cuda_suballoc_end(VaeBackend *cuda);
/* Device memory, 256-byte aligned, or NULL; user: the VaeBackend. */
void *vae_cuda_suballoc(size_t bytes, void *user);
void vae_cuda_suballoc_free(void *part, int device);
/* Bytes that a suballocation occupies in its block. */
size_t vae_cuda_suballoc_bytes(size_t bytes);

/* Elements from one phase of op's weight to the next. It is rounded up, because
 * the convolution library requires weights at multiples of 16 bytes for any
 * type. */
size_t vae_cuda_phase_room(const VaeOp *op);

/* Times of one choice in ms. steady: they differ little, so neither other work
 * nor a change of clocks disturbed them. */
typedef struct VaeCudaTiming {
    float ms, most; /* shortest and longest time; negative: none */
    bool steady;
} VaeCudaTiming;

/* cuda/conv/shared.c: sets cuda->shared and cuda->convs, or frees them. */
VaeStatus vae_cuda_shared_take(VaeBackend *cuda, VaeError *error);
void vae_cuda_shared_drop(VaeBackend *cuda);
/* True if the code of the layer's choice is loaded; and marks it so. */
bool vae_cuda_is_loaded(const VaeBackend *cuda, const char *layer,
                        const VaeCudaChoice *choice);
void vae_cuda_set_loaded(VaeBackend *cuda, const char *layer,
                         const VaeCudaChoice *choice);
/* Gets the choice of a layer that this or another open backend of the device
 * has made. All deterministic streams of a process compute a layer in the same
 * way, and so do all others. */
bool vae_cuda_get_chosen(const VaeBackend *cuda, const char *layer,
                         VaeCudaChoice *out);
void vae_cuda_set_chosen(const VaeBackend *cuda, const char *layer,
                         const VaeCudaChoice *choice);
/* One stream at a time chooses and times layers on a device. */
void vae_cuda_timing_begin(const VaeBackend *cuda);
void vae_cuda_timing_end(const VaeBackend *cuda);

/* cuda/conv/measure.c: returns the index of the fastest of n choices that gives
 * the same results as the first one, and its times in *out. Returns -1 if
 * nothing could be timed. Clears the failures that vae_rt_failure() would
 * return. */
int vae_cuda_fastest(VaeBackend *cuda, const char *layer,
                     const VaeCudaConvShape *shape,
                     const VaeCudaChoice *choices, int n, VaeCudaTiming *out);
/* Gets the index of the first of n choices that the device runs, or -1: a
 * library may offer a choice that it then refuses to run. */
VaeStatus vae_cuda_first_that_runs(VaeBackend *cuda,
                                   const VaeCudaConvShape *shape,
                                   const VaeCudaChoice *choices, int n,
                                   int *first, VaeError *error);

/* cuda/conv/autotune.c: gets the choice for the layer of a convolution. The
 * first call makes it: from the store, or by timing. A deterministic backend
 * takes cuDNN's first suggestion that runs. Without `run` nothing may run, and
 * it is cuDNN's first suggestion for now. */
VaeStatus vae_cuda_layer_choice(VaeBackend *cuda, const VaeCudaConvShape *shape,
                                bool run, VaeCudaChoice *out, VaeError *error);
/* VaeFusions.reads_carry, of a VaeBackend: true if the layer's choice is known,
 * and is the own kernel. The choice does not change afterwards. */
bool vae_cuda_reads_carry(void *backend, const VaeOp *conv);
/* VaeFusions.norms: the same, and the kernel can also compute a norm. */
bool vae_cuda_norms(void *backend, const VaeOp *conv);
/* VaeFusions.heads: the same, and the kernel is that of three channels. */
bool vae_cuda_heads(void *backend, const VaeOp *conv);
/* Only the timed runs of vae_cuda_prepare(), from which the code of a device is
 * known. */
void vae_cuda_tune(VaeBackend *cuda, const VaeProgram *program);
/* Saves the timed choices. Called once for a program. */
void vae_cuda_layers_keep(VaeBackend *cuda);

/* cuda/conv/code.c: device memory of the library's code. Between begin and end
 * only code may be loaded, and nothing allocated. end() returns the bytes. */
uint64_t vae_cuda_code_begin(void);
uint64_t vae_cuda_code_end(const VaeBackend *cuda, uint64_t before);
/* Adds the code bytes of a layer's choices, once in the process. */
void vae_cuda_code_need(const VaeBackend *cuda, const char *layer,
                        uint64_t bytes);
/* Bytes that were added and are not loaded yet. */
uint64_t vae_cuda_code_to_come(const VaeBackend *cuda);

/* cuda/memory/slots.c and cuda/memory/staging.c. */
/* Sets in_bytes, out_bytes and staging of exec. */
void vae_cuda_stage_plan(const VaeBackend *cuda, VaeCudaExec *exec);
/* Makes every slot large enough for exec. */
VaeStatus vae_cuda_stage_take(VaeBackend *cuda, const VaeCudaExec *exec,
                              VaeError *error);
void vae_cuda_stage_free(VaeBackend *cuda);
/* Frees the device memory of the slots; vae_cuda_stage_take() allocates it
 * again. Pinned host memory stays: pinning it again takes longer than all the
 * copies. */
void vae_cuda_stage_offload(VaeBackend *cuda);
/* Loads the kernels of the program's first and last op, for all pictures. */
VaeStatus vae_cuda_stage_load(VaeBackend *cuda, const VaeExec *exec,
                              VaeError *error);
/* Delivers the earlier results of the next slot, and starts the upload of the
 * run's inputs to it. The compute stream waits for the upload. */
VaeStatus vae_cuda_stage_in(VaeBackend *cuda, const VaeExec *exec,
                            const VaeRun *run, VaeCudaSlot **out,
                            VaeError *error);
/* Starts the download of the results after the work of the compute stream so
 * far. */
VaeStatus vae_cuda_stage_out(VaeBackend *cuda, VaeCudaSlot *slot,
                             VaeError *error);
/* The class's finish(): delivers results, oldest first. */
VaeStatus vae_cuda_stage_finish(VaeBackend *cuda, int left, VaeFinish how,
                                VaeError *error);

/* cuda/memory/offload.c. */
VaeStatus vae_cuda_offload(VaeBackend *cuda, VaeExec *exec, VaeError *error);
VaeStatus vae_cuda_reload(VaeBackend *cuda, VaeExec *exec, VaeError *error);
VaeStatus vae_cuda_copy(VaeBackend *cuda, void *dst, const void *src,
                        size_t bytes, VaeError *error);
/* Ends the use of all weights of exec, which must have a cache. */
void vae_cuda_release_weights(VaeBackend *cuda, VaeCudaExec *exec);

/* cuda/memory/spill.c: ops that copy spilled carries. */
bool vae_cuda_moves(const VaeOp *op);
VaeStatus vae_cuda_prepare_move(VaeBackend *cuda, VaeCudaExec *exec, int op,
                                VaeError *error);
/* Makes the streams of these copies. Returns 0 or an error code. */
int vae_cuda_open_moves(VaeBackend *cuda);
/* Waits for the copies of a run that has ended early. */
void vae_cuda_end_moves(VaeBackend *cuda);

/* cuda/memory/history.c: attention over a history that may be spilled. */
VaeStatus vae_cuda_prepare_history(VaeBackend *cuda, VaeCudaExec *exec, int op,
                                   VaeError *error);
void vae_cuda_free_history(VaeBackend *cuda);
/* A VaeLaunch.attend. */
int vae_cuda_attend(const VaeLaunch *launch, const VaeOp *op,
                    const VaeAttentionArgs *args);
/* True if a run of this program reads a spilled history, which a recorded
 * program cannot. */
bool vae_cuda_history_is_spilled(const VaeExec *exec);
/* The results of a run also wait for its history. Returns 0 or an error code.
 */
int vae_cuda_end_history(VaeBackend *cuda, const VaeExec *exec);

/* cuda/memory/pinned.c: a large block of zeros in pinned host memory. *out is
 * NULL if the block is small, or if it could not be made; then the run time
 * allocates it. Errors: VAE_ERR_CANCELLED. */
VaeStatus vae_cuda_map_pinned(const VaeBackend *cuda, size_t bytes, void **out,
                              VaeError *error);
/* Frees such a block. False: it is not one. */
bool vae_cuda_unmap_pinned(void *block);
/* For tests: the least bytes of a large block, 64 MiB by default. */
void vae_cuda_map_from(size_t bytes);

/* cuda/record.c. */
/* Loads the code of all ops of a program. The library loads the code of a layer
 * only when it runs, so each layer runs once, for a few rows; own kernels do
 * not run. Otherwise the first run would load the code, which cannot be
 * recorded and delays the first slice. */
VaeStatus vae_cuda_load(VaeBackend *cuda, VaeCudaExec *e, VaeError *error);
/* The first adds a bound program to those that are recorded after the next run,
 * while the device computes. The second removes one, for offloading. */
void vae_cuda_record_later(VaeBackend *cuda, VaeCudaExec *e);
void vae_cuda_record_never(VaeBackend *cuda, const VaeCudaExec *e);
VaeStatus vae_cuda_record(VaeBackend *cuda, VaeError *error);

/* cuda/run.c. */
VaeStatus vae_cuda_run(VaeBackend *cuda, VaeExec *exec, const VaeRun *run,
                       VaeError *error);

/* cuda/ops.c. */
VaeStatus vae_cuda_run_ops(VaeExec *exec, int from, int to, const VaeRun *run,
                           VaeCudaSlot *slot, VaeError *error);
/* Joins the phases of part i of the result. */
void vae_cuda_join_phases(const VaeCudaOp *own, const VaeOp *op, int i);
/* A VaeExecOp.run; own is a VaeCudaOp. */
VaeStatus vae_cuda_run_conv(void *own, const VaeOp *op, VaeError *error);
/* Makes the events that time each op, or frees them. If there is no memory for
 * them, runs are not timed. */
void vae_cuda_profile(VaeExec *exec, bool on);

#endif

/*
 * gpu.h: what the files of the CUDA backend share. They speak to the
 * device only through cuda_rt.h, cuda/conv/convs.h and the kernels' table.
 *
 * Three streams: up copies what comes in, compute runs the programs, down
 * copies what goes out. A run takes a slot of the staging ring, enqueues all
 * its work and returns; results are handed to the caller when the slot is
 * needed again or by finish().
 */
#ifndef VAE_BACKEND_CUDA_H
#define VAE_BACKEND_CUDA_H

#include <pthread.h>

#include "executor.h"
#include "layers.h"
#include "cuda_rt.h"
#include "plan_cache.h"

/* Runs in flight: one computes while another goes in or out. */
#define VAE_CUDA_SLOTS 2

extern const VaeBackendClass vae_backend_cuda;

/* One latent or picture on its way: as the caller has it, and on the device.
 * A picture without data is not on its way. */
typedef struct VaeCudaUnit {
    VaeLatentOut latent, device_latent;
    VaeLatentIn device_read; /* device_latent, for kernels that read it */
    VaePicture picture, device_picture;
    size_t elements; /* of a latent */
} VaeCudaUnit;

/*
 * One run on its way. A block of the host and its copy on the device have the
 * same layout: `in` begins with the latents' statistics, `out` with a counter;
 * then come the units.
 */
typedef struct VaeCudaSlot {
    uint8_t *host_in, *host_out, *device_in, *device_out;
    size_t out_used;
    VaeRtEvent begun, uploaded, started, computed, downloaded;
    VaeCudaUnit *in, *out;
    int n_out;
    VaeStreamStats *stats; /* the caller's */
    bool busy;
} VaeCudaSlot;

typedef struct VaeCudaBlock VaeCudaBlock;

/* Which weights are loaded: streams of both alike, and of one precision, have
 * the same. */
typedef struct VaeCudaLoad {
    const VaeWeightCache *cache;
    bool decode;
} VaeCudaLoad;

/* How a layer is computed; one per layer of all programs. */
typedef struct VaeCudaLayer {
    char name[VAE_CUDA_LAYER_NAME];
    VaeCudaChoice choice;
    bool timed; /* now or by an earlier start; else guessed */
} VaeCudaLayer;

struct VaeBackend {
    VaeBackendParams params;
    int number; /* of the device */
    VaeRtDevice device;
    VaeCudaConvs *convs;
    VaeRtStream up, compute, down;

    VaeRoom room; /* while weights are made */
    VaeCudaLoad load;
    VaeCudaBlock *block; /* that they go into, or NULL */
    size_t pieces;       /* bytes of those that are still to come */

    VaeCudaLayer *layers;
    int n_layers, layers_room;
    VaeCudaStore *store; /* NULL until it is asked, and where none is used */

    VaeCudaSlot slots[VAE_CUDA_SLOTS];
    int next; /* slot of the next run */
    size_t in_bytes, out_bytes;
    int room_in, room_out; /* units */
};

typedef struct VaeCudaExec VaeCudaExec;

/* Of an op, beside its VaeExecOp. */
typedef struct VaeCudaOp {
    VaeCudaExec *exec;
    VaeCudaParts conv;
    size_t phases; /* where in the scratch they are, if it has any */
    VaeCachedWeight *offloaded_weight, *offloaded_bias; /* or NULL */
    char impl[VAE_CUDA_CHOICE + 8];
} VaeCudaOp;

struct VaeCudaExec {
    VaeExec exec;
    VaeBackend *cuda;
    VaeWeightCache *cache; /* NULL: only to plan; weights are not used */
    VaeCudaOp *ops;
    size_t in_bytes, out_bytes; /* of one slot */
    VaeRtGraph graph;           /* of all ops but the first and last, or NULL */
    bool loaded;                /* it ran: libraries have their code */
    VaeRtEvent *marks;          /* n_ops + 1, while times are taken */
};

static inline VaeCudaExec *
vae_cuda_exec(VaeExec *exec)
{
    return (VaeCudaExec *) exec;
}

/* Held while a stream records and where a library waits for a whole device, by
 * any thread: then the wait fails, and so does the recording. */
extern pthread_mutex_t vae_cuda_recording;

/* VAE_OK for code 0, else VAE_ERR_BACKEND or VAE_ERR_MEMORY: "cannot DOING:
 * words". */
VaeStatus vae_cuda_status(const VaeBackend *cuda, int code, const char *doing,
                          VaeError *error);

/* cuda/prepare.c: entries of the class. */
VaeStatus vae_cuda_prepare(VaeBackend *cuda, VaeWeightCache *cache,
                           const VaeProgram *program, VaeExec **out,
                           VaeError *error);
void vae_cuda_exec_free(VaeBackend *cuda, VaeExec **exec);
VaeStatus vae_cuda_bind(VaeBackend *cuda, VaeExec *exec,
                        const VaeMemory *memory, VaeError *error);

/* cuda/weight.c: op's weight, or its bias, on the device: in the types
 * of its tensors for a convolution, which gets zeros where it has no bias, else
 * in fp32. *out stays where op has none. Without a cache it only counts the
 * bytes. */
VaeStatus vae_cuda_weight(VaeCudaExec *exec, const VaeOp *op, bool bias,
                          const void **out, VaeError *error);
/* Bytes, as pieces, of those of the program that are not on the device or rest;
 * 0 where there is no memory to count them. */
size_t vae_cuda_missing_bytes(VaeBackend *cuda, VaeWeightCache *cache,
                              const VaeProgram *program);

/* cuda/suballoc.c: between begin and end, pieces that are taken lie behind
 * each other in blocks, the next of which has room for what the program lacks;
 * more may be taken. A block lives as long as one of its pieces. Whoever takes
 * one holds the model's lock. */
void vae_cuda_suballoc_begin(VaeBackend *cuda, VaeWeightCache *cache,
                             const VaeProgram *program);
void vae_cuda_suballoc_end(VaeBackend *cuda);
/* Device memory, 256-byte aligned, or NULL; user: the VaeBackend. */
void *vae_cuda_suballoc(size_t bytes, void *user);
void vae_cuda_suballoc_free(void *piece, int device);
/* What a piece takes of its block. */
size_t vae_cuda_suballoc_bytes(size_t bytes);

/* Elements from one phase of op's weight to the next: libraries are told that
 * weights begin at multiples of 16 bytes, whatever the type. */
size_t vae_cuda_phase_room(const VaeOp *op);

/* cuda/conv/measure.c: the index of the fastest of n choices and its ms, the
 * least of some runs; -1 where nothing could be timed, after which
 * vae_rt_failure() tells no more of it. */
int vae_cuda_fastest(VaeBackend *cuda, const VaeCudaConvShape *shape,
                     const VaeCudaChoice *choices, int n, float *best);
/* cuda/rates.c: an entry of the class. */
VaeStatus vae_cuda_rates(VaeBackend *cuda, VaePrecision precision,
                         VaeRates *out, VaeError *error);

/* cuda/conv/autotune.c: how the layer of that convolution is computed; chosen
 * when first asked for: as the store says, else by timing (time) or by guess.
 * A deterministic backend guesses. */
VaeStatus vae_cuda_layer_choice(VaeBackend *cuda, const VaeCudaConvShape *shape,
                                bool time, VaeCudaChoice *out, VaeError *error);
/* Stores what was timed; once for a program. */
void vae_cuda_layers_keep(VaeBackend *cuda);

/* cuda/staging.c. */
/* Sets in_bytes, out_bytes and staging of exec. */
void vae_cuda_stage_plan(const VaeBackend *cuda, VaeCudaExec *exec);
/* Lets every slot hold what exec needs. */
VaeStatus vae_cuda_stage_take(VaeBackend *cuda, const VaeCudaExec *exec,
                              VaeError *error);
void vae_cuda_stage_free(VaeBackend *cuda);
/* Gives back what lies on the device, until vae_cuda_stage_take(). The pinned
 * memory of the host stays: to pin it anew takes longer than all the copies. */
void vae_cuda_stage_offload(VaeBackend *cuda);
/* The next slot, its earlier results handed over; what comes in is on its way
 * and compute waits for it. */
VaeStatus vae_cuda_stage_in(VaeBackend *cuda, const VaeExec *exec,
                            const VaeRun *run, VaeCudaSlot **out,
                            VaeError *error);
/* Starts what goes out when compute has come here. */
VaeStatus vae_cuda_stage_out(VaeBackend *cuda, VaeCudaSlot *slot,
                             VaeError *error);
/* The class's finish(): hands over results, oldest first. */
VaeStatus vae_cuda_stage_finish(VaeBackend *cuda, int left, bool keep,
                                VaeError *error);
/* Device addresses of statistic i (0 scale, 1 shift, 2 mean, 3 std) and of the
 * counter of values that are not finite. */
const float *vae_cuda_stage_statistic(const VaeCudaSlot *slot, int i);
uint64_t *vae_cuda_stage_counter(const VaeCudaSlot *slot);

/* cuda/offload.c: entries of the class. */
VaeStatus vae_cuda_offload(VaeBackend *cuda, VaeExec *exec, VaeError *error);
VaeStatus vae_cuda_reload(VaeBackend *cuda, VaeExec *exec, VaeError *error);
VaeStatus vae_cuda_copy(VaeBackend *cuda, void *dst, const void *src,
                        size_t bytes, VaeError *error);
/* Exec, which has a model, uses its weights no more. */
void vae_cuda_release_weights(VaeBackend *cuda, VaeCudaExec *exec);

/* cuda/run.c: entries of the class. */
VaeStatus vae_cuda_run(VaeBackend *cuda, VaeExec *exec, const VaeRun *run,
                       VaeError *error);
VaeStatus vae_cuda_run_ops(VaeExec *exec, int from, int to, const VaeRun *run,
                           VaeCudaSlot *slot, VaeError *error);
/* A VaeExecOp.run; own is a VaeCudaOp. */
VaeStatus vae_cuda_run_conv(void *own, const VaeOp *op, VaeError *error);
void vae_cuda_profile(VaeExec *exec, VaeOpTime *rows);

#endif

/*
 * stream.h: the inside of a stream, for its own files.
 */
#ifndef VAE_STREAM_INTERNAL_H
#define VAE_STREAM_INTERNAL_H

#include <stdatomic.h>

#include "backend.h"
#include "carries.h"
#include "model.h"

enum { FIRST, NEXT, NEXT1, COLD, PROGRAMS };

/* The labels of programs. */
extern const char *const vae_stream_labels[PROGRAMS];

/* Calls of which it is known when they are done. */
#define VAE_STREAM_CALLS 8

/* Units that were sent and not computed, or computed and not received. */
typedef struct VaeWaiting VaeWaiting;

struct VaeStream {
    VaeModel *model;
    VaeStreamParams params;
    VaeSteps steps;
    VaePlan plan;

    const VaeBackendClass *class;
    VaeBackend *backend;
    VaeBackend *borrowed; /* backend, where it is another stream's */
    char device[128];     /* its name */
    char why[512]; /* why AUTO took the precision; empty: it was asked for */
    VaeProgram *programs[PROGRAMS];
    VaeExec *execs[PROGRAMS];
    VaeCarryBlock carries;
    VaeMemory memory;
    bool released; /* memory is empty, the execs are offloaded */

    bool at_start, cold, broken;
    uint64_t runs;                   /* begun */
    uint64_t ends[VAE_STREAM_CALLS]; /* runs at the end of the last calls */
    uint64_t calls;
    int step;         /* programs run since the sequence began */
    uint64_t latents; /* in or out since then */
    bool from_cold;   /* the sequence began by a restart, at the latent */
    uint64_t origin;
    atomic_bool cancel;
    bool normalise; /* latents are not as the network has them: those are
                       v * std + mean */
    float std[VAE_MAX_LATENT_CHANNELS], mean[VAE_MAX_LATENT_CHANNELS];
    float scale[VAE_MAX_LATENT_CHANNELS], shift[VAE_MAX_LATENT_CHANNELS];
    VaeStreamStats stats;
    VaeWaiting *waiting; /* stream/send_receive.c's, or NULL */

    /* stream/nan.c's. */
    VaeStream *fallback;    /* in fp32, for steps that went wrong, or NULL */
    VaeStream *fallback_of; /* who is cancelled in its place, or NULL */
    bool in_fallback;       /* only the fallback has the carries */
    uint8_t *result;        /* results of a run, of a device */
    uint64_t before;        /* stats.nonfinite before the run */
    VaeOpTime *times[PROGRAMS];
};

/* stream/send_receive.c. */
void vae_stream_clear_waiting(VaeStream *s);
void vae_stream_free_waiting(VaeStream *s);

/* stream/run.c: the stream has that direction and was not broken off. */
VaeStatus vae_stream_check_state(const VaeStream *s, VaeDirection direction,
                                 VaeError *error);

/* stream/precision.c: where the backend can time it, sets plan.precision for
 * AUTO, or warns of a slow one. The backend is open, nothing is planned yet. */
void vae_stream_settle_precision(VaeStream *s);

static inline const char *
vae_stream_direction(const VaeStream *s)
{
    return s->params.direction == VAE_DECODE ? "decode" : "encode";
}

/* The plan of a stream of s's model with these params, where it fits; quiet
 * otherwise. On the host it uses s's backend: its threads have taken what a
 * limit on the process leaves for threads. */
bool vae_stream_fits(const VaeStream *s, const VaeStreamParams *params,
                     VaePlan *out);
/* VAE_ERR_MEMORY: what the plan wants of `limit` bytes, and what would fit.
 * own: the process's limits leave no more. */
VaeStatus vae_stream_does_not_fit(const VaeStream *stream, uint64_t limit,
                                  bool own, VaeError *error);

/* Takes the blocks of the plan and binds the execs to them; on an error some
 * may be taken. */
VaeStatus vae_stream_take_memory(VaeStream *stream, VaeError *error);
void vae_stream_free_memory(VaeStream *stream);

/* What a run reads and writes; the latents of one direction are NULL. */
typedef struct VaeUnits {
    const VaeLatentIn *in;
    const VaeLatentOut *out;
    const VaePicture *pictures;
} VaeUnits;

static inline void
vae_units_skip(const VaeStream *s, VaeUnits *units, int n_in, int n_out)
{
    if (s->params.direction == VAE_DECODE)
        units->in += n_in;
    else
        units->out += n_out;
    units->pictures += s->params.direction == VAE_DECODE ? n_out : n_in;
}

/* stream/run.c: one run of a program; and its place in the sequence, after. */
VaeStatus vae_stream_run_exec(VaeStream *stream, int which,
                              const VaeUnits *units, VaeError *error);
void vae_stream_count_run(VaeStream *stream, int which);

/* stream/nan.c: both, with what params.nan_policy wants, which is not PASS.
 */
VaeStatus vae_stream_run_guarded(VaeStream *stream, int which,
                                 const VaeUnits *units, VaeError *error);
/* Bytes of the largest result that is looked at. */
size_t vae_stream_result_bytes(const VaeStream *stream);

#endif

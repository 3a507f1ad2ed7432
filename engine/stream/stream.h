/*
 * stream.h: the inside of a stream.
 */
#ifndef VAE_STREAM_INTERNAL_H
#define VAE_STREAM_INTERNAL_H

#include <stdatomic.h>

#include "backend.h"
#include "blend.h"
#include "carries.h"
#include "model.h"

/* The programs of a picture, or of a tile of full size, come first. Behind them
 * are the same of the other shapes of tiles. */
enum { FIRST, NEXT, NEXT1, COLD, KINDS, PROGRAMS = KINDS * VAE_TILE_SHAPES };

/* The labels of programs. */
extern const char *const vae_stream_labels[KINDS];

/* The number of calls in flight that vae_stream_wait() can tell apart. */
#define VAE_STREAM_CALLS 8

/* Units that were sent and not computed, or computed and not received. */
typedef struct VaeWaiting VaeWaiting;

/* A setting that a stream may take to fit in memory. */
typedef struct VaeRung {
    int slice;        /* steps */
    int group;        /* frames at once, see split.h; 0: all */
    int strips;       /* of rows, at most; 0: none */
    uint64_t spared;  /* bytes of carries, at least, that are spilled */
    uint64_t windows; /* bytes, at most, that the arena grows by so that copies
                         of spilled carries take place beside the ops */
} VaeRung;

/* nan.c's: the last run whose result is checked, and the stream before it. */
typedef struct VaeGuard {
    bool pending; /* it was not looked at yet */
    bool singly;  /* each run is looked at before the next */
    int which, step, drained;
    uint64_t runs, latents;
    uint64_t bad;       /* the number of the result's non-finite values */
    uint64_t nonfinite; /* stats.nonfinite before the run */
    /* Copies of the units of a run in flight. */
    VaeLatentIn *in;
    VaeLatentOut *out;
    VaePicture *pictures;
    uint8_t *data; /* of input that is copied */
    size_t latent_bytes, picture_bytes;
    size_t room_latents, room_pictures;
} VaeGuard;

/* tiles.c's, in host memory. */
typedef struct VaeTileMemory {
    uint8_t *carries; /* tile after tile; NULL: not taken */
    uint8_t *block;   /* of all that follows; NULL: not taken */
    /* Of one tile: latents in, results out (an encoder's have logvar behind
     * them), and an encoder's result as (h, w, c). */
    float *latents, *results, *pixels;
    float *whole, *above, *left; /* see blend.h; for each unit out */
    VaeLatentIn *in;             /* units of one tile */
    VaeLatentOut *out;
    VaePicture *pictures;
} VaeTileMemory;

struct VaeStream {
    VaeModel *model;
    VaeStreamParams params;
    VaeSteps steps;
    VaePlan plan;
    VaeRung rung;      /* of the programs */
    uint64_t refused;  /* peak of the rung above, which was refused memory; 0:
                          none was */
    bool rough;        /* the programs give only sizes, see VAE_BUILD_ROUGH */
    bool lowers_slice; /* the ladder has smaller slices than the caller set */
    VaePlan least;     /* of all that were too large; peak 0: none was */
    bool least_is_prepared;
    bool too_large; /* no rung fits in so many bytes */
    uint64_t limit;
    bool own_limit; /* of the process (ulimit) */

    const VaeBackendClass *class;
    VaeBackend *backend;
    const VaeStream *borrowed; /* the stream that owns backend, or NULL */
    VaeDevice device;          /* its name and threads */
    char why[512]; /* why AUTO chose the precision; empty: it was set */
    VaeProgram *programs[PROGRAMS];
    VaeExec *execs[PROGRAMS];
    VaeCarryStore carries;
    VaeCarrySet tile_sets[VAE_TILE_SHAPES - 1]; /* of the other shapes */
    VaeTileGrid grid;                           /* of tiles, or columns 0 */
    VaeTileMemory tiles;
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
    bool normalise; /* the network's latents are v * std + mean */
    float std[VAE_MAX_LATENT_CHANNELS], mean[VAE_MAX_LATENT_CHANNELS];
    float scale[VAE_MAX_LATENT_CHANNELS], shift[VAE_MAX_LATENT_CHANNELS];
    VaeStreamStats stats;
    uint64_t sequences;  /* begun by a reset or a restart */
    VaeWaiting *waiting; /* send_receive.c's, or NULL */

    /* nan.c's. */
    VaeStream *fallback;    /* in fp32, for non-finite steps, or NULL */
    VaeStream *fallback_of; /* of a fallback: its stream, else NULL */
    bool in_fallback;       /* only the fallback has the carries */
    VaeGuard guard;
    VaeOpTime *times[PROGRAMS];

    /* delay.c's. */
    uint64_t began;          /* the latent that the delay lines began with */
    bool began_cold;         /* by a restart */
    bool ended;              /* the end of the sequence is drained */
    int drained;             /* steps of that until now */
    VaePicture *slots;       /* of a run; NULL without delay and chunks */
    VaeLatentIn *no_latents; /* without data, for the end */
};

/* send_receive.c. */
void vae_stream_free_waiting(VaeStream *s);

/* calls.c: the stream has that direction and was not broken off. */
VaeStatus vae_stream_check_state(const VaeStream *s, VaeDirection direction,
                                 VaeError *error);
/* The number of steps that take n_in units, or -1 if it is not whole. */
int vae_stream_steps_of(const VaeStream *stream, int n_in);
VaeStatus vae_stream_check_pictures(const VaeStream *s,
                                    const VaePicture *pictures, int n,
                                    VaeError *error);
/* Checks the state, the counts and the pictures. */
VaeStatus vae_stream_check_call(const VaeStream *s, VaeDirection direction,
                                int n_in, int n_out, const VaePicture *pictures,
                                VaeError *error);

/* How a stream is opened. */
typedef struct VaeTerms {
    const VaeStream *borrowed; /* use the backend of this stream; or NULL */
    bool all_rungs; /* tries all, so that an error names the smallest plan */
    bool make;      /* allocate memory next; false: only plan */
} VaeTerms;
/* stream.c: chooses the backend and the rung; the stream has no memory yet.
 * After an error, *out is NULL or can only be freed. */
VaeStatus vae_stream_open(VaeModel *model, const VaeStreamParams *params,
                          const VaeTerms *terms, VaeStream **out,
                          VaeError *error);
/* Plans a stream of s's model with these params. False: it does not fit. On the
 * host it uses s's backend, because a limit of the process may leave no memory
 * for more threads. */
bool vae_stream_fits(const VaeStream *s, const VaeStreamParams *params,
                     VaePlan *out);

/* choose.c: chooses and opens the backend, and sets plan.precision. */
VaeStatus vae_stream_choose_backend(VaeStream *s, VaeError *error);
/* Warns of a slow precision that the caller asked for. */
void vae_stream_warn_of_precision(VaeStream *s);

static inline const char *
vae_stream_direction(const VaeStream *s)
{
    return s->params.direction == VAE_DECODE ? "decode" : "encode";
}

/* ROUGH: only for the sizes. As if the backend could compute all strips, which
 * takes long to ask; and of tiles only the largest are planned. */
typedef enum VaeBuildHow { VAE_BUILD_EXACT, VAE_BUILD_ROUGH } VaeBuildHow;
/* programs.c: records, fuses and plans the programs of a rung. Those of
 * before are dropped. On an error there are none. */
VaeStatus vae_stream_build(VaeStream *s, VaeRung rung, VaeBuildHow how,
                           VaeError *error);
/* Prepares the programs, anew where they are. cache NULL: only sizes, no weight
 * is made. */
VaeStatus vae_stream_prepare(VaeStream *s, VaeWeightCache *cache,
                             VaeError *error);
void vae_stream_drop_programs(VaeStream *s);
/* Allocates the memory of the plan and binds the execs to it. On an error some
 * may be allocated. */
VaeStatus vae_stream_take_memory(VaeStream *stream, VaeError *error);
void vae_stream_free_memory(VaeStream *stream);
/* Also builds the programs if they were dropped, and makes the weights and
 * allocates the memory of the plan. On an error all is
 * freed, and the programs are dropped. */
VaeStatus vae_stream_take(VaeStream *s, VaeError *error);

/* ladder.c: chooses the rung and fills the plan; allocates no memory of
 * the stream. make: the memory is taken next, so that no more than
 * what is free counts. all: also tries rungs that are known not to fit, so that
 * s->least is the smallest plan. An error that sets s->too_large: none fits. */
VaeStatus vae_stream_choose_rung(VaeStream *s, bool make, bool all,
                                 VaeError *error);
/* Drops the programs, and takes the next rung that the caller's settings allow:
 * a smaller slice size, strips and fewer frames at once, then all carries
 * spilled. False: there is none. why: goes to the log. */
bool vae_stream_step_down(VaeStream *s, const VaeError *why);
/* For a new sequence: if a rung was refused memory and now there is enough,
 * chooses the rung anew. The memory is freed, and the next call takes it. */
void vae_stream_step_up(VaeStream *s);
/* vae_stream_take(), also of the fallback. Where memory is refused, the next
 * rung is taken. */
VaeStatus vae_stream_make(VaeStream *s, VaeError *error);

/* The rungs of the ladder, the fastest first. Returns their number. */
int vae_stream_list_rungs(const VaeStream *s, VaeRung rungs[VAE_RUNGS]);
/* tell.c: plans them, and leaves out those that are no setting of their own.
 * exact: as the backend prepares them, which takes long. Else only the
 * activations and carries are exact. */
int vae_stream_plan_rungs(const VaeStream *s, bool exact,
                          VaeRungPlan rungs[VAE_RUNGS]);
/* Logs the resulting settings; and what each rung would take, with the cost of
 * a step. */
void vae_stream_tell(const VaeStream *s);
void vae_stream_tell_ladder(const VaeStream *s);
/* Warns that tiles are not exact, and of smaller slices than the caller set. */
void vae_stream_warn_of_setting(const VaeStream *s);

/* fit.c: returns VAE_ERR_MEMORY with the plan, the limit, and settings that
 * would fit, for a stream that is too large. */
VaeStatus vae_stream_does_not_fit(const VaeStream *s, VaeError *error);

/* offload.c: frees the memory of a device, until vae_stream_resume(). No run is
 * in flight. */
VaeStatus vae_stream_offload(VaeStream *s, VaeError *error);

/* delay.c. */
bool vae_stream_has_delay(const VaeStream *s);

/*
 * tiles.c: a picture that is computed in tiles, which is not exact. All
 * shapes of tiles share the arena, the scratch and the memory of the carries. A
 * step computes one tile after another: the carries of the tile are copied from
 * the host, a program runs, and they are copied back. The results are blended
 * in host memory.
 */
static inline bool
vae_stream_has_tiles(const VaeStream *s)
{
    return s->grid.columns > 0;
}
static inline VaeCarrySet *
vae_stream_carry_set(VaeStream *s, int shape)
{
    return shape ? &s->tile_sets[shape - 1] : &s->carries.set;
}
/* True if the caller leaves the size of tiles to the stream. */
static inline bool
vae_stream_may_tile(const VaeStreamParams *p)
{
    return p->tiles && !p->tile_width && !p->tile_height;
}
/* Checks the params, and sets the grid that they ask for. */
VaeStatus vae_stream_set_tiles(VaeStream *s, VaeError *error);
/* The next smaller tiles of a stream that may choose them; false: none. */
bool vae_stream_shrink_tiles(VaeStream *s);
/* The carries of a tile; and where they are among those of all, which is the
 * end for the number of tiles. */
const VaeCarrySet *vae_stream_tile_carries(const VaeStream *s, int tile,
                                           size_t *at);
/* carry_items.c: one of all carries, those of the picture or of tile after
 * tile, and where it is in a block of all. */
typedef struct VaeCarryItem {
    const VaeCarry *carry;
    size_t at;
    char name[256];
} VaeCarryItem;
int vae_carry_items(const VaeStream *s);
void vae_carry_item_at(const VaeStream *s, int i, VaeCarryItem *out);
size_t vae_carry_items_bytes(const VaeStream *s);
/* Bytes of host memory for all tiles. The programs are built. */
size_t vae_stream_tiled_bytes(const VaeStream *s);
VaeStatus vae_stream_take_tiles(VaeStream *s, VaeError *error);
/* Frees all but the carries; and the carries, too. */
void vae_stream_drop_tiles(VaeStream *s);
void vae_stream_free_tiles(VaeStream *s);
/* Runs one program for all tiles; run is that of the whole picture. */
VaeStatus vae_stream_run_tiles(VaeStream *s, int which, const VaeRun *run,
                               VaeError *error);

/* The copies of the carries to go back to; returns their number. */
static inline int
vae_stream_snapshots(const VaeStream *s, bool which[VAE_SNAPSHOTS])
{
    which[VAE_BEFORE_RUN] = s->fallback != NULL;
    which[VAE_BEFORE_GUESS] = s->params.low_latency;
    return which[VAE_BEFORE_RUN] + which[VAE_BEFORE_GUESS];
}

/* The units of a run. One of in and out is NULL. */
typedef struct VaeUnits {
    const VaeLatentIn *in;
    const VaeLatentOut *out;
    const VaePicture *pictures;
    /* With a delay: the number of the frame of pictures[0], and those that are
     * given out now: from..until-1. */
    int64_t base, from, until;
} VaeUnits;

static inline void
vae_units_skip(const VaeStream *s, VaeUnits *units, int n_in, int n_out)
{
    if (s->params.direction == VAE_ENCODE)
        units->out += n_out;
    else if (!s->ended)
        units->in += n_in;
    if (vae_stream_has_delay(s))
        return;
    units->pictures += s->params.direction == VAE_DECODE ? n_out : n_in;
}

/* exec.c: runs a program; and counts it in the sequence afterwards. */
VaeStatus vae_stream_run_exec(VaeStream *stream, int which,
                              const VaeUnits *units, VaeError *error);
void vae_stream_count_run(VaeStream *stream, int which);

/* delay.c: the place of the next run. */
VaeClock vae_stream_clock(const VaeStream *s);
/* Frames that the next steps give. */
int vae_stream_frames_after(const VaeStream *s, int steps);
/* Sets units->from and until for the next steps; nothing without a delay. */
void vae_stream_set_frames(const VaeStream *s, VaeUnits *units, int steps);
/* The pictures and the clock of a run of a program with delay lines. */
void vae_stream_place_frames(const VaeStream *s, const VaeProgram *p,
                             const VaeUnits *units, VaeRun *run);
/* Zeroes what no frame depends on in a copy of the carries, as they are before
 * the run at that clock. */
void vae_stream_clear_unused(const VaeStream *s, const VaeClock *next,
                             uint8_t *carries);
/* True if the last run, of that program, gave frames before the first one,
 * which are not counted, so that a number that is not finite may be in the
 * carries alone. clock: of the next run. */
bool vae_stream_is_early(const VaeStream *s, const VaeProgram *p,
                         VaeClock clock);
/* nan.c: does both, for a params.nan_policy other than PASS. A run on a
 * device may still be in flight then; the next call settles it. */
VaeStatus vae_stream_run_guarded(VaeStream *stream, int which,
                                 const VaeUnits *units, VaeError *error);
/* Looks at the result of the last guarded run, if that was not done yet, and
 * computes it again if it must be. */
VaeStatus vae_stream_settle(VaeStream *stream, VaeError *error);
/* guard.c: forgets that run; and takes, or frees, memory for the units
 * of runs. */
void vae_stream_forget_guarded(VaeStream *stream);
VaeStatus vae_stream_guard_take(VaeStream *stream, VaeError *error);
void vae_stream_guard_free(VaeStream *stream);
/* Copies the units of a run, as far as they are looked at when it has ended.
 * False: it must be looked at before the call returns. */
bool vae_stream_copy_units(VaeStream *stream, const VaeProgram *program,
                           const VaeUnits *units);
VaeUnits vae_stream_copied_units(const VaeStream *stream);
size_t vae_stream_latent_elements(const VaeStream *stream);

#endif

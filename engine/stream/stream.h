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
#include "sequence.h"

/* The number of programs: first those of the picture, or of a tile of full
 * size, then those of the other shapes of tiles. */
#define PROGRAMS (KINDS * VAE_TILE_SHAPES)

/* The labels of programs. */
extern const char *const vae_stream_labels[KINDS];

/* The number of calls in flight that vae_stream_wait() distinguishes. */
#define VAE_STREAM_CALLS 8

/* Units that were sent and not computed, or computed and not received. */
typedef struct VaeWaiting VaeWaiting;

/* A rung of the ladder: a setting with which a stream may fit in memory. */
typedef struct VaeRung {
    int slice;        /* steps */
    int group;        /* frames computed at once, see split.h; 0: all */
    int strips;       /* most strips of rows, see strips.h; 0: none */
    uint64_t spared;  /* least bytes of carries that are spilled */
    uint64_t windows; /* most bytes by which windows extend the arena */
} VaeRung;

/* nan.c: the last guarded run. */
typedef struct VaeGuard {
    bool pending;       /* the result is not checked yet */
    bool singly;        /* each run is checked before the next begins */
    int which;          /* its program */
    VaeSequence before; /* the place before the run */
    uint64_t bad;       /* number of non-finite values of the result */
    uint64_t nonfinite; /* value of stats.nonfinite before the run */
    /* Copies of the units of a run in flight. */
    VaeLatentIn *in;
    VaeLatentOut *out;
    VaePicture *pictures;
    uint8_t *data; /* memory of `in` and of pictures */
    size_t latent_bytes, picture_bytes;
    size_t room_latents, room_pictures;
} VaeGuard;

/* tiles.c: host memory for tiles. */
typedef struct VaeTileMemory {
    uint8_t *carries; /* tile after tile; NULL: not allocated */
    uint8_t *block; /* memory of all members that follow; NULL: not allocated */
    /* Memory of one tile: latents in, results out (for an encoder with logvar
     * behind them), and an encoder's result as (h, w, c). */
    float *latents, *results, *pixels;
    float *whole, *above, *left; /* see blend.h; for each unit out */
    VaeLatentIn *in;             /* units of one tile */
    VaeLatentOut *out;
    VaePicture *pictures;
} VaeTileMemory;

/* doubts.c: what is known of the input so far. */
typedef struct VaeDoubts {
    bool begun;    /* the stream had input */
    int judged;    /* latents of the sequence, or pictures of the stream */
    bool told;     /* the doubt that these look like something else */
    bool varies;   /* a unit has several values, or this doubt was told */
    uint64_t same; /* units so far, if each has one value */
} VaeDoubts;

struct VaeStream {
    VaeModel *model;
    VaeStreamParams params;
    VaeSteps steps;
    VaePlan plan;
    VaeRung rung;      /* of the programs */
    uint64_t refused;  /* peak of the larger rung whose allocation was refused;
                          0: none was */
    bool rough;        /* the programs give only sizes, see VAE_BUILD_ROUGH */
    bool lowers_slice; /* the ladder has smaller slices than the caller set */
    VaePlan least; /* the smallest plan that was too large; peak 0: none was */
    bool least_is_prepared;
    bool too_large; /* no rung fits in the limit */
    bool few_rungs; /* VaeTerms.few_rungs */
    uint64_t limit;
    bool own_limit; /* the limit is that of the process (ulimit) */

    const VaeBackendClass *class;
    VaeBackend *backend;
    const VaeStream *borrowed; /* the stream that owns backend, or NULL */
    VaeDevice device;          /* name and threads of the backend's device */
    char why[512]; /* why AUTO chose the precision; empty: it was set */
    VaeOpening opening;
    VaeProgram *programs[PROGRAMS];
    VaeExec *execs[PROGRAMS];
    VaeCarryStore carries;
    VaeCarrySet
        tile_sets[VAE_TILE_SHAPES - 1]; /* of the other shapes of tiles */
    VaeTileGrid grid;                   /* of tiles, or columns 0 */
    VaeTileMemory tiles;
    VaeMemory memory;

    VaeSequence at;
    uint64_t runs;                   /* begun */
    uint64_t ends[VAE_STREAM_CALLS]; /* value of `runs` at the end of each of
                                        the last calls */
    uint64_t calls;
    atomic_bool cancel;
    bool normalise; /* the network reads or writes v * std + mean */
    float std[VAE_MAX_LATENT_CHANNELS], mean[VAE_MAX_LATENT_CHANNELS];
    float scale[VAE_MAX_LATENT_CHANNELS], shift[VAE_MAX_LATENT_CHANNELS];
    VaeStreamStats stats;
    VaeDoubts doubts;
    uint64_t sequences;  /* begun by a reset or a restart */
    VaeWaiting *waiting; /* send_receive.c; or NULL */

    /* nan.c. */
    VaeStream *fallback;    /* in fp32, for non-finite steps, or NULL */
    VaeStream *fallback_of; /* NULL: this stream is no fallback */
    VaeGuard guard;
    VaeOpTime *times[PROGRAMS];

    /* delay.c. */
    VaePicture *slots; /* pictures of a run; NULL without delay and chunks */
    VaeLatentIn *no_latents; /* latents without data, for runs of the end */
};

/* The channels of the network's pictures: 3, or 4 with alpha. */
static inline int
vae_stream_pixel_floats(const VaeStream *s)
{
    const VaeModelInfo *info = &s->model->info;
    return s->params.direction == VAE_DECODE ? info->out_channels
                                             : info->in_channels;
}

/* The format that holds all of the network's values. */
static inline VaePixels
vae_stream_floats(const VaeStream *s)
{
    return vae_stream_pixel_floats(s) == 4 ? VAE_PIXELS_RGBA_F32
                                           : VAE_PIXELS_RGB_F32;
}

/* The widest format of pictures that the backend converts. */
static inline VaePixels
vae_stream_widest(const VaeStream *s)
{
    return s->params.tiles || s->params.pixels == VAE_PIXELS_RGB_F32
               ? vae_stream_floats(s)
               : s->params.pixels;
}

/* send_receive.c. */
void vae_stream_free_waiting(VaeStream *s);

/* waiting.c: the numbers of units that were sent and not computed, and that
 * were computed and not received. */
void vae_stream_count_waiting(const VaeStream *s, int *sent, int *made);
/* True if the end of the sequence was sent. */
bool vae_stream_end_was_sent(const VaeStream *s);

/* calls.c: checks that the stream has that direction and is not broken. */
VaeStatus vae_stream_check_state(const VaeStream *s, VaeDirection direction,
                                 VaeError *error);
/* The latents of a decoder, or the frames of an encoder, that the stream takes
 * for the first latents of a sequence. */
uint64_t vae_stream_units_before(const VaeStream *s, uint64_t latents);
/* The number of steps that read n_in units; -1: not a whole number of steps. */
int vae_stream_steps_of(const VaeStream *stream, int n_in);
VaeStatus vae_stream_check_pictures(const VaeStream *s,
                                    const VaePicture *pictures, int n,
                                    VaeError *error);
VaeStatus vae_stream_check_latent(VaeType type, const void *data,
                                  VaeError *error);
/* Fails if units wait that were sent, or that are to be received. */
VaeStatus vae_stream_check_waiting(const VaeStream *s, VaeError *error);

/* Options for opening a stream. */
typedef struct VaeTerms {
    const VaeStream *borrowed; /* uses the backend of this stream, or NULL */
    bool all_rungs; /* tries all, so that an error names the smallest plan */
    bool few_rungs; /* tries only the smallest rungs: a rung takes seconds */
    bool make;      /* the memory is allocated next; false: only plans */
} VaeTerms;
/* stream.c: chooses the backend and the rung; the stream has no memory yet.
 * After an error, *out is NULL or can only be freed. */
VaeStatus vae_stream_open(VaeModel *model, const VaeStreamParams *params,
                          const VaeTerms *terms, VaeStream **out,
                          VaeError *error);
/* Plans a stream of s's model with these params. Any error except
 * VAE_ERR_CANCELLED means that it does not fit. On the host it uses s's
 * backend, because a limit of the process may leave no memory for more threads.
 */
VaeStatus vae_stream_try(const VaeStream *s, const VaeStreamParams *params,
                         VaePlan *out);
/* VAE_ERR_CANCELLED if the caller's function `cancelled` says so. */
static inline VaeStatus
vae_stream_goes_on(const VaeStream *s, VaeError *error)
{
    const VaeStreamParams *p = &s->params;
    return p->cancelled && p->cancelled(p->log_user) ? vae_was_cancelled(error)
                                                     : VAE_OK;
}

/* choose.c: chooses and opens the backend, and sets plan.precision. */
VaeStatus vae_stream_choose_backend(VaeStream *s, VaeError *error);
/* Warns of a slow precision that the caller asked for. */
void vae_stream_warn_of_precision(VaeStream *s);

/* The fusions of the stream's backend. */
static inline VaeFusions
vae_stream_fusions(const VaeStream *s)
{
    VaeFusions fusions = s->class->fusions;
    fusions.user = s->backend;
    return fusions;
}

static inline const char *
vae_stream_direction(const VaeStream *s)
{
    return s->params.direction == VAE_DECODE ? "decode" : "encode";
}

/* ROUGH: only the sizes are needed. Assumes that the backend can compute all
 * strips, because asking it takes long. Plans only the largest shape of tiles.
 */
typedef enum VaeBuildHow { VAE_BUILD_EXACT, VAE_BUILD_ROUGH } VaeBuildHow;
/* programs.c: records, fuses and plans the programs of a rung. Drops the
 * programs of the rung before. After an error there are none. */
VaeStatus vae_stream_build(VaeStream *s, VaeRung rung, VaeBuildHow how,
                           VaeError *error);
/* Prepares the programs, again if they are prepared already. cache NULL: sets
 * only sizes and makes no weights. */
VaeStatus vae_stream_prepare(VaeStream *s, VaeWeightCache *cache,
                             VaeError *error);
void vae_stream_drop_programs(VaeStream *s);
/* Allocates the memory of the plan and binds the execs to it. After an error
 * some memory may be allocated. */
VaeStatus vae_stream_take_memory(VaeStream *stream, VaeError *error);
void vae_stream_free_memory(VaeStream *stream);
/* Builds the programs if they were dropped, makes the weights and allocates the
 * memory of the plan. After an error all memory is freed and the programs are
 * dropped. */
VaeStatus vae_stream_take(VaeStream *s, VaeError *error);

/* ladder.c: chooses the rung and fills in the plan. Allocates no memory of the
 * stream. make: the memory is allocated next, so the plan must fit in the
 * memory that is free now. all: also tries rungs that are known not to fit, so
 * that s->least is the smallest plan. If no rung fits, it sets s->too_large and
 * fails. */
VaeStatus vae_stream_choose_rung(VaeStream *s, bool make, bool all,
                                 VaeError *error);
/* Drops the programs and selects the next rung that the caller's settings
 * allow: a smaller slice size, strips and fewer frames at once, then all
 * carries spilled, and before the first step of a sequence, tiles. Logs why.
 * False: there is none. */
bool vae_stream_step_down(VaeStream *s, const VaeError *why);
/* For a new sequence: if an allocation was refused earlier, and there is enough
 * memory now, chooses the rung again. The memory is freed, and the next call
 * allocates it. */
void vae_stream_step_up(VaeStream *s);
/* Calls vae_stream_take(), also for the fallback. If an allocation is refused,
 * tries the next rung. */
VaeStatus vae_stream_make(VaeStream *s, VaeError *error);

/* Lists the rungs of the ladder, the fastest first. Returns their number. */
int vae_stream_list_rungs(const VaeStream *s, VaeRung rungs[VAE_RUNGS]);
/* tell.c: plans the rungs, and omits those that equal another one. exact: has
 * the backend prepare each, which takes long; otherwise only activations and
 * carries are exact. Errors: VAE_ERR_CANCELLED. */
VaeStatus vae_stream_plan_rungs(const VaeStream *s, bool exact,
                                VaeRungPlan rungs[VAE_RUNGS], int *n,
                                VaeError *error);
/* Logs the chosen settings; and for each rung its memory and the cost of a
 * step. */
void vae_stream_tell(const VaeStream *s);
void vae_stream_tell_ladder(const VaeStream *s);
/* Warns that tiles are not exact, that slices are smaller than the caller set,
 * that strips are not to be had, and of a spill without effect. */
void vae_stream_warn_of_setting(const VaeStream *s);

/* fit.c: returns VAE_ERR_MEMORY with the plan, the limit, and settings that
 * would fit, for a stream that is too large. Or VAE_ERR_CANCELLED. */
VaeStatus vae_stream_does_not_fit(const VaeStream *s, VaeError *error);

/* offload.c: frees the device memory until vae_stream_resume(). No run may be
 * in flight. */
VaeStatus vae_stream_offload(VaeStream *s, VaeError *error);

/* delay.c. */
bool vae_stream_has_delay(const VaeStream *s);

/*
 * tiles.c: computes a picture in tiles, which is not exact. All shapes of tiles
 * share the arena, the scratch and the memory of the carries. A step computes
 * one tile after another. For each tile, the carries are copied from the host,
 * a program runs, and the carries are copied back. The results are blended in
 * host memory.
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
/* Checks the params, and sets the grid. */
VaeStatus vae_stream_set_tiles(VaeStream *s, VaeError *error);
/* Selects the next smaller tiles, if the stream may choose them. False: there
 * are none. */
bool vae_stream_shrink_tiles(VaeStream *s);
/* The carries of a tile, and in *at their offset in the block of all tiles.
 * tile may be the number of tiles; then *at is the size of the block. */
const VaeCarrySet *vae_stream_tile_carries(const VaeStream *s, int tile,
                                           size_t *at);
/* carry_items.c: a carry of the picture or of a tile, and its place in a block
 * of all carries. */
typedef struct VaeCarryItem {
    const VaeCarry *carry;
    size_t at;
    char name[256];
} VaeCarryItem;
int vae_carry_items(const VaeStream *s);
void vae_carry_item_at(const VaeStream *s, int i, VaeCarryItem *out);
size_t vae_carry_items_bytes(const VaeStream *s);
/* Bytes of host memory for all tiles. The programs must be built. */
size_t vae_stream_tiled_bytes(const VaeStream *s);
VaeStatus vae_stream_take_tiles(VaeStream *s, VaeError *error);
/* The first frees all memory of tiles except the carries, the second also the
 * carries. */
void vae_stream_drop_tiles(VaeStream *s);
void vae_stream_free_tiles(VaeStream *s);
/* Runs one program for all tiles. run: units of the whole picture. */
VaeStatus vae_stream_run_tiles(VaeStream *s, int which, const VaeRun *run,
                               VaeError *error);

/* The snapshots of carries that the stream needs; returns their number. */
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
    /* With a delay: the index of the frame of pictures[0], and the frames that
     * are due now, from..until-1. */
    int64_t base, from, until;
} VaeUnits;

/* doubts.c: looks at the units of a call, and warns if they look like something
 * else than what they are taken as. */
void vae_stream_judge(VaeStream *s, const VaeUnits *units, int n_in);
/* Warns if all units were of one value. */
void vae_stream_judge_end(VaeStream *s);

/* calls.c: checks the state, the counts and the units. */
VaeStatus vae_stream_check_call(const VaeStream *s, VaeDirection direction,
                                const VaeUnits *units, int n_in, int n_out,
                                VaeError *error);

static inline void
vae_units_skip(const VaeStream *s, VaeUnits *units, int n_in, int n_out)
{
    if (s->params.direction == VAE_ENCODE)
        units->out += n_out;
    else if (!s->at.ended)
        units->in += n_in;
    if (vae_stream_has_delay(s))
        return;
    units->pictures += s->params.direction == VAE_DECODE ? n_out : n_in;
}

/* exec.c: the first runs a program, the second counts the run afterwards. */
VaeStatus vae_stream_run_exec(VaeStream *stream, int which,
                              const VaeUnits *units, VaeError *error);
void vae_stream_count_run(VaeStream *stream, int which);

/* delay.c: the position of the next run in the sequence. */
VaeClock vae_stream_clock(const VaeStream *s);
/* The number of frames that the next steps give. */
int vae_stream_frames_after(const VaeStream *s, int steps);
/* The number of frames of the sequence that are before the next one. */
int64_t vae_stream_frames_so_far(const VaeStream *s);
/* Sets units->from and until for the next steps, if there is a delay. */
void vae_stream_set_frames(const VaeStream *s, VaeUnits *units, int steps);
/* Sets the pictures and the clock of a run with delay lines. */
void vae_stream_place_frames(const VaeStream *s, const VaeProgram *p,
                             const VaeUnits *units, VaeRun *run);
/* In a copy of the carries from before the run at that clock, zeroes the values
 * that no frame depends on. */
void vae_stream_clear_unused(const VaeStream *s, const VaeClock *next,
                             uint8_t *carries);
/* True if the last run, of that program, computed slots before the first frame.
 * These are not counted, so non-finite values may be only in the carries.
 * clock: of the next run. */
bool vae_stream_is_early(const VaeStream *s, const VaeProgram *p,
                         VaeClock clock);
/* nan.c: runs and counts a program if params.nan_policy is not PASS. A run on a
 * device may still be in flight afterwards; the next call checks it. */
VaeStatus vae_stream_run_guarded(VaeStream *stream, int which,
                                 const VaeUnits *units, VaeError *error);
/* Checks the result of the last guarded run, unless that is done, and applies
 * the policy. */
VaeStatus vae_stream_settle(VaeStream *stream, VaeError *error);
/* guard.c: allocates and frees the memory for copies of units. */
VaeStatus vae_stream_guard_take(VaeStream *stream, VaeError *error);
void vae_stream_guard_free(VaeStream *stream);
/* Copies those units of a run that are read after it has ended. False: the run
 * must be checked before the call returns. */
bool vae_stream_copy_units(VaeStream *stream, const VaeProgram *program,
                           const VaeUnits *units);
VaeUnits vae_stream_copied_units(const VaeStream *stream);
size_t vae_stream_latent_elements(const VaeStream *stream);

#endif

/*
 * machine.h: a machine computes runs: it has an open backend, the settings, the
 * programs that follow from them, and their memory. It knows nothing of
 * sequences. A stream has one machine, and a second one in fp32 for non-finite
 * steps. Any number of other machines may share an open backend for plans.
 */
#ifndef VAE_MACHINE_H
#define VAE_MACHINE_H

#include "backend.h"
#include "blend.h"
#include "carries.h"
#include "model.h"
#include "sequence.h"

/* The number of programs: first those of the picture, or of a tile of full
 * size, then those of the other shapes of tiles. */
#define PROGRAMS (KINDS * VAE_TILE_SHAPES)

/* The labels of programs. */
extern const char *const vae_program_labels[KINDS];

/* A rung of the ladder: a setting with which a machine may fit in memory. */
typedef struct VaeRung {
    int slice;        /* steps */
    int group;        /* frames computed at once, see split.h; 0: all */
    int strips;       /* most strips of rows, see strips.h; 0: none */
    uint64_t spared;  /* at least so many bytes of carries are spilled; the
                         history is, too, if there are not so many */
    uint64_t windows; /* windows extend the arena by at most so many bytes */
} VaeRung;

/* The memory that a plan may take. */
typedef struct VaeLimit {
    uint64_t bytes;
    uint64_t preferred; /* the bytes to stay below if a smaller rung exists */
    bool own;           /* the limit is that of the process (ulimit) */
} VaeLimit;

/* ladder.c: what the search for a rung has found. */
typedef struct VaeSearch {
    bool few_rungs;    /* VaeTerms.few_rungs */
    bool lowers_slice; /* the ladder has smaller slices than the caller set */
    uint64_t refused;  /* peak of the larger rung whose allocation was refused;
                          0: none was */
    bool too_large;    /* no rung fits in the limit */
    VaePlan least; /* the smallest plan that was too large; peak 0: none was */
    bool least_is_prepared;
    VaeLimit limit;
} VaeSearch;

/* tiles.c: host memory for tiles. */
typedef struct VaeTileMemory {
    uint8_t *carries; /* tile after tile; NULL: not allocated */
    uint8_t *block; /* memory of all members that follow; NULL: not allocated */
    /* Memory of one tile: latents in, results out (for an encoder with logvar
     * after them), and an encoder's result as (h, w, c). */
    float *latents, *results, *pixels;
    float *whole, *above, *left; /* see blend.h; for each unit out */
    VaeLatentIn *in;             /* units of one tile */
    VaeLatentOut *out;
    VaePicture *pictures;
} VaeTileMemory;

typedef struct VaeMachine VaeMachine;
struct VaeMachine {
    VaeModel *model; /* of the stream */
    VaeStreamParams params;

    const VaeBackendClass *class;
    VaeBackend *backend;
    bool shares;      /* another machine closes the backend */
    VaeDevice device; /* name and threads of the backend's device */
    char why[512];    /* why AUTO chose the precision; empty: it was set */
    VaeOpening opening;

    VaePlan plan;
    VaeReach reach; /* if the results are exact */
    VaeRung rung;   /* of the programs */
    int part;       /* latents of the program FIRST, for tiles of latents: each
                       tile is one run, a whole one of NEXT; 0 means 1 */
    bool rough;     /* the programs give only sizes, see VAE_BUILD_ROUGH */
    VaeSearch search;
    VaeTileGrid grid; /* of tiles, or columns 0 */
    VaeProgram *programs[PROGRAMS];
    VaeExec *execs[PROGRAMS];
    VaeOpTime *times[PROGRAMS]; /* or NULL, see vae_stream_profile() */

    VaeCarryStore carries;
    VaeHistoryStore history;
    VaeCarrySet
        tile_sets[VAE_TILE_SHAPES - 1]; /* of the other shapes of tiles */
    VaeTileMemory tiles;
    VaeMemory memory;
    bool released; /* the memory of the device is freed */

    VaeMachine *wide; /* computes non-finite steps in fp32, or NULL */
};

/* Options for opening a machine. */
typedef struct VaeTerms {
    const VaeMachine *shared; /* uses the backend of this machine, or NULL */
    bool all_rungs; /* tries all, so that an error names the smallest plan */
    bool few_rungs; /* tries only the smallest rungs: a rung takes seconds */
    bool make;      /* the memory is allocated next; false: only plans */
} VaeTerms;

/* machine.c: opens the backend and chooses the rung; the machine has no memory
 * yet. params: checked, except tiles and fp16. Close it also after an error. */
VaeStatus vae_machine_open(VaeMachine *m, VaeModel *model,
                           const VaeStreamParams *params, const VaeTerms *terms,
                           VaeError *error);
/* Waits for runs in flight and frees everything. */
void vae_machine_close(VaeMachine *m);

/* ------------------------------------------------------------------ */
/* What follows from the settings.                                     */

/* The channels of the network's pictures: 3, or 4 with alpha. */
static inline int
vae_machine_pixel_floats(const VaeMachine *m)
{
    const VaeModelInfo *info = &m->model->info;
    return m->params.direction == VAE_DECODE ? info->out_channels
                                             : info->in_channels;
}

/* The format that holds all of the network's values. */
static inline VaePixels
vae_machine_floats(const VaeMachine *m)
{
    return vae_machine_pixel_floats(m) == 4 ? VAE_PIXELS_RGBA_F32
                                            : VAE_PIXELS_RGB_F32;
}

/* The widest format of pictures that the backend converts. */
static inline VaePixels
vae_machine_widest(const VaeMachine *m)
{
    return m->params.tiles || m->model->info.in_tiles ||
                   m->params.pixels == VAE_PIXELS_RGB_F32
               ? vae_machine_floats(m)
               : m->params.pixels;
}

static inline bool
vae_machine_has_delay(const VaeMachine *m)
{
    return m->reach.delay > 0;
}

/* The most steps of a run. */
static inline int
vae_machine_most_steps(const VaeMachine *m)
{
    return m->model->info.in_tiles ? vae_tile_latents(m->params.tile_plan).size
                                   : m->rung.slice;
}

/* The latents whose pictures an encoder in tiles keeps: those of a tile, and
 * the one with which its first result is due. */
static inline int
vae_machine_held_latents(const VaeMachine *m)
{
    return vae_tile_latents(m->params.tile_plan).size + 1;
}

static inline const char *
vae_machine_direction(const VaeMachine *m)
{
    return m->params.direction == VAE_DECODE ? "decode" : "encode";
}

/* VAE_ERR_CANCELLED if the caller's function `cancelled` says so. */
static inline VaeStatus
vae_machine_goes_on(const VaeMachine *m, VaeError *error)
{
    const VaeStreamParams *p = &m->params;
    return p->cancelled && p->cancelled(p->log_user) ? vae_was_cancelled(error)
                                                     : VAE_OK;
}

/* The fusions of the machine's backend. */
static inline VaeFusions
vae_machine_fusions(const VaeMachine *m)
{
    VaeFusions fusions = m->class->fusions;
    fusions.user = m->backend;
    return fusions;
}

/* choose.c: chooses and opens the backend, and sets plan.precision. */
VaeStatus vae_machine_choose_backend(VaeMachine *m, const VaeMachine *shared,
                                     VaeError *error);
/* Warns of a slow precision that the caller asked for. */
void vae_machine_warn_of_precision(VaeMachine *m);

/* ------------------------------------------------------------------ */
/* Programs and memory.                                                */

/* ROUGH: only the sizes are needed. Assumes that the backend can compute all
 * strips, because asking it takes long. Plans only the largest shape of tiles.
 */
typedef enum VaeBuildHow { VAE_BUILD_EXACT, VAE_BUILD_ROUGH } VaeBuildHow;
/* programs.c: records, fuses and plans the programs of a rung. Drops the
 * programs of the rung before. After an error there are none. */
VaeStatus vae_machine_build(VaeMachine *m, VaeRung rung, VaeBuildHow how,
                            VaeError *error);
/* Prepares the programs, again if they are prepared already. cache NULL: sets
 * only sizes and makes no weights. */
VaeStatus vae_machine_prepare(VaeMachine *m, VaeWeightCache *cache,
                              VaeError *error);
void vae_machine_drop_programs(VaeMachine *m);
/* Allocates the memory of the plan and binds the execs to it. After an error
 * some memory may be allocated. */
VaeStatus vae_machine_take_memory(VaeMachine *m, VaeError *error);
/* A network in tiles of latents keeps its results as floats: a frame, or the
 * latent, the mean and the logvar. Their number, of one result. */
size_t vae_machine_unit_floats(const VaeMachine *m);
/* Bytes for a copy of a picture of any format. */
size_t vae_machine_picture_bytes(const VaeMachine *m);
/* Host memory for the results of a tile of latents, after them for those of the
 * tile before that are blended with it, and in an encoder for a result in
 * another order and for the pictures of a tile. 0: the network has no such
 * tiles. The programs must be built. */
size_t vae_machine_held_bytes(const VaeMachine *m);
/* Builds the program FIRST anew for a tile of so many latents, with the memory
 * that there is, unless it has them already. No run may be in flight. */
VaeStatus vae_machine_set_part(VaeMachine *m, int latents, VaeError *error);
void vae_machine_free_memory(VaeMachine *m);
/* Builds the programs if they were dropped, makes the weights and allocates the
 * memory of the plan. After an error all memory is freed and the programs are
 * dropped. */
VaeStatus vae_machine_take(VaeMachine *m, VaeError *error);

/* ------------------------------------------------------------------ */
/* The search for a rung.                                              */

/* ladder.c: chooses the rung and fills in the plan. Allocates no memory of the
 * machine. If no rung fits, it sets search.too_large and fails. */
VaeStatus vae_machine_choose_rung(VaeMachine *m, const VaeTerms *terms,
                                  VaeError *error);
/* Drops the programs and selects the next rung that the caller's settings
 * allow: a smaller slice size, strips and fewer frames at once, then all
 * carries spilled, and if the sequence has not begun, tiles. Logs why. False:
 * there is none. */
bool vae_machine_step_down(VaeMachine *m, bool begun, const VaeError *why);
/* For a new sequence: if an allocation was refused earlier, and there is enough
 * memory now, chooses the rung again. The memory is freed and must be allocated
 * before the next run. */
void vae_machine_step_up(VaeMachine *m);
/* Lists the rungs of the ladder, the fastest first. Returns their number. */
int vae_machine_list_rungs(const VaeMachine *m, VaeRung rungs[VAE_RUNGS]);

/* tell.c: plans the rungs, and omits those that equal another one. exact: has
 * the backend prepare each, which takes long; otherwise only activations and
 * carries are exact. Errors: VAE_ERR_CANCELLED. */
VaeStatus vae_machine_plan_rungs(const VaeMachine *m, bool exact,
                                 VaeRungPlan rungs[VAE_RUNGS], int *n,
                                 VaeError *error);
/* Logs the chosen settings. */
void vae_machine_tell(const VaeMachine *m);
/* Logs the memory of each rung, and the cost of a step. */
void vae_machine_tell_ladder(const VaeMachine *m);
/* Warns that tiles are not exact, that slices are smaller than the caller set,
 * that strips are not to be had, and of a spill without effect. */
void vae_machine_warn_of_setting(const VaeMachine *m);

/* fit.c: returns VAE_ERR_MEMORY with the plan, the limit, and settings that
 * would fit, for a machine that is too large. Or VAE_ERR_CANCELLED. */
VaeStatus vae_machine_does_not_fit(const VaeMachine *m, VaeError *error);

/* ------------------------------------------------------------------ */
/* Tiles.                                                              */

/*
 * tiles.c: computes a picture in tiles, which is not exact. All shapes of tiles
 * share the arena, the scratch and the memory of the carries. A step computes
 * one tile after another. For each tile, the carries are copied from the host,
 * a program runs, and the carries are copied back. The results are blended in
 * host memory.
 */
static inline bool
vae_machine_has_tiles(const VaeMachine *m)
{
    return m->grid.columns > 0;
}
static inline VaeCarrySet *
vae_machine_carry_set(VaeMachine *m, int shape)
{
    return shape ? &m->tile_sets[shape - 1] : &m->carries.set;
}
/* True if the caller leaves the size of tiles to the machine. */
static inline bool
vae_may_tile(const VaeStreamParams *p)
{
    return p->tiles && !p->tile_width && !p->tile_height;
}
/* Checks the params, and sets the grid. */
VaeStatus vae_machine_set_tiles(VaeMachine *m, VaeError *error);
/* Selects the next smaller tiles, if the machine may choose them. False: there
 * are none. */
bool vae_machine_shrink_tiles(VaeMachine *m);
/* The carries of a tile, and in *at their offset in the block of all tiles.
 * tile may be the number of tiles; then *at is the size of the block. */
const VaeCarrySet *vae_machine_tile_carries(const VaeMachine *m, int tile,
                                            size_t *at);
/* Bytes of host memory for all tiles. The programs must be built. */
size_t vae_machine_tiled_bytes(const VaeMachine *m);
VaeStatus vae_machine_take_tiles(VaeMachine *m, VaeError *error);
/* Frees all memory of tiles except the carries. */
void vae_machine_drop_tiles(VaeMachine *m);
/* Frees all memory of tiles. */
void vae_machine_free_tiles(VaeMachine *m);
/* Runs one program for all tiles. run: units of the whole picture. */
VaeStatus vae_machine_run_tiles(VaeMachine *m, int which, const VaeRun *run,
                                VaeError *error);

/* carry_items.c: a carry of the picture or of a tile, and its place in a block
 * of all carries. */
typedef struct VaeCarryItem {
    const VaeCarry *carry;
    size_t at, bytes;
    int64_t dims[4]; /* frames, height, width, channels */
    char name[256];
} VaeCarryItem;
/* The number of items. */
int vae_carry_items(const VaeMachine *m);
/* Item i. In these functions, `latents` is the number of latents of the
 * sequence so far, on which the size of a history depends. */
void vae_carry_item_at(const VaeMachine *m, int i, uint64_t latents,
                       VaeCarryItem *out);
/* The size of the block of all carries. */
size_t vae_carry_items_bytes(const VaeMachine *m, uint64_t latents);
/* Copies all carries to or from a block. */
VaeStatus vae_carry_items_read(const VaeMachine *m, uint64_t latents,
                               uint8_t *dst, VaeError *error);
VaeStatus vae_carry_items_write(VaeMachine *m, uint64_t latents,
                                const uint8_t *src, VaeError *error);

#endif

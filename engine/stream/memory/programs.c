/*
 * programs.c: the programs of a stream for one rung, their sizes and their
 * memory.
 */
#include <assert.h>

#include "pixels.h"
#include "prefetch.h"
#include "machine.h"

const char *const vae_program_labels[KINDS] = {"first", "next", "next1",
                                               "without-context"};

void
vae_machine_drop_programs(VaeMachine *m)
{
    for (int i = 0; i < PROGRAMS; i++) {
        if (m->execs[i])
            m->class->exec_free(m->backend, &m->execs[i]);
        vae_program_free(&m->programs[i]);
        vae_mem_free(m->times[i]); /* the times of its ops */
        m->times[i] = NULL;
    }
    for (int i = 0; i < VAE_TILE_SHAPES; i++)
        vae_carry_set_free(vae_machine_carry_set(m, i));
}

/* True if the stream has this program. */
static bool
has_program(const VaeMachine *m, int i)
{
    const int kind = i % KINDS, shape = i / KINDS;
    VaeTile tile;
    if ((kind == NEXT1 && m->rung.slice == 1) ||
        (kind == WITHOUT_CONTEXT && !m->params.restarts))
        return false;
    return shape == 0 || (vae_machine_has_tiles(m) &&
                          vae_tile_of_shape(&m->grid, shape, &tile));
}

/* The steps of the sequence that a run gives results of. Tiles of latents
 * overlap. */
static int
steps_of(const VaeMachine *m, const VaeProgram *p)
{
    return m->model->info.in_tiles && p->steps == vae_machine_most_steps(m)
               ? vae_tile_latents(m->params.tile_plan).stride
               : p->steps;
}

/* The number of operations of a step, for all tiles. */
static double
count_flop(const VaeMachine *m, int kind)
{
    double flop = 0;
    const int n = vae_machine_has_tiles(m) ? vae_tile_count(&m->grid) : 1;
    for (int i = 0; i < n; i++) {
        int shape = 0;
        if (n > 1) {
            const VaeTile tile = vae_tile_at(&m->grid, i);
            shape = vae_tile_shape(&m->grid, &tile);
        }
        const VaeProgram *p = m->programs[shape * KINDS + kind];
        flop += p->flop / steps_of(m, p);
    }
    return flop;
}

/* Places the carries of each shape of tiles. All shapes share the memory. */
static bool
place_carries(VaeMachine *m)
{
    VaeCarryStore *store = &m->carries;
    const int window = m->model->info.in_tiles ? vae_machine_most_steps(m)
                                               : (int) m->params.history;
    store->spilled = store->rest = 0;
    for (int i = 0; i < VAE_TILE_SHAPES; i++) {
        VaeCarrySet *set = vae_machine_carry_set(m, i);
        if (!vae_carry_set_place(set, (size_t) m->rung.spared, window))
            return false;
        if (set->spilled > store->spilled)
            store->spilled = set->spilled;
        if (set->bytes - set->spilled > store->rest)
            store->rest = set->bytes - set->spilled;
    }
    m->history.bytes = store->set.history;
    m->history.each = store->set.each;
    m->history.window = window;
    m->history.spills = m->params.spill != VAE_SPILL_OFF && m->class->copy;
    m->history.spilled = m->history.spills && m->rung.spared > store->set.bytes;
    return true;
}

/* Counts the bytes of carries that a later step copies within the device, and
 * to and from host memory. */
static void
count_copies(VaeMachine *m)
{
    const VaeProgram *p = m->programs[NEXT];
    uint64_t copied = 0, bus = 0;
    for (int i = 0; i < p->n_ops; i++) {
        const VaeOp *op = &p->ops[i];
        if (op->kind != VAE_OP_HEAD_CARRY && op->kind != VAE_OP_TAIL &&
            !(op->kind == VAE_OP_NORM && op->norm.fills_context))
            continue;
        const VaeTensor *slab = op->kind == VAE_OP_NORM ? op->y : op->x;
        const uint64_t bytes =
            (uint64_t) op->carry->frames * vae_frame_bytes(slab);
        copied += op->carry->spilled && !op->window ? 0 : bytes;
        bus += op->carry->spilled ? bytes : 0;
    }
    m->plan.copied_step = copied / (uint64_t) p->steps;
    m->plan.bus_step = bus / (uint64_t) p->steps;
}

/* True if one of these execs also has the weight of op in that layout. */
static bool
shares_weight(const VaeExec *const execs[], int n, const VaeOp *op, int phase,
              VaeLayOut own)
{
    for (int e = 0; e < n; e++) {
        const VaeProgram *p = execs[e] ? execs[e]->program : NULL;
        for (int i = 0; p && i < p->n_ops; i++) {
            const VaeLayOut other = execs[e]->ops[i].laid_out[phase];
            if (other.bytes == own.bytes && other.layout == own.layout &&
                p->ops[i].weight && p->ops[i].weight->id == op->weight->id)
                return true;
        }
    }
    return false;
}

/* Bytes of weights that tiles of other shapes need in layouts of their own. */
static uint64_t
other_layouts(const VaeMachine *m)
{
    const VaeExec *execs[VAE_TILE_SHAPES];
    uint64_t bytes = 0;
    for (int shape = 0; shape < VAE_TILE_SHAPES; shape++) {
        const VaeExec *e = execs[shape] = m->execs[shape * KINDS + NEXT];
        for (int i = 0; e && shape && i < 4 * e->program->n_ops; i++) {
            const VaeOp *op = &e->program->ops[i / 4];
            const VaeLayOut own = e->ops[i / 4].laid_out[i % 4];
            if (op->group <= 1 && op->strip <= 1 && own.bytes &&
                !shares_weight(execs, shape, op, i % 4, own))
                bytes += own.bytes;
        }
    }
    return bytes;
}

/* The snapshots of carries that the machine needs; returns their number. */
static int
list_snapshots(const VaeMachine *m, bool which[VAE_SNAPSHOTS])
{
    which[VAE_BEFORE_RUN] = m->wide != NULL;
    which[VAE_BEFORE_GUESS] = m->params.low_latency;
    return which[VAE_BEFORE_RUN] + which[VAE_BEFORE_GUESS];
}

size_t
vae_machine_unit_floats(const VaeMachine *m)
{
    const VaeModelInfo *info = &m->model->info;
    const bool decode = m->params.direction == VAE_DECODE;
    const size_t down = decode ? 1 : (size_t) info->spatial;
    const int width = decode ? m->params.width : m->plan.padded_width;
    const int height = decode ? m->params.height : m->plan.padded_height;
    return (size_t) (decode ? vae_machine_pixel_floats(m)
                            : 3 * info->latent_channels) *
           ((size_t) width / down) * ((size_t) height / down);
}

size_t
vae_machine_picture_bytes(const VaeMachine *m)
{
    const VaePicture widest = {.pixels = vae_machine_floats(m),
                               .width = m->params.width,
                               .height = m->params.height};
    VaePicture packed;
    return (vae_picture_pack(&widest, 0, &packed) + 63) / 64 * 64;
}

size_t
vae_machine_held_bytes(const VaeMachine *m)
{
    const VaeTileLatents tile = vae_tile_latents(m->params.tile_plan);
    const VaeModelInfo *info = &m->model->info;
    const bool decode = m->params.direction == VAE_DECODE;
    const int blended =
        (decode ? info->temporal : 1) * (tile.size - 1 - tile.stride);
    const int n = m->programs[NEXT]->n_out + blended + !decode;
    const int held = decode ? 0 : vae_machine_held_latents(m) * info->temporal;
    const size_t pictures = (size_t) held * vae_machine_picture_bytes(m);
    return info->in_tiles
               ? (size_t) n * vae_machine_unit_floats(m) * sizeof(float) +
                     pictures
               : 0;
}

static void
raise_to(uint64_t *most, uint64_t bytes)
{
    if (bytes > *most)
        *most = bytes;
}

/* Sets the plan to the sizes of the programs and, if they exist, of the execs.
 */
static void
sum_up(VaeMachine *m)
{
    VaePlan *p = &m->plan;
    p->weights = p->arena = p->scratch = p->staging = p->loading = 0;
    p->library = p->ops = 0;
    const uint64_t carries = m->carries.rest;
    p->spilled = m->carries.spilled;
    p->carries = carries + p->spilled;
    p->history_latent = m->model->info.in_tiles ? 0 : m->history.bytes;
    p->history = vae_history_planned_bytes(&m->history);
    p->history_spilled =
        m->history.spilled && m->history.bytes
            ? vae_history_bytes(&m->history, VAE_PLANNED_LATENTS) -
                  sizeof(VaeHistoryBlocks)
            : 0;
    for (int i = 0; i < PROGRAMS; i++) {
        const VaeExec *exec = m->execs[i];
        if (m->programs[i]) {
            raise_to(&p->arena, m->programs[i]->arena);
            p->ops += vae_program_bytes(m->programs[i]) +
                      (size_t) m->programs[i]->n_ops * sizeof(VaeExecOp);
        }
        if (!exec)
            continue;
        if (i < KINDS)
            raise_to(&p->weights, exec->weight_bytes);
        raise_to(&p->library, exec->library);
        raise_to(&p->loading, exec->loading);
        raise_to(&p->scratch, exec->scratch);
        raise_to(&p->staging, exec->staging);
    }
    p->weights += other_layouts(m);
    bool snapshots[VAE_SNAPSHOTS];
    const VaePlan *wide = m->wide ? &m->wide->plan : NULL;
    p->fallback = (wide ? wide->total : 0) +
                  (uint64_t) list_snapshots(m, snapshots) * carries;
    p->tiled = vae_machine_tiled_bytes(m) + vae_machine_held_bytes(m);
    const uint64_t ops = m->class->memory_left ? 0 : p->ops;
    p->total = p->weights + carries + p->history + p->arena + p->scratch +
               p->staging + p->library + p->fallback + ops +
               (m->class->memory_left ? 0 : p->tiled);
    p->peak = p->weights + p->loading + p->library + ops;
    raise_to(&p->peak, p->total);
    if (wide) /* the second machine is made last */
        raise_to(&p->peak, p->total - wide->total + wide->peak);
    assert(m->programs[FIRST] && m->programs[NEXT]);
    p->flop_first = count_flop(m, FIRST);
    p->flop_step = count_flop(m, NEXT);
    p->tiles = p->tile_width = p->tile_height = p->tile_overlap = 0;
    if (vae_machine_has_tiles(m)) {
        const int unit = m->model->info.spatial;
        p->tiles = vae_tile_count(&m->grid);
        p->tile_width = m->grid.w * unit;
        p->tile_height = m->grid.h * unit;
        p->tile_overlap = m->grid.overlap * unit;
    }
    p->frames_at_once = m->programs[NEXT]->group;
    p->strips = m->programs[NEXT]->strips;
    p->whole = m->programs[NEXT]->whole_slabs;
    count_copies(m);
}

/* Records one program. */
static VaeStatus
record(VaeMachine *m, int which, VaeError *error)
{
    VaeProgram **program = &m->programs[which];
    const bool decode = m->params.direction == VAE_DECODE;
    const int unit = m->model->info.spatial, up = decode ? 1 : unit;
    const int kind = which % KINDS, shape = which / KINDS;
    const VaePrecision precision = m->plan.precision;
    const int part = m->part ? m->part : 1;
    VaeTile tile = {.w = m->plan.padded_width / unit,
                    .h = m->plan.padded_height / unit};
    if (vae_machine_has_tiles(m))
        vae_tile_of_shape(&m->grid, shape, &tile);
    const VaeStatus status = vae_model_build(
        m->model,
        &(VaeBuildParams){.direction = m->params.direction,
                          .first = kind == FIRST,
                          .without_context = kind == WITHOUT_CONTEXT,
                          .steps = kind == NEXT    ? vae_machine_most_steps(m)
                                   : kind == FIRST ? part
                                                   : 1,
                          .height = tile.h * up,
                          .width = tile.w * up,
                          .act = vae_act_type(precision),
                          .sum = m->class->narrow_sums ? vae_act_type(precision)
                                                       : VAE_TYPE_F32,
                          .label = vae_program_labels[kind],
                          .history = (int) m->params.history,
                          .carries = vae_machine_carry_set(m, shape)},
        program, error);
    if (status == VAE_OK && kind != FIRST && (*program)->steps == 1 &&
        !vae_program_set_ranges(*program))
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    return status;
}

/* The number of programs that are planned. A rough plan has only those of full
 * tiles. */
static int
planned(const VaeMachine *m)
{
    return m->rough ? KINDS : PROGRAMS;
}

/* Adds windows for spilled carries. They may use all of the arena, which is as
 * large as the largest program needs. False: out of memory. */
static bool
prefetch(VaeMachine *m)
{
    size_t most = 0;
    bool good = true;
    for (int i = 0; i < planned(m); i++)
        if (m->programs[i] && m->programs[i]->arena > most)
            most = m->programs[i]->arena;
    most += m->rung.windows < SIZE_MAX - most ? (size_t) m->rung.windows
                                              : SIZE_MAX - most;
    for (int i = 0; i < planned(m) && good; i++)
        good = !m->programs[i] || vae_program_prefetch(m->programs[i], most);
    return good;
}

/* What does not go with a history. */
static VaeStatus
check_history(const VaeMachine *m, VaeError *error)
{
    if (!m->history.bytes || (!m->wide && !vae_machine_has_tiles(m)))
        return VAE_OK;
    return vae_fail(error, VAE_ERR_UNSUPPORTED,
                    "%s: its attention reads all earlier latents, which does "
                    "not go with %s; expected history 1, with other results, "
                    "or no %s",
                    m->model->info.path,
                    m->wide ? "the nan-policy fallback" : "tiles",
                    m->wide ? "fallback" : "tiles");
}

VaeStatus
vae_machine_build(VaeMachine *m, VaeRung rung, VaeBuildHow how, VaeError *error)
{
    VaeStatus status = VAE_OK;
    VaeFusions fusions = vae_machine_fusions(m);
    const VaeCuts cuts = {.group = rung.group, .strips = rung.strips};
    const bool asks = fusions.can_strip && rung.strips > 1;
    const bool rough = how == VAE_BUILD_ROUGH;
    const VaeOpeningMark begin = vae_opening_begin(&m->opening);
    if (rough)
        fusions.can_strip = NULL;
    vae_machine_drop_programs(m);
    m->rung = rung;
    m->rough = rough && (asks || vae_machine_has_tiles(m));
    m->plan.slice_size = rung.slice;
    for (int i = 0; i < PROGRAMS && status == VAE_OK; i++)
        if (has_program(m, i))
            status = record(m, i, error);
    if (status == VAE_OK && !place_carries(m))
        status = vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    if (status == VAE_OK)
        status = check_history(m, error);
    for (int i = 0; i < planned(m) && status == VAE_OK; i++) {
        if (!m->programs[i])
            continue;
        if (!vae_program_fuse(m->programs[i],
                              m->programs[i / KINDS * KINDS + NEXT], fusions,
                              cuts) ||
            !vae_program_plan(m->programs[i]))
            status = vae_fail(error, VAE_ERR_MEMORY, "out of memory");
        if (status == VAE_OK)
            status = vae_machine_goes_on(m, error);
    }
    if (status == VAE_OK && m->carries.spilled && !prefetch(m))
        status = vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    if (status == VAE_OK)
        sum_up(m);
    else
        vae_machine_drop_programs(m);
    vae_opening_end(&m->opening, VAE_OPENING_PROGRAMS, begin);
    return status;
}

VaeStatus
vae_machine_prepare(VaeMachine *m, VaeWeightCache *cache, VaeError *error)
{
    const VaeOpeningMark begin = vae_opening_begin(&m->opening);
    VaeStatus status = VAE_OK;
    for (int i = 0; i < PROGRAMS && status == VAE_OK; i++) {
        if (!m->programs[i])
            continue;
        if (m->execs[i])
            m->class->exec_free(m->backend, &m->execs[i]);
        status = m->class->prepare(m->backend, cache, m->programs[i],
                                   &m->execs[i], error);
    }
    if (status == VAE_OK)
        sum_up(m);
    vae_opening_end(&m->opening, VAE_OPENING_PREPARE, begin);
    return status;
}

VaeStatus
vae_machine_set_part(VaeMachine *m, int latents, VaeError *error)
{
    const VaeCuts cuts = {.group = m->rung.group, .strips = m->rung.strips};
    VaeProgram **p = &m->programs[FIRST];
    VaeExec **e = &m->execs[FIRST];
    if (m->part == latents && *e)
        return VAE_OK;
    if (*e)
        m->class->exec_free(m->backend, e);
    vae_program_free(p);
    vae_mem_free(m->times[FIRST]);
    m->times[FIRST] = NULL;
    m->part = latents;
    VaeStatus status = record(m, FIRST, error);
    if (status == VAE_OK && (!vae_program_fuse(*p, m->programs[NEXT],
                                               vae_machine_fusions(m), cuts) ||
                             !vae_program_plan(*p)))
        status = vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    if (status == VAE_OK)
        status =
            m->class->prepare(m->backend, &m->model->weights, *p, e, error);
    if (status == VAE_OK &&
        ((*p)->arena > m->plan.arena || (*e)->scratch > m->plan.scratch))
        status = vae_fail(error, VAE_ERR_MEMORY,
                          "a tile of %d latents needs more memory than a whole "
                          "one, for which it is planned",
                          latents);
    return status == VAE_OK ? m->class->bind(m->backend, *e, &m->memory, error)
                            : status;
}

/* ------------------------------------------------------------------ */
/* Their memory.                                                       */

static VaeStatus
take_block(VaeMachine *m, uint64_t bytes, uint8_t **out, VaeError *error)
{
    void *block = NULL;
    const VaeStatus status = m->class->alloc(m->backend, VAE_ON_DEVICE,
                                             (size_t) bytes, &block, error);
    *out = block;
    return status;
}

/* The bytes of the device that a history may take. */
static uint64_t
history_room(const VaeMachine *m)
{
    const uint64_t limit = m->search.limit.bytes;
    const uint64_t rest = m->plan.total - m->plan.history;
    return limit > rest ? limit - rest : 0;
}

VaeStatus
vae_machine_take_memory(VaeMachine *m, VaeError *error)
{
    m->carries.class = m->class;
    m->carries.backend = m->backend;
    bool snapshots[VAE_SNAPSHOTS];
    const VaeOpeningMark begin = vae_opening_begin(&m->opening);
    list_snapshots(m, snapshots);
    VaeStatus status = take_block(m, m->plan.arena, &m->memory.arena, error);
    if (status == VAE_OK)
        status = vae_carries_take(&m->carries, snapshots, error);
    if (status == VAE_OK)
        status = vae_machine_take_tiles(m, error);
    m->history.class = m->class;
    m->history.backend = m->backend;
    vae_history_set_room(&m->history, history_room(m));
    if (status == VAE_OK)
        status = vae_history_take(&m->history, error);
    if (status == VAE_OK) /* for the first run */
        status = vae_history_grow(&m->history,
                                  (uint64_t) vae_machine_most_steps(m), error);
    m->memory.history = m->history.now;
    m->memory.places = &m->history.places;
    m->memory.carries = m->carries.now.device;
    m->memory.spilled = m->carries.now.host;
    if (status == VAE_OK)
        status = take_block(m, m->plan.scratch, &m->memory.scratch, error);
    for (int i = 0; i < PROGRAMS && status == VAE_OK; i++)
        if (m->execs[i])
            status = m->class->bind(m->backend, m->execs[i], &m->memory, error);
    vae_opening_end(&m->opening, VAE_OPENING_MEMORY, begin);
    return status;
}

void
vae_machine_free_memory(VaeMachine *m)
{
    m->class->free(m->backend, VAE_ON_DEVICE, m->memory.arena);
    vae_carries_drop(&m->carries);
    vae_history_drop(&m->history);
    m->class->free(m->backend, VAE_ON_DEVICE, m->memory.scratch);
    m->memory = (VaeMemory){0};
    vae_machine_drop_tiles(m);
}

VaeStatus
vae_machine_take(VaeMachine *m, VaeError *error)
{
    VaeStatus status = VAE_OK;
    if (!m->programs[FIRST])
        status = vae_machine_build(m, m->rung, VAE_BUILD_EXACT, error);
    if (status == VAE_OK)
        status = vae_machine_prepare(m, &m->model->weights, error);
    if (status == VAE_OK)
        status = vae_machine_take_memory(m, error);
    if (status != VAE_OK) {
        vae_machine_free_memory(m);
        vae_machine_drop_programs(m);
    }
    return status;
}

/*
 * programs.c: the programs of a stream for one rung, their sizes and their
 * memory.
 */
#include <assert.h>

#include "prefetch.h"
#include "stream.h"

const char *const vae_stream_labels[KINDS] = {"first", "next", "next1",
                                              "without-context"};

void
vae_stream_drop_programs(VaeStream *s)
{
    for (int i = 0; i < PROGRAMS; i++) {
        if (s->execs[i])
            s->class->exec_free(s->backend, &s->execs[i]);
        vae_program_free(&s->programs[i]);
        vae_mem_free(s->times[i]); /* the times of its ops */
        s->times[i] = NULL;
    }
    for (int i = 0; i < VAE_TILE_SHAPES; i++)
        vae_carry_set_free(vae_stream_carry_set(s, i));
}

/* True if the stream has this program. */
static bool
has_program(const VaeStream *s, int i)
{
    const int kind = i % KINDS, shape = i / KINDS;
    VaeTile tile;
    if ((kind == NEXT1 && s->rung.slice == 1) ||
        (kind == WITHOUT_CONTEXT && !s->params.restarts))
        return false;
    return shape == 0 || (vae_stream_has_tiles(s) &&
                          vae_tile_of_shape(&s->grid, shape, &tile));
}

/* The number of operations of a step, for all tiles. */
static double
count_flop(const VaeStream *s, int kind)
{
    double flop = 0;
    const int n = vae_stream_has_tiles(s) ? vae_tile_count(&s->grid) : 1;
    for (int i = 0; i < n; i++) {
        int shape = 0;
        if (n > 1) {
            const VaeTile tile = vae_tile_at(&s->grid, i);
            shape = vae_tile_shape(&s->grid, &tile);
        }
        const VaeProgram *p = s->programs[shape * KINDS + kind];
        flop += p->flop / p->steps;
    }
    return flop;
}

/* Places the carries of each shape of tiles. All shapes share the memory. */
static bool
place_carries(VaeStream *s)
{
    VaeCarryStore *store = &s->carries;
    store->spilled = store->rest = 0;
    for (int i = 0; i < VAE_TILE_SHAPES; i++) {
        VaeCarrySet *set = vae_stream_carry_set(s, i);
        if (!vae_carry_set_place(set, (size_t) s->rung.spared))
            return false;
        if (set->spilled > store->spilled)
            store->spilled = set->spilled;
        if (set->bytes - set->spilled > store->rest)
            store->rest = set->bytes - set->spilled;
    }
    return true;
}

/* Counts the bytes of carries that a later step copies within the device, and
 * to and from host memory. */
static void
count_copies(VaeStream *s)
{
    const VaeProgram *p = s->programs[NEXT];
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
    s->plan.copied_step = copied / (uint64_t) p->steps;
    s->plan.bus_step = bus / (uint64_t) p->steps;
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
other_layouts(const VaeStream *s)
{
    const VaeExec *execs[VAE_TILE_SHAPES];
    uint64_t bytes = 0;
    for (int shape = 0; shape < VAE_TILE_SHAPES; shape++) {
        const VaeExec *e = execs[shape] = s->execs[shape * KINDS + NEXT];
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

static void
raise_to(uint64_t *most, uint64_t bytes)
{
    if (bytes > *most)
        *most = bytes;
}

/* Sets the plan to the sizes of the programs and, if they exist, of the execs.
 */
static void
sum_up(VaeStream *s)
{
    VaePlan *p = &s->plan;
    p->weights = p->arena = p->scratch = p->staging = p->loading = 0;
    p->library = p->ops = 0;
    const uint64_t carries = s->carries.rest;
    p->spilled = s->carries.spilled;
    p->carries = carries + p->spilled;
    for (int i = 0; i < PROGRAMS; i++) {
        const VaeExec *exec = s->execs[i];
        if (s->programs[i]) {
            raise_to(&p->arena, s->programs[i]->arena);
            p->ops += vae_program_bytes(s->programs[i]) +
                      (size_t) s->programs[i]->n_ops * sizeof(VaeExecOp);
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
    p->weights += other_layouts(s);
    bool snapshots[VAE_SNAPSHOTS];
    const VaePlan *fallback = s->fallback ? &s->fallback->plan : NULL;
    p->fallback = (fallback ? fallback->total : 0) +
                  (uint64_t) vae_stream_snapshots(s, snapshots) * carries;
    p->tiled = vae_stream_tiled_bytes(s);
    const uint64_t ops = s->class->memory_left ? 0 : p->ops;
    p->total = p->weights + carries + p->arena + p->scratch + p->staging +
               p->library + p->fallback + ops +
               (s->class->memory_left ? 0 : p->tiled);
    p->peak = p->weights + p->loading + p->library + ops;
    raise_to(&p->peak, p->total);
    if (fallback) /* the fallback is made last */
        raise_to(&p->peak, p->total - fallback->total + fallback->peak);
    assert(s->programs[FIRST] && s->programs[NEXT]);
    p->flop_first = count_flop(s, FIRST);
    p->flop_step = count_flop(s, NEXT);
    p->tiles = p->tile_width = p->tile_height = p->tile_overlap = 0;
    if (vae_stream_has_tiles(s)) {
        const int unit = s->model->info.spatial;
        p->tiles = vae_tile_count(&s->grid);
        p->tile_width = s->grid.w * unit;
        p->tile_height = s->grid.h * unit;
        p->tile_overlap = s->grid.overlap * unit;
    }
    p->frames_at_once = s->programs[NEXT]->group;
    p->strips = s->programs[NEXT]->strips;
    p->whole = s->programs[NEXT]->whole_slabs;
    count_copies(s);
}

/* Records one program. */
static VaeStatus
record(VaeStream *s, int which, VaeError *error)
{
    VaeProgram **program = &s->programs[which];
    const bool decode = s->params.direction == VAE_DECODE;
    const int unit = s->model->info.spatial, up = decode ? 1 : unit;
    const int kind = which % KINDS, shape = which / KINDS;
    const VaePrecision precision = s->plan.precision;
    VaeTile tile = {.w = s->plan.padded_width / unit,
                    .h = s->plan.padded_height / unit};
    if (vae_stream_has_tiles(s))
        vae_tile_of_shape(&s->grid, shape, &tile);
    const VaeStatus status = vae_model_build(
        s->model,
        &(VaeBuildParams){.direction = s->params.direction,
                          .first = kind == FIRST,
                          .without_context = kind == WITHOUT_CONTEXT,
                          .steps = kind == NEXT ? s->plan.slice_size : 1,
                          .height = tile.h * up,
                          .width = tile.w * up,
                          .act = vae_act_type(precision),
                          .sum = s->class->narrow_sums ? vae_act_type(precision)
                                                       : VAE_TYPE_F32,
                          .label = vae_stream_labels[kind],
                          .carries = vae_stream_carry_set(s, shape)},
        program, error);
    if (status == VAE_OK && kind != FIRST && (*program)->steps == 1 &&
        !vae_program_set_ranges(*program))
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    return status;
}

/* The number of programs that are planned. A rough plan has only those of full
 * tiles. */
static int
planned(const VaeStream *s)
{
    return s->rough ? KINDS : PROGRAMS;
}

/* Adds windows for spilled carries. They may use all of the arena, which is as
 * large as the largest program needs. False: out of memory. */
static bool
prefetch(VaeStream *s)
{
    size_t most = 0;
    bool good = true;
    for (int i = 0; i < planned(s); i++)
        if (s->programs[i] && s->programs[i]->arena > most)
            most = s->programs[i]->arena;
    most += s->rung.windows < SIZE_MAX - most ? (size_t) s->rung.windows
                                              : SIZE_MAX - most;
    for (int i = 0; i < planned(s) && good; i++)
        good = !s->programs[i] || vae_program_prefetch(s->programs[i], most);
    return good;
}

VaeStatus
vae_stream_build(VaeStream *s, VaeRung rung, VaeBuildHow how, VaeError *error)
{
    VaeStatus status = VAE_OK;
    VaeFusions fusions = vae_stream_fusions(s);
    const VaeCuts cuts = {.group = rung.group, .strips = rung.strips};
    const bool asks = fusions.can_strip && rung.strips > 1;
    const bool rough = how == VAE_BUILD_ROUGH;
    const VaeOpeningMark begin = vae_opening_begin(&s->opening);
    if (rough)
        fusions.can_strip = NULL;
    vae_stream_drop_programs(s);
    s->rung = rung;
    s->rough = rough && (asks || vae_stream_has_tiles(s));
    s->plan.slice_size = rung.slice;
    for (int i = 0; i < PROGRAMS && status == VAE_OK; i++)
        if (has_program(s, i))
            status = record(s, i, error);
    if (status == VAE_OK && !place_carries(s))
        status = vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    for (int i = 0; i < planned(s) && status == VAE_OK; i++) {
        if (!s->programs[i])
            continue;
        if (!vae_program_fuse(s->programs[i],
                              s->programs[i / KINDS * KINDS + NEXT], fusions,
                              cuts) ||
            !vae_program_plan(s->programs[i]))
            status = vae_fail(error, VAE_ERR_MEMORY, "out of memory");
        if (status == VAE_OK)
            status = vae_stream_goes_on(s, error);
    }
    if (status == VAE_OK && s->carries.spilled && !prefetch(s))
        status = vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    if (status == VAE_OK)
        sum_up(s);
    else
        vae_stream_drop_programs(s);
    vae_opening_end(&s->opening, VAE_OPENING_PROGRAMS, begin);
    return status;
}

VaeStatus
vae_stream_prepare(VaeStream *s, VaeWeightCache *cache, VaeError *error)
{
    const VaeOpeningMark begin = vae_opening_begin(&s->opening);
    VaeStatus status = VAE_OK;
    for (int i = 0; i < PROGRAMS && status == VAE_OK; i++) {
        if (!s->programs[i])
            continue;
        if (s->execs[i])
            s->class->exec_free(s->backend, &s->execs[i]);
        status = s->class->prepare(s->backend, cache, s->programs[i],
                                   &s->execs[i], error);
    }
    if (status == VAE_OK)
        sum_up(s);
    vae_opening_end(&s->opening, VAE_OPENING_PREPARE, begin);
    return status;
}

/* ------------------------------------------------------------------ */
/* Their memory.                                                       */

static VaeStatus
take_slots(VaeStream *s, VaeError *error)
{
    const VaeProgram *p = s->programs[NEXT];
    if (!p->delayed && !s->model->info.chunk)
        return VAE_OK;
    s->slots = vae_mem_alloc((size_t) p->n_out * sizeof *s->slots);
    s->no_latents = vae_mem_alloc((size_t) p->n_in * sizeof *s->no_latents);
    return s->slots && s->no_latents
               ? VAE_OK
               : vae_fail(error, VAE_ERR_MEMORY, "out of memory");
}

static VaeStatus
take_block(VaeStream *s, uint64_t bytes, uint8_t **out, VaeError *error)
{
    void *block = NULL;
    const VaeStatus status = s->class->alloc(s->backend, VAE_ON_DEVICE,
                                             (size_t) bytes, &block, error);
    *out = block;
    return status;
}

VaeStatus
vae_stream_take_memory(VaeStream *s, VaeError *error)
{
    s->carries.class = s->class;
    s->carries.backend = s->backend;
    bool snapshots[VAE_SNAPSHOTS];
    const VaeOpeningMark begin = vae_opening_begin(&s->opening);
    vae_stream_snapshots(s, snapshots);
    VaeStatus status = vae_stream_guard_take(s, error);
    if (status == VAE_OK)
        status = take_slots(s, error);
    if (status == VAE_OK)
        status = take_block(s, s->plan.arena, &s->memory.arena, error);
    if (status == VAE_OK)
        status = vae_carries_take(&s->carries, snapshots, error);
    if (status == VAE_OK)
        status = vae_stream_take_tiles(s, error);
    s->memory.carries = s->carries.now.device;
    s->memory.spilled = s->carries.now.host;
    if (status == VAE_OK)
        status = take_block(s, s->plan.scratch, &s->memory.scratch, error);
    for (int i = 0; i < PROGRAMS && status == VAE_OK; i++)
        if (s->execs[i])
            status = s->class->bind(s->backend, s->execs[i], &s->memory, error);
    vae_opening_end(&s->opening, VAE_OPENING_MEMORY, begin);
    return status;
}

void
vae_stream_free_memory(VaeStream *s)
{
    s->class->free(s->backend, VAE_ON_DEVICE, s->memory.arena);
    vae_carries_drop(&s->carries);
    s->class->free(s->backend, VAE_ON_DEVICE, s->memory.scratch);
    s->memory = (VaeMemory){0};
    vae_stream_drop_tiles(s);
    vae_mem_free(s->slots);
    vae_mem_free(s->no_latents);
    s->slots = NULL;
    s->no_latents = NULL;
}

VaeStatus
vae_stream_take(VaeStream *s, VaeError *error)
{
    VaeStatus status = VAE_OK;
    if (!s->programs[FIRST])
        status = vae_stream_build(s, s->rung, VAE_BUILD_EXACT, error);
    if (status == VAE_OK)
        status = vae_stream_prepare(s, &s->model->weights, error);
    if (status == VAE_OK)
        status = vae_stream_take_memory(s, error);
    if (status != VAE_OK) {
        vae_stream_free_memory(s);
        vae_stream_drop_programs(s);
    }
    return status;
}

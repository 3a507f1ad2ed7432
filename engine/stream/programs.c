/*
 * programs.c: the programs of a stream for one slice size, and their bytes.
 */
#include <assert.h>

#include "prefetch.h"
#include "stream.h"

const char *const vae_stream_labels[PROGRAMS] = {"first", "next", "next1",
                                                 "cold"};

void
vae_stream_drop_programs(VaeStream *s)
{
    for (int i = 0; i < PROGRAMS; i++) {
        if (s->execs[i])
            s->class->exec_free(s->backend, &s->execs[i]);
        vae_program_free(&s->programs[i]);
        vae_mem_free(s->times[i]); /* of its ops */
        s->times[i] = NULL;
    }
    vae_carry_set_free(&s->carries.set);
}

/* Carries that a later step copies, in the memory of the backend and to and
 * from the host's. */
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

/* Fills the plan from what the programs and, where there are any, the execs
 * say. */
static void
sum_up(VaeStream *s)
{
    VaePlan *p = &s->plan;
    p->weights = p->arena = p->scratch = p->staging = p->loading = 0;
    p->library = 0;
    p->carries = s->carries.set.bytes;
    p->spilled = s->carries.set.spilled;
    const uint64_t carries = p->carries - p->spilled;
    for (int i = 0; i < PROGRAMS; i++) {
        const VaeExec *exec = s->execs[i];
        if (!s->programs[i])
            continue;
        const uint64_t weights = exec ? exec->weight_bytes : 0;
        const uint64_t scratch = exec ? exec->scratch : 0;
        const uint64_t staging = exec ? exec->staging : 0;
        const uint64_t loading = exec ? exec->loading : 0;
        const uint64_t library = exec ? exec->library : 0;
        if (library > p->library)
            p->library = library;
        if (weights > p->weights)
            p->weights = weights;
        if (loading > p->loading)
            p->loading = loading;
        if (scratch > p->scratch)
            p->scratch = scratch;
        if (staging > p->staging)
            p->staging = staging;
        if (s->programs[i]->arena > p->arena)
            p->arena = s->programs[i]->arena;
    }
    const VaePlan *fallback = s->fallback ? &s->fallback->plan : NULL;
    p->fallback = (fallback ? fallback->total : 0) +
                  (vae_stream_has_snapshot(s) ? carries : 0);
    p->total = p->weights + carries + p->arena + p->scratch + p->staging +
               p->library + p->fallback;
    p->peak = p->weights + p->loading + p->library;
    if (p->peak < p->total)
        p->peak = p->total;
    /* The fallback is made last. */
    if (fallback && p->peak < p->total - fallback->total + fallback->peak)
        p->peak = p->total - fallback->total + fallback->peak;
    assert(s->programs[FIRST] && s->programs[NEXT]);
    p->flop_first = s->programs[FIRST]->flop;
    p->flop_step = s->programs[NEXT]->flop / p->slice_size;
    p->frames_at_once = s->programs[NEXT]->group;
    p->strips = s->programs[NEXT]->strips;
    count_copies(s);
}

/* Records one program. */
static VaeStatus
record(VaeStream *s, int which, VaeError *error)
{
    const bool decode = s->params.direction == VAE_DECODE;
    const int down = decode ? s->model->info.spatial : 1;
    const VaePrecision precision = s->plan.precision;
    return vae_model_build(
        s->model,
        &(VaeBuildParams){.direction = s->params.direction,
                          .first = which == FIRST,
                          .cold = which == COLD,
                          .steps = which == NEXT ? s->plan.slice_size : 1,
                          .height = s->plan.padded_height / down,
                          .width = s->plan.padded_width / down,
                          .act = vae_act_type(precision),
                          .sum = s->class->narrow_sums ? vae_act_type(precision)
                                                       : VAE_TYPE_F32,
                          .label = vae_stream_labels[which],
                          .carries = &s->carries.set},
        &s->programs[which], error);
}

/* Windows may take the memory that the largest program has anyhow. False: out
 * of memory. */
static bool
prefetch(VaeStream *s)
{
    size_t most = 0;
    bool good = true;
    for (int i = 0; i < PROGRAMS; i++)
        if (s->programs[i] && s->programs[i]->arena > most)
            most = s->programs[i]->arena;
    most += s->rung.windows < SIZE_MAX - most ? (size_t) s->rung.windows
                                              : SIZE_MAX - most;
    for (int i = 0; i < PROGRAMS && good; i++)
        good = !s->programs[i] || vae_program_prefetch(s->programs[i], most);
    return good;
}

VaeStatus
vae_stream_build(VaeStream *s, VaeRung rung, VaeError *error)
{
    VaeStatus status = VAE_OK;
    const VaeCuts cuts = {
        .group = rung.group,
        .strips = {rung.strips, s->class->can_strip, s->backend}};
    vae_stream_drop_programs(s);
    s->rung = rung;
    s->plan.slice_size = rung.slice;
    for (int i = 0; i < PROGRAMS && status == VAE_OK; i++)
        if ((i != NEXT1 || rung.slice > 1) && (i != COLD || s->params.restarts))
            status = record(s, i, error);
    if (status == VAE_OK &&
        !vae_carry_set_place(&s->carries.set, (size_t) rung.spared))
        status = vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    for (int i = 0; i < PROGRAMS && status == VAE_OK; i++) {
        if (!s->programs[i])
            continue;
        if (!vae_program_fuse(s->programs[i], s->programs[NEXT],
                              s->class->fusions, cuts) ||
            !vae_program_plan(s->programs[i]))
            status = vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    }
    if (status == VAE_OK && s->carries.set.spilled && !prefetch(s))
        status = vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    if (status == VAE_OK)
        sum_up(s);
    else
        vae_stream_drop_programs(s);
    return status;
}

VaeStatus
vae_stream_prepare(VaeStream *s, VaeWeightCache *cache, VaeError *error)
{
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
    return status;
}

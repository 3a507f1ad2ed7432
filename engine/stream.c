/*
 * stream.c: programs, memory and state of one stream.
 */
#include <assert.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend_choose.h"
#include "model_internal.h"

enum { FIRST, NEXT, NEXT1, COLD, PROGRAMS };

static const char *const labels[PROGRAMS] = {"first", "next", "next1", "cold"};

#define MAX_SIDE 65535 /* as the caps allow */
#define MAX_SLICE 4096
#define MAX_THREADS 1024

struct VaeStream {
    VaeModel *model;
    VaeStreamParams params;
    VaeSteps steps;
    VaePlan plan;

    const VaeBackendClass *class;
    VaeBackend *backend;
    VaeProgram *programs[PROGRAMS];
    VaeExec *execs[PROGRAMS];
    VaeCarrySet carries;
    VaeMemory memory;

    bool at_start, cold, broken;
    int step;         /* programs run since the sequence began */
    uint64_t latents; /* in or out since then */
    atomic_bool cancel;
    bool normalise; /* latents are not as the network has them: those are
                       v * std + mean */
    float std[VAE_MAX_LATENT_CHANNELS], mean[VAE_MAX_LATENT_CHANNELS];
    float scale[VAE_MAX_LATENT_CHANNELS], shift[VAE_MAX_LATENT_CHANNELS];
    VaeStreamStats stats;
    VaeOpTime *times[PROGRAMS];
};

/* ------------------------------------------------------------------ */
/* Planning.                                                           */

static int
usable_threads(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    const int n = CPU_COUNT(&set);
    return n < 1 ? 1 : n;
}

static VaeStatus
check_params(const VaeModel *model, const VaeStreamParams *p, VaeError *error)
{
    const VaeModelInfo *info = vae_model_info(model);
    const bool decode = p->direction == VAE_DECODE;
    if (decode ? !info->has_decoder : !info->has_encoder)
        return vae_fail(error, VAE_ERR_MODEL,
                        "%s holds no %s weights, only "
                        "the %s's",
                        info->path, decode ? "decoder" : "encoder",
                        decode ? "encoder" : "decoder");
    if (!decode && p->posterior != VAE_POSTERIOR_MEAN && !info->has_posterior)
        return vae_fail(error, VAE_ERR_UNSUPPORTED,
                        "%s has no posterior to sample: its encoder gives the "
                        "latents themselves",
                        info->arch);
    if (p->width < 1 || p->height < 1 || p->width > MAX_SIDE ||
        p->height > MAX_SIDE)
        return vae_fail(error, VAE_ERR_SIZE,
                        "size %dx%d, expected 1x1 to "
                        "%dx%d",
                        p->width, p->height, MAX_SIDE, MAX_SIDE);
    if (p->slice_size < 0 || p->slice_size > MAX_SLICE)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "slice size %d, expected 0 "
                        "to %d",
                        p->slice_size, MAX_SLICE);
    if (p->threads < 0 || p->threads > MAX_THREADS)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "%d threads, expected 0 to "
                        "%d",
                        p->threads, MAX_THREADS);
    if (p->device < -1)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "device %d, expected its number or -1 for any",
                        p->device);
    return VAE_OK;
}

static int
round_up(int v, int step)
{
    return (v + step - 1) / step * step;
}

static VaeStatus
choose(VaeStream *s, VaeError *error)
{
    const VaeStatus status = vae_backend_choose(
        s->params.backend, s->params.precision, s->params.direction, &s->class,
        &s->plan.precision, error);
    if (status != VAE_OK)
        return status;
    s->plan.backend = s->class->kind;
    /* More threads than that only wait for each other, and a library may end
     * the process when the system refuses one. */
    const int cpus = usable_threads(), most = cpus < 2 ? 8 : 4 * cpus;
    s->plan.threads = s->params.threads ? s->params.threads : cpus;
    if (s->plan.threads > most)
        s->plan.threads = most;
    return s->class->open(
        &(VaeBackendParams){.precision = s->plan.precision,
                            .threads = s->plan.threads,
                            .device = s->params.device,
                            .deterministic = s->params.deterministic,
                            .pixels = s->params.pixels},
        &s->backend, error);
}

static void
drop_programs(VaeStream *s)
{
    for (int i = 0; i < PROGRAMS; i++) {
        if (s->execs[i])
            s->class->exec_free(s->backend, &s->execs[i]);
        vae_program_free(&s->programs[i]);
    }
    vae_carry_set_free(&s->carries);
}

/* The programs of one slice size. */
static VaeStatus
build(VaeStream *s, int slice, VaeError *error)
{
    const int down =
        s->params.direction == VAE_DECODE ? s->model->info.spatial : 1;
    drop_programs(s);
    for (int i = 0; i < PROGRAMS; i++) {
        if ((i == NEXT1 && slice == 1) || (i == COLD && !s->params.restarts))
            continue;
        const VaeStatus status = vae_program_build(
            &(VaeBuildParams){.model = s->model,
                              .direction = s->params.direction,
                              .first = i == FIRST,
                              .cold = i == COLD,
                              .steps = i == NEXT ? slice : 1,
                              .height = s->plan.padded_height / down,
                              .width = s->plan.padded_width / down,
                              .act = s->class->act_type(s->plan.precision),
                              .sum = s->class->sum_type
                                         ? s->class->sum_type(s->plan.precision)
                                         : VAE_TYPE_F32,
                              .label = labels[i],
                              .carries = &s->carries},
            &s->programs[i], error);
        if (status != VAE_OK)
            return status;
    }
    return VAE_OK;
}

/* What the backend needs for them: with the model's weights, or (model NULL)
 * only to learn the sizes. */
static VaeStatus
prepare(VaeStream *s, VaeModel *model, VaeError *error)
{
    for (int i = 0; i < PROGRAMS; i++) {
        if (!s->programs[i])
            continue;
        if (s->execs[i])
            s->class->exec_free(s->backend, &s->execs[i]);
        const VaeStatus status = s->class->prepare(
            s->backend, model, s->programs[i], &s->execs[i], error);
        if (status != VAE_OK)
            return status;
    }
    return VAE_OK;
}

static void
sum_up(VaeStream *s, int slice)
{
    VaePlan *p = &s->plan;
    p->slice_size = slice;
    p->weights = p->arena = p->scratch = p->staging = 0;
    p->carries = s->carries.bytes;
    for (int i = 0; i < PROGRAMS; i++) {
        const VaeExec *exec = s->execs[i];
        if (!s->programs[i])
            continue;
        const uint64_t weights = exec ? s->class->weight_bytes(exec) : 0;
        const uint64_t scratch = exec ? s->class->scratch(exec) : 0;
        const uint64_t staging =
            exec && s->class->staging ? s->class->staging(exec) : 0;
        if (weights > p->weights)
            p->weights = weights;
        if (scratch > p->scratch)
            p->scratch = scratch;
        if (staging > p->staging)
            p->staging = staging;
        if (s->programs[i]->arena > p->arena)
            p->arena = s->programs[i]->arena;
    }
    p->total = p->weights + p->carries + p->arena + p->scratch + p->staging;
    assert(s->programs[FIRST] && s->programs[NEXT]);
    p->flop_first = s->programs[FIRST]->flop;
    p->flop_step = s->programs[NEXT]->flop / slice;
}

static VaeStatus
does_not_fit(const VaeStream *s, uint64_t limit, bool own, VaeError *error)
{
    const VaePlan *p = &s->plan;
    return vae_fail(
        error, VAE_ERR_MEMORY,
        "%dx%d with %d latent steps per slice needs %s%.1f MiB (weights %.1f, "
        "carries %.1f, activations %.1f, scratch %.1f, staging %.1f) and %.1f "
        "MiB are free%s; "
        "take a smaller picture%s%s",
        s->params.width, s->params.height, p->slice_size,
        s->execs[FIRST] ? "" : "at least ", (double) p->total / 1048576,
        (double) p->weights / 1048576, (double) p->carries / 1048576,
        (double) p->arena / 1048576, (double) p->scratch / 1048576,
        (double) p->staging / 1048576, (double) limit / 1048576,
        s->class->memory_left ? " on the device"
        : own                 ? " within this process's limits (ulimit -v, -d)"
                              : "",
        p->slice_size > 1 ? ", slice size 1" : "",
        p->precision == VAE_PRECISION_FP32 ? " or 16-bit precision" : "");
}

/* Chooses the slice size and fills the plan; nothing is taken. */
static VaeStatus
plan(VaeStream *s, VaeError *error)
{
    const int unit = s->model->info.spatial;
    s->plan.padded_width = round_up(s->params.width, unit);
    s->plan.padded_height = round_up(s->params.height, unit);
    bool own = false;
    uint64_t limit = s->params.memory_limit;
    if (!limit && s->class->memory_left) {
        const VaeStatus status =
            s->class->memory_left(s->backend, &limit, error);
        if (status != VAE_OK)
            return status;
    } else if (!limit) {
        limit = vae_mem_left(s->plan.threads, &own);
    }
    const int automatic[] = {4, 2, 1};
    const int asked[] = {s->params.slice_size};
    const int *sizes = asked[0] ? asked : automatic;
    const int n = asked[0] ? 1 : 3;
    for (int i = 0; i < n; i++) {
        VaeStatus status = build(s, sizes[i], error);
        if (status != VAE_OK)
            return status;
        /* Activations and carries alone first: a library may take minutes to
         * prepare a picture that cannot fit. */
        sum_up(s, sizes[i]);
        if (s->plan.total > limit)
            continue;
        status = prepare(s, NULL, error);
        if (status != VAE_OK)
            return status;
        sum_up(s, sizes[i]);
        if (s->plan.total <= limit)
            return VAE_OK;
    }
    return does_not_fit(s, limit, own, error);
}

/* ------------------------------------------------------------------ */
/* Making and freeing.                                                 */

static void
set_statistics(VaeStream *s)
{
    const VaeModelInfo *info = &s->model->info;
    const bool raw = s->params.normalization == VAE_RAW;
    s->normalise = raw == info->takes_normalized;
    for (int i = 0; i < info->latent_channels; i++) {
        const float std = info->std[i], mean = info->mean[i];
        s->std[i] = info->takes_normalized ? 1 / std : std;
        s->mean[i] = info->takes_normalized ? -mean / std : mean;
        s->scale[i] = s->normalise ? s->std[i] : 1;
        s->shift[i] = s->normalise ? s->mean[i] : 0;
    }
}

static VaeStatus
new_stream(VaeModel *model, const VaeStreamParams *params, VaeStream **out,
           VaeError *error)
{
    *out = NULL;
    VaeStatus status = check_params(model, params, error);
    if (status != VAE_OK)
        return status;
    VaeStream *s = vae_mem_alloc(sizeof *s);
    if (!s)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    s->model = vae_model_ref(model);
    s->params = *params;
    s->steps = params->direction == VAE_DECODE ? model->info.decode
                                               : model->info.encode;
    s->at_start = true;
    set_statistics(s);
    status = choose(s, error);
    if (status == VAE_OK)
        status = plan(s, error);
    if (status != VAE_OK)
        vae_stream_free(&s);
    *out = s;
    return status;
}

static VaeStatus
take_memory(VaeStream *s, VaeError *error)
{
    const struct {
        uint8_t **slot;
        uint64_t bytes;
    } blocks[] = {{&s->memory.arena, s->plan.arena},
                  {&s->memory.carries, s->plan.carries},
                  {&s->memory.scratch, s->plan.scratch}};
    for (int i = 0; i < 3; i++) {
        void *block = NULL;
        const VaeStatus status = s->class->alloc(
            s->backend, (size_t) blocks[i].bytes, &block, error);
        if (status != VAE_OK)
            return status;
        *blocks[i].slot = block;
    }
    for (int i = 0; i < PROGRAMS; i++) {
        if (!s->execs[i])
            continue;
        const VaeStatus status =
            s->class->bind(s->backend, s->execs[i], &s->memory, error);
        if (status != VAE_OK)
            return status;
    }
    return VAE_OK;
}

VaeStatus
vae_stream_plan(VaeModel *model, const VaeStreamParams *params, VaePlan *out,
                VaeError *error)
{
    VaeStream *s;
    const VaeStatus status = new_stream(model, params, &s, error);
    if (status == VAE_OK)
        *out = s->plan;
    vae_stream_free(&s);
    return status;
}

VaeStatus
vae_stream_new(VaeModel *model, const VaeStreamParams *params, VaeStream **out,
               VaeError *error)
{
    VaeStatus status = new_stream(model, params, out, error);
    if (status != VAE_OK)
        return status;
    VaeStream *s = *out;
    status = prepare(s, s->model, error);
    if (status == VAE_OK) {
        sum_up(s, s->plan.slice_size);
        status = take_memory(s, error);
    }
    if (status != VAE_OK)
        vae_stream_free(out);
    return status;
}

void
vae_stream_free(VaeStream **stream)
{
    VaeStream *s = *stream;
    *stream = NULL;
    if (!s)
        return;
    drop_programs(s);
    if (s->backend) {
        s->class->free(s->backend, s->memory.arena);
        s->class->free(s->backend, s->memory.carries);
        s->class->free(s->backend, s->memory.scratch);
        s->class->close(&s->backend);
    }
    for (int i = 0; i < PROGRAMS; i++)
        vae_mem_free(s->times[i]);
    vae_model_free(&s->model);
    vae_mem_free(s);
}

/* ------------------------------------------------------------------ */
/* Running.                                                            */

void
vae_stream_reset(VaeStream *stream)
{
    /* The programs that begin set every carry. */
    stream->at_start = true;
    stream->cold = stream->broken = false;
    stream->step = 0;
    stream->latents = 0;
}

VaeStatus
vae_stream_restart(VaeStream *stream, uint64_t latents, VaeError *error)
{
    if (!stream->programs[COLD])
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "the stream was not made for restarts");
    stream->at_start = stream->broken = false;
    stream->cold = true;
    stream->step = 0;
    stream->latents = latents;
    return VAE_OK;
}

const VaePlan *
vae_stream_get_plan(const VaeStream *stream)
{
    return &stream->plan;
}

bool
vae_stream_at_start(const VaeStream *stream)
{
    return stream->at_start;
}

void
vae_stream_count(const VaeStream *stream, int steps, int *n_in, int *n_out)
{
    const VaeSteps *s = &stream->steps;
    const bool first = stream->at_start && steps > 0;
    const int later = first ? steps - 1 : steps;
    *n_in = (first ? s->first_in : 0) + later * s->step_in;
    *n_out = (first ? s->first_out : 0) + later * s->step_out;
}

/* Steps that n_in units are, or -1 when they are no whole number. */
static int
steps_of(const VaeStream *stream, int n_in)
{
    const VaeSteps *s = &stream->steps;
    const int rest = stream->at_start ? n_in - s->first_in : n_in;
    if (rest < 0 || rest % s->step_in)
        return -1;
    return rest / s->step_in + stream->at_start;
}

static VaeStatus
check_call(const VaeStream *s, VaeDirection direction, int n_in, int n_out,
           const VaePicture *pictures, int n_pictures, VaeError *error)
{
    if (s->params.direction != direction)
        return vae_fail(error, VAE_ERR_ARGUMENT, "the stream %s",
                        direction == VAE_DECODE ? "encodes" : "decodes");
    if (s->broken)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "the sequence was broken off "
                        "by an error; reset the stream first");
    const int steps = steps_of(s, n_in);
    int wanted_in, wanted_out;
    vae_stream_count(s, steps, &wanted_in, &wanted_out);
    if (steps < 1 || n_out != wanted_out)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "%d units in and %d out are "
                        "no whole number of steps here (%s takes %d and gives "
                        "%d, each later step %d and %d)",
                        n_in, n_out, s->at_start ? "the first" : "one",
                        s->at_start ? s->steps.first_in : s->steps.step_in,
                        s->at_start ? s->steps.first_out : s->steps.step_out,
                        s->steps.step_in, s->steps.step_out);
    for (int i = 0; i < n_pictures; i++) {
        const VaePicture *p = &pictures[i];
        if (p->data[0] &&
            (p->width != s->params.width || p->height != s->params.height))
            return vae_fail(error, VAE_ERR_SIZE,
                            "picture %d is %dx%d, the "
                            "stream was made for %dx%d",
                            i, p->width, p->height, s->params.width,
                            s->params.height);
        if (!p->data[0] && direction == VAE_ENCODE)
            return vae_fail(error, VAE_ERR_ARGUMENT, "picture %d has no data",
                            i);
    }
    return VAE_OK;
}

static uint64_t
now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

static VaeStatus
run_program(VaeStream *s, int which, const VaeLatent *latents,
            const VaePicture *pictures, VaeError *error)
{
    const VaeModelInfo *info = &s->model->info;
    const VaeRun run = {.latents = latents,
                        .pictures = pictures,
                        .scale = s->scale,
                        .shift = s->shift,
                        .mean = s->mean,
                        .std = s->std,
                        .normalise = s->normalise,
                        .sample = s->params.posterior == VAE_POSTERIOR_SAMPLE,
                        .seed = s->params.seed,
                        .index = s->latents,
                        .channels = info->latent_channels,
                        .low = info->pixel_low,
                        .high = info->pixel_high,
                        .nonfinite = &s->stats.nonfinite,
                        .cancel = &s->cancel,
                        .dump = s->params.dump,
                        .dump_user = s->params.dump_user,
                        .step = s->step};
    const VaeStatus status =
        s->class->run(s->backend, s->execs[which], &run, error);
    if (status != VAE_OK)
        return status;
    s->step++;
    s->latents += (uint64_t) (s->params.direction == VAE_DECODE
                                  ? s->programs[which]->n_in
                                  : s->programs[which]->n_out);
    s->stats.runs_first += which == FIRST;
    s->stats.runs_next += which == NEXT;
    s->stats.runs_next1 += which == NEXT1;
    s->stats.runs_cold += which == COLD;
    s->at_start = s->cold = false;
    return VAE_OK;
}

/* Runs all steps; exactly one of the unit arrays is the input. */
static VaeStatus
run_steps(VaeStream *s, const VaeLatent *latents, const VaePicture *pictures,
          int n_in, VaeError *error)
{
    const bool decode = s->params.direction == VAE_DECODE;
    int left = steps_of(s, n_in);
    while (left > 0) {
        const int which = s->at_start                  ? FIRST
                          : s->cold                    ? COLD
                          : left >= s->plan.slice_size ? NEXT
                                                       : NEXT1;
        const VaeProgram *p = s->programs[which];
        const VaeStatus status =
            run_program(s, which, latents, pictures, error);
        if (status != VAE_OK) {
            s->broken = true;
            return status;
        }
        latents += decode ? p->n_in : p->n_out;
        pictures += decode ? p->n_out : p->n_in;
        s->stats.units_in += (uint64_t) p->n_in;
        s->stats.units_out += (uint64_t) p->n_out;
        left -= p->steps;
    }
    return VAE_OK;
}

static VaeStatus
timed_run(VaeStream *s, const VaeLatent *latents, const VaePicture *pictures,
          int n_in, VaeError *error)
{
    const uint64_t start = now_ns();
    atomic_store(&s->cancel, false);
    VaeStatus status = run_steps(s, latents, pictures, n_in, error);
    if (s->class->finish) {
        /* What was begun ends before the caller's memory may go. */
        const VaeStatus end = s->class->finish(s->backend, status == VAE_OK,
                                               status == VAE_OK ? error : NULL);
        s->broken = s->broken || end != VAE_OK;
        status = status == VAE_OK ? end : status;
    }
    s->stats.last_ns = now_ns() - start;
    s->stats.busy_ns += s->stats.last_ns;
    return status;
}

VaeStatus
vae_stream_decode(VaeStream *stream, const VaeLatent *latents, int n_latents,
                  const VaePicture *frames, int n_frames, VaeError *error)
{
    const VaeStatus status = check_call(stream, VAE_DECODE, n_latents, n_frames,
                                        frames, n_frames, error);
    if (status != VAE_OK)
        return status;
    return timed_run(stream, latents, frames, n_latents, error);
}

VaeStatus
vae_stream_encode(VaeStream *stream, const VaePicture *frames, int n_frames,
                  const VaeLatent *latents, int n_latents, VaeError *error)
{
    const VaeStatus status = check_call(stream, VAE_ENCODE, n_frames, n_latents,
                                        frames, n_frames, error);
    if (status != VAE_OK)
        return status;
    return timed_run(stream, latents, frames, n_frames, error);
}

void
vae_stream_cancel(VaeStream *stream)
{
    atomic_store(&stream->cancel, true);
}

void
vae_stream_stats(const VaeStream *stream, VaeStreamStats *out)
{
    *out = stream->stats;
}

/* ------------------------------------------------------------------ */

void
vae_stream_profile(VaeStream *s, bool on)
{
    for (int i = 0; i < PROGRAMS; i++) {
        if (!s->execs[i])
            continue;
        vae_mem_free(s->times[i]);
        s->times[i] = NULL;
        if (on)
            s->times[i] = vae_mem_alloc((size_t) s->programs[i]->n_ops *
                                        sizeof *s->times[i]);
        s->class->profile(s->execs[i], s->times[i]);
    }
}

bool
vae_stream_profile_row(const VaeStream *s, size_t i, VaeProfileRow *out)
{
    for (int p = 0; p < PROGRAMS; p++) {
        if (!s->execs[p])
            continue;
        const size_t n = (size_t) s->programs[p]->n_ops;
        if (i >= n) {
            i -= n;
            continue;
        }
        const VaeOp *op = &s->programs[p]->ops[i];
        *out = (VaeProfileRow){.program = labels[p],
                               .op = vae_op_name(op->kind),
                               .name = op->name,
                               .impl = s->class->impl(s->execs[p], (int) i),
                               .flop = op->flop,
                               .bytes = op->bytes};
        if (s->times[p]) {
            out->calls = s->times[p][i].calls;
            out->ns = s->times[p][i].ns;
        }
        return true;
    }
    return false;
}

/*
 * stream.c: plans, makes and frees a stream.
 */
#include <assert.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "choose.h"
#include "sized.h"
#include "stream.h"

const char *const vae_stream_labels[PROGRAMS] = {"first", "next", "next1",
                                                 "cold"};

#define MAX_SIDE 65535 /* as the caps allow */
#define MAX_SLICE 4096
#define MAX_THREADS 1024

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

/* Passes lines on to the log, and keeps the first and the last. */
typedef struct Reasons {
    VaeLog to;
    char first[600], last[600];
} Reasons;

static void
keep(void *user, const char *line)
{
    Reasons *r = user;
    snprintf(r->last, sizeof r->last, "%s", line);
    if (!r->first[0])
        snprintf(r->first, sizeof r->first, "%s", line);
    vae_log(&r->to, "%s", line);
}

/* passed: gets the reasons for backends that AUTO skips. */
static VaeStatus
choose_next(VaeStream *s, int *next, const VaeLog *passed, VaeError *error)
{
    const VaeLog log = {s->params.log, s->params.log_user};
    VaeBackendChoice choice = {.kind = s->params.backend,
                               .precision = s->params.precision,
                               .direction = s->params.direction,
                               .next = *next};
    const VaeStatus status = vae_backend_choose(&choice, passed, error);
    if (status != VAE_OK)
        return status;
    *next = choice.next;
    s->class = choice.class;
    s->plan.precision = choice.chosen;
    s->plan.backend = s->class->kind;
    /* More threads than that only wait for each other, and a library may end
     * the process when the system refuses one. */
    const int cpus = usable_threads(), most = cpus < 2 ? 8 : 4 * cpus;
    s->plan.threads = s->params.threads ? s->params.threads : cpus;
    if (s->plan.threads > most)
        s->plan.threads = most;
    const VaeStatus opened =
        s->borrowed
            ? VAE_OK
            : s->class->open(
                  &(VaeBackendParams){.precision = s->plan.precision,
                                      .threads = s->plan.threads,
                                      .device = s->params.device,
                                      .deterministic = s->params.deterministic,
                                      .pixels = s->params.pixels,
                                      .log = log},
                  &s->backend, error);
    if (opened != VAE_OK)
        return opened;
    if (s->borrowed)
        s->backend = s->borrowed;
    if (s->class->threads)
        s->plan.threads = s->class->threads(s->backend);
    s->class->device(s->backend, s->device, sizeof s->device);
    if (s->params.precision == VAE_PRECISION_AUTO &&
        s->params.direction == VAE_DECODE)
        s->class->precision(VAE_PRECISION_AUTO, &s->plan.precision, s->why,
                            sizeof s->why);
    vae_stream_settle_precision(s);
    return VAE_OK;
}

/* Warns if AUTO skips the CUDA backend although a device was named. */
static void
warn_of_device(const VaeStream *s, const char *why)
{
    char line[800];
    if (!s->params.warn || s->params.backend != VAE_BACKEND_AUTO ||
        s->params.device < 0 || s->plan.backend == VAE_BACKEND_CUDA)
        return;
    snprintf(line, sizeof line,
             "device %d was asked for, and the %s backend is taken: %s",
             s->params.device, vae_backend_name(s->plan.backend), why);
    s->params.warn(s->params.log_user, line);
}

/* Warns if AUTO chooses the slowest backend. */
static void
warn_of_ref(const VaeStream *s, const char *why)
{
    char line[800];
    if (!s->params.warn || s->params.backend != VAE_BACKEND_AUTO ||
        s->plan.backend != VAE_BACKEND_REF)
        return;
    snprintf(line, sizeof line,
             "the ref backend computes, in plain C, about 10 times slower "
             "than the cpu backend: %s",
             why);
    s->params.warn(s->params.log_user, line);
}

/* AUTO also skips backends that cannot be opened. */
static VaeStatus
choose(VaeStream *s, VaeError *error)
{
    Reasons reasons = {.to = {s->params.log, s->params.log_user}};
    const VaeLog log = {keep, &reasons};
    int next = 0;
    VaeError why = {0};
    VaeStatus status = choose_next(s, &next, &log, &why);
    while (s->params.backend == VAE_BACKEND_AUTO && s->class &&
           s->class->kind != VAE_BACKEND_REF &&
           (status == VAE_ERR_BACKEND || status == VAE_ERR_UNSUPPORTED)) {
        vae_log(&log, "backend %s is not taken: %s",
                vae_backend_name(s->class->kind), why.message);
        status = choose_next(s, &next, &log, &why);
    }
    if (error && status != VAE_OK)
        *error = why;
    if (status == VAE_OK)
        warn_of_device(s, reasons.first);
    if (status == VAE_OK)
        warn_of_ref(s, reasons.last);
    return status;
}

static void
drop_programs(VaeStream *s)
{
    for (int i = 0; i < PROGRAMS; i++) {
        if (s->execs[i])
            s->class->exec_free(s->backend, &s->execs[i]);
        vae_program_free(&s->programs[i]);
    }
    vae_carry_set_free(&s->carries.set);
}

/* Records, fuses and plans the programs of one slice size. */
static VaeStatus
build(VaeStream *s, int slice, VaeError *error)
{
    const int down =
        s->params.direction == VAE_DECODE ? s->model->info.spatial : 1;
    drop_programs(s);
    for (int i = 0; i < PROGRAMS; i++) {
        if ((i == NEXT1 && slice == 1) || (i == COLD && !s->params.restarts))
            continue;
        const VaeStatus status = vae_model_build(
            s->model,
            &(VaeBuildParams){.direction = s->params.direction,
                              .first = i == FIRST,
                              .cold = i == COLD,
                              .steps = i == NEXT ? slice : 1,
                              .height = s->plan.padded_height / down,
                              .width = s->plan.padded_width / down,
                              .act = s->class->act_type(s->plan.precision),
                              .sum = s->class->sum_type
                                         ? s->class->sum_type(s->plan.precision)
                                         : VAE_TYPE_F32,
                              .label = vae_stream_labels[i],
                              .carries = &s->carries.set},
            &s->programs[i], error);
        if (status != VAE_OK)
            return status;
    }
    for (int i = 0; i < PROGRAMS; i++) {
        if (!s->programs[i])
            continue;
        vae_program_fuse(s->programs[i], s->programs[NEXT], s->class->fusions);
        if (!vae_program_plan(s->programs[i]))
            return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    }
    return VAE_OK;
}

/* Prepares the programs. cache NULL: only sizes, no weight is made. */
static VaeStatus
prepare(VaeStream *s, VaeWeightCache *cache, VaeError *error)
{
    for (int i = 0; i < PROGRAMS; i++) {
        if (!s->programs[i])
            continue;
        if (s->execs[i])
            s->class->exec_free(s->backend, &s->execs[i]);
        const VaeStatus status = s->class->prepare(
            s->backend, cache, s->programs[i], &s->execs[i], error);
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
    p->weights = p->arena = p->scratch = p->staging = p->loading = 0;
    p->library = 0;
    p->carries = s->carries.set.bytes;
    for (int i = 0; i < PROGRAMS; i++) {
        const VaeExec *exec = s->execs[i];
        if (!s->programs[i])
            continue;
        const uint64_t weights = exec ? exec->weight_bytes : 0;
        const uint64_t scratch = exec ? exec->scratch : 0;
        const uint64_t staging = exec ? exec->staging : 0;
        const uint64_t loading = exec ? exec->loading : 0;
        const uint64_t library = exec ? exec->library : 0;
        if (weights > p->weights)
            p->weights = weights;
        if (library > p->library)
            p->library = library;
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
    p->fallback = fallback ? fallback->total + p->carries : 0;
    p->total = p->weights + p->carries + p->arena + p->scratch + p->staging +
               p->library + p->fallback;
    p->peak = p->weights + p->loading + p->library;
    if (p->peak < p->total)
        p->peak = p->total;
    /* The fallback is made last. */
    if (fallback && p->peak < p->total - fallback->total + fallback->peak)
        p->peak = p->total - fallback->total + fallback->peak;
    assert(s->programs[FIRST] && s->programs[NEXT]);
    p->flop_first = s->programs[FIRST]->flop;
    p->flop_step = s->programs[NEXT]->flop / slice;
}

/* Chooses the slice size and fills the plan; allocates nothing. advise: an
 * error names the settings that would fit. */
static VaeStatus
plan(VaeStream *s, bool advise, VaeError *error)
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
        if (s->plan.peak > limit)
            continue;
        status = prepare(s, NULL, error);
        if (status != VAE_OK)
            return status;
        sum_up(s, sizes[i]);
        if (s->plan.peak <= limit)
            return VAE_OK;
    }
    return advise ? vae_stream_does_not_fit(s, limit, own, error)
                  : vae_fail(error, VAE_ERR_MEMORY, "does not fit");
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

static VaeStatus new_stream(VaeModel *model, const VaeStreamParams *params,
                            VaeBackend *borrowed, bool advise, VaeStream **out,
                            VaeError *error);

/* Plans the fallback stream in fp32. The memory limit holds for both streams
 * together and is checked later. */
static VaeStatus
plan_fallback(VaeStream *s, VaeError *error)
{
    VaeStreamParams params = s->params;
    if (params.nan_policy != VAE_NAN_FALLBACK ||
        (s->plan.precision != VAE_PRECISION_FP16 &&
         s->plan.precision != VAE_PRECISION_BF16))
        return VAE_OK;
    params.nan_policy = VAE_NAN_PASS;
    params.backend = s->plan.backend;
    params.precision = VAE_PRECISION_FP32;
    params.threads = s->plan.threads;
    params.slice_size = 1;
    params.memory_limit = SIZE_MAX;
    params.dump = NULL;
    const VaeStatus status =
        new_stream(s->model, &params, s->borrowed, false, &s->fallback, error);
    if (s->fallback)
        s->fallback->fallback_of = s;
    return status;
}

static VaeStatus
new_stream(VaeModel *model, const VaeStreamParams *params, VaeBackend *borrowed,
           bool advise, VaeStream **out, VaeError *error)
{
    *out = NULL;
    VaeStreamParams own;
    VaeStatus status = vae_sized_read(&own, sizeof own, params,
                                      VAE_SIZE_UP_TO(VaeStreamParams, height),
                                      "VaeStreamParams", error);
    if (status == VAE_OK)
        status = check_params(model, &own, error);
    if (status != VAE_OK)
        return status;
    VaeStream *s = vae_mem_alloc(sizeof *s);
    if (!s)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    s->model = vae_model_ref(model);
    s->params = own;
    s->plan.struct_size = sizeof s->plan;
    s->borrowed = borrowed;
    s->steps =
        own.direction == VAE_DECODE ? model->info.decode : model->info.encode;
    s->at_start = true;
    set_statistics(s);
    status = choose(s, error);
    if (status == VAE_OK)
        status = plan_fallback(s, error);
    if (status == VAE_OK)
        status = plan(s, advise, error);
    if (status != VAE_OK)
        vae_stream_free(&s);
    *out = s;
    return status;
}

/* Logs the resulting settings. */
static void
tell(const VaeStream *s)
{
    const VaeLog log = {s->params.log, s->params.log_user};
    const VaePlan *p = &s->plan;
    char how[64] = "";
    if (p->backend == VAE_BACKEND_CUDA) /* any is the first */
        snprintf(how, sizeof how, " device %d",
                 s->params.device < 0 ? 0 : s->params.device);
    else if (p->backend == VAE_BACKEND_CPU)
        snprintf(how, sizeof how, " with %d thread%s", p->threads,
                 p->threads == 1 ? "" : "s");
    vae_log(&log, "%s: %s%s (%s), %s%s%s, %dx%d, slices of %d",
            vae_stream_direction(s), vae_backend_name(p->backend), how,
            s->device, vae_precision_name(p->precision),
            s->why[0] ? " since " : "", s->why, s->params.width,
            s->params.height, p->slice_size);
}

static VaeStatus
plan_only(VaeModel *model, const VaeStreamParams *params, VaeBackend *borrowed,
          bool advise, VaePlan *out, VaeError *error)
{
    VaeStream *s;
    const VaeStatus status =
        new_stream(model, params, borrowed, advise, &s, error);
    if (status == VAE_OK) {
        *out = s->plan;
        tell(s);
    }
    vae_stream_free(&s);
    return status;
}

VaeStatus
vae_stream_plan(VaeModel *model, const VaeStreamParams *params, VaePlan *out,
                VaeError *error)
{
    VaePlan plan;
    VaeStatus status =
        vae_sized_check(out, VAE_SIZE_UP_TO(VaePlan, total), "VaePlan", error);
    if (status == VAE_OK)
        status = plan_only(model, params, NULL, true, &plan, error);
    if (status == VAE_OK)
        vae_sized_write(out, &plan, sizeof plan);
    return status;
}

bool
vae_stream_fits(const VaeStream *s, const VaeStreamParams *params, VaePlan *out)
{
    VaeBackend *borrowed = s->class->memory_left ? NULL : s->backend;
    return plan_only(s->model, params, borrowed, false, out, NULL) == VAE_OK;
}

/* Makes the weights and allocates the memory of the plan. */
static VaeStatus
make(VaeStream *s, VaeError *error)
{
    const VaeStatus status = prepare(s, &s->model->weights, error);
    if (status != VAE_OK)
        return status;
    sum_up(s, s->plan.slice_size);
    return vae_stream_take_memory(s, error);
}

/* Plans and makes a stream. Unless `most` is 0, slices have fewer steps than
 * that. */
static VaeStatus
new_and_make(VaeModel *model, const VaeStreamParams *params, int most,
             VaeStream **out, VaeError *error)
{
    VaeStatus status = new_stream(model, params, NULL, true, out, error);
    if (status != VAE_OK)
        return status;
    if (most && (*out)->plan.slice_size >= most) {
        vae_stream_free(out);
        return VAE_ERR_MEMORY; /* the error is that of before */
    }
    status = make(*out, error);
    if (status == VAE_OK && (*out)->fallback)
        status = make((*out)->fallback, error);
    return status;
}

VaeStatus
vae_stream_new(VaeModel *model, const VaeStreamParams *params, VaeStream **out,
               VaeError *error)
{
    *out = NULL;
    if (model->outline)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "an outline of %s has no numbers to compute with",
                        model->info.arch);
    VaeStatus status = new_and_make(model, params, 0, out, error);
    /* Others take a device's memory, too, and so do libraries while they are
     * prepared: what is left now may do for smaller slices. */
    while (status == VAE_ERR_MEMORY && *out && (*out)->class->memory_left &&
           !(*out)->params.slice_size && (*out)->plan.slice_size > 1) {
        const int slice = (*out)->plan.slice_size;
        vae_stream_free(out);
        status = new_and_make(model, params, slice, out, error);
    }
    if (status != VAE_OK) {
        vae_stream_free(out);
        return status;
    }
    tell(*out);
    return status;
}

void
vae_stream_free(VaeStream **stream)
{
    VaeStream *s = *stream;
    *stream = NULL;
    if (!s)
        return;
    if (s->backend && s->class->finish)
        s->class->finish(s->backend, 0, false, NULL);
    vae_stream_free(&s->fallback);
    drop_programs(s);
    if (s->backend) {
        vae_stream_free_memory(s);
        vae_carries_free(&s->carries);
        if (!s->borrowed)
            s->class->close(&s->backend);
    }
    for (int i = 0; i < PROGRAMS; i++)
        vae_mem_free(s->times[i]);
    vae_stream_free_waiting(s);
    vae_mem_free(s->result);
    vae_model_free(&s->model);
    vae_mem_free(s);
}

/*
 * stream.c: plans, makes and frees a stream.
 */
#include <assert.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "choose.h"
#include "sized.h"
#include "stream.h"

#define MAX_SIDE 65535 /* as the caps allow */
#define MAX_SLICE 4096
#define MAX_STRIPS 1000
#define MAX_THREADS 1024

/* ------------------------------------------------------------------ */
/* Parameters and backend.                                             */

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
    if (p->frames_at_once < 0)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "%d frames at once, expected 0 or more",
                        p->frames_at_once);
    if (p->strips < 0 || p->strips > MAX_STRIPS)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "%lld strips of rows, expected 0 to %d",
                        (long long) p->strips, MAX_STRIPS);
    if (p->resume_ms < 0)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "a wait of %lld ms for memory, expected 0 or more",
                        (long long) p->resume_ms);
    if (p->threads < 0 || p->threads > MAX_THREADS)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "%d threads, expected 0 to "
                        "%d",
                        p->threads, MAX_THREADS);
    if (p->look_ahead < 0)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "a look-ahead of %d latents, expected 0 or more",
                        p->look_ahead);
    if (p->restarts && vae_steps_in_chunks(&info->decode))
        return vae_fail(error, VAE_ERR_UNSUPPORTED,
                        "%s cannot begin inside a clip: its latents come in "
                        "chunks of %d",
                        info->arch, info->decode.step_in);
    if (p->device < -1)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "device %d, expected a CUDA device index, or -1 for "
                        "device 0",
                        p->device);
    return VAE_OK;
}

/* Passes lines to the log, and keeps the first and the last one. */
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

/* Chooses the next backend. passed: gets the reasons why AUTO skips others. */
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
    /* More threads only wait for each other. A library may even end the process
     * if the system refuses a thread. */
    const int cpus = usable_threads(), most = cpus < 2 ? 8 : 4 * cpus;
    s->plan.threads = s->params.threads ? s->params.threads : cpus;
    if (s->plan.threads > most)
        s->plan.threads = most;
    const VaeStatus opened =
        s->borrowed
            ? VAE_OK
            : s->class->open(
                  &(VaeBackendParams){
                      .precision = s->plan.precision,
                      .threads = s->plan.threads,
                      .device = s->params.device,
                      .deterministic = s->params.deterministic,
                      .pixels = s->params.tiles ? VAE_PIXELS_RGB_F32
                                                : s->params.pixels,
                      .pictures_on_device =
                          s->params.pictures_on_device != 0 && !s->params.tiles,
                      .log = log,
                      .cancelled = s->params.cancelled},
                  &s->backend, &s->device, error);
    if (opened != VAE_OK)
        return opened;
    if (s->borrowed) {
        s->backend = s->borrowed->backend;
        s->device = s->borrowed->device;
    }
    s->plan.threads = s->device.threads;
    memcpy(s->why, choice.why, sizeof s->why);
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

/* Sets the delay: the number of latents that the user asks for, or what an
 * exact result needs. */
static void
set_delay(VaeStream *s)
{
    const VaeModelInfo *info = &s->model->info;
    VaeStreamParams *p = &s->params;
    if (!vae_stream_has_delay(s) || p->look_ahead >= info->look_ahead)
        p->low_latency = false;
    s->plan.delay = vae_stream_has_delay(s) ? info->delay : 0;
    if (p->low_latency && p->look_ahead * info->temporal < s->plan.delay)
        s->plan.delay = p->look_ahead * info->temporal;
}

/* How a stream is planned. */
typedef struct Terms {
    const VaeStream *borrowed; /* use the backend of this stream; or NULL */
    bool advise;               /* an error names settings that would fit */
    bool make;                 /* allocate memory next; false: only plan */
} Terms;

/* After an error, *out is NULL or can only be freed. */
static VaeStatus new_stream(VaeModel *model, const VaeStreamParams *params,
                            const Terms *terms, VaeStream **out,
                            VaeError *error);

/* Plans the fallback stream in fp32. The memory limit holds for both streams
 * together and is checked later. Without a fallback a slice cannot be computed
 * again step by step, so a policy that looks at steps has slices of 1. */
static VaeStatus
plan_fallback(VaeStream *s, VaeError *error)
{
    VaeStreamParams params = s->params;
    if (params.nan_policy != VAE_NAN_FALLBACK ||
        (s->plan.precision != VAE_PRECISION_FP16 &&
         s->plan.precision != VAE_PRECISION_BF16)) {
        if (params.nan_policy != VAE_NAN_PASS)
            s->params.slice_size = 1;
        return VAE_OK;
    }
    params.nan_policy = VAE_NAN_PASS;
    params.backend = s->plan.backend;
    params.precision = VAE_PRECISION_FP32;
    params.threads = s->plan.threads;
    params.slice_size = 1;
    params.memory_limit = SIZE_MAX;
    params.dump = NULL;
    const VaeStatus status =
        new_stream(s->model, &params, &(Terms){.borrowed = s->borrowed},
                   &s->fallback, error);
    if (s->fallback)
        s->fallback->fallback_of = s;
    return status;
}

static VaeStatus
new_stream(VaeModel *model, const VaeStreamParams *params, const Terms *terms,
           VaeStream **out, VaeError *error)
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
    s->borrowed = terms->borrowed;
    s->steps =
        own.direction == VAE_DECODE ? model->info.decode : model->info.encode;
    s->at_start = true;
    if (vae_stream_begins_chunks(s))
        s->params.slice_size = 1;
    set_statistics(s);
    set_delay(s);
    status = vae_stream_set_tiles(s, error);
    if (status == VAE_OK)
        status = choose(s, error);
    if (status == VAE_OK)
        status = plan_fallback(s, error);
    if (status == VAE_OK)
        status = vae_stream_choose_rung(s, terms->make, terms->advise, error);
    if (status == VAE_OK)
        vae_stream_warn_of_precision(s);
    *out = s;
    return status;
}

static VaeStatus
plan_only(VaeModel *model, const VaeStreamParams *params, const Terms *terms,
          VaePlan *out, VaeError *error)
{
    VaeStream *s;
    const VaeStatus status = new_stream(model, params, terms, &s, error);
    if (status == VAE_OK) {
        *out = s->plan;
        vae_stream_tell(s);
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
        status =
            plan_only(model, params, &(Terms){.advise = true}, &plan, error);
    if (status == VAE_OK)
        vae_sized_write(out, &plan, sizeof plan);
    return status;
}

bool
vae_stream_fits(const VaeStream *s, const VaeStreamParams *params, VaePlan *out)
{
    const Terms terms = {.borrowed = s->class->memory_left ? NULL : s};
    return plan_only(s->model, params, &terms, out, NULL) == VAE_OK;
}

static VaeStatus
new_and_make(VaeModel *model, const VaeStreamParams *params, VaeStream **out,
             VaeError *error)
{
    const VaeStatus status = new_stream(
        model, params, &(Terms){.advise = true, .make = true}, out, error);
    return status == VAE_OK ? vae_stream_make(*out, error) : status;
}

/* True if AUTO has chosen a device without enough memory, and the cpu backend
 * can replace it. Logs a warning. */
static bool
leaves_device(const VaeStream *s, const VaeError *why)
{
    char line[sizeof why->message + sizeof s->device + 40];
    if (s->params.backend != VAE_BACKEND_AUTO || !s->class->memory_left ||
        !vae_backend_available(VAE_BACKEND_CPU, NULL, 0))
        return false;
    snprintf(line, sizeof line, "the cpu backend computes, not %s: %s",
             s->device.name, why->message);
    if (s->params.warn)
        s->params.warn(s->params.log_user, line);
    return true;
}

VaeStatus
vae_stream_new(VaeModel *model, const VaeStreamParams *params, VaeStream **out,
               VaeError *error)
{
    VaeError why = {0};
    *out = NULL;
    if (model->outline)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "an outline of %s has no numbers to compute with",
                        model->info.arch);
    VaeStatus status = new_and_make(model, params, out, &why);
    if (status == VAE_ERR_MEMORY && *out && (*out)->class &&
        leaves_device(*out, &why)) {
        VaeStreamParams host = (*out)->params;
        host.backend = VAE_BACKEND_CPU;
        vae_stream_free(out);
        if (new_and_make(model, &host, out, NULL) == VAE_OK)
            status = VAE_OK;
    }
    if (status == VAE_OK) {
        vae_stream_tell_ladder(*out);
        vae_stream_tell(*out);
        vae_stream_warn_of_setting(*out);
    } else {
        vae_stream_free(out);
    }
    if (error && status != VAE_OK)
        *error = why;
    return status;
}

void
vae_stream_free(VaeStream **stream)
{
    VaeStream *s = *stream;
    *stream = NULL;
    if (!s)
        return;
    assert(s->class || !s->backend);
    if (s->backend && s->class->finish)
        s->class->finish(s->backend, 0, false, NULL);
    vae_stream_free(&s->fallback);
    vae_stream_drop_programs(s);
    if (s->backend) {
        vae_stream_free_memory(s);
        vae_stream_free_tiles(s);
        vae_carries_free(&s->carries);
        if (!s->borrowed)
            s->class->close(&s->backend);
    }
    for (int i = 0; i < PROGRAMS; i++)
        vae_mem_free(s->times[i]);
    vae_stream_free_waiting(s);
    vae_stream_guard_free(s);
    vae_model_free(&s->model);
    vae_mem_free(s);
}

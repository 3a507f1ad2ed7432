/*
 * fit.c: the error for a stream that does not fit in memory, with settings that
 * would fit.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "machine.h"

#define MIB(bytes) ((double) (bytes) / 1048576)

/* The text of settings that fit. Each is planned before it is added. */
typedef struct Advice {
    const VaeMachine *m;
    VaeStreamParams params; /* those of the stream, with one change */
    char text[400];
    size_t used;
    bool cancelled; /* the caller ended the search */
} Advice;

static Advice
begin(const VaeMachine *m, uint64_t limit)
{
    Advice a = {.m = m, .params = m->params};
    a.params.backend = m->plan.backend;
    a.params.precision = m->plan.precision;
    a.params.memory_limit = (size_t) limit;
    a.params.log = a.params.warn = NULL;
    return a;
}

static void add(Advice *a, uint64_t bytes, const char *format, ...)
    VAE_PRINTF(3, 4);

static void
add(Advice *a, uint64_t bytes, const char *format, ...)
{
    char what[100];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    const int n =
        snprintf(a->text + a->used, sizeof a->text - a->used, "%s%s (%.1f MiB)",
                 a->used ? ", or " : "", what, MIB(bytes));
    if (n > 0 && a->used + (size_t) n < sizeof a->text)
        a->used += (size_t) n;
}

static bool
fits(Advice *a, const VaeStreamParams *params, VaePlan *out)
{
    /* On the host the plan shares the open backend, because a limit of the
     * process may leave no memory for more threads. */
    const VaeTerms terms = {.shared = a->m->class->memory_left ? NULL : a->m,
                            .few_rungs = true};
    VaeMachine *other = a->cancelled ? NULL : vae_mem_alloc(sizeof *other);
    VaeStatus status = VAE_ERR_MEMORY;
    if (other) {
        status = vae_machine_open(other, a->m->model, params, &terms, NULL);
        *out = other->plan;
        vae_machine_close(other);
        vae_mem_free(other);
    }
    a->cancelled = a->cancelled || status == VAE_ERR_CANCELLED;
    return status == VAE_OK;
}

/* Tries smaller slices: the most steps that fit. */
static void
try_slice(Advice *a)
{
    VaeStreamParams params = a->params;
    VaePlan plan, best;
    int good = 0, too_large = a->m->params.slice_size;
    while (too_large - good > 1) {
        params.slice_size = good + (too_large - good) / 2;
        if (fits(a, &params, &plan)) {
            good = params.slice_size;
            best = plan;
        } else {
            too_large = params.slice_size;
        }
    }
    if (good)
        add(a, best.peak, "slice size %d", good);
}

/* Tries to spill carries. */
static void
try_spill(Advice *a)
{
    VaePlan plan;
    VaeStreamParams params = a->params;
    params.spill = VAE_SPILL_HOST;
    if (a->m->params.spill == VAE_SPILL_OFF && a->m->class->copy &&
        fits(a, &params, &plan))
        add(a, plan.peak, "spill host");
}

/* Tries strips and groups of frames, as the stream chooses them. */
static void
try_cuts(Advice *a)
{
    VaePlan plan;
    VaeStreamParams params = a->params;
    params.strips = params.frames_at_once = 0;
    if ((a->params.strips || a->params.frames_at_once) &&
        fits(a, &params, &plan))
        add(a, plan.peak, "strips 0 and frames at once 0");
}

/* Tries the smaller tiles of latents, which give other results. */
static void
try_tile_plan(Advice *a)
{
    VaePlan plan;
    VaeStreamParams params = a->params;
    params.tile_plan = VAE_TILE_PLAN_DIFFUSERS;
    if (a->m->model->info.in_tiles && a->params.tile_plan != params.tile_plan &&
        fits(a, &params, &plan))
        add(a, plan.peak, "tile plan diffusers, with other results");
}

/* Tries tiles, which are not exact: the largest that fit. */
static void
try_tiles(Advice *a)
{
    VaePlan plan;
    VaeStreamParams params = a->params;
    if (params.tiles)
        return;
    params.tiles = VAE_TILES_BLEND;
    params.tile_width = params.tile_height = params.tile_overlap = 0;
    if (fits(a, &params, &plan))
        add(a, plan.peak, "tiles blend, which are not exact");
}

/* Tries a 16-bit precision of the device, if the stream's is wider. */
static void
try_precision(Advice *a)
{
    static const VaePrecision narrow[] = {VAE_PRECISION_BF16,
                                          VAE_PRECISION_FP16};
    const VaePrecision now = a->m->plan.precision;
    VaePlan plan;
    VaeStreamParams params = a->params;
    if (now != VAE_PRECISION_FP32 && now != VAE_PRECISION_TF32)
        return;
    for (int i = 0; i < 2; i++) {
        params.precision = narrow[i];
        if (fits(a, &params, &plan)) {
            add(a, plan.peak, "precision %s", vae_precision_name(narrow[i]));
            return;
        }
    }
}

/* Tries the CPU backend, if the stream computes on a device. */
static void
try_processor(Advice *a)
{
    VaePlan plan;
    VaeStreamParams params = a->m->params;
    params.log = params.warn = NULL;
    params.backend = VAE_BACKEND_CPU;
    if (a->m->class->memory_left && fits(a, &params, &plan))
        add(a, plan.peak, "backend cpu");
}

/* Scales the picture to n / all. */
static void
scale(const VaeMachine *m, int n, int all, VaeStreamParams *params)
{
    const int unit = m->model->info.spatial;
    const int w = m->plan.padded_width / unit * n / all;
    const int h = m->plan.padded_height / unit * n / all;
    params->width = (w < 1 ? 1 : w) * unit;
    params->height = (h < 1 ? 1 : h) * unit;
}

/* Tries smaller pictures of about the same shape: the largest that fits. */
static void
try_size(Advice *a)
{
    const VaeMachine *m = a->m;
    const int w = m->plan.padded_width, h = m->plan.padded_height;
    const int all = (w > h ? w : h) / m->model->info.spatial;
    VaeStreamParams params = a->params;
    VaePlan plan, best = {0};
    int good = 0, too_large = all;
    while (too_large - good > 1) {
        const int n = good + (too_large - good) / 2;
        scale(m, n, all, &params);
        if (fits(a, &params, &plan)) {
            good = n;
            best = plan;
        } else {
            too_large = n;
        }
    }
    if (good)
        add(a, best.peak, "%dx%d", best.padded_width, best.padded_height);
}

static void
size_text(uint64_t bytes, char *out, size_t size)
{
    if (bytes < (1 << 20) / 10)
        snprintf(out, size, "%d bytes", (int) bytes);
    else
        snprintf(out, size, "%.1f MiB", MIB(bytes));
}

/* Writes the limit, and where it comes from. */
static void
tell_limit(const VaeMachine *m, uint64_t limit, bool own, char *out,
           size_t size)
{
    char text[32];
    size_text(limit, text, sizeof text);
    if (limit > 0 && m->params.memory_limit == limit)
        snprintf(out, size, "the memory limit is %s", text);
    else
        snprintf(out, size, "%s are free%s%s", text,
                 m->class->memory_left ? " on the device"
                 : own ? " within this process's limits (ulimit -v, -d)"
                       : "",
                 m->params.memory_share > 0 ? " within the memory limit" : "");
}

VaeStatus
vae_machine_does_not_fit(const VaeMachine *m, VaeError *error)
{
    const VaePlan *p = &m->search.least;
    const uint64_t limit = m->search.limit.bytes;
    const bool own = m->search.limit.own;
    const bool device = m->class->memory_left != NULL;
    Advice a = begin(m, limit);
    if (limit > 0) {
        try_slice(&a);
        try_spill(&a);
        try_cuts(&a);
        try_precision(&a);
        try_tile_plan(&a);
        try_size(&a);
    }
    try_processor(&a);
    if (limit > 0)
        try_tiles(&a);
    if (a.cancelled)
        return vae_was_cancelled(error);
    char parts[256];
    if (m->search.least_is_prepared)
        snprintf(parts, sizeof parts,
                 "weights %.1f, carries %.1f, activations %.1f, scratch %.1f, "
                 "staging %.1f, while loading %.1f, library about %.1f, "
                 "lists of operations %.1f, fallback %.1f",
                 MIB(p->weights), MIB(p->carries - p->spilled + p->history),
                 MIB(p->arena), MIB(p->scratch), MIB(p->staging),
                 MIB(p->loading), MIB(p->library), MIB(device ? 0 : p->ops),
                 MIB(p->fallback));
    else
        snprintf(
            parts, sizeof parts,
            "carries %.1f, activations %.1f, weights and others not counted",
            MIB(p->carries - p->spilled + p->history), MIB(p->arena));
    if (p->tiles) {
        const size_t used = strlen(parts);
        snprintf(parts + used, sizeof parts - used, ", %s%s %.1f",
                 VAE_COUNTED(p->tiles, "tile"), device ? " in host memory" : "",
                 MIB(p->tiled));
    }
    char given[160];
    tell_limit(m, limit, own, given, sizeof given);
    char needed[32], limited[32];
    /* A rough plan is smaller than what a stream needs. The other is rounded
     * up, so that a stream fits in the memory that the error names. */
    if (m->search.least_is_prepared)
        snprintf(needed, sizeof needed, "%.1f MiB",
                 ceil(10 * MIB(p->peak)) / 10);
    else
        snprintf(needed, sizeof needed, "more than %.1f MiB", MIB(p->peak));
    size_text(limit, limited, sizeof limited);
    return vae_fail_parts(
        error, VAE_ERR_MEMORY,
        (VaeErrorParts){.found = needed, .expected = limit > 0 ? limited : ""},
        "%s of %dx%d in %s with %s per slice needs %s "
        "(%s) and %s; %s%s%s",
        vae_machine_direction(m), m->params.width, m->params.height,
        vae_precision_name(p->precision),
        VAE_COUNTED(p->slice_size, "latent step"), needed, parts, given,
        a.used ? "settings that would fit: "
               : "no smaller picture fits, either",
        a.text, own && !device ? "; or raise the limit" : "");
}

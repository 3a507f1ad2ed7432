/*
 * tell.c: says in words what a stream takes, and what each rung of the ladder
 * would take.
 */
#include <stdio.h>
#include <string.h>

#include "stream.h"

#define MIB(bytes) ((double) (bytes) / 1048576)

/* A rung of 0 or 1 strips computes whole pictures. */
static bool
has_strips(const VaePlan *p, VaeRung rung)
{
    return p->strips == (rung.strips > 1 ? rung.strips : 0);
}

/* Plans a rung without the backend, which would take long. The other numbers of
 * *out are those of s. False: it is no setting of its own. */
static bool
plan_rung(const VaeStream *s, VaeRung rung, VaePlan *out)
{
    VaeStream other = {.model = s->model,
                       .params = s->params,
                       .steps = s->steps,
                       .class = s->class,
                       .backend = s->backend,
                       .plan = s->plan,
                       .grid = s->grid};
    const VaePlan *p = &other.plan;
    bool good =
        vae_stream_build(&other, rung, VAE_BUILD_EXACT, NULL) == VAE_OK &&
        p->frames_at_once == rung.group && has_strips(p, rung) &&
        (!rung.spared || p->spilled);
    if (good) {
        *out = *p;
        out->peak = s->plan.peak - s->plan.arena -
                    (s->plan.carries - s->plan.spilled) + p->arena +
                    (p->carries - p->spilled);
    }
    vae_stream_drop_programs(&other);
    return good;
}

static void
tell_rung(const VaeStream *s, const VaeLog *log, VaeRung rung)
{
    char setting[160];
    VaePlan plan;
    const bool chosen =
        s->rung.slice == rung.slice && s->rung.group == rung.group &&
        s->rung.strips == rung.strips && !s->rung.spared == !rung.spared;
    if (chosen)
        plan = s->plan;
    else if (!plan_rung(s, rung, &plan))
        return;
    vae_plan_setting(&plan, setting, sizeof setting);
    vae_log(log,
            "rung %s: %s%.1f MiB; estimate for a step: %.3g GFLOP, "
            "%.1f MiB of carries copied, %.1f MiB to and from the host%s",
            setting, chosen ? "" : "about ", MIB(plan.peak),
            plan.flop_step / 1e9, MIB(plan.copied_step), MIB(plan.bus_step),
            chosen ? " (chosen)" : "");
}

void
vae_stream_tell_ladder(const VaeStream *s)
{
    const VaeLog log = {s->params.log, s->params.log_user};
    VaeRung rungs[VAE_RUNGS];
    const int n = log.func ? vae_stream_list_rungs(s, rungs) : 0;
    for (int i = 0; i < n; i++)
        tell_rung(s, &log, rungs[i]);
}

void
vae_stream_tell(const VaeStream *s)
{
    const VaeLog log = {s->params.log, s->params.log_user};
    const VaePlan *p = &s->plan;
    char how[64] = "", setting[160], spilled[64] = "";
    if (p->backend == VAE_BACKEND_CUDA) /* any is the first */
        snprintf(how, sizeof how, " device %d",
                 s->params.device < 0 ? 0 : s->params.device);
    else if (p->backend == VAE_BACKEND_CPU)
        snprintf(how, sizeof how, " with %d thread%s", p->threads,
                 p->threads == 1 ? "" : "s");
    vae_plan_setting(p, setting, sizeof setting);
    if (p->spilled)
        snprintf(spilled, sizeof spilled, ", and %.1f MiB of the host",
                 MIB(p->spilled));
    vae_log(&log, "%s: %s%s (%s), %s%s%s, %dx%d, %s, %.1f MiB%s",
            vae_stream_direction(s), vae_backend_name(p->backend), how,
            s->device.name, vae_precision_name(p->precision),
            s->why[0] ? " since " : "", s->why, s->params.width,
            s->params.height, setting, MIB(p->peak), spilled);
}

static void
warn_of_slice(const VaeStream *s)
{
    char line[200];
    snprintf(line, sizeof line,
             "slices of %d, and not of %d as set, because nothing else fits in "
             "memory without %s tiles, which are not exact",
             s->plan.slice_size, s->params.slice_size,
             s->plan.tiles ? "smaller" : "any");
    s->params.warn(s->params.log_user, line);
}

static void
warn_of_tiles(const VaeStream *s)
{
    const VaePlan *p = &s->plan;
    char line[300], overlap[80] = "which do not overlap";
    if (p->tile_overlap)
        snprintf(overlap, sizeof overlap,
                 "which overlap by %d pixels and are blended", p->tile_overlap);
    snprintf(
        line, sizeof line,
        "the %s not exact: %dx%d pixels are computed in %d tiles of %dx%d, "
        "%s",
        s->params.direction == VAE_DECODE ? "picture is" : "latents are",
        s->plan.padded_width, s->plan.padded_height, p->tiles, p->tile_width,
        p->tile_height, overlap);
    s->params.warn(s->params.log_user, line);
}

void
vae_stream_warn_of_setting(const VaeStream *s)
{
    const VaePlan *p = &s->plan;
    if (s->params.warn && p->slice_size < s->params.slice_size)
        warn_of_slice(s);
    if (s->params.warn && p->tiles)
        warn_of_tiles(s);
}

/*
 * tell.c: logs the memory of a stream, and of each rung of the ladder.
 */
#include <stdio.h>
#include <string.h>

#include "stream.h"

#define MIB(bytes) ((double) (bytes) / 1048576)

static VaeStatus
plan_rung(const VaeStream *s, VaeRung rung, bool exact, VaePlan *out)
{
    VaeStream other = {.model = s->model,
                       .params = s->params,
                       .steps = s->steps,
                       .class = s->class,
                       .backend = s->backend,
                       .fallback = s->fallback,
                       .plan = s->plan,
                       .grid = s->grid};
    const VaePlan *p = &other.plan;
    if (exact && vae_stream_may_tile(&s->params))
        other.grid = (VaeTileGrid){0};
    VaeStatus status = vae_stream_build(&other, rung, VAE_BUILD_EXACT, NULL);
    if (status == VAE_OK && exact)
        status = vae_stream_prepare(&other, NULL, NULL);
    *out = *p;
    if (!exact) /* uses the weights and the scratch of s */
        out->peak = s->plan.peak - s->plan.arena -
                    (s->plan.carries - s->plan.spilled) + p->arena +
                    (p->carries - p->spilled);
    vae_stream_drop_programs(&other);
    return status;
}

/* Adds a rung to n others, if none of these has its settings: a library may
 * have no strips, and a picture fewer frames than a rung asks for. */
static void
add_rung(VaeRungPlan *rungs, int *n, const VaePlan *plan, bool chosen)
{
    int i = 0;
    while (i < *n && (rungs[i].plan.slice_size != plan->slice_size ||
                      rungs[i].plan.frames_at_once != plan->frames_at_once ||
                      rungs[i].plan.strips != plan->strips ||
                      rungs[i].plan.spilled != plan->spilled))
        i++;
    const int before = i < *n ? rungs[i].plan.whole : 0;
    if (i == *n || chosen)
        rungs[i] = (VaeRungPlan){.plan = *plan, .chosen = chosen};
    rungs[i].plan.whole = before > plan->whole ? before : plan->whole;
    *n += i == *n;
}

VaeStatus
vae_stream_plan_rungs(const VaeStream *s, bool exact,
                      VaeRungPlan rungs[VAE_RUNGS], int *n, VaeError *error)
{
    VaeRung all[VAE_RUNGS];
    const int listed = vae_stream_list_rungs(s, all);
    *n = 0;
    for (int i = 0; i < listed; i++) {
        VaePlan plan = s->plan;
        VaeStatus status = VAE_OK;
        const bool chosen =
            !s->too_large &&
            !(exact && s->plan.tiles && vae_stream_may_tile(&s->params)) &&
            s->rung.slice == all[i].slice && s->rung.group == all[i].group &&
            s->rung.strips == all[i].strips &&
            !s->rung.spared == !all[i].spared;
        if (!chosen)
            status = plan_rung(s, all[i], exact, &plan);
        if (status == VAE_ERR_CANCELLED)
            return vae_was_cancelled(error);
        if (status == VAE_OK)
            add_rung(rungs, n, &plan, chosen);
    }
    return VAE_OK;
}

void
vae_stream_tell_ladder(const VaeStream *s)
{
    const VaeLog log = {s->params.log, s->params.log_user};
    VaeRungPlan rungs[VAE_RUNGS];
    char setting[160];
    int n = 0;
    if (log.func)
        vae_stream_plan_rungs(s, false, rungs, &n, NULL);
    for (int i = 0; i < n; i++) {
        const VaePlan *p = &rungs[i].plan;
        vae_plan_setting(p, setting, sizeof setting);
        vae_log(&log,
                "rung %s: %s%.1f MiB; estimate for a step: %.3g GFLOP, "
                "%.1f MiB of carries copied, %.1f MiB to and from the host%s",
                setting, rungs[i].chosen ? "" : "about ", MIB(p->peak),
                p->flop_step / 1e9, MIB(p->copied_step), MIB(p->bus_step),
                rungs[i].chosen ? " (chosen)" : "");
    }
}

void
vae_stream_tell(const VaeStream *s)
{
    const VaeLog log = {s->params.log, s->params.log_user};
    const VaePlan *p = &s->plan;
    char how[64] = "", setting[160], spilled[64] = "";
    if (s->class->memory_left) /* -1 is the first device */
        snprintf(how, sizeof how, " device %d",
                 s->params.device < 0 ? 0 : s->params.device);
    else
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

static void
warn_of_spill(const VaeStream *s)
{
    char line[120];
    snprintf(line, sizeof line,
             "spill host has no effect with the backend %s: its carries are in "
             "the host's memory",
             s->class->name);
    s->params.warn(s->params.log_user, line);
}

static void
warn_of_strips(const VaeStream *s)
{
    char line[200];
    snprintf(line, sizeof line,
             "%d large layer%s computed in whole pictures, not in %d strips as "
             "set: the library would give other bytes, or cannot compute them "
             "in strips",
             s->plan.whole, s->plan.whole == 1 ? " is" : "s are",
             (int) s->params.strips);
    s->params.warn(s->params.log_user, line);
}

void
vae_stream_warn_of_setting(const VaeStream *s)
{
    const VaePlan *p = &s->plan;
    if (s->params.warn && p->slice_size < s->params.slice_size)
        warn_of_slice(s);
    if (s->params.warn && s->params.strips > 1 && p->whole)
        warn_of_strips(s);
    if (s->params.warn && p->tiles)
        warn_of_tiles(s);
    if (s->params.warn && s->params.spill == VAE_SPILL_HOST && !s->class->copy)
        warn_of_spill(s);
}

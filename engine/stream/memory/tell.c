/*
 * tell.c: logs the memory of a stream, and of each rung of the ladder.
 */
#include <stdio.h>
#include <string.h>

#include "machine.h"

#define MIB(bytes) ((double) (bytes) / 1048576)

static VaeStatus
plan_rung(const VaeMachine *m, VaeRung rung, bool exact, VaePlan *out)
{
    VaeMachine other = {.model = m->model,
                        .params = m->params,
                        .class = m->class,
                        .backend = m->backend,
                        .shares = true,
                        .wide = m->wide,
                        .plan = m->plan,
                        .grid = m->grid};
    const VaePlan *p = &other.plan;
    if (exact && vae_may_tile(&m->params))
        other.grid = (VaeTileGrid){0};
    VaeStatus status = vae_machine_build(&other, rung, VAE_BUILD_EXACT, NULL);
    if (status == VAE_OK && exact)
        status = vae_machine_prepare(&other, NULL, NULL);
    *out = *p;
    if (!exact) /* uses the weights and the scratch of m */
        out->peak = m->plan.peak - m->plan.arena -
                    (m->plan.carries - m->plan.spilled) + p->arena +
                    (p->carries - p->spilled) - m->plan.history + p->history;
    vae_machine_drop_programs(&other);
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
                      rungs[i].plan.spilled != plan->spilled ||
                      rungs[i].plan.history != plan->history))
        i++;
    const int before = i < *n ? rungs[i].plan.whole : 0;
    if (i == *n || chosen)
        rungs[i] = (VaeRungPlan){.plan = *plan, .chosen = chosen};
    rungs[i].plan.whole = before > plan->whole ? before : plan->whole;
    *n += i == *n;
}

VaeStatus
vae_machine_plan_rungs(const VaeMachine *m, bool exact,
                       VaeRungPlan rungs[VAE_RUNGS], int *n, VaeError *error)
{
    VaeRung all[VAE_RUNGS];
    const int listed = vae_machine_list_rungs(m, all);
    *n = 0;
    for (int i = 0; i < listed; i++) {
        VaePlan plan = m->plan;
        VaeStatus status = VAE_OK;
        const bool chosen =
            !m->search.too_large &&
            !(exact && m->plan.tiles && vae_may_tile(&m->params)) &&
            m->rung.slice == all[i].slice && m->rung.group == all[i].group &&
            m->rung.strips == all[i].strips &&
            !m->rung.spared == !all[i].spared;
        if (!chosen)
            status = plan_rung(m, all[i], exact, &plan);
        if (status == VAE_ERR_CANCELLED)
            return vae_was_cancelled(error);
        if (status == VAE_OK)
            add_rung(rungs, n, &plan, chosen);
    }
    return VAE_OK;
}

void
vae_machine_tell_ladder(const VaeMachine *m)
{
    const VaeLog log = {m->params.log, m->params.log_user};
    VaeRungPlan rungs[VAE_RUNGS];
    char setting[160];
    int n = 0;
    if (log.func)
        vae_machine_plan_rungs(m, false, rungs, &n, NULL);
    for (int i = 0; i < n; i++) {
        const VaePlan *p = &rungs[i].plan;
        vae_plan_setting(p, setting, sizeof setting);
        vae_log(
            &log,
            "memory setting %s: %s%.1f MiB; estimate for a step: %.3g GFLOP, "
            "%.1f MiB of carries copied, %.1f MiB to and from the host%s",
            setting, rungs[i].chosen ? "" : "about ", MIB(p->peak),
            p->flop_step / 1e9, MIB(p->copied_step), MIB(p->bus_step),
            rungs[i].chosen ? " (chosen)" : "");
    }
}

void
vae_machine_tell(const VaeMachine *m)
{
    const VaeLog log = {m->params.log, m->params.log_user};
    const VaePlan *p = &m->plan;
    char how[64] = "", setting[160], spilled[64] = "";
    if (m->class->memory_left) /* -1 is the first device */
        snprintf(how, sizeof how, " device %d",
                 m->params.device < 0 ? 0 : m->params.device);
    else
        snprintf(how, sizeof how, " with %s",
                 VAE_COUNTED(p->threads, "thread"));
    vae_plan_setting(p, setting, sizeof setting);
    if (p->spilled || p->history_spilled)
        snprintf(spilled, sizeof spilled, ", and %.1f MiB of the host",
                 MIB(p->spilled + p->history_spilled));
    vae_log(&log, "%s: %s%s (%s), %s%s%s, %dx%d, %s, %.1f MiB%s",
            vae_machine_direction(m), vae_backend_name(p->backend), how,
            m->device.name, vae_precision_name(p->precision),
            m->why[0] ? " since " : "", m->why, m->params.width,
            m->params.height, setting, MIB(p->peak), spilled);
}

static void
warn_of_slice(const VaeMachine *m)
{
    char line[200];
    snprintf(line, sizeof line,
             "slices of %d, and not of %d as set, because nothing else fits in "
             "memory without %s tiles, which are not exact",
             m->plan.slice_size, m->params.slice_size,
             m->plan.tiles ? "smaller" : "any");
    m->params.warn(m->params.log_user, line);
}

static void
warn_of_tiles(const VaeMachine *m)
{
    const VaePlan *p = &m->plan;
    char line[300], overlap[80] = "which do not overlap";
    if (p->tile_overlap)
        snprintf(overlap, sizeof overlap, "which overlap by %s and are blended",
                 VAE_COUNTED(p->tile_overlap, "pixel"));
    snprintf(line, sizeof line,
             "the %s not exact: %dx%d pixels are computed in %s of %dx%d, "
             "%s",
             m->params.direction == VAE_DECODE ? "picture is" : "latents are",
             m->plan.padded_width, m->plan.padded_height,
             VAE_COUNTED(p->tiles, "tile"), p->tile_width, p->tile_height,
             overlap);
    m->params.warn(m->params.log_user, line);
}

static void
warn_of_spill(const VaeMachine *m)
{
    char line[120];
    snprintf(line, sizeof line,
             "spill host has no effect with the backend %s: its carries are in "
             "the host's memory",
             m->class->name);
    m->params.warn(m->params.log_user, line);
}

static void
warn_of_strips(const VaeMachine *m)
{
    char line[200];
    snprintf(line, sizeof line,
             "%s %s computed in whole pictures, not in %d strips as set: the "
             "library would give other bytes, or cannot compute them "
             "in strips",
             VAE_COUNTED(m->plan.whole, "large layer"),
             m->plan.whole == 1 ? "is" : "are", (int) m->params.strips);
    m->params.warn(m->params.log_user, line);
}

void
vae_machine_warn_of_setting(const VaeMachine *m)
{
    const VaePlan *p = &m->plan;
    if (m->params.warn && p->slice_size < m->params.slice_size)
        warn_of_slice(m);
    if (m->params.warn && m->params.strips > 1 && p->whole)
        warn_of_strips(m);
    if (m->params.warn && p->tiles)
        warn_of_tiles(m);
    if (m->params.warn && m->params.spill == VAE_SPILL_HOST && !m->class->copy)
        warn_of_spill(m);
}

/*
 * new.c: plans and makes streams.
 */
#include <stdio.h>

#include "arguments.h"
#include "choose.h"
#include "sized.h"
#include "stream.h"

/* vae_stream_open() with an error that names settings that would fit. */
static VaeStatus
open_stream(VaeModel *model, const VaeStreamParams *params, bool make,
            VaeStream **out, VaeError *error)
{
    const VaeStatus status = vae_stream_open(
        model, params, &(VaeTerms){.all_rungs = true, .make = make}, out,
        error);
    return status != VAE_OK && *out && (*out)->main.search.too_large
               ? vae_machine_does_not_fit(&(*out)->main, error)
               : status;
}

VaeStatus
vae_stream_plan_ladder(VaeModel *model, const VaeStreamParams *params,
                       VaePlan *out, VaeRungPlan rungs[VAE_RUNGS], int *n_rungs,
                       VaeError *error)
{
    VaeStream *s = NULL;
    VaeStatus status =
        vae_check_pointers(error, "model, params, out", model, params, out);
    if (status == VAE_OK)
        status = vae_sized_check(out, VAE_SIZE_UP_TO(VaePlan, total), "VaePlan",
                                 error);
    if (status == VAE_OK)
        status = open_stream(model, params, false, &s, error);
    if (status == VAE_OK) {
        VaePlan plan = s->main.plan;
        plan.device = NULL; /* the stream owns it */
        vae_sized_write(out, &plan, sizeof plan);
        vae_machine_tell(&s->main);
    }
    *n_rungs = 0;
    if (rungs && s &&
        (status == VAE_OK ||
         (status == VAE_ERR_MEMORY && s->main.search.too_large)) &&
        vae_machine_plan_rungs(&s->main, true, rungs, n_rungs, error) != VAE_OK)
        status = VAE_ERR_CANCELLED;
    vae_stream_free(&s);
    return status;
}

VaeStatus
vae_stream_plan(VaeModel *model, const VaeStreamParams *params, VaePlan *out,
                VaeError *error)
{
    int n;
    return vae_stream_plan_ladder(model, params, out, NULL, &n, error);
}

static VaeStatus
new_and_make(VaeModel *model, const VaeStreamParams *params, VaeStream **out,
             VaeError *error)
{
    const VaeStatus status = open_stream(model, params, true, out, error);
    return status == VAE_OK ? vae_stream_make(*out, error) : status;
}

/* Logs the times of the parts of opening. `begin`: when it began. */
static void
tell_opening(const VaeMachine *m, uint64_t begin)
{
    static const char *const names[VAE_OPENING_PARTS] = {
        "backend", "device",  "library", "test",    "programs", "choices",
        "plans",   "weights", "upload",  "prepare", "code",     "memory"};
    const VaeLog log = {m->params.log, m->params.log_user};
    const uint64_t ns = vae_now_ns() - begin;
    char parts[32 * (VAE_OPENING_PARTS + 1)];
    size_t n = 0;
    for (int i = 0; i < VAE_OPENING_PARTS; i++)
        if (m->opening.ns[i])
            n += (size_t) snprintf(parts + n, sizeof parts - n, "%s %.3f, ",
                                   names[i], 1e-9 * (double) m->opening.ns[i]);
    vae_log(&log, "opened in %.3f s: %sother %.3f", 1e-9 * (double) ns, parts,
            1e-9 * (double) (ns - m->opening.total));
}

/* True if AUTO has chosen a device, and the cpu backend can replace it. */
static bool
may_leave_device(const VaeMachine *m)
{
    return m->params.backend == VAE_BACKEND_AUTO && m->class->memory_left &&
           vae_backend_available(VAE_BACKEND_CPU, NULL, 0);
}

/* Opens the stream on the cpu backend, and warns. why: why the device cannot
 * compute; receives why the call ended if it is cancelled. */
static VaeStatus
leave_device(VaeModel *model, VaeStream **out, VaeError *why)
{
    VaeStreamParams host = (*out)->main.params;
    char line[sizeof why->message + sizeof(*out)->main.device + 40];
    snprintf(line, sizeof line, "the cpu backend computes, not %s: %s",
             (*out)->main.device.name, why->message);
    host.backend = VAE_BACKEND_CPU;
    vae_stream_free(out);
    const VaeStatus status = new_and_make(model, &host, out, NULL);
    if (status == VAE_ERR_CANCELLED)
        return vae_was_cancelled(why);
    if (status != VAE_OK)
        return VAE_ERR_MEMORY;
    if (host.warn)
        host.warn(host.log_user, line);
    return VAE_OK;
}

VaeStatus
vae_stream_new(VaeModel *model, const VaeStreamParams *params, VaeStream **out,
               VaeError *error)
{
    VaeError why = {0};
    const uint64_t begin = vae_now_ns();
    VaeStatus status = vae_check_pointers(error, "out", out);
    if (status != VAE_OK)
        return status;
    *out = NULL;
    status = vae_check_pointers(error, "model, params", model, params);
    if (status != VAE_OK)
        return status;
    if (model->outline)
        return vae_fail_parts(error, VAE_ERR_ARGUMENT,
                              (VaeErrorParts){NULL, "an outline", "weights"},
                              "an outline of %s has no numbers to compute with",
                              model->info.arch);
    status = new_and_make(model, params, out, &why);
    if (status == VAE_ERR_MEMORY && *out && (*out)->main.class &&
        may_leave_device(&(*out)->main))
        status = leave_device(model, out, &why);
    if (status == VAE_OK) {
        tell_opening(&(*out)->main, begin);
        vae_machine_tell_ladder(&(*out)->main);
        vae_machine_tell(&(*out)->main);
        vae_machine_warn_of_setting(&(*out)->main);
    } else {
        vae_stream_free(out);
    }
    if (error && status != VAE_OK)
        *error = why;
    return status;
}

/*
 * nan.c: non-finite results, see VaeStreamParams.nan_policy.
 *
 * The backend counts the non-finite values of each run's result. With the
 * policy FALLBACK, the carries are saved before each run. If a slice is
 * non-finite, it is computed again step by step from the saved carries. If a
 * step is non-finite, a second machine (`wide`) computes it in fp32. The slice
 * size therefore does not decide which steps are computed in fp32. Afterwards
 * the carries of the second machine are converted back to 16 bits. If they do
 * not fit, it also computes the next step (`in_fallback`).
 *
 * A device computes a run while it copies the results of the run before. The
 * count of a run is therefore checked before the next run begins, or when the
 * caller waits. The caller may have freed its input by then, so guard.c copies
 * it.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "pixels.h"
#include "stream.h"

/* True if all n numbers are finite. type: any but U8. */
static bool
all_finite(const void *data, VaeType type, size_t n)
{
    const uint32_t *wide = data;
    const uint16_t *narrow = data;
    const uint32_t mask = type == VAE_TYPE_F16 ? 0x7c00 : 0x7f80;
    uint32_t bad = 0;
    if (type == VAE_TYPE_F32)
        for (size_t i = 0; i < n; i++)
            bad |= (wide[i] & 0x7f800000) == 0x7f800000;
    else
        for (size_t i = 0; i < n; i++)
            bad |= (narrow[i] & mask) == mask;
    return !bad;
}

/* ------------------------------------------------------------------ */
/* Input.                                                              */

static bool
latent_is_finite(const VaeStream *s, const VaeLatentIn *latent)
{
    return all_finite(latent->data, latent->type,
                      vae_stream_latent_elements(s));
}

static bool
picture_is_finite(const VaePicture *p)
{
    const VaeLayout *l = vae_layout(p->pixels);
    if (!vae_layout_floats(l) || p->on_device)
        return true;
    for (int y = 0; y < p->height; y++)
        if (!all_finite(p->data[0] + y * p->stride[0], VAE_TYPE_F32,
                        (size_t) p->width * l->part[0].step / sizeof(float)))
            return false;
    return true;
}

/* Returns the index of the first of n units that has such a value, or n. */
static int
first_nonfinite(const VaeStream *s, int n, const VaeUnits *units)
{
    int i = 0;
    while (!s->at.ended && i < n &&
           (s->main.params.direction == VAE_DECODE
                ? latent_is_finite(s, &units->in[i])
                : picture_is_finite(&units->pictures[i])))
        i++;
    return s->at.ended ? n : i;
}

/* ------------------------------------------------------------------ */
/* Carries between the two machines.                                   */

static const VaeCarry *
same_carry(const VaeMachine *m, const VaeCarry *other)
{
    for (int i = 0; i < m->carries.set.n; i++)
        if (strcmp(m->carries.set.items[i]->name, other->name) == 0)
            return m->carries.set.items[i];
    assert(false);
    return NULL;
}

/* Converts carries from one block to another. False: some values are
 * non-finite. */
static bool
convert(const VaeMachine *from, const uint8_t *src, const VaeMachine *to,
        uint8_t *dst)
{
    bool finite = true;
    for (int i = 0; i < from->carries.set.n; i++) {
        const VaeCarry *a = from->carries.set.items[i];
        const VaeCarry *b = same_carry(to, a);
        const size_t n = a->bytes / vae_type_size(a->type);
        assert(b->bytes / vae_type_size(b->type) == n);
        const void *read = src + a->offset;
        void *written = dst + b->offset;
        if (to->plan.precision == VAE_PRECISION_FP32)
            vae_type_to_float(written, read, a->type, n);
        else
            vae_type_from_float(written, b->type, read, n);
        finite = finite && all_finite(written, b->type, n);
    }
    return finite;
}

/* Copies the saved carries to the second machine. *usable: they are finite. */
static VaeStatus
widen(VaeStream *s, bool *usable, VaeError *error)
{
    VaeMachine *m = s->main.wide;
    uint8_t *narrow = vae_mem_alloc((size_t) s->main.plan.carries);
    uint8_t *wide = vae_mem_alloc((size_t) m->plan.carries);
    VaeStatus status =
        narrow && wide
            ? vae_carries_read_snapshot(&s->main.carries, narrow, error)
            : vae_fail(error, VAE_ERR_MEMORY, "out of memory for carries");
    if (status == VAE_OK) {
        const VaeClock clock = vae_stream_clock(s);
        vae_stream_clear_unused(s->main.programs[NEXT], &clock, narrow);
        *usable = convert(&s->main, narrow, m, wide);
    }
    if (status == VAE_OK && *usable)
        status = vae_carries_write(&m->carries, wide, error);
    vae_mem_free(narrow);
    vae_mem_free(wide);
    return status;
}

/* Copies the second machine's carries back after a step, if they fit. */
static VaeStatus
narrow(VaeStream *s, VaeError *error)
{
    VaeMachine *m = s->main.wide;
    uint8_t *small = vae_mem_alloc((size_t) s->main.plan.carries);
    uint8_t *wide = vae_mem_alloc((size_t) m->plan.carries);
    VaeStatus status =
        small && wide
            ? vae_carries_read(&m->carries, wide, error)
            : vae_fail(error, VAE_ERR_MEMORY, "out of memory for carries");
    if (status == VAE_OK) {
        VaeClock clock = vae_stream_clock(s);
        clock.begin++;
        vae_stream_clear_unused(m->programs[NEXT], &clock, wide);
        s->at.in_fallback = !convert(m, wide, &s->main, small);
        if (!s->at.in_fallback)
            status = vae_carries_write(&s->main.carries, small, error);
    }
    vae_mem_free(small);
    vae_mem_free(wide);
    return status;
}

/* ------------------------------------------------------------------ */
/* One step by the second machine.                                     */

/* Waits for the count of the last run. */
static VaeStatus
count_bad(const VaeMachine *m, VaeError *error)
{
    return m->class->finish
               ? m->class->finish(m->backend, 0, VAE_FINISH_COUNT, error)
               : VAE_OK;
}

static VaeStatus
run_wide(VaeStream *s, const VaeUnits *units, bool *finite, VaeError *error)
{
    VaeMachine *m = s->main.wide;
    s->guard.bad = 0;
    VaeStatus status = vae_stream_run_exec(s, m, s->at.next, units, error);
    if (status == VAE_OK)
        status = count_bad(m, error);
    if (status == VAE_OK && m->class->finish)
        status = m->class->finish(m->backend, 0, VAE_FINISH_KEEP, error);
    *finite = s->guard.bad == 0;
    return status;
}

/* Computes the last, non-finite step once more. */
static VaeStatus
recover(VaeStream *s, int which, const VaeUnits *units, VaeError *error)
{
    const VaeProgram *p = s->main.programs[which];
    bool usable = first_nonfinite(s, p->n_in, units) == p->n_in;
    bool finite = false;
    VaeStatus status = VAE_OK;
    if (usable)
        status = vae_stream_take_back(s, s->main.wide, error);
    if (status == VAE_OK && usable && s->at.next == NEXT)
        status = widen(s, &usable, error);
    if (status != VAE_OK || !usable)
        return status;
    const uint64_t nonfinite = s->stats.nonfinite;
    s->stats.nonfinite = s->guard.nonfinite;
    status = run_wide(s, units, &finite, error);
    if (status != VAE_OK || !finite) {
        s->stats.nonfinite = nonfinite;
        return status;
    }
    s->stats.recovered_steps++;
    return narrow(s, error);
}

/* Runs a step while only the second machine has the carries. */
static VaeStatus
run_in_fallback(VaeStream *s, const VaeUnits *units, VaeError *error)
{
    bool finite = false;
    VaeStatus status = vae_stream_take_back(s, s->main.wide, error);
    if (status == VAE_OK)
        status = run_wide(s, units, &finite, error);
    if (status != VAE_OK)
        return status;
    s->stats.nonfinite_steps++;
    s->stats.recovered_steps += finite;
    return narrow(s, error);
}

/* ------------------------------------------------------------------ */

static VaeStatus run_guarded(VaeStream *s, int which, const VaeUnits *units,
                             VaeError *error);

/* Runs the units of p as single steps. Checks and counts each. */
static VaeStatus
one_by_one(VaeStream *s, const VaeProgram *p, const VaeUnits *units,
           VaeError *error)
{
    const int in = p->n_in / p->steps, out = p->n_out / p->steps;
    const int which = s->main.programs[NEXT1] ? NEXT1 : NEXT;
    VaeUnits at = *units;
    VaeStatus status = VAE_OK;
    s->guard.singly = true;
    for (int i = 0; i < p->steps && status == VAE_OK; i++) {
        status = run_guarded(s, which, &at, error);
        vae_units_skip(s, &at, in, out);
    }
    s->guard.singly = false;
    return status;
}

static VaeStatus
not_finite(const VaeStream *s, const VaeProgram *p, const VaeUnits *units,
           VaeError *error)
{
    const bool decode = s->main.params.direction == VAE_DECODE;
    const int bad = first_nonfinite(s, p->n_in, units);
    char latent[60];
    snprintf(latent, sizeof latent, "latent %llu%s",
             (unsigned long long) s->at.latents,
             (decode ? p->n_in : p->n_out) > 1 ? " or one after it" : "");
    if (bad < p->n_in)
        return vae_fail(
            error, VAE_ERR_BACKEND,
            "%s %lld has values that are not finite (NaN or infinite)",
            decode ? "latent" : "frame",
            (long long) bad +
                (decode ? (long long) s->at.latents
                        : (long long) vae_model_frames_of(
                              s->main.model, (int64_t) s->at.latents)));
    if (vae_machine_has_delay(&s->main))
        return vae_fail(error, VAE_ERR_BACKEND,
                        "%s that %s gives after %s are not finite (NaN or "
                        "infinite) in %s; they depend on %d latents on either "
                        "side",
                        decode ? "frames" : "latents", s->main.model->info.arch,
                        latent, vae_precision_name(s->main.plan.precision),
                        s->main.reach.look_ahead);
    return vae_fail(
        error, VAE_ERR_BACKEND,
        "the result of %s for %s is not finite (NaN or infinite) in "
        "%s, although the input is; try %s",
        s->main.model->info.arch, latent,
        vae_precision_name(s->main.plan.precision),
        s->main.plan.precision == VAE_PRECISION_FP32
            ? "other weights"
            : "precision fp32 or the nan-policy fallback");
}

/* Restores the state of the stream before the last run, except its memory. */
static void
take_back(VaeStream *s)
{
    const VaeGuard *g = &s->guard;
    s->stats.runs_first -= g->which == FIRST;
    s->stats.runs_next -= g->which == NEXT;
    s->stats.runs_next1 -= g->which == NEXT1;
    s->stats.runs_without_context -= g->which == WITHOUT_CONTEXT;
    s->runs--;
    s->at = g->before;
}

/* Applies the nan-policy to the last run. Its results are non-finite and
 * already delivered. */
static VaeStatus
apply_policy(VaeStream *s, const VaeUnits *units, VaeError *error)
{
    const int which = s->guard.which;
    const VaeProgram *p = s->main.programs[which];
    take_back(s);
    if (s->main.params.nan_policy == VAE_NAN_ERROR)
        return not_finite(s, p, units, error);
    if (s->main.wide && p->steps > 1) {
        const uint64_t runs = s->runs;
        s->stats.nonfinite = s->guard.nonfinite;
        VaeStatus status =
            vae_carries_restore(&s->main.carries, VAE_BEFORE_RUN, error);
        if (status == VAE_OK)
            status = one_by_one(s, p, units, error);
        /* vae_stream_wait() counts runs: the repeated steps count as the one
         * run that they replace. */
        s->runs = runs + 1;
        return status;
    }
    s->stats.nonfinite_steps += (uint64_t) p->steps;
    const VaeStatus status =
        s->main.wide ? recover(s, which, units, error) : VAE_OK;
    if (status == VAE_OK)
        vae_stream_count_run(s, which);
    return status;
}

/* Counts the carries with non-finite values. In the first runs of a decoder
 * with a delay, the results do not have these values yet. */
static VaeStatus
count_carries(VaeStream *s, VaeError *error)
{
    const VaeClock clock = vae_stream_clock(s);
    if (s->guard.bad || !s->main.wide ||
        !vae_stream_is_early(s, s->main.programs[s->guard.which], clock))
        return VAE_OK;
    uint8_t *carries = vae_mem_alloc((size_t) s->main.plan.carries);
    if (!carries)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory for carries");
    const VaeStatus status = vae_carries_read(&s->main.carries, carries, error);
    vae_stream_clear_unused(s->main.programs[NEXT], &clock, carries);
    for (int i = 0; i < s->main.carries.set.n && status == VAE_OK; i++) {
        const VaeCarry *c = s->main.carries.set.items[i];
        const size_t n = c->bytes / vae_type_size(c->type);
        s->guard.bad += !all_finite(carries + c->offset, c->type, n);
    }
    vae_mem_free(carries);
    return status;
}

/* Checks the last run, whose units these are. */
static VaeStatus
settle(VaeStream *s, const VaeUnits *units, VaeError *error)
{
    s->guard.pending = false;
    VaeStatus status = count_bad(&s->main, error);
    if (status == VAE_OK)
        status = count_carries(s, error);
    if (status != VAE_OK || s->guard.bad == 0)
        return status;
    /* deliver earlier runs first, because stats.nonfinite is saved before this
     * run adds to it */
    if (s->main.class->finish)
        status =
            s->main.class->finish(s->main.backend, 1, VAE_FINISH_KEEP, error);
    if (s->main.class->finish && status == VAE_OK) {
        s->guard.nonfinite = s->stats.nonfinite;
        status =
            s->main.class->finish(s->main.backend, 0, VAE_FINISH_KEEP, error);
    }
    return status == VAE_OK ? apply_policy(s, units, error) : status;
}

VaeStatus
vae_stream_settle(VaeStream *s, VaeError *error)
{
    const VaeUnits units = vae_stream_copied_units(s);
    return s->guard.pending ? settle(s, &units, error) : VAE_OK;
}

static VaeStatus
run_guarded(VaeStream *s, int which, const VaeUnits *units, VaeError *error)
{
    const VaeProgram *p = s->main.programs[which];
    VaeGuard *g = &s->guard;
    VaeStatus status = vae_stream_settle(s, error);
    if (status != VAE_OK)
        return status;
    s->at.in_fallback = s->at.in_fallback && s->at.next == NEXT;
    if (s->at.in_fallback && p->steps > 1)
        return one_by_one(s, p, units, error);
    g->nonfinite = s->stats.nonfinite;
    if (s->at.in_fallback) {
        status = run_in_fallback(s, units, error);
        if (status == VAE_OK)
            vae_stream_count_run(s, which);
        return status;
    }
    if (s->main.wide)
        status = vae_carries_save(&s->main.carries, VAE_BEFORE_RUN, error);
    const bool overlaps =
        status == VAE_OK && !g->singly && vae_stream_copy_units(s, p, units);
    g->which = which;
    g->before = s->at;
    g->bad = 0;
    if (status == VAE_OK)
        status = vae_stream_run_exec(s, &s->main, which, units, error);
    if (status != VAE_OK)
        return status;
    vae_stream_count_run(s, which);
    if (!overlaps)
        return settle(s, units, error);
    g->pending = true;
    return VAE_OK;
}

VaeStatus
vae_stream_run_program(VaeStream *s, int which, const VaeUnits *units,
                       VaeError *error)
{
    if (s->main.params.nan_policy != VAE_NAN_PASS)
        return run_guarded(s, which, units, error);
    const VaeStatus status =
        vae_stream_run_exec(s, &s->main, which, units, error);
    if (status == VAE_OK)
        vae_stream_count_run(s, which);
    return status;
}

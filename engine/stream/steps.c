/*
 * steps.c: decides the order of slices and runs them: the first step, then
 * whole slices, then single steps.
 */
#include "stream.h"

VaeStatus
vae_stream_grow_history(VaeStream *s, int steps, VaeError *error)
{
    VaeMachine *m = &s->main;
    VaeHistoryStore *h = &m->history;
    const uint64_t have = vae_sequence_length(&s->at);
    const uint64_t latents = have + (uint64_t) steps;
    const uint64_t bytes = vae_history_bytes(h, latents);
    const uint64_t rest = m->plan.total - m->plan.history;
    const uint64_t limit = m->search.limit.bytes;
    VaeError why = {0};
    VaeStatus status = VAE_OK;
    if (bytes <= vae_history_bytes(h, (uint64_t) m->rung.slice))
        return VAE_OK; /* every plan has memory for a slice */
    if (!h->spills && rest + bytes > limit)
        status =
            vae_fail(&why, VAE_ERR_MEMORY, "%s %.1f MiB",
                     m->params.memory_limit ? "the memory limit is"
                                            : "the free memory was at opening",
                     (double) limit / 1048576);
    if (status == VAE_OK)
        status = vae_history_grow(h, latents, &why);
    if (status != VAE_ERR_MEMORY) {
        if (error && status != VAE_OK)
            *error = why;
        return status;
    }
    return vae_fail(
        error, VAE_ERR_MEMORY,
        "%s: latent %llu of the sequence needs %.1f MiB of history, which do "
        "not fit beside the other %.1f MiB: %s; allow more memory, or set "
        "history to a number of latents, which gives other results",
        vae_machine_direction(m), (unsigned long long) latents,
        (double) bytes / 1048576, (double) rest / 1048576, why.message);
}

/* Computes the frames that are due now as if the sequence ended here, and
 * restores the carries. Called after each step if the look-ahead is smaller
 * than the model's. */
static VaeStatus
guess(VaeStream *s, const VaeUnits *units, VaeError *error)
{
    const int steps = vae_stream_steps_to(s, s->main.plan.delay);
    const VaeSequence before = s->at;
    VaeCarryStore *carries =
        before.in_fallback ? &s->main.wide->carries : &s->main.carries;
    VaeStatus status = vae_carries_save(carries, VAE_BEFORE_GUESS, error);
    if (status != VAE_OK)
        return status;
    s->at.ended = true;
    status = vae_stream_run_steps(s, units, steps, error);
    const int step = s->at.step; /* a dump counts these runs, too */
    s->at = before;
    s->at.step = step;
    return status == VAE_OK
               ? vae_carries_restore(carries, VAE_BEFORE_GUESS, error)
               : status;
}

/* The last latents that fit come one by one, and their results before the
 * error. */
static void
look_ahead(VaeStream *s)
{
    VaePlan *p = &s->main.plan;
    if (p->slice_size > 1 &&
        vae_stream_grow_history(s, p->slice_size, NULL) != VAE_OK)
        p->slice_size = 1;
    s->full = vae_stream_grow_history(s, 1, NULL) != VAE_OK;
}

VaeStatus
vae_stream_run_steps(VaeStream *s, const VaeUnits *units, int steps,
                     VaeError *error)
{
    VaeUnits at = *units;
    const bool guesses = s->main.params.low_latency && !s->at.ended;
    while (steps > 0) {
        const int most = guesses ? 1 : steps;
        const int slice = s->main.programs[NEXT]->steps;
        const bool single = slice > 1 && (most < slice || s->at.warm_up ||
                                          s->main.plan.slice_size == 1);
        const int which = s->at.next == NEXT && single ? NEXT1 : s->at.next;
        const VaeProgram *p = s->main.programs[which];
        if (guesses)
            vae_stream_set_frames(s, &at, 1);
        VaeStatus status = vae_stream_grow_history(s, p->steps, error);
        if (status == VAE_OK)
            status = vae_stream_run_program(s, which, &at, error);
        else
            vae_stream_finish(s, 0, VAE_OK,
                              NULL); /* what was computed is complete */
        if (status == VAE_OK && guesses)
            status = guess(s, &at, error);
        if (status != VAE_OK) {
            s->at.broken = true;
            return status;
        }
        vae_units_skip(s, &at, p->n_in, p->n_out);
        if (!s->at.ended)
            s->stats.units_in += (uint64_t) p->n_in;
        if (!vae_machine_has_delay(&s->main))
            s->stats.units_out += (uint64_t) p->n_out;
        steps -= p->steps;
    }
    look_ahead(s);
    return VAE_OK;
}

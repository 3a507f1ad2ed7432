/*
 * exec.c: runs one program, counts the run, and times its ops.
 */
#include <math.h>

#include "stream.h"

/* True if the stream leaves out ops during a warm-up. A nan_policy needs all
 * results. */
static bool
leaves_out(const VaeStream *s)
{
    return s->main.params.nan_policy == VAE_NAN_PASS &&
           s->main.class->leaves_out && !vae_machine_has_tiles(&s->main);
}

void
vae_stream_warm_up(VaeStream *stream, int steps)
{
    stream->at.warm_up = steps > 0 ? steps : 0;
}

int
vae_stream_warm_up_cost(const VaeStream *stream, int steps)
{
    const int which = stream->main.plan.slice_size == 1 ? NEXT : NEXT1;
    const VaeProgram *p = stream->main.programs[which];
    double flop = 0;
    if (!leaves_out(stream) || p->flop <= 0)
        return steps;
    for (int i = 0; i < p->n_ops; i++) {
        const VaeOp *op = &p->ops[i];
        const int most = op->range ? op->range - 1 : steps;
        flop += op->flop * (most < steps ? most : steps);
    }
    return (int) ceil(flop / p->flop);
}

VaeStatus
vae_stream_run_exec(VaeStream *s, VaeMachine *m, int which,
                    const VaeUnits *units, VaeError *error)
{
    const VaeModelInfo *info = &m->model->info;
    VaeRun run = {
        .latents_in = units->in,
        .latents_out = units->out,
        .pictures = units->pictures,
        .scale = s->scaling.scale,
        .shift = s->scaling.shift,
        .mean = s->scaling.mean,
        .std = s->scaling.std,
        .normalise = s->scaling.normalise,
        .sample = m->params.posterior == VAE_POSTERIOR_SAMPLE,
        .seed = m->params.seed,
        .noise = s->noise,
        .noise_user = s->noise_user,
        .index = s->at.latents,
        .history = vae_sequence_length(&s->at),
        .channels = info->latent_channels,
        .low = info->pixel_low,
        .high = info->pixel_high,
        .alpha = vae_machine_pixel_floats(m) == 4,
        .bad = s->main.params.nan_policy != VAE_NAN_PASS ? &s->guard.bad : NULL,
        .stats = &s->stats,
        .cancel = &s->cancel,
        .dump = m->params.dump,
        .dump_user = m->params.dump_user,
        .step = s->at.step};
    if (vae_machine_has_tiles(m))
        return vae_machine_run_tiles(m, which, &run, error);
    if (leaves_out(s))
        run.ahead = s->at.warm_up;
    if (m->programs[which]->delayed)
        vae_stream_place_frames(s, m->programs[which], units, &run);
    return m->class->run(m->backend, m->execs[which], &run, error);
}

void
vae_stream_count_run(VaeStream *s, int which)
{
    const int steps = s->main.programs[which]->steps;
    s->at.step++;
    s->runs++;
    s->at.warm_up -= s->at.warm_up < steps ? s->at.warm_up : steps;
    if (s->at.ended)
        s->at.drained += steps;
    else
        s->at.latents += (uint64_t) (s->main.params.direction == VAE_DECODE
                                         ? s->main.programs[which]->n_in
                                         : s->main.programs[which]->n_out);
    s->stats.runs_first += which == FIRST;
    s->stats.runs_next += which == NEXT;
    s->stats.runs_next1 += which == NEXT1;
    s->stats.runs_without_context += which == WITHOUT_CONTEXT;
    s->at.next = NEXT;
}

/* ------------------------------------------------------------------ */

void
vae_stream_profile(VaeStream *s, bool on)
{
    for (int i = 0; i < PROGRAMS; i++) {
        if (!s->main.execs[i])
            continue;
        vae_mem_free(s->main.times[i]);
        s->main.times[i] = NULL;
        if (on)
            s->main.times[i] = vae_mem_alloc(
                (size_t) s->main.programs[i]->n_ops * sizeof *s->main.times[i]);
        s->main.execs[i]->times = s->main.times[i];
    }
}

bool
vae_stream_profile_row(const VaeStream *s, size_t i, VaeProfileRow *out)
{
    for (int p = 0; p < PROGRAMS; p++) {
        if (!s->main.execs[p])
            continue;
        const size_t n = (size_t) s->main.programs[p]->n_ops;
        if (i >= n) {
            i -= n;
            continue;
        }
        const VaeOp *op = &s->main.programs[p]->ops[i];
        *out = (VaeProfileRow){.program = vae_program_labels[p % KINDS],
                               .op = vae_op_name(op->kind),
                               .name = op->name,
                               .impl = s->main.execs[p]->ops[i].impl,
                               .flop = op->flop,
                               .bytes = op->bytes};
        if (s->main.times[p]) {
            out->calls = s->main.times[p][i].calls;
            out->ns = s->main.times[p][i].ns;
        }
        return true;
    }
    return false;
}

VaeStatus
vae_stream_finish(VaeStream *s, int pending, VaeStatus status, VaeError *error)
{
    const bool keep = status == VAE_OK;
    if (!keep)
        s->guard.pending = false;
    if (!s->main.class->finish)
        return status;
    const VaeStatus end = s->main.class->finish(
        s->main.backend, keep ? pending : 0,
        keep ? VAE_FINISH_KEEP : VAE_FINISH_DISCARD, keep ? error : NULL);
    s->at.broken = s->at.broken || end != VAE_OK;
    /* A failed run also ends the runs after it. */
    if (keep && end != VAE_OK)
        s->main.class->finish(s->main.backend, 0, VAE_FINISH_DISCARD, NULL);
    if (!keep && s->main.wide)
        s->main.class->finish(s->main.wide->backend, 0, VAE_FINISH_DISCARD,
                              NULL);
    return keep ? end : status;
}

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
    return s->params.nan_policy == VAE_NAN_PASS && !s->fallback_of &&
           s->class->leaves_out && !vae_stream_has_tiles(s);
}

void
vae_stream_warm_up(VaeStream *stream, int steps)
{
    stream->at.warm_up = steps > 0 ? steps : 0;
}

int
vae_stream_warm_up_cost(const VaeStream *stream, int steps)
{
    const int which = stream->plan.slice_size == 1 ? NEXT : NEXT1;
    const VaeProgram *p = stream->programs[which];
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
vae_stream_run_exec(VaeStream *s, int which, const VaeUnits *units,
                    VaeError *error)
{
    const VaeModelInfo *info = &s->model->info;
    VaeRun run = {.latents_in = units->in,
                  .latents_out = units->out,
                  .pictures = units->pictures,
                  .scale = s->scale,
                  .shift = s->shift,
                  .mean = s->mean,
                  .std = s->std,
                  .normalise = s->normalise,
                  .sample = s->params.posterior == VAE_POSTERIOR_SAMPLE,
                  .seed = s->params.seed,
                  .index = s->at.latents,
                  .channels = info->latent_channels,
                  .low = info->pixel_low,
                  .high = info->pixel_high,
                  .alpha = vae_stream_pixel_floats(s) == 4,
                  .bad = s->params.nan_policy != VAE_NAN_PASS || s->fallback_of
                             ? &s->guard.bad
                             : NULL,
                  .stats = s->fallback_of ? &s->fallback_of->stats : &s->stats,
                  .cancel =
                      s->fallback_of ? &s->fallback_of->cancel : &s->cancel,
                  .dump = s->params.dump,
                  .dump_user = s->params.dump_user,
                  .step = s->at.step};
    if (vae_stream_has_tiles(s))
        return vae_stream_run_tiles(s, which, &run, error);
    if (leaves_out(s))
        run.ahead = s->at.warm_up;
    if (s->programs[which]->delayed)
        vae_stream_place_frames(s, s->programs[which], units, &run);
    return s->class->run(s->backend, s->execs[which], &run, error);
}

void
vae_stream_count_run(VaeStream *s, int which)
{
    const int steps = s->programs[which]->steps;
    s->at.step++;
    s->runs++;
    s->at.warm_up -= s->at.warm_up < steps ? s->at.warm_up : steps;
    if (s->at.ended)
        s->at.drained += steps;
    else
        s->at.latents += (uint64_t) (s->params.direction == VAE_DECODE
                                         ? s->programs[which]->n_in
                                         : s->programs[which]->n_out);
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
        if (!s->execs[i])
            continue;
        vae_mem_free(s->times[i]);
        s->times[i] = NULL;
        if (on)
            s->times[i] = vae_mem_alloc((size_t) s->programs[i]->n_ops *
                                        sizeof *s->times[i]);
        s->execs[i]->times = s->times[i];
    }
}

bool
vae_stream_profile_row(const VaeStream *s, size_t i, VaeProfileRow *out)
{
    for (int p = 0; p < PROGRAMS; p++) {
        if (!s->execs[p])
            continue;
        const size_t n = (size_t) s->programs[p]->n_ops;
        if (i >= n) {
            i -= n;
            continue;
        }
        const VaeOp *op = &s->programs[p]->ops[i];
        *out = (VaeProfileRow){.program = vae_stream_labels[p % KINDS],
                               .op = vae_op_name(op->kind),
                               .name = op->name,
                               .impl = s->execs[p]->ops[i].impl,
                               .flop = op->flop,
                               .bytes = op->bytes};
        if (s->times[p]) {
            out->calls = s->times[p][i].calls;
            out->ns = s->times[p][i].ns;
        }
        return true;
    }
    return false;
}

/*
 * exec.c: runs one program, counts the run, and times its ops.
 */
#include "stream.h"

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
                  .index = s->latents,
                  .channels = info->latent_channels,
                  .low = info->pixel_low,
                  .high = info->pixel_high,
                  .bad = s->params.nan_policy != VAE_NAN_PASS || s->fallback_of
                             ? &s->guard.bad
                             : NULL,
                  .stats = s->fallback_of ? &s->fallback_of->stats : &s->stats,
                  .cancel =
                      s->fallback_of ? &s->fallback_of->cancel : &s->cancel,
                  .dump = s->params.dump,
                  .dump_user = s->params.dump_user,
                  .step = s->step};
    if (vae_stream_has_tiles(s))
        return vae_stream_run_tiles(s, which, &run, error);
    if (s->programs[which]->delayed)
        vae_stream_place_frames(s, s->programs[which], units, &run);
    return s->class->run(s->backend, s->execs[which], &run, error);
}

void
vae_stream_count_run(VaeStream *s, int which)
{
    s->step++;
    s->runs++;
    if (s->ended)
        s->drained += s->programs[which]->steps;
    else
        s->latents += (uint64_t) (s->params.direction == VAE_DECODE
                                      ? s->programs[which]->n_in
                                      : s->programs[which]->n_out);
    s->stats.runs_first += which == FIRST;
    s->stats.runs_next += which == NEXT;
    s->stats.runs_next1 += which == NEXT1;
    s->stats.runs_cold += which == COLD;
    s->at_start = s->cold = false;
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

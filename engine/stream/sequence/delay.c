/*
 * delay.c: decoders whose frames come later than their latents, and the end of
 * their sequences. See program/delay.h.
 *
 * Frame 0 is the first frame of the sequence. A restart also gives the temporal
 * - 1 (7) frames before it, which have negative indices. The numbers of latents
 * and of steps of the end so far determine the next frame.
 */
#include <string.h>

#include "clock.h"
#include "stream.h"

/* The number of latents of the sequence so far. */
static int64_t
latents_of(const VaeStream *s)
{
    return (int64_t) (s->at.latents - s->at.lines.latent);
}

VaeClock
vae_stream_clock(const VaeStream *s)
{
    const int64_t n = latents_of(s);
    return (VaeClock){.begin = n + s->at.drained,
                      .end = s->at.ended ? n : -1,
                      .least = s->main.model->least,
                      .origin = (int64_t) s->at.lines.latent,
                      .without_context = s->at.lines.restart};
}

/* The index of the next frame after so many latents and so many steps of the
 * end (`drained`). */
static int64_t
next_frame(const VaeStream *s, int64_t latents, int drained)
{
    const int rate = s->steps.step_out;
    const int64_t first = s->at.lines.restart ? 1 - rate : 0;
    const int64_t end = rate * (latents - 1) + 1;
    const int64_t early = end - s->main.plan.delay;
    int64_t next = end + rate * drained - s->main.reach.delay;
    if (latents < 1)
        return first;
    if (next <= first + s->main.model->info.held)
        next = first;
    if (s->main.params.low_latency && next < early)
        next = early;
    next = next < end ? next : end;
    return next > first ? next : first;
}

int
vae_stream_steps_to(const VaeStream *s, int left)
{
    const int64_t n = latents_of(s), rate = s->steps.step_out;
    const int64_t wait = s->main.reach.delay + rate - 1;
    const int64_t frames = rate * (n - 1) - left + wait;
    const int64_t first = s->at.lines.restart ? 1 - rate : 0;
    const int64_t held = first + s->main.model->info.held + wait;
    return (int) ((frames > held ? frames : held) / rate - (n - 1));
}

int64_t
vae_stream_frames_so_far(const VaeStream *s)
{
    if (!vae_machine_has_delay(&s->main))
        return vae_model_frames_of(s->main.model, (int64_t) s->at.latents);
    return vae_model_frames_of(s->main.model, (int64_t) s->at.lines.latent) +
           next_frame(s, latents_of(s), s->at.drained) - next_frame(s, 0, 0);
}

int
vae_stream_frames_after(const VaeStream *s, int steps)
{
    const int64_t n = latents_of(s);
    return (int) (next_frame(s, n + steps, 0) - next_frame(s, n, 0));
}

void
vae_stream_set_frames(const VaeStream *s, VaeUnits *units, int steps)
{
    const int64_t n = latents_of(s);
    if (!vae_machine_has_delay(&s->main))
        return;
    units->from = next_frame(s, n, s->at.drained);
    units->until = s->at.ended ? next_frame(s, n, s->at.drained + steps)
                               : next_frame(s, n + steps, 0);
}

void
vae_stream_place_frames(const VaeStream *s, const VaeProgram *p,
                        const VaeUnits *units, VaeRun *run)
{
    run->clock = vae_stream_clock(s);
    run->clock.steps = p->steps;
    const VaeTensor *x = p->ops[p->n_ops - 1].x;
    const int64_t first = vae_clock_frame(&run->clock, x);
    const int left_out = vae_clock_left_out(&run->clock, x);
    for (int i = 0; i < p->n_out; i++) {
        const int64_t f = first + i;
        s->slots[i] = i >= left_out && f >= units->from && f < units->until
                          ? units->pictures[f - units->base]
                          : (VaePicture){0};
    }
    run->pictures = s->slots;
    if (run->clock.end >= 0)
        run->latents_in = s->no_latents;
}

/* ------------------------------------------------------------------ */
/* Numbers that are not finite.                                        */

void
vae_stream_clear_unused(const VaeProgram *p, const VaeClock *next,
                        uint8_t *carries)
{
    for (int i = 0; i < p->n_ops && p->delayed; i++) {
        const VaeOp *op = &p->ops[i];
        const VaeCarry *carry = op->carry;
        int64_t first, end;
        if (!carry || (op->kind != VAE_OP_TAIL && op->kind != VAE_OP_NORM))
            continue;
        const size_t frame = vae_carry_frame(carry);
        vae_clock_span(next, op->kind == VAE_OP_TAIL ? op->x : op->y, &first,
                       &end);
        /* later ops read frame -1 and the frame after the last one, which are
         * copies */
        for (int k = 0; k < carry->frames; k++)
            if (k - carry->frames < first - 1 || k - carry->frames > end)
                memset(carries + carry->offset + (size_t) k * frame, 0, frame);
    }
}

bool
vae_stream_is_early(const VaeStream *s, const VaeProgram *p, VaeClock clock)
{
    int64_t first, end;
    if (!p->delayed)
        return false;
    clock.begin -= p->steps;
    vae_clock_span(&clock, p->ops[p->n_ops - 1].x, &first, &end);
    return first > 0;
}

/* ------------------------------------------------------------------ */
/* The end.                                                            */

int
vae_stream_drain_count(const VaeStream *s, int steps, int *n_out)
{
    const int64_t n = latents_of(s);
    const int all = vae_stream_steps_to(s, 0);
    int left = 0;
    if (vae_machine_has_delay(&s->main) && n > 0 &&
        next_frame(s, n, s->at.drained) < next_frame(s, n, all))
        left = all - s->at.drained;
    steps = steps < 0 ? 0 : steps > left ? left : steps;
    if (n_out)
        *n_out = steps ? (int) (next_frame(s, n, s->at.drained + steps) -
                                next_frame(s, n, s->at.drained))
                       : 0;
    return left;
}

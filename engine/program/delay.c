/*
 * delay.c: see delay.h.
 */
#include <limits.h>

#include "delay.h"

int64_t
vae_clock_frame(const VaeClock *clock, const VaeTensor *t)
{
    return clock->begin * t->rate - t->lead - t->delay;
}

/* The same for a sequence that ends after so many latents, or -1. */
static void
span_of(const VaeClock *clock, const VaeTensor *t, int64_t latents,
        int64_t *first, int64_t *end)
{
    const int64_t at = vae_clock_frame(clock, t);
    *first = (clock->without_context ? 1 - t->rate : 0) - at;
    *end = latents < 0 ? INT64_MAX : (latents - 1) * t->rate + 1 - at;
}

void
vae_clock_span(const VaeClock *clock, const VaeTensor *t, int64_t *first,
               int64_t *end)
{
    const int64_t latents =
        clock->end < clock->least ? clock->least : clock->end;
    span_of(clock, t, clock->end < 0 ? -1 : latents + t->ghosts, first, end);
}

void
vae_clock_edges(const VaeClock *clock, const VaeTensor *t, int64_t *first,
                int64_t *end)
{
    span_of(clock, t, clock->end, first, end);
}

int
vae_clock_left_out(const VaeClock *clock, const VaeTensor *t)
{
    int64_t first, end;
    vae_clock_span(clock, t, &first, &end);
    first -= t->lead - t->held;
    return first >= 0 && first < clock->steps * t->rate ? 0 : t->late;
}

VaePlaceInVideo
vae_clock_place(const VaeClock *clock, const VaeTensor *t)
{
    enum { FAR = INT_MAX / 2 };
    int64_t first, end;
    vae_clock_span(clock, t, &first, &end);
    return (VaePlaceInVideo){.frame = clock->origin * t->rate +
                                      vae_clock_frame(clock, t),
                             .first = (int) (first < -FAR  ? -FAR
                                             : first > FAR ? FAR
                                                           : first),
                             .end = (int) (end < -FAR  ? -FAR
                                           : end > FAR ? FAR
                                                       : end)};
}

bool
vae_clock_skips(const VaeClock *clock, const VaeOp *op)
{
    const VaeTensor *t = op->y ? op->y : op->x;
    int64_t first, end;
    if (!t || op->kind == VAE_OP_PICTURE_OUT)
        return false;
    if (op->kind == VAE_OP_LATENT_IN)
        return clock->end >= 0;
    vae_clock_span(clock, t, &first, &end);
    /* later ops also read the frames of the run before in a delay line */
    return first >= t->shape.t || end <= (op->y ? 0 : -t->ctx);
}

bool
vae_clock_is_steady(const VaeClock *clock, const VaeProgram *program)
{
    if (!program->delayed)
        return true;
    if (clock->end >= 0)
        return false;
    for (int i = 0; i < program->n_ops; i++) {
        const VaeOp *op = &program->ops[i];
        int64_t first, end;
        if (vae_clock_skips(clock, op))
            return false;
        const VaeTensor *t = op->y ? op->y : op->x;
        if (op->kind == VAE_OP_EDGE || (t && t->late)) {
            vae_clock_span(clock, t, &first, &end);
            if (first >= 0)
                return false;
        }
    }
    return true;
}

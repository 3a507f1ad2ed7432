/*
 * history.c: attention over a history that is spilled.
 *
 * The keys are read part by part (VaeHistoryPart). A part is a block on the
 * device, or a spilled block in one of two stages. The stream `fetching` fills
 * a stage while a kernel reads the other one. It also copies the rows of the
 * frame itself, which the kernel writes to the stage, to the host.
 */
#include "gpu.h"
#include "launch.h"

VaeStatus
vae_cuda_prepare_history(VaeBackend *cuda, VaeCudaExec *e, int i,
                         VaeError *error)
{
    const VaeShape y = e->exec.program->ops[i].y->shape;
    VaeRtEvent *const events[] = {&cuda->filled[0], &cuda->filled[1],
                                  &cuda->read[0], &cuda->read[1],
                                  &cuda->stored};
    int code = e->cache ? vae_cuda_open_moves(cuda) : 0;
    for (size_t k = 0; k < sizeof events / sizeof *events && e->cache && !code;
         k++)
        if (!*events[k])
            code = vae_rt_event_new(events[k]);
    vae_exec_needs_scratch(&e->exec, (size_t) y.h * (size_t) y.w *
                                         (size_t) (y.c + 2) * sizeof(float));
    return vae_cuda_status(cuda, code, "make streams", error);
}

void
vae_cuda_free_history(VaeBackend *cuda)
{
    for (int i = 0; i < 2; i++) {
        vae_rt_event_free(cuda->filled[i]);
        vae_rt_event_free(cuda->read[i]);
    }
    vae_rt_event_free(cuda->stored);
}

bool
vae_cuda_history_is_spilled(const VaeExec *e)
{
    const VaeHistoryPlaces *p = e->memory.places;
    return p && p->n > p->on_device;
}

int
vae_cuda_end_history(VaeBackend *cuda, const VaeExec *e)
{
    return vae_cuda_history_is_spilled(e)
               ? vae_rt_stream_wait(cuda->compute, cuda->stored)
               : 0;
}

/* ------------------------------------------------------------------ */

/* The number of latents that follow each other in a block from the place `at`
 * on, at most `latents`. */
static int
count_latents(const VaeHistory *h, uint64_t at, uint64_t latents)
{
    const uint64_t each = (uint64_t) h->each, window = (uint64_t) h->window;
    uint64_t n = each - at % each;
    if (window && n > window - at)
        n = window - at;
    return (int) (n < latents ? n : latents);
}

/* Copies a spilled part to its stage, except the rows that the kernel writes,
 * as soon as the last kernel that read this stage is done. */
static int
fetch(VaeBackend *cuda, const VaeOp *op, const VaeHistoryPart *p,
      const uint8_t *from)
{
    const int stage = cuda->stage;
    int code = vae_rt_stream_wait(cuda->fetching, cuda->read[stage]);
    for (int i = 0; i < p->latents - p->last && !code; i++)
        code = vae_rt_copy(p->rows + (size_t) i * p->bytes,
                           from + (size_t) i * p->bytes, op->carry->bytes,
                           cuda->fetching);
    if (!code)
        code = vae_rt_event_record(cuda->filled[stage], cuda->fetching);
    return code ? code : vae_rt_stream_wait(cuda->compute, cuda->filled[stage]);
}

/* After the kernel: the stage may be filled again once its rows are stored. */
static int
leave(VaeBackend *cuda, const VaeOp *op, const VaeHistoryPart *p, uint8_t *to)
{
    const int stage = cuda->stage;
    const size_t at = (size_t) (p->latents - 1) * p->bytes;
    int code = vae_rt_event_record(cuda->read[stage], cuda->compute);
    cuda->stage = 1 - stage;
    if (code || !p->last)
        return code;
    code = vae_rt_stream_wait(cuda->fetching, cuda->read[stage]);
    if (!code)
        code = vae_rt_copy(to + at, p->rows + at, op->carry->bytes,
                           cuda->fetching);
    return code ? code : vae_rt_event_record(cuda->stored, cuda->fetching);
}

/* Computes the part of a, whose rows are in `block`. */
static int
attend_part(const VaeLaunch *l, const VaeOp *op, VaeAttentionArgs *a, int block,
            size_t at)
{
    VaeBackend *cuda = l->user;
    const VaeHistoryPlaces *places = l->exec->memory.places;
    const bool spilled = block >= places->on_device;
    uint8_t *rows = places->blocks[block] + at;
    a->part.rows = spilled ? places->stages[cuda->stage] : rows;
    int code = spilled ? fetch(cuda, op, &a->part, rows) : 0;
    if (code)
        return code;
    l->kernels->attention(&l->queue, a);
    return spilled ? leave(cuda, op, &a->part, rows) : 0;
}

int
vae_cuda_attend(const VaeLaunch *l, const VaeOp *op,
                const VaeAttentionArgs *args)
{
    VaeAttentionArgs a = *args;
    const VaeHistory *h = &a.history;
    const uint64_t window = (uint64_t) h->window, each = (uint64_t) h->each;
    int code = 0;
    if (!l->run || !vae_cuda_history_is_spilled(l->exec)) {
        l->kernels->attention(&l->queue, args);
        return 0;
    }
    const uint64_t end = l->run->history + (uint64_t) h->frame + 1;
    const uint64_t first = window && end > window ? end - window : 0;
    for (uint64_t i = first; i < end && !code; i += (uint64_t) a.part.latents) {
        const uint64_t at = window ? i % window : i;
        const int latents = count_latents(h, at, end - i);
        a.part = (VaeHistoryPart){.bytes = h->bytes,
                                  .latents = latents,
                                  .first = i == first,
                                  .last = i + (uint64_t) latents == end,
                                  .sums = a.scratch};
        code = attend_part(l, op, &a, (int) (at / each),
                           (size_t) (at % each) * h->bytes + h->place);
    }
    return code;
}

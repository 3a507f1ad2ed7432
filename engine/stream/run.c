/*
 * run.c: the calls of a stream that compute units, and the end of a sequence.
 */
#include <string.h>

#include "arguments.h"
#include "clock.h"
#include "stream.h"

/* Frees the history of the last sequence, once no run reads that history. */
static void
forget_history(VaeStream *s)
{
    VaeMachine *m = &s->main;
    if (!m->history.places.n)
        return;
    if (m->class->finish)
        m->class->finish(m->backend, 0, VAE_FINISH_KEEP, NULL);
    vae_history_shrink(&m->history, (uint64_t) vae_machine_most_steps(m));
    m->plan.slice_size = m->rung.slice;
    s->full = false;
}

VaeStatus
vae_stream_restart(VaeStream *stream, uint64_t latents, VaeError *error)
{
    VaeStatus status = vae_check_pointers(error, "stream", stream);
    if (status != VAE_OK)
        return status;
    if (!stream->main.params.restarts)
        return vae_fail_parts(
            error, VAE_ERR_ARGUMENT,
            (VaeErrorParts){NULL, "restarts false", "restarts true"},
            "the stream was not made for restarts");
    if (stream->at.broken)
        stream->guard.pending = false;
    status = vae_stream_settle(stream, error);
    if (status != VAE_OK) {
        stream->at.broken = true;
        return vae_stream_finish(stream, 0, status, error);
    }
    vae_stream_judge_reset(stream);
    atomic_store(&stream->cancel, false);
    stream->sequences++;
    stream->window.begun = false;
    stream->at = vae_sequence_from((VaeOrigin){latents, true});
    forget_history(stream);
    return VAE_OK;
}

const VaePlan *
vae_stream_get_plan(const VaeStream *stream)
{
    return &stream->main.plan;
}

bool
vae_stream_at_start(const VaeStream *stream)
{
    return stream->at.next == FIRST;
}

/* Sets the pictures of the next n latents, which one run decodes. The first
 * latent of a chunk has fewer frames; the slots of the others stay empty. */
static void
place_chunk(const VaeStream *s, const VaePicture *from, int n)
{
    const uint64_t chunk = (uint64_t) s->main.model->info.chunk;
    const int rate = s->at.next == FIRST ? 1 : s->steps.step_out;
    VaePicture *slot = s->slots;
    for (int k = 0; k < n; k++) {
        const bool begins = (s->at.latents + (uint64_t) k) % chunk == 0;
        const int missing = begins ? rate - 1 : 0;
        memset(slot, 0, (size_t) missing * sizeof *slot);
        for (int i = missing; i < rate; i++)
            slot[i] = *from++;
        slot += rate;
    }
}

/* Does what vae_stream_run_steps() does, for models with chunks. An encoder
 * begins each chunk like a sequence. */
static VaeStatus
run_chunks(VaeStream *s, const VaeUnits *units, int steps, VaeError *error)
{
    const bool decode = s->main.params.direction == VAE_DECODE;
    const int chunk = s->main.model->info.chunk;
    VaeUnits at = *units;
    VaeStatus status = VAE_OK;
    while (steps > 0 && status == VAE_OK) {
        const int place = (int) (s->at.latents % (uint64_t) chunk);
        const int rest = decode ? steps : chunk - place;
        VaeUnits now = at;
        int n_in, n_out, n = s->main.plan.slice_size;
        if (!decode && place == 0)
            s->at.next = FIRST;
        n = s->at.next != NEXT ? 1 : n < rest ? n : rest;
        n = n < steps ? n : steps;
        vae_stream_count(s, n, &n_in, &n_out);
        if (decode) {
            place_chunk(s, at.pictures, n);
            now.pictures = s->slots;
        }
        const uint64_t out = s->stats.units_out;
        status = vae_stream_run_steps(s, &now, n, error);
        s->stats.units_out = out + (uint64_t) n_out;
        vae_units_skip(s, &at, n_in, n_out);
        steps -= n;
    }
    return status;
}

void
vae_stream_reset(VaeStream *stream)
{
    vae_stream_finish(stream, 0, VAE_ERR_CANCELLED, NULL);
    vae_stream_judge_end(stream);
    atomic_store(&stream->cancel, false);
    stream->sequences++;
    stream->window.begun = false;
    /* the first program of a sequence sets every carry */
    stream->at = vae_sequence_from((VaeOrigin){0});
    forget_history(stream);
    vae_machine_step_up(&stream->main);
    stream->stats.released = stream->main.released;
}

static VaeStatus
begin(VaeStream *s, const VaeUnits *units, int steps, VaeError *error)
{
    VaeUnits at = *units;
    VaeStatus status = vae_stream_resume(s, error);
    if (status != VAE_OK)
        return status;
    const uint64_t start = vae_now_ns();
    vae_stream_set_frames(s, &at, steps);
    at.base = at.from;
    const VaeModel *model = s->main.model;
    status = model->windows.size || model->info.in_tiles
                 ? vae_stream_run_windows(s, &at, steps, error)
             : model->info.chunk ? run_chunks(s, &at, steps, error)
                                 : vae_stream_run_steps(s, &at, steps, error);
    if (status == VAE_OK)
        s->stats.units_out += (uint64_t) (at.until - at.from);
    if (status != VAE_OK)
        status = vae_stream_finish(s, 0, status, error);
    s->ends[s->calls++ % VAE_STREAM_CALLS] = s->runs;
    s->stats.last_ns = vae_now_ns() - start;
    s->stats.busy_ns += s->stats.last_ns;
    return status;
}

VaeStatus
vae_stream_wait(VaeStream *s, int pending, VaeError *error)
{
    VaeStatus status = vae_check_pointers(error, "stream", s);
    if (status == VAE_OK)
        status = vae_check_range("pending calls", pending, 0,
                                 VAE_STREAM_CALLS - 1, error);
    if (status != VAE_OK)
        return status;
    if (s->calls <= (uint64_t) pending || s->at.broken)
        return VAE_OK;
    const uint64_t start = vae_now_ns();
    const uint64_t done =
        s->ends[(s->calls - 1 - (uint64_t) pending) % VAE_STREAM_CALLS];
    status = done == s->runs ? vae_stream_settle(s, error) : VAE_OK;
    s->at.broken = status != VAE_OK;
    status = vae_stream_finish(s, (int) (s->runs - done), status, error);
    s->stats.busy_ns += vae_now_ns() - start;
    return status;
}

VaeStatus
vae_stream_release(VaeStream *s, VaeError *error)
{
    const VaeStatus status = vae_stream_wait(s, 0, error);
    return status == VAE_OK ? vae_stream_offload(s, error) : status;
}

bool
vae_stream_overlaps(const VaeStream *stream)
{
    return stream->main.class->finish && !stream->full &&
           !vae_machine_has_tiles(&stream->main) &&
           (stream->main.params.nan_policy == VAE_NAN_PASS || stream->guard.in);
}

void
vae_stream_set_noise(VaeStream *s, VaeNoiseFunc noise, void *user)
{
    s->noise = noise;
    s->noise_user = user;
}

VaePin *
vae_stream_pin(VaeStream *s, void *data, size_t bytes)
{
    VaePin *pin = s->main.class->pin ? vae_mem_alloc(sizeof *pin) : NULL;
    if (!pin)
        return NULL;
    *pin = (VaePin){.data = data, .bytes = bytes};
    if (s->main.class->pin(s->main.backend, pin))
        return pin;
    vae_mem_free(pin);
    return NULL;
}

void
vae_pin_free(VaePin **pin)
{
    VaePin *p = *pin;
    *pin = NULL;
    if (p)
        p->unpin(p);
    vae_mem_free(p);
}

VaeStatus
vae_stream_decode_begin(VaeStream *stream, const VaeLatentIn *latents,
                        int n_latents, const VaePicture *frames, int n_frames,
                        VaeError *error)
{
    const VaeUnits units = {.in = latents, .pictures = frames};
    const VaeStatus status = vae_stream_check_call(stream, VAE_DECODE, &units,
                                                   n_latents, n_frames, error);
    if (status != VAE_OK)
        return status;
    vae_stream_judge(stream, &units, n_latents, n_frames);
    return begin(stream, &units, vae_stream_steps_of(stream, n_latents), error);
}

VaeStatus
vae_stream_encode_begin(VaeStream *stream, const VaePicture *frames,
                        int n_frames, const VaeLatentOut *latents,
                        int n_latents, VaeError *error)
{
    const VaeUnits units = {.out = latents, .pictures = frames};
    const VaeStatus status = vae_stream_check_call(stream, VAE_ENCODE, &units,
                                                   n_frames, n_latents, error);
    if (status != VAE_OK)
        return status;
    vae_stream_judge(stream, &units, n_frames, n_latents);
    return begin(stream, &units, vae_stream_steps_of(stream, n_frames), error);
}

/* Ends a call. The time of the last call includes the wait for its runs. */
static VaeStatus
end(VaeStream *s, VaeStatus status, VaeError *error)
{
    if (status != VAE_OK)
        return status;
    const uint64_t before = s->stats.busy_ns;
    status = vae_stream_wait(s, 0, error);
    s->stats.last_ns += s->stats.busy_ns - before;
    return status;
}

VaeStatus
vae_stream_decode(VaeStream *stream, const VaeLatentIn *latents, int n_latents,
                  const VaePicture *frames, int n_frames, VaeError *error)
{
    return end(stream,
               vae_stream_decode_begin(stream, latents, n_latents, frames,
                                       n_frames, error),
               error);
}

VaeStatus
vae_stream_encode(VaeStream *stream, const VaePicture *frames, int n_frames,
                  const VaeLatentOut *latents, int n_latents, VaeError *error)
{
    return end(stream,
               vae_stream_encode_begin(stream, frames, n_frames, latents,
                                       n_latents, error),
               error);
}

/* found, expected: numbers of steps and of results. */
static VaeStatus
fail_drain(VaeDirection direction, const int found[2], const int expected[2],
           VaeError *error)
{
    const char *results = direction == VAE_DECODE ? "frames" : "latents";
    return vae_mismatch(
        error, VAE_ERR_ARGUMENT, NULL,
        "{%d steps and %d %s} for the end of the sequence, expected {=at most "
        "%d steps and their %s, %d}",
        found[0], found[1], results, expected[0], results, expected[1]);
}

static VaeStatus
drain(VaeStream *stream, VaeDirection direction, int steps,
      const VaeUnits *units, int n_out, VaeError *error)
{
    VaeStatus status = vae_stream_check_state(stream, direction, error);
    if (status == VAE_OK)
        status = vae_stream_check_waiting(stream, error);
    if (status != VAE_OK)
        return status;
    const int left = vae_stream_drain_count(stream, 0, NULL);
    int expected;
    vae_stream_drain_count(stream, steps < left ? steps : left, &expected);
    if (steps < 0 || steps > left || n_out != expected)
        return fail_drain(direction, (const int[]){steps, n_out},
                          (const int[]){left, expected}, error);
    status = vae_stream_check_results(stream, units, n_out, error);
    if (status != VAE_OK || steps == 0)
        return status;
    stream->at.ended = true;
    return end(stream, begin(stream, units, steps, error), error);
}

VaeStatus
vae_stream_drain(VaeStream *stream, int steps, const VaePicture *frames,
                 int n_frames, VaeError *error)
{
    return drain(stream, VAE_DECODE, steps, &(VaeUnits){.pictures = frames},
                 n_frames, error);
}

VaeStatus
vae_stream_drain_latents(VaeStream *stream, int steps,
                         const VaeLatentOut *latents, int n_latents,
                         VaeError *error)
{
    return drain(stream, VAE_ENCODE, steps, &(VaeUnits){.out = latents},
                 n_latents, error);
}

void
vae_stream_cancel(VaeStream *stream)
{
    atomic_store(&stream->cancel, true);
}

const VaeStreamStats *
vae_stream_stats(const VaeStream *stream)
{
    return &stream->stats;
}

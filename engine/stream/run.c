/*
 * run.c: decides the order of slices and runs them: the first step, then whole
 * slices, then single steps.
 */
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "pixels.h"
#include "stream.h"

/* After a failed call, neither this stream nor its fallback reads or writes the
 * caller's memory. */
static VaeStatus
finish(VaeStream *s, int pending, VaeStatus status, VaeError *error)
{
    const bool keep = status == VAE_OK;
    if (!keep)
        vae_stream_forget_guarded(s);
    if (!s->class->finish)
        return status;
    const VaeStatus end = s->class->finish(s->backend, keep ? pending : 0, keep,
                                           keep ? error : NULL);
    s->broken = s->broken || end != VAE_OK;
    if (keep && end != VAE_OK) /* and the runs after it */
        s->class->finish(s->backend, 0, false, NULL);
    if (!keep && s->fallback)
        s->class->finish(s->fallback->backend, 0, false, NULL);
    return keep ? end : status;
}

VaeStatus
vae_stream_restart(VaeStream *stream, uint64_t latents, VaeError *error)
{
    if (!stream->params.restarts)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "the stream was not made for restarts");
    if (stream->broken)
        vae_stream_forget_guarded(stream);
    const VaeStatus status = vae_stream_settle(stream, error);
    if (status != VAE_OK) {
        stream->broken = true;
        return finish(stream, 0, status, error);
    }
    atomic_store(&stream->cancel, false);
    stream->sequences++;
    stream->at_start = stream->broken = false;
    stream->cold = stream->from_cold = true;
    stream->in_fallback = false;
    stream->step = stream->drained = 0;
    stream->latents = stream->origin = stream->began = latents;
    stream->began_cold = true;
    stream->ended = false;
    return VAE_OK;
}

const VaePlan *
vae_stream_get_plan(const VaeStream *stream)
{
    return &stream->plan;
}

const char *
vae_stream_get_device(const VaeStream *stream)
{
    return stream->device.name;
}

bool
vae_stream_at_start(const VaeStream *stream)
{
    return stream->at_start;
}

/* The frames of the next latents where these come in chunks. */
static int
chunk_frames(const VaeStream *s, int latents)
{
    const VaeCounts c = vae_model_counts(&s->model->info);
    const int64_t at = (int64_t) (s->latents % (uint64_t) c.chunk);
    return (int) (vae_count_frames(c, at + latents) - vae_count_frames(c, at));
}

void
vae_stream_count(const VaeStream *stream, int steps, int *n_in, int *n_out)
{
    const VaeSteps *s = &stream->steps;
    const bool first = stream->at_start && steps > 0;
    const int later = first ? steps - 1 : steps;
    if (stream->model->info.chunk) {
        *n_in = *n_out = steps;
        *(stream->params.direction == VAE_DECODE ? n_out : n_in) =
            chunk_frames(stream, steps);
        return;
    }
    *n_in = (first ? s->first_in : 0) + later * s->step_in;
    *n_out = vae_stream_has_delay(stream)
                 ? vae_stream_frames_after(stream, steps)
                 : (first ? s->first_out : 0) + later * s->step_out;
}

/* The number of steps that take n_in units, or -1 if it is not whole. */
static int
steps_of(const VaeStream *stream, int n_in)
{
    const VaeSteps *s = &stream->steps;
    if (stream->model->info.chunk) {
        int steps = 0, in = 0, out;
        while (in < n_in)
            vae_stream_count(stream, ++steps, &in, &out);
        return in == n_in ? steps : -1;
    }
    const int rest = stream->at_start ? n_in - s->first_in : n_in;
    if (rest < 0 || rest % s->step_in)
        return -1;
    return rest / s->step_in + stream->at_start;
}

/* Checks alignment, because a misaligned read would make the device unusable
 * for the process. */
static VaeStatus
check_place(const VaeStream *s, const VaePicture *p, int number,
            VaeError *error)
{
    size_t row[3];
    int rows[3];
    if (!p->data[0] || !p->on_device)
        return VAE_OK;
    if (s->class->kind != VAE_BACKEND_CUDA)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "picture %d is in the memory of a device, which the "
                        "backend %s does not have",
                        number, s->class->name);
    if (vae_stream_has_tiles(s))
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "picture %d is in the memory of a device, and tiles "
                        "are blended in that of the host",
                        number);
    const int bytes = vae_layout(p->pixels)->bytes;
    const int planes = vae_picture_planes(p, row, rows);
    for (int i = 0; i < planes; i++)
        if (((uintptr_t) p->data[i] | (uintptr_t) p->stride[i]) %
            (uintptr_t) bytes)
            return vae_fail(error, VAE_ERR_ARGUMENT,
                            "picture %d is in the memory of a device, where "
                            "samples of %d bytes begin at multiples of %d; "
                            "plane %d is at %p, its rows %td bytes apart",
                            number, bytes, bytes, i, (void *) p->data[i],
                            p->stride[i]);
    return VAE_OK;
}

VaeStatus
vae_stream_check_state(const VaeStream *s, VaeDirection direction,
                       VaeError *error)
{
    if (s->params.direction != direction)
        return vae_fail(error, VAE_ERR_ARGUMENT, "the stream %s",
                        direction == VAE_DECODE ? "encodes" : "decodes");
    if (s->broken)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "the sequence was broken off "
                        "by an error; reset the stream first");
    return VAE_OK;
}

static VaeStatus
fail_size(const VaeStream *s, const VaePicture *p, int number, VaeError *error)
{
    char found[32], wanted[32];
    snprintf(found, sizeof found, "%dx%d", p->width, p->height);
    snprintf(wanted, sizeof wanted, "%dx%d", s->params.width, s->params.height);
    return vae_fail_parts(
        error, VAE_ERR_SIZE, (VaeErrorParts){.found = found, .wanted = wanted},
        "picture %d is %s, the stream was made for %s", number, found, wanted);
}

static VaeStatus
check_pictures(const VaeStream *s, const VaePicture *pictures, int n,
               VaeError *error)
{
    for (int i = 0; i < n; i++) {
        const VaePicture *p = &pictures[i];
        if (p->data[0] &&
            (p->width != s->params.width || p->height != s->params.height))
            return fail_size(s, p, i, error);
        const VaeStatus status = check_place(s, p, i, error);
        if (status != VAE_OK)
            return status;
        if (!p->data[0] && s->params.direction == VAE_ENCODE)
            return vae_fail(error, VAE_ERR_ARGUMENT, "picture %d has no data",
                            i);
    }
    return VAE_OK;
}

static VaeStatus
check_call(const VaeStream *s, VaeDirection direction, int n_in, int n_out,
           const VaePicture *pictures, VaeError *error)
{
    const int n_pictures = direction == VAE_DECODE ? n_out : n_in;
    const VaeStatus state = vae_stream_check_state(s, direction, error);
    if (state != VAE_OK)
        return state;
    if (s->ended)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "the end of the sequence was drained; reset the stream "
                        "first");
    const int steps = steps_of(s, n_in);
    int wanted_in, wanted_out;
    vae_stream_count(s, steps, &wanted_in, &wanted_out);
    if (steps > 0 && n_out != wanted_out && vae_stream_has_delay(s))
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "%d latents give %d frames here, not %d", n_in,
                        wanted_out, n_out);
    if (steps < 1 || n_out != wanted_out)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "%d units in and %d out are "
                        "no whole number of steps here (%s takes %d and gives "
                        "%d, each later step %d and %d)",
                        n_in, n_out, s->at_start ? "the first" : "one",
                        s->at_start ? s->steps.first_in : s->steps.step_in,
                        s->at_start ? s->steps.first_out : s->steps.step_out,
                        s->steps.step_in, s->steps.step_out);
    return check_pictures(s, pictures, n_pictures, error);
}

static VaeStatus
run_program(VaeStream *s, int which, const VaeUnits *units, VaeError *error)
{
    if (s->params.nan_policy != VAE_NAN_PASS)
        return vae_stream_run_guarded(s, which, units, error);
    const VaeStatus status = vae_stream_run_exec(s, which, units, error);
    if (status == VAE_OK)
        vae_stream_count_run(s, which);
    return status;
}

static VaeStatus run_steps(VaeStream *s, const VaeUnits *units, int steps,
                           VaeError *error);

/* With a smaller look-ahead, after each step: computes the frames that are
 * given out now as if the sequence ended here, and goes back. */
static VaeStatus
guess(VaeStream *s, const VaeUnits *units, VaeError *error)
{
    const int steps = s->model->info.look_ahead - s->params.look_ahead;
    const bool in_fallback = s->in_fallback;
    VaeCarryStore *carries = in_fallback ? &s->fallback->carries : &s->carries;
    VaeStatus status = vae_carries_save(carries, VAE_BEFORE_GUESS, error);
    if (status != VAE_OK)
        return status;
    s->ended = true;
    status = run_steps(s, units, steps, error);
    s->ended = false;
    s->drained = 0;
    s->in_fallback = in_fallback;
    return status == VAE_OK
               ? vae_carries_restore(carries, VAE_BEFORE_GUESS, error)
               : status;
}

/* The next steps: with latents, or of the end. */
static VaeStatus
run_steps(VaeStream *s, const VaeUnits *units, int steps, VaeError *error)
{
    VaeUnits at = *units;
    const bool guesses = s->params.low_latency && !s->ended;
    while (steps > 0) {
        const int most = guesses ? 1 : steps;
        const int which = s->at_start                  ? FIRST
                          : s->cold                    ? COLD
                          : most >= s->plan.slice_size ? NEXT
                                                       : NEXT1;
        const VaeProgram *p = s->programs[which];
        if (guesses)
            vae_stream_set_frames(s, &at, 1);
        VaeStatus status = run_program(s, which, &at, error);
        if (status == VAE_OK && guesses)
            status = guess(s, &at, error);
        if (status != VAE_OK) {
            s->broken = true;
            return status;
        }
        vae_units_skip(s, &at, p->n_in, p->n_out);
        if (!s->ended)
            s->stats.units_in += (uint64_t) p->n_in;
        if (!vae_stream_has_delay(s))
            s->stats.units_out += (uint64_t) p->n_out;
        steps -= p->steps;
    }
    return VAE_OK;
}

/* Sets the pictures of the next n decoded latents, which one run computes. The
 * frames that the first latent of a chunk lacks have none. */
static void
place_chunk(const VaeStream *s, const VaePicture *from, int n)
{
    const uint64_t chunk = (uint64_t) s->model->info.chunk;
    const int rate = s->at_start ? 1 : s->steps.step_out;
    VaePicture *slot = s->slots;
    for (int k = 0; k < n; k++) {
        const bool begins = (s->latents + (uint64_t) k) % chunk == 0;
        const int missing = begins ? rate - 1 : 0;
        memset(slot, 0, (size_t) missing * sizeof *slot);
        for (int i = missing; i < rate; i++)
            slot[i] = *from++;
        slot += rate;
    }
}

/* As run_steps(), where latents come in chunks. An encoder begins
 * each chunk as it begins a sequence. */
static VaeStatus
run_chunks(VaeStream *s, const VaeUnits *units, int steps, VaeError *error)
{
    const bool decode = s->params.direction == VAE_DECODE;
    const int chunk = s->model->info.chunk;
    VaeUnits at = *units;
    VaeStatus status = VAE_OK;
    while (steps > 0 && status == VAE_OK) {
        const int place = (int) (s->latents % (uint64_t) chunk);
        const int rest = decode ? steps : chunk - place;
        VaeUnits now = at;
        int n_in, n_out, n = s->plan.slice_size;
        s->at_start = s->at_start || (!decode && place == 0);
        n = s->at_start || s->cold ? 1 : n < rest ? n : rest;
        n = n < steps ? n : steps;
        vae_stream_count(s, n, &n_in, &n_out);
        if (decode) {
            place_chunk(s, at.pictures, n);
            now.pictures = s->slots;
        }
        const uint64_t out = s->stats.units_out;
        status = run_steps(s, &now, n, error);
        s->stats.units_out = out + (uint64_t) n_out;
        vae_units_skip(s, &at, n_in, n_out);
        steps -= n;
    }
    return status;
}

void
vae_stream_reset(VaeStream *stream)
{
    finish(stream, 0, VAE_ERR_CANCELLED, NULL);
    atomic_store(&stream->cancel, false);
    stream->sequences++;
    /* the first program of a sequence sets every carry */
    stream->at_start = true;
    stream->cold = stream->broken = stream->from_cold = stream->in_fallback =
        false;
    stream->step = stream->drained = 0;
    stream->latents = stream->origin = stream->began = 0;
    stream->began_cold = stream->ended = false;
    vae_stream_step_up(stream);
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
    status = s->model->info.chunk ? run_chunks(s, &at, steps, error)
                                  : run_steps(s, &at, steps, error);
    if (status == VAE_OK)
        s->stats.units_out += (uint64_t) (at.until - at.from);
    if (status != VAE_OK)
        status = finish(s, 0, status, error);
    s->ends[s->calls++ % VAE_STREAM_CALLS] = s->runs;
    s->stats.last_ns = vae_now_ns() - start;
    s->stats.busy_ns += s->stats.last_ns;
    return status;
}

VaeStatus
vae_stream_wait(VaeStream *s, int pending, VaeError *error)
{
    if (pending < 0 || pending >= VAE_STREAM_CALLS)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "%d pending calls, expected 0 to %d", pending,
                        VAE_STREAM_CALLS - 1);
    if (s->calls <= (uint64_t) pending || s->broken)
        return VAE_OK;
    const uint64_t start = vae_now_ns();
    const uint64_t done =
        s->ends[(s->calls - 1 - (uint64_t) pending) % VAE_STREAM_CALLS];
    VaeStatus status = done == s->runs ? vae_stream_settle(s, error) : VAE_OK;
    s->broken = status != VAE_OK;
    status = finish(s, (int) (s->runs - done), status, error);
    s->stats.busy_ns += vae_now_ns() - start;
    return status;
}

VaeStatus
vae_stream_release(VaeStream *s, VaeError *error)
{
    VaeStatus status = vae_stream_wait(s, 0, error);
    if (status == VAE_OK && s->fallback)
        status = vae_stream_release(s->fallback, error);
    return status == VAE_OK ? vae_stream_offload(s, error) : status;
}

bool
vae_stream_overlaps(const VaeStream *stream)
{
    return stream->class->finish && !vae_stream_has_tiles(stream) &&
           (stream->params.nan_policy == VAE_NAN_PASS || stream->guard.in);
}

struct VaePin {
    const VaeBackendClass *class;
    int device;
    void *data;
};

VaePin *
vae_stream_pin(VaeStream *s, void *data, size_t bytes)
{
    VaePin *pin = s->class->pin ? vae_mem_alloc(sizeof *pin) : NULL;
    if (!pin)
        return NULL;
    *pin = (VaePin){.class = s->class, .data = data};
    if (!s->class->pin(s->backend, data, bytes, &pin->device)) {
        vae_mem_free(pin);
        return NULL;
    }
    return pin;
}

void
vae_pin_free(VaePin **pin)
{
    VaePin *p = *pin;
    *pin = NULL;
    if (p)
        p->class->unpin(p->device, p->data);
    vae_mem_free(p);
}

VaeStatus
vae_stream_decode_begin(VaeStream *stream, const VaeLatentIn *latents,
                        int n_latents, const VaePicture *frames, int n_frames,
                        VaeError *error)
{
    const VaeStatus status =
        check_call(stream, VAE_DECODE, n_latents, n_frames, frames, error);
    if (status != VAE_OK)
        return status;
    return begin(stream, &(VaeUnits){.in = latents, .pictures = frames},
                 steps_of(stream, n_latents), error);
}

VaeStatus
vae_stream_encode_begin(VaeStream *stream, const VaePicture *frames,
                        int n_frames, const VaeLatentOut *latents,
                        int n_latents, VaeError *error)
{
    const VaeStatus status =
        check_call(stream, VAE_ENCODE, n_frames, n_latents, frames, error);
    if (status != VAE_OK)
        return status;
    return begin(stream, &(VaeUnits){.out = latents, .pictures = frames},
                 steps_of(stream, n_frames), error);
}

/* The time of the last call includes the wait until it ends. */
static VaeStatus
end(VaeStream *s, VaeStatus status, VaeError *error)
{
    const uint64_t before = s->stats.busy_ns;
    if (status == VAE_OK)
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

VaeStatus
vae_stream_drain(VaeStream *stream, int steps, const VaePicture *frames,
                 int n_frames, VaeError *error)
{
    VaeStatus status = vae_stream_check_state(stream, VAE_DECODE, error);
    const int left = vae_stream_drain_steps(stream);
    int wanted;
    if (status != VAE_OK)
        return status;
    vae_stream_drain_count(stream, steps < left ? steps : left, &wanted);
    if (steps < 0 || steps > left || n_frames != wanted)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "%d steps that give %d frames; the end of the sequence "
                        "has %d steps, and they give %d",
                        steps, n_frames, left, wanted);
    status = check_pictures(stream, frames, n_frames, error);
    if (status != VAE_OK || steps == 0)
        return status;
    stream->ended = true;
    return end(stream,
               begin(stream, &(VaeUnits){.pictures = frames}, steps, error),
               error);
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

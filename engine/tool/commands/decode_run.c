/*
 * decode_run.c: decodes a segment with one stream, and writes its frames.
 */
#include "decode.h"

/* Makes room for the n frames that the next call gives. Those that are not of
 * the segment are discarded. */
static void
expect_frames(Run *r, int n)
{
    Buffers *b = r->b;
    for (int i = 0; i < n; i++) {
        const bool needed = r->at + i >= r->written && r->at + i < r->until;
        b->pictures[i].data[0] = needed ? b->frame_data +
                                              (size_t) i * r->d->frame_size +
                                              r->d->frame_head
                                        : NULL;
    }
}

/* Decodes the next latents. */
static VaeStatus
decode_latents(Run *r, int steps, int *n_out, VaeError *error)
{
    const Decode *d = r->d;
    Buffers *b = r->b;
    int n_in;
    vae_stream_count(r->stream, steps, &n_in, n_out);
    for (int i = 0; i < n_in; i++)
        vae_latent_clip_read(&d->clip, r->done + i,
                             b->latent_data + (size_t) i * d->latent_size);
    expect_frames(r, *n_out);
    r->done += n_in;
    return vae_stream_decode(r->stream, b->latents, n_in, b->pictures, *n_out,
                             error);
}

/* Computes frames that are due at the end of the clip. */
static VaeStatus
decode_end(Run *r, int steps, int *n_out, VaeError *error)
{
    vae_stream_drain_count(r->stream, steps, n_out);
    expect_frames(r, *n_out);
    return vae_stream_drain(r->stream, steps, r->b->pictures, *n_out, error);
}

int64_t
decode_frames_before(const Decode *d, int k)
{
    const int64_t n = k > 0 ? vae_model_frames_of(d->model, k) : 0;
    return n < d->frames ? n : d->frames;
}

/* Counts the frames that were written, and saves what is done. d->lock is held.
 * A stream whose end was drained cannot be saved. */
static VaeStatus
count_frames(Run *r, int64_t n, bool ends, VaeError *error)
{
    Decode *d = r->d;
    VaeStatus status = VAE_OK;
    d->written += n;
    if (d->o->resume) {
        while (r->whole < r->segment.end &&
               decode_frames_before(d, r->whole + 1) <= r->written)
            resume_mark(&d->resume, d->first + r->whole++);
        if (!ends)
            status =
                resume_save(&d->resume, r->stream, &d->out, d->written, error);
    }
    progress_show(&d->progress, d->written);
    return status;
}

/* Runs one call: reads the next latents, if there are some, and writes the
 * frames. */
static VaeStatus
decode_slice(Run *r, int steps, VaeError *error)
{
    Decode *d = r->d;
    const bool ends = r->done == d->clip.t;
    const bool needed = r->done >= r->segment.first;
    int n_out;
    VaeStatus status = ends ? decode_end(r, steps, &n_out, error)
                            : decode_latents(r, steps, &n_out, error);
    if (status != VAE_OK)
        return status;
    const int64_t skip = r->written > r->at ? r->written - r->at : 0;
    const int64_t end = r->at + n_out < r->until ? r->at + n_out : r->until;
    const int64_t keep = end - r->at - skip;
    r->at += n_out;
    if (keep > 0) {
        status = output_write(
            &d->out, (uint64_t) (d->before + r->written) * d->frame_size,
            r->b->frame_data + (size_t) skip * d->frame_size,
            (size_t) keep * d->frame_size, error);
        r->written += keep;
    }
    if (status != VAE_OK || !needed)
        return status;
    pthread_mutex_lock(&d->lock);
    status = count_frames(r, keep > 0 ? keep : 0, ends, error);
    pthread_mutex_unlock(&d->lock);
    return status;
}

/* Writes the frames that are due at the end of the clip. */
static VaeStatus
run_end(Run *r, VaeError *error)
{
    const int slice = vae_stream_get_plan(r->stream)->slice_size;
    VaeStatus status = VAE_OK;
    int left;
    while (status == VAE_OK && r->done == r->d->clip.t &&
           (left = vae_stream_drain_count(r->stream, 0, NULL)) > 0) {
        status = decode_slice(r, left < slice ? left : slice, error);
        if (status == VAE_OK && (interrupted() || atomic_load(&r->d->stopped)))
            status = vae_fail(error, VAE_ERR_CANCELLED, "interrupted");
    }
    return status;
}

VaeStatus
decode_run(Run *r, VaeError *error)
{
    Decode *d = r->d;
    const VaePlan *plan = vae_stream_get_plan(r->stream);
    const Segment *s = &r->segment;
    const int ahead =
        vae_model_reach(d->info, VAE_DECODE, d->o->params.tile_plan).look_ahead;
    const int last = s->end + ahead < d->clip.t ? s->end + ahead : d->clip.t;
    VaeStatus status = VAE_OK;
    r->done = s->begin;
    r->at = s->begin > 0 ? vae_model_frames_of(d->model, s->begin) : 0;
    r->until = decode_frames_before(d, s->end);
    while (status == VAE_OK && r->done < last) {
        const double start = now_seconds();
        const bool first = r->done == s->begin;
        /* No call contains both latents that are computed again and new
         * ones. */
        const int left = (r->done < s->first ? s->first : last) - r->done;
        const int most = first ? 1 : plan->slice_size;
        status = decode_slice(r, left < most ? left : most, error);
        if (status == VAE_OK && (interrupted() || atomic_load(&d->stopped)))
            status = vae_fail(error, VAE_ERR_CANCELLED, "interrupted");
        if (first && d->n_streams == 1)
            progress_expect(plan, now_seconds() - start, last - r->done);
    }
    return status == VAE_OK ? run_end(r, error) : status;
}

/*
 * windows.c: runs models that compute windows or tiles of latents.
 */
#include <string.h>

#include "stream.h"

/* Copies the next latent of the sequence, or its pictures, which later windows
 * read. Moves *units past them. */
static void
hold(VaeStream *s, VaeUnits *units)
{
    if (s->main.params.direction == VAE_ENCODE) {
        const int pictures =
            s->at.next == FIRST ? s->steps.first_in : s->steps.step_in;
        vae_stream_hold_pictures(s, units->pictures, pictures);
        units->pictures += pictures;
        s->stats.units_in += (uint64_t) pictures;
        return;
    }
    const VaeLatentIn *latent = units->in++;
    s->stats.units_in++;
    VaeWindow *w = &s->window;
    const int64_t n = (int64_t) (s->at.latents - s->at.lines.latent);
    const size_t elements = vae_stream_latent_elements(s);
    const size_t place = (size_t) (n % VAE_WINDOW_ROOM);
    uint8_t *to = w->data + place * elements * sizeof(float);
    memcpy(to, latent->data, elements * vae_type_size(latent->type));
    w->held[place] = (VaeLatentIn){latent->type, to};
}

/* The first latent of a window, and the window of a latent. */
static int64_t
window_begin(const VaeStream *s, int64_t index)
{
    const VaeWindows *w = &s->main.model->windows;
    return index > 0 ? w->first + (index - 1) * w->size : 0;
}

static int64_t
window_with(const VaeStream *s, int64_t latent)
{
    const VaeWindows *w = &s->main.model->windows;
    return latent < w->first ? 0 : (latent - w->first) / w->size + 1;
}

/* Runs the latents of a window: its own, and one on either side. At the end of
 * the sequence, copies of the last latent fill it. outer: the place of the
 * stream. */
static VaeStatus
begin_window(VaeStream *s, const VaeSequence *outer, int64_t index,
             VaeError *error)
{
    VaeWindow *w = &s->window;
    VaeLatentIn in[VAE_WINDOW_ROOM];
    const int64_t origin = (int64_t) outer->lines.latent;
    const int64_t newest = (int64_t) outer->latents - origin - 1;
    const int64_t own = window_begin(s, index) - origin;
    const int64_t end = window_begin(s, index + 1) - origin;
    const int64_t first = own > 0 ? own - 1 : 0;
    const bool last = outer->ended && newest < end;
    int n = 0;
    for (int64_t i = first; i < end + !last; i++)
        in[n++] = w->held[(i < newest ? i : newest) % VAE_WINDOW_ROOM];
    w->begun = true;
    w->index = index;
    w->frame = s->steps.step_out * first;
    s->at = vae_sequence_from(
        (VaeOrigin){.restart = first > 0 || outer->lines.restart});
    VaeStatus status = vae_stream_run_steps(s, &(VaeUnits){.in = in}, n, error);
    if (status == VAE_OK)
        status = vae_stream_settle(s, error);
    s->at.ended = true;
    /* Waits for the runs: later latents overwrite their inputs. */
    return vae_stream_finish(s, 0, status, error);
}

/* Computes the frames from..until-1, which are of one window. */
static VaeStatus
run_window(VaeStream *s, const VaeUnits *units, int64_t index, VaeError *error)
{
    VaeWindow *w = &s->window;
    const VaeSequence outer = s->at;
    const uint64_t units_in = s->stats.units_in;
    const int rate = s->steps.step_out;
    VaeStatus status = VAE_OK;
    s->at = w->at;
    if (!w->begun || w->index != index)
        status = begin_window(s, &outer, index, error);
    VaeUnits at = *units;
    at.base -= w->frame;
    at.from -= w->frame;
    at.until -= w->frame;
    const int64_t end = rate * ((int64_t) s->at.latents - 1) + 1;
    const int64_t late = at.until + s->main.model->line_delay - end;
    if (status == VAE_OK)
        status = vae_stream_run_steps(
            s, &at, (int) ((late + rate - 1) / rate) - s->at.drained, error);
    if (status == VAE_OK)
        status = vae_stream_settle(s, error);
    s->stats.units_in = units_in;
    w->at = s->at;
    s->at = outer;
    s->at.step = w->at.step;
    s->at.broken = status != VAE_OK;
    return status;
}

/* The window of a frame, and the frame after its last one. */
static int64_t
window_of(const VaeStream *s, int64_t frame, int64_t *end)
{
    const int rate = s->steps.step_out;
    const int64_t origin = (int64_t) s->at.lines.latent;
    const int64_t latent = origin + (frame + rate - 1) / rate;
    const int64_t index = window_with(s, latent);
    *end = rate * (window_begin(s, index + 1) - 1 - origin) + 1;
    return index;
}

VaeStatus
vae_stream_run_windows(VaeStream *s, const VaeUnits *units, int steps,
                       VaeError *error)
{
    const bool tiles = s->main.model->info.in_tiles;
    VaeUnits at = *units, in = *units;
    VaeStatus status = VAE_OK;
    for (int i = 0; i < steps && status == VAE_OK; i++) {
        vae_stream_set_frames(s, &at, 1);
        const int64_t until = at.until;
        if (s->at.ended) {
            s->at.drained++;
        } else {
            hold(s, &in);
            s->at.latents++;
        }
        s->at.next = NEXT;
        s->at.warm_up -= s->at.warm_up > 0;
        while (status == VAE_OK && at.from < until) {
            int64_t end;
            const int64_t index = tiles ? vae_stream_tile_of(s, at.from, &end)
                                        : window_of(s, at.from, &end);
            at.until = end < until ? end : until;
            status = tiles ? vae_stream_run_tile(s, &at, index, error)
                           : run_window(s, &at, index, error);
            at.from = at.until;
        }
    }
    return status;
}

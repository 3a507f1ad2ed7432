/* latent_tiles.c: tiles of latents, each computed as a clip of its own. All but
 * the first tile drop their first frame, and blend the next ones with the last
 * ones of the tile before. Tiles count from latent 0 of the clip, so neither
 * slices nor calls change a byte. */
#include <string.h>

#include "clock.h"
#include "kernels.h"
#include "stream.h"

int64_t
vae_stream_tile_of(const VaeStream *s, int64_t frame, int64_t *end)
{
    const VaeTileLatents tile = vae_tile_latents(s->main.params.tile_plan);
    const int64_t rate = s->steps.step_out, each = rate * tile.stride;
    const int64_t before = rate * (int64_t) s->at.lines.latent;
    const int64_t at = before + frame;
    *end = INT64_MAX;
    if (s->at.ended && s->at.latents < (uint64_t) tile.size)
        return 0; /* a clip that is no longer than that is one tile */
    const int64_t index = at < 1 ? 0 : (at - 1) / each;
    *end = each * (index + 1) + 1 - before;
    return index;
}

static size_t
frame_floats(const VaeStream *s)
{
    return (size_t) s->main.params.width * (size_t) s->main.params.height *
           (size_t) vae_machine_pixel_floats(&s->main);
}

/* Blends the frames of a tile, from frame 1 on, with the last ones of the tile
 * before, which are in `last`. */
static void
blend(VaeStream *s)
{
    VaeWindow *w = &s->window;
    const size_t size = frame_floats(s);
    const int n = w->n - 1 < w->n_last ? w->n - 1 : w->n_last;
    const float *old = w->last + (size_t) (w->n_last - n) * size;
    for (int i = 0; i < n; i++) {
        float *new = w->frames + (size_t) (i + 1) * size;
        const float part = (float) i / (float) n, rest = 1 - part;
        for (size_t k = 0; k < size; k++, old++)
            new[k] = *old *rest + new[k] * part;
    }
}

/* Keeps the frames that the next tile blends with its own. */
static void
keep_last(VaeStream *s)
{
    VaeWindow *w = &s->window;
    const VaeTileLatents tile = vae_tile_latents(s->main.params.tile_plan);
    const int most = s->steps.step_out * (tile.size - 1 - tile.stride);
    const size_t size = frame_floats(s);
    w->n_last = w->n < most ? w->n : most;
    memcpy(w->last, w->frames + (size_t) (w->n - w->n_last) * size,
           (size_t) w->n_last * size * sizeof(float));
}

/* Runs n latents from latent `first` of the clip on. */
static VaeStatus
run_latents(VaeStream *s, int64_t first, int n, VaeError *error)
{
    VaeMachine *m = &s->main;
    VaeWindow *w = &s->window;
    VaeLatentIn in[VAE_WINDOW_ROOM];
    const int64_t origin = (int64_t) s->at.lines.latent;
    const VaeSequence outer = s->at;
    const int which = n == vae_machine_most_steps(m) ? NEXT : FIRST;
    VaeStatus status =
        which == FIRST ? vae_machine_set_part(m, n, error) : VAE_OK;
    if (status != VAE_OK)
        return status;
    for (int i = 0; i < n; i++)
        in[i] = w->held[(first - origin + i) % VAE_WINDOW_ROOM];
    w->n = m->programs[which]->n_out;
    for (int i = 0; i < w->n; i++)
        s->slots[i] = (VaePicture){
            .pixels = vae_machine_floats(m),
            .width = m->params.width,
            .height = m->params.height,
            .data = {(uint8_t *) (w->frames + (size_t) i * frame_floats(s))},
            .stride = {(ptrdiff_t) m->params.width *
                       vae_machine_pixel_floats(m) *
                       (ptrdiff_t) sizeof(float)}};
    const VaeUnits units = {.in = in, .pictures = s->slots};
    s->at = vae_sequence_from((VaeOrigin){(uint64_t) first, false});
    s->at.step = outer.step;
    status = vae_stream_run_program(s, which, &units, error);
    if (status == VAE_OK)
        status = vae_stream_settle(s, error);
    if (status == VAE_OK && m->class->finish)
        status = m->class->finish(m->backend, 0, VAE_FINISH_KEEP, error);
    const int step = s->at.step;
    s->at = outer;
    s->at.step = step;
    return status;
}

static VaeStatus
make_tile(VaeStream *s, int64_t index, VaeError *error)
{
    VaeWindow *w = &s->window;
    const VaeTileLatents tile = vae_tile_latents(s->main.params.tile_plan);
    const int64_t origin = (int64_t) s->at.lines.latent;
    const int64_t own = index * tile.stride,
                  first = own > origin ? own : origin;
    const int64_t all = (int64_t) s->at.latents, end = own + tile.size;
    const bool follows = w->begun && w->index == index - 1;
    if (follows)
        keep_last(s);
    w->begun = false;
    const VaeStatus status =
        run_latents(s, first, (int) ((end < all ? end : all) - first), error);
    if (status != VAE_OK)
        return status;
    if (follows)
        blend(s);
    w->begun = true;
    w->index = index;
    w->frame = s->steps.step_out * (first - origin);
    return VAE_OK;
}

VaeStatus
vae_stream_run_tile(VaeStream *s, const VaeUnits *units, int64_t index,
                    VaeError *error)
{
    const VaeWindow *w = &s->window;
    const VaeModelInfo *info = &s->main.model->info;
    const VaeQueue queue = {.threads = 1};
    VaeStatus status = VAE_OK;
    if (!w->begun || w->index != index)
        status = make_tile(s, index, error);
    s->at.broken = status != VAE_OK;
    if (status != VAE_OK)
        return status;
    const uint64_t start = vae_now_ns();
    for (int64_t f = units->from; f < units->until; f++) {
        const VaePicture *to = &units->pictures[f - units->base];
        /* a restart in a tile has frames before the first one of its latents */
        const size_t i = f < w->frame ? 0 : (size_t) (f - w->frame);
        if (to->data[0])
            vae_kernels_ref.picture_out(
                &queue, &(VaePictureOutArgs){
                            .picture = to,
                            .x = w->frames + i * frame_floats(s),
                            .x_type = VAE_TYPE_F32,
                            .h = s->main.params.height,
                            .w = s->main.params.width,
                            .low = info->pixel_low,
                            .high = info->pixel_high,
                            .alpha = vae_machine_pixel_floats(&s->main) == 4});
    }
    s->stats.download_ns += vae_now_ns() - start;
    return VAE_OK;
}

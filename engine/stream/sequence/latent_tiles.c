/* latent_tiles.c: tiles of latents, each computed as a clip of its own. A
 * result is a frame of a decoder, or a latent of an encoder. All but the first
 * tile drop their first result, and blend the next ones with the last ones of
 * the tile before. Tiles count from latent 0 of the clip, so neither slices nor
 * calls change a byte. */
#include <string.h>

#include "clock.h"
#include "kernels.h"
#include "pixels.h"
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

/* Blends the results of a tile, from result 1 on, with the last ones of the
 * tile before, which are in `last`. */
static void
blend(VaeStream *s)
{
    VaeWindow *w = &s->window;
    const size_t size = vae_machine_unit_floats(&s->main);
    const int n = w->n - 1 < w->n_last ? w->n - 1 : w->n_last;
    const float *old = w->last + (size_t) (w->n_last - n) * size;
    for (int i = 0; i < n; i++) {
        float *new = w->results + (size_t) (i + 1) * size;
        const float part = (float) i / (float) n, rest = 1 - part;
        for (size_t k = 0; k < size; k++, old++)
            new[k] = *old *rest + new[k] * part;
    }
}

/* Keeps the results that the next tile blends with its own. */
static void
keep_last(VaeStream *s)
{
    VaeWindow *w = &s->window;
    const VaeTileLatents tile = vae_tile_latents(s->main.params.tile_plan);
    const int most = s->steps.step_out * (tile.size - 1 - tile.stride);
    const size_t size = vae_machine_unit_floats(&s->main);
    w->n_last = w->n < most ? w->n : most;
    memcpy(w->last, w->results + (size_t) (w->n - w->n_last) * size,
           (size_t) w->n_last * size * sizeof(float));
}

void
vae_stream_hold_pictures(VaeStream *s, const VaePicture *pictures, int n)
{
    const int room = vae_machine_held_latents(&s->main);
    const size_t bytes = vae_machine_picture_bytes(&s->main);
    const int place = (int) (vae_sequence_length(&s->at) % (uint64_t) room);
    for (int i = 0; i < n; i++) {
        const int to = s->steps.step_in - n + i;
        VaePicture *held = &s->window.held_pictures[place][to];
        uint8_t *at = s->window.pictures +
                      (size_t) (place * s->steps.step_in + to) * bytes;
        vae_picture_pack(&pictures[i], (uintptr_t) at, held);
        vae_picture_copy(held, &pictures[i]);
    }
}

/* The units of a run of n latents: for a decoder the latents, and where their
 * frames go; for an encoder the last picture of the first latent and those of
 * the others, and where their latents go. Latents count from those of the
 * sequence. */
static VaeUnits
tile_units(VaeStream *s, int64_t first, int n, VaeLatentIn *in,
           VaeLatentOut *out)
{
    VaeMachine *m = &s->main;
    VaeWindow *w = &s->window;
    const bool decode = m->params.direction == VAE_DECODE;
    const size_t size = vae_machine_unit_floats(m);
    const int room = vae_machine_held_latents(m);
    const int each = s->steps.step_in;
    for (int i = 0; i < n && decode; i++)
        in[i] = w->held[(first + i) % VAE_WINDOW_ROOM];
    for (int i = each - 1; i < n * each && !decode; i++)
        s->slots[i - each + 1] =
            w->held_pictures[(first + i / each) % room][i % each];
    for (int i = 0; i < w->n; i++) {
        float *at = w->results + (size_t) i * size;
        if (decode)
            s->slots[i] = (VaePicture){.pixels = vae_machine_floats(m),
                                       .width = m->params.width,
                                       .height = m->params.height,
                                       .data = {(uint8_t *) at},
                                       .stride = {(ptrdiff_t) m->params.width *
                                                  vae_machine_pixel_floats(m) *
                                                  (ptrdiff_t) sizeof(float)}};
        else
            out[i] = (VaeLatentOut){.type = VAE_TYPE_F32,
                                    .data = at,
                                    .mean = at + size / 3,
                                    .logvar = at + 2 * (size / 3)};
    }
    return decode ? (VaeUnits){.in = in, .pictures = s->slots}
                  : (VaeUnits){.out = out, .pictures = s->slots};
}

/* Runs n latents from latent `first` of the clip on. */
static VaeStatus
run_latents(VaeStream *s, int64_t first, int n, VaeError *error)
{
    VaeMachine *m = &s->main;
    VaeWindow *w = &s->window;
    VaeLatentIn in[VAE_WINDOW_ROOM];
    VaeLatentOut out[VAE_WINDOW_ROOM];
    const int64_t origin = (int64_t) s->at.lines.latent;
    const VaeSequence outer = s->at;
    const int which = n == vae_machine_most_steps(m) ? NEXT : FIRST;
    VaeStatus status =
        which == FIRST ? vae_machine_set_part(m, n, error) : VAE_OK;
    if (status != VAE_OK)
        return status;
    w->n = m->programs[which]->n_out;
    const VaeUnits units = tile_units(s, first - origin, n, in, out);
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

static void
give_frame(const VaeStream *s, const VaePicture *to, const float *x)
{
    const VaeModelInfo *info = &s->main.model->info;
    if (to->data[0])
        vae_kernels_ref.picture_out(
            &(VaeQueue){.threads = 1},
            &(VaePictureOutArgs){.picture = to,
                                 .x = x,
                                 .x_type = VAE_TYPE_F32,
                                 .h = s->main.params.height,
                                 .w = s->main.params.width,
                                 .low = info->pixel_low,
                                 .high = info->pixel_high,
                                 .alpha =
                                     vae_machine_pixel_floats(&s->main) == 4});
}

/* x: the latent, which is not read, the mean and the logvar, each [c, h, w].
 * place: in the sequence. */
static void
give_latent(const VaeStream *s, const VaeLatentOut *to, int64_t place,
            const float *x)
{
    const VaeModelInfo *info = &s->main.model->info;
    const int down = info->spatial, c = info->latent_channels;
    const int h = s->main.plan.padded_height / down;
    const int w = s->main.plan.padded_width / down;
    const size_t pixels = (size_t) h * (size_t) w, n = 2 * (size_t) c;
    float *moments = s->window.moments;
    uint64_t nonfinite = 0; /* the run has counted them */
    x += (size_t) c * pixels;
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < pixels; i++)
            moments[i * n + k] = *x++;
    vae_kernels_ref.latent_out(
        &(VaeQueue){.threads = 1},
        &(VaeLatentOutArgs){.x = moments,
                            .x_type = VAE_TYPE_F32,
                            .dst = to->data,
                            .dst_type = to->type,
                            .mean_out = to->mean,
                            .logvar_out = to->logvar,
                            .mean = s->scaling.mean,
                            .std = s->scaling.std,
                            .normalise = s->scaling.normalise,
                            .sample = s->main.params.posterior ==
                                      VAE_POSTERIOR_SAMPLE,
                            .seed = s->main.params.seed,
                            .index = s->at.lines.latent + (uint64_t) place,
                            .h = h,
                            .w = w,
                            .c = c,
                            .cx = 2 * c,
                            .nonfinite = &nonfinite});
}

VaeStatus
vae_stream_run_tile(VaeStream *s, const VaeUnits *units, int64_t index,
                    VaeError *error)
{
    const VaeWindow *w = &s->window;
    VaeStatus status = VAE_OK;
    if (!w->begun || w->index != index)
        status = make_tile(s, index, error);
    s->at.broken = status != VAE_OK;
    if (status != VAE_OK)
        return status;
    const uint64_t start = vae_now_ns();
    for (int64_t f = units->from; f < units->until; f++) {
        /* a restart in a tile has frames before the first one of its latents */
        const size_t i = f < w->frame ? 0 : (size_t) (f - w->frame);
        const float *x = w->results + i * vae_machine_unit_floats(&s->main);
        if (s->main.params.direction == VAE_DECODE)
            give_frame(s, &units->pictures[f - units->base], x);
        else
            give_latent(s, &units->out[f - units->base], f, x);
    }
    s->stats.download_ns += vae_now_ns() - start;
    return VAE_OK;
}

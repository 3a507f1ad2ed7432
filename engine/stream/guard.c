/*
 * guard.c: copies the units of a run in flight, for nan.c.
 *
 * Pictures are copied only if they are read after the run: by a step in fp32,
 * or by the error message, which says if the input was finite. The message
 * reads only float pictures.
 */
#include <string.h>

#include "alloc.h"
#include "pixels.h"
#include "stream.h"

size_t
vae_stream_latent_elements(const VaeStream *s)
{
    const int down = s->main.model->info.spatial;
    return (size_t) s->main.model->info.latent_channels *
           (size_t) (s->main.plan.padded_height / down) *
           (size_t) (s->main.plan.padded_width / down);
}

static bool
needs_data(const VaeStream *s, VaePixels pixels)
{
    return s->main.params.direction == VAE_ENCODE &&
           (s->main.wide || vae_layout_floats(vae_layout(pixels)));
}

static size_t
larger(size_t a, int b)
{
    return b > 0 && (size_t) b > a ? (size_t) b : a;
}

static void
set_rooms(VaeStream *s)
{
    VaeGuard *g = &s->guard;
    const bool decode = s->main.params.direction == VAE_DECODE;
    const VaePicture widest = {.pixels = vae_machine_widest(&s->main),
                               .width = s->main.params.width,
                               .height = s->main.params.height};
    VaePicture packed;
    size_t latents = 0, pictures = 0;
    for (int i = 0; i < PROGRAMS; i++)
        if (s->main.programs[i]) {
            const VaeProgram *p = s->main.programs[i];
            latents = larger(latents, decode ? p->n_in : p->n_out);
            pictures = larger(pictures, decode ? p->n_out : p->n_in);
        }
    g->latent_bytes =
        decode ? vae_stream_latent_elements(s) * sizeof(float) : 0;
    g->picture_bytes = needs_data(s, s->main.params.pixels) &&
                               !s->main.params.pictures_on_device
                           ? vae_picture_pack(&widest, 0, &packed)
                           : 0;
    g->room_latents = latents;
    g->room_pictures = pictures;
}

VaeStatus
vae_stream_guard_take(VaeStream *s, VaeError *error)
{
    VaeGuard *g = &s->guard;
    const size_t had_latents = g->room_latents, had_pictures = g->room_pictures;
    if (s->main.params.nan_policy == VAE_NAN_PASS || !s->main.class->finish ||
        vae_machine_has_delay(&s->main) || vae_machine_has_tiles(&s->main))
        return VAE_OK;
    set_rooms(s);
    if (g->in && g->room_latents <= had_latents &&
        g->room_pictures <= had_pictures) {
        g->room_latents = had_latents;
        g->room_pictures = had_pictures;
        return VAE_OK;
    }
    vae_stream_guard_free(s);
    set_rooms(s);
    g->in = vae_mem_alloc(g->room_latents * sizeof *g->in);
    g->out = vae_mem_alloc(g->room_latents * sizeof *g->out);
    g->pictures = vae_mem_alloc(g->room_pictures * sizeof *g->pictures);
    g->data = vae_mem_alloc(g->room_latents * g->latent_bytes +
                            g->room_pictures * g->picture_bytes + 1);
    if (g->in && g->out && g->pictures && g->data)
        return VAE_OK;
    vae_stream_guard_free(s);
    return vae_fail(error, VAE_ERR_MEMORY, "out of memory for copies of the %s",
                    s->main.params.direction == VAE_DECODE ? "latents"
                                                           : "frames");
}

void
vae_stream_guard_free(VaeStream *s)
{
    vae_mem_free(s->guard.in);
    vae_mem_free(s->guard.out);
    vae_mem_free(s->guard.pictures);
    vae_mem_free(s->guard.data);
    s->guard = (VaeGuard){0};
}

VaeUnits
vae_stream_copied_units(const VaeStream *s)
{
    const VaeGuard *g = &s->guard;
    return (VaeUnits){.in = g->in, .out = g->out, .pictures = g->pictures};
}

static void
copy_latents(VaeStream *s, const VaeProgram *p, const VaeUnits *units)
{
    VaeGuard *g = &s->guard;
    for (int i = 0; i < p->n_in; i++) {
        const VaeLatentIn *from = &units->in[i];
        uint8_t *data = g->data + (size_t) i * g->latent_bytes;
        memcpy(data, from->data,
               vae_stream_latent_elements(s) * vae_type_size(from->type));
        g->in[i] = (VaeLatentIn){.type = from->type, .data = data};
    }
    memcpy(g->pictures, units->pictures,
           (size_t) p->n_out * sizeof *g->pictures);
}

/* False: the memory for copies is too small for a picture. */
static bool
copy_pictures(VaeStream *s, const VaeProgram *p, const VaeUnits *units)
{
    VaeGuard *g = &s->guard;
    for (int i = 0; i < p->n_in; i++) {
        const VaePicture *from = &units->pictures[i];
        VaePicture *to = &g->pictures[i];
        uint8_t *at = g->data + (size_t) i * g->picture_bytes;
        *to = *from;
        if (!needs_data(s, from->pixels) || (from->on_device && !s->main.wide))
            continue;
        if (from->on_device ||
            vae_picture_pack(from, (uintptr_t) at, to) > g->picture_bytes)
            return false;
        vae_picture_copy(to, from);
    }
    memcpy(g->out, units->out, (size_t) p->n_out * sizeof *g->out);
    return true;
}

bool
vae_stream_copy_units(VaeStream *s, const VaeProgram *p, const VaeUnits *units)
{
    if (!s->guard.in)
        return false;
    if (s->main.params.direction == VAE_ENCODE)
        return copy_pictures(s, p, units);
    copy_latents(s, p, units);
    return true;
}

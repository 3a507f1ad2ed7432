/*
 * held.c: sizes of what a stream holds of tiles of latents.
 */
#include "machine.h"
#include "pixels.h"

size_t
vae_machine_unit_floats(const VaeMachine *m)
{
    const VaeModelInfo *info = &m->model->info;
    const bool decode = m->params.direction == VAE_DECODE;
    const size_t down = decode ? 1 : (size_t) info->spatial;
    const int width = decode ? m->params.width : m->plan.padded_width;
    const int height = decode ? m->params.height : m->plan.padded_height;
    return (size_t) (decode ? vae_machine_pixel_floats(m)
                            : 3 * info->latent_channels) *
           ((size_t) width / down) * ((size_t) height / down);
}

size_t
vae_machine_picture_bytes(const VaeMachine *m)
{
    const VaePicture widest = {.pixels = vae_machine_floats(m),
                               .width = m->params.width,
                               .height = m->params.height};
    VaePicture packed;
    return (vae_picture_pack(&widest, 0, &packed) + 63) / 64 * 64;
}

size_t
vae_machine_held_bytes(const VaeMachine *m)
{
    const VaeTileLatents tile = vae_tile_latents(m->params.tile_plan);
    const VaeModelInfo *info = &m->model->info;
    const bool decode = m->params.direction == VAE_DECODE;
    const int blended =
        (decode ? info->temporal : 1) * (tile.size - 1 - tile.stride);
    const int n = m->programs[NEXT]->n_out + blended + !decode;
    const size_t pictures = decode ? 0
                                   : (size_t) (tile.size * info->temporal) *
                                         vae_machine_picture_bytes(m);
    return info->in_tiles
               ? (size_t) n * vae_machine_unit_floats(m) * sizeof(float) +
                     pictures
               : 0;
}

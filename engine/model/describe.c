/*
 * describe.c: parts of VaeModelInfo that several networks fill in the same way.
 */
#include <stdio.h>

#include "arch.h"

#include "vae-private/spaces.h"

void
vae_describe_causal(VaeRecognise *r, const char *space, int z, int spatial,
                    int temporal)
{
    VaeModelInfo *info = r->info;
    info->space = space;
    info->latent_channels = z;
    info->spatial = spatial;
    info->temporal = temporal;
    info->has_posterior = info->has_encoder;
    info->decode = (VaeSteps){1, 1, 1, temporal};
    info->encode = (VaeSteps){1, 1, temporal, 1};
    info->pixel_low = -1;
    info->pixel_high = 1;
    info->fps_n = vae_space_find(space)->fps;
    info->fps_d = 1;
    vae_space_statistics(space, z, r->mean, r->std);
}

void
vae_describe_factor(VaeRecognise *r, double factor, double shift)
{
    for (int i = 0; factor > 0 && i < r->info->latent_channels; i++) {
        r->std[i] = 1 / (float) factor;
        r->mean[i] = (float) shift;
    }
}

int
vae_read_latent_channels(const VaeModel *m, const char *conv_in,
                         const char *conv_out, VaeError *error)
{
    int z = vae_model_dim(m, 1, "%s.weight", conv_in);
    if (!z && conv_out)
        z = vae_model_width(m, "%s", conv_out) / 2;
    if (z >= 1 && z <= VAE_MAX_LATENT_CHANNELS)
        return z;
    const bool half = conv_out && !vae_model_has_prefix(m, "decoder.");
    char name[128];
    snprintf(name, sizeof name, "%s.weight", half ? conv_out : conv_in);
    if (!vae_model_needs(m, name, error))
        return 0;
    vae_fail(error, VAE_ERR_MODEL,
             "%s.weight%s%s has %d latent channels, expected 1 to %d", conv_in,
             conv_out ? " or " : "", conv_out ? conv_out : "", z,
             VAE_MAX_LATENT_CHANNELS);
    return 0;
}

int
vae_patch_side(int channels)
{
    int side = 1;
    while (side < 8 && 3 * side * side < channels)
        side++;
    return 3 * side * side == channels ? side : 0;
}

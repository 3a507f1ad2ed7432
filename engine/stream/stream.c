/*
 * stream.c: opens and frees a stream.
 */
#include <stdio.h>

#include "sized.h"
#include "stream.h"
#include "vae-private/settings.h"
#include "vae-private/spaces.h"

static VaeStatus
check_size(const VaeModelInfo *info, const VaeStreamParams *p, VaeError *error)
{
    if (p->width >= 1 && p->height >= 1 && p->width <= VAE_MAX_SIDE &&
        p->height <= VAE_MAX_SIDE)
        return VAE_OK;
    char hint[128] = "";
    if (p->direction == VAE_DECODE && (p->width == 0 || p->height == 0))
        snprintf(hint, sizeof hint,
                 "; for a file of latents that states no size, it is %d "
                 "(VaeModelInfo.spatial) times that of the latents",
                 info->spatial);
    return vae_mismatch(error, VAE_ERR_SIZE, NULL,
                        "size {%dx%d}, expected {=1x1 to %dx%d}%s", p->width,
                        p->height, VAE_MAX_SIDE, VAE_MAX_SIDE, hint);
}

static VaeStatus
check_params(const VaeModel *model, const VaeStreamParams *p, VaeError *error)
{
    const VaeModelInfo *info = vae_model_info(model);
    const bool decode = p->direction == VAE_DECODE;
    if (decode ? !info->has_decoder : !info->has_encoder)
        return vae_model_lacks(info, p->direction, error);
    if (!decode && p->posterior != VAE_POSTERIOR_MEAN && !info->has_posterior)
        return vae_fail(error, VAE_ERR_UNSUPPORTED,
                        "%s has no posterior to sample: its encoder gives the "
                        "latents themselves",
                        info->arch);
    const int least =
        vae_model_reach(info, p->direction, p->tile_plan).look_ahead;
    if ((model->windows.size || info->in_tiles) && decode && p->low_latency &&
        p->look_ahead >= 0 && p->look_ahead < least)
        return vae_mismatch(
            error, VAE_ERR_UNSUPPORTED, NULL,
            "look-ahead is {%d}, expected {=%d or more}: %s decodes %s of %d "
            "latents",
            p->look_ahead, least, info->arch,
            info->in_tiles ? "tiles" : "windows",
            info->in_tiles ? vae_tile_latents(p->tile_plan).size
                           : model->windows.size);
    if (info->in_tiles && p->nan_policy == VAE_NAN_FALLBACK)
        return vae_fail(
            error, VAE_ERR_UNSUPPORTED,
            "%s computes tiles of latents, which do not go with the "
            "nan-policy fallback; expected error or pass",
            info->arch);
    return VAE_OK;
}

/* Refuses raw latents if the network takes normalized ones and lacks the
 * statistics to convert them. */
static VaeStatus
check_raw(const VaeModelInfo *info, VaeNormalization normalization,
          VaeError *error)
{
    const VaeSpace *space = vae_space_find(info->space);
    if (normalization != VAE_RAW || !info->takes_normalized || !space ||
        space->std || space->factor > 0)
        return VAE_OK;
    for (int i = 0; i < info->latent_channels; i++)
        if (info->mean[i] != 0 || info->std[i] != 1)
            return VAE_OK;
    return vae_mismatch(
        error, VAE_ERR_UNSUPPORTED, NULL,
        "%s: normalization is {raw}, expected {normalized}: only the weights "
        "of a full VAE of %s have the mean and deviation of raw latents",
        info->path, info->space);
}

/* ------------------------------------------------------------------ */
/* Making and freeing.                                                 */

/* normalization: of the caller's latents. */
static VaeScaling
scaling_of(const VaeModelInfo *info, VaeNormalization normalization)
{
    VaeScaling s = {.normalise =
                        (normalization == VAE_RAW) == info->takes_normalized};
    for (int i = 0; i < info->latent_channels; i++) {
        const float std = info->std[i], mean = info->mean[i];
        s.std[i] = info->takes_normalized ? 1 / std : std;
        s.mean[i] = info->takes_normalized ? -mean / std : mean;
        s.scale[i] = s.normalise ? s.std[i] : 1;
        s.shift[i] = s.normalise ? s.mean[i] : 0;
    }
    return s;
}

VaeStatus
vae_stream_open(VaeModel *model, const VaeStreamParams *params,
                const VaeTerms *terms, VaeStream **out, VaeError *error)
{
    *out = NULL;
    VaeStreamParams own;
    VaeStatus status = vae_sized_read(&own, sizeof own, params,
                                      VAE_SIZE_UP_TO(VaeStreamParams, height),
                                      "VaeStreamParams", error);
    if (status == VAE_OK)
        status = check_size(&model->info, &own, error);
    if (status == VAE_OK)
        status = vae_settings_check(&own, error);
    if (status == VAE_OK)
        status = check_params(model, &own, error);
    if (status != VAE_OK)
        return status;
    VaeStream *s = vae_mem_alloc(sizeof *s);
    if (!s)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    *out = s;
    own.normalization =
        vae_space_normalization(model->info.space, own.normalization);
    status = check_raw(&model->info, own.normalization, error);
    if (status != VAE_OK)
        return status;
    s->steps =
        own.direction == VAE_DECODE ? model->info.decode : model->info.encode;
    s->scaling = scaling_of(&model->info, own.normalization);
    own.restarts =
        own.restarts || model->windows.size; /* a window is a restart */
    if (model->info.in_tiles)
        own.slice_size = 1; /* a run is a tile */
    /* an encoder's run ends with its chunk */
    if (own.direction == VAE_ENCODE && model->info.chunk &&
        own.slice_size >= model->info.chunk)
        own.slice_size = model->info.chunk - 1;
    return vae_machine_open(&s->main, vae_model_ref(model), &own, terms, error);
}

void
vae_stream_free(VaeStream **stream)
{
    VaeStream *s = *stream;
    *stream = NULL;
    if (!s)
        return;
    VaeModel *model = s->main.model;
    vae_stream_judge_end(s);
    vae_machine_close(&s->main);
    vae_mem_free(s->slots);
    vae_mem_free(s->no_latents);
    vae_mem_free(s->window.data);
    vae_mem_free(s->window.results);
    vae_stream_free_waiting(s);
    vae_stream_guard_free(s);
    vae_model_free(&model);
    vae_mem_free(s);
}

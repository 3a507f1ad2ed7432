/*
 * clip.c: checks that a decoder of a model can decode a clip.
 */
#include <stdio.h>
#include <string.h>

#include "model.h"
#include "vae-private/model.h"
#include "vae-private/spaces.h"
#include "vae-private/tensors.h"

static VaeStatus
check_channels(const VaeModelInfo *info, const VaeLatentClip *clip,
               VaeError *error)
{
    if (clip->channels == info->latent_channels)
        return VAE_OK;
    return vae_mismatch(error, VAE_ERR_SIZE, clip->tensor,
                        "%s: tensor \"%s\" has {%d} channel%s, the model %s "
                        "(%s) expects {=%d}",
                        clip->file, clip->tensor, clip->channels,
                        clip->channels == 1 ? "" : "s", info->path, info->arch,
                        info->latent_channels);
}

/* Returns the name of a variant of that latent space; NULL: there is none. */
static const char *
variant_of(const VaeModel *model, const char *space)
{
    for (int i = 0; i < model->fitting.n; i++)
        if (strcmp(model->fitting.list[i].space, space) == 0)
            return model->fitting.list[i].name;
    return NULL;
}

/* A wrong statement can be overridden if the latents fit otherwise. */
static VaeStatus
check_space(const VaeModel *model, const VaeLatentClip *clip, VaeError *error)
{
    const VaeModelInfo *info = &model->info;
    if (!clip->space || !info->space || strcmp(clip->space, info->space) == 0)
        return VAE_OK;
    const char *variant = variant_of(model, clip->space);
    if (variant)
        return vae_mismatch(error, VAE_ERR_MODEL, clip->tensor,
                            "%s: the latent space is {%s}, the model %s, taken "
                            "for %s, expects {=%s}; its tensors also fit %s: "
                            "set variant to %s",
                            clip->file, clip->space, info->path, info->arch,
                            info->space, variant, variant);
    const bool known = vae_space_find(clip->space);
    const bool fits = clip->channels == info->latent_channels;
    return vae_mismatch(
        error, VAE_ERR_MODEL, clip->tensor,
        "%s: the latent space is {%s}%s, the model %s expects {=%s}%s%s%s%s",
        clip->file, clip->space, known ? "" : ", which is not known",
        info->path, info->space, known ? "; use a model of " : "",
        known ? clip->space : "",
        !fits   ? ""
        : known ? ", or to override it, set latent-space to "
                : "; to override it, set latent-space to ",
        fits ? info->space : "");
}

static VaeStatus
check_size(const VaeModelInfo *info, const VaeLatentClip *clip, int width,
           int height, VaeError *error)
{
    const int w = (width - 1) / info->spatial + 1;
    const int h = (height - 1) / info->spatial + 1;
    if (w == clip->width && h == clip->height)
        return VAE_OK;
    return vae_mismatch(
        error, VAE_ERR_SIZE, clip->tensor,
        "%s: the latents have a grid of {%dx%d}, expected {=%dx%d} for "
        "pictures of %dx%d by the model %s",
        clip->file, clip->width, clip->height, w, h, width, height, info->path);
}

VaeStatus
vae_model_check_clip(const VaeModel *model, const VaeLatentClip *clip,
                     int width, int height, VaeError *error)
{
    const VaeModelInfo *info = &model->info;
    if (!info->has_decoder)
        return vae_fail(error, VAE_ERR_MODEL,
                        "%s: has no decoder (recognised by %s)", info->path,
                        info->reason);
    VaeStatus status = check_space(model, clip, error);
    if (status == VAE_OK)
        status = check_channels(info, clip, error);
    return status == VAE_OK ? check_size(info, clip, width, height, error)
                            : status;
}

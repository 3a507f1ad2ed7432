/*
 * statistics.c: the statistics of latents, which the file has as metadata or as
 * tensors.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "files.h"
#include "model.h"

/* The list under vae.KEY or KEY in the metadata, or KEY in config.json. For
 * text that is no JSON it sets *found and returns NULL. */
static json_t *
meta_list(const VaeModel *model, const char *key, bool *found, VaeError *error)
{
    char full[64];
    snprintf(full, sizeof full, "vae.%s", key);
    const char *text = vae_tensor_file_metadata(model->file, full);
    if (!text)
        text = vae_tensor_file_metadata(model->file, key);
    json_t *list = json_object_get(model->config, key);
    if (json_is_null(list)) /* as diffusers writes what is not set */
        list = NULL;
    *found = text || list;
    if (!text)
        return json_incref(list);
    vae_json_load(text, strlen(text), model->path, "", &list, error);
    return list;
}

static bool
read_list(const VaeModel *model, const char *key, int channels, float *out,
          bool *found, VaeError *error)
{
    VaeError why = {0};
    json_t *list = meta_list(model, key, found, &why);
    if (why.status == VAE_ERR_MEMORY) {
        vae_fail(error, VAE_ERR_MEMORY, "%s", why.message);
        return false;
    }
    bool good = !*found || (json_is_array(list) &&
                            json_array_size(list) == (size_t) channels);
    for (int i = 0; list && good && i < channels; i++) {
        const json_t *v = json_array_get(list, (size_t) i);
        out[i] = (float) json_number_value(v);
        good = json_is_number(v) && isfinite(out[i]);
    }
    if (!good)
        vae_fail(error, VAE_ERR_MODEL, "%s: stated %s is no list of %d numbers",
                 model->path, key, channels);
    json_decref(list);
    return good;
}

bool
vae_model_meta_statistics(const VaeModel *model, int channels, float *mean,
                          float *std, VaeError *error)
{
    bool has_mean, has_std;
    if (!read_list(model, "latents_mean", channels, mean, &has_mean, error) ||
        !read_list(model, "latents_std", channels, std, &has_std, error))
        return false;
    for (int i = 0; i < channels; i++)
        if (!(std[i] > 0)) {
            vae_fail(error, VAE_ERR_MODEL,
                     "%s: stated latents_std[%d] is %g, "
                     "expected a positive number",
                     model->path, i, std[i]);
            return false;
        }
    return true;
}

/* ------------------------------------------------------------------ */

/* Reads the required tensor of that name, of one number for each channel. */
static VaeStatus
read_vector(const VaeModel *m, const char *name, float *dst, VaeError *error)
{
    const VaeTensorInfo *t =
        &m->required[vae_model_find_required(m, name, -1)].found;
    const size_t size = vae_type_size(t->type);
    uint8_t raw[VAE_MAX_LATENT_CHANNELS * sizeof(float)];
    VaeStatus status = VAE_OK;
    if (m->file)
        status = vae_tensor_file_read(m->file, t, 0, raw, t->bytes, error);
    else
        memcpy(raw, t->data, t->bytes);
    if (status == VAE_OK)
        vae_type_to_float(dst, raw, t->type, t->bytes / size);
    return status;
}

VaeStatus
vae_model_read_statistics(VaeModel *m, VaeError *error)
{
    const VaeArch *arch = m->arch;
    VaeStatus status = VAE_OK;
    if (arch->mean)
        status = read_vector(m, arch->mean, m->mean, error);
    if (arch->std && status == VAE_OK)
        status = read_vector(m, arch->std, m->std, error);
    if (arch->std_eps > 0 && status == VAE_OK)
        for (int i = 0; i < m->info.latent_channels; i++)
            m->std[i] = sqrtf(m->std[i] + arch->std_eps);
    for (int i = 0; i < m->info.latent_channels && status == VAE_OK; i++)
        if (!isfinite(m->mean[i]) || !isfinite(m->std[i]) || !(m->std[i] > 0))
            status = vae_fail(error, VAE_ERR_MODEL,
                              "%s: channel %d has a mean of %g and a deviation "
                              "of %g, expected finite numbers and a positive "
                              "deviation",
                              m->path, i, m->mean[i], m->std[i]);
    return status;
}

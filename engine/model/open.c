/*
 * open.c: opens weights, recognises the architecture and matches every tensor
 * by name and shape.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "files.h"
#include "sized.h"
#include "model.h"
#include "vae-private/spaces.h"

#define MAX_SPATIAL 64 /* larger factors come from a broken file */

/* Sets *found if the tensors of m->file are those of a network. */
static VaeStatus
recognise_tensors(VaeModel *m, bool *found, VaeError *error)
{
    const bool decoder = vae_model_has_prefix(m, "decoder.");
    const bool encoder = vae_model_has_prefix(m, "encoder.");
    for (int i = 0; vae_archs[i]; i++) {
        if (!vae_model_set_arch(m, vae_archs[i], decoder, encoder))
            return vae_fail(error, VAE_ERR_MEMORY, "%s: out of memory",
                            m->path);
        VaeError why = {0};
        VaeRecognise r = vae_recognise_params(m);
        *found = m->arch->recognise(&r, &why);
        if (!*found)
            continue;
        if (why.status != VAE_OK)
            return vae_fail_parts(error, why.status, VAE_PARTS_OF(&why),
                                  "%s: %s", m->path, why.message);
        if (m->info.spatial > MAX_SPATIAL || m->info.temporal > MAX_SPATIAL)
            return vae_fail(error, VAE_ERR_MODEL,
                            "%s: has the tensor names of %s, but too many "
                            "resamplers",
                            m->path, m->arch->name);
        const char *space =
            vae_tensor_file_metadata(m->file, "vae.latent_space");
        if (space) {
            m->info.space = space;
            /* A stand-in for another VAE uses that VAE's statistics. */
            if (m->info.takes_normalized)
                vae_space_statistics(space, m->info.latent_channels, m->mean,
                                     m->std);
        }
        vae_model_meta_statistics(m, m->info.latent_channels, m->mean, m->std,
                                  &why);
        if (why.status != VAE_OK)
            return vae_fail_parts(error, why.status, VAE_PARTS_OF(&why), "%s",
                                  why.message);
        return VAE_OK;
    }
    return VAE_OK;
}

/* Looks for the tensors in the whole file, then under each prefix. */
static VaeStatus
recognise(VaeModel *m, VaeError *error)
{
    VaeTensorFile *whole = m->file;
    char prefix[VAE_MAX_PREFIX] = "";
    size_t at = 0;
    bool found = false;
    VaeStatus status = recognise_tensors(m, &found, error);
    while (status == VAE_OK && !found &&
           vae_tensor_file_next_prefix(whole, &at, prefix)) {
        if (m->file != whole)
            vae_tensor_file_whole(m->file);
        m->file = whole;
        status = vae_tensor_file_part(whole, prefix, &m->file, error);
        if (status != VAE_OK)
            m->file = whole;
        else
            status = recognise_tensors(m, &found, error);
    }
    if (status == VAE_OK && !found)
        return vae_model_unknown(m, error);
    if (status == VAE_OK && m->file != whole) {
        char by[VAE_REASON];
        snprintf(by, sizeof by, "%s", m->info.reason);
        snprintf(m->reason, sizeof m->reason,
                 "%s; prefix \"%s\", %zu other tensors ignored", by, prefix,
                 vae_tensor_file_count(whole) - vae_tensor_file_count(m->file));
        m->info.reason = m->reason;
    }
    return status;
}

static VaeStatus
dry_run(VaeModel *m, VaeError *error)
{
    VaeError why = {0};
    const VaeStatus status = vae_model_dry_run(m, &why);
    return status == VAE_OK ? VAE_OK
                            : vae_fail_parts(error, status, VAE_PARTS_OF(&why),
                                             "%s: %s", m->path, why.message);
}

/* Opens the file of a model: of the path, or of the source if there is one. */
static VaeStatus
open_file(VaeModel *m, const VaeTensorList *source, VaeError *error)
{
    json_t *config = NULL;
    VaeStatus status;
    if (!source) {
        status = vae_tensor_file_open(m->path, &m->file, error);
        if (status == VAE_OK)
            status =
                vae_config_load(vae_tensor_file_name(m->file), &config, error);
    } else {
        const char *text = source->config;
        status = vae_tensor_file_open_source(source, &m->file, error);
        if (status == VAE_OK && text)
            status = vae_json_load(text, strlen(text), m->path,
                                   "config: ", &config, error);
    }
    m->config = config;
    return status;
}

/* Recognises the network of an open file, and finds its tensors. */
static VaeStatus
find_tensors(VaeModel *m, VaeError *error)
{
    VaeStatus status = recognise(m, error);
    if (status == VAE_OK && m->variant && strcmp(m->variant, m->info.arch) != 0)
        status = vae_fail_parts(
            error, VAE_ERR_MODEL,
            (VaeErrorParts){.found = m->info.arch, .expected = m->variant},
            "%s: the variant is set to %s, but the weights are those of %s",
            m->path, m->variant, m->info.arch);
    if (status == VAE_OK)
        status = dry_run(m, error);
    if (status == VAE_OK)
        status = vae_model_match(m, error);
    if (status == VAE_OK)
        status = vae_model_read_statistics(m, error);
    if (status == VAE_OK)
        vae_model_summarise(m);
    return status;
}

/* Opens a path or a source; the other is NULL or its name. */
static VaeStatus
open_model(const char *path, const VaeTensorList *source,
           const VaeModelOptions *options, VaeModel **out, VaeError *error)
{
    VaeModelOptions own = {0};
    VaeStatus status = VAE_OK;
    if (options)
        status = vae_sized_read(&own, sizeof own, options,
                                VAE_SIZE_UP_TO(VaeModelOptions, variant),
                                "VaeModelOptions", error);
    if (status != VAE_OK)
        return status;
    VaeModel *m = vae_model_new(path);
    if (m && own.variant)
        m->variant = strdup(own.variant);
    if (!m || !m->path || (own.variant && !m->variant))
        status = vae_fail(error, VAE_ERR_MEMORY, "%s: no memory", path);
    else if ((status = open_file(m, source, error)) == VAE_OK)
        status = find_tensors(m, error);
    if (!m || status != VAE_OK)
        vae_model_free(&m);
    else if (source) {
        m->release = source->release;
        m->release_user = source->user;
    }
    *out = m;
    return status;
}

VaeStatus
vae_model_open(const char *path, const VaeModelOptions *options, VaeModel **out,
               VaeError *error)
{
    VaeStatus status = vae_check_pointers(error, "out", out);
    if (status != VAE_OK)
        return status;
    *out = NULL;
    status = vae_check_path("path", path, error);
    return status == VAE_OK ? open_model(path, NULL, options, out, error)
                            : status;
}

VaeStatus
vae_model_open_tensors(const VaeTensorList *source,
                       const VaeModelOptions *options, VaeModel **out,
                       VaeError *error)
{
    VaeTensorList own = {0};
    VaeStatus status = vae_check_pointers(error, "source, out", source, out);
    if (status != VAE_OK)
        return status;
    *out = NULL;
    status = vae_sized_read(&own, sizeof own, source,
                            VAE_SIZE_UP_TO(VaeTensorList, config),
                            "VaeTensorList", error);
    if (status == VAE_OK)
        status = vae_check_pointers(error, "source.tensor",
                                    (const void *) (uintptr_t) own.tensor);
    if (!own.name)
        own.name = "tensors";
    return status == VAE_OK ? open_model(own.name, &own, options, out, error)
                            : status;
}

/*
 * model.c: opens weights, recognises the architecture and matches every
 * tensor by name and shape.
 */
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "files.h"
#include "sized.h"
#include "model.h"
#include "latent_spaces.h"

#define MAX_SPATIAL 64 /* larger factors come from a broken file */

bool
vae_model_rename(const VaeModel *model, const char *name, char *buffer)
{
    if (model->naming && model->arch->rename)
        return model->arch->rename(model->naming, name, buffer);
    return snprintf(buffer, 256, "%s", name) < 256;
}

const VaeTensorInfo *
vae_model_find(const VaeModel *model, const char *name)
{
    char renamed[256];
    if (!model->file || !vae_model_rename(model, name, renamed))
        return NULL;
    return vae_tensor_file_find(model->file, renamed);
}

const VaeTensorInfo *
vae_model_findf(const VaeModel *model, const char *format, ...)
{
    char name[200];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    return vae_model_find(model, name);
}

int
vae_model_dim(const VaeModel *model, int dim, const char *format, ...)
{
    char name[200];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    const VaeTensorInfo *t = vae_model_find(model, name);
    if (!t || dim >= t->n_dims || t->dims[dim] > 65536)
        return 0;
    return (int) t->dims[dim];
}

/* Tensors of the file whose first dimension is n. */
static size_t
count_wide(const VaeModel *m, int n)
{
    size_t count = 0;
    for (size_t i = 0; i < vae_tensor_file_count(m->file); i++) {
        const VaeTensorInfo *t = vae_tensor_file_at(m->file, i);
        count += t->n_dims > 0 && t->dims[0] == n;
    }
    return count;
}

int
vae_model_likelier(const VaeModel *model, int a, int b)
{
    if (a == b || b == 0)
        return a;
    if (a == 0)
        return b;
    return count_wide(model, b) > count_wide(model, a) ? b : a;
}

int
vae_model_width(const VaeModel *model, const char *format, ...)
{
    char name[200];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    return vae_model_likelier(model, vae_model_dim(model, 0, "%s.bias", name),
                              vae_model_dim(model, 0, "%s.weight", name));
}

bool
vae_model_has_prefix(const VaeModel *model, const char *prefix)
{
    return vae_tensor_file_has_prefix(model->file, prefix);
}

bool
vae_model_has_block(const VaeModel *model, const char *format, ...)
{
    char name[200], renamed[256];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    return vae_model_rename(model, name, renamed) &&
           vae_tensor_file_has_prefix(model->file, renamed);
}

bool
vae_model_meta_number(const VaeModel *model, const char *key, double *out)
{
    const char *text = vae_tensor_file_metadata(model->file, key);
    if (text) {
        char *end;
        *out = strtod(text, &end);
        if (end == text || *end != '\0')
            *out = (double) NAN;
        return true;
    }
    const json_t *value = json_object_get(model->config, key);
    if (!value || json_is_null(value))
        return false;
    *out = json_is_number(value) ? json_number_value(value) : (double) NAN;
    return true;
}

bool
vae_model_config(const VaeModel *model, json_t **out, VaeError *error)
{
    const char *text = vae_tensor_file_metadata(model->file, "config");
    *out = text ? NULL : json_incref(model->config);
    return !text || vae_json_load(text, strlen(text), "config in __metadata__",
                                  "", out, error) == VAE_OK;
}

const char *
vae_model_variant(const VaeModel *model)
{
    if (model->variant)
        return model->variant;
    const char *text = vae_tensor_file_metadata(model->file, "vae.variant");
    return text ? text : vae_tensor_file_metadata(model->file, "variant");
}

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

void
vae_model_summarise(VaeModel *m)
{
    uint64_t by_type[4] = {0};
    m->info.tensor_count = m->n_required;
    m->info.decoder_tensors = m->n_decoder;
    m->info.encoder_tensors = m->n_required - m->n_decoder;
    m->info.weights_bytes = m->info.decoder_bytes = 0;
    m->info.weights_type = VAE_TYPE_F32;
    for (size_t i = 0; i < m->n_required; i++) {
        const VaeTensorInfo *t = &m->required[i].found;
        m->info.weights_bytes += t->bytes;
        if (i < m->n_decoder)
            m->info.decoder_bytes += t->bytes;
        by_type[t->type] += t->bytes;
        if (by_type[t->type] > by_type[m->info.weights_type])
            m->info.weights_type = t->type;
    }
    m->info.encoder_bytes = m->info.weights_bytes - m->info.decoder_bytes;
}

/* ------------------------------------------------------------------ */

static VaeModel *
new_model(const char *path)
{
    VaeModel *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    atomic_init(&m->refs, 1);
    pthread_mutex_init(&m->lock, NULL);
    vae_weight_cache_init(&m->weights);
    m->path = strdup(path);
    return m;
}

/* Prepares recognise() or preset() of an architecture. */
static bool
set_arch(VaeModel *m, const VaeArch *arch, bool decoder, bool encoder)
{
    m->arch = arch;
    m->naming = 0;
    m->info = (VaeModelInfo){.arch = arch->name,
                             .names = "official",
                             .reason = "generated",
                             .path = m->path,
                             .has_decoder = decoder && arch->decode,
                             .has_encoder = encoder && arch->encode,
                             .mean = m->mean,
                             .std = m->std};
    for (int i = 0; i < VAE_MAX_LATENT_CHANNELS; i++) {
        m->mean[i] = 0;
        m->std[i] = 1;
    }
    free(m->arch_data);
    m->arch_data = calloc(1, arch->data_size + 1);
    return m->arch_data != NULL;
}

static VaeRecognise
recognise_params(VaeModel *m)
{
    return (VaeRecognise){.model = m,
                          .arch = m->arch,
                          .naming = &m->naming,
                          .info = &m->info,
                          .mean = m->mean,
                          .std = m->std,
                          .data = m->arch_data};
}

static VaeStatus
recognise(VaeModel *m, VaeError *error)
{
    const bool decoder = vae_model_has_prefix(m, "decoder.");
    const bool encoder = vae_model_has_prefix(m, "encoder.");
    for (int i = 0; vae_archs[i]; i++) {
        if (!set_arch(m, vae_archs[i], decoder, encoder))
            return vae_fail(error, VAE_ERR_MEMORY, "%s: out of memory",
                            m->path);
        VaeError why = {0};
        VaeRecognise r = recognise_params(m);
        if (!m->arch->recognise(&r, &why))
            continue;
        if (why.status != VAE_OK)
            return vae_fail_parts(error, why.status, VAE_PARTS_OF(&why),
                                  "%s: %s", m->path, why.message);
        if (m->info.spatial > MAX_SPATIAL || m->info.temporal > MAX_SPATIAL)
            return vae_fail(error, VAE_ERR_MODEL,
                            "%s: the names are those of "
                            "the %s VAE, but with too many resamplers",
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
    return vae_model_unknown(m, error);
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

VaeStatus
vae_model_open(const char *path, const VaeModelOptions *options, VaeModel **out,
               VaeError *error)
{
    *out = NULL;
    VaeModelOptions own = {0};
    json_t *config = NULL;
    VaeStatus status = VAE_OK;
    if (options)
        status = vae_sized_read(&own, sizeof own, options,
                                VAE_SIZE_UP_TO(VaeModelOptions, variant),
                                "VaeModelOptions", error);
    if (status != VAE_OK)
        return status;
    VaeModel *m = new_model(path);
    if (m && own.variant)
        m->variant = strdup(own.variant);
    if (!m || !m->path || (own.variant && !m->variant)) {
        status = vae_fail(error, VAE_ERR_MEMORY, "%s: no memory", path);
        goto fail;
    }
    if ((status = vae_tensor_file_open(path, &m->file, error)) != VAE_OK)
        goto fail;
    status = vae_config_load(vae_tensor_file_name(m->file), &config, error);
    m->config = config;
    if (status != VAE_OK || (status = recognise(m, error)) != VAE_OK)
        goto fail;
    if (own.variant && strcmp(own.variant, m->info.arch) != 0) {
        status = vae_fail_parts(
            error, VAE_ERR_MODEL,
            (VaeErrorParts){.found = m->info.arch, .wanted = own.variant},
            "%s: holds %s, which is no %s", path, m->info.arch, own.variant);
        goto fail;
    }
    if ((status = dry_run(m, error)) != VAE_OK ||
        (status = vae_model_match(m, error)) != VAE_OK ||
        (status = vae_model_read_statistics(m, error)) != VAE_OK)
        goto fail;
    vae_model_summarise(m);
    *out = m;
    return VAE_OK;
fail:
    vae_model_free(&m);
    return status;
}

/* ------------------------------------------------------------------ */

VaeStatus
vae_model_preset(const VaeArch *arch, bool decoder, bool encoder,
                 VaeModel **out, VaeError *error)
{
    *out = NULL;
    VaeModel *m = new_model("(generated)");
    if (!m || !m->path || !set_arch(m, arch, decoder, encoder)) {
        vae_model_free(&m);
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    }
    VaeRecognise r = recognise_params(m);
    arch->preset(&r);
    const VaeStatus status = vae_model_dry_run(m, error);
    if (status != VAE_OK)
        vae_model_free(&m);
    *out = m;
    return status;
}

VaeStatus
vae_model_write(const VaeModel *m, const char *path, VaeType type,
                VaeError *error)
{
    VaeStatus status = VAE_ERR_MEMORY;
    if (m->outline)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "%s: an outline of %s has no numbers to write", path,
                        m->info.arch);
    VaeTensorOut *out = calloc(m->n_required, sizeof *out);
    void **blocks = calloc(m->n_required, sizeof *blocks);
    for (size_t i = 0; out && blocks && i < m->n_required; i++) {
        const VaeTensorInfo *t = &m->required[i].found;
        const size_t n = (size_t) t->bytes / vae_type_size(t->type);
        out[i] = (VaeTensorOut){.name = t->name,
                                .type = type,
                                .n_dims = t->n_dims,
                                .data = t->data};
        memcpy(out[i].dims, t->dims, sizeof t->dims);
        if (t->type == type)
            continue;
        float *wide = malloc(n * sizeof *wide);
        blocks[i] = malloc(n * vae_type_size(type));
        if (!wide || !blocks[i]) {
            free(wide);
            goto done;
        }
        vae_type_to_float(wide, t->data, t->type, n);
        vae_type_from_float(blocks[i], type, wide, n);
        out[i].data = blocks[i];
        free(wide);
    }
    if (out && blocks)
        status =
            vae_tensor_file_write(path, out, m->n_required, NULL, 0, error);
done:
    if (status == VAE_ERR_MEMORY)
        vae_fail(error, status, "%s: out of memory", path);
    for (size_t i = 0; blocks && i < m->n_required; i++)
        free(blocks[i]);
    free(blocks);
    free(out);
    return status;
}

/* ------------------------------------------------------------------ */

VaeModel *
vae_model_ref(VaeModel *model)
{
    atomic_fetch_add(&model->refs, 1);
    return model;
}

void
vae_model_free(VaeModel **model)
{
    VaeModel *m = *model;
    *model = NULL;
    if (!m || atomic_fetch_sub(&m->refs, 1) != 1)
        return;
    vae_weight_cache_clear(&m->weights);
    for (size_t i = 0; i < m->n_required; i++) {
        free(m->required[i].name);
        if (m->generated)
            vae_mem_free(m->generated[i]);
    }
    free(m->generated);
    free(m->required);
    free(m->by_name);
    free(m->arch_data);
    json_decref(m->config);
    vae_tensor_file_free(&m->file);
    pthread_mutex_destroy(&m->lock);
    free(m->path);
    free(m->variant);
    free(m);
}

const VaeModelInfo *
vae_model_info(const VaeModel *model)
{
    return &model->info;
}

const VaeTensorInfo *
vae_model_tensor(const VaeModel *model, size_t i)
{
    return i < model->n_required ? &model->required[i].found : NULL;
}

int64_t
vae_model_latents_of(const VaeModel *model, int64_t frames)
{
    /* The latents must decode to all frames. For an encoder with other groups,
     * as in the tiny ones, repeated frames fill the last groups. */
    const VaeSteps *s = &model->info.decode;
    if (frames <= s->first_out)
        return s->first_in;
    return s->first_in +
           (frames - s->first_out + s->step_out - 1) / s->step_out * s->step_in;
}

int64_t
vae_model_frames_of(const VaeModel *model, int64_t latents)
{
    const VaeSteps *s = &model->info.decode;
    return s->first_out + (latents - s->first_in) / s->step_in * s->step_out;
}

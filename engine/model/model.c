/*
 * model.c: makes models, frees them, and tells what they are. open.c makes them
 * of files.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "files.h"
#include "model.h"
#include "vae-private/os.h"

void
vae_model_summarise(VaeModel *m)
{
    uint64_t by_type[VAE_TYPE_F64 + 1] = {0};
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

VaeModel *
vae_model_new(const char *path)
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

bool
vae_model_set_arch(VaeModel *m, const VaeArch *arch, bool decoder, bool encoder)
{
    m->arch = arch;
    m->naming = 0;
    m->assumed = false;
    m->fitting.n = 0;
    m->doubt = NULL;
    m->info = (VaeModelInfo){.arch = arch->name,
                             .names = "official",
                             .reason = "generated",
                             .path = m->path,
                             .scale = 1,
                             .in_channels = 3,
                             .out_channels = 3,
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

VaeRecognise
vae_recognise_params(VaeModel *m)
{
    return (VaeRecognise){.model = m,
                          .arch = m->arch,
                          .naming = &m->naming,
                          .info = &m->info,
                          .mean = m->mean,
                          .std = m->std,
                          .data = m->arch_data,
                          .reason = m->reason,
                          .assumed = &m->assumed,
                          .fitting = &m->fitting,
                          .doubt = &m->doubt,
                          .no_fp16 = &m->no_fp16,
                          .windows = &m->windows,
                          .least = &m->least};
}

/* ------------------------------------------------------------------ */

VaeStatus
vae_model_preset(const VaeArch *arch, bool decoder, bool encoder,
                 VaeModel **out, VaeError *error)
{
    *out = NULL;
    if (!arch->preset)
        return vae_fail(error, VAE_ERR_UNSUPPORTED,
                        "%s has no configuration of its own (VaeArch.preset)",
                        arch->name);
    VaeModel *m = vae_model_new("(generated)");
    if (!m || !m->path || !vae_model_set_arch(m, arch, decoder, encoder)) {
        vae_model_free(&m);
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    }
    VaeRecognise r = vae_recognise_params(m);
    arch->preset(&r);
    vae_model_read_stated(m, NULL);
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
        return vae_fail_parts(error, VAE_ERR_ARGUMENT,
                              (VaeErrorParts){NULL, "an outline", "weights"},
                              "%s: an outline of %s has no numbers to write",
                              path, m->info.arch);
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
    json_decref(m->own_config);
    vae_tensor_file_free(&m->file);
    if (m->release)
        m->release(m->release_user);
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

/* Writes how to choose the variant. A player sets no property: an installed
 * file is named after its latent space, a file in a folder need not be. */
static void
advise_choice(const VaeModel *m, char *text, size_t size)
{
    const char *name = vae_os_file_name(m->path), *space = m->info.space;
    const int length =
        snprintf(text, size,
                 "; set variant to the one that it is, or name the file after "
                 "it");
    if (space && strncmp(name, space, strlen(space)) == 0)
        snprintf(text + length, size - (size_t) length,
                 ", such as %s.safetensors in a folder %s", m->info.arch,
                 space);
}

bool
vae_model_choice(const VaeModel *model, char text[VAE_CHOICE])
{
    char advice[200] = "";
    if ((model->variant || !model->assumed) && !model->several)
        return false;
    if (model->assumed)
        advise_choice(model, advice, sizeof advice);
    snprintf(text, VAE_CHOICE,
             "could be several networks; %s is taken, by %s%s",
             model->info.arch, model->info.reason, advice);
    return true;
}

int
vae_model_window(const VaeModel *model, int64_t tile_plan)
{
    return model->info.in_tiles ? vae_tile_latents(tile_plan).stride
                                : model->windows.size;
}

VaeStatus
vae_model_check_output(const VaeModel *model, const VaeTensorFile *input,
                       const char *path, VaeError *error)
{
    const char *what = NULL;
    if (input && vae_tensor_file_is_from(input, path))
        what = "input";
    else if (model->file && vae_tensor_file_is_from(model->file, path))
        what = "model";
    return what ? vae_fail(error, VAE_ERR_ARGUMENT,
                           "%s: is the %s; write to another file", path, what)
                : VAE_OK;
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
    return vae_count_latents(vae_model_counts(&model->info), frames);
}

int64_t
vae_model_frames_of(const VaeModel *model, int64_t latents)
{
    return vae_count_frames(vae_model_counts(&model->info), latents);
}

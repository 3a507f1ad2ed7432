/*
 * fingerprint.c: a hash of a model's weights, and of the values beside them
 * that decide its results, to compare files.
 */
#include <stdio.h>
#include <string.h>

#include "alloc.h"
#include "files.h"
#include "model.h"
#include "sha256.h"

enum { BLOCK = 1 << 20 };

/* Adds the numbers of a tensor, block after block. */
static VaeStatus
add_numbers(VaeSha256 *sha, const VaeTensorFile *file, const VaeTensorInfo *t,
            uint8_t *block, VaeError *error)
{
    VaeStatus status = VAE_OK;
    for (uint64_t at = 0; at < t->bytes && status == VAE_OK; at += BLOCK) {
        const uint64_t left = t->bytes - at;
        const size_t n = left < BLOCK ? (size_t) left : BLOCK;
        if (file)
            status = vae_tensor_file_read(file, t, at, block, n, error);
        else
            memcpy(block, (const uint8_t *) t->data + at, n);
        if (status == VAE_OK)
            vae_sha256_add(sha, block, n);
    }
    return status;
}

/* Adds what decides the results beside the tensors. */
static void
add_settings(VaeSha256 *sha, const VaeModel *m)
{
    char text[512];
    for (const VaeStated *row = m->arch->stated; row && row->key; row++) {
        const char *at = (const char *) m->arch_data + row->at;
        if (!row->label)
            continue;
        const int n =
            snprintf(text, sizeof text, "%s %g\n", row->label,
                     row->real ? *(const double *) at : *(const int *) at);
        vae_sha256_add(sha, text, (size_t) n);
    }
    if (m->arch->settings) {
        m->arch->settings(m->arch_data, text, sizeof text);
        vae_sha256_add(sha, text, strlen(text));
    }
}

static VaeStatus
fingerprint(const VaeModel *model, char out[65], VaeError *error)
{
    VaeSha256 sha;
    char head[512], dims[128];
    VaeStatus status = VAE_OK;
    uint8_t *block = vae_mem_alloc(BLOCK);
    if (!block)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory (%d bytes)",
                        (int) BLOCK);
    vae_sha256_begin(&sha);
    for (size_t i = 0; i < model->info.tensor_count && status == VAE_OK; i++) {
        const VaeTensorInfo *t = vae_model_tensor(model, i);
        const int n = snprintf(
            head, sizeof head, "%s %s %s %llu\n", t->name,
            vae_type_name(t->type),
            t->n_dims ? vae_dims_text(t->dims, t->n_dims, dims, sizeof dims)
                      : "scalar",
            (unsigned long long) t->bytes);
        vae_sha256_add(&sha, head, (size_t) n);
        if (t->data)
            status = add_numbers(&sha, model->file, t, block, error);
    }
    for (int i = 0; i < model->info.latent_channels; i++) {
        const int n = snprintf(head, sizeof head, "%.9g %.9g\n",
                               (double) model->mean[i], (double) model->std[i]);
        vae_sha256_add(&sha, head, (size_t) n);
    }
    add_settings(&sha, model);
    vae_mem_free(block);
    if (status == VAE_OK)
        vae_sha256_end(&sha, out);
    return status;
}

VaeStatus
vae_model_fingerprint(const VaeModel *model, char out[65], VaeError *error)
{
    VaeModel *m = (VaeModel *) model;
    VaeStatus status = VAE_OK;
    pthread_mutex_lock(&m->lock);
    if (!m->fingerprint[0])
        status = fingerprint(m, m->fingerprint, error);
    memcpy(out, m->fingerprint, 65);
    pthread_mutex_unlock(&m->lock);
    return status;
}

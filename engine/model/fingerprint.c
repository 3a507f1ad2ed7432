/*
 * fingerprint.c: a hash of a model's weights, to compare files.
 */
#include <stdio.h>
#include <string.h>

#include "model.h"
#include "sha256.h"

static void
fingerprint(const VaeModel *model, char out[65])
{
    VaeSha256 sha;
    char head[512], dims[128];
    vae_sha256_begin(&sha);
    for (size_t i = 0; i < model->info.tensor_count; i++) {
        const VaeTensorInfo *t = vae_model_tensor(model, i);
        const int n = snprintf(
            head, sizeof head, "%s %s %s %llu\n", t->name,
            vae_type_name(t->type),
            t->n_dims ? vae_dims_text(t->dims, t->n_dims, dims, sizeof dims)
                      : "scalar",
            (unsigned long long) t->bytes);
        vae_sha256_add(&sha, head, (size_t) n);
        if (t->data)
            vae_sha256_add(&sha, t->data, (size_t) t->bytes);
    }
    vae_sha256_end(&sha, out);
}

void
vae_model_fingerprint(const VaeModel *model, char out[65])
{
    VaeModel *m = (VaeModel *) model;
    pthread_mutex_lock(&m->lock);
    if (!m->fingerprint[0])
        fingerprint(m, m->fingerprint);
    memcpy(out, m->fingerprint, 65);
    pthread_mutex_unlock(&m->lock);
}

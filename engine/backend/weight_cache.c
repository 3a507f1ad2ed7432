/*
 * weight_cache.c: weights as backends keep them, once per model.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

static void *
host_alloc(size_t bytes, void *user)
{
    return vae_mem_alloc(bytes);
}

static void
host_free(void *block, int place)
{
    vae_mem_free(block);
}

static void
drop_blob(VaeKept *k)
{
    k->blob_free(k->blob, k->place);
    k->blob = NULL;
}

static void
kept_free(VaeKept *k)
{
    if (k->blob)
        drop_blob(k);
    if (k->out)
        k->out_free(k->out);
    free(k->key);
    free(k);
}

void
vae_model_drop_weights(VaeModel *model)
{
    for (VaeKept *k = model->kept, *next; k; k = next) {
        next = k->next;
        kept_free(k);
    }
    model->kept = NULL;
}

/* Makes a new one, or one anew that was moved out. Lock held. */
static VaeStatus
make_blob(VaeKept *k, VaeWeightMake make, void *user,
          const VaeWeightMemory *memory, VaeError *error)
{
    k->blob = memory->alloc(k->bytes, memory->user);
    k->blob_free = memory->free;
    k->place = memory->place;
    if (!k->blob)
        return vae_fail(error, VAE_ERR_MEMORY,
                        "out of memory for weights (%zu bytes)", k->bytes);
    const VaeStatus status = make(user, k->blob, error);
    if (status != VAE_OK) {
        drop_blob(k);
    } else if (k->out) {
        k->out_free(k->out);
        k->out = NULL;
    }
    return status;
}

/* Lock held. */
static VaeStatus
make_kept(VaeModel *model, const void *key, size_t key_size, size_t bytes,
          VaeKept **out, VaeError *error)
{
    VaeKept *k = calloc(1, sizeof *k);
    void *copy = malloc(key_size);
    if (!k || !copy) {
        free(k);
        free(copy);
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    }
    memcpy(copy, key, key_size);
    *k = (VaeKept){
        .next = model->kept, .key = copy, .key_size = key_size, .bytes = bytes};
    model->kept = k;
    *out = k;
    return VAE_OK;
}

/* Lock held; NULL where there is none. */
static VaeKept *
find_key(const VaeModel *model, const void *key, size_t key_size)
{
    VaeKept *k = model->kept;
    while (k && (k->key_size != key_size || memcmp(k->key, key, key_size) != 0))
        k = k->next;
    return k;
}

bool
vae_model_has_weight(VaeModel *model, const void *key, size_t key_size)
{
    pthread_mutex_lock(&model->lock);
    const VaeKept *k = find_key(model, key, key_size);
    const bool has = k && k->blob;
    pthread_mutex_unlock(&model->lock);
    return has;
}

VaeStatus
vae_model_weight(VaeModel *model, const void *key, size_t key_size,
                 size_t bytes, VaeWeightMake make, void *user,
                 const VaeWeightMemory *memory, const void **out,
                 VaeError *error)
{
    static const VaeWeightMemory host = {host_alloc, host_free, NULL, 0};
    VaeStatus status = VAE_OK;
    pthread_mutex_lock(&model->lock);
    VaeKept *k = find_key(model, key, key_size);
    if (!k)
        status = make_kept(model, key, key_size, bytes, &k, error);
    if (status == VAE_OK && !k->blob)
        status = make_blob(k, make, user, memory ? memory : &host, error);
    if (status == VAE_OK) {
        k->users++;
        *out = k->blob;
    }
    pthread_mutex_unlock(&model->lock);
    return status;
}

/* ------------------------------------------------------------------ */
/* Weights that rest.                                                  */

/* Where all who use it let it rest. Lock held. */
static VaeStatus
move_out(VaeKept *k, const VaeWeightMove *move, VaeError *error)
{
    if (k->users > 0 || k->resting == 0 || !k->blob)
        return VAE_OK;
    const VaeStatus status =
        move->out(move->backend, k->blob, k->bytes, &k->out, error);
    if (status != VAE_OK)
        return status;
    k->out_free = move->out_free;
    drop_blob(k);
    return VAE_OK;
}

/* Lock held. */
static VaeStatus
move_back(VaeKept *k, const VaeWeightMove *move, VaeError *error)
{
    if (k->blob)
        return VAE_OK;
    const VaeStatus status =
        move->back(move->backend, k->out, k->bytes, &k->blob, error);
    if (status != VAE_OK)
        return status;
    k->out_free(k->out);
    k->out = NULL;
    return VAE_OK;
}

/* Lock held. */
static VaeKept *
find_blob(VaeModel *model, const void *block)
{
    VaeKept *k = model->kept;
    while (k && k->blob != block)
        k = k->next;
    assert(k && k->users > 0);
    return k;
}

VaeStatus
vae_model_rest(VaeModel *model, const void *block, const VaeWeightMove *move,
               VaeKept **out, VaeError *error)
{
    pthread_mutex_lock(&model->lock);
    VaeKept *k = find_blob(model, block);
    k->users--;
    k->resting++;
    const VaeStatus status = move_out(k, move, error);
    pthread_mutex_unlock(&model->lock);
    *out = k;
    return status;
}

VaeStatus
vae_model_wake(VaeModel *model, VaeKept *kept, const VaeWeightMove *move,
               const void **out, VaeError *error)
{
    pthread_mutex_lock(&model->lock);
    const VaeStatus status = move_back(kept, move, error);
    if (status == VAE_OK) {
        kept->resting--;
        kept->users++;
        *out = kept->blob;
    }
    pthread_mutex_unlock(&model->lock);
    return status;
}

void
vae_model_let_go(VaeModel *model, const void *block, VaeKept *kept,
                 const VaeWeightMove *move)
{
    VaeError ignored;
    pthread_mutex_lock(&model->lock);
    if (block) {
        VaeKept *k = find_blob(model, block);
        k->users--;
        move_out(k, move, &ignored);
    } else if (kept) {
        kept->resting--;
    }
    pthread_mutex_unlock(&model->lock);
}

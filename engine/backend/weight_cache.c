/*
 * weight_cache.c: see weight_cache.h.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "program.h"
#include "weight_cache.h"

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
free_blob(VaeCachedWeight *k)
{
    k->blob_free(k->blob, k->place);
    k->blob = NULL;
}

static void
entry_free(VaeCachedWeight *k)
{
    if (k->blob)
        free_blob(k);
    if (k->copy)
        k->copy_free(k->copy);
    free(k->key);
    free(k);
}

bool
vae_weight_cache_init(VaeWeightCache *cache)
{
    cache->first = NULL;
    return pthread_mutex_init(&cache->lock, NULL) == 0;
}

void
vae_weight_cache_clear(VaeWeightCache *cache)
{
    for (VaeCachedWeight *k = cache->first, *next; k; k = next) {
        next = k->next;
        entry_free(k);
    }
    cache->first = NULL;
    pthread_mutex_destroy(&cache->lock);
}

/* Makes the bytes of a new or of an offloaded entry. Lock held. */
static VaeStatus
make_blob(VaeCachedWeight *k, const VaeWeightRequest *r, VaeError *error)
{
    static const VaeWeightMemory host = {host_alloc, host_free, NULL, 0};
    const VaeWeightMemory *memory = r->memory ? r->memory : &host;
    k->blob = memory->alloc(k->bytes, memory->user);
    k->blob_free = memory->free;
    k->place = memory->place;
    if (!k->blob)
        return vae_fail(error, VAE_ERR_MEMORY,
                        "out of memory for weights (%zu bytes)", k->bytes);
    VaeStatus status = r->weight ? vae_weight_fetch(r->weight, error) : VAE_OK;
    if (status == VAE_OK) {
        status = r->make(r->user, k->blob, error);
        if (r->weight)
            vae_weight_drop(r->weight);
    }
    if (status != VAE_OK) {
        free_blob(k);
    } else if (k->copy) {
        k->copy_free(k->copy);
        k->copy = NULL;
    }
    return status;
}

/* NULL: out of memory. Lock held. */
static VaeCachedWeight *
new_entry(VaeWeightCache *cache, const VaeWeightRequest *r)
{
    VaeCachedWeight *k = calloc(1, sizeof *k);
    void *key = malloc(r->key_size);
    if (!k || !key) {
        free(k);
        free(key);
        return NULL;
    }
    memcpy(key, r->key, r->key_size);
    *k = (VaeCachedWeight){.next = cache->first,
                           .key = key,
                           .key_size = r->key_size,
                           .bytes = r->bytes};
    cache->first = k;
    return k;
}

/* NULL: no such entry. Lock held. */
static VaeCachedWeight *
find_key(const VaeWeightCache *cache, const void *key, size_t key_size)
{
    VaeCachedWeight *k = cache->first;
    while (k && (k->key_size != key_size || memcmp(k->key, key, key_size) != 0))
        k = k->next;
    return k;
}

bool
vae_weight_cache_has(VaeWeightCache *cache, const void *key, size_t key_size)
{
    pthread_mutex_lock(&cache->lock);
    const VaeCachedWeight *k = find_key(cache, key, key_size);
    const bool has = k && k->blob;
    pthread_mutex_unlock(&cache->lock);
    return has;
}

VaeStatus
vae_weight_cache_get(VaeWeightCache *cache, const VaeWeightRequest *request,
                     const void **out, VaeError *error)
{
    VaeStatus status = VAE_OK;
    pthread_mutex_lock(&cache->lock);
    VaeCachedWeight *k = find_key(cache, request->key, request->key_size);
    if (!k)
        k = new_entry(cache, request);
    if (!k)
        status = vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    if (status == VAE_OK && !k->blob)
        status = make_blob(k, request, error);
    if (status == VAE_OK) {
        k->users++;
        *out = k->blob;
    }
    pthread_mutex_unlock(&cache->lock);
    return status;
}

/* ------------------------------------------------------------------ */
/* Offloading.                                                         */

/* Copies the weight to host memory if all of its users have offloaded it. Lock
 * held. */
static VaeStatus
move_out(VaeCachedWeight *k, const VaeWeightMove *move, VaeError *error)
{
    if (k->users > 0 || k->offloaded == 0 || !k->blob)
        return VAE_OK;
    const VaeStatus status =
        move->out(move->backend, k->blob, k->bytes, &k->copy, error);
    if (status != VAE_OK)
        return status;
    k->copy_free = move->copy_free;
    free_blob(k);
    return VAE_OK;
}

/* Lock held. */
static VaeStatus
move_back(VaeCachedWeight *k, const VaeWeightMove *move, VaeError *error)
{
    if (k->blob)
        return VAE_OK;
    const VaeStatus status =
        move->back(move->backend, k->copy, k->bytes, &k->blob, error);
    if (status != VAE_OK)
        return status;
    k->copy_free(k->copy);
    k->copy = NULL;
    return VAE_OK;
}

/* Lock held. */
static VaeCachedWeight *
find_blob(VaeWeightCache *cache, const void *block)
{
    VaeCachedWeight *k = cache->first;
    while (k && k->blob != block)
        k = k->next;
    assert(k && k->users > 0);
    return k;
}

VaeStatus
vae_weight_cache_offload(VaeWeightCache *cache, const void *block,
                         const VaeWeightMove *move, VaeCachedWeight **out,
                         VaeError *error)
{
    pthread_mutex_lock(&cache->lock);
    VaeCachedWeight *k = find_blob(cache, block);
    k->users--;
    k->offloaded++;
    const VaeStatus status = move_out(k, move, error);
    pthread_mutex_unlock(&cache->lock);
    *out = k;
    return status;
}

VaeStatus
vae_weight_cache_reload(VaeWeightCache *cache, VaeCachedWeight *weight,
                        const VaeWeightMove *move, const void **out,
                        VaeError *error)
{
    pthread_mutex_lock(&cache->lock);
    const VaeStatus status = move_back(weight, move, error);
    if (status == VAE_OK) {
        weight->offloaded--;
        weight->users++;
        *out = weight->blob;
    }
    pthread_mutex_unlock(&cache->lock);
    return status;
}

void
vae_weight_cache_release(VaeWeightCache *cache, const void *block,
                         VaeCachedWeight *weight, const VaeWeightMove *move)
{
    VaeError ignored;
    pthread_mutex_lock(&cache->lock);
    if (block) {
        VaeCachedWeight *k = find_blob(cache, block);
        k->users--;
        move_out(k, move, &ignored);
    } else if (weight) {
        weight->offloaded--;
    }
    pthread_mutex_unlock(&cache->lock);
}

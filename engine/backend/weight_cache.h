/*
 * weight_cache.h: weights in a backend's layout, made once per model and shared
 * by all of its streams.
 *
 * The key of an entry says what it is made from, and into which layout. A
 * caller that gets an entry uses it until vae_weight_cache_release(). Backends
 * that never offload need not release: entries live as long as the cache.
 *
 * A user may offload an entry, and reload it later. When the last active user
 * offloads a weight, it is copied to host memory and its device memory is
 * freed; the first user to reload it copies it back. An entry without users
 * stays.
 *
 * Any thread may call. A lock of the cache is held while an entry is made,
 * offloaded or reloaded.
 */
#ifndef VAE_WEIGHT_CACHE_H
#define VAE_WEIGHT_CACHE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "vae-private/status.h"

typedef struct VaeWeight VaeWeight;
typedef struct VaeBackend VaeBackend;

typedef struct VaeCachedWeight VaeCachedWeight;
struct VaeCachedWeight {
    VaeCachedWeight *next;
    void *key;
    size_t key_size, bytes;
    void *blob; /* NULL: offloaded */
    void (*blob_free)(void *blob, int place);
    int place;
    int users, offloaded; /* users, and those of them that offloaded it */
    void *copy;           /* in host memory while offloaded, or NULL */
    void (*copy_free)(void *copy);
};

typedef struct VaeWeightCache {
    pthread_mutex_t lock; /* guards all that follows */
    VaeCachedWeight *first;
} VaeWeightCache;

/* False: the lock cannot be made. */
bool vae_weight_cache_init(VaeWeightCache *cache);
/* Frees all entries, which must have no users, and the lock. */
void vae_weight_cache_clear(VaeWeightCache *cache);

/* Makes an entry: writes its bytes to dst. */
typedef VaeStatus (*VaeWeightMake)(void *user, void *dst, VaeError *error);

/* The memory of entries. alloc() gets user and is called only in
 * vae_weight_cache_get(). free() gets place and may run on any thread. */
typedef struct VaeWeightMemory {
    void *(*alloc)(size_t bytes, void *user);
    void (*free)(void *block, int place);
    void *user;
    int place;
} VaeWeightMemory;

/* An entry, and how to make it. */
typedef struct VaeWeightRequest {
    const void *key; /* key_size bytes, compared as such */
    size_t key_size;
    size_t bytes;            /* of the entry */
    const VaeWeight *weight; /* fetched from its file for make; NULL: none */
    VaeWeightMake make;
    void *user;                    /* of make */
    const VaeWeightMemory *memory; /* copied; NULL: host memory */
} VaeWeightRequest;

/* Gets the entry, and makes it if there is none or if it is offloaded. Errors:
 * VAE_ERR_MEMORY, those of make. */
VaeStatus vae_weight_cache_get(VaeWeightCache *cache,
                               const VaeWeightRequest *request,
                               const void **out, VaeError *error);
/* True if the entry exists and is not offloaded. */
bool vae_weight_cache_has(VaeWeightCache *cache, const void *key,
                          size_t key_size);

/* Copies between the device and host memory. Each function allocates a copy;
 * the caller frees the original. */
typedef struct VaeWeightMove {
    VaeBackend *backend;
    VaeStatus (*out)(VaeBackend *backend, const void *block, size_t bytes,
                     void **copy, VaeError *error);
    VaeStatus (*back)(VaeBackend *backend, const void *copy, size_t bytes,
                      void **block, VaeError *error);
    void (*copy_free)(void *copy);
} VaeWeightMove;

/* Ends the use of block until *out is reloaded. After an error the use has
 * ended, too, but the weight stays in device memory. */
VaeStatus vae_weight_cache_offload(VaeWeightCache *cache, const void *block,
                                   const VaeWeightMove *move,
                                   VaeCachedWeight **out, VaeError *error);
/* Uses the weight again. *out: its new address. After an error it stays
 * offloaded. */
VaeStatus vae_weight_cache_reload(VaeWeightCache *cache,
                                  VaeCachedWeight *weight,
                                  const VaeWeightMove *move, const void **out,
                                  VaeError *error);
/* Ends the use of block or, if block is NULL, of the offloaded weight. */
void vae_weight_cache_release(VaeWeightCache *cache, const void *block,
                              VaeCachedWeight *weight,
                              const VaeWeightMove *move);

#endif

/*
 * module.h: the interface between libvae and a backend in a module, which
 * libvae opens at run time. One installation therefore serves machines with and
 * without the libraries that the module needs.
 *
 * The module uses only these functions of libvae. It therefore works with the
 * shared library and with programs that contain the engine.
 */
#ifndef VAE_MODULE_H
#define VAE_MODULE_H

#include "backend.h"
#include "vae/version.h"

/* Changes with the structs of backend.h, program.h and kernels.h. */
#define VAE_MODULE_VERSION VAE_VERSION_STRING " 20"

typedef struct VaeEngineCalls {
    const char *version;
    void *(*mem_alloc)(size_t bytes);
    void (*mem_free)(void *block);
    uint64_t (*mem_left)(int threads, bool *limited);
    VaeStatus (*weight_cache_get)(VaeWeightCache *cache,
                                  const VaeWeightRequest *request,
                                  const void **out, VaeError *error);
    bool (*weight_cache_has)(VaeWeightCache *cache, const void *key,
                             size_t key_size);
    VaeStatus (*weight_cache_offload)(VaeWeightCache *cache, const void *block,
                                      const VaeWeightMove *move,
                                      VaeCachedWeight **out, VaeError *error);
    VaeStatus (*weight_cache_reload)(VaeWeightCache *cache,
                                     VaeCachedWeight *kept,
                                     const VaeWeightMove *move,
                                     const void **out, VaeError *error);
    void (*weight_cache_release)(VaeWeightCache *cache, const void *block,
                                 VaeCachedWeight *kept,
                                 const VaeWeightMove *move);
    size_t (*weight_count)(const VaeWeight *w);
    void (*weight_read)(const VaeWeight *w, float *dst);
    bool (*weight_is_whole)(const VaeWeight *w);
    VaeStatus (*weight_read_some)(const VaeWeight *w, size_t first, size_t n,
                                  float *dst, void *room, VaeError *error);
    size_t (*frame_bytes)(const VaeTensor *t);
} VaeEngineCalls;

/* A module exports this as vae_module_open. calls stays valid. NULL: the
 * versions differ. */
typedef const VaeBackendClass *(*VaeModuleOpen)(const VaeEngineCalls *calls);

#endif

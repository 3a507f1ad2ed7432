/*
 * module_main.c: the entry point of the CUDA backend's module. It also defines
 * the engine's functions that the module calls; they forward to the engine.
 */
#include <string.h>

#include "gpu.h"
#include "module.h"

static const VaeEngineCalls *engine;

VAE_API const VaeBackendClass *vae_module_open(const VaeEngineCalls *calls);

const VaeBackendClass *
vae_module_open(const VaeEngineCalls *calls)
{
    if (strcmp(calls->version, VAE_MODULE_VERSION) != 0)
        return NULL;
    engine = calls;
    return &vae_backend_cuda;
}

void *
vae_mem_alloc(size_t bytes)
{
    return engine->mem_alloc(bytes);
}

void
vae_mem_free(void *block)
{
    engine->mem_free(block);
}

uint64_t
vae_mem_left(int threads, bool *limited)
{
    return engine->mem_left(threads, limited);
}

VaeStatus
vae_weight_cache_get(VaeWeightCache *cache, const VaeWeightRequest *request,
                     const void **out, VaeError *error)
{
    return engine->weight_cache_get(cache, request, out, error);
}

bool
vae_weight_cache_has(VaeWeightCache *cache, const void *key, size_t key_size)
{
    return engine->weight_cache_has(cache, key, key_size);
}

VaeStatus
vae_weight_cache_offload(VaeWeightCache *cache, const void *block,
                         const VaeWeightMove *move, VaeCachedWeight **out,
                         VaeError *error)
{
    return engine->weight_cache_offload(cache, block, move, out, error);
}

VaeStatus
vae_weight_cache_reload(VaeWeightCache *cache, VaeCachedWeight *kept,
                        const VaeWeightMove *move, const void **out,
                        VaeError *error)
{
    return engine->weight_cache_reload(cache, kept, move, out, error);
}

void
vae_weight_cache_release(VaeWeightCache *cache, const void *block,
                         VaeCachedWeight *kept, const VaeWeightMove *move)
{
    engine->weight_cache_release(cache, block, kept, move);
}

size_t
vae_weight_count(const VaeWeight *w)
{
    return engine->weight_count(w);
}

void
vae_weight_read(const VaeWeight *w, float *dst)
{
    engine->weight_read(w, dst);
}

bool
vae_weight_is_whole(const VaeWeight *w)
{
    return engine->weight_is_whole(w);
}

VaeStatus
vae_weight_read_some(const VaeWeight *w, size_t first, size_t n, float *dst,
                     void *room, VaeError *error)
{
    return engine->weight_read_some(w, first, n, dst, room, error);
}

size_t
vae_frame_bytes(const VaeTensor *t)
{
    return engine->frame_bytes(t);
}

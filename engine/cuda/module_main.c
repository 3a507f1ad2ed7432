/*
 * module_main.c: the entry of the CUDA backend's module, and the engine's
 * functions under their own names.
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

VaeStatus
vae_model_weight(VaeModel *model, const void *key, size_t key_size,
                 size_t bytes, VaeWeightMake make, void *user,
                 const VaeWeightMemory *memory, const void **out,
                 VaeError *error)
{
    return engine->model_weight(model, key, key_size, bytes, make, user, memory,
                                out, error);
}

bool
vae_model_has_weight(VaeModel *model, const void *key, size_t key_size)
{
    return engine->model_has_weight(model, key, key_size);
}

VaeStatus
vae_model_rest(VaeModel *model, const void *block, const VaeWeightMove *move,
               VaeKept **out, VaeError *error)
{
    return engine->model_rest(model, block, move, out, error);
}

VaeStatus
vae_model_wake(VaeModel *model, VaeKept *kept, const VaeWeightMove *move,
               const void **out, VaeError *error)
{
    return engine->model_wake(model, kept, move, out, error);
}

void
vae_model_let_go(VaeModel *model, const void *block, VaeKept *kept,
                 const VaeWeightMove *move)
{
    engine->model_let_go(model, block, kept, move);
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
vae_weight_lies(const VaeWeight *w)
{
    return engine->weight_lies(w);
}

void
vae_weight_drop(const VaeWeight *w)
{
    engine->weight_drop(w);
}

size_t
vae_frame_bytes(const VaeTensor *t)
{
    return engine->frame_bytes(t);
}

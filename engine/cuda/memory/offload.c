/*
 * offload.c: frees device memory while nothing is computed, and allocates it
 * again.
 *
 * The driver's context and the code of libraries stay on the device, because no
 * call frees them.
 */
#include "gpu.h"

VaeStatus
vae_cuda_copy(VaeBackend *cuda, void *dst, const void *src, size_t bytes,
              VaeError *error)
{
    return vae_cuda_status(cuda, vae_cuda_copy_now(cuda, dst, src, bytes),
                           "copy weights or carries", error);
}

/* Copies a weight to pageable host memory. Pinning takes longer than it saves
 * in copies, and the system cannot swap pinned memory. */
static VaeStatus
weight_out(VaeBackend *cuda, const void *block, size_t bytes, void **out,
           VaeError *error)
{
    *out = vae_mem_alloc(bytes);
    if (!*out)
        return vae_fail(error, VAE_ERR_MEMORY,
                        "out of memory of the host for weights (%zu bytes)",
                        bytes);
    const VaeStatus status = vae_cuda_copy(cuda, *out, block, bytes, error);
    if (status != VAE_OK) {
        vae_mem_free(*out);
        *out = NULL;
    }
    return status;
}

static VaeStatus
weight_back(VaeBackend *cuda, const void *host, size_t bytes, void **out,
            VaeError *error)
{
    *out = vae_cuda_suballoc(bytes, cuda);
    if (!*out && cuda->refused && !vae_rt_is_memory(cuda->refused))
        return vae_cuda_status(cuda, cuda->refused, "take weights", error);
    if (!*out)
        return vae_fail(error, VAE_ERR_MEMORY,
                        "%s has no memory left for weights (%zu bytes)",
                        cuda->device.name, bytes);
    const VaeStatus status = vae_cuda_copy(cuda, *out, host, bytes, error);
    if (status != VAE_OK) {
        vae_cuda_suballoc_free(*out, cuda->number);
        *out = NULL;
    }
    return status;
}

static VaeWeightMove
move_of(VaeBackend *cuda)
{
    return (VaeWeightMove){cuda, weight_out, weight_back, vae_mem_free};
}

/* ------------------------------------------------------------------ */

static VaeStatus
offload_one(VaeCudaExec *e, const VaeWeightMove *move, const void **block,
            VaeCachedWeight **kept, VaeError *error)
{
    if (!*block)
        return VAE_OK;
    const VaeStatus status =
        vae_weight_cache_offload(e->cache, *block, move, kept, error);
    *block = NULL;
    return status;
}

static VaeStatus
reload_one(VaeCudaExec *e, const VaeWeightMove *move, const void **block,
           VaeCachedWeight **kept, VaeError *error)
{
    if (!*kept)
        return VAE_OK;
    const VaeStatus status =
        vae_weight_cache_reload(e->cache, *kept, move, block, error);
    if (status == VAE_OK)
        *kept = NULL;
    return status;
}

VaeStatus
vae_cuda_offload(VaeBackend *cuda, VaeExec *exec, VaeError *error)
{
    VaeCudaExec *e = vae_cuda_exec(exec);
    const VaeWeightMove move = move_of(cuda);
    VaeStatus status = VAE_OK;
    for (int i = 0; i < e->exec.program->n_ops; i++) {
        VaeCudaOp *own = &e->ops[i];
        VaeExecOp *op = &e->exec.ops[i];
        VaeError *first = status == VAE_OK ? error : NULL;
        VaeStatus one =
            offload_one(e, &move, &op->weight, &own->offloaded_weight, first);
        if (status == VAE_OK)
            status = one;
        first = status == VAE_OK ? error : NULL;
        one = offload_one(e, &move, &op->bias, &own->offloaded_bias, first);
        if (status == VAE_OK)
            status = one;
    }
    vae_cuda_record_never(cuda, e);
    vae_rt_graph_free(e->graph);
    e->graph = NULL;
    vae_cuda_stage_offload(cuda);
    return status;
}

VaeStatus
vae_cuda_reload(VaeBackend *cuda, VaeExec *exec, VaeError *error)
{
    VaeCudaExec *e = vae_cuda_exec(exec);
    const VaeWeightMove move = move_of(cuda);
    VaeStatus status = VAE_OK;
    vae_cuda_weights_begin(cuda, e->cache, e->exec.program);
    for (int i = 0; i < e->exec.program->n_ops && status == VAE_OK; i++) {
        VaeCudaOp *own = &e->ops[i];
        VaeExecOp *op = &e->exec.ops[i];
        status =
            reload_one(e, &move, &op->weight, &own->offloaded_weight, error);
        if (status == VAE_OK)
            status =
                reload_one(e, &move, &op->bias, &own->offloaded_bias, error);
    }
    vae_cuda_suballoc_end(cuda);
    return status;
}

void
vae_cuda_release_weights(VaeBackend *cuda, VaeCudaExec *e)
{
    const VaeWeightMove move = move_of(cuda);
    for (int i = 0; i < e->exec.program->n_ops; i++) {
        const VaeCudaOp *own = &e->ops[i];
        const VaeExecOp *op = &e->exec.ops[i];
        vae_weight_cache_release(e->cache, op->weight, own->offloaded_weight,
                                 &move);
        vae_weight_cache_release(e->cache, op->bias, own->offloaded_bias,
                                 &move);
    }
}

/*
 * carries.c: see carries.h.
 */
#include <assert.h>
#include <string.h>

#include "alloc.h"
#include "carries.h"

static VaeStatus
copy(const VaeCarryBlock *b, void *dst, const void *src, VaeError *error)
{
    if (b->class->copy)
        return b->class->copy(b->backend, dst, src, b->set.bytes, error);
    memcpy(dst, src, b->set.bytes);
    return VAE_OK;
}

static VaeStatus
take(const VaeCarryBlock *b, uint8_t **out, VaeError *error)
{
    void *block = NULL;
    const VaeStatus status =
        b->class->alloc(b->backend, b->set.bytes, &block, error);
    *out = block;
    return status;
}

VaeStatus
vae_carries_take(VaeCarryBlock *b, bool snapshot, VaeError *error)
{
    VaeStatus status = take(b, &b->device, error);
    if (status == VAE_OK && snapshot)
        status = take(b, &b->snapshot, error);
    if (status != VAE_OK)
        vae_carries_drop(b);
    return status;
}

void
vae_carries_drop(VaeCarryBlock *b)
{
    if (!b->class)
        return;
    b->class->free(b->backend, b->device);
    b->class->free(b->backend, b->snapshot);
    b->device = b->snapshot = NULL;
}

VaeStatus
vae_carries_offload(VaeCarryBlock *b, VaeError *error)
{
    if (b->set.bytes == 0)
        return VAE_OK;
    b->host = vae_mem_alloc(b->set.bytes);
    if (!b->host)
        return vae_fail(error, VAE_ERR_MEMORY,
                        "out of memory: %.1f MiB of carries need a copy in "
                        "host memory while the device's memory is free",
                        (double) b->set.bytes / 1048576);
    const VaeStatus status = copy(b, b->host, b->device, error);
    if (status != VAE_OK) {
        vae_mem_free(b->host);
        b->host = NULL;
    }
    return status;
}

VaeStatus
vae_carries_reload(VaeCarryBlock *b, VaeError *error)
{
    const VaeStatus status =
        b->host ? copy(b, b->device, b->host, error) : VAE_OK;
    if (status != VAE_OK)
        return status;
    vae_mem_free(b->host);
    b->host = NULL;
    return VAE_OK;
}

void
vae_carries_free(VaeCarryBlock *b)
{
    vae_carries_drop(b);
    vae_mem_free(b->host);
    vae_carry_set_free(&b->set);
    *b = (VaeCarryBlock){0};
}

VaeStatus
vae_carries_read(const VaeCarryBlock *b, void *dst, VaeError *error)
{
    if (b->device)
        return copy(b, dst, b->device, error);
    assert(b->host);
    memcpy(dst, b->host, b->set.bytes);
    return VAE_OK;
}

VaeStatus
vae_carries_write(VaeCarryBlock *b, const void *src, VaeError *error)
{
    assert(b->device);
    return copy(b, b->device, src, error);
}

VaeStatus
vae_carries_save(VaeCarryBlock *b, VaeError *error)
{
    return copy(b, b->snapshot, b->device, error);
}

VaeStatus
vae_carries_restore(VaeCarryBlock *b, VaeError *error)
{
    return copy(b, b->device, b->snapshot, error);
}

VaeStatus
vae_carries_read_snapshot(const VaeCarryBlock *b, void *dst, VaeError *error)
{
    return copy(b, dst, b->snapshot, error);
}

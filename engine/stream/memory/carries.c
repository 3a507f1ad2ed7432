/*
 * carries.c: see carries.h.
 */
#include <assert.h>
#include <string.h>

#include "alloc.h"
#include "carries.h"

/* Describes one block of host memory with all carries. */
static VaeCarryBlocks
one_block(const VaeCarryStore *s, const void *memory)
{
    return (VaeCarryBlocks){.host = (uint8_t *) memory, .split = s->set.bytes};
}

static uint8_t *
address(const VaeCarryBlocks *b, size_t at)
{
    return at < b->split ? b->host + at : b->device + (at - b->split);
}

static bool
is_kept(const VaeCarryStore *s)
{
    return s->kept.host || s->kept.device;
}

/* Copies all carries, in parts that are contiguous on both sides. Skips blocks
 * that both sides share. */
static VaeStatus
copy(const VaeCarryStore *s, const VaeCarryBlocks *to,
     const VaeCarryBlocks *from, VaeError *error)
{
    VaeStatus status = VAE_OK;
    for (size_t at = 0, end; at < s->set.bytes && status == VAE_OK; at = end) {
        end = s->set.bytes;
        if (to->split > at && to->split < end)
            end = to->split;
        if (from->split > at && from->split < end)
            end = from->split;
        uint8_t *dst = address(to, at), *src = address(from, at);
        if (dst == src)
            continue;
        if (s->class->copy)
            status = s->class->copy(s->backend, dst, src, end - at, error);
        else
            memcpy(dst, src, end - at);
    }
    return status;
}

/* ------------------------------------------------------------------ */

static VaeStatus
take(const VaeCarryStore *s, VaeCarryBlocks *out, VaeError *error)
{
    void *block = NULL;
    VaeStatus status = VAE_OK;
    out->split = s->set.spilled;
    if (s->spilled && !out->host) {
        status =
            s->class->alloc(s->backend, VAE_ON_HOST, s->spilled, &block, error);
        out->host = block;
    }
    block = NULL;
    if (status == VAE_OK && s->rest)
        status =
            s->class->alloc(s->backend, VAE_ON_DEVICE, s->rest, &block, error);
    out->device = block;
    return status;
}

/* Frees the blocks, except memory of s->kept. */
static void
drop(const VaeCarryStore *s, VaeCarryBlocks *b)
{
    if (b->host != s->kept.host)
        s->class->free(s->backend, VAE_ON_HOST, b->host);
    s->class->free(s->backend, VAE_ON_DEVICE, b->device);
    *b = (VaeCarryBlocks){0};
}

VaeStatus
vae_carries_take(VaeCarryStore *s, const bool snapshots[VAE_SNAPSHOTS],
                 VaeError *error)
{
    if (s->kept.split == s->set.spilled)
        s->now.host = s->kept.host;
    VaeStatus status = take(s, &s->now, error);
    for (int i = 0; i < VAE_SNAPSHOTS && status == VAE_OK; i++)
        if (snapshots[i])
            status = take(s, &s->snapshots[i], error);
    if (status != VAE_OK)
        vae_carries_drop(s);
    return status;
}

void
vae_carries_drop(VaeCarryStore *s)
{
    if (!s->class)
        return;
    drop(s, &s->now);
    for (int i = 0; i < VAE_SNAPSHOTS; i++)
        drop(s, &s->snapshots[i]);
}

/* Frees s->kept, except memory that is in use again. */
static void
forget(VaeCarryStore *s)
{
    if (s->kept.host != s->now.host)
        s->class->free(s->backend, VAE_ON_HOST, s->kept.host);
    vae_mem_free(s->kept.device);
    s->kept = (VaeCarryBlocks){0};
}

VaeStatus
vae_carries_offload(VaeCarryStore *s, VaeError *error)
{
    const size_t rest = s->set.bytes - s->now.split;
    if (s->set.bytes == 0)
        return VAE_OK;
    s->kept = (VaeCarryBlocks){.host = s->now.host, .split = s->now.split};
    if (rest)
        s->kept.device = vae_mem_alloc(rest);
    VaeStatus status =
        rest && !s->kept.device
            ? vae_fail(error, VAE_ERR_MEMORY,
                       "out of memory: %.1f MiB of carries need a copy in host "
                       "memory while the device's memory is free",
                       (double) rest / 1048576)
            : copy(s, &s->kept, &s->now, error);
    if (status != VAE_OK)
        forget(s);
    return status;
}

VaeStatus
vae_carries_reload(VaeCarryStore *s, VaeError *error)
{
    if (!is_kept(s))
        return VAE_OK;
    const VaeStatus status = copy(s, &s->now, &s->kept, error);
    if (status == VAE_OK)
        forget(s);
    return status;
}

void
vae_carries_free(VaeCarryStore *s)
{
    vae_carries_drop(s);
    if (s->class)
        forget(s);
    vae_carry_set_free(&s->set);
    *s = (VaeCarryStore){0};
}

/* ------------------------------------------------------------------ */

VaeStatus
vae_carries_read(const VaeCarryStore *s, void *dst, VaeError *error)
{
    const VaeCarryBlocks to = one_block(s, dst);
    const VaeCarryBlocks *kept = &s->kept;
    if (!is_kept(s))
        return copy(s, &to, &s->now, error);
    /* While offloaded, both parts are in host memory. */
    if (kept->host)
        memcpy(dst, kept->host, kept->split);
    if (kept->device)
        memcpy((uint8_t *) dst + kept->split, kept->device,
               s->set.bytes - kept->split);
    return VAE_OK;
}

VaeStatus
vae_carries_write(VaeCarryStore *s, const void *src, VaeError *error)
{
    const VaeCarryBlocks from = one_block(s, src);
    assert(!is_kept(s));
    return copy(s, &s->now, &from, error);
}

VaeStatus
vae_carries_save(VaeCarryStore *s, int snapshot, VaeError *error)
{
    return copy(s, &s->snapshots[snapshot], &s->now, error);
}

VaeStatus
vae_carries_restore(VaeCarryStore *s, int snapshot, VaeError *error)
{
    return copy(s, &s->now, &s->snapshots[snapshot], error);
}

VaeStatus
vae_carries_read_snapshot(const VaeCarryStore *s, void *dst, VaeError *error)
{
    const VaeCarryBlocks to = one_block(s, dst);
    return copy(s, &to, &s->snapshots[VAE_BEFORE_RUN], error);
}

/*
 * offload.c: a stream's memory, and a device's given back for a while.
 */
#include <assert.h>
#include <string.h>

#include "stream.h"

VaeStatus
vae_stream_take_memory(VaeStream *s, VaeError *error)
{
    const struct {
        uint8_t **slot;
        uint64_t bytes;
    } blocks[] = {{&s->memory.arena, s->plan.arena},
                  {&s->memory.carries, s->plan.carries},
                  {&s->memory.scratch, s->plan.scratch},
                  {&s->memory.saved, s->plan.carries}};
    const int n = s->twin ? 4 : 3;
    const bool looks = s->params.nan_policy != VAE_NAN_PASS || s->twin_of;
    if (looks && s->class->copy && !s->seen) {
        s->seen = vae_mem_alloc(vae_stream_seen_bytes(s));
        if (!s->seen)
            return vae_fail(error, VAE_ERR_MEMORY,
                            "out of memory for results that are looked at");
    }
    for (int i = 0; i < n; i++) {
        void *block = NULL;
        const VaeStatus status = s->class->alloc(
            s->backend, (size_t) blocks[i].bytes, &block, error);
        if (status != VAE_OK)
            return status;
        *blocks[i].slot = block;
    }
    for (int i = 0; i < PROGRAMS; i++) {
        if (!s->execs[i])
            continue;
        const VaeStatus status =
            s->class->bind(s->backend, s->execs[i], &s->memory, error);
        if (status != VAE_OK)
            return status;
    }
    return VAE_OK;
}

void
vae_stream_free_memory(VaeStream *s)
{
    s->class->free(s->backend, s->memory.arena);
    s->class->free(s->backend, s->memory.carries);
    s->class->free(s->backend, s->memory.scratch);
    s->class->free(s->backend, s->memory.saved);
    s->memory = (VaeMemory){0};
}

/* ------------------------------------------------------------------ */

VaeStatus
vae_stream_copy(VaeStream *s, void *dst, const void *src, VaeError *error)
{
    const size_t bytes = (size_t) s->plan.carries;
    if (s->class->copy)
        return s->class->copy(s->backend, dst, src, bytes, error);
    memcpy(dst, src, bytes);
    return VAE_OK;
}

VaeStatus
vae_stream_get_carries(VaeStream *s, void *dst, VaeError *error)
{
    if (!s->released)
        return vae_stream_copy(s, dst, s->memory.carries, error);
    assert(s->kept);
    memcpy(dst, s->kept, (size_t) s->plan.carries);
    return VAE_OK;
}

VaeStatus
vae_stream_set_carries(VaeStream *s, const void *src, VaeError *error)
{
    assert(!s->released);
    return vae_stream_copy(s, s->memory.carries, src, error);
}

/* The carries of a sequence that goes on, into the host's memory. */
static VaeStatus
keep_carries(VaeStream *s, VaeError *error)
{
    const size_t bytes = (size_t) s->plan.carries;
    if (s->at_start || s->broken || bytes == 0)
        return VAE_OK;
    s->kept = vae_mem_alloc(bytes);
    if (!s->kept)
        return vae_fail(error, VAE_ERR_MEMORY,
                        "out of memory: %.1f MiB of carries are to be kept "
                        "while the device's memory is given back",
                        (double) bytes / 1048576);
    const VaeStatus status = vae_stream_get_carries(s, s->kept, error);
    if (status != VAE_OK) {
        vae_mem_free(s->kept);
        s->kept = NULL;
    }
    return status;
}

/* Returns the first error. */
static VaeStatus
give_back(VaeStream *s, VaeError *error)
{
    VaeStatus status = VAE_OK;
    for (int i = 0; i < PROGRAMS; i++) {
        if (!s->execs[i])
            continue;
        const VaeStatus one = s->class->rest(s->backend, s->execs[i],
                                             status == VAE_OK ? error : NULL);
        status = status == VAE_OK ? one : status;
    }
    vae_stream_free_memory(s);
    return status;
}

VaeStatus
vae_stream_release(VaeStream *s, VaeError *error)
{
    VaeStatus status = vae_stream_wait(s, 0, error);
    if (status == VAE_OK && s->twin)
        status = vae_stream_release(s->twin, error);
    if (status != VAE_OK || s->released || !s->class->rest)
        return status;
    status = keep_carries(s, error);
    if (status != VAE_OK)
        return status;
    s->released = true;
    return give_back(s, error);
}

VaeStatus
vae_stream_resume(VaeStream *s, VaeError *error)
{
    VaeError why = {0};
    VaeStatus status = VAE_OK;
    if (!s->released)
        return VAE_OK;
    for (int i = 0; i < PROGRAMS && status == VAE_OK; i++)
        if (s->execs[i])
            status = s->class->wake(s->backend, s->execs[i], &why);
    if (status == VAE_OK)
        status = vae_stream_take_memory(s, &why);
    if (status == VAE_OK && s->kept)
        status = vae_stream_copy(s, s->memory.carries, s->kept, &why);
    if (status != VAE_OK) {
        give_back(s, NULL);
        return vae_fail(error, status,
                        "the device's memory (%.1f MiB) was given back and "
                        "cannot be taken again: %s",
                        (double) s->plan.total / 1048576, why.message);
    }
    vae_mem_free(s->kept);
    s->kept = NULL;
    s->released = false;
    return VAE_OK;
}

bool
vae_stream_is_released(const VaeStream *stream)
{
    return stream->released;
}

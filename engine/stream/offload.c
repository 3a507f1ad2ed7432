/*
 * offload.c: takes a stream's memory, and frees a device's for a while.
 */
#include <assert.h>

#include "alloc.h"
#include "stream.h"

static VaeStatus
take_block(VaeStream *s, uint64_t bytes, uint8_t **out, VaeError *error)
{
    void *block = NULL;
    const VaeStatus status = s->class->alloc(s->backend, VAE_ON_DEVICE,
                                             (size_t) bytes, &block, error);
    *out = block;
    return status;
}

VaeStatus
vae_stream_take_memory(VaeStream *s, VaeError *error)
{
    const bool looks = s->params.nan_policy != VAE_NAN_PASS || s->fallback_of;
    if (looks && s->class->copy && !s->result) {
        s->result = vae_mem_alloc(vae_stream_result_bytes(s));
        if (!s->result)
            return vae_fail(error, VAE_ERR_MEMORY,
                            "out of memory for a copy of the results");
    }
    s->carries.class = s->class;
    s->carries.backend = s->backend;
    VaeStatus status = take_block(s, s->plan.arena, &s->memory.arena, error);
    if (status == VAE_OK)
        status = vae_carries_take(&s->carries, s->fallback != NULL, error);
    s->memory.carries = s->carries.now.device;
    s->memory.spilled = s->carries.now.host;
    if (status == VAE_OK)
        status = take_block(s, s->plan.scratch, &s->memory.scratch, error);
    for (int i = 0; i < PROGRAMS && status == VAE_OK; i++)
        if (s->execs[i])
            status = s->class->bind(s->backend, s->execs[i], &s->memory, error);
    return status;
}

void
vae_stream_free_memory(VaeStream *s)
{
    s->class->free(s->backend, VAE_ON_DEVICE, s->memory.arena);
    vae_carries_drop(&s->carries);
    s->class->free(s->backend, VAE_ON_DEVICE, s->memory.scratch);
    s->memory = (VaeMemory){0};
}

/* ------------------------------------------------------------------ */

/* Returns the first error. */
static VaeStatus
offload_all(VaeStream *s, VaeError *error)
{
    VaeStatus status = VAE_OK;
    for (int i = 0; i < PROGRAMS; i++) {
        if (!s->execs[i])
            continue;
        const VaeStatus one = s->class->offload(
            s->backend, s->execs[i], status == VAE_OK ? error : NULL);
        status = status == VAE_OK ? one : status;
    }
    vae_stream_free_memory(s);
    return status;
}

VaeStatus
vae_stream_release(VaeStream *s, VaeError *error)
{
    VaeStatus status = vae_stream_wait(s, 0, error);
    if (status == VAE_OK && s->fallback)
        status = vae_stream_release(s->fallback, error);
    if (status != VAE_OK || s->released || !s->class->offload)
        return status;
    /* A new or broken sequence carries nothing. */
    if (!s->at_start && !s->broken)
        status = vae_carries_offload(&s->carries, error);
    if (status != VAE_OK)
        return status;
    s->released = true;
    return offload_all(s, error);
}

/* Allocates the memory again and copies weights and carries back. On an error
 * all is offloaded. */
static VaeStatus
take_again(VaeStream *s, VaeError *error)
{
    VaeStatus status;
    if (!s->programs[FIRST]) { /* a smaller slice size than before */
        status = vae_stream_take(s, error);
        if (status != VAE_OK)
            return status;
    } else {
        status = vae_stream_take_memory(s, error);
    }
    if (status == VAE_OK)
        status = vae_carries_reload(&s->carries, error);
    if (status != VAE_OK)
        offload_all(s, NULL);
    return status;
}

VaeStatus
vae_stream_resume(VaeStream *s, VaeError *error)
{
    VaeError why = {0};
    VaeStatus status;
    if (!s->released)
        return VAE_OK;
    do
        status = take_again(s, &why);
    while (status == VAE_ERR_MEMORY && vae_stream_step_down(s, &why));
    if (status != VAE_OK)
        return vae_fail(error, status,
                        "the device's memory (%.1f MiB) was freed and cannot "
                        "be taken again: %s",
                        (double) s->plan.total / 1048576, why.message);
    s->released = false;
    return VAE_OK;
}

bool
vae_stream_is_released(const VaeStream *stream)
{
    return stream->released;
}

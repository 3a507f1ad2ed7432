/*
 * device.c: errors and memory of a device.
 */
#include <string.h>

#include "gpu.h"

pthread_mutex_t vae_cuda_recording = PTHREAD_MUTEX_INITIALIZER;

VaeStatus
vae_cuda_status(const VaeBackend *cuda, int code, const char *doing,
                VaeError *error)
{
    if (!code)
        return VAE_OK;
    return vae_fail(
        error, vae_rt_is_memory(code) ? VAE_ERR_MEMORY : VAE_ERR_BACKEND,
        "%s cannot %s: %s", cuda->device.name, doing, vae_rt_words(code));
}

/* ------------------------------------------------------------------ */
/* Memory.                                                             */

int
vae_cuda_copy_now(const VaeBackend *cuda, void *dst, const void *src,
                  size_t bytes)
{
    int code = vae_rt_copy(dst, src, bytes, cuda->compute);
    if (!code)
        code = vae_rt_stream_sync(cuda->compute);
    if (code) /* a second wait may succeed */
        vae_rt_stream_sync(cuda->compute);
    return code;
}

/* Memory that the driver still takes for kernels at their first run, and cuDNN
 * for layers that were not timed. */
#define BESIDE ((uint64_t) 128 << 20)

VaeStatus
vae_cuda_memory_left(VaeBackend *cuda, uint64_t *bytes, VaeError *error)
{
    const int code = vae_rt_memory_left(bytes);
    const uint64_t beside = BESIDE + vae_cuda_code_to_come(cuda);
    *bytes = *bytes > beside ? *bytes - beside : 0;
    return vae_cuda_status(cuda, code, "tell its free memory", error);
}

VaeStatus
vae_cuda_alloc(VaeBackend *cuda, VaePlace place, size_t bytes, void **out,
               VaeError *error)
{
    const size_t least = bytes ? bytes : 1;
    const bool host = place == VAE_ON_HOST;
    *out = NULL;
    if (host) {
        const VaeStatus status = vae_cuda_map_pinned(cuda, least, out, error);
        if (*out || status != VAE_OK)
            return status;
    }
    int code = host ? vae_rt_alloc_host(out, least) : vae_rt_alloc(out, least);
    if (vae_rt_is_memory(code))
        return vae_fail(error, VAE_ERR_MEMORY,
                        "%s has no %.1f MiB left in one block",
                        host ? "the host's pinned memory" : cuda->device.name,
                        (double) bytes / 1048576);
    if (!code && host)
        memset(*out, 0, least);
    else if (!code)
        code = vae_rt_zero(*out, least, cuda->compute);
    if (!code)
        code = vae_rt_stream_sync(cuda->compute);
    if (code) {
        vae_cuda_free(place, *out);
        *out = NULL;
    }
    return vae_cuda_status(cuda, code, "allocate memory", error);
}

void
vae_cuda_free(VaePlace place, void *block)
{
    if (place != VAE_ON_HOST)
        vae_rt_free(block);
    else if (!vae_cuda_unmap_pinned(block))
        vae_rt_free_host(block);
}

/*
 * cuda.c: runs programs on an NVIDIA GPU: the device and its memory.
 */
#include <stdio.h>
#include <string.h>

#include "gpu.h"
#include "selftest.h"

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
/* The device.                                                         */

VaeStatus
vae_cuda_find(VaeBackend *cuda, VaeError *error)
{
    int n = 0;
    const int wanted = cuda->params.device;
    snprintf(cuda->device.name, sizeof cuda->device.name, "the CUDA run time");
    const int code = vae_rt_devices(&n);
    if (code)
        return vae_cuda_status(cuda, code, "list the devices", error);
    if (wanted >= n)
        return vae_fail(error, VAE_ERR_UNSUPPORTED,
                        "there is no CUDA device %d, only 0 to %d", wanted,
                        n - 1);
    cuda->number = wanted < 0 ? 0 : wanted;
    return VAE_OK;
}

static VaeStatus
describe_device(VaeBackend *cuda, VaeError *error)
{
    VaeRtDevice device;
    const int code = vae_rt_device(cuda->number, &device);
    if (code)
        return vae_cuda_status(cuda, code, "open the device", error);
    cuda->device = device;
    return VAE_OK;
}

/* bf16 and TF32 need Ampere (8.0); matrix units for fp16 need Turing (7.5). */
static VaeStatus
check_device(const VaeBackend *cuda, VaeError *error)
{
    const VaePrecision p = cuda->params.precision;
    const int has = cuda->device.capability;
    if (has < 75)
        return vae_fail(error, VAE_ERR_UNSUPPORTED,
                        "%s has compute capability %d.%d; 7.5 or later is "
                        "wanted",
                        cuda->device.name, has / 10, has % 10);
    if (has < 80 && (p == VAE_PRECISION_BF16 || p == VAE_PRECISION_TF32))
        return vae_fail(error, VAE_ERR_UNSUPPORTED,
                        "%s (compute capability %d.%d) does not compute in "
                        "%s; use fp16 or fp32",
                        cuda->device.name, has / 10, has % 10,
                        vae_precision_name(p));
    return VAE_OK;
}

void
vae_cuda_close(VaeBackend *cuda)
{
    vae_cuda_stage_free(cuda);
    vae_cuda_shared_drop(cuda); /* before its stream is freed */
    vae_rt_stream_free(cuda->up);
    vae_rt_stream_free(cuda->compute);
    vae_rt_stream_free(cuda->down);
    vae_rt_stream_free(cuda->fetching);
    vae_rt_stream_free(cuda->storing);
    vae_mem_free(cuda->layers);
    vae_cuda_store_close(&cuda->store);
}

static VaeStatus
open_streams(VaeBackend *cuda, VaeError *error)
{
    int code = vae_rt_stream_new(&cuda->up);
    if (!code)
        code = vae_rt_stream_new(&cuda->compute);
    if (!code)
        code = vae_rt_stream_new(&cuda->down);
    return vae_cuda_status(cuda, code, "make streams", error);
}

VaeStatus
vae_cuda_open(VaeBackend *cuda, VaeError *error)
{
    VaeStatus status = describe_device(cuda, error);
    if (status == VAE_OK)
        status = check_device(cuda, error);
    if (status == VAE_OK)
        status = open_streams(cuda, error);
    if (status == VAE_OK)
        status = vae_cuda_shared_take(cuda, error);
    if (status == VAE_OK)
        status = vae_cuda_selftest(cuda, error);
    return status;
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
    if (code)
        vae_rt_stream_sync(cuda->compute); /* may be able to, after all */
    return code;
}

/* Memory that the driver, and cuDNN for layers that were not timed, will still
 * take for kernels at their first run. */
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
    int code = host ? vae_rt_alloc_host(out, least) : vae_rt_alloc(out, least);
    if (vae_rt_is_memory(code))
        return vae_fail(error, VAE_ERR_MEMORY,
                        "%s has no %.1f MiB left in one piece",
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
    return vae_cuda_status(cuda, code, "take memory", error);
}

void
vae_cuda_free(VaePlace place, void *block)
{
    if (place == VAE_ON_HOST)
        vae_rt_free_host(block);
    else
        vae_rt_free(block);
}

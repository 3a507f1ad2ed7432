/*
 * cuda.c: runs programs on an NVIDIA GPU: the class, the device and its memory.
 */
#include <stdio.h>

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
/* Capabilities of the machine.                                        */

static bool
cuda_available(char *why, size_t size)
{
    int n = 0;
    VaeError error;
    const int code = vae_rt_devices(&n);
    if (code)
        snprintf(why, size, "%s", vae_rt_words(code));
    else if (vae_cuda_convs_check(&error) != VAE_OK)
        snprintf(why, size, "%s", error.message);
    else
        return true;
    return false;
}

/* open() checks the device itself. */
static bool
cuda_precision(VaePrecision wanted, VaePrecision *out, char *why, size_t size)
{
    *out = wanted == VAE_PRECISION_AUTO ? VAE_PRECISION_BF16 : wanted;
    return true;
}

static VaeType
cuda_type(VaePrecision precision)
{
    return precision == VAE_PRECISION_BF16   ? VAE_TYPE_BF16
           : precision == VAE_PRECISION_FP16 ? VAE_TYPE_F16
                                             : VAE_TYPE_F32;
}

/* ------------------------------------------------------------------ */
/* The device.                                                         */

static VaeStatus
find_device(VaeBackend *cuda, VaeError *error)
{
    int n = 0;
    const int wanted = cuda->params.device;
    snprintf(cuda->device.name, sizeof cuda->device.name, "the CUDA run time");
    int code = vae_rt_devices(&n);
    if (code)
        return vae_cuda_status(cuda, code, "list the devices", error);
    if (wanted >= n)
        return vae_fail(error, VAE_ERR_UNSUPPORTED,
                        "there is no CUDA device %d, only 0 to %d", wanted,
                        n - 1);
    cuda->number = wanted < 0 ? 0 : wanted;
    code = vae_rt_use(cuda->number);
    VaeRtDevice device;
    if (!code)
        code = vae_rt_device(cuda->number, &device);
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

static VaeStatus
open_convs(VaeBackend *cuda, VaeError *error)
{
    pthread_mutex_lock(&vae_cuda_recording);
    const VaeStatus status = vae_cuda_convs_new(NULL, &cuda->convs, error);
    pthread_mutex_unlock(&vae_cuda_recording);
    return status;
}

static void
close_convs(VaeBackend *cuda)
{
    pthread_mutex_lock(&vae_cuda_recording);
    vae_cuda_convs_free(&cuda->convs);
    pthread_mutex_unlock(&vae_cuda_recording);
}

static void
cuda_close(VaeBackend **backend)
{
    VaeBackend *cuda = *backend;
    *backend = NULL;
    if (!cuda)
        return;
    vae_rt_use(cuda->number);
    vae_cuda_stage_free(cuda);
    close_convs(cuda); /* before its stream is freed */
    vae_rt_stream_free(cuda->up);
    vae_rt_stream_free(cuda->compute);
    vae_rt_stream_free(cuda->down);
    vae_mem_free(cuda->layers);
    vae_cuda_store_close(&cuda->store);
    vae_mem_free(cuda);
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

static VaeStatus
cuda_open(const VaeBackendParams *params, VaeBackend **out, VaeError *error)
{
    VaeBackend *cuda = vae_mem_alloc(sizeof *cuda);
    *out = NULL;
    if (!cuda)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    cuda->params = *params;
    VaeStatus status = find_device(cuda, error);
    if (status == VAE_OK)
        status = check_device(cuda, error);
    if (status == VAE_OK)
        status = open_streams(cuda, error);
    if (status == VAE_OK)
        status = open_convs(cuda, error);
    if (status == VAE_OK)
        status = vae_cuda_selftest(cuda, error);
    if (status != VAE_OK)
        cuda_close(&cuda);
    *out = cuda;
    return status;
}

/* ------------------------------------------------------------------ */
/* Memory.                                                             */

/* Memory that the driver and cuDNN will still take for kernels at their first
 * run. */
#define BESIDE ((uint64_t) 128 << 20)

static VaeStatus
cuda_memory_left(VaeBackend *cuda, uint64_t *bytes, VaeError *error)
{
    int code = vae_rt_use(cuda->number);
    if (!code)
        code = vae_rt_memory_left(bytes);
    *bytes = *bytes > BESIDE ? *bytes - BESIDE : 0;
    return vae_cuda_status(cuda, code, "tell its free memory", error);
}

static VaeStatus
cuda_alloc(VaeBackend *cuda, size_t bytes, void **out, VaeError *error)
{
    *out = NULL;
    int code = vae_rt_use(cuda->number);
    if (!code)
        code = vae_rt_alloc(out, bytes ? bytes : 1);
    if (vae_rt_is_memory(code))
        return vae_fail(error, VAE_ERR_MEMORY,
                        "%s has no %.1f MiB left in one piece",
                        cuda->device.name, (double) bytes / 1048576);
    if (!code)
        code = vae_rt_zero(*out, bytes ? bytes : 1, cuda->compute);
    if (!code)
        code = vae_rt_stream_sync(cuda->compute);
    if (code) {
        vae_rt_free(*out);
        *out = NULL;
    }
    return vae_cuda_status(cuda, code, "take memory", error);
}

static void
cuda_free(VaeBackend *cuda, void *block)
{
    vae_rt_use(cuda->number);
    vae_rt_free(block);
}

/* ------------------------------------------------------------------ */

static void
cuda_device(const VaeBackend *cuda, char *out, size_t size)
{
    snprintf(out, size, "%s", cuda->device.name);
}

const VaeBackendClass vae_backend_cuda = {
    .name = "cuda",
    .kind = VAE_BACKEND_CUDA,
    .available = cuda_available,
    .precision = cuda_precision,
    .encode_precision = VAE_PRECISION_TF32,
    .act_type = cuda_type,
    .sum_type = cuda_type,
    .fusions = {.upsample = true, .norm_carry = true},
    .open = cuda_open,
    .close = cuda_close,
    .memory_left = cuda_memory_left,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .prepare = vae_cuda_prepare,
    .exec_free = vae_cuda_exec_free,
    .bind = vae_cuda_bind,
    .run = vae_cuda_run,
    .finish = vae_cuda_stage_finish,
    .device = cuda_device,
    .rates = vae_cuda_rates,
    .profile = vae_cuda_profile,
    .offload = vae_cuda_offload,
    .reload = vae_cuda_reload,
    .copy = vae_cuda_copy,
};

/*
 * cuda.c: finds, checks, opens and closes an NVIDIA GPU.
 */
#include <stdio.h>

#include "gpu.h"
#include "selftest.h"

VaeStatus
vae_cuda_find(VaeBackend *cuda, VaeError *error)
{
    int n = 0;
    const int requested = cuda->params.device;
    snprintf(cuda->device.name, sizeof cuda->device.name, "the CUDA run time");
    const int code = vae_rt_devices(&n);
    if (code)
        return vae_cuda_status(cuda, code, "list the devices", error);
    if (requested >= n)
        return vae_fail(error, VAE_ERR_UNSUPPORTED,
                        "there is no CUDA device %d, only 0 to %d", requested,
                        n - 1);
    cuda->number = requested < 0 ? 0 : requested;
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
                        "%s has compute capability %d.%d; expected 7.5 or "
                        "later",
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
    vae_cuda_free_history(cuda);
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
    VaeOpening *opening = cuda->params.opening;
    VaeStatus status = describe_device(cuda, error);
    if (status == VAE_OK)
        status = check_device(cuda, error);
    if (status == VAE_OK)
        status = open_streams(cuda, error);
    VaeOpeningMark begin = vae_opening_begin(opening);
    if (status == VAE_OK)
        status = vae_cuda_shared_take(cuda, error);
    vae_opening_end(opening, VAE_OPENING_LIBRARY, begin);
    begin = vae_opening_begin(opening);
    if (status == VAE_OK)
        status = vae_cuda_selftest(cuda, error);
    vae_opening_end(opening, VAE_OPENING_TEST, begin);
    return status;
}

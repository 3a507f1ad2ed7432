/*
 * class.c: the class of the CUDA backend. Each of its functions selects the
 * device, and at the end restores the context and the capture mode of the
 * calling thread, which may belong to the application.
 */
#include <stdio.h>

#include "gpu.h"

/* ------------------------------------------------------------------ */
/* Capabilities of the machine.                                        */

/* open() checks the device itself. */
static bool
cuda_usable(VaePrecision requested, VaePrecision *out, char *why, size_t size)
{
    int n = 0;
    VaeError error;
    *out = requested == VAE_PRECISION_AUTO ? VAE_PRECISION_BF16 : requested;
    const int code = vae_rt_devices(&n);
    if (code)
        snprintf(why, size, "%s", vae_rt_words(code));
    else if (vae_cuda_convs_check(&error) != VAE_OK)
        snprintf(why, size, "%s", error.message);
    else
        return true;
    return false;
}

/* ------------------------------------------------------------------ */
/* Entering and leaving the backend.                                   */

static VaeStatus
enter(const VaeBackend *cuda, VaeRtCaller *caller, VaeError *error)
{
    const int code = vae_rt_enter(cuda->number, caller);
    if (code)
        vae_rt_leave(caller);
    return vae_cuda_status(cuda, code, "be used", error);
}

/* For work that must be done even if the device cannot be selected. */
static void
enter_anyway(const VaeBackend *cuda, VaeRtCaller *caller)
{
    vae_rt_enter(cuda->number, caller);
}

/* If the device has failed, a library or an allocation may report "out of
 * memory". This returns the device's own error instead. */
static VaeStatus
leave(const VaeBackend *cuda, const VaeRtCaller *caller, VaeStatus status,
      VaeError *error)
{
    uint64_t ignored;
    const int code =
        status == VAE_ERR_MEMORY ? vae_rt_memory_left(&ignored) : 0;
    if (code && !vae_rt_is_memory(code))
        status = vae_cuda_status(cuda, code, "be used", error);
    vae_rt_leave(caller);
    return status;
}

/* Makes the call with the device selected, and returns its status. */
#define RETURN_WITHIN(cuda, error, call)                                       \
    do {                                                                       \
        VaeRtCaller caller;                                                    \
        const VaeStatus entered = enter(cuda, &caller, error);                 \
        return entered == VAE_OK ? leave(cuda, &caller, call, error)           \
                                 : entered;                                    \
    } while (0)

static void
cuda_close(VaeBackend **backend)
{
    VaeRtCaller caller;
    VaeBackend *cuda = *backend;
    *backend = NULL;
    if (!cuda)
        return;
    enter_anyway(cuda, &caller);
    vae_cuda_close(cuda);
    vae_rt_leave(&caller);
    vae_mem_free(cuda);
}

static VaeStatus
cuda_open(const VaeBackendParams *params, VaeBackend **out, VaeDevice *device,
          VaeError *error)
{
    VaeRtCaller caller;
    VaeBackend *cuda = vae_mem_alloc(sizeof *cuda);
    *out = NULL;
    if (!cuda)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    cuda->params = *params;
    VaeStatus status = vae_cuda_find(cuda, error);
    if (status == VAE_OK)
        status = enter(cuda, &caller, error);
    if (status != VAE_OK) {
        vae_mem_free(cuda);
        return status;
    }
    status = leave(cuda, &caller, vae_cuda_open(cuda, error), error);
    snprintf(device->name, sizeof device->name, "%s", cuda->device.name);
    device->threads = params->threads;
    if (status != VAE_OK)
        cuda_close(&cuda);
    *out = cuda;
    return status;
}

static VaeStatus
cuda_memory_left(VaeBackend *cuda, uint64_t *bytes, VaeError *error)
{
    RETURN_WITHIN(cuda, error, vae_cuda_memory_left(cuda, bytes, error));
}

static VaeStatus
cuda_alloc(VaeBackend *cuda, VaePlace place, size_t bytes, void **out,
           VaeError *error)
{
    *out = NULL;
    RETURN_WITHIN(cuda, error, vae_cuda_alloc(cuda, place, bytes, out, error));
}

static void
cuda_free(VaeBackend *cuda, VaePlace place, void *block)
{
    VaeRtCaller caller;
    enter_anyway(cuda, &caller);
    vae_cuda_free(place, block);
    vae_rt_leave(&caller);
}

static VaeStatus
cuda_prepare(VaeBackend *cuda, VaeWeightCache *cache, const VaeProgram *program,
             VaeExec **out, VaeError *error)
{
    if (!out)
        RETURN_WITHIN(cuda, error, (vae_cuda_tune(cuda, program), VAE_OK));
    *out = NULL;
    RETURN_WITHIN(cuda, error,
                  vae_cuda_prepare(cuda, cache, program, out, error));
}

static void
cuda_exec_free(VaeBackend *cuda, VaeExec **exec)
{
    VaeRtCaller caller;
    enter_anyway(cuda, &caller);
    vae_cuda_exec_free(cuda, exec);
    vae_rt_leave(&caller);
}

static VaeStatus
cuda_bind(VaeBackend *cuda, VaeExec *exec, const VaeMemory *memory,
          VaeError *error)
{
    if (!memory) {
        VaeRtCaller caller;
        enter_anyway(cuda, &caller);
        return leave(cuda, &caller, vae_cuda_offload(cuda, exec, error), error);
    }
    RETURN_WITHIN(cuda, error, vae_cuda_bind(cuda, exec, memory, error));
}

static VaeStatus
cuda_run(VaeBackend *cuda, VaeExec *exec, const VaeRun *run, VaeError *error)
{
    RETURN_WITHIN(cuda, error, vae_cuda_run(cuda, exec, run, error));
}

static VaeStatus
cuda_finish(VaeBackend *cuda, int left, VaeFinish how, VaeError *error)
{
    VaeRtCaller caller;
    enter_anyway(cuda, &caller);
    return leave(cuda, &caller, vae_cuda_stage_finish(cuda, left, how, error),
                 error);
}

static void
cuda_unpin(VaePin *pin)
{
    VaeRtCaller caller;
    vae_rt_enter(pin->device, &caller);
    vae_rt_unpin(pin->data);
    vae_rt_leave(&caller);
}

static bool
cuda_pin(VaeBackend *cuda, VaePin *pin)
{
    VaeRtCaller caller;
    VaeError ignored;
    if (enter(cuda, &caller, &ignored) != VAE_OK)
        return false;
    const int code = vae_rt_pin(pin->data, pin->bytes);
    vae_rt_leave(&caller);
    pin->device = cuda->number;
    pin->unpin = cuda_unpin;
    return code == 0;
}

static VaeStatus
cuda_copy(VaeBackend *cuda, void *dst, const void *src, size_t bytes,
          VaeError *error)
{
    RETURN_WITHIN(cuda, error, vae_cuda_copy(cuda, dst, src, bytes, error));
}

const VaeBackendClass vae_backend_cuda = {
    .name = "cuda",
    .kind = VAE_BACKEND_CUDA,
    .usable = cuda_usable,
    .encode_precision = VAE_PRECISION_TF32,
    .narrow_sums = true,
    .fusions = {.upsample = true,
                .norm_carry = true,
                .reads_carry = vae_cuda_reads_carry,
                .norms = vae_cuda_norms,
                .heads = vae_cuda_heads},
    .by_timing = true,
    .pictures_on_device = true,
    .open = cuda_open,
    .close = cuda_close,
    .memory_left = cuda_memory_left,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .prepare = cuda_prepare,
    .exec_free = cuda_exec_free,
    .bind = cuda_bind,
    .run = cuda_run,
    .finish = cuda_finish,
    .pin = cuda_pin,
    .copy = cuda_copy,
};

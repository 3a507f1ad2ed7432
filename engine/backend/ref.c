/*
 * ref.c: the reference backend: every op by the plain-C kernels, in fp32, on
 * one thread. Every build has it.
 */
#include <stdio.h>

#include "alloc.h"
#include "host.h"

struct VaeBackend {
    VaeBackendParams params;
};

static bool
ref_usable(VaePrecision requested, VaePrecision *out, char *why, size_t size)
{
    *out = VAE_PRECISION_FP32;
    if (requested == VAE_PRECISION_AUTO || requested == VAE_PRECISION_FP32)
        return true;
    snprintf(why, size, "it computes in fp32 only, not in %s",
             vae_precision_name(requested));
    return false;
}

static VaeStatus
ref_open(const VaeBackendParams *params, VaeBackend **out, VaeDevice *device,
         VaeError *error)
{
    vae_host_describe(device, 1);
    *out = vae_mem_alloc(sizeof **out);
    if (!*out)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    (*out)->params = *params;
    (*out)->params.threads = 1;
    return VAE_OK;
}

static void
ref_close(VaeBackend **backend)
{
    vae_mem_free(*backend);
    *backend = NULL;
}

static VaeStatus
ref_prepare(VaeBackend *backend, VaeWeightCache *cache,
            const VaeProgram *program, VaeExec **out, VaeError *error)
{
    return vae_host_prepare(program, cache, &vae_kernels_ref, &backend->params,
                            out, error);
}

static void
ref_exec_free(VaeBackend *backend, VaeExec **exec)
{
    vae_exec_free(exec);
}

static VaeStatus
ref_run(VaeBackend *backend, VaeExec *exec, const VaeRun *run, VaeError *error)
{
    return vae_host_run(exec, run, error);
}

const VaeBackendClass vae_backend_ref = {.name = "ref",
                                         .kind = VAE_BACKEND_REF,
                                         .usable = ref_usable,
                                         .encode_precision = VAE_PRECISION_FP32,
                                         .leaves_out = true,
                                         .open = ref_open,
                                         .close = ref_close,
                                         .alloc = vae_host_alloc,
                                         .free = vae_host_free,
                                         .prepare = ref_prepare,
                                         .exec_free = ref_exec_free,
                                         .bind = vae_host_bind,
                                         .run = ref_run};

/*
 * class.c: the CUDA backend linked in, in place of its module.
 */
#include "gpu.h"

const VaeBackendClass *
vae_backend_cuda_class(char *why, size_t size)
{
    return &vae_backend_cuda;
}

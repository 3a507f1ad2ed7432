/*
 * emu_class.c: defines the CUDA backend on the emulated device, in place of the
 * module.
 */
#include "gpu.h"

const VaeBackendClass *
vae_backend_cuda_class(char *why, size_t size)
{
    return &vae_backend_cuda;
}

/*
 * emu_class.c: the CUDA backend over the emulation, in place of the module.
 */
#include "gpu.h"

const VaeBackendClass *
vae_backend_cuda_class(char *why, size_t size)
{
    return &vae_backend_cuda;
}

/*
 * selftest.h: does the device compute right? Versions of the convolution
 * library are known that did not, and kernels may have been made for other
 * devices.
 */
#ifndef VAE_CUDA_SELFTEST_H
#define VAE_CUDA_SELFTEST_H

#include "gpu.h"

/* A large and a small convolution, and each norm, in the backend's precision
 * against numbers computed here. Once per process, device and precision; later
 * calls return at once. Takes some MiB of the device while it lasts.
 * Errors: VAE_ERR_BACKEND (with the numbers), VAE_ERR_MEMORY. */
VaeStatus vae_cuda_selftest(VaeBackend *cuda, VaeError *error);

#endif

/*
 * selftest.h: checks that the device computes correctly. Some versions of the
 * convolution library did not, and the build may lack kernels for the device.
 */
#ifndef VAE_CUDA_SELFTEST_H
#define VAE_CUDA_SELFTEST_H

#include "gpu.h"

/* Compares convolutions, also those by own kernels, each norm, and attentions
 * of several widths, in the backend's precision, with results computed on the
 * CPU. Runs once per process, device and precision; later calls return at once.
 * Uses some MiB of device memory meanwhile. Errors: VAE_ERR_BACKEND (with the
 * values), VAE_ERR_MEMORY.
 */
VaeStatus vae_cuda_selftest(VaeBackend *cuda, VaeError *error);

#endif

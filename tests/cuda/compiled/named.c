/*
 * named.c: starts kernels by their names, as the module for Windows does. The
 * run time is a fake: it must get the file of the kernels, the name of each
 * kernel as nvcc wrote it, and the arguments.
 */
#include <stdio.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "cuda.h"

static int loads, gets, attributes, launches, failed;
static const void *file;
static VaeLatentInArgs args;

static void
check(bool good, const char *what)
{
    printf("%s %s\n", good ? "ok  " : "FAIL", what);
    failed += !good;
}

cudaError_t
cudaLibraryLoadData(cudaLibrary_t *library, const void *code,
                    enum cudaJitOption *options, void **values, unsigned n,
                    enum cudaLibraryOption *others, void **other_values,
                    unsigned n_others)
{
    const uint32_t fatbin = 0xba55ed50;
    check(memcmp(code, &fatbin, sizeof fatbin) == 0, "a file of kernels");
    file = code;
    *library = (cudaLibrary_t) &file;
    loads++;
    return cudaSuccess;
}

cudaError_t
cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library,
                     const char *name)
{
    check(library == (cudaLibrary_t) &file, "the library");
    *kernel = (cudaKernel_t) name;
    gets++;
    return cudaSuccess;
}

cudaError_t
cudaFuncGetAttributes(struct cudaFuncAttributes *out, const void *kernel)
{
    check(strcmp(kernel, "_Z9latent_in15VaeLatentInArgs") == 0, "the name");
    attributes++;
    return cudaSuccess;
}

cudaError_t
cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **list,
                 size_t shared, cudaStream_t stream)
{
    check(strcmp(kernel, "_Z9latent_in15VaeLatentInArgs") == 0, "the name");
    check(grid.x == 2 && grid.y == 1 && block.x == 256, "grid and block");
    const VaeLatentInArgs *got = list[0];
    check(got->h == args.h && got->w == args.w && got->c == args.c,
          "the arguments");
    check(stream == (cudaStream_t) &launches, "the stream");
    launches++;
    return cudaSuccess;
}

int
main(void)
{
    VaeQueue queue = {.stream = VAE_ONLY_LOAD};
    args.h = 8;
    args.w = 16;
    args.c = 4;
    vae_cuda_latent_in(&queue, &args);
    queue.stream = &launches;
    vae_cuda_latent_in(&queue, &args);
    check(loads == 1 && gets == 1, "file and kernel are loaded once");
    check(attributes == 1 && launches == 1, "one load, one launch");
    return failed != 0;
}

/*
 * library.h: the library of convolutions: cuDNN, or the emulation of the tests.
 * Its functions are those of convs.h, but do not know the own kernel, which
 * conv.c adds.
 */
#ifndef VAE_CUDA_LIBRARY_H
#define VAE_CUDA_LIBRARY_H

#include "convs.h"

typedef struct VaeCudaLibrary VaeCudaLibrary;
typedef struct VaeCudaLibraryConv VaeCudaLibraryConv;

VaeStatus vae_cuda_library_check(VaeError *error);
VaeStatus vae_cuda_library_new(const char *properties, VaeCudaLibrary **out,
                               VaeError *error);
void vae_cuda_library_free(VaeCudaLibrary **library);
void vae_cuda_library_lock(VaeCudaLibrary *library);
void vae_cuda_library_unlock(VaeCudaLibrary *library);
void vae_cuda_library_forget(VaeCudaLibrary *library, void *stream);
int vae_cuda_library_plans(const VaeCudaLibrary *library);
const char *vae_cuda_library_name(const VaeCudaLibrary *library);
const char *vae_cuda_library_properties(VaeCudaLibrary *library);

VaeStatus vae_cuda_library_choices(VaeCudaLibrary *library,
                                   const VaeCudaConvShape *shape,
                                   VaeCudaChoice *choices, int most, int *n,
                                   VaeError *error);
VaeStatus vae_cuda_library_conv_new(VaeCudaLibrary *library,
                                    const VaeCudaConvShape *shape,
                                    const VaeCudaChoice *choice,
                                    VaeCudaLibraryConv **out, VaeError *error);
void vae_cuda_library_conv_free(VaeCudaLibraryConv **conv);
size_t vae_cuda_library_conv_workspace(const VaeCudaLibraryConv *conv);
bool vae_cuda_library_conv_matrix(const VaeCudaLibraryConv *conv);
VaeStatus vae_cuda_library_conv_bind(VaeCudaLibraryConv *conv,
                                     const VaeCudaConvArgs *args,
                                     VaeError *error);
VaeStatus vae_cuda_library_conv_run(VaeCudaLibraryConv *conv, void *stream,
                                    VaeError *error);

#endif

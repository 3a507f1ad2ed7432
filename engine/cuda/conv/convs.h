/*
 * convs.h: convolutions on a device. A library is made for one device, or
 * from its properties alone, without one; then everything but running works.
 *
 * y = relu?(conv(x) + add + bias) over channels-last memory, summed in fp32
 * and rounded to y_type once. The context of x lies in front of its frames,
 * there is no padding in time.
 */
#ifndef VAE_CUDA_CONV_H
#define VAE_CUDA_CONV_H

#include "vae-private/types.h"

typedef struct VaeCudaConvs VaeCudaConvs;
typedef struct VaeCudaConv VaeCudaConv;

/* As VaeConvArgs of kernels.h. x: (t - 1) * st + kt frames of h x w x c_in;
 * y and add: t frames of ho x wo x c_out. */
typedef struct VaeCudaConvShape {
    int t, h, w, c_in, ho, wo, c_out;
    int k, kt, s, st, pad_y, pad_x; /* pads above and to the left */
    bool add, relu;
    bool tf32;              /* F32 may be multiplied with 10 bits of mantissa */
    VaeType x_type, y_type; /* of x and weights; of y, add and bias */
    int align; /* bytes, a power of two: x, y and add begin at multiples */
} VaeCudaConvShape;

/* How a convolution is computed, as text: an engine of the library and what
 * it is set to. It fits every t of the same shape. */
#define VAE_CUDA_CHOICE 120
typedef struct VaeCudaChoice {
    char text[VAE_CUDA_CHOICE];
} VaeCudaChoice;

/* weight: [c_out][kt][k][k][c_in]. bias: c_out, always there. add may be y. */
typedef struct VaeCudaConvArgs {
    void *y;
    const void *x, *add, *weight, *bias;
    void *workspace; /* vae_cuda_conv_workspace() bytes, 256-byte aligned */
} VaeCudaConvArgs;

/* Whether the library is there, whole, and of a version that is known to
 * compute right. Errors: VAE_ERR_UNSUPPORTED. */
VaeStatus vae_cuda_convs_check(VaeError *error);

/*
 * properties: a device's, in the library's JSON, for planning only; NULL: the
 * current device. Errors: as vae_cuda_convs_check(), VAE_ERR_BACKEND.
 */
VaeStatus vae_cuda_convs_new(const char *properties, VaeCudaConvs **out,
                             VaeError *error);
void vae_cuda_convs_free(VaeCudaConvs **convs);

/* "cuDNN 9.19.0" */
const char *vae_cuda_convs_name(const VaeCudaConvs *convs);
/* The device's properties as vae_cuda_convs_new() takes them, "" where the
 * library does not tell; valid until the next call. */
const char *vae_cuda_convs_properties(VaeCudaConvs *convs);

/*
 * At most `most` ways to compute it, the library's best guess first, into
 * choices; *n is their number. Left out are those whose sums depend on chance
 * or on t, or have less precision than the shape says, and those that cannot
 * be made for one frame; those that need more than `workspace` bytes, and those
 * compiled when made, are given only where there are no others. Errors:
 * VAE_ERR_BACKEND when there is none at all.
 */
VaeStatus vae_cuda_conv_choices(VaeCudaConvs *convs,
                                const VaeCudaConvShape *shape, size_t workspace,
                                VaeCudaChoice *choices, int most, int *n,
                                VaeError *error);

/* Makes it as choice says. Errors: VAE_ERR_BACKEND. */
VaeStatus vae_cuda_conv_new(VaeCudaConvs *convs, const VaeCudaConvShape *shape,
                            const VaeCudaChoice *choice, VaeCudaConv **out,
                            VaeError *error);
void vae_cuda_conv_free(VaeCudaConv **conv);
size_t vae_cuda_conv_workspace(const VaeCudaConv *conv);
/* True when it multiplies by the device's matrix units. */
bool vae_cuda_conv_matrix(const VaeCudaConv *conv);

/* Fixes the addresses, which must stay; then run as often as wanted. */
VaeStatus vae_cuda_conv_bind(VaeCudaConv *conv, const VaeCudaConvArgs *args,
                             VaeError *error);
/* stream: a cudaStream_t. Launches and returns; nothing is allocated. */
VaeStatus vae_cuda_conv_run(VaeCudaConv *conv, void *stream, VaeError *error);

#endif

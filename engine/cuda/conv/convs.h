/*
 * convs.h: convolutions on a device, by a library or by an own kernel. A
 * VaeCudaConvs is opened for one device, or from a device's properties alone;
 * without the device everything but running works. Threads may share it.
 *
 * y = relu?(conv(x) + add + bias) over channels-last memory, summed in fp32
 * and rounded to y_type once. The context of x is before its frames, or in
 * a block of its own; there is no padding in time.
 */
#ifndef VAE_CUDA_CONV_H
#define VAE_CUDA_CONV_H

#include "kernels.h"
#include "vae-private/types.h"

typedef struct VaeCudaConvs VaeCudaConvs;
typedef struct VaeCudaConv VaeCudaConv;

/* Like VaeConvArgs of kernels.h. x has (t - 1) * st + kt frames of h x w x
 * c_in; y and add have t frames of ho x wo x c_out. */
typedef struct VaeCudaConvShape {
    int t, h, w, c_in, ho, wo, c_out;
    int k, kt, s, st, pad_y, pad_x; /* padding above and to the left */
    bool add, relu;
    bool tf32; /* F32 may be multiplied with 10 bits of mantissa */
    VaeType x_type,
        y_type; /* the first: x and weights; the second: y, add and bias */
    bool odd;   /* x, y or add begins at no multiple of 16 bytes: no own kernel
                   but that of three channels computes it, and the library
                   gets aligned copies */
} VaeCudaConvShape;

/* A fourth of the rows of one frame: rows in the middle, which read no zeros,
 * or the first or last rows, which read zeros on one side. */
enum { VAE_CUDA_SOME_ROWS = 3 };
static inline VaeCudaConvShape
vae_cuda_some_rows(const VaeCudaConvShape *shape, int i)
{
    VaeCudaConvShape s = *shape;
    const int past = (s.ho - 1) * s.s + s.k - s.pad_y - s.h;
    const int end = past > 0 ? past : s.pad_y;
    s.t = 1;
    s.ho = (shape->ho + 3) / 4;
    s.pad_y = i == 1 ? shape->pad_y : 0;
    s.h = (s.ho - 1) * s.s + s.k - s.pad_y - (i == 2 ? end : 0);
    return s;
}

/* A choice: a way to compute a convolution, as text. It names an engine of the
 * library with its settings, or an own kernel. It computes any t of a shape. */
#define VAE_CUDA_CHOICE 120
typedef struct VaeCudaChoice {
    char text[VAE_CUDA_CHOICE];
} VaeCudaChoice;
bool vae_cuda_choice_is_own(const VaeCudaChoice *choice);
/* True if it can compute the norm of its result, which has c_out channels. */
bool vae_cuda_choice_norms(const VaeCudaChoice *choice, int c_out);
/* True if it computes all phases of an upsampling at once, joined. Its shape is
 * that of the first phase. It reads one row and column more, below and on the
 * right, if there are such. It must be bound with `joined`. */
bool vae_cuda_choice_has_phases(const VaeCudaChoice *choice);

/* weight: [c_out][kt][k][k][c_in]. bias: c_out, not NULL. add may be y. The
 * first past_frames frames are in past, the others in x. norm, joined, row,
 * column, phase_weights, wide, front and normed_frames are as in
 * VaeConvMatrixArgs. Only the own kernels support past and these. */
typedef struct VaeCudaConvArgs {
    void *y;
    const void *x, *past, *add, *weight, *bias;
    int past_frames, normed_frames;
    bool joined, wide;
    int row, column;
    size_t phase_weights;
    VaeNormArgs norm, front;
    void *workspace; /* vae_cuda_conv_workspace() bytes, 256-byte aligned */
} VaeCudaConvArgs;

/* Checks that the library is installed and complete, and that its version is
 * known to compute correctly. Errors: VAE_ERR_UNSUPPORTED. */
VaeStatus vae_cuda_convs_check(VaeError *error);

/*
 * properties: those of a device in the library's JSON, for planning only; NULL:
 * the current device. Errors: those of vae_cuda_convs_check(), VAE_ERR_BACKEND,
 * VAE_ERR_ARGUMENT for an unknown VAE_CUDA_CONV.
 */
VaeStatus vae_cuda_convs_new(const char *properties, VaeCudaConvs **out,
                             VaeError *error);
void vae_cuda_convs_free(VaeCudaConvs **convs);
/* Adds kernels->conv_matrix to the choices, if a device of that capability can
 * run it. */
void vae_cuda_convs_use(VaeCudaConvs *convs, const VaeKernels *kernels,
                        int capability);
/* True if the environment variable VAE_CUDA_CONV is "cudnn", "own", "wgmma",
 * "half", "head" or "up". The own kernels then compute no convolution, or one
 * of them all that it can: for "wgmma" that for compute capability 9.0 or, on
 * other devices, the other one; for "half" that with sums of F16 or, in other
 * types, the other one; for "head" that of three channels; for "up" that of all
 * phases at once. For tests; such choices are not stored. */
bool vae_cuda_conv_is_forced(void);

/* Between lock and unlock only this thread uses convs. A thread that records a
 * stream needs this. */
void vae_cuda_convs_lock(VaeCudaConvs *convs);
void vae_cuda_convs_unlock(VaeCudaConvs *convs);
/* Forgets the stream. Call it before the stream is freed. */
void vae_cuda_convs_forget(VaeCudaConvs *convs, void *stream);
/* Plans made since convs was opened. */
int vae_cuda_convs_plans(const VaeCudaConvs *convs);

/* Name and version: "cuDNN 9.19.0". */
const char *vae_cuda_convs_name(const VaeCudaConvs *convs);
/* The device's properties as vae_cuda_convs_new() takes them, "" if the library
 * does not give them. Valid until the next call. */
const char *vae_cuda_convs_properties(VaeCudaConvs *convs);

/*
 * Writes at most `most` choices for the convolution, and their number to *n.
 * The library's first suggestion comes first, then the own kernels if they can
 * be fast. A single choice is never an own kernel, unless forced. Omits choices
 * whose sums depend on chance or on t, choices with less precision than the
 * shape asks for, and choices that cannot compute one frame, or some rows of
 * one. Choices that need much workspace or are compiled at run time are used
 * only if there are no others. Errors: VAE_ERR_BACKEND if there is none at all.
 */
VaeStatus vae_cuda_conv_choices(VaeCudaConvs *convs,
                                const VaeCudaConvShape *shape,
                                VaeCudaChoice *choices, int most, int *n,
                                VaeError *error);

/* Writes the own kernels that can be fast for the shape, at most `most`, and
 * returns their number. */
enum { VAE_CUDA_OWN_KERNELS = 6 };
int vae_cuda_conv_own_choices(const VaeCudaConvs *convs,
                              const VaeCudaConvShape *shape,
                              VaeCudaChoice *choices, int most);

/* Makes the convolution by a choice. Convolutions of one shape and choice share
 * their plan. Errors: VAE_ERR_BACKEND (also if vae_cuda_conv_choices() would
 * omit the choice because of its sums), VAE_ERR_MEMORY. */
VaeStatus vae_cuda_conv_new(VaeCudaConvs *convs, const VaeCudaConvShape *shape,
                            const VaeCudaChoice *choice, VaeCudaConv **out,
                            VaeError *error);
void vae_cuda_conv_free(VaeCudaConv **conv);
size_t vae_cuda_conv_workspace(const VaeCudaConv *conv);
/* True if it uses the device's matrix units. */
bool vae_cuda_conv_matrix(const VaeCudaConv *conv);

/* Sets the addresses. They must stay valid for all runs that follow. */
VaeStatus vae_cuda_conv_bind(VaeCudaConv *conv, const VaeCudaConvArgs *args,
                             VaeError *error);
/* stream: a cudaStream_t. Launches and returns; allocates nothing. */
VaeStatus vae_cuda_conv_run(VaeCudaConv *conv, void *stream, VaeError *error);

#endif

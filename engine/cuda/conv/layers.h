/*
 * layers.h: the convolutions of a program as cuda/conv/convs.h takes them, and
 * how each is computed. A layer is a convolution without its number of frames:
 * it is computed in one way for all of them, so that the slice size cannot
 * change a byte.
 */
#ifndef VAE_CUDA_LAYERS_H
#define VAE_CUDA_LAYERS_H

#include "convs.h"
#include "program.h"
#include "upsample_phases.h"

/* Frames by which a layer's choices are looked for, whatever the slices have:
 * so many or, of large pictures, as few as are computed at once, because
 * libraries have hardly any choices for more. */
#define VAE_CUDA_LAYER_FRAMES 4
int vae_cuda_layer_frames(const VaeCudaConvShape *shape);
#define VAE_CUDA_MAX_CHOICES 128
/* Frames by which they are timed: as many or as few as fill a device many times
 * over. */
int vae_cuda_timed_frames(const VaeCudaConvShape *shape);

/* Workspace that a layer should do with: more is a copy of its input, which
 * only one of few channels may be worth. */
size_t vae_cuda_layer_workspace(const VaeCudaConvShape *shape);

/*
 * The convolution of op; tf32: as in VaeCudaConvShape. Of one that doubles what
 * it reads, the first of its four phases, a 2x2 convolution over the small
 * picture; the others are computed in the same way and differ in pad_y, pad_x.
 */
VaeCudaConvShape vae_cuda_shape(const VaeOp *op, bool tf32);
/* The convolutions of the self-test: a large one, a small one, and one that
 * halves the picture and is padded below and to the right alone. */
enum { VAE_CUDA_TEST_SHAPES = 3 };
VaeCudaConvShape vae_cuda_test_shape(int i, VaeType type, bool tf32);
/* What tells layers apart, as text; what is equal is the same layer. */
#define VAE_CUDA_LAYER_NAME 96
void vae_cuda_layer_name(const VaeCudaConvShape *shape,
                         char out[VAE_CUDA_LAYER_NAME]);

/*
 * One convolution of a program: over all its frames at once or, where the
 * library cannot take so many or wants much workspace for them, over equal
 * parts one after another. Of phases, those of a part lie behind each other
 * before they are joined.
 */
typedef struct VaeCudaParts {
    int n, t;           /* n parts of t frames */
    int phases;         /* VAE_PHASES, or 1 */
    size_t bytes;       /* of the phases of a part, or 0 */
    VaeCudaConv **conv; /* n * phases, part by part */
} VaeCudaParts;

VaeStatus vae_cuda_parts_new(VaeCudaConvs *convs, const VaeCudaConvShape *shape,
                             const VaeCudaChoice *choice, VaeCudaParts *out,
                             VaeError *error);
/* That of any of its convolutions, a multiple of 256. */
size_t vae_cuda_parts_workspace(const VaeCudaParts *parts);
void vae_cuda_parts_free(VaeCudaParts *parts);

#endif

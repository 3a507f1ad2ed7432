/*
 * layers.h: the convolutions of a program as shapes of cuda/conv/convs.h, and
 * the parts in which each is computed. A layer is a convolution without its
 * number of frames. One choice computes the layer for any number of frames, so
 * the slice size cannot change a byte.
 */
#ifndef VAE_CUDA_LAYERS_H
#define VAE_CUDA_LAYERS_H

#include "convs.h"
#include "program.h"
#include "upsample_phases.h"

/* Number of frames for which a layer's choices are searched, for any slice
 * size. Large pictures use fewer, because libraries have hardly any choices for
 * very large convolutions. */
#define VAE_CUDA_LAYER_FRAMES 4
int vae_cuda_layer_frames(const VaeCudaConvShape *shape);
/* The convolution for which a layer's choices are searched: that many frames
 * or, if one frame is too large to be computed at once, a band of its rows. */
VaeCudaConvShape vae_cuda_layer_shape(const VaeCudaConvShape *shape);
#define VAE_CUDA_MAX_CHOICES 128
/* Number of frames for which choices are timed: at most
 * vae_cuda_layer_frames(), and fewer if these already fill a large device many
 * times. */
int vae_cuda_timed_frames(const VaeCudaConvShape *shape);

/*
 * The convolution of op, of the whole picture if op computes a strip of it;
 * tf32: as in VaeCudaConvShape. If op upsamples its input, this is the first of
 * its four phases: a 2x2 convolution over the small picture. The other phases
 * differ only in pad_y and pad_x.
 */
VaeCudaConvShape vae_cuda_shape(const VaeOp *op, bool tf32);
/* The convolutions of the self-test: a large one, a small one, and one with
 * stride 2 and padding only at the bottom and on the right. For own kernels
 * only: to a picture, from one, and a phase of an upsampling. */
enum { VAE_CUDA_TEST_SHAPES = 3, VAE_CUDA_OWN_TEST_SHAPES = 6 };
VaeCudaConvShape vae_cuda_test_shape(int i, VaeType type, bool tf32);
/* The key of a layer, as text. Equal keys mean the same layer. */
#define VAE_CUDA_LAYER_NAME 96
void vae_cuda_layer_name(const VaeCudaConvShape *shape,
                         char out[VAE_CUDA_LAYER_NAME]);

/* The rows that an op computes: all of a picture, or a strip. */
typedef struct VaeCudaRows {
    int x, y;   /* rows that it reads and writes */
    int top;    /* rows of zeros above the first one that it reads */
    bool apart; /* frames of x, or of y, do not follow each other in memory */
} VaeCudaRows;
VaeCudaRows vae_cuda_rows(const VaeOp *op);

/*
 * One convolution of a program, over all its frames. If the library cannot
 * compute them at once, or needs much workspace for them, it computes equal
 * parts one after another. If it cannot compute even one frame, it computes
 * bands of its rows. The own kernel writes phases joined. The library writes
 * one phase after another, and a kernel joins them. If its shape is odd, the
 * library reads copies of x and add, and its result is copied.
 */
typedef struct VaeCudaParts {
    VaeCudaChoice choice;
    VaeCudaRows rows;
    int n, t;        /* n parts of t frames */
    int bands;       /* of each frame; if more than 1, t is 1 */
    int phases;      /* VAE_PHASES, or 1: also if one writes all of them */
    bool joined;     /* the convolutions write them joined */
    int k, s;        /* kernel size and stride, as in the shape; 3 if a
                        convolution writes all phases, for the rows it reads */
    size_t phase;    /* bytes of one phase of a part before they are joined, or
                        of a result before it is copied, a multiple of 256; 0:
                        the convolution writes y */
    size_t bytes;    /* of all phases */
    size_t gathered; /* bytes of a copy of the rows that a convolution reads, of
                        all frames; 0: no copy is needed */
    VaeCudaConv **conv; /* n * bands * phases: phases fastest, parts slowest */
} VaeCudaParts;

/* Limits of parts. Tests set them. */
typedef struct VaeCudaPartLimits {
    size_t workspace; /* bytes of a part; a frame may need more if its bands do,
                         too */
    /* Bytes of the phases of several frames. Most of so many are still in the
     * cache of a large device when they are joined. */
    size_t phases;
    /* Bytes of the input or output of several frames: cuDNN was seen to give
     * wrong results if byte offsets do not fit in 31 bits. A single frame may
     * have more, up to `numbers`. */
    size_t bytes;
    size_t numbers; /* for more values cuDNN has no engine with matrix units */
    size_t band;    /* bytes of the input or output of a band */
} VaeCudaPartLimits;
extern VaeCudaPartLimits vae_cuda_part_limits;

/* Rows of one convolution, counted from the op's first row. */
typedef struct VaeCudaBand {
    int y, n_y; /* first row that it writes, and their number */
    int x, n_x; /* first row that it reads, and their number */
    int top;    /* rows of zeros above */
} VaeCudaBand;
/* i: an index of parts->conv. */
VaeCudaBand vae_cuda_band(const VaeCudaParts *parts, int i);

VaeStatus vae_cuda_parts_new(VaeCudaConvs *convs, const VaeCudaConvShape *shape,
                             const VaeCudaRows *rows,
                             const VaeCudaChoice *choice, VaeCudaParts *out,
                             VaeError *error);
/* The first rows of one frame of the layer, whose kernels have k rows. */
VaeCudaConvShape vae_cuda_few_rows(const VaeCudaConvShape *shape, int k);
/* The shape of convolution i of the parts for a few rows of one frame, to load
 * its code. shape: as for vae_cuda_parts_new(). */
VaeCudaConvShape vae_cuda_small_part(const VaeCudaParts *parts,
                                     const VaeCudaConvShape *shape, int i);
/* Bytes of workspace for any of its convolutions, a multiple of 256. */
size_t vae_cuda_parts_workspace(const VaeCudaParts *parts);
void vae_cuda_parts_free(VaeCudaParts *parts);

#endif

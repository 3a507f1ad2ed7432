/*
 * layers.h: the convolutions of a program as cuda/conv/convs.h takes them, and
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
 * size. Large pictures use fewer, as many as one convolution computes at once:
 * libraries have hardly any choices for more. */
#define VAE_CUDA_LAYER_FRAMES 4
int vae_cuda_layer_frames(const VaeCudaConvShape *shape);
/* The convolution for which a layer's choices are searched: that many frames
 * or, if one frame is too large to be computed at once, a band of its rows. */
VaeCudaConvShape vae_cuda_layer_shape(const VaeCudaConvShape *shape);
#define VAE_CUDA_MAX_CHOICES 128
/* Number of frames for which choices are timed: at most as many, and no more
 * than fill a device many times over. */
int vae_cuda_timed_frames(const VaeCudaConvShape *shape);

/*
 * The convolution of op, of the whole picture if op computes a strip of it;
 * tf32: as in VaeCudaConvShape. If op upsamples its input, this is the first of
 * its four phases: a 2x2 convolution over the small picture. The other phases
 * differ only in pad_y and pad_x.
 */
VaeCudaConvShape vae_cuda_shape(const VaeOp *op, bool tf32);
/* The convolutions of the self-test: a large one, a small one, and one that
 * halves the picture and is padded only below and to the right. */
enum { VAE_CUDA_TEST_SHAPES = 3 };
VaeCudaConvShape vae_cuda_test_shape(int i, VaeType type, bool tf32);
/* The key of a layer, as text; equal keys mean the same layer. */
#define VAE_CUDA_LAYER_NAME 96
void vae_cuda_layer_name(const VaeCudaConvShape *shape,
                         char out[VAE_CUDA_LAYER_NAME]);

/* The rows that an op computes: all of a picture, or a strip. */
typedef struct VaeCudaRows {
    int x, y;   /* rows that it reads and writes */
    int top;    /* rows of zeros above the first one that it reads */
    bool apart; /* other rows are between two frames of x, or of y */
} VaeCudaRows;
VaeCudaRows vae_cuda_rows(const VaeOp *op);

/*
 * One convolution of a program, over all its frames at once. If the library
 * cannot compute so many, or needs much workspace for them, it computes equal
 * parts one after another, and if this holds for one frame, bands of its rows.
 * The own kernel stores phases joined. Those of the library are stored one
 * after another before they are joined.
 */
typedef struct VaeCudaParts {
    VaeCudaChoice choice;
    VaeCudaRows rows;
    int n, t;           /* n parts of t frames */
    int bands;          /* of each frame; if more than 1, t is 1 */
    int phases;         /* VAE_PHASES, or 1 */
    bool joined;        /* the convolutions store them joined */
    int k, s;           /* as of the shape */
    size_t bytes;       /* all phases of a part before they are joined, or 0 */
    size_t gathered;    /* rows of all frames that a band is computed from, in
                           one block; 0: they are in one */
    VaeCudaConv **conv; /* n * bands * phases: phases fastest, parts slowest */
} VaeCudaParts;

/* Bytes, or numbers, from which on parts are made smaller. Tests set them. */
typedef struct VaeCudaPartLimits {
    size_t workspace; /* of a part; if bands need as much, a frame may */
    /* The phases of several frames: most of that many bytes are still in a
     * large device's cache when they are joined. */
    size_t phases;
    /* Input or output of several frames: cuDNN was seen to compute wrong if
     * byte offsets do not fit 31 bits. One frame is computed at once, unless it
     * has too many numbers. */
    size_t bytes;
    size_t numbers; /* for more cuDNN has no engine with matrix units */
    size_t band;    /* input or output of a band; its input may be a copy */
} VaeCudaPartLimits;
extern VaeCudaPartLimits vae_cuda_part_limits;

/* Rows of one convolution, counted in the op's. */
typedef struct VaeCudaBand {
    int y, n_y; /* the first one that it writes, and their number */
    int x, n_x; /* the same that it reads */
    int top;    /* rows of zeros above */
} VaeCudaBand;
/* i: an index of parts->conv. */
VaeCudaBand vae_cuda_band(const VaeCudaParts *parts, int i);

VaeStatus vae_cuda_parts_new(VaeCudaConvs *convs, const VaeCudaConvShape *shape,
                             const VaeCudaRows *rows,
                             const VaeCudaChoice *choice, VaeCudaParts *out,
                             VaeError *error);
/* Convolution i of the parts for a few rows of one frame, to load its code.
 * shape: as for vae_cuda_parts_new(). */
VaeCudaConvShape vae_cuda_small_part(const VaeCudaParts *parts,
                                     const VaeCudaConvShape *shape, int i);
/* Workspace in bytes that fits each of its convolutions, a multiple of 256. */
size_t vae_cuda_parts_workspace(const VaeCudaParts *parts);
void vae_cuda_parts_free(VaeCudaParts *parts);

#endif

/*
 * kernels.h: one table of functions over plain memory.
 *
 * Kernels speak pointers and counts. None allocates, prints or keeps state.
 * Activations are (T, H, W, C), C fastest, packed. "bytes identical" rule:
 * what a kernel computes for one frame may not depend on how many frames the
 * call has, on the pointers' alignment, nor on which rows another call does.
 *
 * Types: where an argument says "type", the host tables take F32 and BF16, and
 * of latents F16 as well (the `ref` backend itself stays with F32); where it
 * says "host: F32", those take no other. The cuda table takes F32, BF16 and F16
 * everywhere. Sums are in fp32 or better. y may be x where said.
 *
 * In the cuda table all pointers are to device memory, those in a VaePicture
 * too, while the argument structs and VaePicture itself are read on the host
 * before the call returns. A call only launches: what it could not launch is
 * told by the CUDA error state, which the caller asks for. Any alignment that
 * fits the element will do; 16 bytes are fast. A frame has VAE_ROWS_CUDA rows
 * at most.
 */
#ifndef VAE_KERNELS_H
#define VAE_KERNELS_H

#include "vae/frames.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As many as a grid has blocks in its second dimension. */
enum { VAE_ROWS_CUDA = 65535 };

/* The widest vector code that a call may take. */
typedef enum VaeVectors {
    VAE_VECTORS_BEST, /* that this machine has */
    VAE_VECTORS_BASE,
    VAE_VECTORS_AVX2,
    VAE_VECTORS_AVX512
} VaeVectors;

typedef struct VaeQueue {
    int threads;        /* to use inside one call, >= 1 */
    VaeVectors vectors; /* for tests; never changes a byte of a result */
    void *stream;       /* of cuda, a cudaStream_t; the host tables ignore it */
} VaeQueue;

/*
 * Convolution, cross-correlation; not in the cuda table. x: (t_in, h, w, c_in)
 * with t_in = (t - 1) * st + kt, context frames in front, no padding in time.
 * y: (t, ho, wo, c_out). Tap (a, i, j) of output (f, y, x) reads frame f * st +
 * a, row y * s + i - pad_y, column x * s + j - pad_x; zero outside 0..h-1,
 * 0..w-1 on every side. k is 1 to 3 (both ways), kt 1 to 3, s and st 1 or 2,
 * pads 0 or 1 (top and left; what is read past the other edges is zero too). w:
 * [kt][k][k][c_in][c_out]. bias: c_out or NULL. add: like y or NULL, added
 * after the bias; may be y itself. relu: then max(v, 0), NaN stays. All F32.
 */
typedef struct VaeConvArgs {
    void *y;
    const void *x, *add;
    const float *weight, *bias;
    int t, h, w, c_in, ho, wo, c_out;
    int k, kt, s, st, pad_y, pad_x;
    bool relu;
} VaeConvArgs;

typedef enum VaeNormKind { VAE_NORM_RMS, VAE_NORM_GROUP } VaeNormKind;

/*
 * y = norm(x) * gain (+ offset), then v * sigmoid(v) where silu. Rms: per
 * pixel x / max(|x|_2, 1e-12) * sqrt(c) * gain. Group: per frame and group of
 * c / groups channels (x - mean) / sqrt(var + 1e-6) * gain + offset, biased
 * variance. x: t * h * w * c of x_type; y likewise of y_type; y may be x when
 * the types agree. gain, offset: c floats; offset NULL for rms. Group sums
 * are taken over fixed blocks of pixels, the same for every thread count.
 * tail, in the cuda table only: NULL, or where the last tail_frames of y go,
 * too; it overlaps neither x nor y.
 */
typedef struct VaeNormArgs {
    VaeNormKind kind;
    void *y, *tail;
    const void *x;
    const float *gain, *offset;
    VaeType x_type, y_type;
    int t, h, w, c, groups, tail_frames;
    bool silu;
    double *sums; /* scratch for group: vae_norm_sums(h, w, groups) doubles, of
                     cuda vae_norm_sums_cuda(t, h, w, c, groups) */
} VaeNormArgs;

/* Pixels, in their order in a frame, whose group sums are taken together. */
#define VAE_NORM_BLOCK 512
/* Doubles of scratch that the group norm needs for one frame. */
size_t vae_norm_sums(int h, int w, int groups);
/* ... and that of the cuda table for t frames. */
size_t vae_norm_sums_cuda(int t, int h, int w, int c, int groups);

/*
 * One head over the h * w = n sites of each frame. qkv: (t, n, 3c) of x_type,
 * blocks Q | K | V; y: (t, n, c) of y_type = softmax(Q K^T / sqrt(c)) V.
 * scratch: at least vae_attention_scratch_ref(n, c) bytes; cuda needs none.
 * cuda: c <= VAE_ATTENTION_CHANNELS_CUDA. Types, host: F32. Where cuda
 * multiplies on the matrix units (x_type of 16 bits), the weights of the sum
 * over V are rounded to x_type; with tf32, they and qkv are to TF32.
 */
typedef struct VaeAttentionArgs {
    void *y;
    const void *qkv;
    void *scratch;
    int t, n, c;
    VaeType x_type, y_type;
    bool tf32; /* F32 may be multiplied with 10 bits of mantissa: cuda */
} VaeAttentionArgs;
enum { VAE_ATTENTION_CHANNELS_CUDA = 1024 };
size_t vae_attention_scratch_ref(int n, int c);

/*
 * Wan2.2's shortcuts without weights, added to y in place. Types, host: F32.
 * DUP, x (t, h, w, cx) and y (t * ft - drop, h * fs, w * fs, cy): y[.., o] +=
 * x[(((o*ft+i)*fs+r)*fs+q) / rep] with rep = cy * ft * fs * fs / cx and i, r, q
 * the place inside the block of time, row and column; drop leaves out the
 * first drop frames.
 * AVERAGE, x (t, h, w, cx) and y (ceil(t / ft), h / fs, w / fs, cy): with g =
 * cx * ft * fs * fs / cy and j = ((c*ft+i)*fs+r)*fs+q the place of an element
 * in its block, y[.., o] += mean of those with j in o*g .. o*g+g-1. Where ft
 * does not divide t, zero frames stand in front.
 */
typedef enum VaeShortcut { VAE_SHORTCUT_DUP, VAE_SHORTCUT_AVERAGE } VaeShortcut;

typedef struct VaeShortcutArgs {
    VaeShortcut kind;
    void *y;
    const void *x;
    int t, h, w, cx, cy; /* t, h, w of x */
    int ft, fs, drop;
    VaeType x_type, y_type;
} VaeShortcutArgs;

/* y = 3 tanh(x / 3). n elements, types as they say; y may be x. */
typedef struct VaeClampArgs {
    void *y;
    const void *x;
    VaeType x_type, y_type;
    size_t n;
} VaeClampArgs;

/*
 * Depthwise 7x7 over this frame and the one before, zero outside: x (1 + t, h,
 * w, n), y (t, h, w, 2n), y[f, .., c] = sum w[i][j][c] x[1 + f, y+i-3, x+j-3,
 * c] for c < n, and of x[f, ..., c - n] for the others. weight [7][7][2n].
 */
typedef struct VaeDepthwiseArgs {
    void *y;
    const void *x;
    const float *weight;
    VaeType x_type, y_type;
    int t, h, w, n;
} VaeDepthwiseArgs;

typedef enum VaeRearrange {
    /* y[ft*f+i, fs*y+r, fs*x+q, c] = x[f, y, x, i*C + c]: time unfold with
     * phase i slow, nearest in space. */
    VAE_UNFOLD_NEAREST,
    /* y[ft*f+i, fs*y+r, fs*x+q, c] = x[f, y, x, ((r*fs+q)*ft+i)*C + c]. */
    VAE_SHUFFLE_RQTC,
    /* y[f, fs*y+r, fs*x+q, c] = x[(r*fs+q)*t + f, y, x, c], ft 1: x is fs * fs
     * times t frames, all of one row and column of the squares first. */
    VAE_JOIN_PHASES,
    /* Space to depth and back, ft 1, colour slowest: column before row as in
     * Wan2.2, y[f, y, x, (c*fs+q)*fs+r] = x[f, fs*y+r, fs*x+q, c] ... */
    VAE_FOLD_CQR,
    VAE_UNFOLD_CQR,
    /* ... and row before column, (c*fs+r)*fs+q. */
    VAE_FOLD_CRQ,
    VAE_UNFOLD_CRQ
} VaeRearrange;

/*
 * Moves elements, computes nothing (but may convert). x: (t, h, w, cx) of
 * x_type, y: (t * ft - drop, h * fs, w * fs, c) of y_type, or for the FOLD
 * kinds (t, h / fs, w / fs, c). drop 1 leaves out output frame 1 (the second),
 * 0 none. x and y do not overlap.
 */
typedef struct VaeRearrangeArgs {
    VaeRearrange kind;
    void *y;
    const void *x;
    VaeType x_type, y_type;
    int t, h, w, c; /* t, h, w of x; c of y */
    int ft, fs, drop;
} VaeRearrangeArgs;

/* n elements from one type to another, nearest even. No overlap. */
typedef struct VaeCastArgs {
    void *y;
    const void *x;
    VaeType x_type, y_type;
    size_t n;
} VaeCastArgs;

/*
 * One latent [c, h, w] of src_type -> (h, w, c) of y_type, v * scale[c] +
 * shift[c] with one fp32 rounding after each operation (no fused
 * multiply-add, so that all backends agree). *nonfinite grows by the number
 * of values that are not finite.
 */
typedef struct VaeLatentInArgs {
    void *y;
    const void *src;
    const float *scale, *shift;
    VaeType src_type, y_type;
    int h, w, c;
    uint64_t *nonfinite;
} VaeLatentInArgs;

/*
 * The head's (h, w, cx) of x_type (host: F32) -> latent [c, h, w] of dst_type,
 * (v - mean[c]) / std[c] in this order where normalise, else v; cx is c or 2c.
 * v is the head's channel c or, where sample, mean + exp(logvar / 2) * a normal
 * number of sample.h; that needs cx = 2c. mean_out and logvar_out, where not
 * NULL, receive channels 0..c-1 and c..2c-1 as [c, h, w].
 */
typedef struct VaeLatentOutArgs {
    void *dst;
    float *mean_out, *logvar_out;
    const void *x;
    const float *mean, *std;
    VaeType x_type, dst_type;
    bool normalise, sample;
    uint64_t seed, index; /* index: the latent's in its sequence */
    int h, w, c, cx;
    uint64_t *nonfinite;
} VaeLatentOutArgs;

/*
 * Picture <-> network frame (h, w, 3), network size h x w >= the picture's;
 * out crops, in repeats the last column and row. low, high: the network's
 * values for 0 and 1. The colour formulas are those of kernels/colour.h, so
 * that every backend gives the same bytes. Out: x_type, host:
 * F32. c: the network's elements per pixel, 0 means 3 (host: 3); more than 3
 * are skipped, or written 0.
 */
typedef struct VaePictureOutArgs {
    const VaePicture *picture;
    const void *x;
    int h, w;
    float low, high;
    VaeType x_type;
    int c;
} VaePictureOutArgs;

typedef struct VaePictureInArgs {
    void *y;
    VaeType y_type;
    const VaePicture *picture;
    int h, w;
    float low, high;
    int c;
} VaePictureInArgs;

typedef struct VaeKernels {
    const char *name;
    void (*conv)(const VaeQueue *q, const VaeConvArgs *a);
    void (*norm)(const VaeQueue *q, const VaeNormArgs *a);
    void (*attention)(const VaeQueue *q, const VaeAttentionArgs *a);
    void (*rearrange)(const VaeQueue *q, const VaeRearrangeArgs *a);
    void (*cast)(const VaeQueue *q, const VaeCastArgs *a);
    void (*shortcut)(const VaeQueue *q, const VaeShortcutArgs *a);
    void (*clamp)(const VaeQueue *q, const VaeClampArgs *a);
    void (*depthwise)(const VaeQueue *q, const VaeDepthwiseArgs *a);
    void (*latent_in)(const VaeQueue *q, const VaeLatentInArgs *a);
    void (*latent_out)(const VaeQueue *q, const VaeLatentOutArgs *a);
    void (*picture_out)(const VaeQueue *q, const VaePictureOutArgs *a);
    void (*picture_in)(const VaeQueue *q, const VaePictureInArgs *a);
} VaeKernels;

/* Plain C, single threaded (VaeQueue is ignored): the definition of right. */
extern const VaeKernels vae_kernels_ref;
/* OpenMP and vector code for what oneDNN lacks; conv and attention NULL. */
extern const VaeKernels vae_kernels_cpu;
/* CUDA; conv NULL. In libvae-cuda and, emulated on the CPU, in tests only. */
extern const VaeKernels vae_kernels_cuda;

#ifdef __cplusplus
}
#endif

#endif

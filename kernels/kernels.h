/*
 * kernels.h: one table of functions over plain memory.
 *
 * Kernels take pointers and counts. They do not allocate, print or keep state.
 * Activations are (T, H, W, C), C fastest, packed. The results are
 * byte-identical for every slicing: the result for a frame must not depend on
 * the number of frames in the call, on the alignment of pointers, or on the
 * rows of another call.
 *
 * Types: for an argument with a "type", the host tables support F32 and BF16,
 * for latents also F16 (the `ref` backend itself uses only F32). "host: F32"
 * means that the host tables support only F32. The cuda table supports F32,
 * BF16 and F16 everywhere. Sums are in fp32 or better. y may be x only if
 * stated.
 *
 * In the cuda table all pointers are to device memory, also those in a
 * VaePicture. The argument structs, VaePicture and VaePlaceInVideo itself are
 * read on the host before the call returns. A call only launches; the caller
 * finds a failed launch in the CUDA error state. Pointers need the alignment of
 * their element; 16 bytes are fast. A frame has at most VAE_ROWS_CUDA rows.
 */
#ifndef VAE_KERNELS_H
#define VAE_KERNELS_H

#include "inline.h"
#include "vae/frames.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The largest second dimension of a grid. */
enum { VAE_ROWS_CUDA = 65535 };

/* The widest vector code that a call may use. */
typedef enum VaeVectors {
    VAE_VECTORS_BEST, /* the widest of this machine */
    VAE_VECTORS_BASE,
    VAE_VECTORS_AVX2,
    VAE_VECTORS_AVX512
} VaeVectors;

typedef struct VaeQueue {
    int threads;        /* for one call, >= 1 */
    VaeVectors vectors; /* for tests; never changes a byte of a result, except
                           of attention over a window */
    void *stream;       /* cuda: a cudaStream_t, or VAE_ONLY_LOAD; the host
                           tables ignore it */
    /* True if the call may end early, because nobody needs its result; or NULL.
     * Convolutions and attentions of the host tables ask it. */
    bool (*cancelled)(const void *user);
    const void *user;
} VaeQueue;

/* With this stream a call loads its kernels, and launches none. It reads and
 * writes no memory of the device. */
#define VAE_ONLY_LOAD ((void *) -1)

/*
 * Convolution, cross-correlation; not in the cuda table. x: (t_in, h, w, c_in)
 * with t_in = (t - 1) * st + kt, context frames in front, no padding in time.
 * y: (t, ho, wo, c_out). Tap (a, i, j) of output (f, y, x) reads frame f * st +
 * a, row y * s + i - pad_y, column x * s + j - pad_x; zero outside 0..h-1,
 * 0..w-1 on every side. k is 1 to 3 or 5 (both ways), kt too, s and st 1 or 2,
 * pads 0 to 2 (top and left; past the other edges x is zero, too). w:
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
 * y = norm(x) * gain + offset, then v * sigmoid(v) if silu, or max(v, 0) if
 * relu.
 *
 * rms: norm(x) of a pixel is x / max(sqrt(|x|_2^2 + c * eps), 1e-12) * sqrt(c).
 * group: norm(x) of a frame and a group of c / groups channels is (x - mean) /
 * sqrt(var + eps) with the biased variance. Its sums are over fixed blocks of
 * pixels, the same for every number of threads.
 *
 * x: t * h * w * c of x_type. y: as many of y_type; it may be x if the types
 * are the same. gain, offset: c floats. Of rms each may be NULL, which means
 * gains of 1 and offsets of 0. tail, only for cuda: NULL, or receives a copy of
 * the last tail_frames of y; it must not overlap x or y. For a y of 16 bits,
 * cuda computes the silu within 2^-17 of its value.
 *
 * statistics, group only, or NULL: for each frame and group a mean and a scale.
 * Without y, the call writes them and nothing else; then it needs no gain and
 * no offset. With y it reads them, needs no sums, and may have some rows of a
 * picture.
 */
typedef struct VaeNormArgs {
    VaeNormKind kind;
    void *y, *tail;
    const void *x;
    const float *gain, *offset;
    VaeType x_type, y_type;
    int t, h, w, c, groups, tail_frames;
    float eps;       /* >= 0; > 0 for group */
    bool silu, relu; /* at most one */
    double *sums; /* scratch for group: vae_norm_sums(h, w, groups) doubles, for
                     cuda vae_norm_sums_cuda(t, h, w, c, groups) */
    double *statistics; /* t * groups * 2 */
} VaeNormArgs;

/*
 * Convolution on the matrix units; only in the cuda table, for compute
 * capability 8.0 and more. As VaeConvArgs with s and st 1, k 2 or 3, except:
 * all tensors are of `type`, F16 or BF16. The first past_frames frames of the
 * input are in `past`, the others in x. weight: [c_out][kt][k][k][c_in]. bias:
 * c_out, not NULL. c_in is a multiple of 8, c_out of 4; x, past and weight
 * begin at multiples of 16, the others of 8. Sums are in fp32, rounded once. A
 * result depends neither on t nor on other rows and columns than it reads.
 *
 * joined: y has twice the rows and columns, and the result is written to its
 * rows 2i + row and columns 2j + column. up: in one call, for the four pairs of
 * row and column. k is 2. The weights of row and column begin 2 * row + column
 * times phase_weights elements after weight. pad_y and pad_x are those of row
 * 0 and column 0; the other row and column pad one less. row, column, add and
 * norm are not set.
 *
 * norm.y, or NULL: receives the rms norm of the result, with the same bits as
 * norm() gives. Only y, gain, offset, eps and silu of norm are read. The
 * channels must be such that one block has all of a pixel's. y may then be
 * NULL: the result itself is not written.
 *
 * warpgroups: by the kernel for compute capability 9.0, and for no other.
 *
 * half_sums: the products of a tap and 32 channels are summed in F16. type is
 * F16, and warpgroups is not set. Finite numbers give no other infinities.
 *
 * With vae_conv_matrix_is_picture(), c_in is 3, w is a multiple of 8, and kt is
 * at most 3. There are no joined, warpgroups and half_sums.
 *
 * With vae_conv_matrix_is_head(), c_out is 3, and y begins at a multiple of 4.
 * There are no add, relu, joined, norm, warpgroups and half_sums. Instead there
 * are:
 *
 * wide: y is F32.
 *
 * front.c: c_in, or 0. With c_in, the convolution is that of the rms norm of x,
 * which has the same bits as norm() gives. Only c, gain, offset, eps and
 * silu of front are read. The first normed_frames frames of the input are
 * normed already.
 */
typedef struct VaeConvMatrixArgs {
    void *y;
    const void *x, *past, *add, *weight, *bias;
    VaeType type;
    int t, h, w, c_in, ho, wo, c_out;
    int k, kt, pad_y, pad_x, past_frames, normed_frames;
    bool relu, joined, up, warpgroups, half_sums, wide;
    int row, column; /* 0 or 1 if joined, else 0 */
    size_t phase_weights;
    VaeNormArgs norm, front;
} VaeConvMatrixArgs;

/* True for the kernel that writes a picture's three channels. Its block has all
 * channels of its pixels in shared memory. */
static inline bool
vae_conv_matrix_is_head(int c_in, int c_out, int k)
{
    return c_out == 3 && k == 3 && c_in % 8 == 0 && c_in <= 160;
}

/* True for the kernel that reads a picture's three channels. */
static inline bool
vae_conv_matrix_is_picture(int c_in, int k)
{
    return c_in == 3 && k == 3;
}

static inline bool
vae_conv_matrix_can_norm(int c_out, bool warpgroups)
{
    return c_out % 8 == 0 && (c_out <= 96 || c_out == 128 || c_out == 192 ||
                              (c_out == 256 && !warpgroups));
}

/* Pixels of a frame in one block of group sums. */
#define VAE_NORM_BLOCK 512
/* Doubles of scratch for the group norm of one frame. */
size_t vae_norm_sums(int h, int w, int groups);
/* The same in the cuda table for t frames. */
size_t vae_norm_sums_cuda(int t, int h, int w, int c, int groups);

/*
 * The keys and values of all latents so far, in blocks of memory that are added
 * as it grows. A latent has `bytes` of them; a block has `each` latents. With a
 * window, the latents share `window` places in turn.
 */
enum { VAE_HISTORY_BLOCKS = 1 << 15 };
typedef struct VaeHistoryBlocks {
    uint64_t count; /* latents of the sequence before the run */
    uint8_t *block[VAE_HISTORY_BLOCKS];
} VaeHistoryBlocks;

typedef struct VaeHistory {
    VaeHistoryBlocks *blocks; /* NULL: a query reads only its own frame */
    size_t bytes, place;      /* place: of rows K | V, in a latent's bytes */
    int each;
    int window; /* latents that a query reads, with its own; 0: all so far */
    int frame;  /* of the run */
} VaeHistory;

/* The latent of frame h->frame, and the first latent that it reads. */
VAE_INLINE uint64_t
vae_history_last(const VaeHistory *h)
{
    return h->blocks->count + (uint64_t) h->frame;
}
VAE_INLINE uint64_t
vae_history_first(const VaeHistory *h)
{
    const uint64_t last = vae_history_last(h), window = (uint64_t) h->window;
    return window && last >= window ? last - window + 1 : 0;
}
/* The n rows K | V of a latent, of 2c numbers each. */
VAE_INLINE uint8_t *
vae_history_rows(const VaeHistory *h, uint64_t latent)
{
    const uint64_t at = h->window ? latent % (uint64_t) h->window : latent;
    const uint64_t each = (uint64_t) h->each;
    return h->blocks->block[at / each] + at % each * h->bytes + h->place;
}

/*
 * cuda: some latents of a history, in memory of their own, for histories that
 * are not on the device. The parts of all keys are computed one after another,
 * which does not change a byte. Only the last part has the latent of the frame,
 * as its last one.
 */
typedef struct VaeHistoryPart {
    uint8_t *rows; /* K | V of the first latent; NULL: the history has no parts,
                      and `blocks` its rows */
    size_t bytes;  /* from latent to latent */
    int latents;
    bool first, last;
    float *sums; /* n rows of c + 2 numbers, which go from part to part */
} VaeHistoryPart;

/*
 * One head over the h * w = n pixels of each frame. qkv: (t, n, 3c) of x_type,
 * blocks Q | K | V; y: (t, n, c) of y_type = softmax(Q K^T / sqrt(c)) V.
 * scratch: at least vae_attention_scratch_ref(n, c) bytes; cuda needs none.
 * cuda: c <= VAE_ATTENTION_CHANNELS_CUDA. Types, host: F32. On the matrix units
 * (cuda, x_type of 16 bits) the softmax weights are rounded to x_type; with
 * tf32, they and qkv are rounded to TF32. A score of -inf has the weight 0. If
 * all scores of a row are -inf, or one is +inf or NaN, the row of y is NaN.
 */
typedef struct VaeAttentionArgs {
    void *y;
    const void *qkv;
    void *scratch;
    int t, n, c;
    VaeType x_type, y_type;
    bool tf32; /* cuda: F32 may be multiplied with 10 bits of mantissa */
    /* With blocks, t is 1. K and V of the frame are first copied to its rows;
     * they have x_type. The queries then read the rows of all latents of the
     * history, or of `part`. y is written with the last part. */
    VaeHistory history;
    VaeHistoryPart part;
} VaeAttentionArgs;
enum {
    VAE_ATTENTION_CHANNELS_CUDA = 1152,
    VAE_HISTORY_CHANNELS_CUDA = 1024 /* with a history */
};
size_t vae_attention_scratch_ref(int n, int c);

/* The place of a tensor in the video: the index of its frame 0, and the frames
 * first..end-1 of it that exist. */
typedef struct VaePlaceInVideo {
    int64_t frame;
    int first, end;
} VaePlaceInVideo;

/*
 * Attention over a window of kt frames, kh rows and kw columns, with heads of
 * VAE_WINDOW_HEAD channels.
 *
 * qkv: (tx, h, w, 3c) of x_type, blocks Q | K | V, head n has the channels from
 * VAE_WINDOW_HEAD * n on; y: (t, h, w, c) of y_type. Frame f of y has the
 * queries of frame f + shift of qkv. On each axis of length L, the window of
 * position i begins at i - k / 2, or nearer to the middle, so that all k
 * positions exist; in time, frames place.first..place.end-1 exist. h >= kh,
 * w >= kw, kh * kw <= VAE_WINDOW_KEYS. A frame of y whose query or window is
 * not in qkv is 0.
 *
 * Each q and k is first divided by sqrt(its mean square + eps) and multiplied
 * by q_gain or k_gain (VAE_WINDOW_HEAD floats), q also by 1 / 8. Then its pairs
 * of channels (2i, 2i + 1) turn by an angle: (e cos - o sin, e sin + o cos).
 * The first VAE_WINDOW_TIME channels turn by the frame of the video, which is
 * place.frame plus the index in qkv, the next VAE_WINDOW_SPACE by the row, and
 * the last by the column. Pair i of D channels turns by position * 10000^(-2i /
 * D); the power is rounded to float, the product and its sine are not.
 *
 * y = softmax(q k) v over the window. The keys are summed frame by frame from
 * the first of the window on, so that neither t nor the place of the frames in
 * qkv changes a byte. scratch: window_scratch() bytes.
 */
enum {
    VAE_WINDOW_HEAD = 64,
    VAE_WINDOW_TIME = 16,
    VAE_WINDOW_SPACE = 24,
    VAE_WINDOW_KEYS = 11 * 11 /* most keys of a frame */
};
typedef struct VaeWindowArgs {
    void *y;
    const void *qkv;
    const float *q_gain, *k_gain;
    const VaePlaceInVideo *place; /* of qkv */
    void *scratch;
    VaeType x_type, y_type;
    int t, tx, shift, h, w, c;
    int kt, kh, kw;
    float eps;
} VaeWindowArgs;

/* Rows of x have c gates and then c values; y has rows of value * silu(gate).
 */
typedef struct VaeGluArgs {
    void *y;
    const void *x;
    VaeType x_type, y_type;
    size_t rows;
    int c;
} VaeGluArgs;

/*
 * Standard normal numbers for t frames of pictures of 3 colours, in patches of
 * side x side pixels: y (t, h, w, 3 * side * side) of y_type, channel (colour *
 * side + column) * side + row. The number is vae_normal() of sample.h of the
 * seed, the frame of the video, the colour and the pixel; frames before frame 0
 * of the video are 0.
 */
typedef struct VaeNoiseArgs {
    void *y;
    VaeType y_type;
    const VaePlaceInVideo *place; /* of y */
    uint64_t seed;
    int t, h, w, side;
} VaeNoiseArgs;

/*
 * Shortcuts without weights, added to y in place. Types, host: F32.
 *
 * The index of channel c at i, r, q, the position inside the block of time, row
 * and column, is ((c*ft+i)*fs+r)*fs+q or, if channels_fast, ((i*fs+r)*fs+q)*C+c
 * with C channels.
 *
 * DUP, x (t, h, w, cx) and y (t * ft - drop, h * fs, w * fs, cy): y[.., o] +=
 * x[index / rep] with rep = cy * ft * fs * fs / cx. The first `drop` frames are
 * left out.
 *
 * AVERAGE, x (t, h, w, cx) and y (ceil(t / ft), h / fs, w / fs, cy): with g =
 * cx * ft * fs * fs / cy, y[.., o] += mean of the elements of the block whose
 * index is in o*g .. o*g+g-1. If ft does not divide t, frames are added in
 * front: copies of frame 0 if repeat, else zeros.
 *
 * TILE, x (t, h, w, cx) and y (t, h, w, cy) with cx dividing cy, ft and fs 1:
 * y[.., o] += x[o % cx].
 */
typedef enum VaeShortcut {
    VAE_SHORTCUT_DUP,
    VAE_SHORTCUT_AVERAGE,
    VAE_SHORTCUT_TILE
} VaeShortcut;

typedef struct VaeShortcutArgs {
    VaeShortcut kind;
    void *y;
    const void *x;
    int t, h, w, cx, cy; /* t, h, w of x */
    int ft, fs, drop;
    bool repeat, channels_fast;
    VaeType x_type, y_type;
} VaeShortcutArgs;

/* y = 3 tanh(x / 3). n elements of x_type and y_type; y may be x. */
typedef struct VaeClampArgs {
    void *y;
    const void *x;
    VaeType x_type, y_type;
    size_t n;
} VaeClampArgs;

/*
 * Depthwise 7x7 over this frame and the previous one, zero outside: x (1 + t,
 * h, w, n), y (t, h, w, 2n), y[f, .., c] = sum w[i][j][c] x[1 + f, y+i-3,
 * x+j-3, c] for c < n, and of x[f, ..., c - n] for the others. weight
 * [7][7][2n].
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
    /* y[ft*f+i, fs*y+r, fs*x+q, c] = x[f, y, x, c]: nearest in time, too. */
    VAE_NEAREST,
    /* y[ft*f+i, fs*y+r, fs*x+q, c] = x[f, y, x, ((r*fs+q)*ft+i)*C + c]. */
    VAE_SHUFFLE_RQTC,
    /* y[ft*f+i, fs*y+r, fs*x+q, c] = x[f, y, x, ((i*fs+r)*fs+q)*C + c]. */
    VAE_SHUFFLE_TRQC,
    /* y[f, fs*y+r, fs*x+q, c] = x[f, y, x, c] of the t frames for r and q.
     * These begin at element (r*fs+q)*phase. ft 1. */
    VAE_JOIN_PHASES,
    /* A border of one pixel around x, ft and fs 1: y (t, rows, w + 2, c) with
     * y[f, y, x, c] = x[f, m(y - top), m(x - 1), c]. Within x, m(i) is i. With
     * n for h or w, VAE_REFLECT has m(-1) = 1 and m(n) = n - 2, and n is at
     * least 2; VAE_REPLICATE has m(-1) = 0 and m(n) = n - 1. */
    VAE_REFLECT,
    VAE_REPLICATE,
    /* The reverse of VAE_SHUFFLE_TRQC: y[f, y, x, ((i*fs+r)*fs+q)*C + c]. If ft
     * does not divide t, copies of frame 0 are added in front. */
    VAE_FOLD_TRQC,
    /* Space and time to depth and back, colour slowest, column before row:
     * y[f, y, x, ((c*ft+i)*fs+q)*fs+r] = x[ft*f+i, fs*y+r, fs*x+q, c]. */
    VAE_FOLD_CQR,
    VAE_UNFOLD_CQR,
    /* With row before column: y[f, y, x, ((c*ft+i)*fs+r)*fs+q]. */
    VAE_FOLD_CRQ,
    VAE_UNFOLD_CRQ
} VaeRearrange;

/*
 * Moves elements, and may convert them. x: (t, h, w, cx) of x_type, y: (t * ft
 * - drop, h * fs, w * fs, c) of y_type, or for the FOLD kinds (t / ft, h / fs,
 * w / fs, c), where ft divides t, except in VAE_FOLD_TRQC. drop 1 leaves out
 * output frame 1 (the second), 0 none. x and y do not overlap.
 */
typedef struct VaeRearrangeArgs {
    VaeRearrange kind;
    void *y;
    const void *x;
    VaeType x_type, y_type;
    int t, h, w, c; /* t, h, w of x; c of y */
    int ft, fs, drop;
    size_t phase;  /* of VAE_JOIN_PHASES */
    int rows, top; /* of a border: rows of y; the row of y with row 0 of x. For
                      the whole picture h + 2 and 1 */
} VaeRearrangeArgs;

static inline bool
vae_rearrange_is_nearest(VaeRearrange kind)
{
    return kind == VAE_UNFOLD_NEAREST || kind == VAE_NEAREST;
}

static inline bool
vae_rearrange_is_border(VaeRearrange kind)
{
    return kind == VAE_REFLECT || kind == VAE_REPLICATE;
}

static inline bool
vae_rearrange_is_fold(VaeRearrange kind)
{
    return kind == VAE_FOLD_CQR || kind == VAE_FOLD_CRQ ||
           kind == VAE_FOLD_TRQC;
}

/* Converts n elements, rounding to nearest even. No overlap. */
typedef struct VaeCastArgs {
    void *y;
    const void *x;
    VaeType x_type, y_type;
    size_t n;
} VaeCastArgs;

/*
 * One latent [c, h, w] of src_type -> (h, w, c) of y_type, v * scale[c] +
 * shift[c] with one fp32 rounding after each operation (no fused
 * multiply-add, so that all backends agree). Adds the number of values that are
 * not finite to *nonfinite.
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
 * (v - mean[c]) / std[c] in this order if normalise, else v. cx is c, 2c or c +
 * 1; in the last the one logvar is that of all channels. v is the head's
 * channel c. If sample, it is mean + exp(logvar / 2) * a normal number of
 * sample.h; this needs cx > c. mean_out and logvar_out, if not NULL, receive
 * the means and the logvars as [c, h, w].
 */
typedef struct VaeLatentOutArgs {
    void *dst;
    float *mean_out, *logvar_out;
    const void *x;
    const float *mean, *std;
    VaeType x_type, dst_type;
    bool normalise, sample;
    uint64_t seed, index; /* index of the latent in its sequence */
    int h, w, c, cx;
    uint64_t *nonfinite;
} VaeLatentOutArgs;

/* Adds the number of values that are not finite, of n of x_type, to *counter.
 */
typedef struct VaeNonfiniteArgs {
    const void *x;
    VaeType x_type;
    size_t n;
    uint64_t *counter;
} VaeNonfiniteArgs;

/* Most pictures in one call on cuda. A launch has their addresses. */
#define VAE_PICTURES_CUDA 16

/*
 * Picture <-> network frame (h, w, 3); h x w is at least the picture's size.
 * Out crops; in repeats the last column and row. low, high: the network's
 * values for 0 and 1. The colour formulas of kernels/colour.h give the same
 * bytes in every backend. Out: x_type, host: F32. alpha: the network's fourth
 * channel is alpha; a picture without it reads as high. c: the network's
 * elements per pixel, 0 means 3 (host: 3, or 4 with alpha); the others are
 * skipped, or written as 0. n: pictures that are alike (vae_pictures_alike()),
 * at most `pictures` of the table, with memory; 0 means 1. next: bytes from one
 * VaePicture to the next. Their frames follow each other.
 */
typedef struct VaePictureOutArgs {
    const VaePicture *picture;
    int n;
    size_t next;
    const void *x;
    int h, w;
    float low, high;
    VaeType x_type;
    int c;
    bool alpha;
} VaePictureOutArgs;

typedef struct VaePictureInArgs {
    void *y;
    VaeType y_type;
    const VaePicture *picture;
    int n;
    size_t next;
    int h, w;
    float low, high;
    int c;
    bool alpha;
} VaePictureInArgs;

typedef struct VaeKernels {
    const char *name;
    int pictures; /* most in one call; 0: one */
    void (*conv)(const VaeQueue *q, const VaeConvArgs *a);
    void (*conv_matrix)(const VaeQueue *q, const VaeConvMatrixArgs *a);
    void (*norm)(const VaeQueue *q, const VaeNormArgs *a);
    void (*attention)(const VaeQueue *q, const VaeAttentionArgs *a);
    void (*window)(const VaeQueue *q, const VaeWindowArgs *a);
    size_t (*window_scratch)(int tx, int h, int w, int c);
    void (*glu)(const VaeQueue *q, const VaeGluArgs *a);
    void (*noise)(const VaeQueue *q, const VaeNoiseArgs *a);
    void (*rearrange)(const VaeQueue *q, const VaeRearrangeArgs *a);
    void (*cast)(const VaeQueue *q, const VaeCastArgs *a);
    void (*shortcut)(const VaeQueue *q, const VaeShortcutArgs *a);
    void (*clamp)(const VaeQueue *q, const VaeClampArgs *a);
    void (*depthwise)(const VaeQueue *q, const VaeDepthwiseArgs *a);
    void (*latent_in)(const VaeQueue *q, const VaeLatentInArgs *a);
    void (*latent_out)(const VaeQueue *q, const VaeLatentOutArgs *a);
    void (*nonfinite)(const VaeQueue *q, const VaeNonfiniteArgs *a);
    void (*picture_out)(const VaeQueue *q, const VaePictureOutArgs *a);
    void (*picture_in)(const VaeQueue *q, const VaePictureInArgs *a);
} VaeKernels;

/* Plain C, single-threaded, ignores VaeQueue: the reference for the others. */
extern const VaeKernels vae_kernels_ref;
/* OpenMP and vector code for the ops that oneDNN lacks; conv and attention
 * NULL. */
extern const VaeKernels vae_kernels_cpu;
/* CUDA; conv NULL, conv_matrix in its place. Only in libvae-cuda and, emulated
 * on the CPU, in tests. */
extern const VaeKernels vae_kernels_cuda;

#ifdef __cplusplus
}
#endif

#endif

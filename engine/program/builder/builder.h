/*
 * builder.h: the calls of a network's forward pass.
 *
 * A forward pass is an ordinary function over a VaeBuilder. Each call appends
 * ops to the program that is being built. The same function runs without
 * weights, too: such a dry run lists the tensors that the network requires.
 * After its first error the builder returns NULL. Pass NULL on, and check for
 * it only if you read a shape.
 *
 * Time. A convolution with kt > st is causal and has a carry. Another one has
 * no context: in each step its input must have kt frames, or a multiple of st
 * more. In a network with a delay all convolutions over time are centred, and
 * only tensors of the same delay may be added. Only one convolution over time
 * can read a tensor; vae_rearrange() of the kind VAE_FOLD_CRQ without factors
 * makes a copy for a second one. The pass runs once for the first step and once
 * for the later ones.
 *
 * Fusions. Give `add` and `relu` to a convolution, which adds first, and `silu`
 * to a norm. Write a nearest upsampling (VAE_UNFOLD_NEAREST) and the 3x3
 * convolution after it as two calls; backends may compute them as one op.
 *
 * Types. In bf16, the result of a convolution without `narrow`, of a
 * rearrangement with `wide` and of a shortcut is F32. All other results are
 * bf16. A convolution converts an F32 input itself. An added tensor must have
 * the type and the shape of the result, and an output must be F32.
 */
#ifndef VAE_BUILDER_H
#define VAE_BUILDER_H

#include "program.h"

typedef struct VaeBuilder VaeBuilder;

typedef enum VaeHead { VAE_HEAD_ZERO, VAE_HEAD_REPEAT } VaeHead;

typedef enum VaeConvPad {
    VAE_PAD_SAME,         /* k / 2 on every side */
    VAE_PAD_RIGHT_BOTTOM, /* 3x3 stride 2: right and bottom by 1 only */
    VAE_PAD_REFLECT,      /* 3x3: 1 on every side, x[-1] = x[1] */
    VAE_PAD_REPLICATE     /* 3x3: 1 on every side, x[-1] = x[0] */
} VaeConvPad;

typedef struct VaeConv {
    int c;      /* output channels */
    int k;      /* 1, 3 or 5; 0 means 1 */
    int kt;     /* 1, 2, 3 or 5; 0 means 1. The carry has kt - st frames */
    int s, st;  /* 0 means 1 */
    int lead;   /* with VAE_HEAD_REPEAT: additional copies of frame 0 before the
                   first step */
    int groups; /* 0 means 1. The file's weight is [out, in / groups, k, k].
                   Computed as one group, with zeros as the other weights */
    VaeConvPad pad;
    /* kt 3 or 5: reads as many frames before as after its own. The network
     * then has a delay. x is a delay line, or becomes one. */
    bool centred;
    bool two_d;  /* the file's weight is [out, in, k, k] */
    bool linear; /* the file's weight is [out, in] */
    bool no_bias;
    bool relu;
    bool narrow; /* the result has the type of convolutions' inputs, because
                    nothing is added to it */
    VaeTaps taps;
    /* A tensor to add, or NULL. The sum is written over it, so nothing may read
     * it later. With keep, the sum is a tensor of its own: set it if another op
     * reads `add` later, or if `add` is also this convolution's input. */
    const VaeTensor *add;
    bool keep;
    /* Up to three names, relative like the op's own, whose weights are
     * stacked (q, k, v); then c is the sum. NULL: the op's name. */
    const char *stack[3];
    /* A tensor [c] with a factor for each output channel, relative like the
     * op's own name, or NULL. */
    const char *gate;
} VaeConv;

/* Enters a block: later names are relative to the names of all entered blocks,
 * joined by dots. vae_leave() leaves it; the last op's result is the block's
 * result. */
void vae_enter(VaeBuilder *b, const char *format, ...) VAE_PRINTF(2, 3);
void vae_leave(VaeBuilder *b);

/* True while the program for the first step of a sequence is built. */
bool vae_is_first(const VaeBuilder *b);
/* The architecture's own description, filled in by its recognise(). */
const void *vae_arch_data(const VaeBuilder *b);

/* The program's input: latents (t, h, w, Z) or pictures (t, H, W, 3
 * or 4). */
const VaeTensor *vae_input(VaeBuilder *b);
/* Ends the program. x: the latents (c = Z, 2Z, or Z + 1 with one logvar) or
 * pictures (c = 3, or 4 with alpha). If x has more frames than the step gives,
 * the last ones are the result. */
void vae_output(VaeBuilder *b, const VaeTensor *x);

/* Weights: name.weight, name.bias. name "" is the entered path itself. */
const VaeTensor *vae_conv(VaeBuilder *b, const char *name, const VaeTensor *x,
                          VaeConv conv);
/*
 * For networks with a delay, see delay.h. Makes the delay line of x: the last
 * `frames` frames of the run before, then x, with copies of the sequence's
 * first frame before it and of its last frame after it. A norm of a line can be
 * the input of a centred convolution of frames + 1 taps in time.
 */
const VaeTensor *vae_line(VaeBuilder *b, const char *name, const VaeTensor *x,
                          int frames);
/* The x of a line, so many frames ago: the delay of one or two centred
 * convolutions. */
const VaeTensor *vae_delayed(VaeBuilder *b, const VaeTensor *line, int frames);
/*
 * vae_past() is the line of an attention over a window: the last `frames`
 * frames of the run before, then x, without copies. vae_earlier() is its x of
 * `frames` frames ago, with `lead` frames in front, which are late.
 * vae_repeat_last() appends copies of the last latent to x, which is the
 * network's input.
 */
const VaeTensor *vae_past(VaeBuilder *b, const char *name, const VaeTensor *x,
                          int frames);
const VaeTensor *vae_earlier(VaeBuilder *b, const VaeTensor *line, int frames,
                             int lead);
const VaeTensor *vae_repeat_last(VaeBuilder *b, const char *name,
                                 const VaeTensor *x, int latents);
/* RMS norm. Weight: name.gamma, of dims [c, 1, 1, 1] or, if image, [c, 1, 1].
 */
const VaeTensor *vae_rms(VaeBuilder *b, const char *name, const VaeTensor *x,
                         bool silu, bool image);
/*
 * Gains and offsets that depend on a timestep t. With s the cosines, then the
 * sines of t * multiplier * 10000^(-i / 128), i = 0..127, they are rows of
 * table [rows, c] + embedder.linear_2(silu(embedder.linear_1(s))); a gain is 1
 * more. table is relative to the path, the other names are not.
 *
 * With proj, the layers are embedder.0 and embedder.2, of `width` numbers, the
 * rows of the table are added to proj(silu(embedder.2(...))), the multiplier is
 * part of the timestep, and a gain is also multiplied by the weights of the
 * norm.
 */
typedef struct VaeModulation {
    const char *table, *embedder, *multiplier;
    int rows, offset_row, gain_row;
    double timestep;
    const char *proj;
    int width; /* at most VAE_MODULATION_WIDTH */
} VaeModulation;
enum { VAE_MODULATION_WIDTH = 1024 };
typedef enum VaeActivation { VAE_LINEAR, VAE_SILU, VAE_RELU } VaeActivation;
/* x / sqrt(mean over channels of x^2 + eps), then modulated, unless NULL. */
const VaeTensor *vae_pixel_norm(VaeBuilder *b, const char *name,
                                const VaeTensor *x, float eps,
                                VaeActivation activation,
                                const VaeModulation *modulation);
/* The same, times name.weight of dims [c]. */
const VaeTensor *vae_gain_norm(VaeBuilder *b, const char *name,
                               const VaeTensor *x, float eps,
                               const VaeModulation *modulation);
/* Group norm of each frame or, in a network of tiles of latents, of all frames
 * together. Weights: name.weight, name.bias, of dims [c]. */
typedef struct VaeGroups {
    int n;
    float eps;       /* 0 means 1e-6 */
    bool silu, relu; /* at most one */
} VaeGroups;
const VaeTensor *vae_group_norm(VaeBuilder *b, const char *name,
                                const VaeTensor *x, VaeGroups groups);
/* qkv (t, h, w, 3c) -> (t, h, w, c), one head. A query reads the keys of its
 * own frame; in vae_attention_so_far() also those of all earlier latents, or of
 * as many as the setting `history` states. In a network of tiles of latents,
 * the earlier ones are those of the tile. qkv then has a frame for each latent.
 */
const VaeTensor *vae_attention(VaeBuilder *b, const char *name,
                               const VaeTensor *qkv);
const VaeTensor *vae_attention_so_far(VaeBuilder *b, const char *name,
                                      const VaeTensor *qkv);
/*
 * Attention over a window of frames, rows and columns, see VaeWindowArgs; for
 * networks with a delay. Weights: name.q_norm.weight and name.k_norm.weight.
 * qkv is computed from a line of 3d frames, where d is kt / 2. The result has a
 * delay of d more, and d frames before its slot 0: as the first d frames of a
 * sequence read a window that is not around them, they are computed when frame
 * d is.
 */
typedef struct VaeAttentionWindow {
    int kt, kh, kw; /* odd */
} VaeAttentionWindow;
const VaeTensor *vae_attention_window(VaeBuilder *b, const char *name,
                                      const VaeTensor *qkv,
                                      VaeAttentionWindow window);
/* (t, h, w, 2c) -> (t, h, w, c): the second half of the channels times the SiLU
 * of the first. */
const VaeTensor *vae_glu(VaeBuilder *b, const char *name, const VaeTensor *x);
/* Normal numbers for the pictures of a tensor with the frames of `like`, in
 * patches of side x side pixels: 3 * side * side channels. */
const VaeTensor *vae_noise(VaeBuilder *b, const char *name,
                           const VaeTensor *like, int side);
/*
 * Calls block() for a few frames of x after the others, as many as have so many
 * pixels, so that its tensors are small. block() keeps no frames. It adds to x,
 * or its last op writes a new tensor, which is then a part of the result.
 */
const VaeTensor *vae_in_groups(VaeBuilder *b, const VaeTensor *x, int pixels,
                               const VaeTensor *(*block)(VaeBuilder *b,
                                                         const VaeTensor *x));
typedef struct VaeMove {
    VaeRearrange kind;
    int ft, fs; /* 0 means 1 */
    int drop;
    bool wide; /* the result is F32, for an output or a sum */
} VaeMove;
const VaeTensor *vae_rearrange(VaeBuilder *b, const char *name,
                               const VaeTensor *x, VaeMove move);
/* The same of patches of `side` pixels, to F32; x if side is 1. */
const VaeTensor *vae_patches(VaeBuilder *b, const char *name,
                             const VaeTensor *x, VaeRearrange kind, int side);
typedef struct VaeShortcutMove {
    VaeShortcut kind;
    int ft, fs;  /* factors in time and space; 0 means 1 */
    bool repeat; /* where frames before frame 0 are missing: copies of it */
    bool channels_fast; /* see VaeShortcutArgs */
    bool single; /* each frame of x is a clip of its own, and gives one frame:
                    the last one of its dup */
} VaeShortcutMove;
/* y + dup or average of x, written over y. An average with fs 1 and ft 1 is y +
 * x. */
const VaeTensor *vae_shortcut(VaeBuilder *b, const char *name,
                              const VaeTensor *y, const VaeTensor *x,
                              VaeShortcutMove move);
/* 3 tanh(x / 3). */
const VaeTensor *vae_clamp(VaeBuilder *b, const char *name, const VaeTensor *x);
/* (t, h, w, n) -> (t, h, w, 2n), 7x7 on each frame and the one before; carries
 * one frame; name.weight [2n, 1, 7, 7]. */
const VaeTensor *vae_depthwise(VaeBuilder *b, const char *name,
                               const VaeTensor *x);
/* For a convolution that the first step skips: sets its carry, of so many
 * frames like those of x, to zero. */
void vae_carry_zero(VaeBuilder *b, const char *name, const VaeTensor *x,
                    int frames);
/* For such a convolution: sets its carry to the last frames of x. */
void vae_carry_keep(VaeBuilder *b, const char *name, const VaeTensor *x,
                    int frames);
/* The builder keeps its first error; later calls do nothing. */
void vae_builder_fail(VaeBuilder *b, VaeStatus status, const char *format, ...)
    VAE_PRINTF(3, 4);

/* Sets the context of causal convolutions in the first step. Default: zeros. */
void vae_set_head(VaeBuilder *b, VaeHead head);

#endif

/*
 * program.h: a model's forward pass as a flat list of ops.
 *
 * Model files call the builder functions below; building yields a VaeProgram.
 * The same model code runs with weights at hand and without (to learn which
 * tensors, of which shapes, it wants).
 */
#ifndef VAE_PROGRAM_H
#define VAE_PROGRAM_H

#include "vae-private/model.h"
#include "kernels.h"

typedef struct VaeShape {
    int t, h, w, c;
} VaeShape;

typedef struct VaeBuilder VaeBuilder;
typedef struct VaeProgram VaeProgram;

/* What survives a step: the last `frames` frames of a slab. One per conv with
 * memory, shared by name between the programs of a stream. */
typedef struct VaeCarry {
    char *name;
    int frames;
    int h, w, c;
    VaeType type;
    size_t bytes;
    size_t offset; /* in the stream's carry block, 64-byte aligned */
} VaeCarry;

/*
 * A named activation. In memory: ctx context frames, then shape.t frames, all
 * packed. root: the tensor whose memory it shares (itself, or the `add` it
 * is computed into); front: context frames that the shared memory has room
 * for. offset is that of frame 0 of the body, from the arena's start.
 */
typedef struct VaeTensor {
    char *name;
    VaeShape shape;
    VaeType type;
    int ctx, front;
    struct VaeTensor *root;
    int first_op, last_op; /* of the root: over all that share */
    size_t offset;
    int id;
    bool lost; /* while a program is checked: a sum was written over it */
} VaeTensor;

typedef enum VaeWeightKind {
    VAE_WEIGHT_CONV,      /* [out, in, kt, kh, kw], 2-D and linear with ones */
    VAE_WEIGHT_DEPTHWISE, /* [c, 1, 1, k, k] */
    VAE_WEIGHT_VECTOR
} VaeWeightKind;

/*
 * Where a file keeps the frames of a kernel: in its own dimension, or stacked
 * along the input channels, block after block.
 */
typedef enum VaeTaps {
    VAE_TAPS_OWN,
    VAE_TAPS_NEWEST_FIRST, /* [out, kt * in, k, k], TAE's memory blocks */
    VAE_TAPS_OLDEST_FIRST  /* the same, TAE's pooling in time */
} VaeTaps;

/*
 * One parameter as an op wants it; up to three file tensors stacked along
 * their first dimension (q, k, v). `part` is NULL when building without
 * weights.
 */
typedef struct VaeWeight {
    VaeWeightKind kind;
    VaeTaps taps;
    int n_parts;
    const VaeTensorInfo *part[3];
    const VaeTensorFile *file; /* that the parts lie in, or NULL */
    int dims[5];               /* of all parts together */
    int id;                    /* canonical index of part 0 in the model */
} VaeWeight;

/* Of an op that doubles what it reads (VaeOp's conv.up), the pixels of rows
 * 2i + row and columns 2j + column. */
typedef struct VaePhase {
    int row, column; /* 0 or 1 each */
} VaePhase;
enum { VAE_PHASES = 4 };
/* Phase i: columns before rows. */
VaePhase vae_phase(int i);
/* n kernels of 3x3 taps -> the 2x2 of a phase: sums of the taps that meet one
 * pixel of the small picture. dst may be src. */
void vae_phase_taps(float *dst, const float *src, size_t n, VaePhase phase);

size_t vae_weight_count(const VaeWeight *w);
/* The numbers as floats in the order of dims; afterwards the process holds the
 * file's pages with them no more. */
void vae_weight_read(const VaeWeight *w, float *dst);
/* Whether they lie in the file so, as F32 or BF16 in one piece that is aligned
 * for its type; who reads them there calls vae_weight_drop() afterwards. */
bool vae_weight_lies(const VaeWeight *w);
void vae_weight_drop(const VaeWeight *w);

typedef enum VaeOpKind {
    VAE_OP_LATENT_IN,
    VAE_OP_PICTURE_IN,
    VAE_OP_LATENT_OUT,
    VAE_OP_PICTURE_OUT,
    VAE_OP_HEAD_ZERO,   /* slab context of x <- 0 */
    VAE_OP_HEAD_REPEAT, /* slab context of x <- its frame 0 */
    VAE_OP_HEAD_CARRY,  /* slab context of x <- carry */
    VAE_OP_TAIL,        /* carry <- last frames of the slab of x */
    VAE_OP_CARRY_ZERO,  /* carry <- 0 */
    VAE_OP_CONV,        /* with a carry: that is x's context */
    VAE_OP_NORM,
    VAE_OP_ATTENTION,
    VAE_OP_REARRANGE,
    VAE_OP_CAST,
    VAE_OP_SHORTCUT, /* y += dup or average of x */
    VAE_OP_CLAMP,
    VAE_OP_DEPTHWISE,
    VAE_OP_KINDS
} VaeOpKind;

const char *vae_op_name(VaeOpKind kind);

typedef struct VaeOp {
    VaeOpKind kind;
    const char *name; /* checkpoint path */
    VaeTensor *x, *y, *add;
    VaeCarry *carry;
    VaeWeight *weight, *bias;
    union {
        struct {
            int k, kt, s, st, pad;
            bool relu;
            bool up; /* reads each pixel of x as 2x2, see vae_conv_up() */
            /* In tiles of 2x2 pixels, by sixteen kernels of one tap each. */
            bool tiles;
        } conv;
        struct {
            VaeNormKind kind;
            int groups;
            bool silu;
        } norm;
        struct {
            VaeRearrange kind;
            int ft, fs, drop;
        } rearrange;
        struct {
            VaeShortcut kind;
            int ft, fs, drop;
        } shortcut;
        int trim; /* of outputs: frames left out in front */
    };
    const char *block; /* y is the result of this block, or NULL (dumps) */
    double flop, bytes;
} VaeOp;

struct VaeProgram {
    const char *label; /* "first", "next", "next1", "cold" */
    VaeDirection direction;
    int steps;       /* steps in one run */
    int n_in, n_out; /* units in one run */
    VaeOp *ops;
    int n_ops;
    VaeTensor **tensors;
    int n_tensors;
    size_t arena; /* bytes, set by vae_program_plan() */
    double flop, bytes;
    struct VaeChunk *chunks; /* all that ops and tensors point to */
};

/* ------------------------------------------------------------------ */
/* The builder, for model files.                                       */

typedef enum VaeHead { VAE_HEAD_ZERO, VAE_HEAD_REPEAT } VaeHead;

typedef enum VaeConvPad {
    VAE_PAD_SAME,        /* k / 2 on every side */
    VAE_PAD_RIGHT_BOTTOM /* 3x3 stride 2: right and bottom by 1 only */
} VaeConvPad;

typedef struct VaeConv {
    int c;     /* output channels */
    int k;     /* 1 or 3; 0 means 1 */
    int kt;    /* 1 to 3; 0 means 1. Keeps kt - st frames of carry */
    int s, st; /* 0 means 1 */
    VaeConvPad pad;
    bool two_d;  /* the file's weight is [out, in, k, k] */
    bool linear; /* the file's weight is [out, in] */
    bool no_bias;
    bool relu;
    bool narrow; /* nothing is added to the result: keep it as convs do */
    VaeTaps taps;
    /* Residual, or NULL. The sum is written over it, so it must not be read
     * later, unless keep. */
    const VaeTensor *add;
    bool keep;
    /* Up to three names, relative like the op's own, whose weights are
     * stacked (q, k, v); then c is the sum. NULL: the op's name. */
    const char *stack[3];
} VaeConv;

/* Path: names below are relative to all entered names, joined by dots.
 * vae_leave() marks the last op's result as the block's. */
void vae_enter(VaeBuilder *b, const char *format, ...) VAE_PRINTF(2, 3);
void vae_leave(VaeBuilder *b);

/* True while the program for the first step of a sequence is built. */
bool vae_is_first(const VaeBuilder *b);
/* What the file says, filled by the architecture's recognise(). */
const void *vae_arch_data(const VaeBuilder *b);

/* The program's input: latents (t, h, w, Z) or pictures (t, H, W, 3). */
const VaeTensor *vae_input(VaeBuilder *b);
/* Ends the program with x as the latents (c = Z or 2Z) or pictures (c = 3); of
 * more frames than the step gives, the last are taken. */
void vae_output(VaeBuilder *b, const VaeTensor *x);

/* name.weight, name.bias. name "" is the entered path itself. */
const VaeTensor *vae_conv(VaeBuilder *b, const char *name, const VaeTensor *x,
                          VaeConv conv);
/*
 * VAE_UNFOLD_NEAREST of x by ft in time and 2 in space, named unfold, and a
 * conv of k 3 and nothing else but relu and narrow behind it: (t, h, w, ft * n)
 * -> (t * ft, 2h, 2w, c). Where the backend's conv reads a picture as if it
 * were doubled, unfold only deals out frames, or (ft 1) is not there.
 */
const VaeTensor *vae_conv_up(VaeBuilder *b, const char *unfold,
                             const char *name, const VaeTensor *x, int ft,
                             VaeConv conv);
/* name.gamma, of dims [c, 1, 1, 1] or, where image, [c, 1, 1]. */
const VaeTensor *vae_rms(VaeBuilder *b, const char *name, const VaeTensor *x,
                         bool silu, bool image);
/* name.weight, name.bias of dims [c]. */
const VaeTensor *vae_group_norm(VaeBuilder *b, const char *name,
                                const VaeTensor *x, int groups, bool silu);
/* qkv (t, h, w, 3c) -> (t, h, w, c). */
const VaeTensor *vae_attention(VaeBuilder *b, const char *name,
                               const VaeTensor *qkv);
typedef struct VaeMove {
    VaeRearrange kind;
    int ft, fs; /* 0 means 1 */
    int drop;
    bool wide; /* the result is F32, for an output or a sum */
} VaeMove;
const VaeTensor *vae_rearrange(VaeBuilder *b, const char *name,
                               const VaeTensor *x, VaeMove move);
/* y + dup or average of x, written over y; fs 1 and ft 1 average is y + x. */
const VaeTensor *vae_shortcut(VaeBuilder *b, const char *name,
                              const VaeTensor *y, const VaeTensor *x,
                              VaeShortcut kind, int ft, int fs);
/* 3 tanh(x / 3). */
const VaeTensor *vae_clamp(VaeBuilder *b, const char *name, const VaeTensor *x);
/* (t, h, w, n) -> (t, h, w, 2n), 7x7 on each frame and the one before; carries
 * one frame; name.weight [2n, 1, 7, 7]. */
const VaeTensor *vae_depthwise(VaeBuilder *b, const char *name,
                               const VaeTensor *x);
/* A conv that the first step bypasses: its carry (frames of x's h, w, c) is
 * left zero, or holds the last frames of x. */
void vae_carry_zero(VaeBuilder *b, const char *name, const VaeTensor *x,
                    int frames);
void vae_carry_keep(VaeBuilder *b, const char *name, const VaeTensor *x,
                    int frames);
/* The builder keeps its first error; later calls do nothing. */
void vae_builder_fail(VaeBuilder *b, VaeStatus status, const char *format, ...)
    VAE_PRINTF(3, 4);

/* How causal convs of this model begin; zero unless set. */
void vae_set_head(VaeBuilder *b, VaeHead head);

/* ------------------------------------------------------------------ */
/* For the engine.                                                     */

size_t vae_frame_bytes(const VaeTensor *t);

/* Places tensors with disjoint lifetimes in one arena; sets offsets and
 * program->arena; false when memory is out. A block starts 64-byte aligned;
 * its body does where a frame's bytes are a multiple of 64. */
bool vae_program_plan(VaeProgram *program);
void vae_program_free(VaeProgram **program);

#endif

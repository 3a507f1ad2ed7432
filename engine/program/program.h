/*
 * program.h: a network's forward pass as a flat list of ops.
 */
#ifndef VAE_PROGRAM_H
#define VAE_PROGRAM_H

#include "vae-private/model.h"
#include "kernels.h"

typedef struct VaeShape {
    int t, h, w, c;
} VaeShape;

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

size_t vae_weight_count(const VaeWeight *w);
/* The numbers as floats in the order of dims; afterwards the process holds the
 * file's pages with them no more. */
void vae_weight_read(const VaeWeight *w, float *dst);
/* Whether they lie in the file so, as F32 or BF16 in one piece that is aligned
 * for its type; who reads them there calls vae_weight_drop() afterwards. */
bool vae_weight_is_direct(const VaeWeight *w);
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
    VAE_OP_NORM,        /* with a carry: its last frames go there, too */
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
            bool up;       /* reads each pixel of x as 2x2; see fuse.h */
            bool winograd; /* by F(2x2, 3x3) in space */
        } conv;
        struct {
            VaeNormKind kind;
            int groups;
            bool silu;
            bool fills_context; /* copies the carry in front of y first */
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

size_t vae_frame_bytes(const VaeTensor *t);

/* Places tensors with disjoint lifetimes in one arena; sets offsets and
 * program->arena; false when memory is out. A block starts 64-byte aligned;
 * its body does where a frame's bytes are a multiple of 64. */
bool vae_program_plan(VaeProgram *program);
void vae_program_free(VaeProgram **program);

/*
 * How many steps back a later step's results look: they depend on the input of
 * that step and of the *steps before it, and on nothing older. False when
 * memory is out.
 */
bool vae_program_receptive_field(const VaeProgram *program, int *steps);

/* Operations of each op, and bytes that it reads and writes once; and their
 * sums. */
void vae_program_count(VaeProgram *program);

#endif

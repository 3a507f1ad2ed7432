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

/* State from one step to the next: the last `frames` frames of a slab. Each
 * causal convolution has a carry. Programs of a stream share carries by name.
 */
typedef struct VaeCarry {
    char *name;
    int frames;
    int h, w, c;
    VaeType type;
    size_t bytes;
    size_t offset; /* offset in a copy of all carries (a checkpoint); 64-byte
                      aligned */
    bool spilled;  /* it is in the host's memory, not the device's */
    size_t place;  /* offset in the memory of the spilled carries, or in that
                      of the others; of a history: in the bytes of a latent */
    bool grows;    /* this is a history: it has a frame of K | V, of `bytes`
                      bytes, for each latent so far. The copy of all carries
                      does not have it */
    size_t stride; /* of a history: bytes of a latent in all histories */
    int each;      /* of a history: latents of a block, see VaeHistory */
} VaeCarry;

/*
 * A named activation. Several tensors may share the memory of one of them,
 * their root. All frames are packed:
 *
 *     root:   | front frames of context | frame 0 | frame 1 | ... |
 *     tensor:                    | ctx frames | body: shape.t frames |
 *
 * If a tensor shares a larger picture's memory, its frames are as far apart as
 * those of the root.
 */
typedef struct VaeTensor {
    char *name;
    VaeShape shape;
    VaeType type;
    int rate, lead, delay;  /* of a network with a delay, see delay.h */
    int late, held, ghosts; /* the same */
    struct VaeTensor *view; /* the tensor of which this one is a part; NULL: it
                               is no part */
    int ctx;                /* context frames before the body */
    int front;              /* of a root: context frames before frame 0 */
    int from;               /* frame of the root that is this one's frame 0 */
    int row, rows;          /* it has the rows from `row` on of a picture of
                               `rows` rows; rows 0: all rows */
    struct VaeTensor *root; /* itself, or the tensor whose memory it shares,
                               such as the `add` that it replaces */
    int first_op,
        last_op;   /* of a root: the first and last op that use its memory */
    size_t offset; /* from the arena's start to frame 0 of the body */
    int id;
    bool lost;   /* a sum was written over it; for a check of the builder */
    bool hidden; /* it has no memory: only a norm with `done` reads it, or only
                    a norm with `late` has it as its result */
} VaeTensor;

typedef enum VaeWeightKind {
    VAE_WEIGHT_CONV,      /* [out, in, kt, kh, kw], 2-D and linear with ones */
    VAE_WEIGHT_DEPTHWISE, /* [c, 1, 1, k, k] */
    VAE_WEIGHT_VECTOR
} VaeWeightKind;

/*
 * The order of a kernel's frames in a file: a dimension of their own, or blocks
 * stacked along the input channels.
 */
typedef enum VaeTaps {
    VAE_TAPS_OWN,
    VAE_TAPS_NEWEST_FIRST, /* [out, kt * in, k, k], TAE's memory blocks */
    VAE_TAPS_OLDEST_FIRST  /* the same, TAE's pooling in time */
} VaeTaps;

typedef enum VaeModulated {
    VAE_MODULATION_NONE,
    VAE_MODULATION_GAIN,
    VAE_MODULATION_OFFSET
} VaeModulated;

/*
 * One parameter of an op: up to three tensors of the file, stacked along their
 * first dimension (q, k, v), or what a modulated norm needs (see builder.h),
 * from whose tensors it is computed. n_parts is 0 in a dry run.
 */
typedef struct VaeWeight {
    VaeWeightKind kind;
    VaeTaps taps;
    int groups; /* of a convolution; 0 and 1: none. dims has all input channels
                 */
    VaeModulated modulation;
    int row;         /* of a modulation: first row of the table */
    double timestep; /* of a modulation */
    int n_parts;
    bool gated; /* the last part has a factor for each output channel */
    const VaeTensorInfo *part[8];
    const VaeTensorFile *file; /* the file with the parts, or NULL */
    int dims[5];               /* of all parts stacked */
    int id;                    /* canonical index of part 0 in the model */
} VaeWeight;

size_t vae_weight_count(const VaeWeight *w);
/* Reads the parts from their file into memory. The caller holds a lock, see
 * vae_tensor_file_fetch(). Errors: VAE_ERR_READ; VAE_ERR_MODEL for values that
 * are not finite. */
VaeStatus vae_weight_fetch(const VaeWeight *w, VaeError *error);
/* Drops the parts that vae_weight_fetch() has read. */
void vae_weight_drop(const VaeWeight *w);
/* Converts the values to floats, in the order of dims. A channel of another
 * group has the weight 0. */
void vae_weight_read(const VaeWeight *w, float *dst);
/* Computes the values of a modulation, see modulation.c. */
void vae_modulation_read(const VaeWeight *w, float *dst);
/* True if the file has the values in that order, in one block, and each takes
 * at most the bytes of a float. */
bool vae_weight_is_whole(const VaeWeight *w);
/* True if vae_weight_is_whole(), and the block is aligned and of F32 or BF16.
 */
bool vae_weight_is_direct(const VaeWeight *w);
/* Reads n values of a whole weight from its file, from value `first` on, and
 * converts them to floats. room: for n floats. It need not be fetched. Any
 * thread may call. Errors: those of vae_weight_fetch(). */
VaeStatus vae_weight_read_some(const VaeWeight *w, size_t first, size_t n,
                               float *dst, void *room, VaeError *error);

typedef enum VaeOpKind {
    VAE_OP_LATENT_IN,
    VAE_OP_PICTURE_IN,
    VAE_OP_LATENT_OUT,
    VAE_OP_PICTURE_OUT,
    VAE_OP_HEAD_ZERO,   /* slab context of x <- 0 */
    VAE_OP_HEAD_REPEAT, /* slab context of x <- its frame 0 */
    VAE_OP_HEAD_CARRY,  /* slab context of x <- carry */
    VAE_OP_TAIL,        /* carry <- last frames of the slab of x */
    VAE_OP_EDGE, /* copies the first and the last frame of the sequence to the
                    slots of x beside them, see delay.h */
    VAE_OP_CARRY_ZERO, /* carry <- 0 */
    VAE_OP_CONV,       /* with a carry: reads its context from it */
    VAE_OP_NORM,       /* with a carry: also writes its last frames to it. add:
                          statistics that another op has computed */
    VAE_OP_NORM_SUMS,  /* y <- the statistics of a norm of x */
    VAE_OP_ATTENTION,  /* with a carry: over the history that it is */
    VAE_OP_WINDOW, /* attention over a window; weight and bias: the gains of q
                      and of k */
    VAE_OP_GLU,    /* y <- the second half of x's channels * silu(the first) */
    VAE_OP_NOISE,  /* y <- normal numbers */
    VAE_OP_REARRANGE,
    VAE_OP_CAST,
    VAE_OP_SHORTCUT, /* y += dup or average of x */
    VAE_OP_CLAMP,
    VAE_OP_DEPTHWISE,
    /* Copies between the window x and host memory, see prefetch.h. */
    VAE_OP_FETCH,
    VAE_OP_FETCHED,
    VAE_OP_STORE,
    VAE_OP_STORED,
    VAE_OP_KINDS
} VaeOpKind;

const char *vae_op_name(VaeOpKind kind);

typedef struct VaeOp {
    VaeOpKind kind;
    const char *name; /* checkpoint path */
    VaeTensor *x, *y, *add;
    VaeCarry *carry;
    VaeTensor *window; /* the window of a spilled carry, or NULL */
    VaeWeight *weight, *bias;
    union {
        struct {
            int k, kt, s, st, pad;
            bool relu;
            bool up;       /* reads each pixel of x as 2x2; see fuse.h */
            bool winograd; /* in Winograd tiles, see cpu/winograd.c */
            bool normed;   /* also computes the norm vae_norm_behind() */
            bool fronted;  /* reads x through the norm vae_norm_in_front() */
            bool wide;     /* its layer's result is of x's type, but y is F32 */
        } conv;
        struct {
            VaeNormKind kind;
            int groups;
            float eps;
            bool silu, relu;
            bool all_frames;    /* of a group norm: they have one mean */
            bool fills_context; /* first copies the carry to the context of y */
            bool done;          /* the convolution that makes x computes it */
            bool late; /* it comes after the convolution that reads x through
                          it, and only writes the carry */
        } norm;
        struct {
            VaeRearrange kind;
            int ft, fs, drop;
            int phase; /* the first of the ft frames to take from the channels
                        */
        } rearrange;
        struct {
            VaeShortcut kind;
            int ft, fs, drop;
            bool repeat, channels_fast;
            bool single; /* each frame of x is a clip of its own */
        } shortcut;
        struct {
            int window; /* latents that a query of a history reads, with its
                           own; 0: all so far */
            int first;  /* frame of the run that frame 0 of x is */
        } attention;
        struct {
            int kt, kh, kw;
            int shift; /* frame of x whose queries frame 0 of y has */
        } window_of;
        struct {
            int side; /* of the patches of pixels in the channels */
        } noise;
        struct {      /* of units */
            int trim; /* number of first frames that are no frames of the
                         video. An output op skips those of x, an input op makes
                         those of y black */
        };
    };
    int group; /* number of the group of frames, from 1; 0: all frames, see
                  split.h. All groups use the weights of the first */
    int strip; /* number of the strip of rows, from 1; 0: all rows, see
                  strips.h. All strips use the weights of the first */
    int range; /* 1 + the number of later steps whose results depend on the op,
                  see vae_program_set_ranges(); 0: it always runs */
    const char *block; /* y is the result of this block, or NULL (dumps) */
    double flop, bytes;
} VaeOp;

struct VaeProgram {
    const char *label; /* "first", "next", "next1", "without-context" */
    VaeDirection direction;
    int steps;       /* steps in one run */
    int n_in, n_out; /* units in one run */
    VaeOp *ops;
    int n_ops;
    VaeTensor **tensors;
    int n_tensors;
    size_t arena; /* bytes, set by vae_program_plan() */
    double flop, bytes;
    struct VaeChunk *chunks; /* memory of names, tensors and weights */
    VaeTensor *parts;        /* the tensors that split.h adds, or NULL */
    VaeTensor *row_parts;    /* those of strips.h */
    VaeTensor *windows;      /* those of prefetch.h */
    int group;               /* frames computed at once, see split.h; 0: all */
    int strips;      /* strips of rows, see strips.h; 0: whole pictures */
    int whole_slabs; /* slabs of which the backend cannot compute strips */
    bool whole;      /* the run is one sequence; its steps have no frames of
                        their own */
    bool delayed;    /* the network has delay lines, see delay.h */
};

/* The tensor whose memory t shares, before and after planning. */
static inline VaeTensor *
vae_root_of(VaeTensor *t)
{
    while (t->root != t)
        t = t->root;
    return t;
}

/* True if the op writes the context of a slab. */
static inline bool
vae_op_is_head(const VaeOp *op)
{
    return op->kind == VAE_OP_HEAD_ZERO || op->kind == VAE_OP_HEAD_REPEAT ||
           op->kind == VAE_OP_HEAD_CARRY;
}

size_t vae_frame_bytes(const VaeTensor *t);
/* Bytes from one row to the next. */
static inline size_t
vae_row_bytes(const VaeTensor *t)
{
    return vae_frame_bytes(t) / (size_t) t->shape.h;
}
/* Bytes from one frame to the next, known after planning. */
static inline size_t
vae_frame_stride(const VaeTensor *t)
{
    return vae_frame_bytes(t->root);
}
static inline size_t
vae_carry_frame(const VaeCarry *carry)
{
    return carry->bytes / (size_t) carry->frames;
}
/* The rows of the whole picture. */
static inline int
vae_picture_rows(const VaeTensor *t)
{
    return t->rows ? t->rows : t->shape.h;
}

/* True if Winograd's method can compute the convolution. */
static inline bool
vae_can_winograd(const VaeOp *op)
{
    return op->conv.k == 3 && (op->conv.kt == 3 || op->conv.kt == 1) &&
           op->conv.s == 1 && op->conv.st == 1 && op->conv.pad <= 1 &&
           !op->conv.up && op->x->type == VAE_TYPE_F32 &&
           op->y->type == VAE_TYPE_F32;
}
/* Winograd's products in time of a tile: four for a pair of frames, or one for
 * a frame if the kernel has no time. */
static inline int
vae_tile_times(const VaeOp *op)
{
    return op->conv.kt == 1 ? 1 : 4;
}
/* The number of equal parts of the op's frames whose bytes must not depend on
 * each other: those of each step. */
static inline int
vae_op_steps(const VaeProgram *p, const VaeOp *op)
{
    return op->group || p->whole ? 1 : p->steps;
}
/* 1 if the op's first frame is the second one of a pair, otherwise 0. */
static inline int
vae_tile_odd(const VaeProgram *p, const VaeOp *op)
{
    const bool pairs = op->group && vae_tile_times(op) > 1;
    return pairs ? (op->group - 1) * p->group % 2 : 0;
}

/* True if op computes the statistics of a group norm. */
static inline bool
vae_op_adds_up(const VaeOp *op)
{
    return op->kind == VAE_OP_NORM_SUMS ||
           (op->kind == VAE_OP_NORM && op->norm.kind == VAE_NORM_GROUP &&
            !op->add);
}
/* The shape of x over which a norm takes its means. Frames with one mean count
 * as one of all their rows. */
static inline VaeShape
vae_norm_shape(const VaeOp *op, const VaeTensor *x)
{
    VaeShape s = x->shape;
    if (op->norm.all_frames) {
        s.h *= s.t;
        s.t = 1;
    }
    return s;
}
/* True if t has only some rows of a picture. */
static inline bool
vae_is_rows(const VaeTensor *t)
{
    return t && t->shape.h != t->root->shape.h;
}
/* Rows of zeros above the first row that a convolution reads. */
static inline int
vae_conv_top(const VaeOp *op)
{
    return op->conv.pad + op->x->row - op->y->row * op->conv.s;
}

/* The index of the norm that convolution i also computes, see fuse.h; -1: none.
 */
static inline int
vae_norm_behind(const VaeProgram *p, int i)
{
    const VaeOp *conv = &p->ops[i];
    if (conv->kind != VAE_OP_CONV || !conv->conv.normed)
        return -1;
    while (p->ops[i].kind != VAE_OP_NORM || p->ops[i].x != conv->y)
        i++;
    return i;
}

/* The index of the norm through which convolution i reads x; -1: none. */
static inline int
vae_norm_in_front(const VaeProgram *p, int i)
{
    const VaeOp *conv = &p->ops[i];
    if (conv->kind != VAE_OP_CONV || !conv->conv.fronted)
        return -1;
    while (p->ops[i].kind != VAE_OP_NORM || p->ops[i].x != conv->x)
        i++;
    return i;
}

/* Places all tensors in one arena. Tensors whose lifetimes do not overlap share
 * memory. Sets their offsets and program->arena. Blocks begin at multiples of
 * 64 bytes, and so do bodies if the bytes of a frame are a multiple of 64.
 * False: out of memory. */
bool vae_program_plan(VaeProgram *program);
/* About the bytes of the program's own lists. */
static inline size_t
vae_program_bytes(const VaeProgram *p)
{
    return (size_t) p->n_ops * sizeof(VaeOp) +
           (size_t) p->n_tensors * (sizeof(VaeTensor) + sizeof(VaeTensor *));
}
void vae_program_free(VaeProgram **program);

/*
 * Sets *steps to the number of earlier steps that a step's results depend on.
 * False: out of memory.
 */
bool vae_program_receptive_field(const VaeProgram *program, int *steps);
/* Sets the range of each op of a program of one later step. A program with
 * delay lines has none. False: out of memory. */
bool vae_program_set_ranges(VaeProgram *program);

/* Sets the operations of each op, the bytes that it reads and writes, and the
 * sums of both over the program. */
void vae_program_count(VaeProgram *program);

#endif

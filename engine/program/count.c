/*
 * count.c: operations and bytes of a program.
 */
#include "program.h"

size_t
vae_frame_bytes(const VaeTensor *t)
{
    return (size_t) t->shape.h * t->shape.w * t->shape.c *
           vae_type_size(t->type);
}

/* The frames of a run, without those that are late in another one. */
static double
frames_of(const VaeTensor *t)
{
    return t->shape.t - t->late;
}

static double
bytes_of(const VaeTensor *t)
{
    return t && !t->hidden ? (double) vae_frame_bytes(t) * frames_of(t) : 0;
}

static double
elements(const VaeTensor *t)
{
    return frames_of(t) * t->shape.h * t->shape.w * t->shape.c;
}

/* The number of Winograd kernels per frame, times the frames. A pair takes 64,
 * a frame without the other one of its pair 48, and a frame without time 16. */
static int
count_kernels(const VaeProgram *p, const VaeOp *op)
{
    const int steps = vae_op_steps(p, op);
    const int frames = op->y->shape.t / steps;
    const int alone = vae_tile_odd(p, op);
    const int rest = frames - alone;
    if (vae_tile_times(op) == 1)
        return 16 * op->y->shape.t;
    return steps * (48 * (alone + rest % 2) + 64 * (rest / 2));
}

static void
count_conv(const VaeProgram *p, VaeOp *op)
{
    const VaeTensor *x = op->x, *y = op->y;
    /* Context frames that the convolution reads. It reads x up to the last
     * frame. */
    const int context =
        (y->shape.t - 1) * op->conv.st + op->conv.kt - x->shape.t;
    double taps = op->conv.up ? 2 * 2 : op->conv.kt * op->conv.k * op->conv.k;
    double weights = op->conv.up ? 4 * taps : taps;
    if (op->conv.winograd) {
        const int tiles = ((y->shape.h + 1) / 2) * ((y->shape.w + 1) / 2);
        weights = 16 * vae_tile_times(op);
        taps = (double) count_kernels(p, op) / y->shape.t * tiles /
               (y->shape.h * y->shape.w);
    }
    const double pair = (double) x->shape.c * y->shape.c;
    op->flop = 2 * pair * taps * frames_of(y) * y->shape.h * y->shape.w;
    op->bytes = bytes_of(x) + bytes_of(y) * (op->add ? 2 : 1) +
                (double) context * (double) vae_frame_bytes(x) +
                pair * weights * (double) vae_type_size(x->type);
}

/* A norm may also copy a carry to the context of its slab, and write a carry. A
 * norm that a convolution computes (done) does not read x. A norm through which
 * a convolution reads x (late) reads only the frames of the carry. */
static void
count_norm(VaeOp *op)
{
    if (op->norm.late) {
        const double frames = op->carry->frames;
        op->flop =
            (op->norm.silu ? 8 : 4) * elements(op->x) * frames / op->x->shape.t;
        op->bytes = 2.0 * (double) op->carry->bytes;
        return;
    }
    op->flop = (op->norm.silu ? 8 : 4) * elements(op->x);
    op->bytes -= op->norm.done ? bytes_of(op->x) : 0;
    if (op->carry)
        op->bytes +=
            (op->norm.fills_context ? 3.0 : 1.0) * (double) op->carry->bytes;
}

static void
count_op(const VaeProgram *p, VaeOp *op)
{
    const VaeTensor *x = op->x, *y = op->y;
    op->flop = 0;
    op->bytes = bytes_of(x) + bytes_of(y);
    switch (op->kind) {
    case VAE_OP_LATENT_IN:
    case VAE_OP_PICTURE_IN:
        op->bytes = 2 * bytes_of(y);
        break;
    case VAE_OP_LATENT_OUT:
    case VAE_OP_PICTURE_OUT:
        op->bytes = 2 * bytes_of(x);
        break;
    case VAE_OP_HEAD_ZERO:
    case VAE_OP_HEAD_REPEAT:
    case VAE_OP_HEAD_CARRY:
        op->bytes = 2.0 * x->ctx * (double) vae_frame_bytes(x);
        break;
    case VAE_OP_TAIL:
        op->bytes = 2.0 * op->carry->frames * (double) vae_frame_bytes(x);
        break;
    case VAE_OP_CARRY_ZERO:
        op->bytes = (double) op->carry->bytes;
        break;
    case VAE_OP_FETCH:
    case VAE_OP_STORE:
        op->bytes = 2.0 * (double) op->carry->bytes;
        break;
    case VAE_OP_FETCHED:
    case VAE_OP_STORED:
    case VAE_OP_EDGE: /* copies a frame only at the ends of a sequence */
        op->bytes = 0;
        break;
    case VAE_OP_CONV:
        count_conv(p, op);
        break;
    case VAE_OP_NORM:
        count_norm(op);
        break;
    case VAE_OP_NORM_SUMS:
        op->flop = 2 * elements(x);
        break;
    case VAE_OP_ATTENTION:
        op->flop = 4 * elements(y) * (double) y->shape.h * (double) y->shape.w;
        break;
    case VAE_OP_WINDOW:
        op->flop = 4 * elements(y) * op->window_of.kt * op->window_of.kh *
                   op->window_of.kw;
        break;
    case VAE_OP_GLU:
        op->flop = 8 * elements(y);
        break;
    case VAE_OP_NOISE:
        op->flop = 30 * elements(y);
        break;
    case VAE_OP_SHORTCUT:
        op->flop = bytes_of(y) / 4;
        op->bytes = bytes_of(x) + 2 * bytes_of(y);
        break;
    case VAE_OP_DEPTHWISE:
        op->flop = 2.0 * 49 * elements(y);
        break;
    case VAE_OP_REARRANGE:
    case VAE_OP_CAST:
    case VAE_OP_CLAMP:
    case VAE_OP_KINDS:
        break;
    }
}

void
vae_program_count(VaeProgram *p)
{
    p->flop = p->bytes = 0;
    for (int i = 0; i < p->n_ops; i++) {
        count_op(p, &p->ops[i]);
        p->flop += p->ops[i].flop;
        p->bytes += p->ops[i].bytes;
    }
}

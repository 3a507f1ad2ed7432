/*
 * ops.c: the builder calls that models are written with.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "builder_state.h"

const VaeTensor *
vae_input(VaeBuilder *b)
{
    const VaeBuildParams *q = b->params;
    const bool decode = q->direction == VAE_DECODE;
    VaeOp *op = vae_builder_op(b, decode ? VAE_OP_LATENT_IN : VAE_OP_PICTURE_IN,
                               "input");
    const VaeShape shape = {.t = b->program->n_in,
                            .h = q->height,
                            .w = q->width,
                            .c = decode ? q->network.latent_channels : 3};
    VaeTensor *y = vae_builder_tensor(b, "input", shape, q->act);
    if (!op || !y)
        return NULL;
    op->y = y;
    vae_op_count(op, 0, 2 * vae_tensor_bytes(y));
    return y;
}

void
vae_output(VaeBuilder *b, const VaeTensor *x)
{
    const bool decode = b->params->direction == VAE_DECODE;
    VaeOp *op = vae_builder_op(
        b, decode ? VAE_OP_PICTURE_OUT : VAE_OP_LATENT_OUT, "output");
    if (!op)
        return;
    op->x = (VaeTensor *) x;
    vae_op_count(op, 0, 2 * vae_tensor_bytes(x));
    op->trim = x->shape.t - b->program->n_out;
    if (op->trim < 0)
        vae_builder_fail(b, VAE_ERR_MODEL,
                         "the network gives %d frames where %d were expected",
                         x->shape.t, b->program->n_out);
}

static const VaeTensor *
cast_to_act(VaeBuilder *b, const char *name, const VaeTensor *x)
{
    if (x->type == b->params->act)
        return x;
    char cast[VAE_MAX_PATH];
    snprintf(cast, sizeof cast, "%s.cast", name);
    VaeOp *op = vae_builder_op(b, VAE_OP_CAST, cast);
    VaeTensor *y = vae_builder_tensor(b, cast, x->shape, b->params->act);
    if (!op || !y)
        return NULL;
    op->x = (VaeTensor *) x;
    op->y = y;
    vae_op_count(op, 0, vae_tensor_bytes(x) + vae_tensor_bytes(y));
    return y;
}

/* Whether there is no past. */
static bool
is_empty(const VaeBuilder *b)
{
    return b->params->first || b->params->cold;
}

/* Puts ctx frames in front of x: zeros or copies of its first frame where
 * there is no past, else the carry. */
static void
add_head(VaeBuilder *b, const char *name, VaeTensor *x, int ctx,
         VaeCarry *carry)
{
    const bool empty = is_empty(b);
    const VaeOpKind kind = !empty                     ? VAE_OP_HEAD_CARRY
                           : b->head == VAE_HEAD_ZERO ? VAE_OP_HEAD_ZERO
                                                      : VAE_OP_HEAD_REPEAT;
    if (x->ctx) {
        vae_builder_fail(b, VAE_ERR_MODEL,
                         "%s: two convolutions want context "
                         "in front of one tensor",
                         x->name);
        return;
    }
    x->ctx = ctx;
    VaeOp *op = vae_builder_op(b, kind, name);
    if (!op)
        return;
    op->x = x;
    op->carry = empty ? NULL : carry;
    vae_op_count(op, 0, 2.0 * ctx * (double) vae_frame_bytes(x));
}

static void
add_tail(VaeBuilder *b, const char *name, VaeTensor *x, VaeCarry *carry)
{
    VaeOp *op = vae_builder_op(b, VAE_OP_TAIL, name);
    if (!op)
        return;
    op->x = x;
    op->carry = carry;
    vae_op_count(op, 0, 2.0 * (double) carry->bytes);
}

static VaeConv
conv_defaults(VaeConv c)
{
    c.k = c.k ? c.k : 1;
    c.kt = c.kt ? c.kt : 1;
    c.s = c.s ? c.s : 1;
    c.st = c.st ? c.st : 1;
    return c;
}

/* What is computed, and what is read and written once. */
static void
count_conv(VaeOp *op, int ctx)
{
    const VaeShape x = op->x->shape, y = op->y->shape;
    double taps = op->conv.up ? 2 * 2 : op->conv.kt * op->conv.k * op->conv.k;
    double weights = op->conv.up ? 4 * taps : taps;
    if (op->conv.winograd) {
        const int tiles = ((y.h + 1) / 2) * ((y.w + 1) / 2);
        weights = op->conv.kt * 16;
        taps = weights * tiles / (y.h * y.w);
    }
    const double pair = (double) x.c * y.c;
    vae_op_count(op, 2 * pair * taps * y.t * y.h * y.w,
                 vae_tensor_bytes(op->x) +
                     vae_tensor_bytes(op->y) * (op->add ? 2 : 1) +
                     (double) ctx * (double) vae_frame_bytes(op->x) +
                     pair * weights * (double) vae_type_size(op->x->type));
}

/* Of fewer channels the sums around a product cost what it saves. */
enum { WINOGRAD_CHANNELS = 32 };

/* frames: of the result. What makes one in a later step keeps its 27 taps; of a
 * first step vae_program_settle_winograd() decides. */
static bool
takes_winograd(const VaeBuilder *b, const VaeConv *conv, int c_in, int frames)
{
    const VaeBuildParams *p = b->params;
    return p->winograd && (p->first || frames > p->steps) &&
           p->act == VAE_TYPE_F32 && p->sum == VAE_TYPE_F32 && conv->kt == 3 &&
           conv->k == 3 && conv->s == 1 && conv->st == 1 &&
           conv->pad == VAE_PAD_SAME && c_in >= WINOGRAD_CHANNELS &&
           conv->c >= WINOGRAD_CHANNELS;
}

/* up: input is read as if it were doubled in space; each of its pixels then
 * meets 2x2 sums of taps in each of four phases. */
static const VaeTensor *
add_conv(VaeBuilder *b, const char *name, const VaeTensor *input, VaeConv conv,
         bool up)
{
    if (b->status != VAE_OK || !input)
        return NULL;
    conv = conv_defaults(conv);
    VaeTensor *x = (VaeTensor *) cast_to_act(b, name, input);
    if (!x)
        return NULL;
    const VaeShape in = x->shape;
    const int keep = conv.kt > conv.st ? conv.kt - conv.st : 0;
    const int ctx = keep > 0 && b->params->first ? conv.kt - 1 : keep;
    const VaeShape out = {.t = (ctx + in.t - conv.kt) / conv.st + 1,
                          .h = in.h * (up ? 2 : 1) / conv.s,
                          .w = in.w * (up ? 2 : 1) / conv.s,
                          .c = conv.c};
    const bool winograd = takes_winograd(b, &conv, in.c, out.t);
    VaeCarry *carry = NULL;
    if (keep > 0) {
        carry = vae_builder_carry(b, name, x, keep);
        if (!carry)
            return NULL;
    }
    /* In tiles the carry is read where it is; the tail is all of new frames. */
    const bool direct = winograd && carry && !is_empty(b) && in.t >= keep;
    if (carry && !direct)
        add_head(b, name, x, ctx, carry);
    VaeOp *op = vae_builder_op(b, VAE_OP_CONV, name);
    VaeTensor *y = vae_builder_tensor(
        b, name, out, conv.narrow ? b->params->act : b->params->sum);
    if (!op || !y)
        return NULL;
    op->x = x;
    op->y = y;
    op->carry = direct ? carry : NULL;
    op->conv.k = conv.k;
    op->conv.kt = conv.kt;
    op->conv.s = conv.s;
    op->conv.st = conv.st;
    op->conv.relu = conv.relu;
    op->conv.up = up;
    op->conv.winograd = winograd;
    op->conv.pad = conv.pad == VAE_PAD_SAME ? conv.k / 2 : 0;
    if (conv.add) {
        op->add = (VaeTensor *) conv.add;
        if (!conv.keep)
            y->root = op->add->root;
    }
    count_conv(op, ctx);
    op->weight = vae_builder_conv_weight(b, name, &conv, in.c, false);
    op->bias = conv.no_bias
                   ? NULL
                   : vae_builder_conv_weight(b, name, &conv, in.c, true);
    if (carry)
        add_tail(b, name, x, carry);
    return b->status == VAE_OK ? y : NULL;
}

/* Frames of a later step that the op of that name makes; from: where it is
 * likely to be. */
static int
later_frames(const VaeProgram *next, const char *name, int from)
{
    for (int i = 0; i < next->n_ops; i++) {
        const VaeOp *op = &next->ops[(from + i) % next->n_ops];
        if (op->kind == VAE_OP_CONV && strcmp(op->name, name) == 0)
            return op->y->shape.t / next->steps;
    }
    return 1;
}

void
vae_program_settle_winograd(VaeProgram *p, const VaeProgram *next)
{
    for (int i = 0; i < p->n_ops; i++) {
        VaeOp *op = &p->ops[i];
        if (op->kind != VAE_OP_CONV || !op->conv.winograd ||
            later_frames(next, op->name, i) > 1)
            continue;
        assert(!op->carry);
        p->flop -= op->flop;
        p->bytes -= op->bytes;
        op->conv.winograd = false;
        count_conv(op, op->x->ctx);
        p->flop += op->flop;
        p->bytes += op->bytes;
    }
}

const VaeTensor *
vae_conv(VaeBuilder *b, const char *name, const VaeTensor *x, VaeConv conv)
{
    return add_conv(b, name, x, conv, false);
}

const VaeTensor *
vae_conv_up(VaeBuilder *b, const char *unfold, const char *name,
            const VaeTensor *x, int ft, VaeConv conv)
{
    assert(conv.k == 3 && conv.pad == VAE_PAD_SAME && !conv.add);
    assert(conv.kt <= 1 && conv.s <= 1 && conv.st <= 1);
    const bool up = b->params->conv_up;
    if (!up || ft > 1)
        x = vae_rearrange(
            b, unfold, x,
            (VaeMove){.kind = VAE_UNFOLD_NEAREST, .ft = ft, .fs = up ? 1 : 2});
    return add_conv(b, name, x, conv, up);
}

void
vae_carry_zero(VaeBuilder *b, const char *name, const VaeTensor *x, int frames)
{
    if (b->status != VAE_OK || !x)
        return;
    VaeTensor like = *x;
    like.type = b->params->act;
    VaeCarry *carry = vae_builder_carry(b, name, &like, frames);
    VaeOp *op = vae_builder_op(b, VAE_OP_CARRY_ZERO, name);
    if (!carry || !op)
        return;
    op->carry = carry;
    vae_op_count(op, 0, (double) carry->bytes);
}

void
vae_carry_keep(VaeBuilder *b, const char *name, const VaeTensor *x, int frames)
{
    if (b->status != VAE_OK || !x)
        return;
    VaeTensor *t = (VaeTensor *) cast_to_act(b, name, x);
    VaeCarry *carry = t ? vae_builder_carry(b, name, t, frames) : NULL;
    if (carry)
        add_tail(b, name, t, carry);
}

static const VaeTensor *
add_norm(VaeBuilder *b, const char *name, const VaeTensor *x, VaeNormKind kind,
         int groups, bool silu)
{
    VaeOp *op = vae_builder_op(b, VAE_OP_NORM, name);
    VaeTensor *y = vae_builder_tensor(b, name, x->shape, b->params->act);
    if (!op || !y)
        return NULL;
    op->x = (VaeTensor *) x;
    op->y = y;
    op->norm.kind = kind;
    op->norm.groups = groups;
    op->norm.silu = silu;
    const double n = (double) x->shape.t * x->shape.h * x->shape.w * x->shape.c;
    vae_op_count(op, (silu ? 8 : 4) * n,
                 vae_tensor_bytes(x) + vae_tensor_bytes(y));
    return y;
}

const VaeTensor *
vae_rms(VaeBuilder *b, const char *name, const VaeTensor *x, bool silu,
        bool image)
{
    if (b->status != VAE_OK || !x)
        return NULL;
    const VaeTensor *y = add_norm(b, name, x, VAE_NORM_RMS, 1, silu);
    if (!y)
        return NULL;
    VaeOp *op = &b->program->ops[b->program->n_ops - 1];
    op->weight =
        vae_builder_vector_weight(b, name, "gamma", x->shape.c, image ? 3 : 4);
    return y;
}

const VaeTensor *
vae_group_norm(VaeBuilder *b, const char *name, const VaeTensor *x, int groups,
               bool silu)
{
    if (b->status != VAE_OK || !x)
        return NULL;
    if (groups < 1 || x->shape.c % groups) {
        vae_builder_fail(b, VAE_ERR_MODEL,
                         "%s%s%s: %d channels do not divide "
                         "into %d groups; state norm_num_groups in the file's "
                         "metadata or in config.json",
                         b->path, b->path[0] ? "." : "", name, x->shape.c,
                         groups);
        return NULL;
    }
    const VaeTensor *y = add_norm(b, name, x, VAE_NORM_GROUP, groups, silu);
    if (!y)
        return NULL;
    VaeOp *op = &b->program->ops[b->program->n_ops - 1];
    op->weight = vae_builder_vector_weight(b, name, "weight", x->shape.c, 1);
    op->bias = vae_builder_vector_weight(b, name, "bias", x->shape.c, 1);
    return y;
}

const VaeTensor *
vae_attention(VaeBuilder *b, const char *name, const VaeTensor *qkv)
{
    if (b->status != VAE_OK || !qkv)
        return NULL;
    VaeShape shape = qkv->shape;
    shape.c /= 3;
    VaeOp *op = vae_builder_op(b, VAE_OP_ATTENTION, name);
    VaeTensor *y = vae_builder_tensor(b, name, shape, b->params->act);
    if (!op || !y)
        return NULL;
    op->x = (VaeTensor *) qkv;
    op->y = y;
    const double n = (double) shape.h * shape.w;
    vae_op_count(op, 4 * n * n * shape.c * shape.t,
                 vae_tensor_bytes(qkv) + vae_tensor_bytes(y));
    return y;
}

const VaeTensor *
vae_rearrange(VaeBuilder *b, const char *name, const VaeTensor *x, VaeMove move)
{
    if (b->status != VAE_OK || !x)
        return NULL;
    const int ft = move.ft ? move.ft : 1, fs = move.fs ? move.fs : 1;
    const VaeShape in = x->shape;
    VaeShape out = {.t = in.t * ft - move.drop, .h = in.h * fs, .w = in.w * fs};
    if (move.kind == VAE_UNFOLD_NEAREST)
        out.c = in.c / ft;
    else if (move.kind == VAE_SHUFFLE_RQTC)
        out.c = in.c / (ft * fs * fs);
    else if (move.kind == VAE_UNFOLD_CQR || move.kind == VAE_UNFOLD_CRQ)
        out.c = in.c / (fs * fs);
    else
        out = (VaeShape){in.t, in.h / fs, in.w / fs, in.c * fs * fs};
    VaeOp *op = vae_builder_op(b, VAE_OP_REARRANGE, name);
    VaeTensor *y = vae_builder_tensor(
        b, name, out, move.wide ? b->params->sum : b->params->act);
    if (!op || !y)
        return NULL;
    op->x = (VaeTensor *) x;
    op->y = y;
    op->rearrange.kind = move.kind;
    op->rearrange.ft = ft;
    op->rearrange.fs = fs;
    op->rearrange.drop = move.drop;
    vae_op_count(op, 0, vae_tensor_bytes(x) + vae_tensor_bytes(y));
    return y;
}

const VaeTensor *
vae_shortcut(VaeBuilder *b, const char *name, const VaeTensor *main,
             const VaeTensor *x, VaeShortcut kind, int ft, int fs)
{
    if (b->status != VAE_OK || !x || !main)
        return NULL;
    VaeOp *op = vae_builder_op(b, VAE_OP_SHORTCUT, name);
    VaeTensor *y = vae_builder_tensor(b, name, main->shape, b->params->sum);
    if (!op || !y)
        return NULL;
    op->x = (VaeTensor *) x;
    op->y = y;
    op->add = (VaeTensor *) main;
    y->root = op->add->root;
    op->shortcut.kind = kind;
    op->shortcut.ft = ft;
    op->shortcut.fs = fs;
    op->shortcut.drop =
        kind == VAE_SHORTCUT_DUP ? x->shape.t * ft - main->shape.t : 0;
    vae_op_count(op, vae_tensor_bytes(y) / 4,
                 vae_tensor_bytes(x) + 2 * vae_tensor_bytes(y));
    return y;
}

const VaeTensor *
vae_clamp(VaeBuilder *b, const char *name, const VaeTensor *x)
{
    if (b->status != VAE_OK || !x)
        return NULL;
    VaeOp *op = vae_builder_op(b, VAE_OP_CLAMP, name);
    VaeTensor *y = vae_builder_tensor(b, name, x->shape, b->params->act);
    if (!op || !y)
        return NULL;
    op->x = (VaeTensor *) x;
    op->y = y;
    vae_op_count(op, 0, vae_tensor_bytes(x) + vae_tensor_bytes(y));
    return y;
}

const VaeTensor *
vae_depthwise(VaeBuilder *b, const char *name, const VaeTensor *input)
{
    if (b->status != VAE_OK || !input)
        return NULL;
    VaeTensor *x = (VaeTensor *) cast_to_act(b, name, input);
    VaeCarry *carry = x ? vae_builder_carry(b, name, x, 1) : NULL;
    if (!carry)
        return NULL;
    add_head(b, name, x, 1, carry);
    VaeShape shape = x->shape;
    shape.c *= 2;
    VaeOp *op = vae_builder_op(b, VAE_OP_DEPTHWISE, name);
    VaeTensor *y = vae_builder_tensor(b, name, shape, b->params->act);
    if (!op || !y)
        return NULL;
    op->x = x;
    op->y = y;
    op->weight = vae_builder_depthwise_weight(b, name, shape.c, 7);
    vae_op_count(op, 2.0 * 49 * shape.t * shape.h * shape.w * shape.c,
                 vae_tensor_bytes(x) + vae_tensor_bytes(y));
    add_tail(b, name, x, carry);
    return b->status == VAE_OK ? y : NULL;
}

/*
 * ops.c: the builder's calls that append ops. See builder.h.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "builder_state.h"
#include "delay.h"

/* y has ft frames for each frame of x: sets its rate and delay. */
static void
follow(VaeTensor *y, const VaeTensor *x, int ft)
{
    y->rate = ft * x->rate;
    y->lead = ft * x->lead;
    y->delay = ft * x->delay + ft - 1;
}

const VaeTensor *
vae_input(VaeBuilder *b)
{
    const VaeBuildParams *q = b->params;
    const bool decode = q->direction == VAE_DECODE;
    VaeOp *op = vae_builder_op(b, decode ? VAE_OP_LATENT_IN : VAE_OP_PICTURE_IN,
                               "input");
    const int black = decode || !q->first ? 0 : q->network.black;
    const VaeShape shape = {.t = b->program->n_in + black,
                            .h = q->height,
                            .w = q->width,
                            .c = decode ? q->network.latent_channels : 3};
    VaeTensor *y = vae_builder_tensor(b, "input", shape, q->act);
    if (!op || !y)
        return NULL;
    y->rate = 1;
    op->y = y;
    op->trim = black;
    return y;
}

/* Writes a shape and a type for an error, and returns the text. */
static const char *
outline(VaeShape s, VaeType type, char text[64])
{
    snprintf(text, 64, "%dx%dx%dx%d %s", s.t, s.h, s.w, s.c,
             vae_type_name(type));
    return text;
}

/* True if x has that shape and type. Otherwise the builder fails, and the error
 * names the op. */
static bool
expect(VaeBuilder *b, const VaeOp *op, const VaeTensor *x, VaeShape shape,
       VaeType type)
{
    if (memcmp(&x->shape, &shape, sizeof shape) == 0 && x->type == type)
        return true;
    char is[64], should[64];
    vae_builder_fail(b, VAE_ERR_MODEL,
                     "%s: %s is %s, expected %s (frames x height x width x "
                     "channels)",
                     op->name, x->name, outline(x->shape, x->type, is),
                     outline(shape, type, should));
    return false;
}

void
vae_output(VaeBuilder *b, const VaeTensor *x)
{
    const VaeBuildParams *q = b->params;
    const bool decode = q->direction == VAE_DECODE;
    const int f = q->network.spatial, z = q->network.latent_channels;
    VaeOp *op = vae_builder_op(
        b, decode ? VAE_OP_PICTURE_OUT : VAE_OP_LATENT_OUT, "output");
    if (!op)
        return;
    if (!x) {
        vae_builder_fail(b, VAE_ERR_MODEL, "%s: no tensor was given", op->name);
        return;
    }
    if (b->program->delayed)
        b->program->n_out = x->shape.t;
    VaeShape shape = {.t = b->program->n_out,
                      .h = decode ? q->height * f : q->height / f,
                      .w = decode ? q->width * f : q->width / f,
                      .c = decode ? 3 : z};
    op->x = (VaeTensor *) x;
    op->trim = x->shape.t - shape.t;
    if (op->trim > 0)
        shape.t = x->shape.t;
    if (!decode && (x->shape.c == 2 * z || x->shape.c == z + 1))
        shape.c = x->shape.c;
    expect(b, op, x, shape, q->sum);
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
    follow(y, x, 1);
    op->x = (VaeTensor *) x;
    op->y = y;
    return y;
}

/* True if no earlier step gives context. */
static bool
is_empty(const VaeBuilder *b)
{
    return b->params->first || b->params->cold;
}

/* Puts ctx frames in front of x: the carry or, if there is none, zeros or
 * copies of the first frame. */
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
}

static void
add_tail(VaeBuilder *b, const char *name, VaeTensor *x, VaeCarry *carry)
{
    VaeOp *op = vae_builder_op(b, VAE_OP_TAIL, name);
    if (!op)
        return;
    op->x = x;
    op->carry = carry;
}

/* A view of x from frame `from` on. */
static const VaeTensor *
add_view(VaeBuilder *b, const char *name, const VaeTensor *x, int from, int t)
{
    VaeShape shape = x->shape;
    shape.t = t;
    VaeTensor *y = vae_builder_tensor(b, name, shape, x->type);
    if (!y)
        return NULL;
    *y = (VaeTensor){.name = y->name,
                     .shape = shape,
                     .type = x->type,
                     .rate = x->rate,
                     .delay = x->delay,
                     .view = (VaeTensor *) x,
                     .root = x->root,
                     .from = from,
                     .id = y->id};
    return y;
}

const VaeTensor *
vae_line(VaeBuilder *b, const char *name, const VaeTensor *input)
{
    VaeTensor *x = (VaeTensor *) input;
    if (b->status != VAE_OK || !x)
        return NULL;
    VaeCarry *carry = vae_builder_carry(b, name, x, VAE_LINE);
    if (!carry)
        return NULL;
    add_head(b, name, x, VAE_LINE, carry);
    VaeOp *edge = vae_builder_op(b, VAE_OP_EDGE, name);
    if (!edge)
        return NULL;
    edge->x = x;
    add_tail(b, name, x, carry);
    b->program->delayed = true;
    char line[VAE_MAX_PATH];
    snprintf(line, sizeof line, "%s.line", name);
    VaeTensor *y =
        (VaeTensor *) add_view(b, line, x, -VAE_LINE, x->shape.t + VAE_LINE);
    if (y)
        y->lead = VAE_LINE;
    return y;
}

const VaeTensor *
vae_delayed(VaeBuilder *b, const VaeTensor *line, int frames)
{
    if (b->status != VAE_OK || !line)
        return NULL;
    assert(line->view && line->lead && frames <= VAE_LINE);
    const VaeTensor *x = line->view;
    VaeTensor *y = (VaeTensor *) add_view(b, "delayed", x, -frames, x->shape.t);
    if (y)
        y->delay += frames;
    return y;
}

static VaeConv
conv_defaults(VaeConv c)
{
    c.k = c.k ? c.k : 1;
    c.kt = c.kt ? c.kt : 1;
    c.s = c.s ? c.s : 1;
    c.st = c.st ? c.st : 1;
    c.groups = c.groups ? c.groups : 1;
    return c;
}

/* Adds conv.add to the result. */
static void
add_sum(VaeBuilder *b, VaeOp *op, const VaeTensor *input, const VaeConv *conv)
{
    VaeTensor *add = (VaeTensor *) conv->add, *y = op->y;
    if (!expect(b, op, add, y->shape, y->type))
        return;
    if (b->program->delayed && add->delay != y->delay)
        vae_builder_fail(b, VAE_ERR_MODEL,
                         "%s: the sum is of frames with a delay of %d and %d "
                         "frames",
                         op->name, y->delay, add->delay);
    if (!conv->keep && add->root == input->root)
        vae_builder_fail(b, VAE_ERR_MODEL,
                         "%s: the sum would be written over the input %s; "
                         "set .keep",
                         op->name, input->name);
    op->add = add;
    if (!conv->keep)
        y->root = add->root;
}

/* Copies x with a border of one pixel, in the type of convolutions' inputs. */
static const VaeTensor *
add_border(VaeBuilder *b, const char *name, const VaeTensor *x)
{
    char border[VAE_MAX_PATH];
    snprintf(border, sizeof border, "%s.border", name);
    if (x->shape.h < 2 || x->shape.w < 2) {
        vae_builder_fail(b, VAE_ERR_SIZE,
                         "%s: %dx%d pixels cannot be reflected at their "
                         "edges; the network needs at least two rows and "
                         "columns of latents",
                         name, x->shape.w, x->shape.h);
        return NULL;
    }
    return vae_rearrange(b, border, x, (VaeMove){.kind = VAE_REFLECT});
}

/* The input of a convolution: x in the right type, with the context and the
 * border that the convolution reads. */
static VaeTensor *
conv_input(VaeBuilder *b, const char *name, const VaeTensor *x,
           const VaeConv *conv)
{
    if (conv->centred && !x->lead)
        x = vae_line(b, name, cast_to_act(b, name, x));
    if (x && conv->pad == VAE_PAD_REFLECT)
        x = add_border(b, name, x);
    return (VaeTensor *) (x ? cast_to_act(b, name, x) : NULL);
}

const VaeTensor *
vae_conv(VaeBuilder *b, const char *name, const VaeTensor *input, VaeConv conv)
{
    if (b->status != VAE_OK || !input)
        return NULL;
    conv = conv_defaults(conv);
    VaeTensor *x = conv_input(b, name, input, &conv);
    if (!x)
        return NULL;
    const VaeShape in = x->shape;
    const int keep = conv.kt > conv.st && !conv.centred ? conv.kt - conv.st : 0;
    const int ctx =
        keep > 0 && b->params->first ? conv.kt - 1 + conv.lead : keep;
    const VaeShape out = {.t = (ctx + in.t - conv.kt) / conv.st + 1,
                          .h = input->shape.h / conv.s,
                          .w = input->shape.w / conv.s,
                          .c = conv.c};
    VaeCarry *carry = NULL;
    if (keep > 0) {
        carry = vae_builder_carry(b, name, x, keep);
        if (!carry)
            return NULL;
        add_head(b, name, x, ctx, carry);
    }
    VaeOp *op = vae_builder_op(b, VAE_OP_CONV, name);
    VaeTensor *y = vae_builder_tensor(
        b, name, out, conv.narrow ? b->params->act : b->params->sum);
    if (!op || !y)
        return NULL;
    follow(y, x, 1);
    if (conv.centred) {
        y->lead -= conv.kt - 1;
        y->delay += conv.kt / 2;
    }
    op->x = x;
    op->y = y;
    op->conv.k = conv.k;
    op->conv.kt = conv.kt;
    op->conv.s = conv.s;
    op->conv.st = conv.st;
    op->conv.relu = conv.relu;
    op->conv.pad = conv.pad == VAE_PAD_SAME ? conv.k / 2 : 0;
    if (ctx + in.t < conv.kt || (ctx + in.t - conv.kt) % conv.st)
        vae_builder_fail(b, VAE_ERR_MODEL,
                         "%s: %s has %d frames with context, which do not fit "
                         "%d taps and stride %d in time",
                         op->name, x->name, ctx + in.t, conv.kt, conv.st);
    if (conv.add)
        add_sum(b, op, input, &conv);
    op->weight = vae_builder_conv_weight(b, name, &conv, in.c, false);
    op->bias = conv.no_bias
                   ? NULL
                   : vae_builder_conv_weight(b, name, &conv, in.c, true);
    if (carry)
        add_tail(b, name, x, carry);
    return b->status == VAE_OK ? y : NULL;
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
    follow(y, x, 1);
    op->x = (VaeTensor *) x;
    op->y = y;
    op->norm.kind = kind;
    op->norm.groups = groups;
    op->norm.silu = silu;
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
vae_pixel_norm(VaeBuilder *b, const char *name, const VaeTensor *x, float eps,
               bool silu, const VaeModulation *modulation)
{
    if (b->status != VAE_OK || !x)
        return NULL;
    const VaeTensor *y = add_norm(b, name, x, VAE_NORM_RMS, 1, silu);
    if (!y)
        return NULL;
    VaeOp *op = &b->program->ops[b->program->n_ops - 1];
    const int c = x->shape.c;
    op->norm.eps = eps;
    if (modulation) {
        op->weight = vae_builder_modulation_weight(b, modulation, c, true);
        op->bias = vae_builder_modulation_weight(b, modulation, c, false);
    }
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
    return y;
}

const VaeTensor *
vae_rearrange(VaeBuilder *b, const char *name, const VaeTensor *x, VaeMove move)
{
    if (b->status != VAE_OK || !x)
        return NULL;
    const int ft = move.ft ? move.ft : 1, fs = move.fs ? move.fs : 1;
    const int block = ft * fs * fs;
    const VaeShape in = x->shape;
    VaeShape out = {.t = in.t * ft - move.drop,
                    .h = in.h * fs,
                    .w = in.w * fs,
                    .c = in.c / block};
    if (move.kind == VAE_UNFOLD_NEAREST)
        out.c = in.c / ft;
    else if (move.kind == VAE_REFLECT)
        out = (VaeShape){in.t, in.h + 2, in.w + 2, in.c};
    else if (move.kind == VAE_FOLD_CQR || move.kind == VAE_FOLD_CRQ)
        out = (VaeShape){in.t / ft, in.h / fs, in.w / fs, in.c * block};
    VaeOp *op = vae_builder_op(b, VAE_OP_REARRANGE, name);
    VaeTensor *y = vae_builder_tensor(
        b, name, out, move.wide ? b->params->sum : b->params->act);
    if (!op || !y)
        return NULL;
    follow(y, x, ft);
    op->x = (VaeTensor *) x;
    op->y = y;
    op->rearrange.kind = move.kind;
    op->rearrange.ft = ft;
    op->rearrange.fs = fs;
    op->rearrange.drop = move.drop;
    return y;
}

/* True if x can be added to y with these factors. Otherwise the builder fails.
 */
static bool
shortcut_fits(VaeBuilder *b, const VaeOp *op, const VaeTensor *y,
              VaeShortcutMove move)
{
    const bool dup = move.kind != VAE_SHORTCUT_AVERAGE;
    const int ft = move.ft, fs = move.fs;
    const VaeShape x = op->x->shape;
    VaeShape shape = {.h = dup ? x.h * fs : x.h / fs,
                      .w = dup ? x.w * fs : x.w / fs,
                      .c = y->shape.c};
    shape.t = dup ? x.t * ft : (x.t + ft - 1) / ft;
    if (dup && y->shape.t < shape.t) /* y lacks the first frames */
        shape.t = y->shape.t;
    if (!expect(b, op, y, shape, b->params->sum))
        return false;
    const int64_t block = (int64_t) ft * fs * fs * (dup ? shape.c : x.c);
    if (block % (dup ? x.c : shape.c) == 0 &&
        (dup || (x.h % fs == 0 && x.w % fs == 0)))
        return true;
    char is[64];
    vae_builder_fail(b, VAE_ERR_MODEL,
                     "%s: %s is %s, which factors of %d in time and %d in "
                     "space do not bring to the %d channels of %s",
                     op->name, op->x->name, outline(x, op->x->type, is), ft, fs,
                     shape.c, y->name);
    return false;
}

const VaeTensor *
vae_shortcut(VaeBuilder *b, const char *name, const VaeTensor *main,
             const VaeTensor *x, VaeShortcutMove move)
{
    if (b->status != VAE_OK || !x || !main)
        return NULL;
    move.ft = move.ft ? move.ft : 1;
    move.fs = move.fs ? move.fs : 1;
    VaeOp *op = vae_builder_op(b, VAE_OP_SHORTCUT, name);
    VaeTensor *y = vae_builder_tensor(b, name, main->shape, b->params->sum);
    if (!op || !y)
        return NULL;
    op->x = (VaeTensor *) x;
    op->y = y;
    if (!shortcut_fits(b, op, main, move))
        return NULL;
    follow(y, main, 1);
    op->add = (VaeTensor *) main;
    y->root = op->add->root;
    op->shortcut.kind = move.kind;
    op->shortcut.ft = move.ft;
    op->shortcut.fs = move.fs;
    op->shortcut.repeat = move.repeat;
    op->shortcut.drop = move.kind != VAE_SHORTCUT_AVERAGE
                            ? x->shape.t * move.ft - main->shape.t
                            : 0;
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
    add_tail(b, name, x, carry);
    return b->status == VAE_OK ? y : NULL;
}

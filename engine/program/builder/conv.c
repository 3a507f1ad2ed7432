/*
 * conv.c: the builder's convolutions, and the context that they read from
 * carries. See builder.h.
 */
#include <assert.h>
#include <stdio.h>

#include "builder_state.h"
#include "delay.h"

/* True if no earlier step gives context. */
static bool
is_empty(const VaeBuilder *b)
{
    return b->params->first || b->params->without_context ||
           b->params->network.whole;
}

/* Adds an op that writes ctx frames of context before x: the carry or, without
 * a carry, zeros or copies of the first frame. */
static void
add_head(VaeBuilder *b, const char *name, VaeTensor *x, int ctx,
         VaeCarry *carry)
{
    const bool empty = is_empty(b);
    const VaeOpKind kind = !empty                     ? VAE_OP_HEAD_CARRY
                           : b->head == VAE_HEAD_ZERO ? VAE_OP_HEAD_ZERO
                                                      : VAE_OP_HEAD_REPEAT;
    if (x->ctx) {
        char full[VAE_MAX_PATH];
        vae_builder_full_name(b, name, NULL, full);
        vae_builder_fail(b, VAE_ERR_MODEL,
                         "%s: another convolution over time reads %s, too; "
                         "give each a tensor of its own",
                         full, x->name);
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

/* A view of t frames of x from frame `from` on. */
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
                     .ghosts = x->ghosts,
                     .view = (VaeTensor *) x,
                     .root = x->root,
                     .from = from,
                     .id = y->id};
    return y;
}

/* The line of x. edges: with copies of its first and last frame. */
static const VaeTensor *
add_line(VaeBuilder *b, const char *name, const VaeTensor *input, int frames,
         bool edges)
{
    VaeTensor *x = (VaeTensor *) input;
    if (b->status != VAE_OK || !x)
        return NULL;
    VaeCarry *carry = vae_builder_carry(b, name, x, frames);
    if (!carry)
        return NULL;
    add_head(b, name, x, frames - x->lead, carry);
    if (edges) {
        VaeOp *edge = vae_builder_op(b, VAE_OP_EDGE, name);
        if (!edge)
            return NULL;
        edge->x = x;
    }
    add_tail(b, name, x, carry);
    b->program->delayed = true;
    char line[VAE_MAX_PATH];
    snprintf(line, sizeof line, "%s.line", name);
    const int from = x->lead - frames;
    VaeTensor *y = (VaeTensor *) add_view(b, line, x, from, x->shape.t - from);
    if (y)
        y->lead = frames;
    return y;
}

/* The frames from..from+n-1 of x, late ones or others. */
static const VaeTensor *
add_part(VaeBuilder *b, const VaeTensor *x, int from, int n)
{
    VaeTensor *y = (VaeTensor *) add_view(b, "part", x, x->from + from, n);
    if (!y)
        return NULL;
    y->view = x->view ? x->view : y->view;
    y->lead = x->lead - from;
    y->late = from < x->late ? n : 0;
    y->held = x->held;
    return y;
}

/* Makes the ops from `from` on those of group `number`, with the weights of the
 * first group, whose ops begin at `first`. */
static void
join_group(VaeProgram *p, int first, int from, int number)
{
    for (int i = from; i < p->n_ops; i++) {
        VaeOp *op = &p->ops[i];
        op->group = number;
        op->weight = p->ops[first + i - from].weight;
        op->bias = p->ops[first + i - from].bias;
    }
}

/* A tensor with the frames of x, for parts like `part`. */
static VaeTensor *
whole_of(VaeBuilder *b, const VaeTensor *x, const VaeTensor *part)
{
    VaeShape shape = part->shape;
    shape.t = x->shape.t;
    VaeTensor *y = vae_builder_tensor(b, "groups", shape, part->type);
    if (y)
        vae_builder_follow(y, x, 1);
    return y;
}

const VaeTensor *
vae_in_groups(VaeBuilder *b, const VaeTensor *x, int pixels,
              const VaeTensor *(*block)(VaeBuilder *b, const VaeTensor *x))
{
    if (b->status != VAE_OK || !x)
        return NULL;
    VaeProgram *p = b->program;
    const int area = x->shape.h * x->shape.w, t = x->shape.t;
    const int most = pixels > area ? pixels / area : 1, first = p->n_ops;
    VaeTensor *y = NULL;
    if (most >= t || b->params->dry_run)
        return block(b, x);
    for (int from = 0, n, number = 1; from < t; from += n, number++) {
        const int end = from < x->late ? x->late : t, at = p->n_ops;
        n = end - from < most ? end - from : most;
        VaeTensor *part = (VaeTensor *) block(b, add_part(b, x, from, n));
        if (part && part->root == part) {
            y = y ? y : whole_of(b, x, part);
            part->root = part->view = y;
            part->from = from;
        }
        if (!part || !part->root)
            return NULL;
        join_group(p, first, at, number);
    }
    return y ? y : x;
}

const VaeTensor *
vae_line(VaeBuilder *b, const char *name, const VaeTensor *x, int frames)
{
    return add_line(b, name, x, frames, true);
}

const VaeTensor *
vae_past(VaeBuilder *b, const char *name, const VaeTensor *x, int frames)
{
    if (x && b->status == VAE_OK && x->lead >= frames) {
        vae_builder_fail(b, VAE_ERR_MODEL,
                         "%s.%s: %d frames come late, more than the %d of "
                         "its line",
                         b->path, name, x->lead, frames);
        return NULL;
    }
    return add_line(b, name, x, frames, false);
}

const VaeTensor *
vae_earlier(VaeBuilder *b, const VaeTensor *line, int frames, int lead)
{
    if (b->status != VAE_OK || !line)
        return NULL;
    assert(line->view && frames + lead <= line->lead);
    const VaeTensor *x = line->view;
    VaeTensor *y = (VaeTensor *) add_view(
        b, "delayed", x, x->lead - lead - frames, x->shape.t - x->lead + lead);
    if (!y)
        return NULL;
    y->delay += frames;
    y->lead = y->late = y->held = lead;
    return y;
}

const VaeTensor *
vae_delayed(VaeBuilder *b, const VaeTensor *line, int frames)
{
    return vae_earlier(b, line, frames, 0);
}

const VaeTensor *
vae_repeat_last(VaeBuilder *b, const char *name, const VaeTensor *x,
                int latents)
{
    VaeTensor *y = (VaeTensor *) vae_delayed(b, vae_line(b, name, x, 2), 0);
    if (y)
        y->ghosts = latents;
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
    if (!vae_builder_expect(b, op, add, y->shape, y->type))
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
    /* a sum has the frames that both have */
    y->ghosts = y->ghosts < add->ghosts ? y->ghosts : add->ghosts;
    op->add = add;
    if (!conv->keep) {
        y->root = add->root;
        y->from = add->from;
    }
}

/* Copies x with a border of one pixel, in the type of convolutions' inputs. */
static const VaeTensor *
add_border(VaeBuilder *b, const char *name, const VaeTensor *x, bool reflect)
{
    char border[VAE_MAX_PATH];
    snprintf(border, sizeof border, "%s.border", name);
    if (reflect && (x->shape.h < 2 || x->shape.w < 2)) {
        vae_builder_fail(b, VAE_ERR_SIZE,
                         "%s: %dx%d pixels cannot be reflected at their "
                         "edges; the network needs at least two rows and "
                         "columns of latents",
                         name, x->shape.w, x->shape.h);
        return NULL;
    }
    return vae_rearrange(
        b, border, x, (VaeMove){.kind = reflect ? VAE_REFLECT : VAE_REPLICATE});
}

/* The input of a convolution: x in the right type, with the context and the
 * border that the convolution reads. */
static VaeTensor *
conv_input(VaeBuilder *b, const char *name, const VaeTensor *x,
           const VaeConv *conv)
{
    if (conv->centred && !x->lead)
        x = vae_line(b, name, vae_builder_cast(b, name, x), conv->kt - 1);
    if (x && (conv->pad == VAE_PAD_REFLECT || conv->pad == VAE_PAD_REPLICATE))
        x = add_border(b, name, x, conv->pad == VAE_PAD_REFLECT);
    return (VaeTensor *) (x ? vae_builder_cast(b, name, x) : NULL);
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
    const bool whole = b->params->network.whole;
    const int ctx = keep > 0 && (b->params->first || whole)
                        ? conv.kt - 1 + conv.lead
                        : keep;
    const VaeShape out = {.t = (ctx + in.t - conv.kt) / conv.st + 1,
                          .h = input->shape.h / conv.s,
                          .w = input->shape.w / conv.s,
                          .c = conv.c};
    VaeCarry *carry = NULL;
    if (keep > 0) {
        carry = whole ? NULL : vae_builder_carry(b, name, x, keep);
        if (!carry && !whole)
            return NULL;
        add_head(b, name, x, ctx, carry);
    }
    VaeOp *op =
        vae_builder_op_to(b, VAE_OP_CONV, name, x, out,
                          conv.narrow ? b->params->act : b->params->sum);
    if (!op)
        return NULL;
    VaeTensor *y = op->y;
    if (conv.centred) {
        y->lead -= conv.kt - 1;
        y->delay += conv.kt / 2;
    }
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
    VaeTensor *t = (VaeTensor *) vae_builder_cast(b, name, x);
    VaeCarry *carry = t ? vae_builder_carry(b, name, t, frames) : NULL;
    if (carry)
        add_tail(b, name, t, carry);
}

const VaeTensor *
vae_depthwise(VaeBuilder *b, const char *name, const VaeTensor *input)
{
    if (b->status != VAE_OK || !input)
        return NULL;
    VaeTensor *x = (VaeTensor *) vae_builder_cast(b, name, input);
    VaeCarry *carry = x ? vae_builder_carry(b, name, x, 1) : NULL;
    if (!carry)
        return NULL;
    add_head(b, name, x, 1, carry);
    VaeShape shape = x->shape;
    shape.c *= 2;
    VaeOp *op =
        vae_builder_op_to(b, VAE_OP_DEPTHWISE, name, x, shape, b->params->act);
    if (!op)
        return NULL;
    const VaeTensor *y = op->y;
    op->weight = vae_builder_depthwise_weight(b, name, shape.c, 7);
    add_tail(b, name, x, carry);
    return b->status == VAE_OK ? y : NULL;
}

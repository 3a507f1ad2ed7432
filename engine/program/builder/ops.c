/*
 * ops.c: the builder's calls that append ops, except convolutions (conv.c). See
 * builder.h.
 */
#include <stdio.h>
#include <string.h>

#include "builder_state.h"

void
vae_builder_follow(VaeTensor *y, const VaeTensor *x, int ft)
{
    y->rate = ft * x->rate;
    y->lead = ft * x->lead;
    y->delay = ft * x->delay + ft - 1;
    y->late = ft * x->late;
    y->held = ft * x->held;
    y->ghosts = x->ghosts;
}

VaeOp *
vae_builder_op_to(VaeBuilder *b, VaeOpKind kind, const char *name,
                  const VaeTensor *x, VaeShape shape, VaeType type)
{
    VaeOp *op = vae_builder_op(b, kind, name);
    VaeTensor *y = vae_builder_tensor(b, name, shape, type);
    if (!op || !y)
        return NULL;
    vae_builder_follow(y, x, 1);
    op->x = (VaeTensor *) x;
    op->y = y;
    return op;
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
                            .c = decode ? q->network.latent_channels
                                        : q->network.picture_channels};
    VaeTensor *y = vae_builder_tensor(b, "input", shape, q->act);
    if (!op || !y)
        return NULL;
    y->rate = 1;
    op->y = y;
    op->trim = black;
    return y;
}

/* Writes a shape and a type as text, for an error. Returns text. */
static const char *
outline(VaeShape s, VaeType type, char text[64])
{
    snprintf(text, 64, "%dx%dx%dx%d %s", s.t, s.h, s.w, s.c,
             vae_type_name(type));
    return text;
}

bool
vae_builder_expect(VaeBuilder *b, const VaeOp *op, const VaeTensor *x,
                   VaeShape shape, VaeType type)
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
    if (b->depth > 0) {
        vae_builder_fail(b, VAE_ERR_MODEL, "%s: vae_leave() is missing in %s",
                         op->name, b->path);
        return;
    }
    if (b->program->delayed)
        b->program->n_out = x->shape.t;
    VaeShape shape = {.t = b->program->n_out,
                      .h = decode ? q->height * f : q->height / f,
                      .w = decode ? q->width * f : q->width / f,
                      .c = decode ? q->network.picture_channels : z};
    op->x = (VaeTensor *) x;
    op->trim = x->shape.t - shape.t;
    if (op->trim > 0)
        shape.t = x->shape.t;
    if (!decode && (x->shape.c == 2 * z || x->shape.c == z + 1))
        shape.c = x->shape.c;
    vae_builder_expect(b, op, x, shape, q->sum);
}

const VaeTensor *
vae_builder_cast(VaeBuilder *b, const char *name, const VaeTensor *x)
{
    if (x->type == b->params->act)
        return x;
    char cast[VAE_MAX_PATH];
    snprintf(cast, sizeof cast, "%s.cast", name);
    const VaeOp *op =
        vae_builder_op_to(b, VAE_OP_CAST, cast, x, x->shape, b->params->act);
    return op ? op->y : NULL;
}

static VaeOp *
add_norm(VaeBuilder *b, const char *name, const VaeTensor *x, VaeNormKind kind,
         int groups, bool silu)
{
    if (b->status != VAE_OK || !x)
        return NULL;
    VaeOp *op =
        vae_builder_op_to(b, VAE_OP_NORM, name, x, x->shape, b->params->act);
    if (!op)
        return NULL;
    op->norm.kind = kind;
    op->norm.groups = groups;
    op->norm.silu = silu;
    return op;
}

const VaeTensor *
vae_rms(VaeBuilder *b, const char *name, const VaeTensor *x, bool silu,
        bool image)
{
    VaeOp *op = add_norm(b, name, x, VAE_NORM_RMS, 1, silu);
    if (!op)
        return NULL;
    op->weight =
        vae_builder_vector_weight(b, name, "gamma", x->shape.c, image ? 3 : 4);
    return op->y;
}

const VaeTensor *
vae_pixel_norm(VaeBuilder *b, const char *name, const VaeTensor *x, float eps,
               VaeActivation activation, const VaeModulation *modulation)
{
    VaeOp *op = add_norm(b, name, x, VAE_NORM_RMS, 1, activation == VAE_SILU);
    if (!op)
        return NULL;
    const int c = x->shape.c;
    op->norm.relu = activation == VAE_RELU;
    op->norm.eps = eps;
    if (modulation) {
        op->weight =
            vae_builder_modulation_weight(b, modulation, c, name, true);
        op->bias = vae_builder_modulation_weight(b, modulation, c, name, false);
    }
    return op->y;
}

const VaeTensor *
vae_gain_norm(VaeBuilder *b, const char *name, const VaeTensor *x, float eps,
              const VaeModulation *modulation)
{
    const VaeTensor *y =
        vae_pixel_norm(b, name, x, eps, VAE_LINEAR, modulation);
    if (y && !modulation)
        b->program->ops[b->program->n_ops - 1].weight =
            vae_builder_vector_weight(b, name, "weight", x->shape.c, 1);
    return b->status == VAE_OK ? y : NULL;
}

const VaeTensor *
vae_group_norm(VaeBuilder *b, const char *name, const VaeTensor *x,
               VaeGroups groups)
{
    if (b->status != VAE_OK || !x)
        return NULL;
    if (groups.n < 1 || x->shape.c % groups.n) {
        vae_builder_fail(b, VAE_ERR_MODEL,
                         "%s%s%s: %d channels do not divide "
                         "into %d groups; expected norm_num_groups, in the "
                         "file's metadata or in config.json, to divide them",
                         b->path, b->path[0] ? "." : "", name, x->shape.c,
                         groups.n);
        return NULL;
    }
    VaeOp *op = add_norm(b, name, x, VAE_NORM_GROUP, groups.n, groups.silu);
    if (!op)
        return NULL;
    op->norm.eps = groups.eps > 0 ? groups.eps : 1e-6f;
    op->norm.relu = groups.relu;
    op->norm.all_frames = b->params->network.whole;
    op->weight = vae_builder_vector_weight(b, name, "weight", x->shape.c, 1);
    op->bias = vae_builder_vector_weight(b, name, "bias", x->shape.c, 1);
    return op->y;
}

const VaeTensor *
vae_attention(VaeBuilder *b, const char *name, const VaeTensor *qkv)
{
    if (b->status != VAE_OK || !qkv)
        return NULL;
    VaeShape shape = qkv->shape;
    shape.c /= 3;
    const VaeOp *op = vae_builder_op_to(b, VAE_OP_ATTENTION, name, qkv, shape,
                                        b->params->act);
    return op ? op->y : NULL;
}

const VaeTensor *
vae_attention_so_far(VaeBuilder *b, const char *name, const VaeTensor *qkv)
{
    const VaeBuildParams *q = b->params;
    const int window = q->network.whole ? 0 : q->history;
    const VaeTensor *y = vae_attention(b, name, qkv);
    if (!y || window == 1)
        return y;
    VaeOp *op = &b->program->ops[b->program->n_ops - 1];
    VaeTensor keys = *y;
    keys.shape.c *= 2;
    if (y->shape.t != q->steps)
        vae_builder_fail(b, VAE_ERR_MODEL,
                         "%s: %d frames in %d steps; a history needs one frame "
                         "for each latent",
                         op->name, y->shape.t, q->steps);
    op->carry = vae_builder_history(b, name, &keys);
    op->attention.window = window;
    return op->carry ? y : NULL;
}

/* True if the sizes of qkv allow the window. Otherwise the builder fails. */
static bool
window_fits(VaeBuilder *b, const char *name, const VaeTensor *qkv,
            VaeAttentionWindow w)
{
    const VaeShape s = qkv->shape;
    const int c = s.c / 3;
    if (s.c % 3 || c % VAE_WINDOW_HEAD)
        vae_builder_fail(b, VAE_ERR_MODEL,
                         "%s.%s: %d channels of Q, K and V, expected 3 times a "
                         "multiple of %d",
                         b->path, name, s.c, VAE_WINDOW_HEAD);
    else if (!b->params->dry_run && (s.h < w.kh || s.w < w.kw))
        vae_builder_fail(b, VAE_ERR_SIZE,
                         "the picture is %dx%d latents (width x height); the "
                         "attention of the network needs at least %dx%d",
                         b->params->width, b->params->height,
                         (w.kw * b->params->width + s.w - 1) / s.w,
                         (w.kh * b->params->height + s.h - 1) / s.h);
    else if (qkv->lead < w.kt / 2 * 3 || w.kh * w.kw > VAE_WINDOW_KEYS)
        vae_builder_fail(b, VAE_ERR_MODEL,
                         "%s.%s: a window of %dx%dx%d over a line of %d frames",
                         b->path, name, w.kt, w.kh, w.kw, qkv->lead);
    return b->status == VAE_OK;
}

const VaeTensor *
vae_attention_window(VaeBuilder *b, const char *name, const VaeTensor *qkv,
                     VaeAttentionWindow w)
{
    const int d = w.kt / 2;
    if (b->status != VAE_OK || !qkv || !window_fits(b, name, qkv, w))
        return NULL;
    VaeShape shape = qkv->shape;
    shape.t -= 2 * d;
    shape.c /= 3;
    VaeOp *op =
        vae_builder_op_to(b, VAE_OP_WINDOW, name, qkv, shape, b->params->act);
    if (!op)
        return NULL;
    VaeTensor *y = op->y;
    y->lead -= 2 * d;
    y->delay += d;
    y->late = y->held = y->lead;
    op->window_of.kt = w.kt;
    op->window_of.kh = w.kh;
    op->window_of.kw = w.kw;
    op->window_of.shift = d;
    op->weight =
        vae_builder_vector_weight(b, name, "q_norm.weight", VAE_WINDOW_HEAD, 1);
    op->bias =
        vae_builder_vector_weight(b, name, "k_norm.weight", VAE_WINDOW_HEAD, 1);
    return b->status == VAE_OK ? y : NULL;
}

const VaeTensor *
vae_glu(VaeBuilder *b, const char *name, const VaeTensor *x)
{
    if (b->status != VAE_OK || !x)
        return NULL;
    VaeShape shape = x->shape;
    shape.c /= 2;
    const VaeOp *op =
        vae_builder_op_to(b, VAE_OP_GLU, name, x, shape, b->params->act);
    return op ? op->y : NULL;
}

const VaeTensor *
vae_noise(VaeBuilder *b, const char *name, const VaeTensor *like, int side)
{
    if (b->status != VAE_OK || !like)
        return NULL;
    VaeShape shape = like->shape;
    shape.c = 3 * side * side;
    VaeOp *op =
        vae_builder_op_to(b, VAE_OP_NOISE, name, like, shape, b->params->act);
    if (!op)
        return NULL;
    op->x = NULL;
    op->y->ghosts = 0;
    op->noise.side = side;
    return op->y;
}

const VaeTensor *
vae_rearrange(VaeBuilder *b, const char *name, const VaeTensor *x, VaeMove move)
{
    if (b->status != VAE_OK || !x)
        return NULL;
    const int ft = move.ft ? move.ft : 1, fs = move.fs ? move.fs : 1;
    const int block = ft * fs * fs;
    const int parts = move.kind == VAE_NEAREST          ? 1
                      : move.kind == VAE_UNFOLD_NEAREST ? ft
                                                        : block;
    const bool unfolds =
        vae_rearrange_is_nearest(move.kind) || move.kind == VAE_SHUFFLE_RQTC ||
        move.kind == VAE_SHUFFLE_TRQC || move.kind == VAE_UNFOLD_CQR ||
        move.kind == VAE_UNFOLD_CRQ;
    const VaeShape in = x->shape;
    if (unfolds && in.c % parts) {
        vae_builder_fail(b, VAE_ERR_MODEL,
                         "%s: %s has %d channels, expected a multiple of %d",
                         name, x->name, in.c, parts);
        return NULL;
    }
    VaeShape out = {.t = in.t * ft - move.drop,
                    .h = in.h * fs,
                    .w = in.w * fs,
                    .c = in.c / block};
    if (vae_rearrange_is_nearest(move.kind))
        out.c = in.c / parts;
    else if (vae_rearrange_is_border(move.kind))
        out = (VaeShape){in.t, in.h + 2, in.w + 2, in.c};
    else if (vae_rearrange_is_fold(move.kind))
        out = (VaeShape){move.kind == VAE_FOLD_TRQC ? (in.t + ft - 1) / ft
                                                    : in.t / ft,
                         in.h / fs, in.w / fs, in.c * block};
    VaeOp *op = vae_builder_op_to(b, VAE_OP_REARRANGE, name, x, out,
                                  move.wide ? b->params->sum : b->params->act);
    if (!op)
        return NULL;
    vae_builder_follow(op->y, x, ft);
    op->rearrange.kind = move.kind;
    op->rearrange.ft = ft;
    op->rearrange.fs = fs;
    op->rearrange.drop = move.drop;
    return op->y;
}

const VaeTensor *
vae_patches(VaeBuilder *b, const char *name, const VaeTensor *x,
            VaeRearrange kind, int side)
{
    return side <= 1 ? x
                     : vae_rearrange(
                           b, name, x,
                           (VaeMove){.kind = kind, .fs = side, .wide = true});
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
    if (move.single)
        shape.t = x.t;
    if (dup && y->shape.t < shape.t) /* y does not have the first frames */
        shape.t = y->shape.t;
    if (!vae_builder_expect(b, op, y, shape, b->params->sum))
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
    VaeOp *op = vae_builder_op_to(b, VAE_OP_SHORTCUT, name, x, main->shape,
                                  b->params->sum);
    if (!op || !shortcut_fits(b, op, main, move))
        return NULL;
    vae_builder_follow(op->y, main, 1);
    op->add = (VaeTensor *) main;
    op->y->root = op->add->root;
    op->shortcut.kind = move.kind;
    op->shortcut.ft = move.ft;
    op->shortcut.fs = move.fs;
    op->shortcut.repeat = move.repeat;
    op->shortcut.channels_fast = move.channels_fast;
    op->shortcut.single = move.single;
    if (move.kind != VAE_SHORTCUT_AVERAGE)
        op->shortcut.drop =
            move.single ? move.ft - 1 : x->shape.t * move.ft - main->shape.t;
    return op->y;
}

const VaeTensor *
vae_clamp(VaeBuilder *b, const char *name, const VaeTensor *x)
{
    if (b->status != VAE_OK || !x)
        return NULL;
    const VaeOp *op =
        vae_builder_op_to(b, VAE_OP_CLAMP, name, x, x->shape, b->params->act);
    return op ? op->y : NULL;
}

/*
 * fuse.c: see fuse.h.
 */
#include <string.h>

#include "fuse.h"
#include "split.h"
#include "strips.h"

/* Marks an op that another one computes. It is removed at the end. */
#define FUSED VAE_OP_KINDS

/* The op that reads t; NULL: there is not exactly one. */
static VaeOp *
only_reader(VaeProgram *p, const VaeTensor *t)
{
    VaeOp *reader = NULL;
    for (int i = 0; i < p->n_ops; i++) {
        VaeOp *op = &p->ops[i];
        if (op->x != t && op->add != t)
            continue;
        if (reader)
            return NULL;
        reader = op;
    }
    return reader;
}

/* ------------------------------------------------------------------ */
/* An upsampling and the convolution after it.                         */

static bool
takes_upsample(const VaeOp *conv, const VaeTensor *x)
{
    return conv && conv->kind == VAE_OP_CONV && conv->x == x && !conv->add &&
           conv->conv.k == 3 && conv->conv.kt == 1 && conv->conv.s == 1 &&
           conv->conv.st == 1 && conv->conv.pad == 1;
}

static void
fuse_upsample(VaeProgram *p, VaeOp *op)
{
    if (op->kind != VAE_OP_REARRANGE ||
        op->rearrange.kind != VAE_UNFOLD_NEAREST || op->rearrange.fs != 2)
        return;
    VaeOp *conv = only_reader(p, op->y);
    if (!takes_upsample(conv, op->y))
        return;
    conv->conv.up = true;
    op->y->shape.h = op->x->shape.h;
    op->y->shape.w = op->x->shape.w;
    op->rearrange.fs = 1;
    if (op->rearrange.ft == 1 && op->x->type == op->y->type) {
        conv->x = op->x;
        op->kind = FUSED;
    } else if (op->rearrange.ft == 1) {
        op->kind = VAE_OP_CAST;
    }
}

/* ------------------------------------------------------------------ */
/* Winograd tiles.                                                     */

/* With fewer channels, the transforms take as much time as the products save.
 */
enum { WINOGRAD_CHANNELS = 32 };

/* The number of frames that the convolution of that name computes in a later
 * step. Adds up groups, but counts only one strip, because all strips have the
 * same frames. */
static int
later_frames(const VaeProgram *next, const char *name)
{
    int frames = 0;
    for (int i = 0; i < next->n_ops; i++) {
        const VaeOp *op = &next->ops[i];
        if (op->kind == VAE_OP_CONV && op->strip <= 1 &&
            strcmp(op->name, name) == 0)
            frames += op->y->shape.t;
    }
    return next->whole ? frames : frames / next->steps;
}

static void
choose_winograd(VaeOp *op, const VaeProgram *next)
{
    if (op->kind == VAE_OP_CONV)
        op->conv.winograd =
            vae_can_winograd(op) && op->x->shape.c >= WINOGRAD_CHANNELS &&
            op->y->shape.c >= WINOGRAD_CHANNELS &&
            (vae_tile_times(op) == 1 || later_frames(next, op->name) >= 2);
}

/* ------------------------------------------------------------------ */
/* A convolution that reads the carry where it is.                     */

static bool
reads_carry(const VaeFusions *f, const VaeOp *op)
{
    return op->conv.winograd ||
           (f->reads_carry && !op->conv.up && f->reads_carry(f->user, op));
}

static void
fuse_head(VaeProgram *p, int i, const VaeFusions *f)
{
    VaeOp *op = &p->ops[i], *head = i > 0 ? &p->ops[i - 1] : NULL;
    if (op->kind != VAE_OP_CONV || op->strip || !head ||
        head->kind != VAE_OP_HEAD_CARRY || head->x != op->x ||
        head->carry->spilled || head->carry->frames != op->conv.kt - 1)
        return;
    /* the convolution still reads the old carry, so the new one must have only
     * frames of x */
    if (op->x->shape.t >= head->carry->frames && reads_carry(f, op)) {
        op->carry = head->carry;
        op->x->ctx = 0;
        head->kind = FUSED;
    }
}

/* True for a norm that a convolution can also compute: one of whole pixels.
 * Those kernels have no ReLU. */
static bool
joins_conv(const VaeOp *op)
{
    return op->kind == VAE_OP_NORM && op->norm.kind == VAE_NORM_RMS &&
           !op->norm.relu && !op->strip;
}

/* ------------------------------------------------------------------ */
/* The convolution to a picture.                                       */

/* The picture is converted from F32. */
static void
widen_head(VaeProgram *p, VaeOp *op, const VaeFusions *f)
{
    if (op->kind != VAE_OP_CONV || !f->heads(f->user, op))
        return;
    const VaeOp *reader = only_reader(p, op->y);
    if (!reader || reader->kind != VAE_OP_PICTURE_OUT || op->y->root != op->y)
        return;
    op->conv.wide = true;
    op->y->type = VAE_TYPE_F32;
}

/* The norm before a convolution, and the TAIL after it. There must be no other
 * op between them, so that nothing else reads the norm's result or overwrites
 * the norm's input. */
static void
fuse_front(VaeProgram *p, int i, const VaeFusions *f)
{
    VaeOp *op = &p->ops[i];
    VaeOp *norm = i > 0 ? op - 1 : NULL, *tail = op + 1;
    if (op->kind != VAE_OP_CONV || !op->carry || !norm || i + 1 == p->n_ops ||
        !joins_conv(norm) || norm->y != op->x || norm->norm.done ||
        norm->carry || norm->x->type != op->x->type ||
        tail->kind != VAE_OP_TAIL || tail->x != op->x || tail->carry->spilled ||
        !f->heads(f->user, op))
        return;
    for (int k = i + 2; k < p->n_ops; k++)
        if (p->ops[k].x == op->x || p->ops[k].add == op->x)
            return;
    VaeCarry *const carry = tail->carry;
    *tail = *norm;
    tail->carry = carry;
    tail->norm.late = true;
    norm->y->hidden = true;
    op->x = norm->x;
    op->conv.fronted = true;
    norm->kind = FUSED;
}

/* ------------------------------------------------------------------ */
/* A norm and its result's carry.                                      */

static void
fuse_norm(VaeProgram *p, int i)
{
    VaeOp *op = &p->ops[i], *head = NULL, *tail = NULL;
    if (op->kind != VAE_OP_NORM || op->strip)
        return;
    for (int k = i + 1; k < p->n_ops && !tail; k++) {
        if (p->ops[k].x != op->y)
            continue;
        /* a convolution still reads the carry that the tail writes */
        if (p->ops[k].kind == VAE_OP_CONV && p->ops[k].carry)
            return;
        if (p->ops[k].kind == VAE_OP_HEAD_CARRY)
            head = &p->ops[k];
        else if (p->ops[k].kind == VAE_OP_TAIL)
            tail = &p->ops[k];
    }
    /* A norm cannot write a carry of more frames than it computes, nor a
     * spilled carry, because only copies write to the host's memory. */
    if (!tail || p->delayed || tail->carry->spilled ||
        tail->carry->frames > op->y->shape.t)
        return;
    op->carry = tail->carry;
    tail->kind = FUSED;
    if (head) {
        op->norm.fills_context = true;
        head->kind = FUSED;
    }
}

/* ------------------------------------------------------------------ */
/* A convolution and the norm of its result.                           */

static bool
shares(const VaeTensor *a, const VaeTensor *b)
{
    return a && a->root == b->root;
}

/* True if other ops use the convolution's result: they read it, add to it, or
 * share its memory. */
static bool
is_kept(const VaeProgram *p, const VaeOp *conv, const VaeOp *norm)
{
    const VaeTensor *t = conv->y;
    for (int i = 0; i < p->n_ops; i++) {
        const VaeOp *op = &p->ops[i];
        if (op != norm && (shares(op->x, t) || shares(op->add, t) ||
                           (op != conv && shares(op->y, t))))
            return true;
    }
    return false;
}

static void
fuse_conv_norm(VaeProgram *p, int i, const VaeFusions *f)
{
    VaeOp *op = &p->ops[i], *norm = NULL;
    if (op->kind != VAE_OP_CONV || op->strip || op->conv.up)
        return;
    /* The first op that uses the result. */
    for (int k = i + 1; k < p->n_ops && !norm; k++)
        if (shares(p->ops[k].x, op->y) || shares(p->ops[k].y, op->y) ||
            shares(p->ops[k].add, op->y))
            norm = &p->ops[k];
    /* a norm with a carry also accesses other memory */
    if (!norm || !joins_conv(norm) || norm->x != op->y || norm->carry ||
        norm->y->root != norm->y || norm->y->type != op->y->type ||
        !f->norms(f->user, op))
        return;
    op->conv.normed = norm->norm.done = true;
    op->y->hidden = !is_kept(p, op, norm);
}

static void
remove_fused(VaeProgram *p)
{
    int n = 0;
    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind != FUSED)
            p->ops[n++] = p->ops[i];
    p->n_ops = n;
}

bool
vae_program_fuse(VaeProgram *p, const VaeProgram *next, VaeFusions fusions,
                 VaeCuts cuts)
{
    const VaeStrips strips = {cuts.strips, fusions.can_strip, fusions.user};
    for (int i = 0; i < p->n_ops; i++) {
        if (fusions.upsample)
            fuse_upsample(p, &p->ops[i]);
        if (fusions.winograd)
            choose_winograd(&p->ops[i], next);
        if (fusions.heads)
            widen_head(p, &p->ops[i], &fusions);
    }
    remove_fused(p);
    /* split first, because each group of frames has its own context */
    if (!vae_program_split(p, cuts.group) || !vae_program_strips(p, &strips))
        return false;
    for (int i = 0; i < p->n_ops; i++)
        fuse_head(p, i, &fusions);
    for (int i = 0; i < p->n_ops && fusions.norm_carry; i++)
        fuse_norm(p, i);
    remove_fused(p);
    for (int i = 0; i < p->n_ops && fusions.norms; i++)
        fuse_conv_norm(p, i, &fusions);
    /* This comes last: the convolution before a norm is the better place for
     * the norm, because it computes each pixel only once. */
    for (int i = 0; i < p->n_ops && fusions.heads; i++)
        fuse_front(p, i, &fusions);
    remove_fused(p);
    vae_program_count(p);
    return true;
}

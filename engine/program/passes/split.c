/*
 * split.c: see split.h.
 */
#include <string.h>

#include "alloc.h"
#include "split.h"

/* The ops from..to-1 that are split. */
typedef struct Region {
    const VaeProgram *p;
    int t;     /* frames of the tensors in the region */
    int dealt; /* frames that its first op makes from each input frame; 0: there
                  is no such op */
    int from, to;
    /* By id of a root tensor: true if ops outside the region use it, and if ops
     * inside write it. */
    bool *shared, *written;
} Region;

static bool
has_frames(const VaeTensor *t, int frames)
{
    return !t || t->shape.t == frames;
}

static bool
fits(const Region *r, int i)
{
    const VaeOp *op = &r->p->ops[i];
    return (op->x || op->y) && has_frames(op->x, r->t) &&
           has_frames(op->y, r->t) && has_frames(op->add, r->t);
}

/* The region may begin with a convolution of one tap and a rearrangement that
 * separates its result into several frames. Returns the number of these frames
 * for each input frame. 0: there is no such pair, or a group would need parts
 * of more than one input frame. */
static int
frames_dealt(const Region *r, int frames)
{
    if (r->from < 3)
        return 0;
    const VaeOp *deal = &r->p->ops[r->from - 1], *conv = deal - 1;
    const bool can =
        deal->kind == VAE_OP_REARRANGE && deal->rearrange.ft == 2 &&
        deal->rearrange.drop == 0 && deal->rearrange.kind == VAE_SHUFFLE_RQTC &&
        deal->y->shape.t == r->t && conv->kind == VAE_OP_CONV &&
        conv->y == deal->x && conv->conv.k == 1 && conv->conv.kt == 1 &&
        conv->conv.s == 1 && conv->conv.st == 1 && !conv->add &&
        (frames == 1 || frames % 2 == 0);
    return can ? deal->rearrange.ft : 0;
}

static void
look_at_tensors(Region *r)
{
    const VaeProgram *p = r->p;
    memset(r->shared, 0, (size_t) p->n_tensors * sizeof *r->shared);
    memset(r->written, 0, (size_t) p->n_tensors * sizeof *r->written);
    for (int i = 0; i < p->n_ops; i++) {
        VaeTensor *const used[] = {p->ops[i].x, p->ops[i].y, p->ops[i].add};
        const bool inside = i >= r->from && i < r->to;
        for (int k = 0; k < 3; k++)
            if (used[k] && !inside)
                r->shared[vae_root_of(used[k])->id] = true;
        if (inside && p->ops[i].y)
            r->written[vae_root_of(p->ops[i].y)->id] = true;
    }
}

/* True for a tensor that is complete before the region begins. It has the
 * context of a group before the group's own frames. */
static bool
is_whole(const Region *r, VaeTensor *x)
{
    const int id = vae_root_of(x)->id;
    return r->shared[id] && !r->written[id];
}

/* True if the op needs context in a tensor that groups write and that ops
 * outside the region use. Frames of another group are in the place of this
 * context. */
static bool
lacks_context(const Region *r, int i)
{
    VaeTensor *x = r->p->ops[i].x;
    return x && x->ctx && r->shared[vae_root_of(x)->id] && !is_whole(r, x);
}

/* Finds the ops next to the pictures, up to the first one that needs context in
 * a shared tensor. */
static void
find_region(Region *r, int frames)
{
    const VaeProgram *p = r->p;
    const bool decode = p->direction == VAE_DECODE;
    r->from = decode ? p->n_ops - 1 : 1;
    r->to = r->from;
    while (decode && r->from > 1 && fits(r, r->from - 1))
        r->from--;
    while (!decode && r->to < p->n_ops - 1 && fits(r, r->to))
        r->to++;
    r->dealt = decode ? frames_dealt(r, frames) : 0;
    if (r->dealt)
        r->from -= 2;
    for (bool moved = true; moved;) {
        moved = false;
        look_at_tensors(r);
        for (int i = r->from; i < r->to && !moved; i++) {
            const int at = decode ? r->to - 1 - (i - r->from) : i;
            if (!lacks_context(r, at))
                continue;
            moved = true;
            if (decode)
                r->from = at + 1;
            else
                r->to = at;
        }
    }
}

/* ------------------------------------------------------------------ */

typedef struct Groups {
    VaeProgram *p;
    const Region *region;
    int number, first, t; /* number of the group, from 1; its frames */
    VaeTensor *
        *made; /* by id of a whole tensor: the group's part of it, or NULL */
    VaeTensor *part;   /* memory for tensors of groups */
    VaeTensor **slots; /* all tensors of groups */
    int n_slots;
} Groups;

/* The group's frames of t: a view of t, or a tensor with memory of its own. */
static VaeTensor *
part_of(Groups *g, VaeTensor *t)
{
    if (!t || g->made[t->id])
        return t ? g->made[t->id] : NULL;
    VaeTensor *root = vae_root_of(t), *part = g->part++;
    g->made[t->id] = part;
    *part = *t;
    const int dealt = t->shape.t == g->region->t ? 1 : g->region->dealt;
    part->shape.t = (g->t + dealt - 1) / dealt;
    part->id = g->n_slots;
    g->slots[g->n_slots++] = part;
    if (g->region->shared[root->id]) {
        part->root = root;
        part->from = g->first / dealt;
    } else {
        part->root = t->root == t ? part : part_of(g, t->root);
    }
    return part;
}

/* The carry that the last frames of x are copied to. */
static VaeCarry *
carry_of(const Region *r, const VaeTensor *x)
{
    for (int i = r->from; i < r->to; i++)
        if (r->p->ops[i].kind == VAE_OP_TAIL && r->p->ops[i].x == x)
            return r->p->ops[i].carry;
    return NULL;
}

/* Writes the group's op to *out, if there is one. A whole tensor gets its
 * context only before the first group, and saves its last frames only after the
 * last group. In the other tensors, each group takes its context from the
 * carry. */
static int
op_of(Groups *g, const VaeOp *op, VaeOp *out)
{
    const Region *r = g->region;
    const bool whole = op->x && is_whole(r, op->x);
    if (whole && ((vae_op_is_head(op) && g->first) ||
                  (op->kind == VAE_OP_TAIL && g->first + g->t < r->t)))
        return 0;
    *out = *op;
    out->group = g->number;
    if (vae_op_is_head(op) && g->first) {
        out->kind = VAE_OP_HEAD_CARRY;
        out->carry = carry_of(r, op->x);
    }
    if (op->kind == VAE_OP_REARRANGE && op->x && op->x->shape.t < r->t &&
        g->t == 1) {
        out->rearrange.phase = g->first % r->dealt;
        out->rearrange.drop = 1; /* the other frame */
    }
    if (op->kind == VAE_OP_ATTENTION)
        out->attention.first = g->first;
    out->x = part_of(g, op->x);
    out->y = part_of(g, op->y);
    out->add = part_of(g, op->add);
    return 1;
}

/* Writes all ops to `to`. Returns their number. */
static int
write_ops(Groups *g, int frames, VaeOp *to)
{
    const VaeProgram *p = g->p;
    const Region *r = g->region;
    int n = r->from;
    memcpy(to, p->ops, (size_t) n * sizeof *to);
    for (g->first = 0; g->first < r->t; g->first += frames) {
        const int left = r->t - g->first;
        g->number++;
        g->t = frames < left ? frames : left;
        memset(g->made, 0, (size_t) p->n_tensors * sizeof(VaeTensor *));
        for (int i = r->from; i < r->to; i++)
            n += op_of(g, &p->ops[i], &to[n]);
    }
    memcpy(to + n, p->ops + r->to, (size_t) (p->n_ops - r->to) * sizeof *to);
    return n + p->n_ops - r->to;
}

static bool
split(VaeProgram *p, const Region *r, int frames)
{
    const int groups = (r->t + frames - 1) / frames, n = r->to - r->from;
    const int most_ops = p->n_ops + (groups - 1) * n;
    const size_t most = (size_t) p->n_tensors * (size_t) groups;
    VaeOp *ops = vae_mem_alloc((size_t) most_ops * sizeof *ops);
    Groups g = {.p = p, .region = r, .n_slots = p->n_tensors};
    g.made = vae_mem_alloc((size_t) p->n_tensors * sizeof(VaeTensor *));
    g.part = p->parts = vae_mem_alloc_lazy(most * sizeof(VaeTensor));
    g.slots = vae_mem_alloc_lazy((most + (size_t) p->n_tensors) *
                                 sizeof(VaeTensor *));
    int n_ops = 0;
    const bool good = ops && g.made && g.part && g.slots;
    if (good) {
        memcpy(g.slots, p->tensors,
               (size_t) p->n_tensors * sizeof(VaeTensor *));
        n_ops = write_ops(&g, frames, ops);
    }
    vae_mem_free(g.made);
    vae_mem_free(good ? (void *) p->ops : ops);
    vae_mem_free(good ? (void *) p->tensors : g.slots);
    if (!good)
        return false;
    p->ops = ops;
    p->n_ops = n_ops;
    p->tensors = g.slots;
    p->n_tensors = g.n_slots;
    p->group = frames;
    return true;
}

/* True if the region has a convolution over time. Otherwise splitting saves too
 * little. */
static bool
is_worth_it(const Region *r)
{
    for (int i = r->from; i < r->to; i++)
        if (r->p->ops[i].kind == VAE_OP_TAIL)
            return true;
    return false;
}

bool
vae_program_split(VaeProgram *p, int frames)
{
    const bool decode = p->direction == VAE_DECODE;
    Region r = {.p = p,
                .t = decode ? p->ops[p->n_ops - 1].x->shape.t
                            : p->ops[0].y->shape.t};
    bool good = true;
    if (!frames || frames >= r.t)
        return true;
    r.shared = vae_mem_alloc(2 * (size_t) p->n_tensors * sizeof *r.shared);
    if (!r.shared)
        return false;
    r.written = r.shared + p->n_tensors;
    find_region(&r, frames);
    if (is_worth_it(&r))
        good = split(p, &r, frames);
    vae_mem_free(r.shared);
    return good;
}

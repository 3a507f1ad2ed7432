/*
 * strips.c: see strips.h.
 */
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "strips.h"

/* Slabs with less than 1 / SMALL of the largest one's bytes stay whole. */
enum { SMALL = 8 };

/* Largest number of ops that make a slab: for example a cast, a convolution of
 * one tap and a rearrangement. */
enum { MAKERS = 4 };

/* Largest number of ops of a chain, and of tensors of an op. */
enum { CHAIN = MAKERS + 3, OP_TENSORS = 3 };

/* Ops around a slab, in this order: those that make it (`makers` of them), a
 * HEAD if there is one, the convolution, and a TAIL if there is one. */
typedef struct Chain {
    int first, makers, n;
    int last; /* index of its last op before the ops were moved */
    bool head;
} Chain;

/* The ops that use a tensor: their indices, or -1. */
typedef struct Use {
    int writer, reader, head, tail;
    bool alone; /* nothing else uses it or its memory */
} Use;

typedef struct Rows {
    int from, to;
} Rows;

static Use
use_of(const VaeProgram *p, const VaeTensor *t)
{
    Use u = {-1, -1, -1, -1, t->root == t};
    for (int i = 0; i < p->n_tensors; i++)
        if (p->tensors[i] != t && p->tensors[i]->root == t)
            u.alone = false;
    for (int i = 0; i < p->n_ops; i++) {
        const VaeOp *op = &p->ops[i];
        int *as = op->y == t                ? &u.writer
                  : op->x != t              ? NULL
                  : vae_op_is_head(op)      ? &u.head
                  : op->kind == VAE_OP_TAIL ? &u.tail
                                            : &u.reader;
        if (op->add == t || (as && *as >= 0))
            u.alone = false;
        if (as)
            *as = i;
    }
    return u;
}

/* The number of rows of the result for each row that the op reads. */
static int
factor(const VaeOp *op)
{
    return op->kind == VAE_OP_REARRANGE ? op->rearrange.fs : 1;
}

static bool
is_border(const VaeOp *op)
{
    return op->kind == VAE_OP_REARRANGE &&
           vae_rearrange_is_border(op->rearrange.kind);
}

/* True if a row of the result needs only its own row of the input or, for a
 * border, the row beside it. */
static bool
makes_rows(const VaeOp *op)
{
    switch (op->kind) {
    case VAE_OP_NORM:
    case VAE_OP_CAST:
        return true;
    case VAE_OP_REARRANGE:
        return vae_rearrange_is_nearest(op->rearrange.kind) ||
               op->rearrange.kind == VAE_SHUFFLE_RQTC ||
               op->rearrange.kind == VAE_SHUFFLE_TRQC ||
               op->rearrange.kind == VAE_REPLICATE;
    case VAE_OP_CONV:
        return op->conv.k == 1 && op->conv.kt == 1 && op->conv.s == 1 &&
               op->conv.st == 1 && !op->add;
    default:
        return false;
    }
}

/* True if the op can read rows of a whole tensor, one frame at a time. */
static bool
makes_frames(const VaeOp *op)
{
    return op->kind != VAE_OP_REARRANGE ||
           (op->rearrange.ft == 1 && op->rearrange.drop == 0);
}

/* Lists the ops that make the slab of convolution i, the last one first. */
static int
find_makers(const VaeProgram *p, int i, int makers[MAKERS])
{
    int n = 0;
    for (int reader = i; n < MAKERS; reader = makers[n++]) {
        const Use u = use_of(p, p->ops[reader].x);
        if (!u.alone || u.writer < 0 || u.reader != reader ||
            !makes_rows(&p->ops[u.writer]) ||
            (n > 0 && (u.head >= 0 || u.tail >= 0)) ||
            (n > 0 && p->ops[makers[n - 1]].kind == VAE_OP_NORM))
            break;
        /* Rows of a border are no multiples of those of an unfolded picture. */
        if (n > 0 && (is_border(&p->ops[u.writer]) ||
                      (is_border(&p->ops[makers[0]]) &&
                       p->ops[u.writer].kind == VAE_OP_REARRANGE)))
            break;
        makers[n] = u.writer;
    }
    while (n > 0 && !makes_frames(&p->ops[makers[n - 1]]))
        n--;
    return n;
}

static const VaeOp *
conv_of(const VaeProgram *p, const Chain *c)
{
    return &p->ops[c->first + c->makers + c->head];
}

/* The number of rows of the slab that its makers can only make together. */
static int
unit_of(const VaeProgram *p, const Chain *c)
{
    int unit = 1;
    for (int k = 0; k < c->makers; k++)
        unit *= factor(&p->ops[c->first + k]);
    return unit;
}

/* True if op i, which is between the ops of the chain, can run before them. */
static bool
can_move(const VaeProgram *p, int i, const VaeOp *first, const VaeOp *conv,
         const VaeCarry *carry)
{
    const VaeOp *op = &p->ops[i];
    return op < conv &&
           (!op->y || vae_root_of(op->y) != vae_root_of(first->x)) &&
           (!op->carry || op->carry != carry);
}

static bool
shares(VaeTensor *a, VaeTensor *b)
{
    return a && b && vae_root_of(a) == vae_root_of(b);
}

/* True if op i, which is between the ops of the chain, can run after them. */
static bool
can_wait(const VaeProgram *p, int i, const VaeOp *first, const VaeOp *conv,
         const VaeCarry *carry)
{
    const VaeOp *op = &p->ops[i];
    return !shares(op->y, first->x) && !shares(op->y, conv->y) &&
           !shares(op->y, conv->add) && !shares(op->x, conv->y) &&
           !shares(op->add, conv->y) && (!op->carry || op->carry != carry);
}

/* The search for chains in a program. */
typedef struct Search {
    bool *in_chain; /* by op: it is in the current chain */
    bool *taken;    /* by op: it is in another chain */
    VaeOp *room;    /* temporary memory for moving ops */
} Search;

/* Moves those of the ops first..last that are not in the chain to the place
 * before the chain, or after it (behind). */
static void
gather(VaeProgram *p, int first, int last, const Search *s, bool behind)
{
    int n = 0;
    for (int part = 0; part < 2; part++)
        for (int i = first; i <= last; i++)
            if (s->in_chain[i] == (part != behind))
                s->room[n++] = p->ops[i];
    memcpy(&p->ops[first], s->room, (size_t) n * sizeof *s->room);
}

/* Finds the chain of convolution i and moves its ops next to each other. False:
 * it has none. */
static bool
find_chain(VaeProgram *p, int i, const Search *s, Chain *out)
{
    bool *in_chain = s->in_chain, before = true, behind = true;
    int makers[MAKERS];
    const VaeOp *conv = &p->ops[i];
    if (conv->kind != VAE_OP_CONV || conv->conv.up)
        return false;
    const int n = find_makers(p, i, makers);
    if (n == 0)
        return false;
    const Use slab = use_of(p, conv->x);
    const VaeOp *first = &p->ops[makers[n - 1]];
    const VaeCarry *carry = slab.tail >= 0   ? p->ops[slab.tail].carry
                            : slab.head >= 0 ? p->ops[slab.head].carry
                                             : NULL;
    const int last = slab.tail > i ? slab.tail : i;
    /* The convolution would write over rows that the makers still read. */
    if (vae_root_of(first->x) == vae_root_of(conv->y) || slab.head > i ||
        (slab.tail >= 0 && slab.tail < i))
        return false;
    memset(in_chain, 0, (size_t) p->n_ops * sizeof *in_chain);
    for (int k = 0; k < n; k++)
        in_chain[makers[k]] = true;
    in_chain[i] = in_chain[last] = true;
    if (slab.head >= 0)
        in_chain[slab.head] = true;
    *out = (Chain){.makers = n, .n = n, .head = slab.head >= 0};
    out->n += 1 + (slab.head >= 0) + (slab.tail >= 0);
    for (int k = makers[n - 1]; k <= last; k++) {
        if (s->taken[k])
            return false;
        before = before && (in_chain[k] || can_move(p, k, first, conv, carry));
        behind = behind && (in_chain[k] || can_wait(p, k, first, conv, carry));
    }
    if (!before && !behind)
        return false;
    /* Moves ops that can run after the chain to the place after it, so that
     * their results need no memory during the chain. */
    gather(p, makers[n - 1], last, s, behind);
    out->first = behind ? makers[n - 1] : last + 1 - out->n;
    out->last = last;
    /* A strip must begin and end with rows that the makers can begin and end
     * with. */
    if (unit_of(p, out) > 2 ||
        (unit_of(p, out) == 2 && conv_of(p, out)->conv.s > 1))
        return false;
    for (int k = 0; k < out->n; k++)
        s->taken[out->first + k] = true;
    return true;
}

/* ------------------------------------------------------------------ */

typedef struct Strips {
    VaeProgram *p;
    VaeTensor *part;   /* tensors of strips */
    VaeTensor **slots; /* all tensors */
    const VaeStrips *how;
    VaeOp *ops;
    int n_slots, n_ops;
} Strips;

/* The rows of the result in strip i. Its slab begins with a row that all makers
 * can begin with; Winograd tiles begin with even rows. */
static Rows
strip_rows(const VaeProgram *p, const Chain *c, int strips, int i)
{
    const VaeOp *conv = conv_of(p, c);
    const int h = conv->y->shape.h, pad = conv->conv.pad;
    int unit = unit_of(p, c), shift = pad % unit;
    if (conv->conv.winograd) {
        shift = 0;
        unit = unit % 2 ? 2 * unit : unit;
    }
    const int least = (h + strips - 1) / strips;
    const int rows = (least + unit - 1) / unit * unit;
    const int from = i ? i * rows + shift : 0, to = (i + 1) * rows + shift;
    return (Rows){from < h ? from : h, to < h ? to : h};
}

/* The number of strips of a chain: at most one for each of its rows. */
static int
count_strips(const VaeProgram *p, const Chain *c, int strips)
{
    const int h = conv_of(p, c)->y->shape.h;
    int n = 1;
    while (strip_rows(p, c, strips, n - 1).to < h)
        n++;
    return n;
}

/* The rows of the slab that these rows of the result need. */
static Rows
slab_rows(const VaeProgram *p, const Chain *c, Rows y)
{
    const VaeOp *conv = conv_of(p, c);
    const int h = conv->x->shape.h, s = conv->conv.s, pad = conv->conv.pad;
    const int unit = unit_of(p, c), from = y.from * s - pad;
    const int to = (y.to - 1) * s - pad + conv->conv.k;
    const int least = from < 0 ? 0 : from / unit * unit;
    const int most = (to + unit - 1) / unit * unit;
    return (Rows){least, most < h ? most : h};
}

/* The rows of its input that a maker needs for these rows of its result. */
static Rows
rows_read(const VaeOp *maker, Rows y)
{
    const int h = maker->x->shape.h, f = factor(maker);
    if (!is_border(maker))
        return (Rows){y.from / f, y.to / f};
    return (Rows){y.from > 0 ? y.from - 1 : 0, y.to - 1 < h ? y.to - 1 : h};
}

/* A tensor of some rows of t, with its own memory (own) or in that of t. */
static VaeTensor *
rows_of(Strips *s, VaeTensor *t, Rows rows, bool own)
{
    VaeTensor *part = s->part++;
    *part = *t;
    part->root = own ? part : vae_root_of(t);
    part->row = rows.from;
    part->rows = t->rows ? t->rows : t->shape.h;
    part->shape.h = rows.to - rows.from;
    part->id = s->n_slots;
    s->slots[s->n_slots++] = part;
    return part;
}

/* Adds the op that computes the statistics of a group norm over the whole
 * picture: mean and scale of each group, as doubles. */
static VaeTensor *
add_statistics(Strips *s, const VaeOp *norm)
{
    VaeOp *op = &s->ops[s->n_ops];
    if (norm->kind != VAE_OP_NORM || norm->norm.kind != VAE_NORM_GROUP)
        return NULL;
    VaeTensor *to = rows_of(s, norm->y, (Rows){0, 1}, true);
    to->row = to->rows = to->ctx = 0;
    to->type = VAE_TYPE_F32;
    if (norm->norm.all_frames)
        to->shape.t = 1;
    to->shape.w = norm->norm.groups;
    to->shape.c = 2 * sizeof(double) / sizeof(float);
    *op = *norm;
    op->kind = VAE_OP_NORM_SUMS;
    op->y = to;
    op->weight = op->bias = NULL;
    op->block = NULL;
    s->n_ops++;
    return to;
}

/* Adds the ops that compute the rows y of the result. They write the carry up
 * to row `end`; the next strip writes the rows after that. */
static void
add_strip(Strips *s, const Chain *c, Rows y, int end, VaeTensor *statistics)
{
    const VaeProgram *p = s->p;
    VaeOp *ops = &s->ops[s->n_ops];
    const VaeOp *conv = conv_of(p, c);
    Rows rows = slab_rows(p, c, y);
    memcpy(ops, &p->ops[c->first], (size_t) c->n * sizeof *ops);
    VaeTensor *slab = rows_of(s, conv->x, rows, true), *t = slab;
    for (int k = c->makers - 1; k >= 0; k--) {
        ops[k].y = t;
        rows = rows_read(&ops[k], rows);
        t = ops[k].x = rows_of(s, ops[k].x, rows, k > 0);
    }
    ops[0].add = statistics;
    for (int k = c->makers; k < c->n; k++) {
        ops[k].x = slab;
        if (ops[k].kind == VAE_OP_TAIL && end > slab->row)
            ops[k].x = rows_of(s, slab, (Rows){slab->row, end}, false);
        if (ops[k].y)
            ops[k].y = rows_of(s, ops[k].y, y, false);
        if (ops[k].add)
            ops[k].add = rows_of(s, ops[k].add, y, false);
    }
    s->n_ops += c->n;
    if (ops[c->n - 1].kind == VAE_OP_TAIL && end == slab->row)
        s->n_ops--; /* the next strip begins with the same row */
}

/* Adds strip i of n. */
static void
add_strip_at(Strips *s, const Chain *c, int i, int n, VaeTensor *statistics)
{
    const VaeProgram *p = s->p;
    const int strips = s->how->most, at = s->n_ops;
    const Rows y = strip_rows(p, c, strips, i);
    const Rows next = strip_rows(p, c, strips, i + 1);
    const int end =
        i < n - 1 ? slab_rows(p, c, next).from : conv_of(p, c)->x->shape.h;
    add_strip(s, c, y, end, statistics);
    for (int k = at; k < s->n_ops; k++)
        s->ops[k].strip = i + 1;
}

static void
add_strips(Strips *s, const Chain *c)
{
    const int n = count_strips(s->p, c, s->how->most);
    VaeTensor *statistics = add_statistics(s, &s->p->ops[c->first]);
    for (int i = 0; i < n; i++)
        add_strip_at(s, c, i, n, statistics);
}

/* True if the backend can compute the strips of a chain. Asks it only about the
 * first, the second and the last one, because the others have the shape of the
 * second. */
static bool
can_compute(VaeProgram *p, const Chain *c, const VaeStrips *how)
{
    VaeTensor part[OP_TENSORS * CHAIN];
    VaeTensor *slots[OP_TENSORS * CHAIN];
    VaeOp ops[CHAIN];
    const int n = count_strips(p, c, how->most);
    for (int i = 0; i < n && how->can; i++) {
        if (i > 1 && i < n - 1)
            continue;
        Strips s = {
            .p = p, .part = part, .slots = slots, .how = how, .ops = ops};
        add_strip_at(&s, c, i, n, NULL);
        for (int k = 0; k < s.n_ops; k++)
            if (ops[k].kind == VAE_OP_CONV && !how->can(how->user, &ops[k]))
                return false;
    }
    return true;
}

/* ------------------------------------------------------------------ */

/* Bytes of the tensors that strips make smaller. */
static double
chain_bytes(const VaeProgram *p, const Chain *c)
{
    double bytes = 0;
    for (int k = 0; k < c->makers; k++) {
        const VaeTensor *y = p->ops[c->first + k].y;
        bytes += (double) vae_frame_bytes(y) * (y->ctx + y->shape.t);
    }
    return bytes;
}

static int
later_first(const void *a, const void *b)
{
    return ((const Chain *) b)->first - ((const Chain *) a)->first;
}

/* Lists the chains, the last one first, and moves the ops of each next to each
 * other. Returns their number. */
static int
find_chains(VaeProgram *p, const VaeStrips *how, Chain *chains, const Search *s)
{
    int n = 0, kept = 0;
    double most = 0;
    for (int i = p->n_ops - 1; i >= 0; i--) {
        Chain *c = &chains[n];
        if (s->taken[i] || !find_chain(p, i, s, c))
            continue;
        i = c->last + 1; /* the op at i may have changed */
        const double bytes = chain_bytes(p, c);
        most = bytes > most ? bytes : most;
        n++;
    }
    p->whole_slabs = 0;
    for (int i = 0; i < n; i++) {
        if (SMALL * chain_bytes(p, &chains[i]) < most ||
            count_strips(p, &chains[i], how->most) < 2)
            continue;
        if (can_compute(p, &chains[i], how))
            chains[kept++] = chains[i];
        else /* groups of frames are one layer */
            p->whole_slabs += conv_of(p, &chains[i])->group <= 1;
    }
    if (kept)
        qsort(chains, (size_t) kept, sizeof *chains, later_first);
    return kept;
}

static void
write_ops(Strips *s, const Chain *chains, int n)
{
    const VaeProgram *p = s->p;
    for (int i = 0; i < p->n_ops;) {
        const Chain *c = n > 0 ? &chains[n - 1] : NULL;
        if (c && c->first == i) {
            add_strips(s, c);
            i += c->n;
            n--;
        } else {
            s->ops[s->n_ops++] = p->ops[i++];
        }
    }
}

static bool
write_program(VaeProgram *p, const Chain *chains, int n, const VaeStrips *how)
{
    Strips s = {.p = p, .n_slots = p->n_tensors, .how = how};
    size_t ops = (size_t) p->n_ops;
    for (int i = 0; i < n; i++)
        ops +=
            (size_t) (chains[i].n * count_strips(p, &chains[i], how->most)) + 1;
    /* most ops have fewer */
    s.part = p->row_parts =
        vae_mem_alloc_lazy(OP_TENSORS * ops * sizeof(VaeTensor));
    s.slots = vae_mem_alloc_lazy((OP_TENSORS * ops + (size_t) p->n_tensors) *
                                 sizeof(VaeTensor *));
    s.ops = vae_mem_alloc(ops * sizeof *s.ops);
    const bool good = s.part && s.slots && s.ops;
    if (good) {
        memcpy(s.slots, p->tensors,
               (size_t) p->n_tensors * sizeof(VaeTensor *));
        write_ops(&s, chains, n);
    }
    vae_mem_free(good ? (void *) p->ops : s.ops);
    vae_mem_free(good ? (void *) p->tensors : s.slots);
    if (!good)
        return false;
    p->ops = s.ops;
    p->n_ops = s.n_ops;
    p->tensors = s.slots;
    p->n_tensors = s.n_slots;
    p->strips = how->most;
    return true;
}

bool
vae_program_strips(VaeProgram *p, const VaeStrips *how)
{
    if (how->most < 2 || p->delayed)
        return true;
    const size_t n_ops = (size_t) p->n_ops;
    Chain *chains = vae_mem_alloc(n_ops * sizeof *chains);
    const Search s = {.in_chain = vae_mem_alloc(n_ops * sizeof(bool)),
                      .taken = vae_mem_alloc(n_ops * sizeof(bool)),
                      .room = vae_mem_alloc(n_ops * sizeof(VaeOp))};
    bool good = chains && s.in_chain && s.taken && s.room;
    const int n = good ? find_chains(p, how, chains, &s) : 0;
    if (n > 0)
        good = write_program(p, chains, n, how);
    vae_mem_free(chains);
    vae_mem_free(s.in_chain);
    vae_mem_free(s.taken);
    vae_mem_free(s.room);
    return good;
}

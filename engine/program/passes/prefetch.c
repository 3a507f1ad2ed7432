/*
 * prefetch.c: see prefetch.h.
 */
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "place.h"
#include "prefetch.h"

/* Operations, and bytes of device memory, of a fast GPU in the time in which
 * the bus copies one byte: about 400 TFLOP/s, 3 TB/s and 50 GB/s. On a slower
 * GPU the copies end earlier than necessary. */
#define FLOP_PER_BYTE 8000
#define BYTES_PER_BYTE 60

/* An op that reads or writes a spilled carry. */
typedef struct Use {
    int op;
    bool fetch; /* reads the carry; false: writes it */
    bool part;  /* uses only some rows of the carry (see strips.h), so it has no
                   window */
    int reach;  /* number of ops during which the copy runs: before this op or,
                   for a store, after it */
    VaePlaced block; /* the window; size 0: none */
    VaeTensor *window;
} Use;

typedef struct Prefetch {
    VaeProgram *p;
    double *begin; /* when each op begins, and when the last one ends; the unit
                      is the time in which the bus moves a byte */
    Use *uses;     /* in the order of the program */
    int n_uses;
    VaePlaced *blocks;
    int n_blocks;
    int n_windows;
} Prefetch;

static const VaeCarry *
carry_of(const Prefetch *f, const Use *u)
{
    return f->p->ops[u->op].carry;
}

static bool
is_use(const VaeOp *op)
{
    return op->carry && op->carry->spilled &&
           (op->kind == VAE_OP_HEAD_CARRY || op->kind == VAE_OP_TAIL ||
            op->kind == VAE_OP_CARRY_ZERO);
}

static void
find_uses(Prefetch *f)
{
    const VaeProgram *p = f->p;
    for (int i = 0; i < p->n_ops; i++) {
        const VaeOp *op = &p->ops[i];
        f->begin[i + 1] =
            f->begin[i] + op->flop / FLOP_PER_BYTE + op->bytes / BYTES_PER_BYTE;
        if (is_use(op))
            f->uses[f->n_uses++] = (Use){.op = i,
                                         .fetch = op->kind == VAE_OP_HEAD_CARRY,
                                         .part = op->strip > 0};
    }
}

/* The next use of the same carry (step 1), or the previous one (step -1). NULL:
 * there is none. */
static const Use *
neighbour(const Prefetch *f, int i, int step)
{
    for (int k = i + step; k >= 0 && k < f->n_uses; k += step)
        if (carry_of(f, &f->uses[k]) == carry_of(f, &f->uses[i]))
            return &f->uses[k];
    return NULL;
}

/* Each store begins as soon as possible, one after the other. It ends before
 * the carry is used again, and before the last op, which is not in the recorded
 * graph. */
static void
time_stores(Prefetch *f)
{
    double free = 0;
    for (int i = 0; i < f->n_uses; i++) {
        Use *u = &f->uses[i];
        const Use *next = neighbour(f, i, 1);
        const int most = next ? next->op : f->p->n_ops - 1;
        int end = u->op + 1;
        if (u->fetch || u->part)
            continue;
        free = (free > f->begin[end] ? free : f->begin[end]) +
               (double) carry_of(f, u)->bytes;
        while (end < most && f->begin[end] < free)
            end++;
        u->reach = end - 1 - u->op;
    }
}

/* Each fetch begins as late as possible, one after the other. It begins after
 * the first op, which is not in the recorded graph, and after the store of an
 * earlier group of frames. */
static void
time_fetches(Prefetch *f)
{
    double free = f->begin[f->p->n_ops];
    for (int i = f->n_uses - 1; i >= 0; i--) {
        Use *u = &f->uses[i];
        const Use *before = neighbour(f, i, -1);
        const int least = before ? before->op + before->reach + 1 : 1;
        int start = u->op;
        if (!u->fetch || u->part)
            continue;
        free = (free < f->begin[start] ? free : f->begin[start]) -
               (double) carry_of(f, u)->bytes;
        while (start > least && f->begin[start] > free)
            start--;
        u->reach = u->op - start;
    }
}

/* ------------------------------------------------------------------ */
/* Windows.                                                            */

static void
find_blocks(Prefetch *f)
{
    const VaeProgram *p = f->p;
    for (int i = 0; i < p->n_tensors; i++) {
        const VaeTensor *t = p->tensors[i];
        const size_t frame = vae_frame_bytes(t);
        if (t->root != t || t->first_op < 0)
            continue;
        f->blocks[f->n_blocks++] =
            (VaePlaced){.offset = t->offset - frame * (size_t) t->front,
                        .size = frame * (size_t) (t->front + t->shape.t),
                        .first = t->first_op,
                        .last = t->last_op};
    }
}

/* Places the window. If there is no room, tries again with a copy during fewer
 * ops, for which more memory is free. */
static void
place(Prefetch *f, Use *u, size_t most)
{
    VaePlaced b = {.size = (carry_of(f, u)->bytes + 63) / 64 * 64};
    for (int reach = u->reach; reach > 0; reach /= 2) {
        b.first = u->fetch ? u->op - reach : u->op;
        b.last = u->fetch ? u->op : u->op + reach;
        b.offset = vae_lowest_offset(f->blocks, f->n_blocks, &b);
        if (b.offset + b.size > most)
            continue;
        u->block = f->blocks[f->n_blocks++] = b;
        f->n_windows++;
        if (b.offset + b.size > f->p->arena)
            f->p->arena = b.offset + b.size;
        return;
    }
}

static void
place_all(Prefetch *f, size_t most)
{
    /* The largest carries get their windows first. */
    for (size_t at = 0, next = 0; at < SIZE_MAX; at = next) {
        next = SIZE_MAX;
        for (int i = 0; i < f->n_uses; i++) {
            const size_t place_of = carry_of(f, &f->uses[i])->place;
            if (place_of == at)
                place(f, &f->uses[i], most);
            else if (place_of > at && place_of < next)
                next = place_of;
        }
    }
}

/* ------------------------------------------------------------------ */
/* Ops.                                                                */

static VaeOp
moving(VaeOpKind kind, const VaeOp *use, VaeTensor *window)
{
    return (VaeOp){.kind = kind,
                   .name = use->name,
                   .x = window,
                   .carry = use->carry,
                   .group = use->group};
}

/* Writes the ops of one kind that belong before op i to `to`. Returns their
 * number. */
static int
write_moves(const Prefetch *f, VaeOpKind kind, int i, VaeOp *to)
{
    int n = 0;
    for (int k = 0; k < f->n_uses; k++) {
        const Use *u = &f->uses[k];
        const int at = kind == VAE_OP_FETCH     ? u->block.first
                       : kind == VAE_OP_FETCHED ? u->op
                       : kind == VAE_OP_STORE   ? u->op + 1
                                                : u->block.last + 1;
        const bool fetches = kind == VAE_OP_FETCH || kind == VAE_OP_FETCHED;
        if (u->fetch == fetches && at == i)
            to[n++] = moving(kind, &f->p->ops[u->op], u->window);
    }
    return n;
}

/* Drops all uses that have no window: strips make thousands of them. */
static void
make_windows(Prefetch *f)
{
    VaeTensor *next = f->p->windows;
    int n = 0;
    for (int i = 0; i < f->n_uses; i++) {
        Use *u = &f->uses[i];
        VaeOp *op = &f->p->ops[u->op];
        const VaeCarry *c = op->carry;
        if (!u->block.size)
            continue;
        u->window = op->window = next++;
        *u->window = (VaeTensor){.name = c->name,
                                 .shape = {c->frames, c->h, c->w, c->c},
                                 .type = c->type,
                                 .root = u->window,
                                 .offset = u->block.offset};
        f->uses[n++] = *u;
    }
    f->n_uses = n;
}

/* A store ends before a fetch of the same carry begins. */
static bool
write_ops(Prefetch *f)
{
    static const VaeOpKind kinds[] = {VAE_OP_STORE, VAE_OP_STORED, VAE_OP_FETCH,
                                      VAE_OP_FETCHED};
    VaeProgram *p = f->p;
    const int most = p->n_ops + 2 * f->n_windows;
    VaeOp *ops = vae_mem_alloc((size_t) most * sizeof *ops);
    int n = 0;
    p->windows = vae_mem_alloc((size_t) f->n_windows * sizeof *p->windows);
    if (!ops || !p->windows) {
        vae_mem_free(ops);
        return false;
    }
    make_windows(f);
    for (int i = 0; i < p->n_ops; i++) {
        for (int k = 0; k < 4; k++)
            n += write_moves(f, kinds[k], i, ops + n);
        ops[n++] = p->ops[i];
    }
    vae_mem_free(p->ops);
    p->ops = ops;
    p->n_ops = n;
    vae_program_count(p);
    return true;
}

bool
vae_program_prefetch(VaeProgram *p, size_t most)
{
    const size_t n = (size_t) p->n_ops;
    Prefetch f = {.p = p};
    if (p->delayed) /* runs of such programs skip ops */
        return true;
    f.begin = vae_mem_alloc((n + 1) * sizeof *f.begin);
    f.uses = vae_mem_alloc(n * sizeof *f.uses);
    f.blocks = vae_mem_alloc((n + (size_t) p->n_tensors) * sizeof *f.blocks);
    bool good = f.begin && f.uses && f.blocks;
    if (good) {
        find_uses(&f);
        time_stores(&f);
        time_fetches(&f);
        find_blocks(&f);
        place_all(&f, most);
    }
    if (good && f.n_windows)
        good = write_ops(&f);
    vae_mem_free(f.begin);
    vae_mem_free(f.uses);
    vae_mem_free(f.blocks);
    return good;
}

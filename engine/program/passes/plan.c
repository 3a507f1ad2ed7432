/*
 * plan.c: places the tensors of a program in one arena.
 *
 * A root tensor lives from the first to the last op that uses it or a tensor
 * that shares its memory. The planner places the largest block first, each at
 * the lowest offset that is free over its whole lifetime. For most networks
 * the arena is only a few percent larger than the largest live set.
 *
 * But if the layers have the same few large tensors, largest first keeps the
 * place of the largest one free between its uses. Then the blocks are placed in
 * the order of their first ops, alternately at both ends of the arena.
 */
#include <stdlib.h>

#include "alloc.h"
#include "place.h"

static void
touch(VaeTensor *t, int op)
{
    if (!t || t->hidden)
        return;
    VaeTensor *root = vae_root_of(t);
    if (root->first_op < 0)
        root->first_op = op;
    root->last_op = op;
}

static void
find_lives(VaeProgram *p)
{
    for (int i = 0; i < p->n_tensors; i++) {
        VaeTensor *t = p->tensors[i];
        t->root = vae_root_of(t);
        t->first_op = t->last_op = -1;
        t->front = 0;
    }
    for (int i = 0; i < p->n_tensors; i++) {
        VaeTensor *t = p->tensors[i];
        if (t->ctx > t->root->front)
            t->root->front = t->ctx;
    }
    for (int i = 0; i < p->n_ops; i++) {
        touch(p->ops[i].x, i);
        touch(p->ops[i].y, i);
        touch(p->ops[i].add, i);
        const int norm = vae_norm_behind(p, i);
        if (norm >= 0)
            touch(p->ops[norm].y, i);
    }
}

static int
larger_first(const void *a, const void *b)
{
    const VaePlaced *x = a, *y = b;
    if (x->size != y->size)
        return x->size < y->size ? 1 : -1;
    return x->root->id - y->root->id;
}

static int
earlier_first(const void *a, const void *b)
{
    const VaePlaced *x = a, *y = b;
    if (x->first != y->first)
        return x->first - y->first;
    return larger_first(a, b);
}

/* The bytes that are in use at the op that uses most. change: zeros, one for
 * each op and one more. */
static size_t
live_bytes(const VaePlaced *blocks, int n, size_t *change, int n_ops)
{
    size_t live = 0, most = 0;
    for (int i = 0; i < n; i++) {
        change[blocks[i].first] += blocks[i].size;
        change[blocks[i].last + 1] -= blocks[i].size; /* wraps around */
    }
    for (int op = 0; op < n_ops; op++) {
        live += change[op];
        most = live > most ? live : most;
    }
    return most;
}

static size_t
end_of(const VaePlaced *blocks, int n)
{
    size_t end = 0;
    for (int i = 0; i < n; i++)
        if (blocks[i].offset + blocks[i].size > end)
            end = blocks[i].offset + blocks[i].size;
    return end;
}

/* The highest offset at which b ends by `end` and overlaps none of the n blocks
 * that are in use at the same time, or SIZE_MAX. */
static size_t
highest_offset(const VaePlaced *blocks, int n, const VaePlaced *b, size_t end)
{
    for (bool moved = true; moved && end >= b->size;) {
        moved = false;
        for (int i = 0; i < n; i++) {
            const VaePlaced *o = &blocks[i];
            if (o->last < b->first || b->last < o->first || o->offset >= end ||
                o->offset + o->size <= end - b->size)
                continue;
            end = o->offset;
            moved = true;
            if (end < b->size)
                break;
        }
    }
    return end >= b->size ? end - b->size : SIZE_MAX;
}

/* Moves the blocks of a kind to the front. Returns their number. */
static int
pick(VaePlaced *blocks, int n, bool (*is)(const VaePlaced *b, size_t than),
     size_t than)
{
    int picked = 0;
    for (int i = 0; i < n; i++)
        if (is(&blocks[i], than)) {
            const VaePlaced b = blocks[i];
            blocks[i] = blocks[picked];
            blocks[picked++] = b;
        }
    return picked;
}

static bool
lives_longer(const VaePlaced *b, size_t than)
{
    return (size_t) (b->last - b->first) > than;
}

static bool
is_larger(const VaePlaced *b, size_t than)
{
    return b->size > than;
}

/* Places the blocks after the first `from` that n includes, the largest first,
 * as low as possible. */
static void
place_low(VaePlaced *blocks, int from, int n)
{
    qsort(blocks + from, (size_t) (n - from), sizeof *blocks, larger_first);
    for (int i = from; i < n; i++)
        blocks[i].offset = vae_lowest_offset(blocks, i, &blocks[i]);
}

/* Places blocks that many ops use at the bottom, then the other large ones in
 * the order of their first ops: as low or as high as possible below `live`, at
 * the end that is nearer, so that what is free stays together. The small ones
 * then have the gaps. */
static void
place_by_time(VaePlaced *blocks, int n, int n_ops, size_t live)
{
    enum { LONG = 4, SMALL = 32 }; /* of that part of all ops, and of `live` */
    const int low = pick(blocks, n, lives_longer, (size_t) n_ops / LONG);
    const int large =
        low + pick(blocks + low, n - low, is_larger, live / SMALL);
    place_low(blocks, 0, low);
    const size_t bottom = end_of(blocks, low);
    qsort(blocks + low, (size_t) (large - low), sizeof *blocks, earlier_first);
    for (int i = low; i < large; i++) {
        VaePlaced *b = &blocks[i];
        const size_t high = highest_offset(blocks, i, b, live);
        b->offset = vae_lowest_offset(blocks, i, b);
        if (high != SIZE_MAX && live - high - b->size < b->offset - bottom)
            b->offset = high;
    }
    place_low(blocks, large, n);
}

/* Places the blocks. Returns the size of the arena. */
static size_t
place(VaePlaced *blocks, int n, int n_ops, size_t live)
{
    enum { WASTE = 10 }; /* of that part of the arena */
    place_low(blocks, 0, n);
    const size_t by_size = end_of(blocks, n);
    if (by_size - live <= by_size / WASTE)
        return by_size;
    place_by_time(blocks, n, n_ops, live);
    if (end_of(blocks, n) >= by_size)
        place_low(blocks, 0, n);
    return end_of(blocks, n);
}

/* Lists the roots that ops use. Returns their number. */
static int
list_blocks(const VaeProgram *p, VaePlaced *blocks)
{
    int n = 0;
    for (int i = 0; i < p->n_tensors; i++) {
        VaeTensor *t = p->tensors[i];
        if (t->root != t || t->first_op < 0)
            continue;
        const size_t bytes =
            vae_frame_bytes(t) * (size_t) (t->front + t->shape.t);
        blocks[n++] = (VaePlaced){.root = t,
                                  .size = (bytes + 63) / 64 * 64,
                                  .first = t->first_op,
                                  .last = t->last_op};
    }
    return n;
}

static void
set_offsets(VaeProgram *p, const VaePlaced *blocks, int n)
{
    for (int i = 0; i < n; i++) {
        VaeTensor *t = blocks[i].root;
        t->offset = blocks[i].offset + vae_frame_bytes(t) * (size_t) t->front;
    }
    for (int i = 0; i < p->n_tensors; i++) {
        VaeTensor *t = p->tensors[i];
        /* from is negative in the context. */
        t->offset = t->root->offset + (size_t) t->from * vae_frame_stride(t) +
                    (size_t) (t->row - t->root->row) * vae_row_bytes(t);
    }
}

bool
vae_program_plan(VaeProgram *p)
{
    find_lives(p);
    VaePlaced *blocks =
        vae_mem_alloc((size_t) (p->n_tensors + 1) * sizeof *blocks);
    size_t *change = vae_mem_alloc((size_t) (p->n_ops + 1) * sizeof *change);
    const bool good = blocks && change;
    if (good) {
        const int n = list_blocks(p, blocks);
        p->arena =
            place(blocks, n, p->n_ops, live_bytes(blocks, n, change, p->n_ops));
        set_offsets(p, blocks, n);
    }
    vae_mem_free(blocks);
    vae_mem_free(change);
    return good;
}

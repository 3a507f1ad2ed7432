/*
 * plan.c: places the tensors of a program in one arena.
 *
 * A root tensor lives from the first to the last op that uses it or a tensor
 * that shares its memory. The planner places the largest block first, each at
 * the lowest offset that is free over its whole lifetime. For these networks
 * the arena is only a few percent larger than the largest live set.
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

bool
vae_program_plan(VaeProgram *p)
{
    find_lives(p);
    VaePlaced *blocks =
        vae_mem_alloc((size_t) (p->n_tensors + 1) * sizeof *blocks);
    if (!blocks)
        return false;
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
    qsort(blocks, (size_t) n, sizeof *blocks, larger_first);
    p->arena = 0;
    for (int i = 0; i < n; i++) {
        blocks[i].offset = vae_lowest_offset(blocks, i, &blocks[i]);
        VaeTensor *t = blocks[i].root;
        t->offset = blocks[i].offset + vae_frame_bytes(t) * (size_t) t->front;
        if (blocks[i].offset + blocks[i].size > p->arena)
            p->arena = blocks[i].offset + blocks[i].size;
    }
    for (int i = 0; i < p->n_tensors; i++) {
        VaeTensor *t = p->tensors[i];
        /* from is negative in the context. */
        t->offset = t->root->offset + (size_t) t->from * vae_frame_stride(t) +
                    (size_t) (t->row - t->root->row) * vae_row_bytes(t);
    }
    vae_mem_free(blocks);
    return true;
}

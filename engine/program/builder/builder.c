/*
 * builder.c: the builder: names, tensors and carries. See builder.h.
 */
#include <assert.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "builder_state.h"

static const char *const op_names[VAE_OP_KINDS] = {
    "latent-in",   "picture-in", "latent-out", "picture-out", "head-zero",
    "head-repeat", "head-carry", "tail",       "edge",        "carry-zero",
    "conv",        "norm",       "norm-sums",  "attention",   "window",
    "glu",         "noise",      "rearrange",  "cast",        "shortcut",
    "clamp",       "depthwise",  "fetch",      "fetched",     "store",
    "stored"};

const char *
vae_op_name(VaeOpKind kind)
{
    return kind < VAE_OP_KINDS ? op_names[kind] : "?";
}

void
vae_builder_fail(VaeBuilder *b, VaeStatus status, const char *format, ...)
{
    if (b->status != VAE_OK)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(b->error.message, sizeof b->error.message, format, args);
    va_end(args);
    b->error.status = b->status = status;
}

/* Allocates a zeroed block. NULL: the builder has failed. */
static void *
take_block(VaeBuilder *b, size_t bytes)
{
    void *block = vae_mem_alloc(bytes);
    if (!block)
        vae_builder_fail(b, VAE_ERR_MEMORY,
                         "out of memory (%zu bytes) while "
                         "a program was built",
                         bytes);
    return block;
}

/* A program has thousands of small blocks, which are freed together. */
#define CHUNK ((size_t) 32 << 10)

struct VaeChunk {
    struct VaeChunk *next;
    size_t used;
    _Alignas(max_align_t) uint8_t bytes[];
};

/* Allocates at most CHUNK bytes, which the program frees. NULL: the builder has
 * failed. */
static void *
take(VaeBuilder *b, size_t bytes)
{
    VaeProgram *p = b->program;
    const size_t unit = _Alignof(max_align_t);
    bytes = (bytes + unit - 1) / unit * unit;
    assert(bytes <= CHUNK);
    if (!p->chunks || p->chunks->used + bytes > CHUNK) {
        struct VaeChunk *chunk = take_block(b, sizeof *chunk + CHUNK);
        if (!chunk)
            return NULL;
        chunk->next = p->chunks;
        p->chunks = chunk;
    }
    p->chunks->used += bytes;
    return p->chunks->bytes + p->chunks->used - bytes;
}

static bool
grow(VaeBuilder *b, void *array, int used, int *room, size_t size)
{
    if (used < *room)
        return true;
    const int enlarged = *room ? 2 * *room : 64;
    void *bigger = take_block(b, (size_t) enlarged * size);
    if (!bigger)
        return false;
    void **slot = array;
    if (*slot)
        memcpy(bigger, *slot, (size_t) used * size);
    vae_mem_free(*slot);
    *slot = bigger;
    *room = enlarged;
    return true;
}

static char *
copy_text(VaeBuilder *b, const char *text)
{
    const size_t n = strlen(text) + 1;
    char *copy = take(b, n);
    if (copy)
        memcpy(copy, text, n);
    return copy;
}

void
vae_enter(VaeBuilder *b, const char *format, ...)
{
    assert(b->depth < VAE_MAX_DEPTH);
    char name[VAE_MAX_PATH];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    const size_t end = strlen(b->path);
    b->path_end[b->depth++] = end;
    snprintf(b->path + end, sizeof b->path - end, "%s%s", end ? "." : "", name);
}

void
vae_leave(VaeBuilder *b)
{
    if (b->depth == 0) {
        vae_builder_fail(b, VAE_ERR_MODEL,
                         "vae_leave() was called without vae_enter()");
        return;
    }
    VaeProgram *p = b->program;
    if (b->status == VAE_OK)
        for (int i = p->n_ops - 1; i >= 0; i--) {
            VaeOp *op = &p->ops[i];
            if (!op->y)
                continue;
            if (!op->block)
                op->block = copy_text(b, b->path);
            break;
        }
    b->path[b->path_end[--b->depth]] = '\0';
}

bool
vae_is_first(const VaeBuilder *b)
{
    return b->params->first;
}

const void *
vae_arch_data(const VaeBuilder *b)
{
    return b->params->network.arch_data;
}

void
vae_set_head(VaeBuilder *b, VaeHead head)
{
    b->head = head;
}

void
vae_builder_full_name(const VaeBuilder *b, const char *name, const char *suffix,
                      char out[VAE_MAX_PATH])
{
    const char *parts[3] = {b->path, name, suffix};
    size_t used = 0;
    for (int i = 0; i < 3; i++) {
        if (!parts[i] || !parts[i][0])
            continue;
        if (used > 0 && used + 1 < VAE_MAX_PATH)
            out[used++] = '.';
        const size_t room = VAE_MAX_PATH - 1 - used, n = strlen(parts[i]);
        memcpy(out + used, parts[i], n < room ? n : room);
        used += n < room ? n : room;
    }
    out[used] = '\0';
}

/* ------------------------------------------------------------------ */

VaeOp *
vae_builder_op(VaeBuilder *b, VaeOpKind kind, const char *name)
{
    VaeProgram *p = b->program;
    if (b->status != VAE_OK ||
        !grow(b, &p->ops, p->n_ops, &b->ops_room, sizeof *p->ops))
        return NULL;
    char full[VAE_MAX_PATH];
    vae_builder_full_name(b, name, NULL, full);
    VaeOp *op = &p->ops[p->n_ops];
    *op = (VaeOp){.kind = kind, .name = copy_text(b, full)};
    if (!op->name)
        return NULL;
    p->n_ops++;
    return op;
}

VaeTensor *
vae_builder_tensor(VaeBuilder *b, const char *name, VaeShape shape,
                   VaeType type)
{
    VaeProgram *p = b->program;
    if (b->status != VAE_OK || !grow(b, &p->tensors, p->n_tensors,
                                     &b->tensors_room, sizeof *p->tensors))
        return NULL;
    VaeTensor *t = take(b, sizeof *t);
    if (!t)
        return NULL;
    char full[VAE_MAX_PATH];
    vae_builder_full_name(b, name, NULL, full);
    *t = (VaeTensor){.name = copy_text(b, full),
                     .shape = shape,
                     .type = type,
                     .root = t,
                     .id = p->n_tensors};
    p->tensors[p->n_tensors++] = t;
    return t->name ? t : NULL;
}

VaeCarry *
vae_builder_carry(VaeBuilder *b, const char *name, const VaeTensor *like,
                  int frames)
{
    char full[VAE_MAX_PATH];
    vae_builder_full_name(b, name, NULL, full);
    VaeCarrySet *set = b->params->carries;
    /* The programs of a stream use the carries in the same order. */
    for (int k = 0; k < set->n; k++) {
        const int i = (b->next_carry + k) % set->n;
        VaeCarry *c = set->items[i];
        if (strcmp(c->name, full) != 0)
            continue;
        b->next_carry = i + 1;
        if (c->frames == frames && c->h == like->shape.h &&
            c->w == like->shape.w && c->c == like->shape.c &&
            c->type == like->type)
            return c;
        vae_builder_fail(b, VAE_ERR_MODEL,
                         "%s: the carry has %d frames of %dx%dx%d, but another "
                         "step keeps %d of %dx%dx%d (height x width x "
                         "channels)",
                         full, frames, like->shape.h, like->shape.w,
                         like->shape.c, c->frames, c->h, c->w, c->c);
        return NULL;
    }
    VaeCarry *c = take_block(b, sizeof *c);
    VaeCarry **items = take_block(b, (size_t) (set->n + 1) * sizeof *items);
    char *copy = take_block(b, strlen(full) + 1);
    if (!c || !items || !copy) {
        vae_mem_free(c);
        vae_mem_free(items);
        vae_mem_free(copy);
        return NULL;
    }
    strcpy(copy, full);
    *c = (VaeCarry){.name = copy,
                    .frames = frames,
                    .h = like->shape.h,
                    .w = like->shape.w,
                    .c = like->shape.c,
                    .type = like->type,
                    .offset = (size_t) set->n};
    c->bytes = (size_t) frames * vae_frame_bytes(like);
    if (set->n)
        memcpy(items, set->items, (size_t) set->n * sizeof *items);
    vae_mem_free(set->items);
    set->items = items;
    set->items[set->n++] = c;
    return c;
}

VaeCarry *
vae_builder_history(VaeBuilder *b, const char *name, const VaeTensor *like)
{
    VaeCarry *c = vae_builder_carry(b, name, like, 1);
    if (!c)
        return NULL;
    c->grows = true;
    return c;
}

/* Latents in a block of a history: as many as fit into BLOCK_BYTES, which is
 * small beside the rest of a stream, but at most BLOCK_LATENTS, so that small
 * pictures take no more than they need. */
enum { BLOCK_BYTES = 8 << 20, BLOCK_LATENTS = 16 };

static int
latents_of_block(size_t bytes, int window)
{
    const size_t most =
        window && window < BLOCK_LATENTS ? (size_t) window : BLOCK_LATENTS;
    const size_t fit = bytes ? BLOCK_BYTES / bytes : most;
    return (int) (fit < 1 ? 1 : fit < most ? fit : most);
}

/* Places the histories of a set in the bytes of a latent. */
static void
place_histories(VaeCarrySet *set, int window)
{
    set->history = 0;
    for (int i = 0; i < set->n; i++) {
        VaeCarry *c = set->items[i];
        if (!c->grows)
            continue;
        c->place = set->history;
        set->history += (c->bytes + 63) / 64 * 64;
    }
    set->each = latents_of_block(set->history, window);
    for (int i = 0; i < set->n; i++) {
        set->items[i]->stride = set->history;
        set->items[i]->each = set->each;
    }
}

/* Carries of one size keep their order. */
static int
larger_first(const void *a, const void *b)
{
    const VaeCarry *x = *(VaeCarry *const *) a, *y = *(VaeCarry *const *) b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

bool
vae_carry_set_place(VaeCarrySet *set, size_t spill, int window)
{
    size_t at = 0;
    VaeCarry **sorted =
        vae_mem_alloc((size_t) (set->n + 1) * sizeof(VaeCarry *));
    if (!sorted)
        return false;
    int n = 0;
    set->spilled = 0;
    for (int i = 0; i < set->n; i++)
        if (!set->items[i]->grows)
            sorted[n++] = set->items[i];
    qsort(sorted, (size_t) n, sizeof(VaeCarry *), larger_first);
    for (int i = 0; i < n; i++) {
        VaeCarry *c = sorted[i];
        c->offset = at;
        c->spilled = at < spill;
        c->place = c->spilled ? at : at - set->spilled;
        at += (c->bytes + 63) / 64 * 64;
        if (c->spilled)
            set->spilled = at;
    }
    set->bytes = at;
    place_histories(set, window);
    vae_mem_free(sorted);
    return true;
}

void
vae_carry_set_free(VaeCarrySet *set)
{
    for (int i = 0; i < set->n; i++) {
        vae_mem_free(set->items[i]->name);
        vae_mem_free(set->items[i]);
    }
    vae_mem_free(set->items);
    *set = (VaeCarrySet){0};
}

VaeWeight *
vae_builder_new_weight(VaeBuilder *b, VaeWeightKind kind)
{
    if (b->status != VAE_OK)
        return NULL;
    VaeWeight *w = take(b, sizeof *w);
    if (w)
        w->kind = kind;
    return w;
}

/* ------------------------------------------------------------------ */

/* The sum is written over `add`, so no later op may read `add`. */
static void
check_in_place(VaeBuilder *b)
{
    const VaeProgram *p = b->program;
    for (int i = 0; i < p->n_ops; i++) {
        const VaeOp *op = &p->ops[i];
        if ((op->x && op->x->lost) || (op->add && op->add->lost))
            vae_builder_fail(b, VAE_ERR_MODEL,
                             "%s: %s is read after "
                             "a sum was written over it",
                             op->name,
                             (op->x && op->x->lost ? op->x : op->add)->name);
        if (op->add && op->y->root != op->y)
            op->add->lost = true;
    }
}

/* After an error, tensors of the last op may be missing. A dry run has no
 * weights to count. */
static void
finish(VaeBuilder *b)
{
    if (b->status == VAE_OK)
        check_in_place(b);
    if (b->status == VAE_OK && !b->params->dry_run)
        vae_program_count(b->program);
}

VaeStatus
vae_program_build(const VaeBuildParams *params, VaeProgram **out,
                  VaeError *error)
{
    *out = NULL;
    const VaeSteps *s = &params->network.steps;
    VaeBuilder b = {.params = params};
    b.program = vae_mem_alloc(sizeof *b.program);
    if (!b.program)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    VaeProgram *p = b.program;
    p->label = params->label;
    p->direction = params->direction;
    p->steps = params->steps;
    p->whole = params->network.whole;
    const bool first = params->first || params->network.whole;
    const int later = first ? params->steps - 1 : params->steps;
    p->n_in = (first ? s->first_in : 0) + s->step_in * later;
    p->n_out = (first ? s->first_out : 0) + s->step_out * later;
    params->network.forward(&b);
    finish(&b);
    if (b.status != VAE_OK) {
        vae_program_free(&b.program);
        return vae_pass_on(error, &b.error);
    }
    *out = b.program;
    return VAE_OK;
}

void
vae_program_free(VaeProgram **program)
{
    VaeProgram *p = *program;
    *program = NULL;
    if (!p)
        return;
    while (p->chunks) {
        struct VaeChunk *next = p->chunks->next;
        vae_mem_free(p->chunks);
        p->chunks = next;
    }
    vae_mem_free(p->ops);
    vae_mem_free(p->tensors);
    vae_mem_free(p->parts);
    vae_mem_free(p->row_parts);
    vae_mem_free(p->windows);
    vae_mem_free(p);
}

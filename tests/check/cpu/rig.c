/*
 * rig.c: see rig.h.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "rig.h"

struct VaeRig {
    const VaeBackendClass *class;
    VaeBackend *backend;
    VaeExec *exec;
    VaeOneOp one;
    VaeProgram program;
    VaeOp op;
    VaeTensor x, y, add;
    VaeTensor *tensors[3];
    VaeWeight weight, bias;
    VaeTensorInfo weight_info, bias_info;
    void *arena, *scratch;
    VaeCarry carry;
    VaeHistoryBlocks *history; /* or NULL */
    uint64_t frames;           /* of all runs */
};

size_t
vae_rig_cached(const VaeWeightCache *cache)
{
    size_t n = 0;
    for (const VaeCachedWeight *k = cache->first; k; k = k->next)
        n++;
    return n;
}

static VaeWeight
describe_weight(VaeTensorInfo *info, const float *data, int id,
                VaeWeightKind kind, const int dims[5])
{
    VaeWeight w = {.kind = kind, .n_parts = 1, .part = {info}, .id = id};
    memcpy(w.dims, dims, sizeof w.dims);
    *info = (VaeTensorInfo){.name = "weight",
                            .type = VAE_TYPE_F32,
                            .bytes = vae_weight_count(&w) * sizeof(float),
                            .data = data};
    return w;
}

static void
describe_conv(VaeRig *r)
{
    const VaeOneOp *o = &r->one;
    const int dims[5] = {o->y.c, o->x.c, o->kt, o->k, o->k};
    const int ones[5] = {o->y.c, 1, 1, 1, 1};
    r->weight =
        describe_weight(&r->weight_info, o->weight, 7, VAE_WEIGHT_CONV, dims);
    r->bias =
        describe_weight(&r->bias_info, o->bias, 8, VAE_WEIGHT_VECTOR, ones);
    r->op.weight = &r->weight;
    r->op.bias = o->bias ? &r->bias : NULL;
    r->op.conv.k = o->k;
    r->op.conv.kt = o->kt;
    r->op.conv.s = o->s;
    r->op.conv.st = o->st;
    r->op.conv.pad = o->pad;
    r->op.conv.relu = o->relu;
    r->op.conv.up = o->up;
    r->op.conv.winograd = o->tiles > 0;
}

/* Blocks of two latents, or of fewer than the window. K and V follow a gap. */
enum { EACH = 2, GAP = 64, MOST_BLOCKS = 8 };

static void
describe_history(VaeCheck *t, VaeRig *r)
{
    const VaeOneOp *o = &r->one;
    const size_t bytes =
        (size_t) 2 * o->y.h * o->y.w * o->y.c * vae_type_size(o->type);
    r->carry = (VaeCarry){.grows = true,
                          .bytes = bytes,
                          .place = GAP,
                          .stride = GAP + (bytes + 63) / 64 * 64,
                          .each = EACH};
    r->op.carry = &r->carry;
    r->op.attention.window = o->window;
    r->history = calloc(1, sizeof *r->history);
    if (!r->history)
        abort();
    const int latents = o->window ? o->window : EACH * MOST_BLOCKS;
    for (int i = 0; i < (latents + EACH - 1) / EACH; i++)
        r->history->block[i] =
            vae_check_buffer_at(t, EACH * r->carry.stride, 0);
}

/* The arena has x, then y. If there is an add, it is in the place of y. */
static void
describe(VaeCheck *t, VaeRig *r)
{
    const VaeOneOp *o = &r->one;
    const bool conv = o->kind == VAE_OP_CONV;
    const int ctx = conv ? o->kt - 1 : 0;
    r->x = (VaeTensor){.name = (char *) "x",
                       .shape = o->x,
                       .type = conv ? o->type : VAE_TYPE_F32,
                       .ctx = ctx,
                       .front = ctx,
                       .root = &r->x};
    r->x.shape.t -= ctx;
    r->y = (VaeTensor){.name = (char *) "y",
                       .shape = o->y,
                       .type = conv && !o->narrow ? VAE_TYPE_F32 : o->type,
                       .root = o->add ? &r->add : &r->y,
                       .id = 1};
    r->add = r->y;
    r->add.name = (char *) "add";
    r->add.id = 2;
    r->tensors[0] = &r->x;
    r->tensors[1] = &r->y;
    r->tensors[2] = &r->add;
    r->op = (VaeOp){.kind = o->kind,
                    .name = "op",
                    .x = &r->x,
                    .y = &r->y,
                    .add = o->add ? &r->add : NULL};
    if (conv)
        describe_conv(r);
    if (o->so_far)
        describe_history(t, r);
    r->program = (VaeProgram){.label = "one",
                              .steps = o->tiles ? o->y.t / o->tiles : 1,
                              .ops = &r->op,
                              .n_ops = 1,
                              .tensors = r->tensors,
                              .n_tensors = o->add ? 3 : 2};
}

VaeRig *
vae_rig_new(VaeCheck *t, const VaeBackendClass *class, VaeBackend *backend,
            VaeWeightCache *cache, const VaeOneOp *op)
{
    VaeError error = {0};
    VaeRig *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    r->class = class;
    r->backend = backend;
    r->one = *op;
    describe(t, r);
    if (!vae_program_plan(&r->program) ||
        class->prepare(backend, cache, &r->program, &r->exec, &error)) {
        vae_check_fail(t, "%s: %s", class->name, error.message);
        vae_rig_free(&r);
        return NULL;
    }
    /* The buffers are between guards, and aligned like those of streams. */
    r->arena = vae_check_buffer_at(t, r->program.arena, 0);
    r->scratch = vae_check_buffer_at(t, r->exec->scratch, 0);
    if (class->bind(backend, r->exec,
                    &(VaeMemory){.arena = r->arena,
                                 .scratch = r->scratch,
                                 .history = r->history},
                    &error)) {
        vae_check_fail(t, "%s: %s", class->name, error.message);
        vae_rig_free(&r);
    }
    return r;
}

void
vae_rig_free(VaeRig **rig)
{
    VaeRig *r = *rig;
    *rig = NULL;
    if (!r)
        return;
    r->class->exec_free(r->backend, &r->exec);
    free(r->history);
    free(r);
}

static size_t
count(VaeShape s)
{
    return (size_t) s.t * s.h * s.w * s.c;
}

/* Returns the place of the result. */
static uint8_t *
fill(VaeRig *r, const float *x)
{
    uint8_t *ys = vae_exec_body(r->exec, &r->y);
    vae_type_from_float(vae_exec_slab(r->exec, &r->x), r->x.type, x,
                        count(r->one.x));
    memset(ys, 0xff, count(r->one.y) * vae_type_size(r->y.type));
    memset(r->scratch, 0xff, r->exec->scratch);
    return ys;
}

void
vae_rig_run(VaeCheck *t, VaeRig *r, const float *x, float *y)
{
    VaeError error = {0};
    atomic_bool cancel = false;
    VaeStreamStats stats = {0};
    const VaeRun run = {
        .stats = &stats, .cancel = &cancel, .history = r->frames};
    const size_t n = count(r->one.y);
    uint8_t *ys = fill(r, x);
    r->frames += (uint64_t) r->one.y.t;
    if (r->one.add)
        vae_type_from_float(ys, r->y.type, y, n);
    if (r->class->run(r->backend, r->exec, &run, &error))
        vae_check_fail(t, "%s: %s", r->class->name, error.message);
    vae_type_to_float(y, ys, r->y.type, n);
}

typedef struct Watch {
    const volatile uint8_t *at; /* a byte that is 0xff until it is computed */
    atomic_bool cancel;
} Watch;

static void *
watch(void *user)
{
    Watch *w = user;
    while (*w->at == 0xff)
        sched_yield();
    atomic_store(&w->cancel, true);
    return NULL;
}

bool
vae_rig_cancel(VaeRig *r, const float *x)
{
    VaeError error = {0};
    VaeStreamStats stats = {0};
    uint8_t *ys = fill(r, x);
    const size_t one = vae_type_size(r->y.type);
    const size_t last = count(r->one.y) * one - 1;
    Watch w = {.at = ys + one - 1}; /* the exponent of the first number */
    const VaeRun run = {.stats = &stats, .cancel = &w.cancel};
    pthread_t thread;
    if (pthread_create(&thread, NULL, watch, &w) != 0)
        abort();
    const VaeStatus status = r->class->run(r->backend, r->exec, &run, &error);
    const bool ended = status == VAE_ERR_CANCELLED && ys[last] == 0xff;
    ys[one - 1] = 0; /* ends the thread if it still waits */
    pthread_join(thread, NULL);
    return ended;
}

size_t
vae_rig_scratch(const VaeRig *r)
{
    return r->exec->scratch;
}

size_t
vae_rig_weight_bytes(const VaeRig *r)
{
    return r->exec->weight_bytes;
}

const char *
vae_rig_impl(const VaeRig *r)
{
    return r->exec->ops[0].impl;
}

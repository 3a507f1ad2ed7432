/*
 * executor.c: runs a program op by op in host memory.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "executor.h"
#include "clock.h"

uint8_t *
vae_host_slab(const VaeExec *e, const VaeTensor *t)
{
    return vae_host_body(e, t) - (size_t) t->ctx * vae_frame_bytes(t);
}

/* ------------------------------------------------------------------ */
/* Weights in the layout of the kernel table.                          */

/* [out][in][kt][k][k] -> [kt][k][k][in][out] */
static void
pack_conv(const VaeWeight *w, const float *src, float *dst)
{
    const size_t out = (size_t) w->dims[0], in = (size_t) w->dims[1];
    const size_t taps = (size_t) w->dims[2] * w->dims[3] * w->dims[4];
    for (size_t o = 0; o < out; o++)
        for (size_t i = 0; i < in; i++)
            for (size_t t = 0; t < taps; t++)
                dst[(t * in + i) * out + o] = src[(o * in + i) * taps + t];
}

static VaeStatus
make_weight(void *user, void *dst, VaeError *error)
{
    const VaeWeight *w = user;
    if (w->kind == VAE_WEIGHT_VECTOR) {
        vae_weight_read(w, dst);
        return VAE_OK;
    }
    const size_t bytes = vae_weight_count(w) * sizeof(float);
    float *raw = vae_mem_alloc(bytes);
    if (!raw)
        return vae_fail(error, VAE_ERR_MEMORY,
                        "out of memory for weights "
                        "(%zu bytes)",
                        bytes);
    vae_weight_read(w, raw);
    pack_conv(w, raw, dst);
    vae_mem_free(raw);
    return VAE_OK;
}

typedef struct HostKey {
    char table[8];
    int id, parts;
} HostKey;

VaeStatus
vae_host_weight(VaeExec *e, VaeWeightCache *cache, VaeWeight *w,
                const float **out, VaeError *error)
{
    const size_t bytes = vae_weight_count(w) * sizeof(float);
    e->weight_bytes += bytes;
    if (w->kind != VAE_WEIGHT_VECTOR && bytes > e->loading)
        e->loading = bytes; /* see make_weight() */
    if (!cache)
        return VAE_OK;
    HostKey key;
    memset(&key, 0, sizeof key);
    strcpy(key.table, "host");
    key.id = w->id;
    key.parts = w->n_parts;
    const void *blob = NULL;
    const VaeStatus status = vae_weight_cache_get(
        cache, &key, sizeof key, bytes, make_weight, w, NULL, &blob, error);
    *out = blob;
    return status;
}

static size_t
op_scratch(const VaeOp *op, bool with_conv)
{
    const VaeTensor *y = op->y;
    if (op->kind == VAE_OP_NORM && op->norm.kind == VAE_NORM_GROUP)
        return sizeof(double) *
               vae_norm_sums(y->shape.h, y->shape.w, op->norm.groups);
    if (op->kind == VAE_OP_ATTENTION && with_conv)
        return vae_attention_scratch_ref(y->shape.h * y->shape.w, y->shape.c);
    return 0;
}

VaeStatus
vae_host_prepare(const VaeProgram *program, VaeWeightCache *cache,
                 const VaeKernels *kernels, int threads, bool with_conv,
                 VaeExec **out, VaeError *error)
{
    *out = NULL;
    VaeExec *e = vae_mem_alloc(sizeof *e);
    VaeHostOp *ops = vae_mem_alloc((size_t) (program->n_ops + 1) * sizeof *ops);
    if (!e || !ops) {
        vae_mem_free(e);
        vae_mem_free(ops);
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    }
    *e = (VaeExec){.program = program,
                   .kernels = kernels,
                   .ops = ops,
                   .queue.threads = threads};
    VaeStatus status = VAE_OK;
    for (int i = 0; i < program->n_ops && status == VAE_OK; i++) {
        const VaeOp *op = &program->ops[i];
        const size_t scratch = op_scratch(op, with_conv);
        if (scratch > e->scratch)
            e->scratch = scratch;
        ops[i].impl = kernels->name;
        if (op->kind == VAE_OP_CONV && !with_conv)
            continue;
        if (op->weight)
            status =
                vae_host_weight(e, cache, op->weight, &ops[i].weight, error);
        if (op->bias && status == VAE_OK)
            status = vae_host_weight(e, cache, op->bias, &ops[i].bias, error);
    }
    if (status != VAE_OK)
        vae_host_exec_free(&e);
    *out = e;
    return status;
}

void
vae_host_exec_free(VaeExec **exec)
{
    VaeExec *e = *exec;
    *exec = NULL;
    if (!e)
        return;
    for (int i = 0; i < e->program->n_ops; i++)
        if (e->ops[i].own_free)
            e->ops[i].own_free(e->ops[i].own);
    vae_mem_free(e->ops);
    vae_mem_free(e);
}

/* ------------------------------------------------------------------ */
/* One op.                                                             */

static void
run_latents_in(VaeExec *e, const VaeOp *op, const VaeRun *run)
{
    const VaeTensor *y = op->y;
    for (int i = 0; i < y->shape.t; i++)
        e->kernels->latent_in(
            &e->queue, &(VaeLatentInArgs){.y = vae_host_body(e, y) +
                                               (size_t) i * vae_frame_bytes(y),
                                          .src = run->latents_in[i].data,
                                          .src_type = run->latents_in[i].type,
                                          .scale = run->scale,
                                          .shift = run->shift,
                                          .y_type = y->type,
                                          .h = y->shape.h,
                                          .w = y->shape.w,
                                          .c = y->shape.c,
                                          .nonfinite = &run->stats->nonfinite});
}

static void
run_latents_out(VaeExec *e, const VaeOp *op, const VaeRun *run, int channels)
{
    const VaeTensor *x = op->x;
    for (int i = 0; i < x->shape.t; i++)
        e->kernels->latent_out(
            &e->queue,
            &(VaeLatentOutArgs){
                .x = (const float *) (vae_host_body(e, x) +
                                      (size_t) i * vae_frame_bytes(x)),
                .dst = run->latents_out[i].data,
                .dst_type = run->latents_out[i].type,
                .mean_out = run->latents_out[i].mean,
                .logvar_out = run->latents_out[i].logvar,
                .mean = run->mean,
                .std = run->std,
                .normalise = run->normalise,
                .sample = run->sample,
                .seed = run->seed,
                .index = run->index + (uint64_t) i,
                .h = x->shape.h,
                .w = x->shape.w,
                .c = channels,
                .cx = x->shape.c,
                .nonfinite = &run->stats->nonfinite});
}

static void
run_pictures(VaeExec *e, const VaeOp *op, const VaeRun *run)
{
    const bool in = op->kind == VAE_OP_PICTURE_IN;
    const VaeTensor *t = in ? op->y : op->x;
    const int trim = in ? 0 : op->trim;
    for (int i = 0; i < t->shape.t - trim; i++) {
        const VaePicture *p = &run->pictures[i];
        uint8_t *frame =
            vae_host_body(e, t) + (size_t) (i + trim) * vae_frame_bytes(t);
        if (!p->data[0])
            continue;
        if (in)
            e->kernels->picture_in(&e->queue,
                                   &(VaePictureInArgs){.y = frame,
                                                       .y_type = t->type,
                                                       .picture = p,
                                                       .h = t->shape.h,
                                                       .w = t->shape.w,
                                                       .low = run->low,
                                                       .high = run->high});
        else
            e->kernels->picture_out(&e->queue,
                                    &(VaePictureOutArgs){.picture = p,
                                                         .x = (float *) frame,
                                                         .h = t->shape.h,
                                                         .w = t->shape.w,
                                                         .low = run->low,
                                                         .high = run->high});
    }
}

uint8_t *
vae_host_carry(const VaeExec *e, const VaeOp *op)
{
    assert(op->carry);
    return e->memory.carries + op->carry->offset;
}

static void
run_memory_op(VaeExec *e, const VaeOp *op)
{
    const VaeTensor *x = op->x;
    const VaeCarry *c = op->carry;
    if (op->kind == VAE_OP_CARRY_ZERO) {
        memset(vae_host_carry(e, op), 0, c->bytes);
        return;
    }
    const size_t frame = vae_frame_bytes(x);
    uint8_t *slab = vae_host_slab(e, x);
    if (op->kind == VAE_OP_HEAD_ZERO)
        memset(slab, 0, (size_t) x->ctx * frame);
    else if (op->kind == VAE_OP_HEAD_CARRY)
        memcpy(slab, vae_host_carry(e, op), c->bytes);
    else if (op->kind == VAE_OP_HEAD_REPEAT)
        for (int i = 0; i < x->ctx; i++)
            memcpy(slab + (size_t) i * frame, vae_host_body(e, x), frame);
    else
        memcpy(vae_host_carry(e, op),
               slab + (size_t) (x->ctx + x->shape.t - c->frames) * frame,
               c->bytes);
}

static void
run_conv(VaeExec *e, const VaeOp *op, const VaeHostOp *own)
{
    const VaeTensor *x = op->x, *y = op->y;
    /* A tensor may have more context than this conv looks back. */
    assert(!op->conv.up);
    const int back = (y->shape.t - 1) * op->conv.st + op->conv.kt - x->shape.t;
    e->kernels->conv(
        &e->queue,
        &(VaeConvArgs){.y = vae_host_body(e, y),
                       .x = vae_host_body(e, x) -
                            (size_t) back * vae_frame_bytes(x),
                       .add = op->add ? vae_host_body(e, op->add) : NULL,
                       .weight = own->weight,
                       .bias = own->bias,
                       .t = y->shape.t,
                       .h = x->shape.h,
                       .w = x->shape.w,
                       .c_in = x->shape.c,
                       .ho = y->shape.h,
                       .wo = y->shape.w,
                       .c_out = y->shape.c,
                       .k = op->conv.k,
                       .kt = op->conv.kt,
                       .s = op->conv.s,
                       .st = op->conv.st,
                       .pad_y = op->conv.pad,
                       .pad_x = op->conv.pad,
                       .relu = op->conv.relu});
}

static void
run_norm(VaeExec *e, const VaeOp *op, const VaeHostOp *own)
{
    const VaeTensor *x = op->x, *y = op->y;
    e->kernels->norm(&e->queue,
                     &(VaeNormArgs){.kind = op->norm.kind,
                                    .y = vae_host_body(e, y),
                                    .x = vae_host_body(e, x),
                                    .gain = own->weight,
                                    .offset = own->bias,
                                    .x_type = x->type,
                                    .y_type = y->type,
                                    .t = x->shape.t,
                                    .h = x->shape.h,
                                    .w = x->shape.w,
                                    .c = x->shape.c,
                                    .groups = op->norm.groups,
                                    .silu = op->norm.silu,
                                    .sums = (double *) e->memory.scratch});
}

static size_t
count(const VaeTensor *t)
{
    return (size_t) t->shape.t * t->shape.h * t->shape.w * t->shape.c;
}

static void
run_depthwise(VaeExec *e, const VaeOp *op, const VaeHostOp *own)
{
    const VaeTensor *x = op->x, *y = op->y;
    e->kernels->depthwise(&e->queue,
                          &(VaeDepthwiseArgs){.y = vae_host_body(e, y),
                                              .x = vae_host_slab(e, x),
                                              .weight = own->weight,
                                              .x_type = x->type,
                                              .y_type = y->type,
                                              .t = x->shape.t,
                                              .h = x->shape.h,
                                              .w = x->shape.w,
                                              .n = x->shape.c});
}

static void
run_rest(VaeExec *e, const VaeOp *op)
{
    const VaeTensor *x = op->x, *y = op->y;
    uint8_t *to = vae_host_body(e, y), *from = vae_host_body(e, x);
    if (op->kind == VAE_OP_ATTENTION)
        e->kernels->attention(&e->queue,
                              &(VaeAttentionArgs){.y = to,
                                                  .qkv = from,
                                                  .scratch = e->memory.scratch,
                                                  .t = y->shape.t,
                                                  .n = y->shape.h * y->shape.w,
                                                  .c = y->shape.c});
    else if (op->kind == VAE_OP_SHORTCUT)
        e->kernels->shortcut(&e->queue,
                             &(VaeShortcutArgs){.kind = op->shortcut.kind,
                                                .y = (float *) to,
                                                .x = (const float *) from,
                                                .t = x->shape.t,
                                                .h = x->shape.h,
                                                .w = x->shape.w,
                                                .cx = x->shape.c,
                                                .cy = y->shape.c,
                                                .ft = op->shortcut.ft,
                                                .fs = op->shortcut.fs,
                                                .drop = op->shortcut.drop});
    else if (op->kind == VAE_OP_CLAMP)
        e->kernels->clamp(&e->queue, &(VaeClampArgs){.y = to,
                                                     .x = from,
                                                     .x_type = x->type,
                                                     .y_type = y->type,
                                                     .n = count(x)});
    else if (op->kind == VAE_OP_CAST)
        e->kernels->cast(&e->queue, &(VaeCastArgs){.y = to,
                                                   .x = from,
                                                   .x_type = x->type,
                                                   .y_type = y->type,
                                                   .n = count(x)});
    else
        e->kernels->rearrange(&e->queue,
                              &(VaeRearrangeArgs){.kind = op->rearrange.kind,
                                                  .y = to,
                                                  .x = from,
                                                  .x_type = x->type,
                                                  .y_type = y->type,
                                                  .t = x->shape.t,
                                                  .h = x->shape.h,
                                                  .w = x->shape.w,
                                                  .c = y->shape.c,
                                                  .ft = op->rearrange.ft,
                                                  .fs = op->rearrange.fs,
                                                  .drop = op->rearrange.drop});
}

static VaeStatus
run_op(VaeExec *e, int i, const VaeRun *run, VaeError *error)
{
    const VaeOp *op = &e->program->ops[i];
    const VaeHostOp *own = &e->ops[i];
    if (own->run)
        return own->run(own->own, op, error);
    switch (op->kind) {
    case VAE_OP_LATENT_IN:
        run_latents_in(e, op, run);
        break;
    case VAE_OP_LATENT_OUT:
        run_latents_out(e, op, run, run->channels);
        break;
    case VAE_OP_PICTURE_IN:
    case VAE_OP_PICTURE_OUT:
        run_pictures(e, op, run);
        break;
    case VAE_OP_HEAD_ZERO:
    case VAE_OP_HEAD_REPEAT:
    case VAE_OP_HEAD_CARRY:
    case VAE_OP_TAIL:
    case VAE_OP_CARRY_ZERO:
        run_memory_op(e, op);
        break;
    case VAE_OP_CONV:
        run_conv(e, op, own);
        break;
    case VAE_OP_NORM:
        run_norm(e, op, own);
        break;
    case VAE_OP_DEPTHWISE:
        run_depthwise(e, op, own);
        break;
    case VAE_OP_SHORTCUT:
    case VAE_OP_CLAMP:
    case VAE_OP_ATTENTION:
    case VAE_OP_REARRANGE:
    case VAE_OP_CAST:
    case VAE_OP_KINDS:
        run_rest(e, op);
        break;
    }
    return VAE_OK;
}

/* Only for tests and debugging, so it may allocate. */
static void
dump(VaeExec *e, const VaeOp *op, const VaeRun *run)
{
    const VaeTensor *y = op->y;
    if (!y)
        return;
    const size_t n = (size_t) y->shape.t * y->shape.h * y->shape.w * y->shape.c;
    float *wide = vae_mem_alloc(n * sizeof *wide);
    if (!wide)
        return;
    vae_type_to_float(wide, vae_host_body(e, y), y->type, n);
    const char *names[2] = {op->name, op->block};
    for (int i = 0; i < 2; i++)
        if (names[i] &&
            (i == 0 || !names[0] || strcmp(names[0], names[1]) != 0))
            run->dump(run->dump_user, run->step, names[i], y->shape.t,
                      y->shape.h, y->shape.w, y->shape.c, wide);
    vae_mem_free(wide);
}

/* The first op takes in, the last gives out. */
static void
count_time(const VaeExec *e, int i, VaeStreamStats *stats, uint64_t ns)
{
    if (i == 0)
        stats->upload_ns += ns;
    else if (i == e->program->n_ops - 1)
        stats->download_ns += ns;
    else
        stats->compute_ns += ns;
    if (e->times) {
        e->times[i].calls++;
        e->times[i].ns += ns;
    }
}

VaeStatus
vae_host_run(VaeExec *e, const VaeRun *run, VaeError *error)
{
    for (int i = 0; i < e->program->n_ops; i++) {
        if (atomic_load_explicit(run->cancel, memory_order_relaxed))
            return vae_fail(error, VAE_ERR_CANCELLED, "cancelled");
        const uint64_t start = vae_now_ns();
        const VaeStatus status = run_op(e, i, run, error);
        if (status != VAE_OK)
            return status;
        count_time(e, i, run->stats, vae_now_ns() - start);
        if (run->dump)
            dump(e, &e->program->ops[i], run);
    }
    return VAE_OK;
}

/* ------------------------------------------------------------------ */
/* What both backends answer alike.                                    */

VaeStatus
vae_host_alloc(VaeBackend *backend, size_t bytes, void **out, VaeError *error)
{
    *out = vae_mem_alloc(bytes ? bytes : 1);
    return *out ? VAE_OK
                : vae_fail(error, VAE_ERR_MEMORY, "out of memory (%zu bytes)",
                           bytes);
}

void
vae_host_free(VaeBackend *backend, void *block)
{
    vae_mem_free(block);
}

size_t
vae_host_scratch(const VaeExec *exec)
{
    return exec->scratch;
}

size_t
vae_host_weight_bytes(const VaeExec *exec)
{
    return exec->weight_bytes;
}

size_t
vae_host_loading(const VaeExec *exec)
{
    return exec->loading;
}

const char *
vae_host_impl(const VaeExec *exec, int op)
{
    return exec->ops[op].impl;
}

void
vae_host_profile(VaeExec *exec, VaeOpTime *rows)
{
    exec->times = rows;
}

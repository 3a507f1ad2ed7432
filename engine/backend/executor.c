/*
 * executor.c: see executor.h.
 */
#include <assert.h>
#include <string.h>

#include "alloc.h"
#include "executor.h"

VaeExec *
vae_exec_new(const VaeProgram *program, size_t size)
{
    VaeExec *e = vae_mem_alloc(size);
    VaeExecOp *ops = vae_mem_alloc((size_t) (program->n_ops + 1) * sizeof *ops);
    if (!e || !ops) {
        vae_mem_free(e);
        vae_mem_free(ops);
        return NULL;
    }
    e->program = program;
    e->ops = ops;
    return e;
}

void
vae_exec_free(VaeExec **exec)
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
/* Units in and out.                                                   */

static const void *
unit(const void *first, int i, size_t stride)
{
    return (const uint8_t *) first + (size_t) i * stride;
}

static void
latents_in(const VaeLaunch *l, const VaeOp *op)
{
    const VaeTensor *y = op->y;
    uint8_t *frame = vae_exec_body(l->exec, y);
    for (int i = 0; i < y->shape.t; i++, frame += vae_frame_bytes(y)) {
        const VaeLatentIn *from = unit(l->latents_in, i, l->in_stride);
        l->kernels->latent_in(&l->queue,
                              &(VaeLatentInArgs){.y = frame,
                                                 .src = from->data,
                                                 .src_type = from->type,
                                                 .scale = l->scale,
                                                 .shift = l->shift,
                                                 .y_type = y->type,
                                                 .h = y->shape.h,
                                                 .w = y->shape.w,
                                                 .c = y->shape.c,
                                                 .nonfinite = l->nonfinite});
    }
}

/* Counts the non-finite values of the result x, in frames of the sequence. */
static void
count_bad(const VaeLaunch *l, const VaeTensor *x)
{
    const size_t frame = vae_frame_bytes(x);
    int64_t first = 0, end = x->shape.t;
    if (l->exec->program->delayed)
        vae_clock_span(&l->run->clock, x, &first, &end);
    first = first > 0 ? first : 0;
    end = end < x->shape.t ? end : x->shape.t;
    if (l->bad && first < end)
        l->kernels->nonfinite(
            &l->queue,
            &(VaeNonfiniteArgs){
                .x = vae_exec_body(l->exec, x) + (size_t) first * frame,
                .x_type = x->type,
                .n = (size_t) (end - first) * frame / vae_type_size(x->type),
                .counter = l->bad});
}

static void
latents_out(const VaeLaunch *l, const VaeOp *op)
{
    const VaeTensor *x = op->x;
    const VaeRun *run = l->run;
    assert(run);
    count_bad(l, x);
    const uint8_t *frame = vae_exec_body(l->exec, x);
    for (int i = 0; i < x->shape.t; i++, frame += vae_frame_bytes(x)) {
        const VaeLatentOut *to = unit(l->latents_out, i, l->out_stride);
        l->kernels->latent_out(
            &l->queue, &(VaeLatentOutArgs){.x = frame,
                                           .x_type = x->type,
                                           .dst = to->data,
                                           .dst_type = to->type,
                                           .mean_out = to->mean,
                                           .logvar_out = to->logvar,
                                           .mean = l->mean,
                                           .std = l->std,
                                           .normalise = run->normalise,
                                           .sample = run->sample,
                                           .seed = run->seed,
                                           .index = run->index + (uint64_t) i,
                                           .h = x->shape.h,
                                           .w = x->shape.w,
                                           .c = run->channels,
                                           .cx = x->shape.c,
                                           .nonfinite = l->nonfinite});
    }
}

static int
pictures_in(const VaeLaunch *l, const VaeOp *op)
{
    assert(l->run);
    const VaeTensor *y = op->y;
    uint8_t *frame = vae_exec_body(l->exec, y);
    const size_t black = (size_t) op->trim * vae_frame_bytes(y);
    const int code = black ? l->zero(&l->queue, frame, black) : 0;
    frame += black;
    for (int i = 0; i < y->shape.t - op->trim; i++) {
        l->kernels->picture_in(
            &l->queue, &(VaePictureInArgs){
                           .y = frame,
                           .y_type = y->type,
                           .picture = unit(l->pictures_in, i, l->in_stride),
                           .h = y->shape.h,
                           .w = y->shape.w,
                           .c = y->shape.c,
                           .low = l->run->low,
                           .high = l->run->high});
        frame += vae_frame_bytes(y);
    }
    return code;
}

static void
pictures_out(const VaeLaunch *l, const VaeOp *op)
{
    assert(l->run);
    const VaeTensor *x = op->x;
    const uint8_t *body = vae_exec_body(l->exec, x);
    count_bad(l, x);
    for (int i = 0; i < vae_op_units(op); i++) {
        const VaePicture *to = unit(l->pictures_out, i, l->out_stride);
        const uint8_t *frame =
            body + (size_t) vae_op_unit_frame(op, i) * vae_frame_bytes(x);
        if (to->data[0])
            l->kernels->picture_out(&l->queue,
                                    &(VaePictureOutArgs){.picture = to,
                                                         .x = frame,
                                                         .x_type = x->type,
                                                         .h = x->shape.h,
                                                         .w = x->shape.w,
                                                         .c = x->shape.c,
                                                         .low = l->run->low,
                                                         .high = l->run->high});
    }
}

/* ------------------------------------------------------------------ */
/* Context and carries.                                                */

/* n blocks of `bytes` bytes; the strides are bytes from block to block. */
typedef struct Blocks {
    uint8_t *to;
    const uint8_t *from;
    size_t to_stride, from_stride, bytes;
    int n;
} Blocks;

static int
copy_blocks(const VaeLaunch *l, Blocks b)
{
    int code = 0;
    if (b.to_stride == b.bytes && b.from_stride == b.bytes)
        return l->copy(&l->queue, b.to, b.from, (size_t) b.n * b.bytes);
    for (int i = 0; i < b.n && !code; i++) {
        code = l->copy(&l->queue, b.to, b.from, b.bytes);
        b.to += b.to_stride;
        b.from += b.from_stride;
    }
    return code;
}

/* The frames in front of t: zeros, copies of its frame 0, or the carry's rows
 * of t. */
static int
fill_context(const VaeLaunch *l, VaeOpKind kind, const VaeTensor *t,
             const VaeOp *op)
{
    const size_t frame = vae_frame_bytes(t);
    uint8_t *slab = vae_exec_slab(l->exec, t);
    int code = 0;
    if (kind == VAE_OP_HEAD_ZERO)
        return l->zero(&l->queue, slab, (size_t) t->ctx * frame);
    if (kind == VAE_OP_HEAD_CARRY)
        return copy_blocks(l,
                           (Blocks){.to = slab,
                                    .from = vae_exec_carry(l->exec, op) +
                                            (size_t) t->row * vae_row_bytes(t),
                                    .to_stride = frame,
                                    .from_stride = vae_carry_frame(op->carry),
                                    .bytes = frame,
                                    .n = op->carry->frames});
    for (int i = 0; i < t->ctx && !code; i++)
        code = l->copy(&l->queue, slab + (size_t) i * frame,
                       vae_exec_body(l->exec, t), frame);
    return code;
}

static int
save_tail(const VaeLaunch *l, const VaeOp *op)
{
    const VaeTensor *x = op->x;
    const int first = x->ctx + x->shape.t - op->carry->frames;
    return copy_blocks(l, (Blocks){.to = vae_exec_carry(l->exec, op) +
                                         (size_t) x->row * vae_row_bytes(x),
                                   .from = vae_exec_slab(l->exec, x) +
                                           (size_t) first * vae_frame_stride(x),
                                   .to_stride = vae_carry_frame(op->carry),
                                   .from_stride = vae_frame_stride(x),
                                   .bytes = vae_frame_bytes(x),
                                   .n = op->carry->frames});
}

static int
copy_frame(const VaeLaunch *l, const VaeTensor *x, int64_t to, int64_t from)
{
    const int64_t bytes = (int64_t) vae_frame_bytes(x);
    uint8_t *body = vae_exec_body(l->exec, x);
    return l->copy(&l->queue, body + to * bytes, body + from * bytes,
                   (size_t) bytes);
}

/* Copies the first frame of a sequence in front of it, and the last to all
 * slots behind it. While a program is recorded there is no run, and neither is
 * in it. */
static int
fill_edges(const VaeLaunch *l, const VaeOp *op)
{
    const VaeTensor *x = op->x;
    int64_t first, end;
    int code = 0;
    if (!l->run)
        return 0;
    vae_clock_span(&l->run->clock, x, &first, &end);
    if (first >= 0 && first < x->shape.t)
        code = copy_frame(l, x, first - 1, first);
    for (int64_t i = end; i >= 0 && i < x->shape.t && !code; i++)
        code = copy_frame(l, x, i, end - 1);
    return code;
}

/* ------------------------------------------------------------------ */
/* Kernels.                                                            */

static void
conv(const VaeLaunch *l, const VaeOp *op, const VaeExecOp *own)
{
    const VaeTensor *x = op->x, *y = op->y;
    assert(!op->conv.up && !op->conv.winograd);
    l->kernels->conv(
        &l->queue,
        &(VaeConvArgs){
            .y = (float *) vae_exec_body(l->exec, y),
            .x = (const float *) vae_exec_conv_input(l->exec, op),
            .add = op->add ? (const float *) vae_exec_body(l->exec, op->add)
                           : NULL,
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
            .pad_y = vae_conv_top(op),
            .pad_x = op->conv.pad,
            .relu = op->conv.relu});
}

static void
norm_sums(const VaeLaunch *l, const VaeOp *op)
{
    const VaeTensor *x = op->x;
    l->kernels->norm(
        &l->queue,
        &(VaeNormArgs){.kind = VAE_NORM_GROUP,
                       .x = vae_exec_body(l->exec, x),
                       .x_type = x->type,
                       .y_type = x->type,
                       .t = x->shape.t,
                       .h = x->shape.h,
                       .w = x->shape.w,
                       .c = x->shape.c,
                       .groups = op->norm.groups,
                       .sums = (void *) l->exec->memory.scratch,
                       .statistics = (void *) vae_exec_body(l->exec, op->y)});
}

static int
norm(const VaeLaunch *l, const VaeOp *op, const VaeExecOp *own)
{
    const VaeTensor *x = op->x, *y = op->y;
    /* The carry is read before the norm writes it. */
    const int code =
        op->norm.fills_context ? fill_context(l, VAE_OP_HEAD_CARRY, y, op) : 0;
    if (code)
        return code;
    l->kernels->norm(
        &l->queue,
        &(VaeNormArgs){.kind = op->norm.kind,
                       .y = vae_exec_body(l->exec, y),
                       .tail = op->carry ? vae_exec_carry(l->exec, op) : NULL,
                       .tail_frames = op->carry ? op->carry->frames : 0,
                       .x = vae_exec_body(l->exec, x),
                       .gain = own->weight,
                       .offset = own->bias,
                       .x_type = x->type,
                       .y_type = y->type,
                       .t = x->shape.t,
                       .h = x->shape.h,
                       .w = x->shape.w,
                       .c = x->shape.c,
                       .groups = op->norm.groups,
                       .eps = op->norm.eps,
                       .silu = op->norm.silu,
                       .sums = (void *) l->exec->memory.scratch,
                       .statistics =
                           op->add ? (void *) vae_exec_body(l->exec, op->add)
                                   : NULL});
    return 0;
}

static void
depthwise(const VaeLaunch *l, const VaeOp *op, const VaeExecOp *own)
{
    const VaeTensor *x = op->x, *y = op->y;
    l->kernels->depthwise(&l->queue,
                          &(VaeDepthwiseArgs){.y = vae_exec_body(l->exec, y),
                                              .x = vae_exec_slab(l->exec, x),
                                              .weight = own->weight,
                                              .x_type = x->type,
                                              .y_type = y->type,
                                              .t = x->shape.t,
                                              .h = x->shape.h,
                                              .w = x->shape.w,
                                              .n = x->shape.c});
}

static void
attention(const VaeLaunch *l, const VaeOp *op)
{
    const VaeTensor *x = op->x, *y = op->y;
    l->kernels->attention(
        &l->queue,
        &(VaeAttentionArgs){.y = vae_exec_body(l->exec, y),
                            .qkv = vae_exec_body(l->exec, x),
                            .scratch = (void *) l->exec->memory.scratch,
                            .x_type = x->type,
                            .y_type = y->type,
                            .t = y->shape.t,
                            .n = y->shape.h * y->shape.w,
                            .c = y->shape.c,
                            .tf32 = l->tf32});
}

static void
shortcut(const VaeLaunch *l, const VaeOp *op)
{
    const VaeTensor *x = op->x, *y = op->y;
    l->kernels->shortcut(
        &l->queue, &(VaeShortcutArgs){.kind = op->shortcut.kind,
                                      .y = (void *) vae_exec_body(l->exec, y),
                                      .x = (void *) vae_exec_body(l->exec, x),
                                      .x_type = x->type,
                                      .y_type = y->type,
                                      .t = x->shape.t,
                                      .h = x->shape.h,
                                      .w = x->shape.w,
                                      .cx = x->shape.c,
                                      .cy = y->shape.c,
                                      .ft = op->shortcut.ft,
                                      .fs = op->shortcut.fs,
                                      .drop = op->shortcut.drop,
                                      .repeat = op->shortcut.repeat});
}

static void
rearrange(const VaeLaunch *l, const VaeOp *op)
{
    const VaeTensor *x = op->x, *y = op->y;
    const size_t phase =
        (size_t) op->rearrange.phase * y->shape.c * vae_type_size(x->type);
    l->kernels->rearrange(
        &l->queue, &(VaeRearrangeArgs){.kind = op->rearrange.kind,
                                       .y = vae_exec_body(l->exec, y),
                                       .x = vae_exec_body(l->exec, x) + phase,
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

static void
clamp_or_cast(const VaeLaunch *l, const VaeOp *op)
{
    const VaeTensor *x = op->x, *y = op->y;
    const size_t n = (size_t) x->shape.t * x->shape.h * x->shape.w * x->shape.c;
    void *to = vae_exec_body(l->exec, y), *from = vae_exec_body(l->exec, x);
    if (op->kind == VAE_OP_CLAMP)
        l->kernels->clamp(&l->queue, &(VaeClampArgs){.y = to,
                                                     .x = from,
                                                     .x_type = x->type,
                                                     .y_type = y->type,
                                                     .n = n});
    else
        l->kernels->cast(&l->queue, &(VaeCastArgs){.y = to,
                                                   .x = from,
                                                   .x_type = x->type,
                                                   .y_type = y->type,
                                                   .n = n});
}

static int
run_kernel(const VaeLaunch *l, const VaeOp *op, const VaeExecOp *own)
{
    int code = 0;
    switch (op->kind) {
    case VAE_OP_LATENT_IN:
        latents_in(l, op);
        break;
    case VAE_OP_LATENT_OUT:
        latents_out(l, op);
        break;
    case VAE_OP_PICTURE_IN:
        code = pictures_in(l, op);
        break;
    case VAE_OP_PICTURE_OUT:
        pictures_out(l, op);
        break;
    case VAE_OP_HEAD_ZERO:
    case VAE_OP_HEAD_REPEAT:
    case VAE_OP_HEAD_CARRY:
        code = fill_context(l, op->kind, op->x, op);
        break;
    case VAE_OP_TAIL:
        code = save_tail(l, op);
        break;
    case VAE_OP_EDGE:
        code = fill_edges(l, op);
        break;
    case VAE_OP_CARRY_ZERO:
        code =
            l->zero(&l->queue, vae_exec_carry(l->exec, op), op->carry->bytes);
        break;
    case VAE_OP_CONV:
        conv(l, op, own);
        break;
    case VAE_OP_NORM:
        code = norm(l, op, own);
        break;
    case VAE_OP_NORM_SUMS:
        norm_sums(l, op);
        break;
    case VAE_OP_DEPTHWISE:
        depthwise(l, op, own);
        break;
    case VAE_OP_ATTENTION:
        attention(l, op);
        break;
    case VAE_OP_SHORTCUT:
        shortcut(l, op);
        break;
    case VAE_OP_REARRANGE:
        rearrange(l, op);
        break;
    case VAE_OP_CLAMP:
    case VAE_OP_CAST:
    case VAE_OP_KINDS:
        clamp_or_cast(l, op);
        break;
    case VAE_OP_FETCH: /* of backends that can spill, which run them */
    case VAE_OP_FETCHED:
    case VAE_OP_STORE:
    case VAE_OP_STORED:
        assert(own->run);
        break;
    }
    return code;
}

/* Frame f of a tensor, as a tensor of one frame. */
static VaeTensor *
frame_of(VaeTensor *t, int f, VaeTensor *out)
{
    if (!t)
        return NULL;
    *out = *t;
    out->offset += (size_t) f * vae_frame_stride(t);
    out->shape.t = 1;
    return out;
}

/* Frame by frame, because kernels take frames that follow each other. The ops
 * that are cut into strips have a frame of x for each of y; that of a
 * convolution is the last one that it reads. */
static int
run_frames(const VaeLaunch *l, const VaeOp *op, const VaeExecOp *own)
{
    const int n = op->y->shape.t;
    int code = 0;
    for (int f = 0; f < n && !code; f++) {
        VaeTensor x, y, add;
        VaeOp frame = *op;
        const int last = op->kind == VAE_OP_CONV
                             ? op->x->shape.t - 1 - (n - 1 - f) * op->conv.st
                             : f;
        frame.x = frame_of(op->x, last, &x);
        frame.y = frame_of(op->y, f, &y);
        frame.add = frame_of(op->add, f, &add);
        code = run_kernel(l, &frame, own);
    }
    return code;
}

/* True for the ops of a strip that compute. They have x and y. */
static bool
has_rows(const VaeOp *op)
{
    switch (op->kind) {
    case VAE_OP_CONV:
    case VAE_OP_NORM:
    case VAE_OP_CAST:
    case VAE_OP_REARRANGE:
        return op->x->shape.h != op->x->root->shape.h ||
               op->y->shape.h != op->y->root->shape.h;
    default:
        return false;
    }
}

static VaeStatus
run_op(const VaeLaunch *l, int i, VaeError *error)
{
    const VaeOp *op = &l->exec->program->ops[i];
    const VaeExecOp *own = &l->exec->ops[i];
    if (l->exec->program->delayed && l->run &&
        vae_clock_skips(&l->run->clock, op))
        return VAE_OK;
    if (own->run)
        return own->run(own->own, op, error);
    const int code =
        has_rows(op) ? run_frames(l, op, own) : run_kernel(l, op, own);
    return code ? l->failed(l, code, error) : VAE_OK;
}

VaeStatus
vae_execute(VaeLaunch *l, int from, int to, VaeError *error)
{
    VaeStatus status = VAE_OK;
    for (int i = from; i < to && status == VAE_OK; i++) {
        if (l->run &&
            atomic_load_explicit(l->run->cancel, memory_order_relaxed))
            return vae_fail(error, VAE_ERR_CANCELLED, "cancelled");
        if (l->before)
            status = l->before(l, i, error);
        if (status != VAE_OK)
            return status;
        status = run_op(l, i, error);
        if (l->after)
            status = l->after(l, i, status, error);
    }
    return status;
}

/* ------------------------------------------------------------------ */

bool
vae_exec_shown(const VaeOp *op, VaeTensor *out)
{
    const VaeTensor *y = op->y;
    if (!y || op->kind == VAE_OP_NORM_SUMS)
        return false;
    *out = *y;
    if (!op->strip)
        return true;
    if (y->root == y || y->row + y->shape.h < y->rows)
        return false;
    out->offset -= (size_t) y->row * vae_row_bytes(y);
    out->shape.h = y->rows;
    return true;
}

/* Only for tests and debugging, so it may allocate. */
VaeStatus
vae_exec_dump(const VaeRun *run, const VaeOp *op, const VaeTensor *y,
              const void *values, VaeError *error)
{
    const size_t n = (size_t) y->shape.t * y->shape.h * y->shape.w * y->shape.c;
    float *wide = vae_mem_alloc(n * sizeof *wide);
    if (!wide)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    vae_type_to_float(wide, values, y->type, n);
    const char *names[2] = {op->name, op->block};
    for (int i = 0; i < 2; i++)
        if (names[i] &&
            (i == 0 || !names[0] || strcmp(names[0], names[1]) != 0))
            run->dump(run->dump_user, run->step, names[i], y->shape.t,
                      y->shape.h, y->shape.w, y->shape.c, wide);
    vae_mem_free(wide);
    return VAE_OK;
}

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

/* The arguments that all calls have. */
static VaeNormArgs
norm_args(const VaeLaunch *l, const VaeOp *op, const VaeExecOp *own)
{
    const VaeTensor *x = op->x;
    const VaeShape shape = vae_norm_shape(op, x);
    return (VaeNormArgs){.kind = op->norm.kind,
                         .x = vae_exec_body(l->exec, x),
                         .gain = own->weight,
                         .offset = own->bias,
                         .x_type = x->type,
                         .y_type = op->y->type,
                         .t = shape.t,
                         .h = shape.h,
                         .w = shape.w,
                         .c = shape.c,
                         .groups = op->norm.groups,
                         .eps = op->norm.eps,
                         .silu = op->norm.silu,
                         .relu = op->norm.relu,
                         .sums = (void *) l->exec->memory.scratch};
}

static void
norm_sums(const VaeLaunch *l, const VaeOp *op, const VaeExecOp *own)
{
    VaeNormArgs a = norm_args(l, op, own);
    a.kind = VAE_NORM_GROUP;
    a.y_type = a.x_type;
    a.statistics = (void *) vae_exec_body(l->exec, op->y);
    l->kernels->norm(&l->queue, &a);
}

static int
norm(const VaeLaunch *l, const VaeOp *op, const VaeExecOp *own)
{
    VaeNormArgs a = norm_args(l, op, own);
    int code = 0;
    if (op->norm.late) { /* only of the last frames of x, to the carry */
        a.t = op->carry->frames;
        a.x = vae_exec_body(l->exec, op->x) +
              (size_t) (op->x->shape.t - a.t) * vae_frame_bytes(op->x);
        a.y = vae_exec_carry(l->exec, op);
    } else {
        /* The carry is read before the norm writes it. */
        if (op->norm.fills_context)
            code = vae_exec_load_context(l, op, op->y);
        a.y = vae_exec_body(l->exec, op->y);
        if (op->carry) {
            a.tail = vae_exec_carry(l->exec, op);
            a.tail_frames = op->carry->frames;
        }
        if (op->add)
            a.statistics = (void *) vae_exec_body(l->exec, op->add);
    }
    if (code == 0)
        l->kernels->norm(&l->queue, &a);
    return code;
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

/* With a history, a frame at a time: it is part of the next one's. Returns 0 or
 * an error code. */
static int
attention(const VaeLaunch *l, const VaeOp *op)
{
    const VaeTensor *x = op->x, *y = op->y;
    const int t = op->carry ? 1 : y->shape.t;
    int code = 0;
    for (int f = 0; f < y->shape.t && !code; f += t) {
        const VaeAttentionArgs a = {
            .y = vae_exec_body(l->exec, y) + (size_t) f * vae_frame_bytes(y),
            .qkv = vae_exec_body(l->exec, x) + (size_t) f * vae_frame_bytes(x),
            .scratch = (void *) l->exec->memory.scratch,
            .x_type = x->type,
            .y_type = y->type,
            .t = t,
            .n = y->shape.h * y->shape.w,
            .c = y->shape.c,
            .tf32 = l->tf32,
            .history = vae_exec_history(l->exec, op, f)};
        if (op->carry && l->attend)
            code = l->attend(l, op, &a);
        else
            l->kernels->attention(&l->queue, &a);
    }
    return code;
}

/* Without a run, for a call that only loads kernels, any place will do. */
static VaePlaceInVideo
place_of(const VaeLaunch *l, const VaeTensor *t)
{
    return l->run ? vae_clock_place(&l->run->clock, t) : (VaePlaceInVideo){0};
}

static void
window(const VaeLaunch *l, const VaeOp *op, const VaeExecOp *own)
{
    const VaeTensor *x = op->x, *y = op->y;
    const VaePlaceInVideo place = place_of(l, x);
    l->kernels->window(
        &l->queue, &(VaeWindowArgs){.y = vae_exec_body(l->exec, y),
                                    .qkv = vae_exec_body(l->exec, x),
                                    .q_gain = own->weight,
                                    .k_gain = own->bias,
                                    .place = &place,
                                    .scratch = (void *) l->exec->memory.scratch,
                                    .x_type = x->type,
                                    .y_type = y->type,
                                    .t = y->shape.t,
                                    .tx = x->shape.t,
                                    .shift = op->window_of.shift,
                                    .h = y->shape.h,
                                    .w = y->shape.w,
                                    .c = y->shape.c,
                                    .kt = op->window_of.kt,
                                    .kh = op->window_of.kh,
                                    .kw = op->window_of.kw,
                                    .eps = 1e-6f});
}

static void
glu(const VaeLaunch *l, const VaeOp *op)
{
    const VaeTensor *x = op->x, *y = op->y;
    l->kernels->glu(&l->queue, &(VaeGluArgs){.y = vae_exec_body(l->exec, y),
                                             .x = vae_exec_body(l->exec, x),
                                             .x_type = x->type,
                                             .y_type = y->type,
                                             .rows = (size_t) y->shape.t *
                                                     y->shape.h * y->shape.w,
                                             .c = y->shape.c});
}

/* Writes a frame of pixels to y as patches, in its type. */
static void
fold_noise(const VaeOp *op, const float *pixels, VaeType type, uint8_t *y)
{
    const VaeShape s = op->y->shape;
    const int side = op->noise.side, width = s.w * side;
    for (int i = 0; i < s.h * s.w * s.c; i++, y += vae_type_size(type)) {
        const int l = i % s.c, pixel = i / s.c;
        const int row = pixel / s.w * side + l % side;
        const int column = pixel % s.w * side + l / side % side;
        vae_type_from_float(
            y, type, &pixels[(row * width + column) * 3 + l / (side * side)],
            1);
    }
}

/* Writes the noise of vae_stream_set_noise(). Only for tests, so it may
 * allocate, and wait for the device. False: there is none, or no memory. */
static bool
noise_from_outside(const VaeLaunch *l, const VaeOp *op, int64_t first,
                   int *code)
{
    const VaeTensor *y = op->y;
    const int w = y->shape.w * op->noise.side, h = y->shape.h * op->noise.side;
    const size_t bytes = vae_frame_bytes(y), n = (size_t) y->shape.t;
    if (!l->run || !l->run->noise)
        return false;
    float *pixels = vae_mem_alloc((size_t) w * h * 3 * sizeof *pixels);
    uint8_t *frames = vae_mem_alloc(n * bytes);
    const bool done = pixels && frames;
    for (size_t f = 0; f < n && done; f++) {
        const int64_t frame = first + (int64_t) f;
        if (frame >= 0)
            l->run->noise(l->run->noise_user, frame, w, h, pixels);
        fold_noise(op, pixels, y->type, frames + f * bytes);
    }
    if (done)
        *code =
            l->copy(&l->queue, vae_exec_body(l->exec, y), frames, n * bytes);
    if (done && !*code && l->wait)
        *code = l->wait(&l->queue);
    vae_mem_free(frames);
    vae_mem_free(pixels);
    return done;
}

static int
noise(const VaeLaunch *l, const VaeOp *op)
{
    const VaeTensor *y = op->y;
    const VaePlaceInVideo place = place_of(l, y);
    int code = 0;
    if (!noise_from_outside(l, op, place.frame, &code))
        l->kernels->noise(&l->queue,
                          &(VaeNoiseArgs){.y = vae_exec_body(l->exec, y),
                                          .y_type = y->type,
                                          .place = &place,
                                          .seed = l->run ? l->run->seed : 0,
                                          .t = y->shape.t,
                                          .h = y->shape.h,
                                          .w = y->shape.w,
                                          .side = op->noise.side});
    return code;
}

static void
shortcut(const VaeLaunch *l, const VaeOp *op)
{
    const VaeTensor *x = op->x, *y = op->y;
    const int runs = op->shortcut.single ? x->shape.t : 1;
    for (int i = 0; i < runs; i++)
        l->kernels->shortcut(
            &l->queue,
            &(VaeShortcutArgs){.kind = op->shortcut.kind,
                               .y = vae_exec_body(l->exec, y) +
                                    (size_t) i * vae_frame_bytes(y),
                               .x = vae_exec_body(l->exec, x) +
                                    (size_t) i * vae_frame_bytes(x),
                               .x_type = x->type,
                               .y_type = y->type,
                               .t = x->shape.t / runs,
                               .h = x->shape.h,
                               .w = x->shape.w,
                               .cx = x->shape.c,
                               .cy = y->shape.c,
                               .ft = op->shortcut.ft,
                               .fs = op->shortcut.fs,
                               .drop = op->shortcut.drop,
                               .repeat = op->shortcut.repeat,
                               .channels_fast = op->shortcut.channels_fast});
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
                                       .drop = op->rearrange.drop,
                                       .rows = y->shape.h,
                                       .top = 1 + x->row - y->row});
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
    switch (op->kind) {
    case VAE_OP_CONV:
        conv(l, op, own);
        break;
    case VAE_OP_NORM:
        return norm(l, op, own);
    case VAE_OP_NORM_SUMS:
        norm_sums(l, op, own);
        break;
    case VAE_OP_DEPTHWISE:
        depthwise(l, op, own);
        break;
    case VAE_OP_ATTENTION:
        return attention(l, op);
    case VAE_OP_WINDOW:
        window(l, op, own);
        break;
    case VAE_OP_GLU:
        glu(l, op);
        break;
    case VAE_OP_NOISE:
        return noise(l, op);
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
    default:
        return vae_exec_transfer(l, op);
    }
    return 0;
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

/* Runs an op of a strip frame by frame, because kernels need frames without
 * gaps. Such an op has one frame of x for each frame of y; for a convolution
 * this is the last frame that it reads. */
static int
run_frames(const VaeLaunch *l, const VaeOp *op, const VaeExecOp *own)
{
    const int n = op->y->shape.t;
    const bool all = op->kind == VAE_OP_NORM && op->norm.all_frames;
    int code = 0;
    for (int f = 0; f < n && !code; f++) {
        VaeTensor x, y, add;
        VaeOp frame = *op;
        const int last = op->kind == VAE_OP_CONV
                             ? op->x->shape.t - 1 - (n - 1 - f) * op->conv.st
                             : f;
        frame.x = frame_of(op->x, last, &x);
        frame.y = frame_of(op->y, f, &y);
        frame.add = frame_of(op->add, all ? 0 : f, &add);
        code = run_kernel(l, &frame, own);
    }
    return code;
}

/* True if the op computes a strip of x or y. */
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

bool
vae_exec_idle(const VaeExec *e, const VaeRun *run, const VaeOp *op)
{
    return e->program->delayed && run && vae_clock_skips(&run->clock, op);
}

/* t without the frames that are late in another run. A graph is one of those.
 */
static VaeTensor *
without_late(const VaeLaunch *l, VaeTensor *t, VaeTensor *out)
{
    if (!t || !t->late)
        return t;
    const int left = l->run ? vae_clock_left_out(&l->run->clock, t) : t->late;
    *out = *t;
    out->offset += (size_t) left * vae_frame_stride(t);
    out->shape.t -= left;
    out->lead -= left;
    return out;
}

/* The op as it runs: without late frames. */
typedef struct Due {
    VaeOp op;
    VaeTensor x, y, add;
} Due;

static const VaeOp *
due(const VaeLaunch *l, const VaeOp *op, Due *out)
{
    if (!op->y || !op->y->late)
        return op;
    out->op = *op;
    out->op.x = without_late(l, op->x, &out->x);
    out->op.y = without_late(l, op->y, &out->y);
    out->op.add = without_late(l, op->add, &out->add);
    if (op->kind == VAE_OP_WINDOW)
        out->op.window_of.shift += op->y->shape.t - out->op.y->shape.t;
    return &out->op;
}

/* True in the run of late frames for the op that reads those of earlier runs,
 * which are frames before the first. */
static bool
reads_nothing(const VaeLaunch *l, const VaeOp *op)
{
    return op->kind == VAE_OP_HEAD_CARRY && op->x->late && l->run &&
           !vae_clock_left_out(&l->run->clock, op->x);
}

static VaeStatus
run_op(const VaeLaunch *l, int i, VaeError *error)
{
    Due room;
    const VaeOp *op = &l->exec->program->ops[i];
    const VaeExecOp *own = &l->exec->ops[i];
    if (vae_exec_idle(l->exec, l->run, op) || reads_nothing(l, op))
        return VAE_OK;
    op = due(l, op, &room);
    if (op->y && op->y->shape.t == 0)
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
            return vae_fail(error, VAE_ERR_CANCELLED,
                            "the computation was cancelled");
        const int range = l->exec->program->ops[i].range;
        if (range && l->ahead >= range)
            continue;
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
    if (!y || y->hidden || op->kind == VAE_OP_NORM_SUMS)
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
            run->dump(run->dump_user, &(VaeDump){.step = run->step,
                                                 .name = names[i],
                                                 .t = y->shape.t,
                                                 .h = y->shape.h,
                                                 .w = y->shape.w,
                                                 .c = y->shape.c,
                                                 .values = wide});
    vae_mem_free(wide);
    return VAE_OK;
}

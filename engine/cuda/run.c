/*
 * run.c: a program's ops into the compute stream. Nothing here
 * waits for the device.
 */
#include <assert.h>
#include <string.h>

#include "gpu.h"

static uint8_t *
body(const VaeExec *e, const VaeTensor *t)
{
    return e->memory.arena + t->offset;
}

static uint8_t *
slab(const VaeExec *e, const VaeTensor *t)
{
    return body(e, t) - (size_t) t->ctx * vae_frame_bytes(t);
}

static size_t
count(const VaeTensor *t)
{
    return (size_t) t->shape.t * t->shape.h * t->shape.w * t->shape.c;
}

/* ------------------------------------------------------------------ */
/* In and out.                                                         */

typedef struct Context {
    VaeBackend *cuda;
    VaeExec *exec;
    const VaeKernels *kernels;
    VaeQueue queue;
    const VaeRun *run; /* the last two are NULL where no unit is moved */
    VaeCudaSlot *slot;
} Context;

static void
run_latents_in(Context *c, const VaeOp *op)
{
    const VaeTensor *y = op->y;
    for (int i = 0; i < y->shape.t; i++)
        c->kernels->latent_in(
            &c->queue,
            &(VaeLatentInArgs){.y = body(c->exec, y) +
                                    (size_t) i * vae_frame_bytes(y),
                               .src = c->slot->in[i].device_latent.data,
                               .src_type = c->slot->in[i].latent.type,
                               .scale = vae_cuda_stage_statistic(c->slot, 0),
                               .shift = vae_cuda_stage_statistic(c->slot, 1),
                               .y_type = y->type,
                               .h = y->shape.h,
                               .w = y->shape.w,
                               .c = y->shape.c,
                               .nonfinite = vae_cuda_stage_counter(c->slot)});
}

static void
run_latents_out(Context *c, const VaeOp *op)
{
    assert(c->run);
    const VaeTensor *x = op->x;
    for (int i = 0; i < x->shape.t; i++) {
        const VaeLatentOut *to = &c->slot->out[i].device_latent;
        c->kernels->latent_out(
            &c->queue,
            &(VaeLatentOutArgs){.x = body(c->exec, x) +
                                     (size_t) i * vae_frame_bytes(x),
                                .x_type = x->type,
                                .dst = to->data,
                                .dst_type = to->type,
                                .mean_out = to->mean,
                                .logvar_out = to->logvar,
                                .mean = vae_cuda_stage_statistic(c->slot, 2),
                                .std = vae_cuda_stage_statistic(c->slot, 3),
                                .normalise = c->run->normalise,
                                .sample = c->run->sample,
                                .seed = c->run->seed,
                                .index = c->run->index + (uint64_t) i,
                                .h = x->shape.h,
                                .w = x->shape.w,
                                .c = c->run->channels,
                                .cx = x->shape.c,
                                .nonfinite = vae_cuda_stage_counter(c->slot)});
    }
}

static void
run_pictures_in(Context *c, const VaeOp *op)
{
    assert(c->run);
    const VaeTensor *y = op->y;
    for (int i = 0; i < y->shape.t; i++)
        c->kernels->picture_in(
            &c->queue,
            &(VaePictureInArgs){.y = body(c->exec, y) +
                                     (size_t) i * vae_frame_bytes(y),
                                .y_type = y->type,
                                .picture = &c->slot->in[i].device_picture,
                                .h = y->shape.h,
                                .w = y->shape.w,
                                .c = y->shape.c,
                                .low = c->run->low,
                                .high = c->run->high});
}

static void
run_pictures_out(Context *c, const VaeOp *op)
{
    assert(c->run);
    const VaeTensor *x = op->x;
    for (int i = op->trim; i < x->shape.t; i++) {
        const VaePicture *to = &c->slot->out[i - op->trim].device_picture;
        if (!to->data[0])
            continue;
        c->kernels->picture_out(
            &c->queue,
            &(VaePictureOutArgs){.picture = to,
                                 .x = body(c->exec, x) +
                                      (size_t) i * vae_frame_bytes(x),
                                 .x_type = x->type,
                                 .h = x->shape.h,
                                 .w = x->shape.w,
                                 .c = x->shape.c,
                                 .low = c->run->low,
                                 .high = c->run->high});
    }
}

/* ------------------------------------------------------------------ */
/* Memory.                                                             */

static int
run_memory_op(Context *c, const VaeOp *op)
{
    const VaeExec *e = c->exec;
    const VaeTensor *x = op->x;
    const VaeCarry *carry = op->carry;
    VaeRtStream stream = c->cuda->compute;
    assert(carry || op->kind == VAE_OP_HEAD_ZERO ||
           op->kind == VAE_OP_HEAD_REPEAT);
    uint8_t *kept = carry ? e->memory.carries + carry->offset : NULL;
    if (op->kind == VAE_OP_CARRY_ZERO)
        return vae_rt_zero(kept, carry->bytes, stream);
    const size_t frame = vae_frame_bytes(x);
    uint8_t *first = slab(e, x);
    if (op->kind == VAE_OP_HEAD_ZERO)
        return vae_rt_zero(first, (size_t) x->ctx * frame, stream);
    if (op->kind == VAE_OP_HEAD_CARRY)
        return vae_rt_copy(first, kept, carry->bytes, stream);
    if (op->kind == VAE_OP_TAIL)
        return vae_rt_copy(
            kept,
            first + (size_t) (x->ctx + x->shape.t - carry->frames) * frame,
            carry->bytes, stream);
    int code = 0;
    for (int i = 0; i < x->ctx && !code; i++)
        code =
            vae_rt_copy(first + (size_t) i * frame, body(e, x), frame, stream);
    return code;
}

/* ------------------------------------------------------------------ */
/* The rest.                                                           */

static int
run_norm(Context *c, const VaeOp *op, const VaeCudaOp *own)
{
    const VaeTensor *x = op->x, *y = op->y;
    const VaeCarry *kept = own->tail ? own->tail->carry : NULL;
    /* What was kept is read before it is written over. */
    const int code = own->head ? run_memory_op(c, own->head) : 0;
    if (code)
        return code;
    c->kernels->norm(
        &c->queue,
        &(VaeNormArgs){.kind = op->norm.kind,
                       .y = body(c->exec, y),
                       .tail =
                           kept ? c->exec->memory.carries + kept->offset : NULL,
                       .tail_frames = kept ? kept->frames : 0,
                       .x = body(c->exec, x),
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
                       .sums = (double *) (void *) c->exec->memory.scratch});
    return 0;
}

static void
run_depthwise(Context *c, const VaeOp *op, const VaeCudaOp *own)
{
    const VaeTensor *x = op->x, *y = op->y;
    c->kernels->depthwise(&c->queue, &(VaeDepthwiseArgs){.y = body(c->exec, y),
                                                         .x = slab(c->exec, x),
                                                         .weight = own->weight,
                                                         .x_type = x->type,
                                                         .y_type = y->type,
                                                         .t = x->shape.t,
                                                         .h = x->shape.h,
                                                         .w = x->shape.w,
                                                         .n = x->shape.c});
}

static void
run_attention(Context *c, const VaeOp *op)
{
    const VaeTensor *x = op->x, *y = op->y;
    c->kernels->attention(
        &c->queue, &(VaeAttentionArgs){.y = body(c->exec, y),
                                       .qkv = body(c->exec, x),
                                       .x_type = x->type,
                                       .y_type = y->type,
                                       .t = y->shape.t,
                                       .n = y->shape.h * y->shape.w,
                                       .c = y->shape.c,
                                       .tf32 = c->cuda->params.precision ==
                                               VAE_PRECISION_TF32});
}

static void
run_shortcut(Context *c, const VaeOp *op)
{
    const VaeTensor *x = op->x, *y = op->y;
    c->kernels->shortcut(&c->queue,
                         &(VaeShortcutArgs){.kind = op->shortcut.kind,
                                            .y = body(c->exec, y),
                                            .x = body(c->exec, x),
                                            .x_type = x->type,
                                            .y_type = y->type,
                                            .t = x->shape.t,
                                            .h = x->shape.h,
                                            .w = x->shape.w,
                                            .cx = x->shape.c,
                                            .cy = y->shape.c,
                                            .ft = op->shortcut.ft,
                                            .fs = op->shortcut.fs,
                                            .drop = op->shortcut.drop});
}

static void
run_rearrange(Context *c, const VaeOp *op)
{
    const VaeTensor *x = op->x, *y = op->y;
    c->kernels->rearrange(&c->queue,
                          &(VaeRearrangeArgs){.kind = op->rearrange.kind,
                                              .y = body(c->exec, y),
                                              .x = body(c->exec, x),
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
run_clamp_or_cast(Context *c, const VaeOp *op)
{
    const VaeTensor *x = op->x, *y = op->y;
    void *to = body(c->exec, y), *from = body(c->exec, x);
    if (op->kind == VAE_OP_CLAMP)
        c->kernels->clamp(&c->queue, &(VaeClampArgs){.y = to,
                                                     .x = from,
                                                     .x_type = x->type,
                                                     .y_type = y->type,
                                                     .n = count(x)});
    else
        c->kernels->cast(&c->queue, &(VaeCastArgs){.y = to,
                                                   .x = from,
                                                   .x_type = x->type,
                                                   .y_type = y->type,
                                                   .n = count(x)});
}

/* Part i of y, out of its phases. */
static void
join_phases(Context *c, const VaeOp *op, const VaeCudaOp *own, int i)
{
    const VaeTensor *x = op->x, *y = op->y;
    c->kernels->rearrange(
        &c->queue,
        &(VaeRearrangeArgs){.kind = VAE_JOIN_PHASES,
                            .y = body(c->exec, y) +
                                 (size_t) i * own->conv.t * vae_frame_bytes(y),
                            .x = c->exec->memory.scratch + own->phases,
                            .x_type = y->type,
                            .y_type = y->type,
                            .t = own->conv.t,
                            .h = x->shape.h,
                            .w = x->shape.w,
                            .c = y->shape.c,
                            .ft = 1,
                            .fs = 2});
}

static VaeStatus
run_conv(Context *c, const VaeOp *op, const VaeCudaOp *own, VaeError *error)
{
    VaeError why;
    const VaeCudaParts *p = &own->conv;
    VaeStatus status = VAE_OK;
    for (int i = 0; i < p->n * p->phases && status == VAE_OK; i++) {
        status = vae_cuda_conv_run(p->conv[i], c->cuda->compute, &why);
        if (op->conv.up && i % p->phases == p->phases - 1)
            join_phases(c, op, own, i / p->phases);
    }
    return status == VAE_OK
               ? VAE_OK
               : vae_fail(error, status, "%s: %s", op->name, why.message);
}

static VaeStatus
run_op(Context *c, int i, VaeError *error)
{
    const VaeOp *op = &c->exec->program->ops[i];
    const VaeCudaOp *own = &c->exec->ops[i];
    if (own->done)
        return VAE_OK;
    switch (op->kind) {
    case VAE_OP_LATENT_IN:
        run_latents_in(c, op);
        break;
    case VAE_OP_LATENT_OUT:
        run_latents_out(c, op);
        break;
    case VAE_OP_PICTURE_IN:
        run_pictures_in(c, op);
        break;
    case VAE_OP_PICTURE_OUT:
        run_pictures_out(c, op);
        break;
    case VAE_OP_HEAD_ZERO:
    case VAE_OP_HEAD_REPEAT:
    case VAE_OP_HEAD_CARRY:
    case VAE_OP_TAIL:
    case VAE_OP_CARRY_ZERO:
        return vae_cuda_status(c->cuda, run_memory_op(c, op), "copy a carry",
                               error);
    case VAE_OP_CONV:
        return run_conv(c, op, own, error);
    case VAE_OP_NORM:
        return vae_cuda_status(c->cuda, run_norm(c, op, own), "copy a carry",
                               error);
    case VAE_OP_DEPTHWISE:
        run_depthwise(c, op, own);
        break;
    case VAE_OP_ATTENTION:
        run_attention(c, op);
        break;
    case VAE_OP_SHORTCUT:
        run_shortcut(c, op);
        break;
    case VAE_OP_REARRANGE:
        run_rearrange(c, op);
        break;
    case VAE_OP_CLAMP:
    case VAE_OP_CAST:
    case VAE_OP_KINDS:
        run_clamp_or_cast(c, op);
        break;
    }
    return VAE_OK;
}

/* ------------------------------------------------------------------ */
/* Looking at it.                                                      */

/* Only for tests and debugging, so it may allocate and wait. */
static VaeStatus
dump(Context *c, const VaeOp *op, VaeError *error)
{
    const VaeTensor *y = op->y;
    if (!y)
        return VAE_OK;
    const size_t n = count(y);
    void *raw = vae_mem_alloc(n * vae_type_size(y->type));
    float *wide = vae_mem_alloc(n * sizeof *wide);
    int code = 0;
    if (raw && wide) {
        code = vae_rt_copy(raw, body(c->exec, y), n * vae_type_size(y->type),
                           c->cuda->compute);
        if (!code)
            code = vae_rt_stream_sync(c->cuda->compute);
        vae_type_to_float(wide, raw, y->type, n);
        const char *names[2] = {op->name, op->block};
        for (int i = 0; i < 2 && !code; i++)
            if (names[i] &&
                (i == 0 || !names[0] || strcmp(names[0], names[1]) != 0))
                c->run->dump(c->run->dump_user, c->run->step, names[i],
                             y->shape.t, y->shape.h, y->shape.w, y->shape.c,
                             wide);
    }
    vae_mem_free(raw);
    vae_mem_free(wide);
    return vae_cuda_status(c->cuda, code, "show a tensor", error);
}

void
vae_cuda_profile(VaeExec *e, VaeOpTime *rows)
{
    const int n = e->program->n_ops + 1;
    vae_rt_use(e->number);
    for (int i = 0; e->marks && i < n; i++)
        vae_rt_event_free(e->marks[i]);
    vae_mem_free(e->marks);
    e->marks = NULL;
    e->times = NULL;
    if (!rows)
        return;
    e->marks = vae_mem_alloc((size_t) n * sizeof(VaeRtEvent));
    for (int i = 0; e->marks && i < n; i++)
        if (vae_rt_event_new(&e->marks[i])) {
            vae_cuda_profile(e, NULL);
            return;
        }
    e->times = e->marks ? rows : NULL;
}

/* Waits for the run and adds up what each op took. */
static int
read_marks(const VaeExec *e)
{
    const int n = e->program->n_ops;
    int code = vae_rt_event_sync(e->marks[n]);
    for (int i = 0; i < n && !code; i++) {
        float ms = 0;
        code = vae_rt_event_span(e->marks[i], e->marks[i + 1], &ms);
        e->times[i].calls++;
        e->times[i].ns += (uint64_t) (ms * 1e6f);
    }
    return code;
}

/* ------------------------------------------------------------------ */

VaeStatus
vae_cuda_run_ops(VaeBackend *cuda, VaeExec *e, int from, int to,
                 const VaeRun *run, VaeCudaSlot *slot, VaeError *error)
{
    Context c = {.cuda = cuda,
                 .exec = e,
                 .kernels = vae_rt_kernels(),
                 .queue = {.threads = 1, .stream = cuda->compute},
                 .run = run,
                 .slot = slot};
    VaeStatus status = VAE_OK;
    for (int i = from; i < to && status == VAE_OK; i++) {
        if (run && atomic_load_explicit(run->cancel, memory_order_relaxed))
            return vae_fail(error, VAE_ERR_CANCELLED, "cancelled");
        if (run && e->times)
            status = vae_cuda_status(
                cuda, vae_rt_event_record(e->marks[i], cuda->compute),
                "take the time", error);
        const VaeOp *op = &e->program->ops[i];
        vae_rt_range_begin(op->name ? op->name : e->program->label);
        if (status == VAE_OK)
            status = run_op(&c, i, error);
        vae_rt_range_end();
        if (status == VAE_OK && run && run->dump)
            status = dump(&c, &e->program->ops[i], error);
    }
    /* Kernels tell here what could not be launched. */
    return status == VAE_OK ? vae_cuda_status(cuda, vae_rt_failure(),
                                              "launch a kernel", error)
                            : status;
}

static VaeStatus
run_graph(VaeBackend *cuda, VaeExec *e, const VaeRun *run, VaeCudaSlot *slot,
          VaeError *error)
{
    const int last = e->program->n_ops - 1;
    VaeStatus status = vae_cuda_run_ops(cuda, e, 0, 1, run, slot, error);
    if (status == VAE_OK)
        status =
            vae_cuda_status(cuda, vae_rt_graph_run(e->graph, cuda->compute),
                            "run a program", error);
    return status == VAE_OK
               ? vae_cuda_run_ops(cuda, e, last, last + 1, run, slot, error)
               : status;
}

VaeStatus
vae_cuda_run(VaeBackend *cuda, VaeExec *e, const VaeRun *run, VaeError *error)
{
    VaeCudaSlot *slot;
    const int n = e->program->n_ops;
    VaeStatus status =
        vae_cuda_status(cuda, vae_rt_use(cuda->number), "be used", error);
    if (status == VAE_OK)
        status = vae_cuda_stage_in(cuda, e, run, &slot, error);
    if (status != VAE_OK)
        return status;
    vae_rt_range_begin(e->program->label);
    if (e->graph && !e->times && !run->dump)
        status = run_graph(cuda, e, run, slot, error);
    else
        status = vae_cuda_run_ops(cuda, e, 0, n, run, slot, error);
    if (status == VAE_OK && e->times)
        status = vae_cuda_status(
            cuda, vae_rt_event_record(e->marks[n], cuda->compute),
            "take the time", error);
    if (status == VAE_OK)
        status = vae_cuda_stage_out(cuda, slot, error);
    if (status == VAE_OK && e->times)
        status = vae_cuda_status(cuda, read_marks(e), "take the time", error);
    vae_rt_range_end();
    return status;
}

/*
 * prepare.c: what the ops of a program need on the device.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

/* ------------------------------------------------------------------ */
/* Ops.                                                                */

static void
need_scratch(VaeExec *e, size_t bytes)
{
    if (bytes > e->scratch)
        e->scratch = bytes;
}

/* time: choices that are not known are timed, not guessed. */
static VaeStatus
prepare_conv(VaeBackend *cuda, bool time, VaeExec *e, const VaeOp *op,
             VaeCudaOp *own, VaeError *error)
{
    VaeError why;
    VaeCudaChoice choice;
    const VaeCudaConvShape shape =
        vae_cuda_shape(op, cuda->params.precision == VAE_PRECISION_TF32);
    VaeStatus status = vae_cuda_layer_choice(cuda, &shape, time, &choice, &why);
    if (status == VAE_OK)
        status =
            vae_cuda_parts_new(cuda->convs, &shape, &choice, &own->conv, &why);
    if (status != VAE_OK)
        return vae_fail(error, status, "%s: %s", op->name, why.message);
    snprintf(own->impl, sizeof own->impl, "cudnn:%s", choice.text);
    own->phases = vae_cuda_parts_workspace(&own->conv);
    need_scratch(e, own->phases + own->conv.bytes);
    return VAE_OK;
}

/* Of frames as the network has them: rounded up, and so more than the caller's.
 */
static VaeStatus
check_rows(const VaeOp *op, VaeError *error)
{
    const VaeTensor *t = op->y ? op->y : op->x;
    return !t || t->shape.h <= VAE_ROWS_CUDA
               ? VAE_OK
               : vae_fail(error, VAE_ERR_UNSUPPORTED,
                          "frames of %d rows inside the network; cuda computes "
                          "at most %d",
                          t->shape.h, VAE_ROWS_CUDA);
}

static VaeStatus
prepare_op(VaeBackend *cuda, VaeWeightCache *cache, VaeExec *e, int i,
           VaeError *error)
{
    const VaeOp *op = &e->program->ops[i];
    const VaeTensor *x = op->x;
    VaeCudaOp *own = &e->ops[i];
    VaeStatus status = check_rows(op, error);
    strcpy(own->impl, "cuda");
    if (status == VAE_OK && op->kind == VAE_OP_CONV)
        status = prepare_conv(cuda, cache != NULL, e, op, own, error);
    if (op->kind == VAE_OP_ATTENTION &&
        op->y->shape.c > VAE_ATTENTION_CHANNELS_CUDA)
        return vae_fail(error, VAE_ERR_UNSUPPORTED,
                        "%s: attention over %d channels; cuda computes it "
                        "over at most %d",
                        op->name, op->y->shape.c, VAE_ATTENTION_CHANNELS_CUDA);
    if (op->kind == VAE_OP_NORM && op->norm.kind == VAE_NORM_GROUP)
        need_scratch(e, sizeof(double) * vae_norm_sums_cuda(
                                             x->shape.t, x->shape.h, x->shape.w,
                                             x->shape.c, op->norm.groups));
    if (status == VAE_OK)
        status =
            vae_cuda_weight(cuda, cache, e, op, false, &own->weight, error);
    if (status == VAE_OK)
        status = vae_cuda_weight(cuda, cache, e, op, true, &own->bias, error);
    return status;
}

static void
give_tails(VaeExec *e)
{
    for (int i = 0; i < e->program->n_ops; i++) {
        int head, tail;
        if (!vae_cuda_norm_keeps(e->program, i, &head, &tail))
            continue;
        e->ops[i].tail = &e->program->ops[tail];
        e->ops[tail].done = true;
        if (head >= 0) {
            e->ops[i].head = &e->program->ops[head];
            e->ops[head].done = true;
        }
    }
}

VaeStatus
vae_cuda_prepare(VaeBackend *cuda, VaeWeightCache *cache,
                 const VaeProgram *program, VaeExec **out, VaeError *error)
{
    *out = NULL;
    VaeExec *e = vae_mem_alloc(sizeof *e);
    VaeCudaOp *ops =
        vae_mem_alloc((size_t) (program->n_ops + 1) * sizeof(VaeCudaOp));
    if (!e || !ops) {
        vae_mem_free(e);
        vae_mem_free(ops);
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    }
    e->program = program;
    e->number = cuda->number;
    e->cache = cache;
    e->ops = ops;
    give_tails(e);
    vae_cuda_stage_plan(cuda, e);
    VaeStatus status =
        vae_cuda_status(cuda, vae_rt_use(cuda->number), "be used", error);
    if (cache)
        vae_cuda_pieces_begin(cuda, cache, program);
    for (int i = 0; i < program->n_ops && status == VAE_OK; i++)
        status = prepare_op(cuda, cache, e, i, error);
    vae_cuda_pieces_end(cuda);
    vae_cuda_layers_keep(cuda);
    vae_room_free(&cuda->room);
    if (status != VAE_OK)
        vae_cuda_exec_free(cuda, &e);
    *out = e;
    return status;
}

void
vae_cuda_exec_free(VaeBackend *cuda, VaeExec **exec)
{
    VaeExec *e = *exec;
    *exec = NULL;
    if (!e)
        return;
    vae_rt_use(cuda->number);
    vae_cuda_profile(e, NULL);
    vae_rt_graph_free(e->graph);
    if (e->cache)
        vae_cuda_let_go(cuda, e);
    for (int i = 0; i < e->program->n_ops; i++)
        vae_cuda_parts_free(&e->ops[i].conv);
    vae_mem_free(e->ops);
    vae_mem_free(e);
}

/* ------------------------------------------------------------------ */
/* Addresses.                                                          */

static VaeStatus
bind_conv(VaeExec *e, const VaeOp *op, VaeCudaOp *own, VaeError *error)
{
    const VaeTensor *x = op->x, *y = op->y;
    const VaeCudaParts *p = &own->conv;
    /* A tensor may have more context than this conv looks back. */
    const int back = (y->shape.t - 1) * op->conv.st + op->conv.kt - x->shape.t;
    const size_t x_frame = vae_frame_bytes(x), y_frame = vae_frame_bytes(y);
    for (int i = 0; i < p->n * p->phases; i++) {
        const size_t frame = (size_t) (i / p->phases) * p->t;
        const size_t phase = (size_t) (i % p->phases);
        const size_t y_at = frame * y_frame;
        VaeCudaConvArgs args = {
            .y = e->memory.arena + y->offset + y_at,
            .x = e->memory.arena + x->offset - (size_t) back * x_frame +
                 frame * op->conv.st * x_frame,
            .add = op->add ? e->memory.arena + op->add->offset + y_at : NULL,
            .weight = own->weight,
            .bias = own->bias,
            .workspace = e->memory.scratch};
        if (op->conv.up) {
            args.y = e->memory.scratch + own->phases +
                     phase * (p->bytes / VAE_PHASES);
            args.weight =
                (const uint8_t *) own->weight +
                phase * vae_cuda_phase_room(op) * vae_type_size(x->type);
        }
        const VaeStatus status = vae_cuda_conv_bind(p->conv[i], &args, error);
        if (status != VAE_OK)
            return status;
    }
    return VAE_OK;
}

enum { TRIES = 3 }; /* to record a program */

/* Graphs are for speed alone. */
static bool
wants_graph(void)
{
    const char *text = getenv("VAE_CUDA_GRAPHS");
    return !text || strcmp(text, "0") != 0;
}

/* What a library loads at its first call cannot be recorded. */
static VaeStatus
load(VaeBackend *cuda, VaeExec *e, VaeError *error)
{
    const int last = e->program->n_ops - 1;
    if (e->loaded)
        return VAE_OK;
    VaeStatus status = vae_cuda_run_ops(cuda, e, 1, last, NULL, NULL, error);
    if (status == VAE_OK)
        status = vae_cuda_status(cuda, vae_rt_stream_sync(cuda->compute),
                                 "run a program", error);
    e->loaded = status == VAE_OK;
    return status;
}

static VaeStatus
capture_once(VaeBackend *cuda, VaeExec *e, VaeError *error)
{
    int code = vae_rt_capture_begin(cuda->compute);
    if (code)
        return vae_cuda_status(cuda, code, "record a program", error);
    const VaeStatus status =
        vae_cuda_run_ops(cuda, e, 1, e->program->n_ops - 1, NULL, NULL, error);
    code = vae_rt_capture_end(cuda->compute, &e->graph);
    return status != VAE_OK
               ? status
               : vae_cuda_status(cuda, code, "record a program", error);
}

/* Any thread of the process that waits for the device, such as the
 * application's, breaks a recording off. */
static VaeStatus
capture(VaeBackend *cuda, VaeExec *e, VaeError *error)
{
    VaeStatus status = VAE_ERR_BACKEND;
    for (int i = 0; i < TRIES; i++) {
        pthread_mutex_lock(&vae_cuda_recording);
        status = capture_once(cuda, e, error);
        pthread_mutex_unlock(&vae_cuda_recording);
        if (status == VAE_OK)
            return VAE_OK;
        vae_rt_graph_free(e->graph);
        e->graph = NULL;
        vae_rt_failure(); /* of launches while it was recorded */
    }
    return status;
}

/* Everything between the first and the last op as one graph; none where
 * something in it cannot be recorded, but can be run. */
static VaeStatus
record(VaeBackend *cuda, VaeExec *e, VaeError *error)
{
    VaeError why;
    const VaeStatus status = load(cuda, e, error);
    if (status != VAE_OK || capture(cuda, e, &why) == VAE_OK)
        return status;
    const int lost = vae_rt_stream_sync(cuda->compute);
    if (lost)
        return vae_cuda_status(cuda, lost, "record a program", error);
    vae_log(&cuda->params.log, "the program \"%s\" runs op by op: %s",
            e->program->label, why.message);
    return VAE_OK;
}

VaeStatus
vae_cuda_bind(VaeBackend *cuda, VaeExec *exec, const VaeMemory *memory,
              VaeError *error)
{
    exec->memory = *memory;
    VaeStatus status =
        vae_cuda_status(cuda, vae_rt_use(cuda->number), "be used", error);
    if (status == VAE_OK)
        status = vae_cuda_stage_take(cuda, exec, error);
    for (int i = 0; i < exec->program->n_ops && status == VAE_OK; i++)
        if (exec->program->ops[i].kind == VAE_OP_CONV)
            status =
                bind_conv(exec, &exec->program->ops[i], &exec->ops[i], error);
    if (status == VAE_OK && wants_graph())
        status = record(cuda, exec, error);
    return status;
}

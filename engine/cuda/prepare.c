/*
 * prepare.c: prepares the ops of a program for the device, and binds them to
 * their memory.
 */
#include <stdio.h>
#include <string.h>

#include "gpu.h"

/* ------------------------------------------------------------------ */
/* Ops.                                                                */

/* run: may run the layer if its choice is not known yet. */
static VaeStatus
prepare_conv(VaeCudaExec *e, int i, bool run, VaeError *error)
{
    VaeError why;
    VaeCudaChoice choice;
    VaeBackend *cuda = e->cuda;
    const VaeOp *op = &e->exec.program->ops[i];
    VaeCudaOp *own = &e->ops[i];
    const VaeCudaConvShape shape =
        vae_cuda_shape(op, cuda->params.precision == VAE_PRECISION_TF32);
    VaeStatus status = vae_cuda_layer_choice(cuda, &shape, run, &choice, &why);
    const VaeCudaRows rows = vae_cuda_rows(op);
    const VaeOpeningMark begin = vae_opening_begin(cuda->params.opening);
    if (status == VAE_OK)
        status = vae_cuda_parts_new(cuda->convs, &shape, &rows, &choice,
                                    &own->conv, &why);
    vae_opening_end(cuda->params.opening, VAE_OPENING_PLANS, begin);
    if (status != VAE_OK)
        return vae_fail_within(error, &why, "%s: ", op->name);
    snprintf(own->impl, sizeof own->impl, "%s%s",
             vae_cuda_choice_is_own(&choice) ? "" : "cudnn:", choice.text);
    e->exec.ops[i].run = vae_cuda_run_conv;
    own->phases = vae_cuda_parts_workspace(&own->conv);
    own->gathered = own->phases + (own->conv.bytes + 255) / 256 * 256;
    vae_exec_needs_scratch(&e->exec, own->gathered + own->conv.gathered);
    return VAE_OK;
}

/* Checks the rows inside the network, which may be more than the caller's
 * because they are rounded up. */
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

/* The VaeExecOp.run of a norm that the convolution before it computes. */
static VaeStatus
run_done(void *own, const VaeOp *op, VaeError *error)
{
    return VAE_OK;
}

static VaeStatus
prepare_op(VaeCudaExec *e, int i, VaeError *error)
{
    const VaeOp *op = &e->exec.program->ops[i];
    VaeCudaOp *own = &e->ops[i];
    VaeExecOp *shared = &e->exec.ops[i];
    VaeStatus status = check_rows(op, error);
    own->exec = e;
    strcpy(own->impl, "cuda");
    shared->impl = own->impl;
    shared->own = own;
    if (status == VAE_OK && op->kind == VAE_OP_CONV)
        status = prepare_conv(e, i, e->cache != NULL, error);
    if (op->kind == VAE_OP_NORM && op->norm.done)
        shared->run = run_done;
    if (status == VAE_OK && vae_cuda_moves(op))
        status = vae_cuda_prepare_move(e->cuda, e, i, error);
    const int most =
        op->carry ? VAE_HISTORY_CHANNELS_CUDA : VAE_ATTENTION_CHANNELS_CUDA;
    if (op->kind == VAE_OP_ATTENTION && op->y->shape.c > most)
        return vae_fail(error, VAE_ERR_UNSUPPORTED,
                        "%s: attention over %d channels; cuda computes it "
                        "over at most %d",
                        op->name, op->y->shape.c, most);
    if (status == VAE_OK && op->kind == VAE_OP_ATTENTION && op->carry)
        status = vae_cuda_prepare_history(e->cuda, e, i, error);
    if (op->kind == VAE_OP_WINDOW) {
        const VaeShape x = op->x->shape;
        vae_exec_needs_scratch(&e->exec, vae_rt_kernels()->window_scratch(
                                             x.t, x.h, x.w, op->y->shape.c));
    }
    if (vae_op_adds_up(op)) {
        const VaeShape x = vae_norm_shape(op, op->x);
        vae_exec_needs_scratch(
            &e->exec, sizeof(double) * vae_norm_sums_cuda(x.t, x.h, x.w, x.c,
                                                          op->norm.groups));
    }
    if (status == VAE_OK)
        status = vae_cuda_weight(e, op, false, &shared->weight, error);
    if (status == VAE_OK)
        status = vae_cuda_weight(e, op, true, &shared->bias, error);
    return status;
}

VaeStatus
vae_cuda_prepare(VaeBackend *cuda, VaeWeightCache *cache,
                 const VaeProgram *program, VaeExec **out, VaeError *error)
{
    *out = vae_exec_new(program, sizeof(VaeCudaExec));
    VaeCudaExec *e = vae_cuda_exec(*out);
    if (e)
        e->ops = vae_mem_alloc((size_t) (program->n_ops + 1) * sizeof *e->ops);
    if (!e || !e->ops) {
        vae_exec_free(out);
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    }
    e->cuda = cuda;
    e->cache = cache;
    vae_cuda_stage_plan(cuda, e);
    VaeStatus status = VAE_OK;
    if (cache)
        vae_cuda_weights_begin(cuda, cache, program);
    for (int i = 0; i < program->n_ops && status == VAE_OK; i++) {
        const size_t weighed = e->exec.weight_bytes;
        status = vae_backend_goes_on(&cuda->params, error);
        if (status == VAE_OK)
            status = prepare_op(e, i, error);
        vae_exec_weigh(&e->exec, &program->ops[i], weighed);
    }
    vae_cuda_suballoc_end(cuda);
    vae_cuda_layers_keep(cuda);
    vae_room_free(&cuda->room);
    if (status != VAE_OK)
        vae_cuda_exec_free(cuda, out);
    return status;
}

void
vae_cuda_exec_free(VaeBackend *cuda, VaeExec **exec)
{
    VaeCudaExec *e = vae_cuda_exec(*exec);
    if (!e)
        return;
    vae_cuda_profile(*exec, false);
    vae_cuda_record_never(cuda, e);
    vae_rt_graph_free(e->graph);
    if (e->cache)
        vae_cuda_release_weights(cuda, e);
    for (int i = 0; i < e->exec.program->n_ops; i++)
        vae_cuda_parts_free(&e->ops[i].conv);
    for (int i = 0; i < e->exec.program->n_ops; i++) {
        vae_rt_event_free(e->ops[i].ready);
        vae_rt_event_free(e->ops[i].moved);
    }
    vae_mem_free(e->ops);
    vae_exec_free(exec);
}

/* ------------------------------------------------------------------ */
/* Binding.                                                            */

static VaeStatus
bind_conv(VaeCudaExec *e, int op, VaeError *error)
{
    const VaeCudaParts *p = &e->ops[op].conv;
    for (int i = 0; i < p->n * p->bands * p->phases; i++) {
        const VaeCudaConvArgs args = vae_cuda_conv_args(e, op, i);
        const VaeStatus status = vae_cuda_conv_bind(p->conv[i], &args, error);
        if (status != VAE_OK)
            return status;
    }
    return VAE_OK;
}

VaeStatus
vae_cuda_bind(VaeBackend *cuda, VaeExec *exec, const VaeMemory *memory,
              VaeError *error)
{
    VaeCudaExec *e = vae_cuda_exec(exec);
    exec->memory = *memory;
    VaeStatus status = vae_cuda_reload(cuda, exec, error);
    if (status == VAE_OK)
        status = vae_cuda_stage_take(cuda, e, error);
    for (int i = 0; i < exec->program->n_ops && status == VAE_OK; i++)
        if (exec->program->ops[i].kind == VAE_OP_CONV)
            status = bind_conv(e, i, error);
    if (status == VAE_OK)
        status = vae_cuda_load(cuda, e, error);
    if (status == VAE_OK)
        vae_cuda_record_later(cuda, e);
    return status;
}

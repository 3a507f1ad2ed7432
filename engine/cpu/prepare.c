/*
 * prepare.c: prepares a program. Convolutions and attention are oneDNN
 * primitives; vae_kernels_cpu computes all other ops.
 */
#include "conv.h"

/* An estimate of the memory that oneDNN uses and does not report: code and
 * tables of its primitives, and pages of its own file. For pictures of 416x240
 * and more it was 8 to 16 MiB, and 34 to 56 MiB for bf16 with AMX. The first,
 * the middle and the last strip of rows have code of their own: 8 MiB more in
 * fp32, 8 to 12 MiB in bf16, and 20 to 36 MiB in bf16 with AMX. */
static size_t
library_memory(const VaeProgram *program)
{
    const bool amx = vae_dnnl_has_amx(), strips = program->strips > 0;
    for (int i = 0; i < program->n_ops; i++) {
        const VaeOp *op = &program->ops[i];
        if (op->kind == VAE_OP_CONV && op->x->type == VAE_TYPE_BF16)
            return (size_t) (amx ? 46 + 30 * strips : 14 + 12 * strips) << 20;
    }
    return (size_t) (14 + 8 * strips) << 20;
}

/* True if what is prepared for a can also run b: both have the same weights and
 * sizes. The products of Winograd tiles have the size of a chunk, not that of
 * the strip. An even number of frames has one more pair if it begins with the
 * second frame of one. */
static bool
runs_both(const VaeProgram *p, const VaeOp *a, const VaeOp *b)
{
    const VaeTensor *x = a->x, *y = a->y;
    if (a->kind != b->kind || a->weight != b->weight || a->bias != b->bias ||
        x->type != b->x->type || y->type != b->y->type ||
        x->shape.w != b->x->shape.w || y->shape.w != b->y->shape.w ||
        x->shape.c != b->x->shape.c || y->shape.c != b->y->shape.c)
        return false;
    if (a->kind == VAE_OP_CONV && a->conv.winograd)
        return y->shape.t == b->y->shape.t && !a->group == !b->group &&
               (y->shape.t % 2 || vae_tile_odd(p, a) == vae_tile_odd(p, b));
    if (a->kind == VAE_OP_CONV &&
        (!a->add != !b->add || vae_conv_top(a) != vae_conv_top(b)))
        return false;
    return x->shape.h == b->x->shape.h && y->shape.h == b->y->shape.h;
}

/* Shares what is prepared for an earlier strip or group of frames. So a layer
 * in strips has at most three primitives: for the first strip, for those in the
 * middle and for the last one. False: there is no such op. */
static bool
share(VaeExec *exec, int i)
{
    const VaeOp *ops = exec->program->ops;
    if (ops[i].strip <= 1 && ops[i].group <= 1)
        return false;
    for (int k = i - 1; k >= 0; k--)
        if (exec->ops[k].own && runs_both(exec->program, &ops[k], &ops[i])) {
            exec->ops[i] = exec->ops[k];
            exec->ops[i].own_free = NULL;
            return true;
        }
    return false;
}

static VaeStatus
prepare_op(VaeBackend *cpu, VaeWeightCache *cache, VaeExec *exec, int i,
           VaeError *error)
{
    const VaeOp *op = &exec->program->ops[i];
    if (op->kind == VAE_OP_ATTENTION)
        return vae_cpu_attention(cpu, cache, exec, i, error);
    return op->conv.up         ? vae_cpu_conv_up(cpu, cache, exec, i, error)
           : op->conv.winograd ? vae_cpu_winograd(cpu, cache, exec, i, error)
                               : vae_cpu_conv(cpu, cache, exec, i, error);
}

VaeStatus
vae_cpu_prepare(VaeBackend *cpu, VaeWeightCache *cache,
                const VaeProgram *program, VaeExec **out, VaeError *error)
{
    VaeStatus status = vae_host_prepare(program, cache, &vae_kernels_cpu,
                                        &cpu->params, out, error);
    for (int i = 0; i < program->n_ops && status == VAE_OK; i++) {
        const VaeOp *op = &program->ops[i];
        const size_t weighed = (*out)->weight_bytes;
        status = vae_backend_goes_on(&cpu->params, error);
        if (status == VAE_OK &&
            (op->kind == VAE_OP_CONV || op->kind == VAE_OP_ATTENTION) &&
            !share(*out, i))
            status = prepare_op(cpu, cache, *out, i, error);
        vae_exec_weigh(*out, op, weighed);
    }
    vae_room_free(&cpu->raw);
    if (*out)
        (*out)->library = library_memory(program);
    if (status != VAE_OK)
        vae_exec_free(out);
    return status;
}

typedef struct StripJob {
    VaeBackend *cpu;
    const VaeOp *op;
    bool can;
} StripJob;

static VaeStatus
strip_job(void *user)
{
    StripJob *j = user;
    j->can = j->op->conv.winograd ? vae_cpu_tiles_can_strip(j->cpu, j->op)
                                  : vae_cpu_conv_can_strip(j->cpu, j->op);
    return VAE_OK;
}

bool
vae_cpu_can_strip(void *cpu, const VaeOp *op)
{
    StripJob j = {.cpu = cpu, .op = op};
    vae_cpu_on_worker(cpu, strip_job, &j);
    return j.can;
}

/*
 * prepare.c: prepares a program. Convolutions and attention are oneDNN
 * primitives; vae_kernels_cpu computes all other ops.
 */
#include "conv.h"

/* An estimate of the memory that oneDNN uses and does not report: code and
 * tables of its primitives, and pages of its own file. For pictures of 416x240
 * and more it was 8 to 16 MiB, and 34 to 56 MiB for bf16 with AMX. In bf16, the
 * first, the middle and the last strip of rows have code of their own: 8 to 12
 * MiB more, and 20 to 36 MiB more with AMX. */
static size_t
library_memory(const VaeProgram *program)
{
    const bool amx = vae_dnnl_has_amx(), strips = program->strips > 0;
    for (int i = 0; i < program->n_ops; i++) {
        const VaeOp *op = &program->ops[i];
        if (op->kind == VAE_OP_CONV && op->x->type == VAE_TYPE_BF16)
            return (size_t) (amx ? 46 + 30 * strips : 14 + 12 * strips) << 20;
    }
    return (size_t) 14 << 20;
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
        if (status != VAE_OK)
            break;
        if (op->kind == VAE_OP_CONV && op->conv.up)
            status = vae_cpu_conv_up(cpu, cache, *out, i, error);
        else if (op->kind == VAE_OP_CONV && op->conv.winograd)
            status = vae_cpu_winograd(cpu, cache, *out, i, error);
        else if (op->kind == VAE_OP_CONV)
            status = vae_cpu_conv(cpu, cache, *out, i, error);
        else if (op->kind == VAE_OP_ATTENTION)
            status = vae_cpu_attention(cpu, cache, *out, i, error);
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

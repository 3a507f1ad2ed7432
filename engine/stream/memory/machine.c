/*
 * machine.c: opens and closes a machine.
 */
#include <assert.h>

#include "machine.h"

/* Sets the delay: the look-ahead that the user asks for, or the look-ahead of
 * exact results. */
static void
set_delay(VaeMachine *m)
{
    const VaeModelInfo *info = &m->model->info;
    VaeStreamParams *p = &m->params;
    m->reach = vae_model_reach(info, p->direction, p->tile_plan);
    if (p->direction == VAE_ENCODE || p->look_ahead < 0 ||
        p->look_ahead >= m->reach.look_ahead)
        p->low_latency = false;
    m->plan.delay = m->reach.delay;
    if (p->low_latency && p->look_ahead * info->temporal < m->plan.delay)
        m->plan.delay = p->look_ahead * info->temporal;
}

static VaeStatus
check_precision(const VaeMachine *m, VaeError *error)
{
    if (m->params.precision != VAE_PRECISION_FP16 || !m->model->no_fp16)
        return VAE_OK;
    return vae_mismatch(
        error, VAE_ERR_UNSUPPORTED, NULL,
        "%s: precision is {fp16}, expected {=bf16, tf32 or fp32}: %s",
        m->model->info.path, m->model->no_fp16);
}

/* Plans the second machine. The memory limit holds for both together and is
 * checked later. Without a second machine a slice cannot be computed again step
 * by step, so a policy that looks at steps has slices of 1. */
static VaeStatus
plan_wide(VaeMachine *m, const VaeTerms *terms, VaeError *error)
{
    VaeStreamParams params = m->params;
    if (params.nan_policy != VAE_NAN_FALLBACK ||
        (m->plan.precision != VAE_PRECISION_FP16 &&
         m->plan.precision != VAE_PRECISION_BF16)) {
        if (params.nan_policy != VAE_NAN_PASS)
            m->params.slice_size = 1;
        return VAE_OK;
    }
    params.nan_policy = VAE_NAN_PASS;
    params.backend = m->plan.backend;
    params.precision = VAE_PRECISION_FP32;
    params.threads = m->plan.threads;
    params.slice_size = 1;
    params.memory_limit = SIZE_MAX;
    params.dump = NULL;
    m->wide = vae_mem_alloc(sizeof *m->wide);
    if (!m->wide)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    return vae_machine_open(m->wide, m->model, &params,
                            &(VaeTerms){.shared = terms->shared}, error);
}

VaeStatus
vae_machine_open(VaeMachine *m, VaeModel *model, const VaeStreamParams *params,
                 const VaeTerms *terms, VaeError *error)
{
    *m = (VaeMachine){.model = model,
                      .params = *params,
                      .shares = terms->shared != NULL,
                      .plan = {.struct_size = sizeof m->plan},
                      .search = {.few_rungs = terms->few_rungs}};
    set_delay(m);
    VaeStatus status = check_precision(m, error);
    if (status == VAE_OK)
        status = vae_machine_set_tiles(m, error);
    if (status == VAE_OK)
        status = vae_machine_choose_backend(m, terms->shared, error);
    if (status == VAE_OK)
        status = plan_wide(m, terms, error);
    if (status == VAE_OK)
        status = vae_machine_choose_rung(m, terms, error);
    if (status == VAE_OK)
        vae_machine_warn_of_precision(m);
    return status;
}

void
vae_machine_close(VaeMachine *m)
{
    assert(m->class || !m->backend);
    if (m->backend && m->class->finish && !m->shares)
        m->class->finish(m->backend, 0, VAE_FINISH_DISCARD, NULL);
    if (m->wide)
        vae_machine_close(m->wide);
    vae_mem_free(m->wide);
    vae_machine_drop_programs(m);
    if (m->backend) {
        vae_machine_free_memory(m);
        vae_machine_free_tiles(m);
        vae_carries_free(&m->carries);
        vae_history_free(&m->history);
        if (!m->shares)
            m->class->close(&m->backend);
    }
    *m = (VaeMachine){0};
}

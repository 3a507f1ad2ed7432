/*
 * run.c: runs programs on the device. Only profiles wait for it.
 */
#include "gpu.h"

/* Waits for the run and adds the time of each op to the profile. */
static int
read_marks(const VaeExec *exec, const VaeRun *run)
{
    const VaeCudaExec *e = (const VaeCudaExec *) exec;
    const int n = exec->program->n_ops;
    int code = vae_rt_event_sync(e->marks[n]);
    for (int i = 0; i < n && !code; i++) {
        float ms = 0;
        if (vae_exec_idle(exec, run, &exec->program->ops[i]))
            continue;
        code = vae_rt_event_span(e->marks[i], e->marks[i + 1], &ms);
        exec->times[i].calls++;
        exec->times[i].ns += (uint64_t) (ms * 1e6f);
    }
    return code;
}

/* ------------------------------------------------------------------ */

static VaeStatus
run_graph(VaeBackend *cuda, VaeExec *e, const VaeRun *run, VaeCudaSlot *slot,
          VaeError *error)
{
    const VaeRtGraph graph = vae_cuda_exec(e)->graph;
    const int last = e->program->n_ops - 1;
    VaeStatus status = vae_cuda_run_ops(e, 0, 1, run, slot, error);
    if (status == VAE_OK)
        status = vae_cuda_status(cuda, vae_rt_graph_run(graph, cuda->compute),
                                 "run a program", error);
    return status == VAE_OK
               ? vae_cuda_run_ops(e, last, last + 1, run, slot, error)
               : status;
}

VaeStatus
vae_cuda_run(VaeBackend *cuda, VaeExec *e, const VaeRun *run, VaeError *error)
{
    VaeCudaSlot *slot;
    VaeCudaExec *own = vae_cuda_exec(e);
    const int n = e->program->n_ops;
    vae_cuda_profile(e, e->times != NULL);
    VaeStatus status = vae_cuda_stage_in(cuda, e, run, &slot, error);
    if (status != VAE_OK)
        return status;
    vae_rt_range_begin(e->program->label);
    if (own->graph && !own->marks && !run->dump &&
        vae_clock_is_steady(&run->clock, e->program) &&
        !vae_cuda_history_is_spilled(e))
        status = run_graph(cuda, e, run, slot, error);
    else
        status = vae_cuda_run_ops(e, 0, n, run, slot, error);
    if (status != VAE_OK)
        vae_cuda_end_moves(cuda);
    if (status == VAE_OK)
        status = vae_cuda_status(cuda, vae_cuda_end_history(cuda, e),
                                 "store the history", error);
    if (status == VAE_OK && own->marks)
        status = vae_cuda_status(
            cuda, vae_rt_event_record(own->marks[n], cuda->compute),
            "take the time", error);
    if (status == VAE_OK)
        status = vae_cuda_stage_out(cuda, slot, error);
    if (status == VAE_OK && own->marks)
        status =
            vae_cuda_status(cuda, read_marks(e, run), "take the time", error);
    if (status == VAE_OK) {
        own->ran = true;
        status = vae_cuda_record(cuda, error);
    }
    vae_rt_range_end();
    return status;
}

/*
 * spill.c: copies spilled carries while other ops compute.
 *
 * One stream fetches and one stores. An event of the compute stream begins a
 * copy, and the compute stream waits for a second event after the copy. In a
 * recorded program these are branches of the graph.
 */
#include "gpu.h"

static bool
begins(const VaeOp *op)
{
    return op->kind == VAE_OP_FETCH || op->kind == VAE_OP_STORE;
}

bool
vae_cuda_moves(const VaeOp *op)
{
    return begins(op) || op->kind == VAE_OP_FETCHED ||
           op->kind == VAE_OP_STORED;
}

/* The op that begins the copy for which op waits. */
static VaeCudaOp *
beginning(VaeCudaExec *e, const VaeOp *op)
{
    const VaeProgram *p = e->exec.program;
    int i = (int) (op - p->ops);
    while (!begins(&p->ops[i]) || p->ops[i].x != op->x)
        i--;
    return &e->ops[i];
}

static int
begin(const VaeCudaOp *own, const VaeOp *op)
{
    const VaeExec *e = &own->exec->exec;
    const VaeBackend *cuda = own->exec->cuda;
    const bool fetch = op->kind == VAE_OP_FETCH;
    const VaeRtStream stream = fetch ? cuda->fetching : cuda->storing;
    uint8_t *host = e->memory.spilled + op->carry->place;
    uint8_t *window = vae_exec_body(e, op->x);
    int code = vae_rt_event_record(own->ready, cuda->compute);
    if (!code)
        code = vae_rt_stream_wait(stream, own->ready);
    if (!code)
        code = vae_rt_copy(fetch ? window : host, fetch ? host : window,
                           op->carry->bytes, stream);
    if (!code)
        code = vae_rt_event_record(own->moved, stream);
    return code;
}

static VaeStatus
run(void *user, const VaeOp *op, VaeError *error)
{
    const VaeCudaOp *own = user;
    const VaeBackend *cuda = own->exec->cuda;
    const int code = begins(op)
                         ? begin(own, op)
                         : vae_rt_stream_wait(cuda->compute,
                                              beginning(own->exec, op)->moved);
    return vae_cuda_status(cuda, code, "copy a carry", error);
}

int
vae_cuda_open_moves(VaeBackend *cuda)
{
    int code = 0;
    if (!cuda->fetching)
        code = vae_rt_stream_new(&cuda->fetching);
    if (!code && !cuda->storing)
        code = vae_rt_stream_new(&cuda->storing);
    return code;
}

VaeStatus
vae_cuda_prepare_move(VaeBackend *cuda, VaeCudaExec *e, int i, VaeError *error)
{
    VaeCudaOp *own = &e->ops[i];
    int code = e->cache ? vae_cuda_open_moves(cuda) : 0;
    e->exec.ops[i].run = run;
    if (!code && e->cache && begins(&e->exec.program->ops[i])) {
        code = vae_rt_event_new(&own->ready);
        if (!code)
            code = vae_rt_event_new(&own->moved);
    }
    return vae_cuda_status(cuda, code, "make streams", error);
}

void
vae_cuda_end_moves(VaeBackend *cuda)
{
    if (cuda->fetching)
        vae_rt_stream_sync(cuda->fetching);
    if (cuda->storing)
        vae_rt_stream_sync(cuda->storing);
}

/*
 * record.c: loads the code that a program needs, and records the program as a
 * graph.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

/* ------------------------------------------------------------------ */
/* Code.                                                               */

/* Runs convolution `part` of op over a few rows of one frame. Its memory is
 * part of the op's, so nothing else is needed. */
static VaeStatus
run_small(VaeCudaExec *e, int op, int part, VaeError *error)
{
    const VaeCudaOp *own = &e->ops[op];
    VaeError ignored;
    VaeCudaConv *conv = NULL;
    const VaeCudaConvShape shape =
        vae_cuda_shape(&e->exec.program->ops[op],
                       e->cuda->params.precision == VAE_PRECISION_TF32);
    const VaeCudaConvShape small =
        vae_cuda_small_part(&own->conv, &shape, part);
    const VaeCudaConvArgs args = vae_cuda_conv_args(e, op, part);
    VaeStatus status = vae_cuda_conv_new(e->cuda->convs, &small,
                                         &own->conv.choice, &conv, &ignored);
    /* A choice that cannot compute so few rows computes all of them. */
    if (status != VAE_OK ||
        vae_cuda_conv_workspace(conv) > vae_cuda_parts_workspace(&own->conv)) {
        vae_cuda_conv_free(&conv);
        return vae_cuda_conv_run(own->conv.conv[part], e->cuda->compute, error);
    }
    status = vae_cuda_conv_bind(conv, &args, error);
    if (status == VAE_OK)
        status = vae_cuda_conv_run(conv, e->cuda->compute, error);
    /* The library may use the plan until the run ends. */
    if (status == VAE_OK)
        status = vae_cuda_status(e->cuda, vae_rt_stream_sync(e->cuda->compute),
                                 "run a convolution", error);
    vae_cuda_conv_free(&conv);
    return status;
}

/* Runs the convolutions of op, unless their code is loaded. Timing loads it,
 * but not the kernel that joins phases. */
static VaeStatus
load_conv(VaeCudaExec *e, int i, VaeError *error)
{
    VaeError why;
    char name[VAE_CUDA_LAYER_NAME];
    const VaeCudaParts *p = &e->ops[i].conv;
    const VaeOp *op = &e->exec.program->ops[i];
    const VaeCudaConvShape shape =
        vae_cuda_shape(op, e->cuda->params.precision == VAE_PRECISION_TF32);
    VaeStatus status = VAE_OK;
    const VaeCudaConvShape layer = vae_cuda_layer_shape(&shape);
    vae_cuda_layer_name(&layer, name);
    const bool loaded = vae_cuda_is_loaded(e->cuda, name, &p->choice);
    for (int part = 0; part < p->phases && !loaded && status == VAE_OK; part++)
        status = run_small(e, i, part, &why);
    if (status == VAE_OK && op->conv.up && !p->joined)
        vae_cuda_join_phases(&e->ops[i], op, p->phases - 1);
    if (status != VAE_OK)
        return vae_fail(error, status, "%s: %s", op->name, why.message);
    vae_cuda_set_loaded(e->cuda, name, &p->choice);
    return VAE_OK;
}

VaeStatus
vae_cuda_load(VaeBackend *cuda, VaeCudaExec *e, VaeError *error)
{
    const int last = e->exec.program->n_ops - 1;
    VaeStatus status = VAE_OK;
    if (e->loaded)
        return VAE_OK;
    const VaeOpeningMark begin = vae_opening_begin(cuda->params.opening);
    const uint64_t free = vae_cuda_code_begin();
    for (int i = 1; i < last && status == VAE_OK; i++) {
        const VaeOp *op = &e->exec.program->ops[i];
        if (op->kind == VAE_OP_CONV)
            status = load_conv(e, i, error);
        else if (!vae_cuda_moves(op))
            status = vae_cuda_run_ops(&e->exec, i, i + 1, NULL, NULL, error);
    }
    if (status == VAE_OK)
        status = vae_cuda_stage_load(cuda, &e->exec, error);
    if (status == VAE_OK)
        status = vae_cuda_status(cuda, vae_rt_stream_sync(cuda->compute),
                                 "run a program", error);
    vae_cuda_code_end(cuda, free);
    vae_opening_end(cuda->params.opening, VAE_OPENING_CODE, begin);
    e->loaded = status == VAE_OK;
    return status;
}

/* ------------------------------------------------------------------ */
/* Graphs.                                                             */

enum { TRIES = 3 }; /* attempts to record a program */

/* Tests can disable graphs, which change no result. */
static bool
wants_graph(void)
{
    const char *text = getenv("VAE_CUDA_GRAPHS");
    return !text || strcmp(text, "0") != 0;
}

static VaeStatus
capture_once(VaeBackend *cuda, VaeCudaExec *e, VaeError *error)
{
    int code = vae_rt_capture_begin(cuda->compute);
    if (code)
        return vae_cuda_status(cuda, code, "record a program", error);
    const VaeStatus status = vae_cuda_run_ops(
        &e->exec, 1, e->exec.program->n_ops - 1, NULL, NULL, error);
    code = vae_rt_capture_end(cuda->compute, &e->graph);
    return status != VAE_OK
               ? status
               : vae_cuda_status(cuda, code, "record a program", error);
}

/* A recording fails if any thread of the process, perhaps the application's,
 * waits for the device. There are therefore several attempts. */
static VaeStatus
capture(VaeBackend *cuda, VaeCudaExec *e, VaeError *error)
{
    VaeStatus status = VAE_ERR_BACKEND;
    for (int i = 0; i < TRIES; i++) {
        pthread_mutex_lock(&vae_cuda_recording);
        vae_cuda_convs_lock(cuda->convs);
        status = capture_once(cuda, e, error);
        vae_cuda_convs_unlock(cuda->convs);
        pthread_mutex_unlock(&vae_cuda_recording);
        if (status == VAE_OK)
            return VAE_OK;
        vae_rt_graph_free(e->graph);
        e->graph = NULL;
        vae_rt_failure(); /* clears failures of recorded launches */
    }
    return status;
}

/* Records all ops between the first and the last as one graph. If one of them
 * cannot be recorded, there is no graph. A program that has not run yet is then
 * recorded again after its first run, which may load the missing code. */
static VaeStatus
record(VaeBackend *cuda, VaeCudaExec *e, VaeError *error)
{
    VaeError why;
    const bool good = capture(cuda, e, &why) == VAE_OK;
    const int lost = good ? 0 : vae_rt_stream_sync(cuda->compute);
    if (good || e->ran)
        vae_cuda_record_never(cuda, e);
    e->waits = !good;
    if (lost)
        return vae_cuda_status(cuda, lost, "record a program", error);
    if (!good && e->ran)
        vae_log(&cuda->params.log, "the program \"%s\" runs op by op: %s",
                e->exec.program->label, why.message);
    return VAE_OK;
}

/* True if kernels get the place in the video as an argument, which a graph
 * would repeat. */
static bool
knows_place(const VaeProgram *program)
{
    for (int i = 0; i < program->n_ops; i++)
        if (program->ops[i].kind == VAE_OP_WINDOW ||
            program->ops[i].kind == VAE_OP_NOISE)
            return true;
    return false;
}

void
vae_cuda_record_later(VaeBackend *cuda, VaeCudaExec *e)
{
    VaeCudaExec **at = &cuda->unrecorded;
    vae_cuda_record_never(cuda, e);
    if (!wants_graph() || knows_place(e->exec.program))
        return;
    while (*at)
        at = &(*at)->next;
    e->next = NULL;
    e->waits = false;
    *at = e;
}

void
vae_cuda_record_never(VaeBackend *cuda, const VaeCudaExec *e)
{
    VaeCudaExec **at = &cuda->unrecorded;
    while (*at && *at != e)
        at = &(*at)->next;
    if (*at)
        *at = e->next;
}

/* The next program to record. Programs that have not run come first. */
static VaeCudaExec *
next_unrecorded(const VaeBackend *cuda)
{
    VaeCudaExec *e = cuda->unrecorded, *old = e;
    while (e && (e->ran || e->waits))
        e = e->next;
    while (old && !old->ran)
        old = old->next;
    return e ? e : old;
}

VaeStatus
vae_cuda_record(VaeBackend *cuda, VaeError *error)
{
    VaeStatus status = VAE_OK;
    VaeCudaExec *e;
    while (status == VAE_OK && (e = next_unrecorded(cuda)))
        status = record(cuda, e, error);
    return status;
}

/*
 * ops.c: runs the ops of a program on the device. In this file only dumps wait
 * for it.
 */
#include "gpu.h"

/* The queue of the program's own kernels. */
static VaeQueue
queue_of(const VaeCudaExec *e)
{
    return (VaeQueue){.threads = 1,
                      .stream = e->loaded ? e->cuda->compute : VAE_ONLY_LOAD};
}

static int
copy(const VaeQueue *queue, void *dst, const void *src, size_t n)
{
    return queue->stream == VAE_ONLY_LOAD
               ? 0
               : vae_rt_copy(dst, src, n, queue->stream);
}

static int
zero(const VaeQueue *queue, void *dst, size_t n)
{
    return queue->stream == VAE_ONLY_LOAD ? 0
                                          : vae_rt_zero(dst, n, queue->stream);
}

static int
wait_for(const VaeQueue *queue)
{
    return vae_rt_stream_sync(queue->stream);
}

static VaeStatus
failed(const VaeLaunch *l, int code, VaeError *error)
{
    return vae_cuda_status(vae_cuda_exec((VaeExec *) l->exec)->cuda, code,
                           "copy a carry", error);
}

/* ------------------------------------------------------------------ */
/* Convolutions.                                                       */

void
vae_cuda_join_phases(const VaeCudaOp *own, const VaeOp *op, int i)
{
    const VaeTensor *x = op->x, *y = op->y;
    const VaeQueue queue = queue_of(own->exec);
    vae_rt_kernels()->rearrange(
        &queue,
        &(VaeRearrangeArgs){.kind = VAE_JOIN_PHASES,
                            .y = vae_cuda_part_of(own, op, y, i),
                            .x = own->exec->exec.memory.scratch + own->phases,
                            .x_type = y->type,
                            .y_type = y->type,
                            .t = own->conv.t,
                            .h = vae_cuda_band(&own->conv, i).n_y,
                            .w = x->shape.w,
                            .c = y->shape.c,
                            .ft = 1,
                            .fs = 2,
                            .phase = own->conv.phase / vae_type_size(y->type)});
}

/* Copies the rows that convolution i reads, of all frames, to one block. */
static int
gather(const VaeCudaOp *own, const VaeOp *op, int i)
{
    const VaeCudaParts *p = &own->conv;
    const int frames = (p->t - 1) * op->conv.st + op->conv.kt;
    const size_t bytes =
        (size_t) vae_cuda_band(p, i).n_x * vae_row_bytes(op->x);
    uint8_t *to = own->exec->exec.memory.scratch + own->gathered;
    int code = 0;
    for (int f = 0; f < frames && !code; f++) {
        code = vae_rt_copy(to, vae_cuda_input_of(own, op, i, f), bytes,
                           own->exec->cuda->compute);
        to += bytes;
    }
    return code;
}

/* Copies the result of convolution i to y or, before it runs, what it adds to
 * the place of that result. */
static int
copy_result(const VaeCudaOp *own, const VaeOp *op, int i, bool add)
{
    const VaeTensor *t = add ? op->add : op->y;
    uint8_t *result = own->exec->exec.memory.scratch + own->phases;
    uint8_t *part = vae_cuda_part_of(own, op, t, i);
    const size_t bytes = (size_t) own->conv.t *
                         (size_t) vae_cuda_band(&own->conv, i).n_y *
                         vae_row_bytes(t);
    return vae_rt_copy(add ? result : part, add ? part : result, bytes,
                       own->exec->cuda->compute);
}

/* Makes the copies that convolution i reads. */
static int
copy_inputs(const VaeCudaOp *own, const VaeOp *op, int i)
{
    const VaeCudaParts *p = &own->conv;
    const int code = p->gathered ? gather(own, op, i) : 0;
    return code || !p->phase || !op->add ? code : copy_result(own, op, i, true);
}

/* Writes the result of convolution i to y, unless it is there. */
static int
finish_result(const VaeCudaOp *own, const VaeOp *op, int i)
{
    const VaeCudaParts *p = &own->conv;
    if (!p->phase || i % p->phases < p->phases - 1)
        return 0;
    if (!op->conv.up)
        return copy_result(own, op, i, false);
    vae_cuda_join_phases(own, op, i);
    return 0;
}

VaeStatus
vae_cuda_run_conv(void *user, const VaeOp *op, VaeError *error)
{
    VaeError why;
    const VaeCudaOp *own = user;
    const VaeCudaParts *p = &own->conv;
    VaeBackend *cuda = own->exec->cuda;
    for (int i = 0; i < p->n * p->bands * p->phases; i++) {
        int code = copy_inputs(own, op, i);
        const VaeStatus status =
            code ? VAE_OK : vae_cuda_conv_run(p->conv[i], cuda->compute, &why);
        if (status != VAE_OK)
            return vae_fail_within(error, &why, "%s: ", op->name);
        code = code ? code : finish_result(own, op, i);
        if (code)
            return vae_cuda_status(cuda, code, "copy rows", error);
    }
    return VAE_OK;
}

/* ------------------------------------------------------------------ */
/* Profiles and dumps.                                                 */

/* For tests and debugging only, so it may allocate and wait. */
static VaeStatus
dump(const VaeLaunch *l, const VaeOp *op, const VaeTensor *y, VaeError *error)
{
    const size_t bytes = vae_frame_bytes(y) * (size_t) y->shape.t;
    void *raw = vae_mem_alloc(bytes);
    if (!raw)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    const int code =
        vae_cuda_copy_now(l->user, raw, vae_exec_body(l->exec, y), bytes);
    const VaeStatus status =
        code ? vae_cuda_status(l->user, code, "show a tensor", error)
             : vae_exec_dump(l->run, op, y, raw, error);
    vae_mem_free(raw);
    return status;
}

static VaeStatus
before(VaeLaunch *l, int i, VaeError *error)
{
    const VaeCudaExec *e = vae_cuda_exec((VaeExec *) l->exec);
    const VaeProgram *p = l->exec->program;
    const int code = l->run && e->marks
                         ? vae_rt_event_record(e->marks[i], l->queue.stream)
                         : 0;
    if (code)
        return vae_cuda_status(l->user, code, "take the time", error);
    vae_rt_range_begin(p->ops[i].name ? p->ops[i].name : p->label);
    return VAE_OK;
}

static VaeStatus
after(VaeLaunch *l, int i, VaeStatus status, VaeError *error)
{
    const VaeOp *op = &l->exec->program->ops[i];
    vae_rt_range_end();
    VaeTensor y;
    return status == VAE_OK && l->run && l->run->dump && vae_exec_shown(op, &y)
               ? dump(l, op, &y, error)
               : status;
}

void
vae_cuda_profile(VaeExec *exec, bool on)
{
    VaeCudaExec *e = vae_cuda_exec(exec);
    const int n = exec->program->n_ops + 1;
    if (on == (e->marks != NULL))
        return;
    for (int i = 0; e->marks && i < n; i++)
        vae_rt_event_free(e->marks[i]);
    vae_mem_free(e->marks);
    e->marks = NULL;
    if (!on)
        return;
    e->marks = vae_mem_alloc((size_t) n * sizeof(VaeRtEvent));
    for (int i = 0; e->marks && i < n; i++)
        if (vae_rt_event_new(&e->marks[i])) {
            vae_cuda_profile(exec, false);
            return;
        }
}

/* ------------------------------------------------------------------ */

VaeStatus
vae_cuda_run_ops(VaeExec *exec, int from, int to, const VaeRun *run,
                 VaeCudaSlot *slot, VaeError *error)
{
    VaeBackend *cuda = vae_cuda_exec(exec)->cuda;
    VaeLaunch launch = {.exec = exec,
                        .kernels = vae_rt_kernels(),
                        .queue = queue_of(vae_cuda_exec(exec)),
                        .tf32 = cuda->params.precision == VAE_PRECISION_TF32,
                        .copy = copy,
                        .zero = zero,
                        .wait = wait_for,
                        .failed = failed,
                        .attend = vae_cuda_attend,
                        .before = before,
                        .after = after,
                        .user = cuda,
                        .run = run,
                        .in_stride = sizeof(VaeCudaUnit),
                        .out_stride = sizeof(VaeCudaUnit)};
    if (slot) {
        launch.latents_in = &slot->in->device_read;
        launch.latents_out = &slot->out->device_latent;
        launch.pictures_in = &slot->in->device_picture;
        launch.pictures_out = &slot->out->device_picture;
        launch.scale = vae_cuda_stage_statistic(slot, 0);
        launch.shift = vae_cuda_stage_statistic(slot, 1);
        launch.mean = vae_cuda_stage_statistic(slot, 2);
        launch.std = vae_cuda_stage_statistic(slot, 3);
        launch.nonfinite = vae_cuda_stage_counter(slot);
        launch.bad = slot->bad ? launch.nonfinite + 1 : NULL;
    }
    const VaeStatus status = vae_execute(&launch, from, to, error);
    /* Kernels that could not be launched are reported here. */
    return status == VAE_OK ? vae_cuda_status(cuda, vae_rt_failure(),
                                              "launch a kernel", error)
                            : status;
}

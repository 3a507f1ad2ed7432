/*
 * slots.c: the memory of the staging ring, and the kernels that read and write
 * it.
 */
#include "gpu.h"

static void
free_on_device(VaeCudaSlot *s)
{
    vae_rt_free(s->device_in);
    vae_rt_free(s->device_out);
    s->device_in = s->device_out = NULL;
}

static void
free_slot(VaeCudaSlot *s)
{
    free_on_device(s);
    vae_rt_free_host(s->host_in);
    vae_rt_free_host(s->host_out);
    vae_rt_event_free(s->begun);
    vae_rt_event_free(s->uploaded);
    vae_rt_event_free(s->started);
    vae_rt_event_free(s->computed);
    vae_rt_event_free(s->downloaded);
    vae_mem_free(s->in);
    vae_mem_free(s->out);
    *s = (VaeCudaSlot){0};
}

void
vae_cuda_stage_offload(VaeBackend *cuda)
{
    for (int i = 0; i < VAE_CUDA_SLOTS; i++)
        free_on_device(&cuda->slots[i]);
}

void
vae_cuda_stage_free(VaeBackend *cuda)
{
    for (int i = 0; i < VAE_CUDA_SLOTS; i++)
        free_slot(&cuda->slots[i]);
    cuda->in_bytes = cuda->out_bytes = 0;
    cuda->room_in = cuda->room_out = 0;
}

static VaeStatus
taken(const VaeBackend *cuda, int code, VaeError *error)
{
    return vae_cuda_status(cuda, code,
                           "allocate memory for pictures and latents", error);
}

/* Makes the stream events and the host memory of a slot. */
static VaeStatus
take_slot(VaeBackend *cuda, VaeCudaSlot *s, VaeError *error)
{
    s->in = vae_mem_alloc((size_t) cuda->room_in * sizeof *s->in);
    s->out = vae_mem_alloc((size_t) cuda->room_out * sizeof *s->out);
    if (!s->in || !s->out)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    int code = vae_rt_event_new(&s->begun);
    if (!code)
        code = vae_rt_event_new(&s->uploaded);
    if (!code)
        code = vae_rt_event_new(&s->started);
    if (!code)
        code = vae_rt_event_new(&s->computed);
    if (!code)
        code = vae_rt_event_new(&s->downloaded);
    if (!code)
        code = vae_rt_alloc_host((void **) &s->host_in, cuda->in_bytes);
    if (!code)
        code = vae_rt_alloc_host((void **) &s->host_out, cuda->out_bytes);
    return taken(cuda, code, error);
}

static VaeStatus
take_on_device(VaeBackend *cuda, VaeCudaSlot *s, VaeError *error)
{
    int code = 0;
    if (!s->device_in)
        code = vae_rt_alloc((void **) &s->device_in, cuda->in_bytes);
    if (!code && !s->device_out)
        code = vae_rt_alloc((void **) &s->device_out, cuda->out_bytes);
    return taken(cuda, code, error);
}

static size_t
larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Makes all slots large enough for exec and for all earlier programs. */
static VaeStatus
make_slots(VaeBackend *cuda, const VaeCudaExec *exec, VaeError *error)
{
    const VaeProgram *p = exec->exec.program;
    const size_t in = larger(cuda->in_bytes, exec->in_bytes);
    const size_t out = larger(cuda->out_bytes, exec->out_bytes);
    const int n_in = p->n_in > cuda->room_in ? p->n_in : cuda->room_in;
    const int n_out = p->n_out > cuda->room_out ? p->n_out : cuda->room_out;
    VaeStatus status = VAE_OK;
    vae_cuda_stage_free(cuda);
    cuda->in_bytes = in;
    cuda->out_bytes = out;
    cuda->room_in = n_in;
    cuda->room_out = n_out;
    for (int i = 0; i < VAE_CUDA_SLOTS && status == VAE_OK; i++)
        status = take_slot(cuda, &cuda->slots[i], error);
    if (status != VAE_OK)
        vae_cuda_stage_free(cuda);
    return status;
}

VaeStatus
vae_cuda_stage_take(VaeBackend *cuda, const VaeCudaExec *exec, VaeError *error)
{
    const VaeProgram *p = exec->exec.program;
    VaeStatus status = VAE_OK;
    if (exec->in_bytes > cuda->in_bytes || exec->out_bytes > cuda->out_bytes ||
        p->n_in > cuda->room_in || p->n_out > cuda->room_out)
        status = make_slots(cuda, exec, error);
    for (int i = 0; i < VAE_CUDA_SLOTS && status == VAE_OK; i++)
        status = take_on_device(cuda, &cuda->slots[i], error);
    return status;
}

static void
load_picture(const VaeQueue *q, const VaeOp *op, void *frame, VaePicture p)
{
    if (op->x)
        vae_rt_kernels()->picture_out(
            q, &(VaePictureOutArgs){.picture = &p,
                                    .x = frame,
                                    .x_type = op->x->type,
                                    .h = 1,
                                    .w = 1,
                                    .c = op->x->shape.c,
                                    .high = 1});
    else
        vae_rt_kernels()->picture_in(q,
                                     &(VaePictureInArgs){.y = frame,
                                                         .y_type = op->y->type,
                                                         .picture = &p,
                                                         .h = 1,
                                                         .w = 1,
                                                         .c = op->y->shape.c,
                                                         .high = 1});
}

static void
load_latent(const VaeQueue *q, const VaeOp *op, void *frame,
            const VaeCudaSlot *s)
{
    if (op->x)
        vae_rt_kernels()->latent_out(
            q, &(VaeLatentOutArgs){.x = frame,
                                   .x_type = op->x->type,
                                   .dst = s->device_out + 64,
                                   .dst_type = VAE_TYPE_F32,
                                   .h = 1,
                                   .w = 1,
                                   .c = 1,
                                   .cx = op->x->shape.c,
                                   .nonfinite = vae_cuda_stage_counter(s)});
    else
        vae_rt_kernels()->latent_in(
            q, &(VaeLatentInArgs){.y = frame,
                                  .src = vae_cuda_stage_statistic(s, 0),
                                  .src_type = VAE_TYPE_F32,
                                  .scale = vae_cuda_stage_statistic(s, 0),
                                  .shift = vae_cuda_stage_statistic(s, 1),
                                  .y_type = op->y->type,
                                  .h = 1,
                                  .w = 1,
                                  .c = 1,
                                  .nonfinite = vae_cuda_stage_counter(s)});
}

VaeStatus
vae_cuda_stage_load(VaeBackend *cuda, const VaeExec *exec, VaeError *error)
{
    const VaeProgram *p = exec->program;
    const VaeOp *ops[] = {&p->ops[0], &p->ops[p->n_ops - 1]};
    const VaeQueue q = {.threads = 1, .stream = VAE_ONLY_LOAD};
    const VaeCudaSlot *s = &cuda->slots[0];
    /* Planes as of one pixel; the kernels do not run. */
    uint8_t *at = s->device_out + 64;
    VaePicture picture = {.width = 1, .height = 1, .stride = {16, 16, 16}};
    for (int i = 0; i < 3; i++)
        picture.data[i] = at + 16 * i;
    for (int i = 0; i < 2; i++) {
        const bool pictures = ops[i]->kind == VAE_OP_PICTURE_IN ||
                              ops[i]->kind == VAE_OP_PICTURE_OUT;
        if (!pictures)
            load_latent(&q, ops[i], exec->memory.arena, s);
        picture.pixels = VAE_PIXELS_RGB;
        if (pictures)
            load_picture(&q, ops[i], exec->memory.arena, picture);
        picture.pixels = VAE_PIXELS_I420;
        if (pictures)
            load_picture(&q, ops[i], exec->memory.arena, picture);
    }
    vae_rt_kernels()->nonfinite(
        &q, &(VaeNonfiniteArgs){.x = s->device_in,
                                .x_type = VAE_TYPE_F32,
                                .n = 1,
                                .counter = vae_cuda_stage_counter(s) + 1});
    return vae_cuda_status(cuda, vae_rt_failure(), "launch a kernel", error);
}

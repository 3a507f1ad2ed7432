/*
 * host.c: see host.h.
 */
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "clock.h"
#include "host.h"
#include "vae-private/os.h"

/* vae_host_alloc() asks `cancelled` again after this many bytes. */
#define PIECE ((size_t) 64 << 20)

/* ------------------------------------------------------------------ */
/* Weights in the layout of the kernel table.                          */

/* [out][in][kt][k][k] -> [kt][k][k][in][out] */
static void
pack_conv(const VaeWeight *w, const float *src, float *dst)
{
    const size_t out = (size_t) w->dims[0], in = (size_t) w->dims[1];
    const size_t taps = (size_t) w->dims[2] * w->dims[3] * w->dims[4];
    for (size_t o = 0; o < out; o++)
        for (size_t i = 0; i < in; i++)
            for (size_t t = 0; t < taps; t++)
                dst[(t * in + i) * out + o] = src[(o * in + i) * taps + t];
}

static VaeStatus
make_weight(void *user, void *dst, VaeError *error)
{
    const VaeWeight *w = user;
    if (w->kind == VAE_WEIGHT_VECTOR) {
        vae_weight_read(w, dst);
        return VAE_OK;
    }
    const size_t bytes = vae_weight_count(w) * sizeof(float);
    float *raw = vae_mem_alloc(bytes);
    if (!raw)
        return vae_fail(error, VAE_ERR_MEMORY,
                        "out of memory for weights "
                        "(%zu bytes)",
                        bytes);
    vae_weight_read(w, raw);
    pack_conv(w, raw, dst);
    vae_mem_free(raw);
    return VAE_OK;
}

typedef struct HostKey {
    char table[8];
    int id, parts, row;
} HostKey;

VaeStatus
vae_host_weight(VaeExec *e, VaeWeightCache *cache, VaeWeight *w,
                const void **out, VaeError *error)
{
    const size_t bytes = vae_weight_count(w) * sizeof(float);
    e->weight_bytes += bytes;
    if (w->kind != VAE_WEIGHT_VECTOR && bytes > e->loading)
        e->loading = bytes; /* make_weight() allocates and frees these */
    if (!cache)
        return VAE_OK;
    HostKey key;
    memset(&key, 0, sizeof key);
    strcpy(key.table, "host");
    key.id = w->id;
    key.parts = w->n_parts;
    key.row = w->row;
    return vae_weight_cache_get(cache,
                                &(VaeWeightRequest){.key = &key,
                                                    .key_size = sizeof key,
                                                    .bytes = bytes,
                                                    .weight = w,
                                                    .make = make_weight,
                                                    .user = w},
                                out, error);
}

static size_t
op_scratch(const VaeOp *op, const VaeKernels *kernels)
{
    const VaeTensor *x = op->x, *y = op->y;
    if (vae_op_adds_up(op)) {
        const VaeShape shape = vae_norm_shape(op, x);
        return sizeof(double) *
               vae_norm_sums(shape.h, shape.w, op->norm.groups);
    }
    if (op->kind == VAE_OP_ATTENTION && kernels->attention)
        return vae_attention_scratch_ref(y->shape.h * y->shape.w, y->shape.c);
    if (op->kind == VAE_OP_WINDOW)
        return kernels->window_scratch(x->shape.t, x->shape.h, x->shape.w,
                                       y->shape.c);
    return 0;
}

static bool
cancelled(const void *exec)
{
    return vae_host_cancelled(exec);
}

VaeStatus
vae_host_prepare(const VaeProgram *program, VaeWeightCache *cache,
                 const VaeKernels *kernels, const VaeBackendParams *params,
                 VaeExec **out, VaeError *error)
{
    VaeExec *e = *out = vae_exec_new(program, sizeof(VaeHostExec));
    if (!e)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    VaeHostExec *host = (VaeHostExec *) e;
    host->kernels = kernels;
    host->queue = (VaeQueue){
        .threads = params->threads, .cancelled = cancelled, .user = e};
    VaeStatus status = VAE_OK;
    for (int i = 0; i < program->n_ops && status == VAE_OK; i++) {
        const VaeOp *op = &program->ops[i];
        VaeExecOp *own = &e->ops[i];
        const size_t weighed = e->weight_bytes;
        vae_exec_needs_scratch(e, op_scratch(op, kernels));
        own->impl = kernels->name;
        status = vae_backend_goes_on(params, error);
        if (op->kind == VAE_OP_CONV && !kernels->conv)
            continue;
        if (op->weight && status == VAE_OK)
            status = vae_host_weight(e, cache, op->weight, &own->weight, error);
        if (op->bias && status == VAE_OK)
            status = vae_host_weight(e, cache, op->bias, &own->bias, error);
        vae_exec_weigh(e, op, weighed);
    }
    if (status != VAE_OK)
        vae_exec_free(out);
    return status;
}

/* ------------------------------------------------------------------ */
/* A run.                                                              */

static int
copy(const VaeQueue *queue, void *dst, const void *src, size_t n)
{
    memcpy(dst, src, n);
    return 0;
}

static int
zero(const VaeQueue *queue, void *dst, size_t n)
{
    memset(dst, 0, n);
    return 0;
}

static VaeStatus
before(VaeLaunch *l, int i, VaeError *error)
{
    uint64_t *start = l->user;
    *start = vae_now_ns();
    return VAE_OK;
}

/* Adds to the times: the first op copies units in, the last one copies them
 * out. */
static VaeStatus
after(VaeLaunch *l, int i, VaeStatus status, VaeError *error)
{
    const VaeExec *e = l->exec;
    VaeStreamStats *stats = l->run->stats;
    const uint64_t *start = l->user, ns = vae_now_ns() - *start;
    if (i == 0)
        stats->upload_ns += ns;
    else if (i == e->program->n_ops - 1)
        stats->download_ns += ns;
    else
        stats->compute_ns += ns;
    const VaeOp *op = &e->program->ops[i];
    if (e->times && !vae_exec_idle(e, l->run, op)) {
        e->times[i].calls++;
        e->times[i].ns += ns;
    }
    VaeTensor y;
    return status == VAE_OK && l->run->dump && vae_exec_shown(op, &y)
               ? vae_exec_dump(l->run, op, &y, vae_exec_body(e, &y), error)
               : status;
}

VaeStatus
vae_host_run(VaeExec *e, const VaeRun *run, VaeError *error)
{
    VaeHostExec *host = (VaeHostExec *) e;
    uint64_t start;
    host->cancel = run->cancel;
    if (e->memory.history)
        e->memory.history->count = run->history;
    VaeLaunch launch = {.exec = e,
                        .kernels = host->kernels,
                        .queue = host->queue,
                        .copy = copy,
                        .zero = zero,
                        .before = before,
                        .after = after,
                        .user = &start,
                        .run = run,
                        .ahead = run->ahead,
                        .latents_in = run->latents_in,
                        .latents_out = run->latents_out,
                        .pictures_in = run->pictures,
                        .pictures_out = run->pictures,
                        .in_stride = run->latents_in ? sizeof(VaeLatentIn)
                                                     : sizeof(VaePicture),
                        .out_stride = run->latents_out ? sizeof(VaeLatentOut)
                                                       : sizeof(VaePicture),
                        .scale = run->scale,
                        .shift = run->shift,
                        .mean = run->mean,
                        .std = run->std,
                        .nonfinite = &run->stats->nonfinite,
                        .bad = run->bad};
    return vae_execute(&launch, 0, e->program->n_ops, error);
}

/* ------------------------------------------------------------------ */
/* Functions of VaeBackendClass.                                       */

VaeStatus
vae_host_alloc(VaeBackend *backend, VaePlace place, size_t bytes, void **out,
               VaeError *error)
{
    const VaeBackendParams *params = (const VaeBackendParams *) backend;
    uint8_t *block = vae_mem_alloc_lazy(bytes ? bytes : 1);
    VaeStatus status = VAE_OK;
    *out = block;
    if (!block)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory (%zu bytes)",
                        bytes);
    for (size_t at = 0; at < bytes && status == VAE_OK; at += PIECE) {
        status = vae_backend_goes_on(params, error);
        if (status == VAE_OK)
            vae_mem_touch(block + at, bytes - at < PIECE ? bytes - at : PIECE);
    }
    if (status == VAE_OK)
        return VAE_OK;
    vae_mem_free(block);
    *out = NULL;
    return status;
}

void
vae_host_free(VaeBackend *backend, VaePlace place, void *block)
{
    vae_mem_free(block);
}

VaeStatus
vae_host_bind(VaeBackend *backend, VaeExec *exec, const VaeMemory *memory,
              VaeError *error)
{
    exec->memory = *memory;
    return VAE_OK;
}

void
vae_host_describe(VaeDevice *out, int threads)
{
    out->threads = threads;
    vae_os_processor_name(out->name, sizeof out->name);
}

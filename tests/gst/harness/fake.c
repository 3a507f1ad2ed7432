/*
 * fake.c: see fake.h.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host.h"
#include "fake.h"
#include "module.h"

#pragma weak fake_backend_at
#pragma weak fake_backend_waits

/* The backend of one stream. */
struct VaeBackend {
    VaeBackendParams params;
    uint64_t state; /* state of the sequence */
    uint64_t step_ns, run_ns;
};

struct FakeExec {
    VaeHostExec host;
    uint64_t *states; /* after each step of a run */
};

VAE_API const VaeBackendClass *vae_module_open(const VaeEngineCalls *calls);

static uint64_t
micros(const char *name)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) * 1000 : 0;
}

static uint64_t
mix(uint64_t state, const void *data, size_t n)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < n; i++)
        state = (state ^ bytes[i]) * 0x100000001b3u;
    return state;
}

static bool
fake_usable(VaePrecision requested, VaePrecision *out, char *why, size_t size)
{
    *out = requested == VAE_PRECISION_AUTO ? VAE_PRECISION_FP32 : requested;
    return true;
}

static VaeStatus
fake_open(const VaeBackendParams *params, VaeBackend **out, VaeDevice *device,
          VaeError *error)
{
    VaeBackend *b = vae_mem_alloc(sizeof *b);
    if (!b)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    b->params = *params;
    *device = (VaeDevice){"none", params->threads};
    b->step_ns = micros("VAE_FAKE_STEP_US");
    b->run_ns = micros("VAE_FAKE_RUN_US");
    *out = b;
    return VAE_OK;
}

static void
fake_close(VaeBackend **backend)
{
    vae_mem_free(*backend);
    *backend = NULL;
}

static void
fake_exec_free(VaeBackend *backend, VaeExec **exec)
{
    struct FakeExec *e = (struct FakeExec *) *exec;
    *exec = NULL;
    vae_mem_free(e->states);
    vae_mem_free(e->host.exec.ops);
    vae_mem_free(e);
}

static VaeStatus
fake_prepare(VaeBackend *backend, VaeWeightCache *cache,
             const VaeProgram *program, VaeExec **out, VaeError *error)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    while (fake_backend_waits && fake_backend_waits()) {
        const VaeStatus status = vae_backend_goes_on(&backend->params, error);
        if (status != VAE_OK)
            return status;
        nanosleep(&pause, NULL);
    }
    struct FakeExec *e = vae_mem_alloc(sizeof *e);
    *out = (VaeExec *) e;
    if (e) {
        e->host.exec.program = program;
        e->host.exec.ops =
            vae_mem_alloc((size_t) program->n_ops * sizeof *e->host.exec.ops);
        for (int i = 0; e->host.exec.ops && i < program->n_ops; i++)
            e->host.exec.ops[i].impl = "fake";
        e->states = vae_mem_alloc((size_t) program->steps * sizeof *e->states);
    }
    if (e && e->host.exec.ops && e->states)
        return VAE_OK;
    if (e)
        fake_exec_free(backend, out);
    return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
}

static VaeStatus
fake_bind(VaeBackend *backend, VaeExec *exec, const VaeMemory *memory,
          VaeError *error)
{
    exec->memory = *memory;
    return VAE_OK;
}

/* ------------------------------------------------------------------ */

static FakePoint
point_of(const VaeOp *op)
{
    switch (op->kind) {
    case VAE_OP_LATENT_IN:
    case VAE_OP_PICTURE_IN:
        return FAKE_UPLOAD;
    case VAE_OP_LATENT_OUT:
    case VAE_OP_PICTURE_OUT:
        return FAKE_DOWNLOAD;
    default:
        return FAKE_COMPUTE;
    }
}

static void
read_units(VaeBackend *b, struct FakeExec *e, const VaeOp *op,
           const VaeRun *run)
{
    const VaeKernels *k = &vae_kernels_ref;
    const VaeProgram *p = e->host.exec.program;
    const VaeTensor *y = op->y;
    const int each = p->n_in / p->steps;
    const size_t bytes = vae_frame_bytes(y);
    for (int i = 0; i < p->n_in; i++) {
        uint8_t *to = vae_exec_body(&e->host.exec, y) + (size_t) i * bytes;
        if (op->kind == VAE_OP_LATENT_IN)
            k->latent_in(
                &e->host.queue,
                &(VaeLatentInArgs){.y = to,
                                   .src = run->latents_in[i].data,
                                   .src_type = run->latents_in[i].type,
                                   .scale = run->scale,
                                   .shift = run->shift,
                                   .y_type = y->type,
                                   .h = y->shape.h,
                                   .w = y->shape.w,
                                   .c = y->shape.c,
                                   .nonfinite = &run->stats->nonfinite});
        else
            k->picture_in(&e->host.queue,
                          &(VaePictureInArgs){.y = to,
                                              .y_type = y->type,
                                              .picture = &run->pictures[i],
                                              .h = y->shape.h,
                                              .w = y->shape.w,
                                              .low = run->low,
                                              .high = run->high});
        b->state = mix(b->state, to, bytes);
        e->states[i / each] = b->state;
    }
}

/* Returns a value between low and high. */
static float
value(uint64_t state, int i, float low, float high)
{
    const uint64_t bits = mix(state, &i, sizeof i) >> 40;
    return low + (high - low) * (float) bits / (float) (1 << 24);
}

static void
write_units(struct FakeExec *e, const VaeOp *op, const VaeRun *run)
{
    const VaeKernels *k = &vae_kernels_ref;
    const VaeProgram *p = e->host.exec.program;
    const VaeTensor *x = op->x;
    const int each = p->n_out / p->steps;
    float *frame = (float *) vae_exec_body(&e->host.exec, x);
    const size_t n = vae_frame_bytes(x) / sizeof *frame;
    for (int i = 0; i < p->n_out; i++) {
        const float v =
            value(e->states[i / each], i % each, run->low, run->high);
        if (op->kind == VAE_OP_PICTURE_OUT && !run->pictures[i].data[0])
            continue;
        for (size_t j = 0; j < n; j++)
            frame[j] = v;
        if (op->kind == VAE_OP_PICTURE_OUT)
            k->picture_out(&e->host.queue,
                           &(VaePictureOutArgs){.picture = &run->pictures[i],
                                                .x = frame,
                                                .h = x->shape.h,
                                                .w = x->shape.w,
                                                .low = run->low,
                                                .high = run->high});
        else
            k->latent_out(
                &e->host.queue,
                &(VaeLatentOutArgs){.x = frame,
                                    .dst = run->latents_out[i].data,
                                    .dst_type = run->latents_out[i].type,
                                    .mean = run->mean,
                                    .std = run->std,
                                    .normalise = run->normalise,
                                    .h = x->shape.h,
                                    .w = x->shape.w,
                                    .c = run->channels,
                                    .cx = x->shape.c,
                                    .nonfinite = &run->stats->nonfinite});
    }
}

static void
sleep_until(const struct timespec *start, uint64_t ns)
{
    struct timespec t = *start;
    ns += (uint64_t) t.tv_nsec;
    t.tv_sec += (time_t) (ns / 1000000000u);
    t.tv_nsec = (long) (ns % 1000000000u);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
        continue;
}

static VaeStatus
fake_run(VaeBackend *b, VaeExec *exec, const VaeRun *run, VaeError *error)
{
    struct FakeExec *e = (struct FakeExec *) exec;
    const VaeProgram *p = exec->program;
    const bool first = strcmp(p->label, "first") == 0;
    const uint64_t ns = b->run_ns + (uint64_t) p->steps * b->step_ns;
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    if (first)
        b->state = 0;
    else if (strcmp(p->label, "without-context") == 0)
        b->state = 1;
    for (int i = 0; i < p->n_ops; i++) {
        const VaeOp *op = &p->ops[i];
        if (fake_backend_at)
            fake_backend_at(point_of(op), i, p->n_ops, p->steps, first,
                            run->cancel);
        else if (ns > 0)
            sleep_until(&start, ns * (uint64_t) (i + 1) / (uint64_t) p->n_ops);
        if (atomic_load(run->cancel))
            return vae_fail(error, VAE_ERR_CANCELLED,
                            "the computation was cancelled");
        if (point_of(op) == FAKE_UPLOAD)
            read_units(b, e, op, run);
        else if (point_of(op) == FAKE_DOWNLOAD)
            write_units(e, op, run);
    }
    return VAE_OK;
}

static const VaeBackendClass fake = {.name = "cuda",
                                     .kind = VAE_BACKEND_CUDA,
                                     .usable = fake_usable,
                                     .encode_precision = VAE_PRECISION_FP32,
                                     .open = fake_open,
                                     .close = fake_close,
                                     .alloc = vae_host_alloc,
                                     .free = vae_host_free,
                                     .prepare = fake_prepare,
                                     .exec_free = fake_exec_free,
                                     .bind = fake_bind,
                                     .run = fake_run};

const VaeBackendClass *
vae_module_open(const VaeEngineCalls *calls)
{
    return strcmp(calls->version, VAE_MODULE_VERSION) == 0 ? &fake : NULL;
}

/*
 * upsample.c: a 3x3 convolution over a picture upsampled by two (nearest), in
 * four phases (program/upsample_phases.c).
 *
 * Each phase is a primitive for one frame, so its result cannot depend on the
 * number of frames. oneDNN writes rows without gaps. Even and odd columns are
 * therefore written to scratch, and then interleaved to every other row of the
 * result.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "conv.h"

typedef struct ConvUp {
    VaePhase phase[VAE_PHASES];
    VaeCpuConv conv[VAE_PHASES];
    /* Offsets of the even and odd columns in scratch, which begins with the
     * library's own scratch. */
    size_t column[2];
    char impl[sizeof((VaeDnnlPrimitive *) 0)->impl + 4];
} ConvUp;

/* Writes every other row of y from its even and odd columns. */
static void
interleave(const VaeExec *e, const VaeOp *op, uint8_t *y,
           const size_t column[2])
{
    const size_t pixel = (size_t) op->y->shape.c * vae_type_size(op->y->type);
    const size_t w = (size_t) op->x->shape.w;
    const uint8_t *even = e->memory.scratch + column[0];
    const uint8_t *odd = e->memory.scratch + column[1];
#pragma omp parallel for num_threads(vae_host_threads(e)) schedule(static)
    for (int row = 0; row < op->x->shape.h; row++) {
        const size_t from = (size_t) row * w;
        uint8_t *to = y + 4 * from * pixel;
        for (size_t i = from; i < from + w; i++) {
            memcpy(to, even + i * pixel, pixel);
            memcpy(to + pixel, odd + i * pixel, pixel);
            to += 2 * pixel;
        }
    }
}

static VaeDnnlStatus
run_frame(ConvUp *u, const VaeOp *op, const uint8_t *x, uint8_t *y)
{
    const VaeExec *e = u->conv[0].exec;
    const size_t row = vae_frame_bytes(op->y) / (size_t) op->y->shape.h;
    VaeDnnlStatus s = VAE_DNNL_OK;
    for (int p = 0; p < VAE_PHASES && s == VAE_DNNL_OK; p++) {
        s = vae_cpu_conv_frame(
            &u->conv[p], x, e->memory.scratch + u->column[u->phase[p].column],
            NULL);
        if (s == VAE_DNNL_OK && u->phase[p].column == 1) {
            s = vae_dnnl_wait(&u->conv[p].cpu->dnnl);
            interleave(e, op, y + (size_t) u->phase[p].row * row, u->column);
        }
    }
    return s;
}

static VaeStatus
conv_up_run(void *own, const VaeOp *op, VaeError *error)
{
    ConvUp *u = own;
    const VaeExec *e = u->conv[0].exec;
    const uint8_t *x = vae_exec_body(e, op->x);
    uint8_t *y = vae_exec_body(e, op->y);
    VaeDnnlStatus s = VAE_DNNL_OK;
    for (int f = 0; f < op->y->shape.t && s == VAE_DNNL_OK; f++) {
        s = run_frame(u, op, x, y);
        x += vae_frame_bytes(op->x);
        y += vae_frame_bytes(op->y);
    }
    return vae_cpu_status(s, op, "run the convolution", error);
}

static void
conv_up_free(void *own)
{
    ConvUp *u = own;
    for (int p = 0; p < VAE_PHASES; p++)
        vae_dnnl_free(&u->conv[p].primitive);
    vae_mem_free(u);
}

/* Sets the offsets in scratch; returns its bytes. */
static size_t
place(ConvUp *u, const VaeOp *op)
{
    const size_t quarter = vae_frame_bytes(op->y) / VAE_PHASES;
    size_t end = 0;
    for (int p = 0; p < VAE_PHASES; p++)
        if (u->conv[p].primitive.scratch > end)
            end = u->conv[p].primitive.scratch;
    for (int i = 0; i < 2; i++) {
        u->column[i] = (end + 63) / 64 * 64;
        end = u->column[i] + quarter;
    }
    return end;
}

VaeStatus
vae_cpu_conv_up(VaeBackend *cpu, VaeWeightCache *cache, VaeExec *exec, int i,
                VaeError *error)
{
    const VaeOp *op = &exec->program->ops[i];
    assert(op->conv.k == 3 && op->conv.kt == 1 && op->conv.s == 1 && !op->add);
    ConvUp *u = vae_mem_alloc(sizeof *u);
    if (!u)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    exec->ops[i].own = u;
    exec->ops[i].own_free = conv_up_free;
    exec->ops[i].run = conv_up_run;
    exec->ops[i].impl = u->impl;
    VaeStatus status = VAE_OK;
    for (int p = 0; p < VAE_PHASES && status == VAE_OK; p++) {
        u->phase[p] = vae_phase(p);
        u->conv[p] = (VaeCpuConv){
            .cpu = cpu, .exec = exec, .op = op, .phase = &u->phase[p]};
        status = vae_cpu_conv_make(&u->conv[p], cache, error);
    }
    if (status != VAE_OK)
        return status;
    snprintf(u->impl, sizeof u->impl, "%s x%d", u->conv[0].primitive.impl,
             VAE_PHASES);
    const size_t scratch = place(u, op);
    if (scratch > exec->scratch)
        exec->scratch = scratch;
    return VAE_OK;
}

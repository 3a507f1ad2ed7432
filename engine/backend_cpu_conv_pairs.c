/*
 * backend_cpu_conv_pairs.c: a 3x3x3 convolution two frames at a time, by
 * Winograd's F(2,3) along time. Of frames x0..x3 and the kernel's g0, g1, g2
 *
 *   m0 = (x0 - x2) g0                 y0 = m1 + m2 + m0
 *   m1 = (x1 + x2) (g0 + g1 + g2)/2   y1 = m1 - m2 + m3
 *   m2 = (x2 - x1) (g0 - g1 + g2)/2
 *   m3 = (x3 - x1) g2
 *
 * are both frames of the result, by four 3x3 convolutions instead of six. A
 * last odd frame of a step takes three, as it would without, and so needs no
 * weights of its own. Only in F32: in 16 bits the sums of frames would round.
 *
 * Pairs never reach from one step into the next, so the slice size changes no
 * byte. Each product is a primitive for a band of rows, few enough that what it
 * reads and writes is still in the cache when the sums are made.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "backend_cpu_conv.h"

enum { KERNELS = 4, INNER = 0, OUTER = 1 };

/* About so much of a frame is worked on at a time. */
#define BAND_BYTES ((size_t) 4 << 20)

typedef struct ConvPairs {
    VaeCpuConv conv[2]; /* the inner and the outer products */
    VaeCpuProducts products[2];
    int rows; /* of a band */
    /* Where the sums of frames are in scratch, rows + 2 each, and both frames
     * of the band; the library's own begins at 0. */
    size_t at[KERNELS + 2];
    char impl[VAE_CPU_IMPL + 10];
} ConvPairs;

/* What a band is computed from and into; without the second frame of the result
 * x[3], y[1] and add[1] are not looked at. */
typedef struct Pair {
    bool two;
    const float *x[4];
    const float *add[2]; /* NULL: none */
    float *y[2];
} Pair;

static size_t
line(const VaeTensor *t)
{
    return (size_t) t->shape.w * t->shape.c;
}

static float *
in(const ConvPairs *p, int kernel)
{
    return (float *) (p->conv[0].exec->memory.scratch + p->at[kernel]);
}

static float *
out(const ConvPairs *p, int frame)
{
    return in(p, KERNELS + frame);
}

/* One line; constants for the flags make the compiler drop what they leave
 * out. */
static inline __attribute__((always_inline)) void
sums_in(float *const t[KERNELS], const float *const x[4], size_t n, bool two)
{
    const float *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3];
    float *t0 = t[0], *t1 = t[1], *t2 = t[2], *t3 = t[3];
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        t0[i] = x0[i] - x2[i];
        t1[i] = x1[i] + x2[i];
        t2[i] = x2[i] - x1[i];
        if (two)
            t3[i] = x3[i] - x1[i];
    }
}

/* One line, too; y may be m or add. */
static inline __attribute__((always_inline)) void
sums_out(float *const y[2], const float *const m[2], const float *const add[2],
         size_t n, bool two, bool adds)
{
    const float *m1 = m[0], *m2 = m[1], *add0 = add[0], *add1 = add[1];
    float *y0 = y[0], *y1 = y[1];
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        const float sum = m1[i] + m2[i], difference = m1[i] - m2[i];
        y0[i] = adds ? sum + add0[i] : sum;
        if (two)
            y1[i] = adds ? difference + add1[i] : difference;
    }
}

/* The sums of frames of the rows that a band beginning at `first` reads; zeros
 * outside the picture. */
static void
band_in(const ConvPairs *p, const Pair *f, int first)
{
    const VaeOp *op = p->conv[0].op;
    const size_t n = line(op->x);
    const int kernels = f->two ? KERNELS : KERNELS - 1;
#pragma omp parallel for num_threads(p->conv[0].exec->queue.threads)           \
    schedule(static)
    for (int r = 0; r < p->rows + 2; r++) {
        const int row = first - 1 + r;
        const bool inside = row >= 0 && row < op->x->shape.h;
        const size_t at = inside ? (size_t) row * n : 0;
        const float *const x[4] = {f->x[0] + at, f->x[1] + at, f->x[2] + at,
                                   f->two ? f->x[3] + at : NULL};
        const size_t to = (size_t) r * n;
        float *const t[KERNELS] = {in(p, 0) + to, in(p, 1) + to, in(p, 2) + to,
                                   in(p, 3) + to};
        if (!inside)
            for (int k = 0; k < kernels; k++)
                memset(t[k], 0, n * sizeof(float));
        else if (f->two)
            sums_in(t, x, n, true);
        else
            sums_in(t, x, n, false);
    }
}

/* What the inner two products add to `rows` rows of y. */
static void
band_out(const ConvPairs *p, const Pair *f, float *const y[2], int first,
         int rows)
{
    const size_t n = line(p->conv[0].op->y);
    const bool adds = f->add[0] != NULL;
#pragma omp parallel for num_threads(p->conv[0].exec->queue.threads)           \
    schedule(static)
    for (int r = 0; r < rows; r++) {
        const size_t at = (size_t) r * n, from = (size_t) (first + r) * n;
        const float *const m[2] = {out(p, 0) + at, out(p, 1) + at};
        const float *const add[2] = {adds ? f->add[0] + from : NULL,
                                     adds && f->two ? f->add[1] + from : NULL};
        float *const to[2] = {y[0] + at, f->two ? y[1] + at : NULL};
        if (f->two && adds)
            sums_out(to, m, add, n, true, true);
        else if (f->two)
            sums_out(to, m, add, n, true, false);
        else if (adds)
            sums_out(to, m, add, n, false, true);
        else
            sums_out(to, m, add, n, false, false);
    }
}

static dnnl_status_t
product(ConvPairs *p, int kernel, float *y)
{
    VaeCpuConv *c = &p->conv[kernel % 3 ? INNER : OUTER];
    const dnnl_status_t s = vae_cpu_conv_kernel(c, kernel / 2);
    return s == dnnl_success ? vae_cpu_conv_frame(c, in(p, kernel), y, NULL)
                             : s;
}

/* oneDNN writes whole bands; what is left of a picture for the last goes to
 * scratch first. */
static dnnl_status_t
run_band(ConvPairs *p, const Pair *f, int first)
{
    const VaeOp *op = p->conv[0].op;
    const size_t n = line(op->y);
    const int left = op->y->shape.h - first;
    const bool whole = left >= p->rows;
    const int rows = whole ? p->rows : left;
    const int frames = f->two ? 2 : 1;
    float *y[2] = {out(p, 0), out(p, 1)};
    band_in(p, f, first);
    dnnl_status_t s = product(p, 1, y[0]);
    if (s == dnnl_success)
        s = product(p, 2, y[1]);
    for (int i = 0; i < frames && whole; i++)
        y[i] = f->y[i] + (size_t) first * n;
    if (s == dnnl_success)
        s = dnnl_stream_wait(p->conv[0].cpu->stream);
    if (s == dnnl_success) {
        band_out(p, f, y, first, rows);
        s = product(p, 0, y[0]);
    }
    if (s == dnnl_success && f->two)
        s = product(p, 3, y[1]);
    if (s == dnnl_success)
        s = dnnl_stream_wait(p->conv[0].cpu->stream);
    for (int i = 0; i < frames && !whole; i++)
        memcpy(f->y[i] + (size_t) first * n, y[i],
               (size_t) rows * n * sizeof(float));
    return s;
}

/* The frames of one step, from the two in front of them on. */
static dnnl_status_t
run_step(ConvPairs *p, const float *x, const float *add, float *y, int frames)
{
    const VaeOp *op = p->conv[0].op;
    const size_t x_frame = line(op->x) * (size_t) op->x->shape.h;
    const size_t y_frame = line(op->y) * (size_t) op->y->shape.h;
    dnnl_status_t s = dnnl_success;
    for (int i = 0; i < frames; i += 2) {
        Pair f = {.two = i + 1 < frames};
        for (int k = 0; k < (f.two ? 4 : 3); k++)
            f.x[k] = x + (size_t) (i + k) * x_frame;
        for (int k = 0; k < (f.two ? 2 : 1); k++) {
            f.y[k] = y + (size_t) (i + k) * y_frame;
            f.add[k] = add ? add + (size_t) (i + k) * y_frame : NULL;
        }
        for (int row = 0; row < op->y->shape.h && s == dnnl_success;
             row += p->rows)
            s = run_band(p, &f, row);
    }
    return s;
}

static VaeStatus
conv_pairs_run(void *own, const VaeOp *op, VaeError *error)
{
    ConvPairs *p = own;
    const VaeExec *e = p->conv[0].exec;
    const int steps = e->program->steps, frames = op->y->shape.t / steps;
    const size_t x_step = vae_frame_bytes(op->x) * (size_t) frames;
    const size_t y_step = vae_frame_bytes(op->y) * (size_t) frames;
    /* A tensor may have more context than this conv looks back. */
    const int back = op->y->shape.t + 2 - op->x->shape.t;
    const uint8_t *x =
        vae_host_body(e, op->x) - (size_t) back * vae_frame_bytes(op->x);
    const uint8_t *add = op->add ? vae_host_body(e, op->add) : NULL;
    uint8_t *y = vae_host_body(e, op->y);
    dnnl_status_t s = dnnl_success;
    for (int i = 0; i < steps && s == dnnl_success; i++) {
        s = run_step(p, (const float *) x, (const float *) add, (float *) y,
                     frames);
        x += x_step;
        y += y_step;
        if (add)
            add += y_step;
    }
    return vae_cpu_status(s, op, "run the convolution", error);
}

static void
conv_pairs_free(void *own)
{
    ConvPairs *p = own;
    for (int k = 0; k < 2; k++)
        vae_cpu_primitive_free(&p->conv[k].primitive);
    vae_mem_free(p);
}

/* Of a band: all equal, but the last may have fewer. */
int
vae_cpu_pair_rows(const VaeOp *op)
{
    const int h = op->y->shape.h;
    const size_t rows = BAND_BYTES / (line(op->x) * sizeof(float)) + 1;
    const int bands = (int) (((size_t) h + rows - 1) / rows);
    return (h + bands - 1) / bands;
}

/* Lays out the scratch; returns its bytes. */
static size_t
place(ConvPairs *p, const VaeOp *op)
{
    const size_t read = (size_t) (p->rows + 2) * line(op->x) * sizeof(float);
    const size_t made = (size_t) p->rows * line(op->y) * sizeof(float);
    size_t end = 0;
    for (int k = 0; k < 2; k++)
        if (p->conv[k].primitive.scratch > end)
            end = p->conv[k].primitive.scratch;
    for (int k = 0; k < KERNELS + 2; k++) {
        end = (end + 63) / 64 * 64;
        p->at[k] = end;
        end += k < KERNELS ? read : made;
    }
    return end;
}

VaeStatus
vae_cpu_conv_pairs(VaeBackend *cpu, VaeModel *model, VaeExec *exec, int i,
                   VaeError *error)
{
    const VaeOp *op = &exec->program->ops[i];
    assert(op->conv.k == 3 && op->conv.kt == 3 && op->conv.s == 1 &&
           op->conv.st == 1 && op->conv.pad == 1 && !op->conv.up);
    assert(op->x->type == VAE_TYPE_F32 && op->y->type == VAE_TYPE_F32);
    ConvPairs *p = vae_mem_alloc(sizeof *p);
    if (!p)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    exec->ops[i].own = p;
    exec->ops[i].own_free = conv_pairs_free;
    exec->ops[i].run = conv_pairs_run;
    exec->ops[i].impl = p->impl;
    p->rows = vae_cpu_pair_rows(op);
    VaeStatus status = VAE_OK;
    for (int k = 0; k < 2 && status == VAE_OK; k++) {
        p->products[k] = (VaeCpuProducts){k == OUTER, p->rows};
        p->conv[k] = (VaeCpuConv){
            .cpu = cpu, .exec = exec, .op = op, .products = &p->products[k]};
        status = vae_cpu_conv_make(&p->conv[k], model, error);
    }
    if (status != VAE_OK)
        return status;
    snprintf(p->impl, sizeof p->impl, "%s winograd", p->conv[0].primitive.impl);
    const size_t bytes = place(p, op);
    if (bytes > exec->scratch)
        exec->scratch = bytes;
    return VAE_OK;
}

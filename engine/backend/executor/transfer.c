/*
 * transfer.c: ops that copy units in and out, contexts and carries.
 */
#include <assert.h>

#include "launch.h"
#include "pixels.h"

/* ------------------------------------------------------------------ */
/* Units in and out.                                                   */

static const void *
unit(const void *first, int i, size_t stride)
{
    return (const uint8_t *) first + (size_t) i * stride;
}

static void
latents_in(const VaeLaunch *l, const VaeOp *op)
{
    const VaeTensor *y = op->y;
    uint8_t *frame = vae_exec_body(l->exec, y);
    for (int i = 0; i < y->shape.t; i++, frame += vae_frame_bytes(y)) {
        const VaeLatentIn *from = unit(l->latents_in, i, l->in_stride);
        l->kernels->latent_in(&l->queue,
                              &(VaeLatentInArgs){.y = frame,
                                                 .src = from->data,
                                                 .src_type = from->type,
                                                 .scale = l->scale,
                                                 .shift = l->shift,
                                                 .y_type = y->type,
                                                 .h = y->shape.h,
                                                 .w = y->shape.w,
                                                 .c = y->shape.c,
                                                 .nonfinite = l->nonfinite});
    }
}

/* Counts the non-finite values of the result x, in frames of the sequence. */
static void
count_bad(const VaeLaunch *l, const VaeTensor *x)
{
    const size_t frame = vae_frame_bytes(x);
    int64_t first = 0, end = x->shape.t;
    int out = 0;
    if (l->exec->program->delayed) {
        vae_clock_span(&l->run->clock, x, &first, &end);
        out = vae_clock_left_out(&l->run->clock, x);
    }
    first = first > out ? first : out;
    end = end < x->shape.t ? end : x->shape.t;
    if (l->bad && first < end)
        l->kernels->nonfinite(
            &l->queue,
            &(VaeNonfiniteArgs){
                .x = vae_exec_body(l->exec, x) + (size_t) first * frame,
                .x_type = x->type,
                .n = (size_t) (end - first) * frame / vae_type_size(x->type),
                .counter = l->bad});
}

static void
latents_out(const VaeLaunch *l, const VaeOp *op)
{
    const VaeTensor *x = op->x;
    const VaeRun *run = l->run;
    assert(run);
    count_bad(l, x);
    const uint8_t *frame = vae_exec_body(l->exec, x);
    for (int i = 0; i < x->shape.t; i++, frame += vae_frame_bytes(x)) {
        const VaeLatentOut *to = unit(l->latents_out, i, l->out_stride);
        l->kernels->latent_out(
            &l->queue, &(VaeLatentOutArgs){.x = frame,
                                           .x_type = x->type,
                                           .dst = to->data,
                                           .dst_type = to->type,
                                           .mean_out = to->mean,
                                           .logvar_out = to->logvar,
                                           .mean = l->mean,
                                           .std = l->std,
                                           .normalise = run->normalise,
                                           .sample = run->sample,
                                           .seed = run->seed,
                                           .index = run->index + (uint64_t) i,
                                           .h = x->shape.h,
                                           .w = x->shape.w,
                                           .c = run->channels,
                                           .cx = x->shape.c,
                                           .nonfinite = l->nonfinite});
    }
}

/* The number of the first n pictures that one call can convert. */
static int
count_alike(const VaeLaunch *l, const VaePicture *first, size_t stride, int n)
{
    int i = 1;
    while (i < n && i < l->kernels->pictures &&
           vae_pictures_alike(first, unit(first, i, stride)))
        i++;
    return i;
}

static int
pictures_in(const VaeLaunch *l, const VaeOp *op)
{
    assert(l->run);
    const VaeTensor *y = op->y;
    uint8_t *frame = vae_exec_body(l->exec, y);
    const size_t black = (size_t) op->trim * vae_frame_bytes(y);
    const int code = black ? l->zero(&l->queue, frame, black) : 0;
    frame += black;
    for (int i = 0, n; i < y->shape.t - op->trim; i += n) {
        const VaePicture *from = unit(l->pictures_in, i, l->in_stride);
        n = count_alike(l, from, l->in_stride, y->shape.t - op->trim - i);
        l->kernels->picture_in(&l->queue,
                               &(VaePictureInArgs){.y = frame,
                                                   .y_type = y->type,
                                                   .picture = from,
                                                   .n = n,
                                                   .next = l->in_stride,
                                                   .h = y->shape.h,
                                                   .w = y->shape.w,
                                                   .c = y->shape.c,
                                                   .low = l->run->low,
                                                   .high = l->run->high,
                                                   .alpha = l->run->alpha});
        frame += (size_t) n * vae_frame_bytes(y);
    }
    return code;
}

static void
pictures_out(const VaeLaunch *l, const VaeOp *op)
{
    assert(l->run);
    const VaeTensor *x = op->x;
    const uint8_t *body = vae_exec_body(l->exec, x);
    const int units = x->shape.t - op->trim;
    count_bad(l, x);
    for (int i = 0, n; i < units; i += n) {
        const VaePicture *to = unit(l->pictures_out, i, l->out_stride);
        const uint8_t *frame =
            body + (size_t) (op->trim + i) * vae_frame_bytes(x);
        n = count_alike(l, to, l->out_stride, units - i);
        if (to->data[0])
            l->kernels->picture_out(
                &l->queue, &(VaePictureOutArgs){.picture = to,
                                                .n = n,
                                                .next = l->out_stride,
                                                .x = frame,
                                                .x_type = x->type,
                                                .h = x->shape.h,
                                                .w = x->shape.w,
                                                .c = x->shape.c,
                                                .low = l->run->low,
                                                .high = l->run->high,
                                                .alpha = l->run->alpha});
    }
}

/* ------------------------------------------------------------------ */
/* Context and carries.                                                */

/* n blocks of `bytes` bytes; the strides are bytes from block to block. */
typedef struct Blocks {
    uint8_t *to;
    const uint8_t *from;
    size_t to_stride, from_stride, bytes;
    int n;
} Blocks;

static int
copy_blocks(const VaeLaunch *l, Blocks b)
{
    int code = 0;
    if (b.to_stride == b.bytes && b.from_stride == b.bytes)
        return l->copy(&l->queue, b.to, b.from, (size_t) b.n * b.bytes);
    for (int i = 0; i < b.n && !code; i++) {
        code = l->copy(&l->queue, b.to, b.from, b.bytes);
        b.to += b.to_stride;
        b.from += b.from_stride;
    }
    return code;
}

int
vae_exec_load_context(const VaeLaunch *l, const VaeOp *op, const VaeTensor *t)
{
    const size_t frame = vae_frame_bytes(t);
    return copy_blocks(l, (Blocks){.to = vae_exec_slab(l->exec, t),
                                   .from = vae_exec_carry(l->exec, op) +
                                           (size_t) t->row * vae_row_bytes(t),
                                   .to_stride = frame,
                                   .from_stride = vae_carry_frame(op->carry),
                                   .bytes = frame,
                                   .n = op->carry->frames});
}

/* Copies frame 0 of t to each frame of its context. */
static int
repeat_frame(const VaeLaunch *l, const VaeTensor *t)
{
    const size_t frame = vae_frame_bytes(t);
    uint8_t *slab = vae_exec_slab(l->exec, t);
    int code = 0;
    for (int i = 0; i < t->ctx && !code; i++)
        code = l->copy(&l->queue, slab + (size_t) i * frame,
                       vae_exec_body(l->exec, t), frame);
    return code;
}

static int
save_tail(const VaeLaunch *l, const VaeOp *op)
{
    const VaeTensor *x = op->x;
    const int first = x->ctx + x->shape.t - op->carry->frames;
    return copy_blocks(l, (Blocks){.to = vae_exec_carry(l->exec, op) +
                                         (size_t) x->row * vae_row_bytes(x),
                                   .from = vae_exec_slab(l->exec, x) +
                                           (size_t) first * vae_frame_stride(x),
                                   .to_stride = vae_carry_frame(op->carry),
                                   .from_stride = vae_frame_stride(x),
                                   .bytes = vae_frame_bytes(x),
                                   .n = op->carry->frames});
}

static int
copy_frame(const VaeLaunch *l, const VaeTensor *x, int64_t to, int64_t from)
{
    const int64_t bytes = (int64_t) vae_frame_bytes(x);
    uint8_t *body = vae_exec_body(l->exec, x);
    return l->copy(&l->queue, body + to * bytes, body + from * bytes,
                   (size_t) bytes);
}

/* Copies the first frame of a sequence to the slots before it that a
 * convolution reads, and the last frame to all slots after it. Copies nothing
 * without a run, that is, while a graph is recorded. */
static int
fill_edges(const VaeLaunch *l, const VaeOp *op)
{
    const VaeTensor *x = op->x;
    int64_t first, end;
    int code = 0;
    if (!l->run)
        return 0;
    vae_clock_edges(&l->run->clock, x, &first, &end);
    for (int i = 1; first >= 0 && first < x->shape.t && i <= x->ctx / 2; i++)
        code = code ? code : copy_frame(l, x, first - i, first);
    for (int64_t i = end < 0 ? 0 : end; i < x->shape.t && !code; i++)
        code = copy_frame(l, x, i, end < 0 ? -1 : end - 1);
    return code;
}

/* ------------------------------------------------------------------ */

/* The place of a spilled carry in host memory. */
static uint8_t *
spilled(const VaeExec *e, const VaeOp *op)
{
    return e->memory.spilled + op->carry->place;
}

int
vae_exec_transfer(const VaeLaunch *l, const VaeOp *op)
{
    switch (op->kind) {
    case VAE_OP_LATENT_IN:
        latents_in(l, op);
        return 0;
    case VAE_OP_LATENT_OUT:
        latents_out(l, op);
        return 0;
    case VAE_OP_PICTURE_IN:
        return pictures_in(l, op);
    case VAE_OP_PICTURE_OUT:
        pictures_out(l, op);
        return 0;
    case VAE_OP_HEAD_ZERO:
        return l->zero(&l->queue, vae_exec_slab(l->exec, op->x),
                       (size_t) op->x->ctx * vae_frame_bytes(op->x));
    case VAE_OP_HEAD_REPEAT:
        return repeat_frame(l, op->x);
    case VAE_OP_HEAD_CARRY:
        return vae_exec_load_context(l, op, op->x);
    case VAE_OP_TAIL:
        return save_tail(l, op);
    case VAE_OP_EDGE:
        return fill_edges(l, op);
    case VAE_OP_CARRY_ZERO:
        return l->zero(&l->queue, vae_exec_carry(l->exec, op),
                       op->carry->bytes);
    case VAE_OP_FETCH:
        return l->copy(&l->queue, vae_exec_body(l->exec, op->x),
                       spilled(l->exec, op), op->carry->bytes);
    case VAE_OP_STORE:
        return l->copy(&l->queue, spilled(l->exec, op),
                       vae_exec_body(l->exec, op->x), op->carry->bytes);
    case VAE_OP_FETCHED: /* the queue is in order */
    case VAE_OP_STORED:
        return 0;
    default:
        assert(false);
        return 0;
    }
}

/*
 * layers.c: see cuda/conv/layers.h.
 */
#include <assert.h>
#include <stdio.h>

#include "alloc.h"
#include "layers.h"

/* Parts become smaller only if one needs more workspace than this. */
#define PART_WORKSPACE ((size_t) 256 << 20)
/* Parts also become smaller if the phases of one are larger than this: most of
 * that many bytes are still in a large device's cache when they are joined. */
#define PART_PHASES ((size_t) 64 << 20)
/* Parts also become smaller if the input or output of one is larger than this:
 * cuDNN was seen to compute wrong if byte offsets do not fit 31 bits. One
 * frame is always computed at once. */
#define PART_BYTES ((size_t) 1 << 31)

/* Alignment of every frame: blocks begin at multiples of 64 bytes, and frames
 * follow each other. */
static int
alignment(size_t x_frame, size_t y_frame)
{
    const size_t bytes = x_frame | y_frame | 16;
    return (int) (bytes & (~bytes + 1));
}

VaeCudaConvShape
vae_cuda_shape(const VaeOp *op, bool tf32)
{
    const VaeTensor *x = op->x, *y = op->y;
    VaeCudaConvShape s = {.t = y->shape.t,
                          .h = x->shape.h,
                          .w = x->shape.w,
                          .c_in = x->shape.c,
                          .ho = y->shape.h,
                          .wo = y->shape.w,
                          .c_out = y->shape.c,
                          .k = op->conv.k,
                          .kt = op->conv.kt,
                          .s = op->conv.s,
                          .st = op->conv.st,
                          .pad_y = op->conv.pad,
                          .pad_x = op->conv.pad,
                          .add = op->add != NULL,
                          .relu = op->conv.relu,
                          .tf32 = tf32 && x->type == VAE_TYPE_F32,
                          .x_type = x->type,
                          .y_type = y->type};
    size_t y_frame = vae_frame_bytes(y);
    if (op->conv.up) {
        assert(s.k == 3 && s.kt == 1 && s.s == 1 && s.pad_y == 1 && !s.add);
        s.k = 2;
        s.ho = s.h;
        s.wo = s.w;
        y_frame /= VAE_PHASES;
    }
    s.align = alignment(vae_frame_bytes(x), y_frame);
    return s;
}

/* Bytes of the larger of x and y. */
static size_t
part_bytes(const VaeCudaConvShape *s)
{
    const size_t frames = (size_t) (s->t - 1) * s->st + s->kt;
    const size_t x = frames * s->h * s->w * s->c_in * vae_type_size(s->x_type);
    const size_t y =
        (size_t) s->t * s->ho * s->wo * s->c_out * vae_type_size(s->y_type);
    return x > y ? x : y;
}

int
vae_cuda_layer_frames(const VaeCudaConvShape *shape)
{
    VaeCudaConvShape s = *shape;
    s.t = VAE_CUDA_LAYER_FRAMES;
    while (s.t > 1 && part_bytes(&s) > PART_BYTES)
        s.t /= 2;
    return s.t;
}

/* 2000 of the largest output tiles that engines compute at a time: ten and more
 * for each multiprocessor, so that a partial last round hardly counts. */
#define MANY_RESULTS ((size_t) 2000 * 256 * 128)

int
vae_cuda_timed_frames(const VaeCudaConvShape *s)
{
    const size_t frame = (size_t) s->ho * s->wo * s->c_out;
    const int most = vae_cuda_layer_frames(s);
    int t = 1;
    while (t < most && (size_t) t * frame < MANY_RESULTS)
        t *= 2;
    return t;
}

VaeCudaConvShape
vae_cuda_test_shape(int i, VaeType type, bool tf32)
{
    static const VaeCudaConvShape shapes[VAE_CUDA_TEST_SHAPES] = {
        {.t = 4,
         .h = 12,
         .w = 20,
         .c_in = 96,
         .ho = 12,
         .wo = 20,
         .c_out = 96,
         .k = 3,
         .kt = 3,
         .s = 1,
         .pad_y = 1,
         .pad_x = 1,
         .add = true},
        {.t = 1,
         .h = 9,
         .w = 7,
         .c_in = 64,
         .ho = 9,
         .wo = 7,
         .c_out = 64,
         .k = 3,
         .kt = 1,
         .s = 1,
         .pad_y = 1,
         .pad_x = 1,
         .relu = true},
        {.t = 1,
         .h = 10,
         .w = 14,
         .c_in = 96,
         .ho = 5,
         .wo = 7,
         .c_out = 96,
         .k = 3,
         .kt = 1,
         .s = 2},
    };
    VaeCudaConvShape s = shapes[i];
    s.st = 1;
    s.tf32 = tf32;
    s.x_type = s.y_type = type;
    s.align = 16;
    return s;
}

void
vae_cuda_layer_name(const VaeCudaConvShape *s, char out[VAE_CUDA_LAYER_NAME])
{
    snprintf(out, VAE_CUDA_LAYER_NAME,
             "%s>%s%s %dx%dx%d stride %d,%d pad %d %d>%d %dx%d%s%s align %d",
             vae_type_name(s->x_type), vae_type_name(s->y_type),
             s->tf32 ? " tf32" : "", s->kt, s->k, s->k, s->st, s->s, s->pad_y,
             s->c_in, s->c_out, s->w, s->h, s->add ? " add" : "",
             s->relu ? " relu" : "", s->align);
}

static size_t
phases_bytes(const VaeCudaConvShape *s)
{
    return (size_t) VAE_PHASES * s->t * s->ho * s->wo * s->c_out *
           vae_type_size(s->y_type);
}

static VaeStatus
make_parts(VaeCudaConvs *convs, VaeCudaConvShape shape,
           const VaeCudaChoice *choice, VaeCudaParts *p, VaeError *error)
{
    shape.t = p->t;
    p->phases = 1;
    if (shape.k == 2) {
        p->phases = VAE_PHASES;
        p->bytes = phases_bytes(&shape);
    }
    if (p->bytes > PART_PHASES && p->t > 1)
        return vae_fail(error, VAE_ERR_BACKEND, "too much between");
    if (part_bytes(&shape) > PART_BYTES && p->t > 1)
        return vae_fail(error, VAE_ERR_BACKEND, "too much at once");
    const int n = p->n * p->phases;
    p->conv = vae_mem_alloc((size_t) n * sizeof(VaeCudaConv *));
    if (!p->conv)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    for (int i = 0; i < n; i++) {
        if (shape.k == 2) {
            const VaePhase phase = vae_phase(i % VAE_PHASES);
            shape.pad_y = 1 - phase.row;
            shape.pad_x = 1 - phase.column;
        }
        const VaeStatus status =
            vae_cuda_conv_new(convs, &shape, choice, &p->conv[i], error);
        if (status != VAE_OK)
            return status;
        if (vae_cuda_conv_workspace(p->conv[i]) > PART_WORKSPACE && p->t > 1)
            return vae_fail(error, VAE_ERR_BACKEND, "too much workspace");
    }
    return VAE_OK;
}

VaeStatus
vae_cuda_parts_new(VaeCudaConvs *convs, const VaeCudaConvShape *shape,
                   const VaeCudaChoice *choice, VaeCudaParts *out,
                   VaeError *error)
{
    VaeStatus status = VAE_ERR_BACKEND;
    for (int n = 1; n <= shape->t && status == VAE_ERR_BACKEND; n++) {
        if (shape->t % n)
            continue;
        *out = (VaeCudaParts){.n = n, .t = shape->t / n};
        status = make_parts(convs, *shape, choice, out, error);
        if (status != VAE_OK)
            vae_cuda_parts_free(out);
    }
    return status;
}

size_t
vae_cuda_parts_workspace(const VaeCudaParts *p)
{
    size_t most = 0;
    for (int i = 0; i < p->n * p->phases; i++) {
        const size_t bytes = vae_cuda_conv_workspace(p->conv[i]);
        most = bytes > most ? bytes : most;
    }
    return (most + 255) / 256 * 256;
}

void
vae_cuda_parts_free(VaeCudaParts *parts)
{
    for (int i = 0; parts->conv && i < parts->n * parts->phases; i++)
        vae_cuda_conv_free(&parts->conv[i]);
    vae_mem_free(parts->conv);
    *parts = (VaeCudaParts){0};
}

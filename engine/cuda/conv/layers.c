/*
 * layers.c: see cuda/conv/layers.h.
 */
#include <assert.h>
#include <stdio.h>

#include "alloc.h"
#include "layers.h"

VaeCudaPartLimits vae_cuda_part_limits = {
    .workspace = (size_t) 256 << 20,
    .phases = (size_t) 64 << 20,
    .bytes = (size_t) 1 << 31,
    .numbers = (size_t) 1 << 31,
    .band = (size_t) 512 << 20,
};
static const VaeCudaPartLimits *const limits = &vae_cuda_part_limits;

/* Largest number of bands of a frame. */
enum { MOST_BANDS = 128 };

VaeCudaConvShape
vae_cuda_shape(const VaeOp *op, bool tf32)
{
    const VaeTensor *x = op->x, *y = op->y;
    VaeCudaConvShape s = {.t = y->shape.t,
                          .h = vae_picture_rows(x),
                          .w = x->shape.w,
                          .c_in = x->shape.c,
                          .ho = vae_picture_rows(y),
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
                          .y_type = op->conv.wide ? x->type : y->type};
    size_t y_row =
        vae_row_bytes(y) / vae_type_size(y->type) * vae_type_size(s.y_type);
    if (op->conv.up) {
        assert(s.k == 3 && s.kt == 1 && s.s == 1 && s.pad_y == 1 && !s.add);
        s.k = 2;
        s.ho = s.h;
        s.wo = s.w;
        y_row = 0; /* each phase has a block of its own */
    }
    /* Blocks begin at multiples of 64 bytes, and rows follow each other. */
    s.odd = (vae_row_bytes(x) | y_row) % 16 != 0;
    return s;
}

VaeCudaRows
vae_cuda_rows(const VaeOp *op)
{
    return (VaeCudaRows){
        .x = op->x->shape.h,
        .y = op->conv.up ? op->x->shape.h : op->y->shape.h,
        .top = vae_conv_top(op),
        .apart = vae_is_rows(op->x) || vae_is_rows(op->y),
    };
}

/* Band i of n of those rows. The first one has the most rows of y. A last band
 * has all rows of x to its end, as frames of x follow each other, also one that
 * a stride leaves over. */
static VaeCudaBand
band_of(const VaeCudaRows *rows, int k, int s, int n, int i)
{
    const int y = (rows->y * i + n - 1) / n;
    const int end = (rows->y * (i + 1) + n - 1) / n;
    const int from = y * s - rows->top, to = (end - 1) * s - rows->top + k;
    const int x = from < 0 ? 0 : from;
    const int x_end = to + s <= rows->x ? to : rows->x;
    return (VaeCudaBand){
        .y = y, .n_y = end - y, .x = x, .n_x = x_end - x, .top = x - from};
}

/* Sets the rows of a convolution. It reads zeros after the last one. */
static void
set_band(VaeCudaConvShape *s, const VaeCudaBand *band)
{
    s->h = band->n_x;
    s->ho = band->n_y;
    s->pad_y = band->top;
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
    while (s.t > 1 && part_bytes(&s) > limits->bytes)
        s.t /= 2;
    return s.t;
}

/* True if no engine with matrix units can compute the frame at once. */
static bool
is_too_large(const VaeCudaConvShape *s)
{
    const size_t x = (size_t) s->kt * s->h * s->w * s->c_in;
    const size_t y = (size_t) s->ho * s->wo * s->c_out;
    return s->t == 1 && (x > y ? x : y) > limits->numbers;
}

/* The first of n bands of a frame. */
static VaeCudaConvShape
first_band(const VaeCudaConvShape *shape, int n)
{
    const VaeCudaRows all = {shape->h, shape->ho, shape->pad_y, false};
    const VaeCudaBand band = band_of(&all, shape->k, shape->s, n, 0);
    VaeCudaConvShape s = *shape;
    s.t = 1;
    set_band(&s, &band);
    return s;
}

VaeCudaConvShape
vae_cuda_layer_shape(const VaeCudaConvShape *shape)
{
    VaeCudaConvShape s = *shape;
    s.t = vae_cuda_layer_frames(shape);
    if (!is_too_large(&s))
        return s;
    for (int n = 4; part_bytes(&s) > limits->band && n <= MOST_BANDS; n *= 2)
        s = first_band(shape, n);
    return s;
}

/* 2000 of the largest output tiles of engines. These are ten or more for each
 * multiprocessor, so a partial last round hardly counts. */
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
    static const struct {
        int t, h, w, c_in, c_out, k, kt, s, pad;
        bool add, relu;
    } shapes[VAE_CUDA_OWN_TEST_SHAPES] = {
        {4, 12, 20, 96, 96, 3, 3, 1, 1, true, false},
        {1, 9, 7, 64, 64, 3, 1, 1, 1, false, true},
        {1, 10, 14, 96, 96, 3, 1, 2, 0, false, false},
        {2, 9, 16, 96, 3, 3, 3, 1, 1, false, false},
        {2, 9, 16, 3, 96, 3, 3, 1, 1, false, false},
        {1, 9, 12, 96, 96, 2, 1, 1, 1, false, false},
    };
    return (VaeCudaConvShape){.t = shapes[i].t,
                              .h = shapes[i].h,
                              .w = shapes[i].w,
                              .c_in = shapes[i].c_in,
                              .ho = shapes[i].h / shapes[i].s,
                              .wo = shapes[i].w / shapes[i].s,
                              .c_out = shapes[i].c_out,
                              .k = shapes[i].k,
                              .kt = shapes[i].kt,
                              .s = shapes[i].s,
                              .st = 1,
                              .pad_y = shapes[i].pad,
                              .pad_x = shapes[i].pad,
                              .add = shapes[i].add,
                              .relu = shapes[i].relu,
                              .tf32 = tf32,
                              .x_type = type,
                              .y_type = type};
}

void
vae_cuda_layer_name(const VaeCudaConvShape *s, char out[VAE_CUDA_LAYER_NAME])
{
    snprintf(out, VAE_CUDA_LAYER_NAME,
             "%s>%s%s %dx%dx%d stride %d,%d pad %d %d>%d %dx%d%s%s%s",
             vae_type_name(s->x_type), vae_type_name(s->y_type),
             s->tf32 ? " tf32" : "", s->kt, s->k, s->k, s->st, s->s, s->pad_y,
             s->c_in, s->c_out, s->w, s->h, s->add ? " add" : "",
             s->relu ? " relu" : "", s->odd ? " odd" : "");
}

VaeCudaBand
vae_cuda_band(const VaeCudaParts *p, int i)
{
    VaeCudaRows rows = p->rows;
    if (p->phases > 1)
        rows.top = 1 - vae_phase(i % p->phases).row;
    return band_of(&rows, p->k, p->s, p->bands, i / p->phases % p->bands);
}

/* Convolution i of the parts. */
static VaeCudaConvShape
shape_of(const VaeCudaParts *p, const VaeCudaConvShape *shape, int i)
{
    VaeCudaConvShape s = *shape;
    const VaeCudaBand band = vae_cuda_band(p, i);
    s.t = p->t;
    if (p->phases > 1)
        s.pad_x = 1 - vae_phase(i % p->phases).column;
    set_band(&s, &band);
    return s;
}

/* True if twice as many bands are possible. */
static bool
has_bands(const VaeCudaParts *p)
{
    return 2 * p->bands <= MOST_BANDS && 2 * p->bands <= p->rows.y;
}

/* Names what is too large in the parts; NULL: nothing. */
static const char *
too_large(const VaeCudaParts *p, const VaeCudaConvShape *shape)
{
    const VaeCudaConvShape first = shape_of(p, shape, 0);
    const size_t bytes = part_bytes(&first);
    if (p->bytes > limits->phases && p->t > 1)
        return "too much between";
    const bool band =
        p->bands > 1 ? bytes > limits->band : is_too_large(&first);
    return (p->t > 1 && bytes > limits->bytes) || (band && has_bands(p))
               ? "too much at once"
               : NULL;
}

/* workspace: limit for a part of one frame, or for a band. */
static VaeStatus
make_parts(VaeCudaConvs *convs, const VaeCudaConvShape *shape,
           const VaeCudaChoice *choice, size_t workspace, VaeCudaParts *p,
           VaeError *error)
{
    const size_t x_row =
        (size_t) shape->w * shape->c_in * vae_type_size(shape->x_type);
    const size_t y_row =
        (size_t) shape->wo * shape->c_out * vae_type_size(shape->y_type);
    const VaeCudaBand band = vae_cuda_band(p, 0);
    /* The most rows of x of a band. */
    const int most = (band.n_y - 1) * p->s + p->k + p->s - 1;
    const bool copied = shape->odd && !vae_cuda_choice_is_own(choice);
    if ((p->phases > 1 && !p->joined) || copied) {
        p->phase = ((size_t) p->t * band.n_y * y_row + 255) / 256 * 256;
        p->bytes = (size_t) p->phases * p->phase;
    }
    if ((p->bands > 1 && shape->kt > 1) || copied)
        p->gathered = (size_t) ((p->t - 1) * shape->st + shape->kt) *
                      (size_t) most * x_row;
    const char *large = too_large(p, shape);
    if (large)
        return vae_fail(error, VAE_ERR_BACKEND, "%s", large);
    const int n = p->n * p->bands * p->phases;
    p->conv = vae_mem_alloc((size_t) n * sizeof(VaeCudaConv *));
    if (!p->conv)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    for (int i = 0; i < n; i++) {
        const VaeCudaConvShape one = shape_of(p, shape, i);
        const VaeStatus status =
            vae_cuda_conv_new(convs, &one, choice, &p->conv[i], error);
        if (status != VAE_OK)
            return status;
        if (vae_cuda_conv_workspace(p->conv[i]) >
            (p->t > 1 ? limits->workspace : workspace))
            return vae_fail(error, VAE_ERR_BACKEND, "too much workspace");
    }
    return VAE_OK;
}

/* Increases the number of parts or, if parts have one frame, of bands. False:
 * this is not possible. */
static bool
divide(VaeCudaParts *p, int t)
{
    if (p->n == t) {
        const bool more = has_bands(p);
        p->bands *= 2;
        return more;
    }
    do
        p->n++;
    while (t % p->n);
    p->t = t / p->n;
    return true;
}

VaeStatus
vae_cuda_parts_new(VaeCudaConvs *convs, const VaeCudaConvShape *shape,
                   const VaeCudaRows *rows, const VaeCudaChoice *choice,
                   VaeCudaParts *out, VaeError *error)
{
    VaeStatus status = VAE_ERR_BACKEND;
    const size_t most[] = {limits->workspace, SIZE_MAX};
    const bool all = vae_cuda_choice_has_phases(choice);
    for (int i = 0; i < 2 && status == VAE_ERR_BACKEND; i++) {
        VaeCudaParts parts = {.choice = *choice,
                              .rows = *rows,
                              .n = rows->apart ? shape->t : 1,
                              .bands = 1,
                              .phases = shape->k == 2 && !all ? VAE_PHASES : 1,
                              .joined = vae_cuda_choice_is_own(choice),
                              .k = all ? 3 : shape->k,
                              .s = shape->s};
        parts.t = shape->t / parts.n;
        do {
            *out = parts;
            status = make_parts(convs, shape, choice, most[i], out, error);
            if (status != VAE_OK)
                vae_cuda_parts_free(out);
        } while (status == VAE_ERR_BACKEND && divide(&parts, shape->t));
    }
    return status;
}

VaeCudaConvShape
vae_cuda_few_rows(const VaeCudaConvShape *shape, int k)
{
    enum { ROWS = 8 };
    VaeCudaConvShape s = *shape;
    s.t = 1;
    s.ho = s.ho < ROWS ? s.ho : ROWS;
    const int read = (s.ho - 1) * s.s + k - s.pad_y;
    s.h = s.h < read ? s.h : read;
    return s;
}

VaeCudaConvShape
vae_cuda_small_part(const VaeCudaParts *p, const VaeCudaConvShape *shape, int i)
{
    const VaeCudaConvShape s = shape_of(p, shape, i);
    return vae_cuda_few_rows(&s, p->k);
}

size_t
vae_cuda_parts_workspace(const VaeCudaParts *p)
{
    size_t most = 0;
    for (int i = 0; i < p->n * p->bands * p->phases; i++) {
        const size_t bytes = vae_cuda_conv_workspace(p->conv[i]);
        most = bytes > most ? bytes : most;
    }
    return (most + 255) / 256 * 256;
}

void
vae_cuda_parts_free(VaeCudaParts *parts)
{
    const int n = parts->n * parts->bands * parts->phases;
    for (int i = 0; parts->conv && i < n; i++)
        vae_cuda_conv_free(&parts->conv[i]);
    vae_mem_free(parts->conv);
    *parts = (VaeCudaParts){0};
}

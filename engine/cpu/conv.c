/*
 * conv.c: a convolution as one oneDNN primitive for one output frame, run once
 * per frame at successive addresses of the slab. The bytes of a frame therefore
 * cannot depend on the number of frames. A primitive for all frames would
 * choose its order of summation by their number.
 *
 * Activations are plain channels-last, as everywhere; only the weights have the
 * library's layout.
 */
#include <assert.h>
#include <omp.h>
#include <string.h>

#include "conv.h"

/* Geometry of the primitive: rows and columns (k) and frames (kt) of the
 * kernel, zero padding on each side, height of the input, height and width of
 * the result. */
typedef struct Window {
    int k, kt, top, left, bottom, right, x_h, h, w;
} Window;

/* Padding after the last row or column. It is computed from the planned output
 * size, and so it is right for `same` and for right-and-bottom padding. */
static int
pad_end(const VaeOp *op, int k, int pad, int in, int out)
{
    const int past = (out - 1) * op->conv.s + k - pad - in;
    return past > 0 ? past : 0;
}

/* whole: of the whole picture, if op computes a strip of it. */
static Window
window(const VaeCpuConv *c, bool whole)
{
    const VaeOp *op = c->op;
    const VaeShape x = op->x->shape, y = op->y->shape;
    Window w = {.k = op->conv.k,
                .kt = op->conv.kt,
                .top = whole ? op->conv.pad : vae_conv_top(op),
                .left = op->conv.pad,
                .x_h = whole ? vae_picture_rows(op->x) : x.h,
                .h = whole ? vae_picture_rows(op->y) : y.h,
                .w = y.w};
    if (c->phase)
        w = (Window){.k = 2,
                     .kt = 1,
                     .top = 1 - c->phase->row,
                     .left = 1 - c->phase->column,
                     .x_h = x.h,
                     .h = x.h,
                     .w = x.w};
    w.bottom = pad_end(op, w.k, w.top, w.x_h, w.h);
    w.right = pad_end(op, w.k, w.left, x.w, w.w);
    return w;
}

/* True if y overwrites the residual. */
static bool
adds_in_place(const VaeOp *op)
{
    return op->add && op->add->root == op->y->root;
}

/*
 * True if the residual is copied to scratch memory first, and added from there.
 * oneDNN's convolutions for AVX2 begin the sum of an element with the value in
 * y, if they add in place. Thousands of products are then added to a large
 * number, one by one, and each addition rounds to its last bit. That cost a
 * full-size SeedVR2 5 dB.
 */
static bool
adds_aside(const VaeOp *op)
{
    enum { LONG = 4096 }; /* products of a sum */
    const int taps = op->conv.kt * op->conv.k * op->conv.k;
    return adds_in_place(op) && op->x->type == VAE_TYPE_F32 &&
           taps * op->x->shape.c >= LONG;
}

/*
 * The implementation to avoid, or NULL. In some processes, oneDNN 2.6's brgconv
 * for bf16 gives wrong sums for kernels of 3x3x3 with a stride in space. This
 * concerns two layers of SeedVR2's encoder.
 */
static const char *
avoid(const VaeOp *op)
{
    const bool struck =
        op->x->type == VAE_TYPE_BF16 && op->conv.kt > 1 && op->conv.s > 1;
    return struck ? "brgconv" : NULL;
}

bool
vae_cpu_is_product(const VaeDnnlPrimitive *conv)
{
    return strstr(conv->impl, "gemm:") != NULL;
}

/*
 * True if one thread must compute the product. The library divides a product
 * among threads, so that their number would change the order of sums. Only on
 * x86, where only processors without AVX2 use products. On Arm without SVE all
 * layers are products, and one thread would be too slow.
 */
static bool
runs_alone(const VaeDnnlPrimitive *made)
{
#ifdef __x86_64__
    return vae_cpu_is_product(made);
#else
    return false;
#endif
}

/*
 * True if the residual must be in y first, because the implementation is not
 * fit for VAE_DNNL_ADD. The matrix product of oneDNN 2.6 (on Arm, and on x86
 * without AVX2) adds wrong elements. On x86 without AVX2, oneDNN 3.7 has only
 * its slow reference code for it.
 */
static bool
is_unfit_to_add(const VaeDnnlConv *conv, const VaeDnnlPrimitive *made)
{
    return conv->add_slot && conv->add_type == conv->y_type &&
           (vae_cpu_is_product(made) || strncmp(made->impl, "ref", 3) == 0);
}

static void
set_rows(VaeDnnlConv *conv, Window w)
{
    conv->x[1] = w.x_h;
    conv->y[1] = w.h;
    conv->begin[1] = w.top;
    conv->end[1] = w.bottom;
}

static VaeDnnlConv
describe(const VaeOp *op, Window w)
{
    const int s = op->conv.s;
    VaeDnnlConv conv = {.flat = w.kt == 1,
                        .x_type = op->x->type,
                        .y_type = op->y->type,
                        .x_c = op->x->shape.c,
                        .y_c = op->y->shape.c,
                        .x = {w.kt, 0, op->x->shape.w},
                        .y = {1, 0, w.w},
                        .k = {w.kt, w.k, w.k},
                        .stride = {1, s, s},
                        .begin = {0, 0, w.left},
                        .end = {0, 0, w.right},
                        .bias = op->bias != NULL,
                        .add_dst = adds_in_place(op) && !adds_aside(op),
                        .add_slot =
                            op->add && (!adds_in_place(op) || adds_aside(op)),
                        .add_type = op->add ? op->add->type : 0,
                        .relu = op->conv.relu,
                        .avoid = avoid(op)};
    set_rows(&conv, w);
    return conv;
}

/* A strip would not have the bytes of the whole picture. */
enum { UNLIKE = -1 };

/* Makes the primitive of a strip with the implementation and the layout of
 * weights of the whole picture, so that the order of each sum is the same. A
 * matrix product is UNLIKE, see vae_cpu_is_product(). */
static VaeDnnlStatus
make_strip(VaeCpuConv *c, VaeDnnlConv *conv, bool plan)
{
    VaeDnnlPrimitive whole = {0};
    set_rows(conv, window(c, true));
    VaeDnnlStatus s = vae_dnnl_conv(&c->cpu->dnnl, conv, true, &whole);
    set_rows(conv, window(c, false));
    conv->weights = whole.layout[VAE_DNNL_WEIGHTS];
    conv->only = whole.impl;
    if (s == VAE_DNNL_OK)
        s = vae_dnnl_conv(&c->cpu->dnnl, conv, plan, &c->primitive);
    if (s == VAE_DNNL_OK && (strcmp(whole.impl, c->primitive.impl) != 0 ||
                             vae_cpu_is_product(&whole)))
        s = UNLIKE;
    conv->weights = NULL;
    conv->only = NULL;
    vae_dnnl_free(&whole);
    return s;
}

/* Makes conv + bias + residual, then max(., 0) if the op has relu. */
static VaeDnnlStatus
make_primitive(VaeCpuConv *c, bool plan)
{
    VaeDnnlConv conv = describe(c->op, window(c, false));
    c->aside = adds_aside(c->op);
    VaeDnnlStatus status =
        c->op->strip ? make_strip(c, &conv, plan)
                     : vae_dnnl_conv(&c->cpu->dnnl, &conv, plan, &c->primitive);
    if (status != VAE_DNNL_OK || !is_unfit_to_add(&conv, &c->primitive))
        return status;
    vae_dnnl_free(&c->primitive);
    conv.add_slot = false;
    conv.add_dst = true;
    c->aside = false;
    c->copies = !adds_in_place(c->op);
    return c->op->strip
               ? make_strip(c, &conv, plan)
               : vae_dnnl_conv(&c->cpu->dnnl, &conv, plan, &c->primitive);
}

bool
vae_cpu_conv_can_strip(VaeBackend *cpu, const VaeOp *op)
{
    VaeCpuConv c = {.cpu = cpu, .op = op};
    const bool can = make_primitive(&c, true) == VAE_DNNL_OK;
    vae_dnnl_free(&c.primitive);
    return can;
}

/* A primitive always uses the number of threads for which it is made. */
static VaeDnnlStatus
make_for_threads(VaeCpuConv *c, bool plan)
{
    VaeDnnlStatus status = make_primitive(c, plan);
    if (status != VAE_DNNL_OK || !runs_alone(&c->primitive))
        return status;
    vae_dnnl_free(&c->primitive);
    c->alone = true;
    omp_set_num_threads(1);
    status = make_primitive(c, plan);
    omp_set_num_threads(c->cpu->params.threads);
    return status;
}

VaeStatus
vae_cpu_conv_make(VaeCpuConv *c, VaeWeightCache *cache, VaeError *error)
{
    const VaeOp *op = c->op;
    VaeExec *exec = c->exec;
    assert(!adds_in_place(op) || op->add->offset == op->y->offset);
    VaeStatus status = vae_cpu_status(make_for_threads(c, !cache), op,
                                      "make the convolution", error);
    c->aside_at = (c->primitive.scratch + 63) / 64 * 64;
    const size_t scratch =
        c->aside ? c->aside_at + vae_frame_bytes(op->y) : c->primitive.scratch;
    if (status == VAE_OK && scratch > exec->scratch)
        exec->scratch = scratch;
    if (status == VAE_OK)
        status =
            vae_cpu_conv_weight(c, cache, op->weight, VAE_DNNL_WEIGHTS, error);
    if (status == VAE_OK && op->bias)
        status = vae_cpu_conv_weight(c, cache, op->bias, VAE_DNNL_BIAS, error);
    return status;
}

VaeDnnlStatus
vae_cpu_conv_frame(VaeCpuConv *c, const void *x, void *y, const void *add)
{
    VaeDnnlPrimitive *p = &c->primitive;
    VaeDnnlStatus s = vae_dnnl_set(p, VAE_DNNL_SRC, x);
    if (s == VAE_DNNL_OK)
        s = vae_dnnl_set(p, VAE_DNNL_DST, y);
    if (s == VAE_DNNL_OK)
        s = vae_dnnl_set(p, VAE_DNNL_ADD, add);
    if (s == VAE_DNNL_OK)
        s = vae_dnnl_set(p, VAE_DNNL_SCRATCH, c->exec->memory.scratch);
    if (s == VAE_DNNL_OK && c->alone)
        omp_set_num_threads(1);
    if (s == VAE_DNNL_OK)
        s = vae_dnnl_execute(&c->cpu->dnnl, p);
    if (c->alone)
        omp_set_num_threads(c->cpu->params.threads);
    return s;
}

/* ------------------------------------------------------------------ */

static VaeStatus
conv_run(void *own, const VaeOp *op, VaeError *error)
{
    VaeCpuConv *c = own;
    const VaeExec *e = c->exec;
    const VaeTensor *x = op->x, *y = op->y;
    const size_t x_frame = vae_frame_stride(x), y_frame = vae_frame_stride(y);
    const uint8_t *src = vae_exec_conv_input(e, op);
    uint8_t *dst = vae_exec_body(e, y);
    const uint8_t *add = op->add ? vae_exec_body(e, op->add) : NULL;
    VaeDnnlStatus s = VAE_DNNL_OK;
    for (int f = 0; f < y->shape.t && s == VAE_DNNL_OK; f++) {
        const uint8_t *from = add;
        if (c->copies || c->aside) {
            uint8_t *aside = (uint8_t *) e->memory.scratch + c->aside_at;
            assert(dst && add); /* both imply a residual */
            from = memcpy(c->aside ? aside : dst, add, vae_frame_bytes(y));
        }
        s = vae_cpu_conv_frame(c, src, dst, from);
        src += x_frame * (size_t) op->conv.st;
        dst += y_frame;
        if (add)
            add += vae_frame_stride(op->add);
    }
    if (s == VAE_DNNL_OK)
        s = vae_dnnl_wait(&c->cpu->dnnl);
    return vae_cpu_status(s, op, "run the convolution", error);
}

static void
conv_free(void *own)
{
    VaeCpuConv *c = own;
    vae_dnnl_free(&c->primitive);
    vae_mem_free(c);
}

VaeStatus
vae_cpu_conv(VaeBackend *cpu, VaeWeightCache *cache, VaeExec *exec, int i,
             VaeError *error)
{
    VaeCpuConv *c = vae_mem_alloc(sizeof *c);
    if (!c)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    c->cpu = cpu;
    c->exec = exec;
    c->op = &exec->program->ops[i];
    exec->ops[i].own = c;
    exec->ops[i].own_free = conv_free;
    exec->ops[i].run = conv_run;
    exec->ops[i].impl = c->primitive.impl;
    return vae_cpu_conv_make(c, cache, error);
}

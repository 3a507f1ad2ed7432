/*
 * backend_cpu_conv.c: a convolution as one oneDNN primitive for one output
 * frame, run once per frame at successive places of the slab. The primitive
 * knows nothing of the number of frames, so a frame's bytes cannot depend on
 * it; one primitive over all frames would sum in an order that does.
 *
 * Activations are plain channels-last, as everywhere; only the weights have
 * the library's layout.
 */
#include <assert.h>

#include "backend_cpu_conv.h"

enum { SRC, WEIGHTS, DST, REST };

/* What the primitive makes of x: rows and columns of the kernel, its frames,
 * zeros above and to the left, below and to the right, and the result's size.
 */
typedef struct Window {
    int k, kt, top, left, bottom, right, h, w;
} Window;

/* What is read past the last row or column; the planned output size decides,
 * so this is right for `same` and for right-and-bottom padding. */
static int
pad_end(const VaeOp *op, int k, int pad, int in, int out)
{
    const int past = (out - 1) * op->conv.s + k - pad - in;
    return past > 0 ? past : 0;
}

static Window
window(const VaeCpuConv *c)
{
    const VaeOp *op = c->op;
    const VaeShape x = op->x->shape, y = op->y->shape;
    Window w = {op->conv.k,   op->conv.kt, op->conv.pad,
                op->conv.pad, .h = y.h,    .w = y.w};
    if (c->phase)
        w = (Window){2,        1,       1 - c->phase->row, 1 - c->phase->column,
                     .h = x.h, .w = x.w};
    w.bottom = pad_end(op, w.k, w.top, x.h, w.h);
    w.right = pad_end(op, w.k, w.left, x.w, w.w);
    return w;
}

/* Descriptors without a batch of frames: 5 dimensions, or 4 where kt is 1. */
static dnnl_status_t
describe(const VaeCpuConv *c, dnnl_convolution_desc_t *out)
{
    const VaeOp *op = c->op;
    const Window v = window(c);
    const VaeShape x = op->x->shape;
    const VaeShape y = {.h = v.h, .w = v.w, .c = op->y->shape.c};
    const int k = v.k, s = op->conv.s;
    const dnnl_dims_t x5 = {1, x.c, v.kt, x.h, x.w};
    const dnnl_dims_t y5 = {1, y.c, 1, y.h, y.w};
    const dnnl_dims_t w5 = {y.c, x.c, v.kt, k, k};
    const dnnl_dims_t x4 = {1, x.c, x.h, x.w}, y4 = {1, y.c, y.h, y.w};
    const dnnl_dims_t w4 = {y.c, x.c, k, k};
    const dnnl_dims_t s3 = {1, s, s}, l3 = {0, v.top, v.left},
                      r3 = {0, v.bottom, v.right};
    const dnnl_dims_t s2 = {s, s}, l2 = {v.top, v.left},
                      r2 = {v.bottom, v.right};
    const dnnl_dims_t b1 = {y.c};
    const bool flat = v.kt == 1;
    const int n = flat ? 4 : 5;
    const dnnl_format_tag_t tag = flat ? dnnl_nhwc : dnnl_ndhwc;
    const dnnl_data_type_t x_type = vae_cpu_type(op->x->type);
    dnnl_memory_desc_t src, dst, weights, bias = {0};
    dnnl_status_t r =
        dnnl_memory_desc_init_by_tag(&src, n, flat ? x4 : x5, x_type, tag);
    if (r == dnnl_success)
        r = dnnl_memory_desc_init_by_tag(&dst, n, flat ? y4 : y5,
                                         vae_cpu_type(op->y->type), tag);
    if (r == dnnl_success)
        r = dnnl_memory_desc_init_by_tag(&weights, n, flat ? w4 : w5, x_type,
                                         dnnl_format_tag_any);
    if (r == dnnl_success && op->bias)
        r = dnnl_memory_desc_init_by_tag(&bias, 1, b1, dnnl_f32, dnnl_a);
    if (r != dnnl_success)
        return r;
    return dnnl_convolution_forward_desc_init(
        out, dnnl_forward_inference, dnnl_convolution_direct, &src, &weights,
        op->bias ? &bias : NULL, &dst, flat ? s2 : s3, flat ? l2 : l3,
        flat ? r2 : r3);
}

/* Whether y is computed over the residual, or beside it. */
static bool
adds_in_place(const VaeOp *op)
{
    return op->add && op->add->root == op->y->root;
}

/* Whether the residual is an argument of its own. */
static bool
takes_add(const VaeOp *op)
{
    return op->add && !adds_in_place(op);
}

/* conv + bias + residual, then max(., 0) where the op says so. */
static dnnl_status_t
add_post_ops(const VaeCpuConv *c, dnnl_primitive_attr_t attr)
{
    const VaeOp *op = c->op;
    dnnl_post_ops_t ops = NULL;
    dnnl_memory_desc_t add;
    const VaeShape y = op->y->shape;
    const bool flat = op->conv.kt == 1;
    const dnnl_dims_t y5 = {1, y.c, 1, y.h, y.w}, y4 = {1, y.c, y.h, y.w};
    dnnl_status_t s = dnnl_post_ops_create(&ops);
    if (s == dnnl_success && adds_in_place(op))
        s = dnnl_post_ops_append_sum(ops, 1);
    if (s == dnnl_success && takes_add(op)) {
        s = dnnl_memory_desc_init_by_tag(&add, flat ? 4 : 5, flat ? y4 : y5,
                                         vae_cpu_type(op->add->type),
                                         flat ? dnnl_nhwc : dnnl_ndhwc);
        if (s == dnnl_success)
            s = dnnl_post_ops_append_binary(ops, dnnl_binary_add, &add);
    }
    if (s == dnnl_success && op->conv.relu)
        s = dnnl_post_ops_append_eltwise(ops, 1, dnnl_eltwise_relu, 0, 0);
    if (s == dnnl_success)
        s = dnnl_primitive_attr_set_post_ops(attr, ops);
    dnnl_post_ops_destroy(ops);
    return s;
}

/*
 * oneDNN 2.6's brgconv for bf16 gives wrong sums now and then, from one
 * process to the next, for kernels of 3x3x3 with a stride in space; another
 * implementation takes those (two layers of SeedVR2's encoder).
 */
static const char *
avoid(const VaeOp *op)
{
    const bool struck =
        op->x->type == VAE_TYPE_BF16 && op->conv.kt > 1 && op->conv.s > 1;
    return struck ? "brgconv" : NULL;
}

static dnnl_status_t
make_primitive(VaeCpuConv *c, bool plan)
{
    const VaeOp *op = c->op;
    VaeCpuArg args[REST + 2] = {
        [SRC] = {DNNL_ARG_SRC, dnnl_query_src_md, 0},
        [WEIGHTS] = {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0},
        [DST] = {DNNL_ARG_DST, dnnl_query_dst_md, 0},
    };
    int n = REST;
    c->bias = c->add = 0;
    if (op->bias) {
        c->bias = n;
        args[n++] = (VaeCpuArg){DNNL_ARG_BIAS, dnnl_query_weights_md, 1};
    }
    if (takes_add(op)) {
        /* described like the result, which it is added to */
        c->add = n;
        args[n++] =
            (VaeCpuArg){DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1,
                        dnnl_query_dst_md, 0};
    }
    dnnl_convolution_desc_t desc;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t s = describe(c, &desc);
    if (s == dnnl_success)
        s = vae_cpu_attr(&attr);
    if (s == dnnl_success)
        s = add_post_ops(c, attr);
    if (s == dnnl_success)
        s = vae_cpu_primitive_op(c->cpu, &desc, attr, avoid(op), args, n, plan,
                                 &c->primitive);
    dnnl_primitive_attr_destroy(attr);
    return s;
}

VaeStatus
vae_cpu_conv_make(VaeCpuConv *c, VaeModel *model, VaeError *error)
{
    const VaeOp *op = c->op;
    VaeExec *exec = c->exec;
    assert(!adds_in_place(op) || op->add->offset == op->y->offset);
    VaeStatus status = vae_cpu_status(make_primitive(c, !model), op,
                                      "make the convolution", error);
    if (status == VAE_OK && c->primitive.scratch > exec->scratch)
        exec->scratch = c->primitive.scratch;
    if (status == VAE_OK)
        status = vae_cpu_conv_weight(c, model, op->weight, WEIGHTS, error);
    if (status == VAE_OK && op->bias)
        status = vae_cpu_conv_weight(c, model, op->bias, c->bias, error);
    return status;
}

dnnl_status_t
vae_cpu_conv_frame(VaeCpuConv *c, const void *x, void *y, const void *add)
{
    dnnl_status_t s = vae_cpu_set(&c->primitive, SRC, x);
    if (s == dnnl_success)
        s = vae_cpu_set(&c->primitive, DST, y);
    if (s == dnnl_success && c->add)
        s = vae_cpu_set(&c->primitive, c->add, add);
    if (s == dnnl_success)
        s = vae_cpu_set_scratch(&c->primitive, c->exec->memory.scratch);
    return s == dnnl_success ? vae_cpu_execute(c->cpu, &c->primitive) : s;
}

/* ------------------------------------------------------------------ */

static VaeStatus
conv_run(void *own, const VaeOp *op, VaeError *error)
{
    VaeCpuConv *c = own;
    const VaeExec *e = c->exec;
    const VaeTensor *x = op->x, *y = op->y;
    const size_t x_frame = vae_frame_bytes(x), y_frame = vae_frame_bytes(y);
    /* A tensor may have more context than this conv looks back. */
    const int back = (y->shape.t - 1) * op->conv.st + op->conv.kt - x->shape.t;
    const uint8_t *src = vae_host_body(e, x) - (size_t) back * x_frame;
    uint8_t *dst = vae_host_body(e, y);
    const uint8_t *add = c->add ? vae_host_body(e, op->add) : NULL;
    dnnl_status_t s = dnnl_success;
    for (int f = 0; f < y->shape.t && s == dnnl_success; f++) {
        s = vae_cpu_conv_frame(c, src, dst, add);
        src += x_frame * (size_t) op->conv.st;
        dst += y_frame;
        if (add)
            add += y_frame;
    }
    if (s == dnnl_success)
        s = dnnl_stream_wait(c->cpu->stream);
    return vae_cpu_status(s, op, "run the convolution", error);
}

static void
conv_free(void *own)
{
    VaeCpuConv *c = own;
    vae_cpu_primitive_free(&c->primitive);
    vae_mem_free(c);
}

VaeStatus
vae_cpu_conv(VaeBackend *cpu, VaeModel *model, VaeExec *exec, int i,
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
    return vae_cpu_conv_make(c, model, error);
}

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
#include <string.h>

#include "backend_cpu.h"

enum { SRC, WEIGHTS, DST, REST };

typedef struct Conv {
    VaeBackend *cpu;
    const VaeExec *exec;
    VaeCpuPrimitive primitive;
    int bias, add; /* arguments; 0: none */
} Conv;

/* ------------------------------------------------------------------ */
/* Weights.                                                            */

/* Kept weights are told apart by what they are made from and into. Compared
 * as bytes: descriptors come from oneDNN, which zeroes what it does not use. */
typedef struct WeightKey {
    char table[8];
    int id, parts;
    dnnl_memory_desc_t md;
} WeightKey;

typedef struct WeightJob {
    VaeBackend *cpu;
    const VaeOp *op;
    const VaeWeight *weight;
    const dnnl_memory_desc_t *md;
} WeightJob;

/* Numbers of that type in the file's order, [out, in, t, h, w], under the dims
 * of md. */
static dnnl_status_t
file_layout(const dnnl_memory_desc_t *md, VaeType type, dnnl_memory_desc_t *out)
{
    static const dnnl_format_tag_t tags[] = {dnnl_a, dnnl_abcd, dnnl_abcde};
    const int n = md->ndims;
    return dnnl_memory_desc_init_by_tag(out, n, md->dims, vae_cpu_type(type),
                                        tags[n == 1 ? 0 : n - 3]);
}

/* The type that the weight's numbers are laid out from. */
static VaeType
source_type(const VaeWeight *w)
{
    return vae_weight_lies(w) ? w->part[0]->type : VAE_TYPE_F32;
}

static dnnl_status_t
make_reorder(VaeBackend *cpu, const VaeWeight *w, const dnnl_memory_desc_t *md,
             bool plan, VaeCpuPrimitive *out)
{
    dnnl_memory_desc_t plain;
    const dnnl_status_t s = file_layout(md, source_type(w), &plain);
    if (s != dnnl_success)
        return s;
    return vae_cpu_reorder(cpu, &plain, md, plan, out);
}

static dnnl_status_t
reorder_once(const WeightJob *j, const void *src, void *dst)
{
    VaeCpuPrimitive p = {0};
    void *scratch = NULL;
    dnnl_status_t s = make_reorder(j->cpu, j->weight, j->md, false, &p);
    if (s == dnnl_success) {
        scratch = vae_mem_alloc(p.scratch);
        s = scratch ? vae_cpu_set_scratch(&p, scratch) : dnnl_out_of_memory;
    }
    if (s == dnnl_success)
        s = vae_cpu_set(&p, 0, src);
    if (s == dnnl_success)
        s = vae_cpu_set(&p, 1, dst);
    if (s == dnnl_success)
        s = vae_cpu_execute(j->cpu, &p);
    if (s == dnnl_success)
        s = dnnl_stream_wait(j->cpu->stream);
    vae_mem_free(scratch);
    vae_cpu_primitive_free(&p);
    return s;
}

/* Out of the file where it has one piece of a type that oneDNN reads. */
static VaeStatus
make_weight(void *user, void *dst, VaeError *error)
{
    const WeightJob *j = user;
    const VaeWeight *w = j->weight;
    dnnl_status_t s;
    if (vae_weight_lies(w)) {
        s = reorder_once(j, w->part[0]->data, dst);
        vae_weight_drop(w);
        return vae_cpu_status(s, j->op, "lay out the weights", error);
    }
    const size_t bytes = vae_weight_count(w) * sizeof(float);
    float *raw = vae_mem_alloc(bytes);
    if (!raw)
        return vae_fail(error, VAE_ERR_MEMORY,
                        "%s: out of memory for weights (%zu bytes)",
                        j->op->name, bytes);
    vae_weight_read(w, raw);
    s = reorder_once(j, raw, dst);
    vae_mem_free(raw);
    return vae_cpu_status(s, j->op, "lay out the weights", error);
}

/* What make_weight() takes and gives back. */
static VaeStatus
count_loading(const Conv *c, VaeExec *exec, const VaeOp *op, const VaeWeight *w,
              const dnnl_memory_desc_t *md, VaeError *error)
{
    VaeCpuPrimitive p = {0};
    const dnnl_status_t s = make_reorder(c->cpu, w, md, true, &p);
    size_t bytes = p.scratch;
    vae_cpu_primitive_free(&p);
    if (!vae_weight_lies(w))
        bytes += vae_weight_count(w) * sizeof(float);
    if (bytes > exec->loading)
        exec->loading = bytes;
    return vae_cpu_status(s, op, "lay out the weights", error);
}

/* Argument i of the primitive holds weight w from here on. */
static VaeStatus
give_weight(Conv *c, VaeModel *model, VaeExec *exec, const VaeOp *op,
            const VaeWeight *w, int i, VaeError *error)
{
    const dnnl_memory_desc_t *md = &c->primitive.md[i];
    const size_t bytes = dnnl_memory_desc_get_size(md);
    exec->weight_bytes += bytes;
    VaeStatus status = count_loading(c, exec, op, w, md, error);
    if (status != VAE_OK || !model)
        return status;
    WeightKey key;
    memset(&key, 0, sizeof key);
    strcpy(key.table, "dnnl");
    key.id = w->id;
    key.parts = w->n_parts;
    memcpy(&key.md, md, sizeof key.md);
    WeightJob job = {c->cpu, op, w, md};
    const void *blob = NULL;
    status = vae_model_weight(model, &key, sizeof key, bytes, make_weight, &job,
                              NULL, &blob, error);
    if (status != VAE_OK)
        return status;
    return vae_cpu_status(vae_cpu_set(&c->primitive, i, blob), op,
                          "take the weights", error);
}

/* ------------------------------------------------------------------ */
/* The primitive.                                                      */

/* What is read past the last row or column; the planned output size decides,
 * so this is right for `same` and for right-and-bottom padding. */
static int
pad_end(const VaeOp *op, int in, int out)
{
    const int past = (out - 1) * op->conv.s + op->conv.k - op->conv.pad - in;
    return past > 0 ? past : 0;
}

/* Descriptors without a batch of frames: 5 dimensions, or 4 where kt is 1. */
static dnnl_status_t
describe(const VaeOp *op, dnnl_convolution_desc_t *out)
{
    const VaeShape x = op->x->shape, y = op->y->shape;
    const int k = op->conv.k, s = op->conv.s, pad = op->conv.pad;
    const int pad_h = pad_end(op, x.h, y.h), pad_w = pad_end(op, x.w, y.w);
    const dnnl_dims_t x5 = {1, x.c, op->conv.kt, x.h, x.w};
    const dnnl_dims_t y5 = {1, y.c, 1, y.h, y.w};
    const dnnl_dims_t w5 = {y.c, x.c, op->conv.kt, k, k};
    const dnnl_dims_t x4 = {1, x.c, x.h, x.w}, y4 = {1, y.c, y.h, y.w};
    const dnnl_dims_t w4 = {y.c, x.c, k, k};
    const dnnl_dims_t s3 = {1, s, s}, l3 = {0, pad, pad},
                      r3 = {0, pad_h, pad_w};
    const dnnl_dims_t s2 = {s, s}, l2 = {pad, pad}, r2 = {pad_h, pad_w};
    const dnnl_dims_t b1 = {y.c};
    const bool flat = op->conv.kt == 1;
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

/* conv + bias + residual, then max(., 0) where the op says so. */
static dnnl_status_t
add_post_ops(const VaeOp *op, dnnl_primitive_attr_t attr)
{
    dnnl_post_ops_t ops = NULL;
    dnnl_memory_desc_t add;
    const VaeShape y = op->y->shape;
    const bool flat = op->conv.kt == 1;
    const dnnl_dims_t y5 = {1, y.c, 1, y.h, y.w}, y4 = {1, y.c, y.h, y.w};
    dnnl_status_t s = dnnl_post_ops_create(&ops);
    if (s == dnnl_success && adds_in_place(op))
        s = dnnl_post_ops_append_sum(ops, 1);
    if (s == dnnl_success && op->add && !adds_in_place(op)) {
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
make_primitive(Conv *c, const VaeOp *op, bool plan)
{
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
    if (op->add && !adds_in_place(op)) {
        /* described like the result, which it is added to */
        c->add = n;
        args[n++] =
            (VaeCpuArg){DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1,
                        dnnl_query_dst_md, 0};
    }
    dnnl_convolution_desc_t desc;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t s = describe(op, &desc);
    if (s == dnnl_success)
        s = vae_cpu_attr(&attr);
    if (s == dnnl_success && (op->add || op->conv.relu))
        s = add_post_ops(op, attr);
    if (s == dnnl_success)
        s = vae_cpu_primitive_op(c->cpu, &desc, attr, avoid(op), args, n, plan,
                                 &c->primitive);
    dnnl_primitive_attr_destroy(attr);
    return s;
}

/* ------------------------------------------------------------------ */

static VaeStatus
conv_run(void *own, const VaeOp *op, VaeError *error)
{
    Conv *c = own;
    const VaeExec *e = c->exec;
    const VaeTensor *x = op->x, *y = op->y;
    const size_t x_frame = vae_frame_bytes(x), y_frame = vae_frame_bytes(y);
    /* A tensor may have more context than this conv looks back. */
    const int back = (y->shape.t - 1) * op->conv.st + op->conv.kt - x->shape.t;
    const uint8_t *src = vae_host_body(e, x) - (size_t) back * x_frame;
    uint8_t *dst = vae_host_body(e, y);
    const uint8_t *add = c->add ? vae_host_body(e, op->add) : NULL;
    dnnl_status_t s = vae_cpu_set_scratch(&c->primitive, e->memory.scratch);
    for (int f = 0; f < y->shape.t && s == dnnl_success; f++) {
        s = vae_cpu_set(&c->primitive, SRC, src);
        if (s == dnnl_success)
            s = vae_cpu_set(&c->primitive, DST, dst);
        if (s == dnnl_success && add)
            s = vae_cpu_set(&c->primitive, c->add, add);
        if (s == dnnl_success)
            s = vae_cpu_execute(c->cpu, &c->primitive);
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
    Conv *c = own;
    vae_cpu_primitive_free(&c->primitive);
    vae_mem_free(c);
}

VaeStatus
vae_cpu_conv(VaeBackend *cpu, VaeModel *model, VaeExec *exec, int i,
             VaeError *error)
{
    const VaeOp *op = &exec->program->ops[i];
    assert(!adds_in_place(op) || op->add->offset == op->y->offset);
    Conv *c = vae_mem_alloc(sizeof *c);
    if (!c)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    c->cpu = cpu;
    c->exec = exec;
    exec->ops[i].own = c;
    exec->ops[i].own_free = conv_free;
    exec->ops[i].run = conv_run;
    exec->ops[i].impl = c->primitive.impl;
    VaeStatus status = vae_cpu_status(make_primitive(c, op, !model), op,
                                      "make the convolution", error);
    if (status == VAE_OK && c->primitive.scratch > exec->scratch)
        exec->scratch = c->primitive.scratch;
    if (status == VAE_OK)
        status = give_weight(c, model, exec, op, op->weight, WEIGHTS, error);
    if (status == VAE_OK && op->bias)
        status = give_weight(c, model, exec, op, op->bias, c->bias, error);
    return status;
}

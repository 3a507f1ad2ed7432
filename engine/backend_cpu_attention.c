/*
 * backend_cpu_attention.c: softmax(Q K^T / sqrt(c)) V frame by frame, in
 * blocks of query rows, so that scratch grows with n and not with n * n. The
 * products are in the type of the result (fp32 or bf16), scores and softmax
 * in fp32. All work is of one frame, so the number of frames changes no byte.
 */
#include <math.h>
#include <stdio.h>

#include "backend_cpu.h"

/* Query rows of one block; one gives 33 MB of scores at n = 32400. */
#define MAX_ROWS 256

enum { SRC, WEIGHTS, DST };

typedef struct Attention {
    VaeBackend *cpu;
    const VaeExec *exec;
    int n, c, rows, blocks;
    VaeType type;
    VaeCpuPrimitive pack[3]; /* Q, K, V of one frame into the products' own
                                layouts */
    VaeCpuPrimitive scores, softmax, product;
    /* Offsets in scratch; offset 0 is the library's own. Probabilities take
     * the scores' place where the types agree. */
    size_t packed[3], score, probability;
    char impl[2 * VAE_CPU_IMPL + 4]; /* of both products */
} Attention;

/* rows x columns of F32 or the result's type, any strides. */
static dnnl_status_t
matrix(dnnl_memory_desc_t *md, int rows, int columns, VaeType type,
       int row_stride, int column_stride)
{
    const dnnl_dims_t dims = {rows, columns};
    const dnnl_dims_t strides = {row_stride, column_stride};
    return dnnl_memory_desc_init_by_strides(md, 2, dims, vae_cpu_type(type),
                                            strides);
}

/* (m, k) x (k, n) * scale -> (m, n), all dense; the second in whatever layout
 * the library likes. */
static dnnl_status_t
make_product(Attention *a, int m, int k, int n, float scale, VaeType dst_type,
             bool plan, VaeCpuPrimitive *out)
{
    static const VaeCpuArg args[] = {
        [SRC] = {DNNL_ARG_SRC, dnnl_query_src_md, 0},
        [WEIGHTS] = {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0},
        [DST] = {DNNL_ARG_DST, dnnl_query_dst_md, 0},
    };
    const dnnl_dims_t dims = {k, n};
    dnnl_memory_desc_t src, weights, dst;
    dnnl_matmul_desc_t desc;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t s = matrix(&src, m, k, a->type, k, 1);
    if (s == dnnl_success)
        s = dnnl_memory_desc_init_by_tag(
            &weights, 2, dims, vae_cpu_type(a->type), dnnl_format_tag_any);
    if (s == dnnl_success)
        s = matrix(&dst, m, n, dst_type, n, 1);
    if (s == dnnl_success)
        s = dnnl_matmul_desc_init(&desc, &src, &weights, NULL, &dst);
    if (s == dnnl_success)
        s = vae_cpu_attr(&attr);
    if (s == dnnl_success && scale != 1)
        s = dnnl_primitive_attr_set_output_scales(attr, 1, 0, &scale);
    if (s == dnnl_success)
        s = vae_cpu_primitive_op(a->cpu, &desc, attr, NULL, args, 3, plan, out);
    dnnl_primitive_attr_destroy(attr);
    return s;
}

static dnnl_status_t
make_softmax(Attention *a, bool plan)
{
    static const VaeCpuArg args[] = {
        {DNNL_ARG_SRC, dnnl_query_src_md, 0},
        {DNNL_ARG_DST, dnnl_query_dst_md, 0},
    };
    dnnl_memory_desc_t src, dst;
    dnnl_softmax_v2_desc_t desc;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t s = matrix(&src, a->rows, a->n, VAE_TYPE_F32, a->n, 1);
    if (s == dnnl_success)
        s = matrix(&dst, a->rows, a->n, a->type, a->n, 1);
    if (s == dnnl_success)
        s = dnnl_softmax_v2_forward_desc_init(&desc, dnnl_forward_inference,
                                              dnnl_softmax_accurate, &src, &dst,
                                              1);
    if (s == dnnl_success)
        s = vae_cpu_attr(&attr);
    if (s == dnnl_success)
        s = vae_cpu_primitive_op(a->cpu, &desc, attr, NULL, args, 2, plan,
                                 &a->softmax);
    dnnl_primitive_attr_destroy(attr);
    return s;
}

/* Column block i of the packed (n, 3c) into the operand of a product: Q as
 * (n, c), K transposed to (c, n), V as (n, c). */
static dnnl_status_t
make_pack(Attention *a, int i, VaeType x_type, bool plan)
{
    const int n = a->n, c = a->c;
    dnnl_memory_desc_t src, rows;
    dnnl_status_t s = i == 1 ? matrix(&src, c, n, x_type, 1, 3 * c)
                             : matrix(&src, n, c, x_type, 3 * c, 1);
    if (s == dnnl_success)
        s = matrix(&rows, n, c, a->type, c, 1);
    if (s != dnnl_success)
        return s;
    const dnnl_memory_desc_t *to = i == 0   ? &rows
                                   : i == 1 ? &a->scores.md[WEIGHTS]
                                            : &a->product.md[WEIGHTS];
    return vae_cpu_reorder(a->cpu, &src, to, plan, &a->pack[i]);
}

static dnnl_status_t
make_all(Attention *a, VaeType x_type, bool plan)
{
    const float scale = 1 / sqrtf((float) a->c);
    dnnl_status_t s = make_product(a, a->rows, a->c, a->n, scale, VAE_TYPE_F32,
                                   plan, &a->scores);
    if (s == dnnl_success)
        s = make_softmax(a, plan);
    if (s == dnnl_success)
        s = make_product(a, a->rows, a->n, a->c, 1, a->type, plan, &a->product);
    for (int i = 0; i < 3 && s == dnnl_success; i++)
        s = make_pack(a, i, x_type, plan);
    return s;
}

/* ------------------------------------------------------------------ */

static size_t
reserve(size_t *end, size_t bytes)
{
    const size_t start = *end;
    *end += (bytes + 63) / 64 * 64;
    return start;
}

/* Lays out the scratch; returns its bytes. */
static size_t
place(Attention *a)
{
    const VaeCpuPrimitive *all[] = {&a->pack[0], &a->pack[1], &a->pack[2],
                                    &a->scores,  &a->softmax, &a->product};
    size_t library = 0, end = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->scratch > library)
            library = all[i]->scratch;
    reserve(&end, library);
    for (int i = 0; i < 3; i++)
        a->packed[i] =
            reserve(&end, dnnl_memory_desc_get_size(&a->pack[i].md[1]));
    const size_t count = (size_t) a->rows * (size_t) a->n;
    a->score = reserve(&end, count * sizeof(float));
    a->probability = a->type == VAE_TYPE_F32
                         ? a->score
                         : reserve(&end, count * vae_type_size(a->type));
    return end;
}

/* p with scratch, source, (weights,) destination. */
static dnnl_status_t
execute(Attention *a, VaeCpuPrimitive *p, const void *src, const void *weights,
        void *dst)
{
    dnnl_status_t s = vae_cpu_set_scratch(p, a->exec->memory.scratch);
    if (s == dnnl_success)
        s = vae_cpu_set(p, 0, src);
    if (s == dnnl_success && weights)
        s = vae_cpu_set(p, WEIGHTS, weights);
    if (s == dnnl_success)
        s = vae_cpu_set(p, weights ? DST : 1, dst);
    return s == dnnl_success ? vae_cpu_execute(a->cpu, p) : s;
}

static dnnl_status_t
run_frame(Attention *a, const uint8_t *qkv, VaeType x_type, uint8_t *y)
{
    uint8_t *base = a->exec->memory.scratch;
    const size_t column = (size_t) a->c * vae_type_size(x_type);
    const size_t row = (size_t) a->c * vae_type_size(a->type);
    dnnl_status_t s = dnnl_success;
    for (size_t i = 0; i < 3 && s == dnnl_success; i++)
        s = execute(a, &a->pack[i], qkv + i * column, NULL,
                    base + a->packed[i]);
    for (int i = 0; i < a->blocks && s == dnnl_success; i++) {
        /* The last block begins early and computes some rows again. */
        const int wanted = i * a->rows, last = a->n - a->rows;
        const size_t first = (size_t) (wanted < last ? wanted : last);
        s = execute(a, &a->scores, base + a->packed[0] + first * row,
                    base + a->packed[1], base + a->score);
        if (s == dnnl_success)
            s = execute(a, &a->softmax, base + a->score, NULL,
                        base + a->probability);
        if (s == dnnl_success)
            s = execute(a, &a->product, base + a->probability,
                        base + a->packed[2], y + first * row);
    }
    return s;
}

static VaeStatus
attention_run(void *own, const VaeOp *op, VaeError *error)
{
    Attention *a = own;
    const uint8_t *x = vae_host_body(a->exec, op->x);
    uint8_t *y = vae_host_body(a->exec, op->y);
    dnnl_status_t s = dnnl_success;
    for (int f = 0; f < op->y->shape.t && s == dnnl_success; f++) {
        s = run_frame(a, x, op->x->type, y);
        x += vae_frame_bytes(op->x);
        y += vae_frame_bytes(op->y);
    }
    if (s == dnnl_success)
        s = dnnl_stream_wait(a->cpu->stream);
    return vae_cpu_status(s, op, "run the attention", error);
}

static void
attention_free(void *own)
{
    Attention *a = own;
    for (int i = 0; i < 3; i++)
        vae_cpu_primitive_free(&a->pack[i]);
    vae_cpu_primitive_free(&a->scores);
    vae_cpu_primitive_free(&a->softmax);
    vae_cpu_primitive_free(&a->product);
    vae_mem_free(a);
}

VaeStatus
vae_cpu_attention(VaeBackend *cpu, VaeModel *model, VaeExec *exec, int i,
                  VaeError *error)
{
    const VaeOp *op = &exec->program->ops[i];
    Attention *a = vae_mem_alloc(sizeof *a);
    if (!a)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    exec->ops[i].own = a;
    exec->ops[i].own_free = attention_free;
    exec->ops[i].run = attention_run;
    exec->ops[i].impl = a->impl;
    a->cpu = cpu;
    a->exec = exec;
    a->n = op->y->shape.h * op->y->shape.w;
    a->c = op->y->shape.c;
    a->type = op->y->type;
    a->blocks = (a->n + MAX_ROWS - 1) / MAX_ROWS;
    a->rows = (a->n + a->blocks - 1) / a->blocks;
    const dnnl_status_t s = make_all(a, op->x->type, !model);
    if (s != dnnl_success)
        return vae_cpu_status(s, op, "make the attention", error);
    snprintf(a->impl, sizeof a->impl, "%s + %s", a->scores.impl,
             a->product.impl);
    const size_t scratch = place(a);
    if (scratch > exec->scratch)
        exec->scratch = scratch;
    return VAE_OK;
}

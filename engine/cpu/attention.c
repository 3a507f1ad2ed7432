/*
 * attention.c: softmax(Q K^T / sqrt(c)) V frame by frame, in blocks of query
 * rows, so that scratch grows with n and not with n * n. The products have the
 * type of the result (fp32 or bf16), scores and softmax are fp32. Frames are
 * independent, so their number changes no byte.
 *
 * With a history, each latent is a block of keys. The blocks are added in their
 * order, so the latents of a run change no byte either.
 */
#include <math.h>
#include <stdio.h>

#include "cpu.h"
#include "cpu/attention.h"

/* Most query rows of one block. The scores of 256 rows have 33 MB at n = 32400.
 */
#define MAX_ROWS 256

typedef struct Attention {
    VaeBackend *cpu;
    const VaeExec *exec;
    int n, c, rows, blocks;
    VaeType type;
    /* Reorder Q, K and V of one frame to the layouts of the products. */
    VaeDnnlPrimitive pack[3];
    VaeDnnlPrimitive scores, softmax, product;
    /* Offsets in scratch, which begins with the library's own scratch.
     * Probabilities overwrite the scores if the types are equal. */
    size_t packed[3], score, probability;
    /* For a history: a product, and the sums of all blocks of rows. */
    size_t part, most, sum, shrink, y;
    /* The implementations of both products. */
    char impl[2 * sizeof((VaeDnnlPrimitive *) 0)->impl + 4];
} Attention;

/* Reorders column block i of the packed (n, 3c) to the operand of a product: Q
 * as (n, c), K transposed to (c, n), V as (n, c). K and V of a history are in
 * (n, 2c). */
static VaeDnnlStatus
make_pack(Attention *a, int i, const VaeOp *op, bool plan)
{
    const bool kept = i > 0 && op->carry;
    const int n = a->n, c = a->c, row = kept ? 2 * c : 3 * c;
    const VaeType x_type = kept ? a->type : op->x->type;
    const VaeDnnlMatrix packed = i == 1 ? (VaeDnnlMatrix){x_type, c, n, 1, row}
                                        : (VaeDnnlMatrix){x_type, n, c, row, 1};
    VaeDnnlLayout *src = NULL, *rows = NULL;
    VaeDnnlStatus s = vae_dnnl_matrix(&packed, &src);
    if (s == VAE_DNNL_OK && i == 0)
        s = vae_dnnl_matrix(&(VaeDnnlMatrix){a->type, n, c, c, 1}, &rows);
    const VaeDnnlLayout *to = i == 0   ? rows
                              : i == 1 ? a->scores.layout[VAE_DNNL_WEIGHTS]
                                       : a->product.layout[VAE_DNNL_WEIGHTS];
    if (s == VAE_DNNL_OK)
        s = vae_dnnl_reorder(&a->cpu->dnnl, src, to, plan, &a->pack[i]);
    vae_dnnl_layout_free(&src);
    vae_dnnl_layout_free(&rows);
    return s;
}

static VaeDnnlStatus
make_all(Attention *a, const VaeOp *op, bool plan)
{
    const VaeDnnlProduct scores = {.m = a->rows,
                                   .k = a->c,
                                   .n = a->n,
                                   .type = a->type,
                                   .dst_type = VAE_TYPE_F32,
                                   .scale = 1 / sqrtf((float) a->c)};
    const VaeDnnlProduct product = {.m = a->rows,
                                    .k = a->n,
                                    .n = a->c,
                                    .type = a->type,
                                    .dst_type =
                                        op->carry ? VAE_TYPE_F32 : a->type,
                                    .scale = 1};
    VaeDnnl *d = &a->cpu->dnnl;
    VaeDnnlStatus s = vae_dnnl_product(d, &scores, plan, &a->scores);
    if (s == VAE_DNNL_OK && !op->carry)
        s = vae_dnnl_softmax(d, a->rows, a->n, a->type, plan, &a->softmax);
    if (s == VAE_DNNL_OK)
        s = vae_dnnl_product(d, &product, plan, &a->product);
    for (int i = 0; i < 3 && s == VAE_DNNL_OK; i++)
        s = make_pack(a, i, op, plan);
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

/* Sets the offsets in scratch; returns its bytes. The last block of rows of a
 * history may have more rows than there are queries. */
static size_t
place(Attention *a, bool history)
{
    const size_t rows = (size_t) a->rows * (size_t) a->blocks;
    const size_t floats = (size_t) a->c * sizeof(float);
    const VaeDnnlPrimitive *all[] = {&a->pack[0], &a->pack[1], &a->pack[2],
                                     &a->scores,  &a->softmax, &a->product};
    size_t library = 0, end = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->scratch > library)
            library = all[i]->scratch;
    reserve(&end, library);
    for (int i = 0; i < 3; i++)
        a->packed[i] = reserve(
            &end, i == 0 && history
                      ? rows * (size_t) a->c * vae_type_size(a->type)
                      : vae_dnnl_bytes(a->pack[i].layout[VAE_DNNL_DST]));
    const size_t count = (size_t) a->rows * (size_t) a->n;
    a->score = reserve(&end, count * sizeof(float));
    a->probability = a->type == VAE_TYPE_F32
                         ? a->score
                         : reserve(&end, count * vae_type_size(a->type));
    if (!history)
        return end;
    a->part = reserve(&end, (size_t) a->rows * floats);
    a->y = reserve(&end, rows * floats);
    a->most = reserve(&end, rows * sizeof(float));
    a->sum = reserve(&end, rows * sizeof(float));
    a->shrink = reserve(&end, rows * sizeof(float));
    return end;
}

/* Executes p. weights may be NULL. */
static VaeDnnlStatus
execute(Attention *a, VaeDnnlPrimitive *p, const void *src, const void *weights,
        void *dst)
{
    VaeDnnlStatus s =
        vae_dnnl_set(p, VAE_DNNL_SCRATCH, a->exec->memory.scratch);
    if (s == VAE_DNNL_OK)
        s = vae_dnnl_set(p, VAE_DNNL_SRC, src);
    if (s == VAE_DNNL_OK)
        s = vae_dnnl_set(p, VAE_DNNL_WEIGHTS, weights);
    if (s == VAE_DNNL_OK)
        s = vae_dnnl_set(p, VAE_DNNL_DST, dst);
    return s == VAE_DNNL_OK ? vae_dnnl_execute(&a->cpu->dnnl, p) : s;
}

static VaeDnnlStatus
run_frame(Attention *a, const uint8_t *qkv, VaeType x_type, uint8_t *y)
{
    uint8_t *base = a->exec->memory.scratch;
    const size_t column = (size_t) a->c * vae_type_size(x_type);
    const size_t row = (size_t) a->c * vae_type_size(a->type);
    VaeDnnlStatus s = VAE_DNNL_OK;
    for (size_t i = 0; i < 3 && s == VAE_DNNL_OK; i++)
        s = execute(a, &a->pack[i], qkv + i * column, NULL,
                    base + a->packed[i]);
    for (int i = 0; i < a->blocks && s == VAE_DNNL_OK; i++) {
        if (vae_host_cancelled(a->exec))
            break;
        /* The last block begins early and computes some rows again. */
        const int row_of_block = i * a->rows, last = a->n - a->rows;
        const size_t first =
            (size_t) (row_of_block < last ? row_of_block : last);
        s = execute(a, &a->scores, base + a->packed[0] + first * row,
                    base + a->packed[1], base + a->score);
        if (s == VAE_DNNL_OK)
            s = execute(a, &a->softmax, base + a->score, NULL,
                        base + a->probability);
        if (s == VAE_DNNL_OK)
            s = execute(a, &a->product, base + a->probability,
                        base + a->packed[2], y + first * row);
    }
    return s;
}

/* ------------------------------------------------------------------ */
/* With a history.                                                     */

/* The sums of `rows` rows from row `first` on. */
static VaeRowSums
sums_of(const Attention *a, int first, int rows)
{
    uint8_t *base = a->exec->memory.scratch;
    return (VaeRowSums){.rows = rows,
                        .c = a->c,
                        .most = (float *) (base + a->most) + first,
                        .sum = (float *) (base + a->sum) + first,
                        .shrink = (float *) (base + a->shrink) + first,
                        .y = (float *) (base + a->y) +
                             (size_t) first * (size_t) a->c};
}

/* Adds the packed keys of a latent to the sums of block i of rows. */
static VaeDnnlStatus
add_block(Attention *a, const VaeQueue *q, int i)
{
    uint8_t *base = a->exec->memory.scratch;
    const size_t row = (size_t) a->c * vae_type_size(a->type);
    const VaeRowSums sums = sums_of(a, i * a->rows, a->rows);
    float *score = (float *) (base + a->score);
    float *part = (float *) (base + a->part);
    VaeDnnlStatus s = execute(
        a, &a->scores, base + a->packed[0] + (size_t) (i * a->rows) * row,
        base + a->packed[1], score);
    if (s == VAE_DNNL_OK)
        s = vae_dnnl_wait(&a->cpu->dnnl);
    if (s != VAE_DNNL_OK)
        return s;
    vae_cpu_weigh_rows(q, &sums, score, a->n, base + a->probability, a->type);
    s = execute(a, &a->product, base + a->probability, base + a->packed[2],
                part);
    if (s == VAE_DNNL_OK)
        s = vae_dnnl_wait(&a->cpu->dnnl);
    if (s == VAE_DNNL_OK)
        vae_cpu_add_rows(q, &sums, part);
    return s;
}

static VaeDnnlStatus
run_so_far(Attention *a, const VaeHistory *h, const uint8_t *qkv,
           VaeType x_type, uint8_t *y)
{
    const VaeQueue q = {.threads = vae_host_threads(a->exec)};
    uint8_t *base = a->exec->memory.scratch;
    const size_t row = (size_t) a->c * vae_type_size(a->type);
    const uint64_t last = vae_history_last(h);
    const VaeRowSums all = sums_of(a, 0, a->rows * a->blocks);
    const VaeRowSums queries = sums_of(a, 0, a->n);
    vae_cpu_keep_rows(&q, a->n, a->c, qkv, x_type, vae_history_rows(h, last),
                      a->type);
    vae_cpu_begin_rows(&all);
    VaeDnnlStatus s = execute(a, &a->pack[0], qkv, NULL, base + a->packed[0]);
    for (uint64_t j = vae_history_first(h); j <= last && s == VAE_DNNL_OK;
         j++) {
        const uint8_t *k = vae_history_rows(h, j);
        s = execute(a, &a->pack[1], k, NULL, base + a->packed[1]);
        if (s == VAE_DNNL_OK)
            s = execute(a, &a->pack[2], k + row, NULL, base + a->packed[2]);
        for (int i = 0; i < a->blocks && s == VAE_DNNL_OK; i++) {
            if (vae_host_cancelled(a->exec))
                return s;
            s = add_block(a, &q, i);
        }
    }
    if (s == VAE_DNNL_OK)
        vae_cpu_end_rows(&q, &queries, y, a->type);
    return s;
}

/* ------------------------------------------------------------------ */

static VaeStatus
attention_run(void *own, const VaeOp *op, VaeError *error)
{
    Attention *a = own;
    const uint8_t *x = vae_exec_body(a->exec, op->x);
    uint8_t *y = vae_exec_body(a->exec, op->y);
    VaeDnnlStatus s = VAE_DNNL_OK;
    for (int f = 0; f < op->y->shape.t && s == VAE_DNNL_OK; f++) {
        const VaeHistory h = vae_exec_history(a->exec, op, f);
        s = h.blocks ? run_so_far(a, &h, x, op->x->type, y)
                     : run_frame(a, x, op->x->type, y);
        x += vae_frame_bytes(op->x);
        y += vae_frame_bytes(op->y);
    }
    if (s == VAE_DNNL_OK)
        s = vae_dnnl_wait(&a->cpu->dnnl);
    if (s == VAE_DNNL_OK && vae_host_cancelled(a->exec))
        return vae_fail(error, VAE_ERR_CANCELLED,
                        "the computation was cancelled");
    return vae_cpu_status(s, op, "run the attention", error);
}

static void
attention_free(void *own)
{
    Attention *a = own;
    for (int i = 0; i < 3; i++)
        vae_dnnl_free(&a->pack[i]);
    vae_dnnl_free(&a->scores);
    vae_dnnl_free(&a->softmax);
    vae_dnnl_free(&a->product);
    vae_mem_free(a);
}

VaeStatus
vae_cpu_attention(VaeBackend *cpu, VaeWeightCache *cache, VaeExec *exec, int i,
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
    const VaeDnnlStatus s = make_all(a, op, !cache);
    if (s != VAE_DNNL_OK)
        return vae_cpu_status(s, op, "make the attention", error);
    snprintf(a->impl, sizeof a->impl, "%s + %s", a->scores.impl,
             a->product.impl);
    const size_t scratch = place(a, op->carry != NULL);
    if (scratch > exec->scratch)
        exec->scratch = scratch;
    return VAE_OK;
}

/*
 * backend_cpu_weight.c: the weights of a convolution in the layout that its
 * primitive wants, once per model.
 */
#include <string.h>

#include "backend_cpu_conv.h"

/* Kept weights are told apart by what they are made from and into. Compared
 * as bytes: descriptors come from oneDNN, which zeroes what it does not use. */
typedef struct WeightKey {
    char table[8];
    int id, parts;
    VaeCpuPhase phase;
    dnnl_memory_desc_t md;
} WeightKey;

typedef struct WeightJob {
    VaeBackend *cpu;
    const VaeOp *op;
    const VaeWeight *weight;
    const VaeCpuPhase *phase; /* NULL: as they are */
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

/* Whether they are laid out from where they lie in the file. */
static bool
from_file(const WeightJob *j)
{
    return !j->phase && vae_weight_lies(j->weight);
}

static dnnl_status_t
make_reorder(const WeightJob *j, bool plan, VaeCpuPrimitive *out)
{
    dnnl_memory_desc_t plain;
    const VaeType type = from_file(j) ? j->weight->part[0]->type : VAE_TYPE_F32;
    const dnnl_status_t s = file_layout(j->md, type, &plain);
    if (s != dnnl_success)
        return s;
    return vae_cpu_reorder(j->cpu, &plain, j->md, plan, out);
}

static dnnl_status_t
reorder_once(const WeightJob *j, const void *src, void *dst)
{
    VaeCpuPrimitive p = {0};
    void *scratch = NULL;
    dnnl_status_t s = make_reorder(j, false, &p);
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

/*
 * n kernels of 3x3 taps -> 2x2, over each other. Rows 2i of the result meet row
 * i - 1 of the small picture by their first row of taps and row i by the other
 * two, rows 2i + 1 row i by the first two and row i + 1 by the last; columns
 * likewise.
 */
static void
sum_taps(float *taps, size_t n, VaeCpuPhase phase)
{
    for (size_t k = 0; k < n; k++) {
        float sum[4] = {0};
        for (int t = 0; t < 9; t++) {
            const int row = (t / 3 + 1 - phase.row) / 2;
            const int column = (t % 3 + 1 - phase.column) / 2;
            sum[2 * row + column] += taps[9 * k + (size_t) t];
        }
        memcpy(taps + 4 * k, sum, sizeof sum);
    }
}

/* Out of the file where it has one piece of a type that oneDNN reads. */
static VaeStatus
make_weight(void *user, void *dst, VaeError *error)
{
    const WeightJob *j = user;
    const VaeWeight *w = j->weight;
    dnnl_status_t s;
    if (from_file(j)) {
        s = reorder_once(j, w->part[0]->data, dst);
        vae_weight_drop(w);
        return vae_cpu_status(s, j->op, "lay out the weights", error);
    }
    const size_t count = vae_weight_count(w);
    float *raw = vae_mem_alloc(count * sizeof *raw);
    if (!raw)
        return vae_fail(error, VAE_ERR_MEMORY,
                        "%s: out of memory for weights (%zu bytes)",
                        j->op->name, count * sizeof *raw);
    vae_weight_read(w, raw);
    if (j->phase)
        sum_taps(raw, count / 9, *j->phase);
    s = reorder_once(j, raw, dst);
    vae_mem_free(raw);
    return vae_cpu_status(s, j->op, "lay out the weights", error);
}

/* What make_weight() takes and gives back. */
static VaeStatus
count_loading(const WeightJob *j, VaeExec *exec, VaeError *error)
{
    VaeCpuPrimitive p = {0};
    const dnnl_status_t s = make_reorder(j, true, &p);
    size_t bytes = p.scratch;
    vae_cpu_primitive_free(&p);
    if (!from_file(j))
        bytes += vae_weight_count(j->weight) * sizeof(float);
    if (bytes > exec->loading)
        exec->loading = bytes;
    return vae_cpu_status(s, j->op, "lay out the weights", error);
}

VaeStatus
vae_cpu_conv_weight(VaeCpuConv *c, VaeModel *model, const VaeWeight *w, int i,
                    VaeError *error)
{
    const VaeCpuPhase *phase = w->kind == VAE_WEIGHT_CONV ? c->phase : NULL;
    WeightJob job = {c->cpu, c->op, w, phase, &c->primitive.md[i]};
    const size_t bytes = dnnl_memory_desc_get_size(job.md);
    VaeStatus status = count_loading(&job, c->exec, error);
    /* All phases have one bias. */
    if (phase || !c->phase || (c->phase->row == 0 && c->phase->column == 0))
        c->exec->weight_bytes += bytes;
    if (status != VAE_OK || !model)
        return status;
    WeightKey key;
    memset(&key, 0, sizeof key);
    strcpy(key.table, phase ? "dnnl-up" : "dnnl");
    key.id = w->id;
    key.parts = w->n_parts;
    if (phase)
        key.phase = *phase;
    memcpy(&key.md, job.md, sizeof key.md);
    const void *blob = NULL;
    status = vae_model_weight(model, &key, sizeof key, bytes, make_weight, &job,
                              NULL, &blob, error);
    if (status != VAE_OK)
        return status;
    return vae_cpu_status(vae_cpu_set(&c->primitive, i, blob), c->op,
                          "take the weights", error);
}

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
    int kernel;
    dnnl_memory_desc_t md;
} WeightKey;

typedef struct WeightJob {
    VaeBackend *cpu;
    const VaeOp *op;
    const VaeWeight *weight;
    const VaeCpuPhase *phase; /* NULL: of all */
    int kernel;               /* -1: as they are */
    const dnnl_memory_desc_t *md;
} WeightJob;

/* Of pairs of frames the first and the last kernel are frames of the weights
 * as they are, the others sums. */
static bool
is_frame(int kernel)
{
    return kernel == 0 || kernel == 3;
}

/* Whether they are laid out from where they lie in the file. */
static bool
from_file(const WeightJob *j)
{
    return !j->phase && (j->kernel < 0 || is_frame(j->kernel)) &&
           vae_weight_lies(j->weight);
}

/* Numbers of that type in the file's order, [out, in, t, h, w], under the dims
 * of md; from the file, one frame of them. */
static dnnl_status_t
file_layout(const WeightJob *j, VaeType type, dnnl_memory_desc_t *out)
{
    static const dnnl_format_tag_t tags[] = {dnnl_a, dnnl_abcd, dnnl_abcde};
    const dnnl_memory_desc_t *md = j->md;
    const int n = md->ndims;
    if (from_file(j) && j->kernel >= 0) {
        const dnnl_dims_t strides = {27 * md->dims[1], 27, 3, 1};
        return dnnl_memory_desc_init_by_strides(out, n, md->dims,
                                                vae_cpu_type(type), strides);
    }
    return dnnl_memory_desc_init_by_tag(out, n, md->dims, vae_cpu_type(type),
                                        tags[n == 1 ? 0 : n - 3]);
}

static dnnl_status_t
make_reorder(const WeightJob *j, bool plan, VaeCpuPrimitive *out)
{
    dnnl_memory_desc_t plain;
    const VaeType type = from_file(j) ? j->weight->part[0]->type : VAE_TYPE_F32;
    const dnnl_status_t s = file_layout(j, type, &plain);
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

/* Whether sums are made of them where they lie in the file. */
static bool
summed_from_file(const WeightJob *j)
{
    return j->kernel >= 0 && vae_weight_lies(j->weight);
}

/*
 * n kernels of three frames g0, g1, g2 of 9 taps -> one of g0, (g0 + g1 + g2) /
 * 2, (g0 - g1 + g2) / 2, g2; y may be taps.
 */
static void
sum_frames(float *y, const float *taps, size_t n, int kernel)
{
    const float inner = kernel == 1 ? 0.5f : -0.5f;
    for (size_t k = 0; k < n && is_frame(kernel); k++)
        memmove(y + 9 * k, taps + 27 * k + 6 * kernel, 9 * sizeof *y);
    for (size_t k = 0; k < n && !is_frame(kernel); k++) {
        const float *g = taps + 27 * k;
        float *sum = y + 9 * k;
#pragma omp simd
        for (int t = 0; t < 9; t++)
            sum[t] = 0.5f * (g[t] + g[18 + t]) + inner * g[9 + t];
    }
}

/* Kernels that are summed at a time; which is made last. */
enum { SUMMED = 64, LAST = 3 };

/* The same of n kernels as they lie in the file. */
static void
sum_file(const WeightJob *j, float *y, size_t n)
{
    const VaeTensorInfo *t = j->weight->part[0];
    const size_t size = vae_type_size(t->type);
#pragma omp parallel for num_threads(j->cpu->params.threads) schedule(static)
    for (size_t k = 0; k < n; k += SUMMED) {
        float floats[27 * SUMMED];
        const size_t some = n - k < SUMMED ? n - k : SUMMED;
        const uint8_t *from = (const uint8_t *) t->data + 27 * k * size;
        const float *taps = floats;
        if (t->type == VAE_TYPE_F32)
            taps = (const float *) from;
        else
            vae_type_to_float(floats, from, t->type, 27 * some);
        sum_frames(y + 9 * k, taps, some, j->kernel);
    }
}

/* Numbers that make_weight() computes with. */
static size_t
raw_count(const WeightJob *j)
{
    const size_t n = vae_weight_count(j->weight);
    return summed_from_file(j) ? n / 3 : n;
}

/* At least that many bytes, the same block as long as it is large enough: to
 * have new pages each time would cost as much as what is done with them. */
static void *
take_raw(VaeBackend *cpu, size_t bytes)
{
    if (cpu->raw_bytes < bytes) {
        vae_cpu_weight_end(cpu);
        cpu->raw = vae_mem_alloc(bytes);
        cpu->raw_bytes = cpu->raw ? bytes : 0;
    }
    return cpu->raw;
}

void
vae_cpu_weight_end(VaeBackend *cpu)
{
    vae_mem_free(cpu->raw);
    cpu->raw = NULL;
    cpu->raw_bytes = 0;
}

/* Out of the file where it has one piece of a type that oneDNN reads. */
static VaeStatus
make_weight(void *user, void *dst, VaeError *error)
{
    const WeightJob *j = user;
    const VaeWeight *w = j->weight;
    dnnl_status_t s;
    if (from_file(j)) {
        const size_t skip =
            j->kernel > 0 ? 18 * vae_type_size(w->part[0]->type) : 0;
        s = reorder_once(j, (const uint8_t *) w->part[0]->data + skip, dst);
        if (j->kernel < 0 || j->kernel == LAST)
            vae_weight_drop(w);
        return vae_cpu_status(s, j->op, "lay out the weights", error);
    }
    const size_t count = raw_count(j);
    float *raw = take_raw(j->cpu, count * sizeof *raw);
    if (!raw)
        return vae_fail(error, VAE_ERR_MEMORY,
                        "%s: out of memory for weights (%zu bytes)",
                        j->op->name, count * sizeof *raw);
    if (summed_from_file(j)) {
        sum_file(j, raw, count / 9);
    } else {
        vae_weight_read(w, raw);
        if (j->kernel >= 0)
            sum_frames(raw, raw, count / 27, j->kernel);
    }
    if (j->phase)
        sum_taps(raw, count / 9, *j->phase);
    s = reorder_once(j, raw, dst);
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
        bytes += raw_count(j) * sizeof(float);
    if (bytes > exec->loading)
        exec->loading = bytes;
    return vae_cpu_status(s, j->op, "lay out the weights", error);
}

VaeStatus
vae_cpu_conv_weight(VaeCpuConv *c, VaeModel *model, const VaeWeight *w, int i,
                    VaeError *error)
{
    const bool kernel = w->kind == VAE_WEIGHT_CONV;
    const VaeCpuPhase *phase = kernel ? c->phase : NULL;
    WeightJob job = {.cpu = c->cpu,
                     .op = c->op,
                     .weight = w,
                     .phase = phase,
                     .kernel = kernel && c->products ? c->kernel : -1,
                     .md = &c->primitive.md[i]};
    const size_t bytes = dnnl_memory_desc_get_size(job.md);
    VaeStatus status = count_loading(&job, c->exec, error);
    /* All phases have one bias. */
    if (phase || !c->phase || (c->phase->row == 0 && c->phase->column == 0))
        c->exec->weight_bytes += bytes;
    if (status != VAE_OK || !model)
        return status;
    WeightKey key;
    memset(&key, 0, sizeof key);
    strcpy(key.table, phase ? "dnnl-up" : job.kernel < 0 ? "dnnl" : "dnnl-x2");
    key.id = w->id;
    key.parts = w->n_parts;
    if (phase)
        key.phase = *phase;
    key.kernel = job.kernel;
    memcpy(&key.md, job.md, sizeof key.md);
    static const VaeWeightMemory memory = {vae_mem_alloc_lazy, vae_mem_free};
    const void *blob = NULL;
    status = vae_model_weight(model, &key, sizeof key, bytes, make_weight, &job,
                              &memory, &blob, error);
    if (status != VAE_OK)
        return status;
    return vae_cpu_status(vae_cpu_set(&c->primitive, i, blob), c->op,
                          "take the weights", error);
}

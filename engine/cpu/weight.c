/*
 * weight.c: makes the weights of a convolution in the layout of its primitive,
 * once per model.
 */
#include <string.h>

#include "conv.h"
#include "hash.h"
#include "cpu/simd/simd.h"

/* Key of a cached weight: its source and its layout. Compared byte for byte. */
typedef struct WeightKey {
    char table[8];
    int id, parts;
    VaePhase phase;
    VaeDnnlKey layout;
} WeightKey;

typedef struct WeightJob {
    VaeBackend *cpu;
    const VaeOp *op;
    const VaeWeight *weight;
    const VaePhase *phase; /* NULL: no phases */
    bool tiles;
    const VaeDnnlLayout *layout;
    VaeDnnlKey key; /* of the layout */
    int batch;      /* for Winograd tiles: output channels made at a time */
} WeightJob;

/* True if the reorder reads the weights directly from the file. */
static bool
from_file(const WeightJob *j)
{
    return !j->phase && !j->tiles && vae_weight_is_direct(j->weight);
}

/* Reorders weights from the file's order, [out, in, t, h, w]. */
typedef struct Reorder {
    VaeBackend *cpu;
    VaeDnnlPrimitive primitive;
    void *scratch;
} Reorder;

static VaeDnnlStatus
reorder_make(const WeightJob *j, bool plan, Reorder *out)
{
    const VaeType type = from_file(j) ? j->weight->part[0]->type : VAE_TYPE_F32;
    *out = (Reorder){.cpu = j->cpu};
    const VaeDnnlStatus s = vae_dnnl_reorder_plain(
        &j->cpu->dnnl, type, j->layout, plan, &out->primitive);
    if (s != VAE_DNNL_OK || plan)
        return s;
    out->scratch = vae_mem_alloc(out->primitive.scratch);
    return out->scratch
               ? vae_dnnl_set(&out->primitive, VAE_DNNL_SCRATCH, out->scratch)
               : VAE_DNNL_NO_MEMORY;
}

static VaeDnnlStatus
reorder_run(Reorder *r, const void *src, void *dst)
{
    VaeDnnlStatus s = vae_dnnl_set(&r->primitive, VAE_DNNL_SRC, src);
    if (s == VAE_DNNL_OK)
        s = vae_dnnl_set(&r->primitive, VAE_DNNL_DST, dst);
    if (s == VAE_DNNL_OK)
        s = vae_dnnl_execute(&r->cpu->dnnl, &r->primitive);
    return s == VAE_DNNL_OK ? vae_dnnl_wait(&r->cpu->dnnl) : s;
}

static void
reorder_free(Reorder *r)
{
    vae_mem_free(r->scratch);
    vae_dnnl_free(&r->primitive);
}

static VaeDnnlStatus
reorder_once(const WeightJob *j, const void *src, void *dst)
{
    Reorder r;
    VaeDnnlStatus s = reorder_make(j, false, &r);
    if (s == VAE_DNNL_OK)
        s = reorder_run(&r, src, dst);
    reorder_free(&r);
    return s;
}

/* ------------------------------------------------------------------ */
/* Winograd tiles.                                                     */

enum { SIDE = VAE_CPU_TILE_SIDE };

static size_t
kernel_count(const VaeOp *op)
{
    return SIDE * SIDE * (size_t) vae_tile_times(op);
}

/* BATCH: output channels made at a time, few enough to stay in the caches from
 * one pass to the next. SOME: kernels transformed at a time. */
enum { BATCH = 64, SOME = 64 };

/* Transforms n kernels along time, to four 3x3 kernels each:
 * [SIDE][n][3x3]. */
static void
time_taps(float *y, const float *taps, size_t n)
{
    const size_t next = 9 * n;
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < 9; i++) {
            const float *g = taps + 27 * k + i;
            float *to = y + 9 * k + i;
            const float ends = 0.5f * (g[0] + g[18]), middle = 0.5f * g[9];
            to[0] = g[0];
            to[next] = ends + middle;
            to[2 * next] = ends - middle;
            to[3 * next] = g[18];
        }
}

/* Transforms n kernels, starting at `first`, to [SIDE rows][SIDE
 * columns][times][n]. taps NULL: reads them from the file. */
static void
tile_batch(const WeightJob *j, float *y, const float *taps, size_t first,
           size_t n)
{
    const VaeTensorInfo *t = j->weight->part[0];
    const size_t size = vae_type_size(t->type);
    const size_t all = 9 * (size_t) j->op->conv.kt;
    const size_t n_times = (size_t) vae_tile_times(j->op);
    const VaeSimd *simd = vae_cpu_simd(&(VaeQueue){.threads = 1});
#pragma omp parallel for num_threads(j->cpu->params.threads) schedule(static)
    for (size_t k = 0; k < n; k += SOME) {
        float floats[27 * SOME], times[SIDE * 9 * SOME];
        const size_t some = n - k < SOME ? n - k : SOME;
        const size_t at = all * (first + k);
        const uint8_t *lie = (const uint8_t *) t->data + at * size;
        const float *from = floats;
        if (taps)
            from = taps + at;
        else if (t->type == VAE_TYPE_F32)
            from = (const float *) lie;
        else
            vae_type_to_float(floats, lie, t->type, all * some);
        if (n_times > 1) {
            time_taps(times, from, some);
            from = times;
        }
        for (size_t time = 0; time < n_times; time++)
            simd->tiles->taps(y + time * n + k, n_times * n,
                              from + 9 * some * time, some);
    }
}

/* Makes a job for *some output channels, starting at `first`, or for all if the
 * layout cannot be divided. The caller frees out->layout unless it is j's. */
static VaeDnnlStatus
cut(const WeightJob *j, int first, int *some, WeightJob *out)
{
    VaeDnnlLayout *part = NULL;
    const int channels = (int) j->key.dims[0];
    *out = *j;
    *some = first + BATCH < channels ? BATCH : channels - first;
    const VaeDnnlStatus s = vae_dnnl_part(j->layout, first, *some, &part);
    if (s == VAE_DNNL_OK) {
        out->layout = part;
        return s;
    }
    *some = channels;
    return first == 0 && s != VAE_DNNL_NO_MEMORY ? VAE_DNNL_OK : s;
}

static void
cut_free(const WeightJob *j, WeightJob *batch)
{
    VaeDnnlLayout *part = (VaeDnnlLayout *) batch->layout;
    if (part != j->layout)
        vae_dnnl_layout_free(&part);
}

/* The number of floats that make_weight() and make_tiles() use as temporary
 * memory. */
static size_t
raw_count(const WeightJob *j)
{
    const size_t n = vae_weight_count(j->weight);
    if (!j->tiles)
        return n;
    return (size_t) j->batch * (size_t) j->key.dims[1] * kernel_count(j->op) +
           (vae_weight_is_direct(j->weight) ? 0 : n);
}

static VaeStatus
no_memory(const WeightJob *j, VaeError *error)
{
    return vae_fail(error, VAE_ERR_MEMORY,
                    "%s: out of memory for weights (%zu bytes)", j->op->name,
                    raw_count(j) * sizeof(float));
}

/* Reorders directly from the file if the weight is one tensor of a type that
 * oneDNN reads. */
static VaeStatus
make_weight(void *user, void *dst, VaeError *error)
{
    const WeightJob *j = user;
    const VaeWeight *w = j->weight;
    VaeDnnlStatus s;
    if (from_file(j)) {
        s = reorder_once(j, w->part[0]->data, dst);
        return vae_cpu_status(s, j->op, "lay out the weights", error);
    }
    float *raw = vae_room_take(&j->cpu->raw, raw_count(j) * sizeof *raw);
    if (!raw)
        return no_memory(j, error);
    vae_weight_read(w, raw);
    if (j->phase)
        vae_phase_taps(raw, raw, vae_weight_count(w) / 9, *j->phase);
    s = reorder_once(j, raw, dst);
    return vae_cpu_status(s, j->op, "lay out the weights", error);
}

static VaeDnnlStatus
tile_channels(const WeightJob *j, float *raw, const float *taps, uint8_t *dst,
              int first, int *some)
{
    const size_t bytes = vae_cpu_tile_kernel(j->layout);
    const size_t in = (size_t) j->key.dims[1];
    WeightJob batch;
    Reorder r = {0};
    VaeDnnlStatus s = cut(j, first, some, &batch);
    if (s != VAE_DNNL_OK)
        return s;
    s = reorder_make(&batch, false, &r);
    if (s == VAE_DNNL_OK)
        tile_batch(j, raw, taps, (size_t) first * in, (size_t) *some * in);
    for (size_t i = 0; i < kernel_count(j->op) && s == VAE_DNNL_OK; i++)
        s = reorder_run(&r, raw + i * (size_t) *some * in, dst + i * bytes);
    reorder_free(&r);
    cut_free(j, &batch);
    return s;
}

static VaeStatus
make_tiles(void *user, void *dst, VaeError *error)
{
    const WeightJob *j = user;
    const size_t n = raw_count(j);
    float *raw = vae_room_take(&j->cpu->raw, n * sizeof *raw), *taps = NULL;
    if (!raw)
        return no_memory(j, error);
    if (!vae_weight_is_direct(j->weight)) {
        taps = raw + n - vae_weight_count(j->weight);
        vae_weight_read(j->weight, taps);
    }
    VaeDnnlStatus s = VAE_DNNL_OK;
    for (int first = 0, some = 0; first < j->key.dims[0] && s == VAE_DNNL_OK;
         first += some)
        s = tile_channels(j, raw, taps, dst, first, &some);
    return vae_cpu_status(s, j->op, "lay out the weights", error);
}

/* Sets the number of output channels made at a time. */
static VaeDnnlStatus
choose_batch(WeightJob *j)
{
    WeightJob batch;
    const VaeDnnlStatus s = cut(j, 0, &j->batch, &batch);
    if (s == VAE_DNNL_OK)
        cut_free(j, &batch);
    return s;
}

/* Sets exec's hash of the layout. */
static void
tell_layout(const WeightJob *j, VaeExec *exec, size_t bytes)
{
    const size_t phase =
        j->phase ? (size_t) (2 * j->phase->row + j->phase->column) : 0;
    exec->ops[j->op - exec->program->ops].laid_out[phase] =
        (VaeLayOut){bytes, vae_hash(VAE_HASH, &j->key, sizeof j->key)};
}

/* Sets j->key and j->batch, and adds the temporary memory for making the
 * weights. */
static VaeStatus
begin(WeightJob *j, VaeExec *exec, VaeError *error)
{
    Reorder r = {0};
    VaeDnnlStatus s = vae_dnnl_key(j->layout, &j->key);
    if (s == VAE_DNNL_OK && j->tiles)
        s = choose_batch(j);
    if (s == VAE_DNNL_OK)
        s = reorder_make(j, true, &r);
    size_t bytes = r.primitive.scratch;
    reorder_free(&r);
    if (s == VAE_DNNL_OK && !from_file(j))
        bytes += raw_count(j) * sizeof(float);
    if (bytes > exec->loading)
        exec->loading = bytes;
    return vae_cpu_status(s, j->op, "lay out the weights", error);
}

static void *
lazy_alloc(size_t bytes, void *user)
{
    return vae_mem_alloc_lazy(bytes);
}

static void
lazy_free(void *block, int place)
{
    vae_mem_free(block);
}

/* Gets the weight of `bytes` bytes from the cache, which makes it if needed. */
static VaeStatus
keep(WeightJob *job, VaeWeightCache *cache, const char *table, size_t bytes,
     const void **out, VaeError *error)
{
    static const VaeWeightMemory memory = {lazy_alloc, lazy_free, NULL, 0};
    WeightKey key;
    memset(&key, 0, sizeof key);
    strcpy(key.table, table);
    key.id = job->weight->id;
    key.parts = job->weight->n_parts;
    if (job->phase)
        key.phase = *job->phase;
    key.layout = job->key;
    return vae_weight_cache_get(
        cache,
        &(VaeWeightRequest){.key = &key,
                            .key_size = sizeof key,
                            .bytes = bytes,
                            .weight = job->weight,
                            .make = job->tiles ? make_tiles : make_weight,
                            .user = job,
                            .memory = &memory},
        out, error);
}

VaeStatus
vae_cpu_conv_weight(VaeCpuConv *c, VaeWeightCache *cache, const VaeWeight *w,
                    VaeDnnlSlot slot, VaeError *error)
{
    const VaePhase *phase = w->kind == VAE_WEIGHT_CONV ? c->phase : NULL;
    WeightJob job = {.cpu = c->cpu,
                     .op = c->op,
                     .weight = w,
                     .phase = phase,
                     .layout = c->primitive.layout[slot]};
    const size_t bytes = vae_dnnl_bytes(job.layout);
    VaeStatus status = begin(&job, c->exec, error);
    /* All phases share one bias. */
    if (phase || !c->phase || (c->phase->row == 0 && c->phase->column == 0))
        c->exec->weight_bytes += bytes;
    if (w->kind == VAE_WEIGHT_CONV)
        tell_layout(&job, c->exec, bytes);
    if (status != VAE_OK || !cache)
        return status;
    const void *blob = NULL;
    status = keep(&job, cache, phase ? "dnnl-up" : "dnnl", bytes, &blob, error);
    if (status != VAE_OK)
        return status;
    return vae_cpu_status(vae_dnnl_set(&c->primitive, slot, blob), c->op,
                          "take the weights", error);
}

size_t
vae_cpu_tile_kernel(const VaeDnnlLayout *layout)
{
    return (vae_dnnl_bytes(layout) + 63) / 64 * 64;
}

VaeStatus
vae_cpu_tile_weight(const VaeCpuTileWeight *weight, VaeWeightCache *cache,
                    const void **out, VaeError *error)
{
    WeightJob job = {.cpu = weight->cpu,
                     .op = weight->op,
                     .weight = weight->op->weight,
                     .tiles = true,
                     .layout = weight->layout};
    const size_t bytes =
        kernel_count(job.op) * vae_cpu_tile_kernel(weight->layout);
    const VaeStatus status = begin(&job, weight->exec, error);
    weight->exec->weight_bytes += bytes;
    tell_layout(&job, weight->exec, bytes);
    return status == VAE_OK && cache
               ? keep(&job, cache, "dnnl-4", bytes, out, error)
               : status;
}

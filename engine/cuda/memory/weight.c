/*
 * weight.c: weights in the layout that the device reads, made once per model,
 * device and type.
 *
 * Weights of a convolution are read from the file, and converted to the
 * device's layout and type, one output channel at a time. Several threads share
 * the channels. The data of a channel stay in a thread's cache.
 */
#include <pthread.h>
#include <string.h>

#include "gpu.h"

enum {
    MOST_THREADS = 8,
    /* Least elements for each thread. */
    WORTH = 1 << 16
};

typedef enum Layout {
    LAYOUT_PLAIN,  /* as in the file */
    LAYOUT_CONV,   /* [out][kt][k][k][in] */
    LAYOUT_PHASES, /* [phase][out][2][2][in], see vae_cuda_phase_room() */
    LAYOUT_DEPTH,  /* [k][k][c] */
    LAYOUT_NOTHING /* zeros */
} Layout;

typedef struct WeightKey {
    char table[8];
    int device, id, parts, row;
    int type, layout, count;
} WeightKey;

typedef struct WeightJob {
    VaeBackend *cuda;
    const VaeWeight *weight; /* NULL for LAYOUT_NOTHING */
    Layout layout;
    VaeType type;
    size_t count;
} WeightJob;

static size_t
job_bytes(const WeightJob *j)
{
    return j->count * vae_type_size(j->type);
}

/* ------------------------------------------------------------------ */
/* Layouts.                                                            */

size_t
vae_cuda_phase_room(const VaeOp *op)
{
    const size_t n = (size_t) 4 * op->x->shape.c * op->y->shape.c;
    return (n + 7) / 8 * 8;
}

/* Transposes [b][n] to [n][b], in the order of dst. Rows of src are often
 * multiples of 4 KiB apart, so they would evict each other from the cache. */
static void
swap(const float *src, float *dst, size_t b, size_t n)
{
    for (size_t k = 0; k < n; k++)
        for (size_t j = 0; j < b; j++)
            dst[k * b + j] = src[j * n + k];
}

/* Output channels first..end-1 of a convolution's kernels. */
typedef struct Share {
    const WeightJob *job;
    const float *raw; /* of all channels; NULL: reads them from the file */
    uint8_t *dst;     /* for all channels */
    float *room;      /* floats for 2 output channels */
    size_t first, end;
    pthread_t thread;
    bool running;
    VaeStatus status; /* of reading, with its error */
    VaeError error;
} Share;

/* The number of floats of one output channel. */
static size_t
channel_size(const WeightJob *j)
{
    const int *d = j->weight->dims;
    return (size_t) d[1] * d[2] * d[3] * d[4];
}

/* Writes output channel o, whose floats are src. room: as many floats. */
static void
lay_out_channel(const Share *s, size_t o, const float *src, float *room)
{
    const WeightJob *j = s->job;
    const size_t in = (size_t) j->weight->dims[1], n = channel_size(j);
    const size_t size = vae_type_size(j->type);
    if (j->layout == LAYOUT_CONV) {
        swap(src, room, in, n / in);
        vae_type_from_float(s->dst + o * n * size, j->type, room, n);
        return;
    }
    for (size_t i = 0; i < VAE_PHASES; i++) {
        float *swapped = room + 4 * in; /* 9 * in floats */
        vae_phase_taps(room, src, in, vae_phase((int) i));
        swap(room, swapped, in, 4);
        vae_type_from_float(
            s->dst + (i * (j->count / VAE_PHASES) + o * 4 * in) * size, j->type,
            swapped, 4 * in);
    }
}

static void *
lay_out_share(void *user)
{
    Share *s = user;
    const size_t n = channel_size(s->job);
    for (size_t o = s->first; o < s->end && s->status == VAE_OK; o++) {
        const float *src = s->raw ? s->raw + o * n : s->room;
        if (!s->raw)
            s->status = vae_weight_read_some(s->job->weight, o * n, n, s->room,
                                             s->room + n, &s->error);
        if (s->status == VAE_OK)
            lay_out_channel(s, o, src, s->room + n);
    }
    return NULL;
}

static int
share_count(const WeightJob *j)
{
    const size_t worth = vae_weight_count(j->weight) / WORTH + 1;
    int n = j->cuda->params.threads;
    n = n < MOST_THREADS ? n : MOST_THREADS;
    n = (size_t) n < worth ? n : (int) worth;
    return n < j->weight->dims[0] ? n : j->weight->dims[0];
}

/* Converts all output channels. raw: as in Share; room: 2 * channel_size()
 * floats for each thread. */
static VaeStatus
lay_out_conv(const WeightJob *j, const float *raw, float *room, uint8_t *dst,
             VaeError *error)
{
    Share share[MOST_THREADS];
    const int n = share_count(j);
    const size_t out = (size_t) j->weight->dims[0];
    for (int i = n - 1; i >= 0; i--) {
        share[i] = (Share){.job = j,
                           .raw = raw,
                           .dst = dst,
                           .room = room + (size_t) i * 2 * channel_size(j),
                           .first = out * (size_t) i / (size_t) n,
                           .end = out * ((size_t) i + 1) / (size_t) n};
        share[i].running =
            i > 0 && pthread_create(&share[i].thread, NULL, lay_out_share,
                                    &share[i]) == 0;
        if (!share[i].running)
            lay_out_share(&share[i]);
    }
    VaeStatus status = VAE_OK;
    for (int i = 0; i < n; i++) {
        if (share[i].running)
            pthread_join(share[i].thread, NULL);
        if (status == VAE_OK && share[i].status != VAE_OK) {
            status = share[i].status;
            *error = share[i].error;
        }
    }
    return status;
}

/* ------------------------------------------------------------------ */
/* Making a weight.                                                    */

static bool
is_conv(const WeightJob *j)
{
    return j->layout == LAYOUT_CONV || j->layout == LAYOUT_PHASES;
}

/* True if threads read the weight from its file, so it is not fetched. */
static bool
is_read_in_parts(const WeightJob *j)
{
    return j->weight && is_conv(j) && vae_weight_is_whole(j->weight);
}

/* The number of floats that fill() uses as temporary memory. */
static size_t
fill_room(const WeightJob *j)
{
    if (!j->weight)
        return 0;
    const size_t n = vae_weight_count(j->weight);
    if (!is_conv(j))
        return 2 * n;
    return (size_t) share_count(j) * 2 * channel_size(j) +
           (is_read_in_parts(j) ? 0 : n);
}

/* Writes the weight to dst in the device's layout and type. */
static VaeStatus
fill(const WeightJob *j, float *room, uint8_t *dst, VaeError *error)
{
    const VaeWeight *w = j->weight;
    if (!w) {
        memset(dst, 0, j->count * vae_type_size(j->type));
        return VAE_OK;
    }
    if (is_read_in_parts(j))
        return lay_out_conv(j, NULL, room, dst, error);
    const size_t n = vae_weight_count(w);
    float *raw = room;
    vae_weight_read(w, raw);
    if (is_conv(j))
        return lay_out_conv(j, raw, room + n, dst, error);
    if (j->layout == LAYOUT_DEPTH) {
        const size_t c = (size_t) w->dims[0];
        swap(raw, room + n, c, n / c);
        raw = room + n;
    }
    vae_type_from_float(dst, j->type, raw, n);
    return VAE_OK;
}

static VaeStatus
make_weight(void *user, void *dst, VaeError *error)
{
    const WeightJob *j = user;
    const size_t bytes = job_bytes(j);
    const size_t at = (bytes + 63) / 64 * 64;
    const size_t all = at + fill_room(j) * sizeof(float);
    uint8_t *host = vae_room_take(&j->cuda->room, all);
    if (!host)
        return vae_fail(error, VAE_ERR_MEMORY,
                        "out of memory for weights (%zu bytes)", all);
    const VaeStatus status =
        fill(j, (float *) (void *) (host + at), host, error);
    if (status != VAE_OK)
        return status;
    const VaeOpeningMark begin = vae_opening_begin(j->cuda->params.opening);
    const int code = vae_cuda_copy_now(j->cuda, dst, host, bytes);
    vae_opening_end(j->cuda->params.opening, VAE_OPENING_UPLOAD, begin);
    return vae_cuda_status(j->cuda, code, "take weights", error);
}

static Layout
layout_of(const VaeWeight *w, bool phases)
{
    if (!w)
        return LAYOUT_NOTHING;
    if (w->kind == VAE_WEIGHT_CONV)
        return phases ? LAYOUT_PHASES : LAYOUT_CONV;
    return w->kind == VAE_WEIGHT_DEPTHWISE ? LAYOUT_DEPTH : LAYOUT_PLAIN;
}

/* Describes op's weight, or its bias, and its key in the cache. False: op has
 * none. A convolution always has a bias. */
static bool
describe(VaeBackend *cuda, const VaeOp *op, bool bias, WeightJob *job,
         WeightKey *key)
{
    const bool conv = op->kind == VAE_OP_CONV;
    const VaeWeight *w = bias ? op->bias : op->weight;
    if (!w && !conv)
        return false;
    *job =
        (WeightJob){.cuda = cuda,
                    .weight = w,
                    .layout = layout_of(w, conv && op->conv.up && !bias),
                    .type = !conv                    ? VAE_TYPE_F32
                            : bias && !op->conv.wide ? op->y->type
                                                     : op->x->type,
                    .count = w ? vae_weight_count(w) : (size_t) op->y->shape.c};
    if (job->layout == LAYOUT_PHASES)
        job->count = vae_cuda_phase_room(op) * VAE_PHASES;
    memset(key, 0, sizeof *key);
    strcpy(key->table, "cuda");
    key->device = cuda->number;
    key->id = w ? w->id : -1;
    key->parts = w ? w->n_parts : 0;
    key->row = w ? w->row : 0;
    key->type = (int) job->type;
    key->layout = (int) job->layout;
    key->count = (int) job->count;
    return true;
}

/* Convolutions without a bias share a bias of zeros if they have the same
 * number of channels. True if an earlier op of the program has it. */
static bool
shares_zeros(const VaeCudaExec *e, const VaeOp *op, const WeightKey *key)
{
    WeightJob job;
    WeightKey other;
    for (const VaeOp *o = e->exec.program->ops; o < op; o++)
        if (!o->bias && describe(e->cuda, o, true, &job, &other) &&
            memcmp(&other, key, sizeof other) == 0)
            return true;
    return false;
}

VaeStatus
vae_cuda_weight(VaeCudaExec *e, const VaeOp *op, bool bias, const void **out,
                VaeError *error)
{
    VaeBackend *cuda = e->cuda;
    WeightJob job;
    WeightKey key;
    if (!describe(cuda, op, bias, &job, &key))
        return VAE_OK;
    if (job.weight || !shares_zeros(e, op, &key))
        e->exec.weight_bytes += vae_cuda_suballoc_bytes(job_bytes(&job));
    if (!e->cache)
        return VAE_OK;
    cuda->refused = 0;
    const VaeWeightMemory memory = {vae_cuda_suballoc, vae_cuda_suballoc_free,
                                    cuda, cuda->number};
    const VaeOpeningMark begin = vae_opening_begin(cuda->params.opening);
    const VaeStatus status = vae_weight_cache_get(
        e->cache,
        &(VaeWeightRequest){.key = &key,
                            .key_size = sizeof key,
                            .bytes = job_bytes(&job),
                            .weight =
                                is_read_in_parts(&job) ? NULL : job.weight,
                            .make = make_weight,
                            .user = &job,
                            .memory = &memory},
        out, error);
    vae_opening_end(cuda->params.opening, VAE_OPENING_WEIGHTS, begin);
    /* An allocation also fails if the device has failed. */
    return status == VAE_ERR_MEMORY && cuda->refused
               ? vae_cuda_status(cuda, cuda->refused, "take weights", error)
               : status;
}

/* Bytes of those weights of the program that are not on the device, rounded as
 * for suballocation. 0 if there is no memory to count them. */
static size_t
missing_bytes(VaeBackend *cuda, VaeWeightCache *cache,
              const VaeProgram *program)
{
    const int most = 2 * program->n_ops;
    WeightKey *seen = vae_mem_alloc((size_t) most * sizeof *seen);
    size_t bytes = 0;
    int n = 0;
    for (int i = 0; seen && i < most; i++) {
        WeightJob job;
        int k = 0;
        if (!describe(cuda, &program->ops[i / 2], i % 2, &job, &seen[n]))
            continue;
        while (memcmp(&seen[k], &seen[n], sizeof *seen) != 0)
            k++;
        if (k < n || vae_weight_cache_has(cache, &seen[n], sizeof *seen))
            continue;
        bytes += vae_cuda_suballoc_bytes(job_bytes(&job));
        n++;
    }
    vae_mem_free(seen);
    return bytes;
}

void
vae_cuda_weights_begin(VaeBackend *cuda, VaeWeightCache *cache,
                       const VaeProgram *program)
{
    const VaeCudaLoad load = {cache, program->ops[0].kind == VAE_OP_LATENT_IN};
    vae_cuda_suballoc_begin(cuda, &load, missing_bytes(cuda, cache, program));
}

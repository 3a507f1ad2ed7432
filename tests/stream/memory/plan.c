/*
 * plan.c: a stream allocates the planned bytes for each purpose.
 *
 * plan MODEL BACKEND PRECISION [types | few]. With `types` the weights are also
 * written to files as F32, BF16 and F16. The linker redirects vae_mem_alloc(),
 * vae_mem_free() and vae_weight_cache_get() to this file.
 */
#include "../streams.h"

#include <pthread.h>

#include "stream.h"

enum { W = 48, MOST = 1 << 20 };

/* All allocated blocks, with the requested bytes. */
static struct {
    const void *block;
    size_t bytes;
    bool loads; /* allocated in vae_weight_cache_get(), but no weight */
} live[MOST];
static size_t n_live, bytes_live;
static size_t loading;      /* bytes of the blocks with `loads` */
static size_t weight_peak;  /* peak of `loading` for one weight */
static size_t loading_peak; /* peak of `loading` for all weights */
/* The memory of the library by the plan for slices of 1; without, with strips.
 */
static uint64_t libraries[2];
static bool in_weight;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The linker gives these names. */
void *__real_vae_mem_alloc(size_t bytes);
void *__wrap_vae_mem_alloc(size_t bytes);
void *__wrap_vae_mem_alloc_lazy(size_t bytes);
void __real_vae_mem_free(void *block);
void __wrap_vae_mem_free(void *block);
VaeStatus __real_vae_weight_cache_get(VaeWeightCache *cache,
                                      const VaeWeightRequest *request,
                                      const void **out, VaeError *error);
VaeStatus __wrap_vae_weight_cache_get(VaeWeightCache *cache,
                                      const VaeWeightRequest *request,
                                      const void **out, VaeError *error);

void *
__wrap_vae_mem_alloc(size_t bytes)
{
    void *block = __real_vae_mem_alloc(bytes);
    pthread_mutex_lock(&lock);
    if (!block || n_live == MOST)
        abort();
    live[n_live].block = block;
    live[n_live].loads = in_weight;
    live[n_live++].bytes = bytes;
    bytes_live += bytes;
    if (in_weight)
        loading += bytes;
    if (loading > weight_peak)
        weight_peak = loading;
    pthread_mutex_unlock(&lock);
    return block;
}

void *
__wrap_vae_mem_alloc_lazy(size_t bytes)
{
    return __wrap_vae_mem_alloc(bytes);
}

static size_t
asked_for(const void *block)
{
    for (size_t i = n_live; i-- > 0;)
        if (live[i].block == block)
            return live[i].bytes;
    return 0;
}

void
__wrap_vae_mem_free(void *block)
{
    pthread_mutex_lock(&lock);
    for (size_t i = n_live; block && i-- > 0;) {
        if (live[i].block != block)
            continue;
        bytes_live -= live[i].bytes;
        if (live[i].loads)
            loading -= live[i].bytes;
        live[i] = live[--n_live];
        break;
    }
    pthread_mutex_unlock(&lock);
    __real_vae_mem_free(block);
}

static bool
is_kept(const VaeWeightCache *cache, const void *block)
{
    for (const VaeCachedWeight *k = cache->first; k; k = k->next)
        if (block == k || block == k->key || block == k->blob)
            return true;
    return false;
}

/* Blocks that loading a weight allocates count as loading, except the weight
 * itself. So does a block that is kept for the next weight. */
VaeStatus
__wrap_vae_weight_cache_get(VaeWeightCache *cache,
                            const VaeWeightRequest *request, const void **out,
                            VaeError *error)
{
    in_weight = true;
    weight_peak = loading;
    const VaeStatus status =
        __real_vae_weight_cache_get(cache, request, out, error);
    in_weight = false;
    size_t stays = 0;
    for (size_t i = n_live; i-- > 0;)
        if (live[i].loads && is_kept(cache, live[i].block)) {
            live[i].loads = false;
            stays += live[i].bytes;
        }
    loading -= stays;
    if (weight_peak - stays > loading_peak)
        loading_peak = weight_peak - stays;
    return status;
}

/* ------------------------------------------------------------------ */

static bool
same(const char *label, const char *purpose, uint64_t planned, uint64_t taken)
{
    return expect(planned == taken, "%s: %s: planned %llu, taken %llu", label,
                  purpose, (unsigned long long) planned,
                  (unsigned long long) taken);
}

/* Two rows of latents, which networks need that reflect pictures at their
 * edges.
 */
static int
height_of(const Bed *bed)
{
    return bed->info->spatial > 16 ? 2 * bed->info->spatial : 32;
}

static size_t
snapshots(const VaeMachine *m)
{
    size_t bytes = 0;
    for (int i = 0; i < VAE_SNAPSHOTS; i++)
        bytes += asked_for(m->carries.snapshots[i].device);
    return bytes;
}

/* A decoder with a smaller look-ahead computes the end of a clip after each
 * step. In 16 bits it may compute steps again in fp32. Both need copies of the
 * carries. */
static void
check_snapshots(const Bed *bed)
{
    static const char label[] = "a smaller look-ahead and the fallback";
    SCOPED_STREAM VaeStream *s =
        bed_stream(bed, (VaeStreamParams){.width = W,
                                          .height = height_of(bed),
                                          .slice_size = 1,
                                          .nan_policy = VAE_NAN_FALLBACK,
                                          .low_latency = true,
                                          .look_ahead = 1});
    const VaePlan *plan = vae_stream_get_plan(s);
    const uint64_t other = s->main.wide ? s->main.wide->plan.total : 0;
    const uint64_t n = s->main.wide ? 2 : 1;
    same(label, "copies of the carries", plan->fallback - other,
         snapshots(&s->main));
    same(label, "their number", snapshots(&s->main), n * plan->carries);
    if (s->main.wide)
        same(label, "copies of the fallback", s->main.wide->plan.fallback,
             snapshots(s->main.wide));
}

static size_t
count_ops(const VaeStream *s)
{
    size_t n = 0;
    for (int i = 0; i < PROGRAMS; i++)
        n += s->main.programs[i] ? (size_t) s->main.programs[i]->n_ops : 0;
    return n;
}

/* Steps of a slice, frames at once, strips of rows, and the size of tiles. 0:
 * all frames, whole pictures, no tiles. */
typedef struct Way {
    int slice, frames, strips, tiles;
} Way;

static uint64_t
cached_weights(const Bed *bed)
{
    uint64_t bytes = 0;
    for (const VaeCachedWeight *k = bed->model->weights.first; k; k = k->next)
        bytes += asked_for(k->blob);
    return bytes;
}

/* Compares each purpose of the plan with the memory of the open stream. */
static void
check_purposes(const char *label, const VaePlan *plan, const Bed *bed,
               const VaeStream *s)
{
    same(label, "weights", plan->weights, cached_weights(bed));
    same(label, "carries", plan->carries, asked_for(s->main.memory.carries));
    same(label, "activations", plan->arena, asked_for(s->main.memory.arena));
    /* Without a scratch, the stream allocates a block of 1 byte. */
    const size_t scratch = asked_for(s->main.memory.scratch);
    same(label, "scratch", plan->scratch, scratch > 1 ? scratch : 0);
    same(label, "staging", plan->staging, 0);
    same(label, "host memory of tiles", plan->tiled,
         asked_for(s->main.tiles.carries) + asked_for(s->main.tiles.block) +
             asked_for(s->window.results));
    same(label, "loading", plan->loading, loading_peak);
    uint64_t history = s->main.history.now ? sizeof *s->main.history.now : 0;
    for (int i = 0; i < s->main.history.places.n; i++)
        history += asked_for(s->main.history.places.blocks[i]);
    same(label, "history", plan->history, history);
    same(label, "total", plan->total,
         plan->weights + plan->carries + plan->history + plan->arena +
             plan->scratch + plan->library + plan->tiled + plan->ops);
}

/* Programs share equal primitives, so the memory of the library does not depend
 * on the slices. It depends on strips, which the plan lacks if the library
 * cannot compute them. */
static void
check_library(const char *label, const VaePlan *plan, Way way)
{
    uint64_t *library = &libraries[plan->strips > 0];
    if (way.slice == 1 || way.tiles || !*library)
        *library = plan->library;
    same(label, "library", plan->library, *library);
    expect((plan->library > 0) == (plan->backend == VAE_BACKEND_CPU),
           "%s: the library's own %llu bytes", label,
           (unsigned long long) plan->library);
}

/* A layer has primitives for its first strip, for the others and for the last
 * one, or for whole groups of frames and for a smaller one. */
static void
check_primitives(const char *label, const VaeStream *s)
{
    int most = 0;
    for (int i = 0; i < PROGRAMS; i++) {
        const VaeExec *e = s->main.execs[i];
        for (int k = 0; e && k < e->program->n_ops; k++) {
            const VaeWeight *weight = e->program->ops[k].weight;
            int n = 0;
            for (int j = 0; weight && j < e->program->n_ops; j++)
                n += e->program->ops[j].weight == weight &&
                     e->ops[j].own_free != NULL;
            most = n > most ? n : most;
        }
    }
    expect(most <= 3, "%s: up to %d primitives of a layer", label, most);
}

/* Steps allocate nothing, in calls of each size. The program of the last tile
 * of a clip is that of another clip of this length. */
static void
check_steps(const char *label, const Bed *bed, VaeDirection direction,
            VaeStream *s)
{
    static const int steps[] = {1, 2, 3, 0};
    TestClip clip = bed_clip(bed, 6, W, height_of(bed), 1);
    if (bed->info->in_tiles) {
        run_clip(bed, s, direction, &clip, steps);
        vae_stream_reset(s);
    }
    const size_t open = bytes_live;
    run_clip(bed, s, direction, &clip, steps);
    same(label, "allocated by steps", 0, bytes_live - open);
    clip_free(&clip);
}

static void
check_stream(Bed *bed, VaeDirection direction, Way way, const char *type)
{
    VaeError error;
    VaePlan plan = VAE_INIT(VaePlan);
    char label[64];
    snprintf(label, sizeof label,
             "%s, %s, slices of %d, %d frames, %d strips%s",
             direction == VAE_DECODE ? "decode" : "encode", type, way.slice,
             way.frames, way.strips, way.tiles ? ", tiles" : "");
    const VaeStreamParams params = {.struct_size = sizeof(VaeStreamParams),
                                    .direction = direction,
                                    .backend = bed->backend,
                                    .precision = bed->precision,
                                    .width = W,
                                    .height = height_of(bed),
                                    .slice_size = way.slice,
                                    .frames_at_once = way.frames,
                                    .strips = way.strips,
                                    .threads = 2,
                                    .tiles = way.tiles > 0,
                                    .tile_width = way.tiles,
                                    .restarts = way.slice == 2};
    must(vae_stream_plan(bed->model, &params, &plan, &error), &error);
    loading_peak = 0;
    const size_t before = bytes_live;
    VaeStream *s = bed_stream(bed, params);
    const uint64_t weights = cached_weights(bed);
    check_purposes(label, &plan, bed, s);
    check_library(label, &plan, way);
    check_primitives(label, s);
    expect((plan.tiles > 1) == (way.tiles > 0), "%s: %d tiles", label,
           plan.tiles);
    /* The rest is the structs of the stream, and of the network. */
    const size_t rest =
        bytes_live - before - (size_t) (plan.total - plan.library);
    const size_t most = ((size_t) 256 << 10) + 900 * count_ops(s);
    expect(rest < most, "%s: %zu bytes of structs, at most %zu", label, rest,
           most);
    check_steps(label, bed, direction, s);
    vae_stream_free(&s);
    same(label, "still allocated, apart from the weights", weights,
         bytes_live - before);
}

/* Weights are kept once per model, so each direction opens a model of its own.
 * path NULL: generated weights. every: tests each n-th way. */
static void
check_file(const char *path, char **argv, const char *type, size_t every)
{
    static const Way ways[] = {
        {1, 0, 0, 0}, {2, 0, 0, 0}, {4, 0, 0, 0},  {1, 2, 0, 0},  {1, 1, 0, 0},
        {1, 0, 3, 0}, {2, 1, 5, 0}, {2, 0, 0, 32}, {2, 1, 2, 32},
    };
    for (int d = 0; d < 2; d++)
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i += every) {
            Bed bed;
            VaeError error;
            bed_open(&bed, argv[1], argv[2], argv[3]);
            if ((ways[i].tiles && bed.info->delay &&
                 (!d || bed.info->in_tiles)) ||
                (d && !bed.info->has_encoder)) {
                vae_model_free(&bed.model);
                continue; /* no tiles */
            }
            if (path) {
                vae_model_free(&bed.model);
                must(vae_model_open(path, NULL, &bed.model, &error), &error);
                bed.info = vae_model_info(bed.model);
            }
            check_stream(&bed, d ? VAE_ENCODE : VAE_DECODE, ways[i], type);
            if (bed.info->delay && !bed.info->in_tiles && i + d == 0)
                check_snapshots(&bed);
            vae_model_free(&bed.model);
        }
}

static void
check_types(char **argv)
{
    static const VaeType types[] = {VAE_TYPE_F32, VAE_TYPE_BF16, VAE_TYPE_F16};
    char folder[] = "/tmp/vae-plan-XXXXXX", path[64];
    Bed bed;
    VaeError error;
    if (!mkdtemp(folder)) {
        perror(folder);
        exit(1);
    }
    snprintf(path, sizeof path, "%s/weights.safetensors", folder);
    bed_open(&bed, argv[1], argv[2], argv[3]);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        must(vae_model_write(bed.model, path, types[i], &error), &error);
        check_file(path, argv, vae_type_name(types[i]), 1);
        unlink(path);
    }
    rmdir(folder);
    vae_model_free(&bed.model);
}

int
main(int argc, char **argv)
{
    if (argc != 4 && argc != 5) {
        fprintf(stderr, "usage: plan MODEL BACKEND PRECISION [types | few]\n");
        return 2;
    }
    if (argc == 5 && strcmp(argv[4], "types") == 0)
        check_types(argv);
    else
        check_file(NULL, argv, "generated weights", argc == 5 ? 3 : 1);
    return tests_end();
}

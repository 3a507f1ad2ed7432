/*
 * so_far.c: a network whose attention reads all earlier latents: how far it
 * looks back, that slices, threads and dropped results change no byte, the
 * memory of its history, and what happens at the limit.
 *
 * so_far MODEL BACKEND PRECISION. MODEL is "so-far" (toy.h).
 */
#include "../streams.h"

#include "model.h"
#include "stream.h"

enum { W = 8, H = 6, STEPS = 8, CHANGED = 1 };
static const int threes[] = {3, 0};

static VaeStreamParams
params_of(VaeDirection direction, int history)
{
    return (VaeStreamParams){.direction = direction,
                             .width = W,
                             .height = H,
                             .slice_size = 3,
                             .history = history};
}

static const char *
name_of(VaeDirection direction)
{
    return direction == VAE_DECODE ? "decode" : "encode";
}

/* The numbers of step k's unit in or out, from the first one on. */
static size_t
numbers_before(const Bed *bed, VaeDirection direction, int k, bool in)
{
    const int side = bed->info->spatial;
    const bool latents = (direction == VAE_DECODE) == in;
    return (size_t) units_before(bed, direction, k, in) *
           (latents
                ? (size_t) bed->info->latent_channels * (W / side) * (H / side)
                : (size_t) W * H * 3);
}

/* The last step whose results change with the input of step CHANGED. */
static int
last_changed(const Bed *bed, VaeDirection direction, int history)
{
    SCOPED_CLIP TestClip a = bed_clip(bed, STEPS, W, H, 0);
    SCOPED_CLIP TestClip b = bed_clip(bed, STEPS, W, H, 0);
    SCOPED_STREAM VaeStream *s = bed_stream(bed, params_of(direction, history));
    float *in = direction == VAE_DECODE ? b.latents : b.video;
    for (size_t i = numbers_before(bed, direction, CHANGED, true);
         i < numbers_before(bed, direction, CHANGED + 1, true); i++)
        in[i] = 1 - in[i];
    run_clip(bed, s, direction, &a, threes);
    vae_stream_reset(s);
    run_clip(bed, s, direction, &b, threes);
    size_t n;
    const float *x = clip_result(bed, &a, direction, &n);
    const float *y = clip_result(bed, &b, direction, &n);
    int last = -1;
    for (int k = 0; k < STEPS; k++) {
        const size_t from = numbers_before(bed, direction, k, false);
        const size_t to = numbers_before(bed, direction, k + 1, false);
        if (memcmp(x + from, y + from, (to - from) * sizeof *x) != 0)
            last = k;
    }
    return last;
}

/* A convolution of the toy also reads the step before. */
static void
check_reach(const Bed *bed, VaeDirection direction)
{
    VaeError error;
    for (int history = 0; history <= 4; history++) {
        int back;
        must(vae_model_looks_back(
                 bed->model,
                 &(VaeStreamParams){.direction = direction, .history = history},
                 &back, &error),
             &error);
        const int last = last_changed(bed, direction, history);
        const int expected = history ? CHANGED + history : STEPS - 1;
        expect(last == expected, "%s, history %d: changes up to step %d",
               name_of(direction), history, last);
        expect(back == (history ? history : VAE_FROM_START),
               "%s, history %d: looks back %d steps", name_of(direction),
               history, back);
    }
}

/* ref has one thread. Only cuda spills. */
static void
check_slices(const Bed *bed, VaeDirection direction, int history)
{
    static const struct {
        int slice, frames, threads, calls[3];
        VaeSpill spill;
    } ways[] = {{1, 0, 1, {1, 0}, VAE_SPILL_OFF},
                {2, 0, 2, {5, 2, 0}, VAE_SPILL_OFF},
                {3, 1, 3, {2, 3, 0}, VAE_SPILL_HOST},
                {1, 0, 1, {8, 0}, VAE_SPILL_HOST},
                {7, 2, 1, {8, 0}, VAE_SPILL_AUTO}};
    SCOPED_CLIP TestClip want = bed_clip(bed, STEPS, W, H, 1);
    SCOPED_CLIP TestClip got = bed_clip(bed, STEPS, W, H, 1);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        VaeStreamParams params = params_of(direction, history);
        char what[80];
        params.slice_size = ways[i].slice;
        params.frames_at_once = ways[i].frames;
        params.spill = ways[i].spill;
        params.threads = bed->backend == VAE_BACKEND_CPU ? ways[i].threads : 1;
        SCOPED_STREAM VaeStream *s = bed_stream(bed, params);
        clip_poison(bed, &got, direction);
        run_clip(bed, s, direction, i ? &got : &want, ways[i].calls);
        snprintf(what, sizeof what, "%s, history %d, slices of %d",
                 name_of(direction), history, ways[i].slice);
        if (i)
            same_result(bed, &got, &want, direction, what);
    }
}

/* A stream that frees the memory of its device, and continues. */
static void
check_release(const Bed *bed, VaeDirection direction, int history,
              VaeSpill spill)
{
    VaeStreamParams params = params_of(direction, history);
    params.spill = spill;
    SCOPED_CLIP TestClip want = bed_clip(bed, STEPS, W, H, 1);
    SCOPED_CLIP TestClip got = bed_clip(bed, STEPS, W, H, 1);
    SCOPED_STREAM VaeStream *s = bed_stream(bed, params);
    const bool decode = direction == VAE_DECODE;
    const int half = STEPS / 2;
    TestClip head = got, tail = got;
    VaeError error;
    run_clip(bed, s, direction, &want, threes);
    vae_stream_reset(s);
    clip_poison(bed, &got, direction);
    head.t = units_before(bed, direction, half, decode);
    head.frames = units_before(bed, direction, half, !decode);
    tail.t -= head.t;
    tail.frames -= head.frames;
    tail.latents += numbers_before(bed, direction, half, decode);
    tail.video += numbers_before(bed, direction, half, !decode);
    run_clip(bed, s, direction, &head, threes);
    must(vae_stream_release(s, &error), &error);
    expect(s->main.history.places.n == 0 || !s->main.class->memory_left,
           "%s: no blocks while the memory is free", name_of(direction));
    run_clip(bed, s, direction, &tail, threes);
    same_result(bed, &got, &want, direction, "after a release");
}

/* Results that the caller drops leave keys and values all the same. */
static void
check_warm_up(const Bed *bed, VaeDirection direction, int history)
{
    enum { DROPPED = 5 };
    SCOPED_CLIP TestClip want = bed_clip(bed, STEPS, W, H, 1);
    SCOPED_CLIP TestClip got = bed_clip(bed, STEPS, W, H, 1);
    SCOPED_STREAM VaeStream *all =
        bed_stream(bed, params_of(direction, history));
    SCOPED_STREAM VaeStream *s = bed_stream(bed, params_of(direction, history));
    size_t bytes;
    run_clip(bed, all, direction, &want, threes);
    vae_stream_warm_up(s, DROPPED);
    run_clip(bed, s, direction, &got, threes);
    const size_t from = numbers_before(bed, direction, DROPPED, false);
    const float *x = clip_result(bed, &want, direction, &bytes);
    const float *y = clip_result(bed, &got, direction, &bytes);
    expect(memcmp(x + from, y + from, bytes - from * sizeof *x) == 0,
           "%s, history %d: the bytes after %d dropped steps",
           name_of(direction), history, DROPPED);
}

/* ------------------------------------------------------------------ */

/* The latents that fit into the limit. */
static int
latents_within(const VaeStream *s, uint64_t limit)
{
    const VaePlan *p = vae_stream_get_plan(s);
    int n = 0;
    while (p->total - p->history +
               vae_history_bytes(&s->main.history, (uint64_t) n + 1) <=
           limit)
        n++;
    return n;
}

/* Runs two sequences in a stream with this limit, in calls of three steps and
 * of one, and compares with `want`. */
static void
run_to_limit(const Bed *bed, VaeDirection direction, uint64_t limit,
             const TestClip *want)
{
    static const int ones[] = {1, 0};
    VaeStreamParams params = params_of(direction, 0);
    params.memory_limit = (size_t) limit;
    params.spill = VAE_SPILL_OFF;
    SCOPED_STREAM VaeStream *s = bed_stream(bed, params);
    SCOPED_CLIP TestClip got = bed_clip(bed, want->t, W, H, 0);
    const VaeStreamStats *stats = vae_stream_stats(s);
    const int fit = latents_within(s, limit);
    const int due = units_before(bed, direction, fit, false);
    for (int round = 0; round < 2; round++) {
        const uint64_t before = stats->units_out;
        VaeError error = {0};
        clip_poison(bed, &got, direction);
        const VaeStatus status =
            try_run(bed, s, direction, &got, round ? ones : threes, &error);
        const int out = (int) (stats->units_out - before);
        size_t n;
        const float *x = clip_result(bed, want, direction, &n);
        const float *y = clip_result(bed, &got, direction, &n);
        n = numbers_before(bed, direction, fit, false) * sizeof *x;
        expect(status == VAE_ERR_MEMORY && strstr(error.message, "history"),
               "%s at the limit: %s", name_of(direction), error.message);
        expect(out == due && fit < want->t && memcmp(x, y, n) == 0,
               "%s: %d of %d units that are due, with the same bytes",
               name_of(direction), out, due);
        vae_stream_reset(s);
        expect(s->main.history.places.n == 1, "%s: %d block left after a reset",
               name_of(direction), s->main.history.places.n);
    }
}

static void
check_limit(const Bed *bed, VaeDirection direction)
{
    SCOPED_STREAM VaeStream *all = bed_stream(bed, params_of(direction, 0));
    const VaePlan *plan = vae_stream_get_plan(all);
    const int fit = latents_within(all, plan->peak);
    const size_t site =
        (size_t) W / bed->info->spatial * H / bed->info->spatial;
    SCOPED_CLIP TestClip want = bed_clip(bed, fit + 4, W, H, 0);
    expect(plan->history_latent ==
               site * 2 * 8 * vae_type_size(vae_act_type(plan->precision)),
           "%s: %d bytes for a latent", name_of(direction),
           (int) plan->history_latent);
    run_clip(bed, all, direction, &want, threes);
    run_to_limit(bed, direction, plan->peak, &want);
    VaeStreamParams params = params_of(direction, 2);
    params.memory_limit = (size_t) plan->peak;
    SCOPED_STREAM VaeStream *two = bed_stream(bed, params);
    run_clip(bed, two, direction, &want, threes);
    expect(two->main.history.places.n == 1, "%s, history 2: one block",
           name_of(direction));
}

/* ------------------------------------------------------------------ */

enum { LONG = 36 }; /* latents, in three blocks */

/* Two sequences of a stream that spills all of the history, or the blocks that
 * do not fit into the limit. */
static void
run_spilled(const Bed *bed, VaeDirection direction, VaeSpill spill,
            uint64_t limit, const TestClip *want)
{
    VaeStreamParams params = params_of(direction, 0);
    params.memory_limit = (size_t) limit;
    params.spill = spill;
    SCOPED_STREAM VaeStream *s = bed_stream(bed, params);
    SCOPED_CLIP TestClip got = bed_clip(bed, LONG, W, H, 0);
    const VaeHistoryPlaces *places = &s->main.history.places;
    const bool all = spill == VAE_SPILL_HOST;
    for (int round = 0; round < 2; round++) {
        clip_poison(bed, &got, direction);
        run_clip(bed, s, direction, &got, threes);
        same_result(bed, &got, want, direction, "a spilled history");
        expect(places->n == (LONG + 15) / 16 && places->n > places->on_device &&
                   (places->on_device == 0) == all,
               "%s: %d of %d blocks on the device", name_of(direction),
               places->on_device, places->n);
        vae_stream_reset(s);
        expect(places->n == 1 && places->on_device == !all,
               "%s: one block left after a reset", name_of(direction));
    }
}

/* What the device cannot hold is spilled. */
static void
check_spilled(const Bed *bed, VaeDirection direction)
{
    SCOPED_STREAM VaeStream *all = bed_stream(bed, params_of(direction, 0));
    SCOPED_CLIP TestClip want = bed_clip(bed, LONG, W, H, 0);
    const VaePlan *plan = vae_stream_get_plan(all);
    const uint64_t block = 16 * plan->history_latent;
    VaePlan on_host = VAE_INIT(VaePlan);
    VaeError error;
    if (!all->main.class->copy)
        return;
    run_clip(bed, all, direction, &want, threes);
    run_spilled(bed, direction, VAE_SPILL_HOST, 0, &want);
    run_spilled(bed, direction, VAE_SPILL_AUTO, plan->peak, &want);
    VaeStreamParams params = all->main.params;
    params.spill = VAE_SPILL_HOST;
    must(vae_stream_plan(bed->model, &params, &on_host, &error), &error);
    expect(on_host.history + 2 * block == plan->history &&
               on_host.history_spilled == 2 * block &&
               plan->history_spilled == 0,
           "%s: %llu bytes of history on the device, %llu on the host",
           name_of(direction), (unsigned long long) on_host.history,
           (unsigned long long) on_host.history_spilled);
}

/* ------------------------------------------------------------------ */

static void
refused(const Bed *bed, VaeStreamParams params, const char *words)
{
    VaeStream *s = NULL;
    VaeError error = {0};
    params.struct_size = sizeof params;
    params.backend = bed->backend;
    params.precision = bed->precision;
    const VaeStatus status = vae_stream_new(bed->model, &params, &s, &error);
    expect(status == VAE_ERR_UNSUPPORTED && strstr(error.message, words), "%s",
           error.message);
    vae_stream_free(&s);
    params.history = 1;
    must(vae_stream_new(bed->model, &params, &s, &error), &error);
    vae_stream_free(&s);
}

int
main(int argc, char **argv)
{
    Bed bed;
    bed_open_main(&bed, argc, argv);
    for (int d = 0; d < 2; d++) {
        const VaeDirection direction = d ? VAE_ENCODE : VAE_DECODE;
        VaeStreamParams params = params_of(direction, 0);
        check_reach(&bed, direction);
        check_slices(&bed, direction, 0);
        check_slices(&bed, direction, 3);
        check_warm_up(&bed, direction, 0);
        check_warm_up(&bed, direction, 3);
        check_release(&bed, direction, 0, VAE_SPILL_AUTO);
        check_release(&bed, direction, 3, VAE_SPILL_AUTO);
        check_release(&bed, direction, 0, VAE_SPILL_HOST);
        check_release(&bed, direction, 3, VAE_SPILL_HOST);
        check_limit(&bed, direction);
        check_spilled(&bed, direction);
        params.tiles = VAE_TILES_BLEND;
        params.tile_height = 4;
        refused(&bed, params, "tiles");
        params.tiles = VAE_TILES_OFF;
        params.nan_policy = VAE_NAN_FALLBACK;
        if (bed.precision == VAE_PRECISION_BF16)
            refused(&bed, params, "fallback");
    }
    return bed_close(&bed);
}

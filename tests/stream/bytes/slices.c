/*
 * slices.c: the bytes do not depend on the slice size, on the number of frames
 * computed at once, on strips of rows, or on carries in host memory. A
 * checkpoint that is written with one of these settings can be loaded with
 * another.
 *
 * slices [few] MODEL BACKEND PRECISION LATENTS WIDTH HEIGHT THREADS...
 *   few  fewer strips, and no pictures of an odd size
 */
#include "../streams.h"

static uint32_t
fingerprint(const void *data, size_t n)
{
    const uint8_t *p = data;
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 16777619u;
    return h;
}

/* Checks which programs have run. Without this check, all slice sizes might run
 * the same programs. chunk: number of latents after which an encoder begins
 * again, or 0. A run ends at the end of a chunk and of a call. */
static void
expect_runs(const VaeStream *stream, int steps, int slice, int chunk)
{
    const VaeStreamStats s = *vae_stream_stats(stream);
    int first = 1, next = (steps - 1) / slice, next1 = (steps - 1) % slice;
    if (chunk) {
        slice = slice < chunk ? slice : chunk - 1;
        first = (steps + chunk - 1) / chunk;
        next = (int) s.runs_next;
        next1 = steps - first - next * slice;
        expect(next > 0, "  %d runs of whole slices", next);
    }
    expect((int) s.runs_first == first && (int) s.runs_next == next &&
               (int) s.runs_next1 == next1,
           "  programs run: first %llu, next %llu (of %d steps), next1 %llu",
           (unsigned long long) s.runs_first, (unsigned long long) s.runs_next,
           slice, (unsigned long long) s.runs_next1);
}

/* Networks with a delay, and those of bed_adds_context(), compute all frames of
 * a slice at once. All slices of this test have more than `frames`. If the
 * library of this machine has no strips, the plan says so. */
static void
expect_cuts(const Bed *bed, const VaeStream *stream, VaeDirection direction,
            int frames, int strips)
{
    const VaePlan *plan = vae_stream_get_plan(stream);
    const bool can = !bed_adds_context(bed, direction) && !plan->delay &&
                     bed->info->temporal > 1;
    expect(plan->frames_at_once == (can ? frames : 0), "  %d frames at once",
           plan->frames_at_once);
    strips = strips > 1 ? strips : 0;
    expect(plan->strips == strips ||
               (plan->strips == 0 && (!can || plan->whole > 0)),
           "  %d strips, %d large layers are not in strips", plan->strips,
           plan->whole);
}

/* More frames at once than any slice has. */
enum { ALL = 1000 };

/* The settings with which a clip is computed. */
typedef struct Way {
    int slice, frames, strips; /* frames at once; 0: all */
    const int *calls;
    bool count; /* checks which programs ran */
    VaeSpill spill;
    size_t limit;  /* bytes, with which a part of the carries is spilled */
    bool restarts; /* the stream can begin without context */
} Way;

/* With a memory limit, the stream would choose frames and strips that are 0, so
 * they get other values. */
static VaeStreamParams
params_of(const Bed *bed, VaeDirection direction, const TestClip *input,
          const Way *way)
{
    const bool set = way->limit > 0;
    return (VaeStreamParams){
        .struct_size = sizeof(VaeStreamParams),
        .direction = direction,
        .backend = bed->backend,
        .precision = bed->precision,
        .threads = bed->threads,
        .width = input->width,
        .height = input->height,
        .slice_size = way->slice,
        .frames_at_once = set && !way->frames ? ALL : way->frames,
        .strips = set && !way->strips ? 1 : way->strips,
        .spill = way->spill,
        .memory_limit = way->limit,
        .restarts = way->restarts,
        .deterministic = true,
    };
}

static VaeStream *
open_way(const Bed *bed, VaeDirection direction, const TestClip *input,
         const Way *way)
{
    return bed_stream(bed, params_of(bed, direction, input, way));
}

/* Returns the clip with new memory for the results. */
static TestClip
clip_into(const Bed *bed, VaeDirection direction, const TestClip *input,
          TestClip *results)
{
    TestClip clip = *input;
    clip_poison(bed, results, direction);
    if (direction == VAE_DECODE)
        clip.video = results->video;
    else
        clip.latents = results->latents;
    return clip;
}

static void
expect_plan(const Bed *bed, const VaeStream *stream, VaeDirection direction,
            const Way *way)
{
    const VaePlan *plan = vae_stream_get_plan(stream);
    expect_cuts(bed, stream, direction, way->frames, way->strips);
    if (way->limit && plan->carries > 0)
        expect(plan->spilled > 0 && plan->spilled < plan->carries,
               "  a part of the carries is spilled");
    else
        expect(plan->spilled ==
                   (way->spill == VAE_SPILL_HOST ? plan->carries : 0),
               "  %llu of %llu bytes of carries spilled",
               (unsigned long long) plan->spilled,
               (unsigned long long) plan->carries);
}

static void
one_way(const Bed *bed, VaeDirection direction, const TestClip *input,
        const TestClip *want, Way way)
{
    SCOPED_CLIP TestClip results =
        bed_clip(bed, input->t, input->width, input->height, 0);
    size_t bytes;
    char what[160];
    const TestClip clip = clip_into(bed, direction, input, &results);
    SCOPED_STREAM VaeStream *stream = open_way(bed, direction, input, &way);
    run_clip(bed, stream, direction, &clip, way.calls);
    const void *got = clip_result(bed, &clip, direction, &bytes);
    snprintf(what, sizeof what,
             "%s, %d threads, slice %d, %d frames, %d strips, calls of %d,%d.. "
             "%08x",
             direction == VAE_DECODE ? "decode" : "encode", bed->threads,
             way.slice, way.frames, way.strips, way.calls[0], way.calls[1],
             fingerprint(got, bytes));
    same_result(bed, &clip, want, direction, what);
    /* With a delay, the end of the sequence runs programs, too. */
    if (way.count && !vae_stream_get_plan(stream)->delay)
        expect_runs(stream, input->t, way.slice,
                    direction == VAE_ENCODE ? bed->info->chunk : 0);
    expect_plan(bed, stream, direction, &way);
}

/* ------------------------------------------------------------------ */
/* Tests each slice size with each setting of frames, strips and carries, from
 * the start of a sequence and without context. The picture has an odd size. */

enum { STEPS = 4, HEAD = 2, WIDTH = 7, HEIGHT = 13 };

typedef struct Cells {
    const Bed *bed;
    VaeDirection direction;
    bool without_context; /* begins without context */
    TestClip input, results, want;
    VaeCheckpointParams file;
    bool saved; /* the previous cell has saved a checkpoint */
    int halves; /* cells with about half of the carries spilled */
} Cells;

/* Returns steps from .. to - 1 of the clip. The last groups of frames may be
 * incomplete. */
static TestClip
steps_of(const Cells *c, const TestClip *clip, int from, int to)
{
    const bool decode = c->direction == VAE_DECODE;
    const VaeModelInfo *info = c->bed->info;
    const int step = decode ? info->decode.step_out : info->encode.step_in;
    int frames[] = {from * step, to * step};
    if (!c->without_context) {
        frames[0] = units_before(c->bed, c->direction, from, !decode);
        frames[1] = units_before(c->bed, c->direction, to, !decode);
    }
    if (frames[1] > clip->frames)
        frames[1] = clip->frames;
    TestClip part = *clip;
    part.t = from;
    part.latents += clip_latent_count(c->bed, &part);
    part.frames = frames[0];
    part.video += clip_video_count(&part);
    part.t = to - from;
    part.frames = frames[1] - frames[0];
    return part;
}

static void
run_steps(const Cells *c, VaeStream *stream, const TestClip *clip, int from,
          int to)
{
    static const int calls[] = {STEPS, 0};
    const TestClip part = steps_of(c, clip, from, to);
    run_clip(c->bed, stream, c->direction, &part, calls);
}

/* Returns the memory limit with which a stream spills half of its carries. 0:
 * it would spill more, because it has few and small carries. */
static size_t
half_spilled(const Cells *c, const Way *way)
{
    Way whole = *way;
    VaeError error;
    whole.spill = VAE_SPILL_OFF;
    VaeStreamParams params = params_of(c->bed, c->direction, &c->input, &whole);
    VaePlan plan = plan_of(c->bed->model, &params);
    params.spill = VAE_SPILL_AUTO;
    params.memory_limit = (size_t) (plan.peak - plan.carries / 2);
    return vae_stream_plan(c->bed->model, &params, &plan, &error) == VAE_OK
               ? params.memory_limit
               : 0;
}

/* Computes the first steps. Saves a checkpoint for the next cell, but not
 * without context, which another test checks. */
static void
begin(Cells *c, VaeStream *stream, const TestClip *clip)
{
    VaeError error;
    vae_stream_reset(stream);
    if (c->without_context)
        must(vae_stream_restart(stream, 0, &error), &error);
    run_steps(c, stream, clip, 0, HEAD);
    if (!c->without_context)
        must(vae_stream_save(stream, &c->file, &error), &error);
    c->saved = !c->without_context;
}

/* Continues from the previous cell, then computes the clip from its start. */
static void
one_cell(Cells *c, const Way *way)
{
    VaeError error;
    VaeCheckpoint found = VAE_INIT(VaeCheckpoint);
    char what[160];
    SCOPED_STREAM VaeStream *stream =
        open_way(c->bed, c->direction, &c->input, way);
    TestClip clip = c->input;
    snprintf(what, sizeof what,
             "%s, %d threads, odd size, %s, slice %d, %d frames, %d strips, "
             "spill %d%s",
             c->direction == VAE_DECODE ? "decode" : "encode", c->bed->threads,
             c->without_context ? "no context" : "from the start", way->slice,
             way->frames, way->strips, way->spill,
             way->limit ? " in part" : "");
    for (int moved = c->saved; moved >= 0; moved--) {
        clip = clip_into(c->bed, c->direction, &c->input, &c->results);
        if (moved)
            must(vae_stream_load(stream, &c->file, &found, &error), &error);
        else
            begin(c, stream, &clip);
        run_steps(c, stream, &clip, HEAD, STEPS);
        const int from = moved ? HEAD : 0;
        const TestClip got = steps_of(c, &clip, from, STEPS);
        const TestClip want = steps_of(c, &c->want, from, STEPS);
        same_result(c->bed, &got, &want, c->direction, what);
    }
    expect_plan(c->bed, stream, c->direction, way);
}

static void
all_ways(Cells *c)
{
    const bool cuda = c->bed->backend == VAE_BACKEND_CUDA;
    static const Way ways[] = {{.slice = 1},
                               {.slice = 1, .frames = 1, .strips = 3},
                               {.slice = 2},
                               {.slice = 2, .frames = 2, .strips = 5}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        for (int spill = 0; spill < (cuda ? 3 : 1); spill++) {
            Way way = ways[i];
            way.restarts = c->without_context;
            way.spill = spill == 1 ? VAE_SPILL_HOST : VAE_SPILL_AUTO;
            way.limit = spill == 2 ? half_spilled(c, &way) : 0;
            c->halves += way.limit > 0;
            if (spill < 2 || way.limit)
                one_cell(c, &way);
        }
    /* taew2_1 has the fewest, with only the own kernels. */
    expect(!cuda || c->halves >= (getenv("VAE_CUDA_CONV") ? 2 : 4),
           "  %d cells with half of the carries spilled", c->halves);
}

/* Networks with delays or chunks cannot run these steps. */
static void
all_cells(const Bed *bed, VaeDirection direction)
{
    char path[] = "/tmp/vae-slices-XXXXXX";
    const int fd = mkstemp(path);
    const bool late =
        bed->info->in_tiles || (direction == VAE_DECODE && bed->info->delay);
    const bool steps = !bed->info->chunk && !late;
    for (int without_context = 0; without_context < 2 && steps;
         without_context++) {
        SCOPED_CLIP TestClip input =
            without_context
                ? bed_later_clip(bed, direction, STEPS, WIDTH, HEIGHT, 0)
                : bed_clip(bed, STEPS, WIDTH, HEIGHT, 0);
        SCOPED_CLIP TestClip want = bed_clip(bed, STEPS + 1, WIDTH, HEIGHT, 0);
        SCOPED_CLIP TestClip got = bed_clip(bed, STEPS + 1, WIDTH, HEIGHT, 0);
        Cells c = {.bed = bed,
                   .direction = direction,
                   .without_context = without_context,
                   .input = input,
                   .results = got,
                   .file = VAE_INIT(VaeCheckpointParams)};
        c.file.path = path;
        c.file.carries = true;
        const Way whole = {.slice = 1, .restarts = without_context};
        SCOPED_STREAM VaeStream *stream =
            open_way(bed, direction, &input, &whole);
        VaeError error;
        if (without_context)
            must(vae_stream_restart(stream, 0, &error), &error);
        c.want = clip_into(bed, direction, &input, &want);
        run_steps(&c, stream, &c.want, 0, STEPS);
        all_ways(&c);
    }
    close(fd);
    unlink(path);
}

/* ------------------------------------------------------------------ */

static void
all_slices(const Bed *bed, VaeDirection direction, int t, int width, int height,
           bool few)
{
    static const int one[] = {1, 0};
    const int whole[] = {t, 0}, uneven[] = {2, 5, 1, 4, 0};
    const int sizes[] = {1, 2, 3, 5, 8};
    SCOPED_CLIP TestClip input = bed_clip(bed, t, width, height, 0);
    SCOPED_CLIP TestClip want = bed_clip(bed, t, width, height, 0);
    /* While this stream is open, the other streams share its weights on the
     * device. */
    SCOPED_STREAM VaeStream *stream =
        bed_stream(bed, (VaeStreamParams){.direction = direction,
                                          .width = width,
                                          .height = height,
                                          .slice_size = 1,
                                          .deterministic = true});
    run_clip(bed, stream, direction, &want, one);
    for (int i = 0; i < 5; i++) {
        const int plan[] = {1, sizes[i], 0};
        if (sizes[i] < t - 1)
            one_way(bed, direction, &input, &want,
                    (Way){sizes[i], 0, 0, plan, true});
    }
    one_way(bed, direction, &input, &want, (Way){t - 1, 0, 0, whole, true});
    one_way(bed, direction, &input, &want, (Way){3, 0, 0, uneven, false});
    for (int frames = 1; frames < 3; frames++)
        one_way(bed, direction, &input, &want, (Way){1, frames, 0, one, true});
    one_way(bed, direction, &input, &want, (Way){3, 5, 0, uneven, false});
    for (int strips = 2; strips <= 8; strips *= few ? 4 : 2) {
        one_way(bed, direction, &input, &want, (Way){1, 0, strips, one, true});
        one_way(bed, direction, &input, &want,
                (Way){3, 0, strips + 1, uneven, false});
        one_way(bed, direction, &input, &want, (Way){1, 1, strips, one, true});
    }
    one_way(bed, direction, &input, &want, (Way){1, 2, 5, one, true});
    one_way(bed, direction, &input, &want, (Way){3, 5, 1000, uneven, false});
    if (bed->backend == VAE_BACKEND_CUDA) {
        one_way(bed, direction, &input, &want,
                (Way){t - 1, 0, 0, whole, true, VAE_SPILL_HOST});
        one_way(bed, direction, &input, &want,
                (Way){3, 1, 5, uneven, false, VAE_SPILL_HOST});
    }
    if (!few)
        all_cells(bed, direction);
}

int
main(int argc, char **argv)
{
    Bed bed;
    setvbuf(stdout, NULL, _IOLBF, 0);
    const bool few = argc > 1 && strcmp(argv[1], "few") == 0;
    argc -= few;
    argv += few;
    if (argc < 8) {
        fprintf(stderr, "usage: slices [few] MODEL BACKEND PRECISION LATENTS "
                        "WIDTH HEIGHT THREADS...\n");
        return 2;
    }
    bed_open(&bed, argv[1], argv[2], argv[3]);
    for (int i = 7; i < argc; i++) {
        bed.threads = atoi(argv[i]);
        for (int d = VAE_DECODE; d <= VAE_ENCODE; d++)
            if (d == VAE_DECODE || bed.info->has_encoder)
                all_slices(&bed, (VaeDirection) d, atoi(argv[4]), atoi(argv[5]),
                           atoi(argv[6]), few);
    }
    vae_model_free(&bed.model);
    return tests_end();
}

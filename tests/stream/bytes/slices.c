/*
 * slices.c: the slice size does not change a byte, nor do the frames that are
 * computed at once, nor strips of rows, nor carries in the host's memory.
 *
 * slices MODEL BACKEND PRECISION LATENTS WIDTH HEIGHT THREADS...
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

/* What must have run: the test means nothing if every slice size ran the
 * same programs. chunk: the latents that an encoder computes from a start of
 * its own, or 0. Then no run goes beyond a chunk, nor beyond a call. */
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

/* True if oneDNN computes each convolution as a matrix product, whose sums
 * depend on the number of rows. */
static bool
only_products(const VaeStream *stream)
{
    VaeProfileRow row;
    for (size_t i = 0; vae_stream_profile_row(stream, i, &row); i++)
        if (strcmp(row.op, "conv") == 0 && !strstr(row.impl, "gemm:"))
            return false;
    return true;
}

/* Networks whose convolutions need context in tensors that are added to are not
 * split, nor are those with a delay. */
static void
expect_cuts(const Bed *bed, const VaeStream *stream, int frames, int strips)
{
    const VaePlan *plan = vae_stream_get_plan(stream);
    const bool can = strncmp(bed->info->arch, "tae", 3) != 0 && !plan->delay;
    expect(plan->frames_at_once == (can ? frames : 0), "  %d frames at once",
           plan->frames_at_once);
    strips = strips > 1 && !only_products(stream) ? strips : 0;
    expect(plan->strips == strips || (!can && plan->strips == 0), "  %d strips",
           plan->strips);
}

/* How a clip is computed. */
typedef struct Way {
    int slice, frames, strips; /* frames at once; 0: all */
    const int *calls;
    bool count; /* the programs that ran */
    VaeSpill spill;
} Way;

static void
one_way(const Bed *bed, VaeDirection direction, const TestClip *input,
        const TestClip *want, Way way)
{
    TestClip clip = *input;
    SCOPED_CLIP TestClip results =
        bed_clip(bed, input->t, input->width, input->height, 0);
    size_t bytes;
    char what[160];
    clip_poison(bed, &results, direction);
    if (direction == VAE_DECODE)
        clip.video = results.video;
    else
        clip.latents = results.latents;
    SCOPED_STREAM VaeStream *stream =
        bed_stream(bed, (VaeStreamParams){.direction = direction,
                                          .width = input->width,
                                          .height = input->height,
                                          .slice_size = way.slice,
                                          .frames_at_once = way.frames,
                                          .strips = way.strips,
                                          .spill = way.spill,
                                          .deterministic = true});
    run_clip(bed, stream, direction, &clip, way.calls);
    const void *got = clip_result(bed, &clip, direction, &bytes);
    snprintf(what, sizeof what,
             "%s, %d threads, slice %d, %d frames, %d strips, spill %d, calls "
             "of %d,%d.. %08x",
             direction == VAE_DECODE ? "decode" : "encode", bed->threads,
             way.slice, way.frames, way.strips, way.spill, way.calls[0],
             way.calls[1], fingerprint(got, bytes));
    same_result(bed, &clip, want, direction, what);
    /* With a delay, the end of the sequence runs programs, too. */
    if (way.count && !vae_stream_get_plan(stream)->delay)
        expect_runs(stream, input->t, way.slice,
                    direction == VAE_ENCODE ? bed->info->chunk : 0);
    expect_cuts(bed, stream, way.frames, way.strips);
    const VaePlan *plan = vae_stream_get_plan(stream);
    expect(plan->spilled == (way.spill == VAE_SPILL_HOST ? plan->carries : 0),
           "  %llu of %llu bytes of carries spilled",
           (unsigned long long) plan->spilled,
           (unsigned long long) plan->carries);
}

/* The carries in the host's memory, in every setting that cuts programs. */
static void
all_spilled(const Bed *bed, VaeDirection direction, const TestClip *input,
            const TestClip *want, int steps)
{
    static const int one[] = {1, 0}, uneven[] = {2, 5, 1, 4, 0};
    const int whole[] = {steps, 0};
    const Way ways[] = {
        {1, 0, 0, one, true},     {steps - 1, 0, 0, whole, true},
        {3, 0, 0, uneven, false}, {1, 2, 0, one, true},
        {1, 0, 3, one, true},     {3, 1, 5, uneven, false},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        Way way = ways[i];
        way.spill = VAE_SPILL_HOST;
        one_way(bed, direction, input, want, way);
    }
}

static void
all_slices(const Bed *bed, VaeDirection direction, int t, int width, int height)
{
    static const int one[] = {1, 0};
    const int whole[] = {t, 0}, uneven[] = {2, 5, 1, 4, 0};
    const int sizes[] = {1, 2, 3, 5, 8};
    SCOPED_CLIP TestClip input = bed_clip(bed, t, width, height, 0);
    SCOPED_CLIP TestClip want = bed_clip(bed, t, width, height, 0);
    VaeStream *stream =
        bed_stream(bed, (VaeStreamParams){.direction = direction,
                                          .width = width,
                                          .height = height,
                                          .slice_size = 1,
                                          .deterministic = true});
    run_clip(bed, stream, direction, &want, one);
    vae_stream_free(&stream);
    for (int i = 0; i < 5; i++) {
        const int plan[] = {1, sizes[i], 0};
        if (sizes[i] < t - 1)
            one_way(bed, direction, &input, &want,
                    (Way){sizes[i], 0, 0, plan, true, 0});
    }
    one_way(bed, direction, &input, &want, (Way){t - 1, 0, 0, whole, true, 0});
    one_way(bed, direction, &input, &want, (Way){3, 0, 0, uneven, false, 0});
    for (int frames = 1; frames < 3; frames++)
        one_way(bed, direction, &input, &want,
                (Way){1, frames, 0, one, true, 0});
    one_way(bed, direction, &input, &want, (Way){3, 5, 0, uneven, false, 0});
    for (int strips = 2; strips <= 8; strips += strips) {
        one_way(bed, direction, &input, &want,
                (Way){1, 0, strips, one, true, 0});
        one_way(bed, direction, &input, &want,
                (Way){3, 0, strips + 1, uneven, false, 0});
        one_way(bed, direction, &input, &want,
                (Way){1, 1, strips, one, true, 0});
    }
    one_way(bed, direction, &input, &want, (Way){1, 2, 5, one, true, 0});
    one_way(bed, direction, &input, &want, (Way){3, 5, 1000, uneven, false, 0});
    if (bed->backend == VAE_BACKEND_CUDA)
        all_spilled(bed, direction, &input, &want, t);
}

int
main(int argc, char **argv)
{
    Bed bed;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 8) {
        fprintf(stderr, "usage: slices MODEL BACKEND PRECISION LATENTS WIDTH "
                        "HEIGHT THREADS...\n");
        return 2;
    }
    bed_open(&bed, argv[1], argv[2], argv[3]);
    for (int i = 7; i < argc; i++) {
        bed.threads = atoi(argv[i]);
        all_slices(&bed, VAE_DECODE, atoi(argv[4]), atoi(argv[5]),
                   atoi(argv[6]));
        if (bed.info->has_encoder)
            all_slices(&bed, VAE_ENCODE, atoi(argv[4]), atoi(argv[5]),
                       atoi(argv[6]));
    }
    vae_model_free(&bed.model);
    return tests_end();
}

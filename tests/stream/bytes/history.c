/*
 * history.c: tests program/receptive_field.c. It says how many steps a result
 * looks back. A stream that begins this number of steps earlier must give the
 * bytes of a stream from the start.
 *
 * history MODEL BACKEND PRECISION
 */
#include "../streams.h"

/* Number of steps after the warm-up that are compared. */
enum { AFTER = 3 };
enum { ALL = VAE_FROM_START };
static const int threes[] = {3, 0}, ones[] = {1, 0};

typedef struct Case {
    const Bed *bed;
    VaeDirection direction;
    const VaeSteps *steps;
    int history, t; /* steps */
    int side;       /* pixels */
    TestClip all;   /* from the start */
} Case;

static VaeStream *
open_stream(const Case *c)
{
    return bed_stream(c->bed, (VaeStreamParams){.direction = c->direction,
                                                .width = c->side,
                                                .height = c->side,
                                                .slice_size = 3,
                                                .restarts = true});
}

/* Returns the number of units before step k of a sequence, in or out. */
static int
before(const Case *c, int k, bool in)
{
    return units_before(c->bed, c->direction, k, in);
}

static size_t
latent_numbers(const Case *c)
{
    const int side = c->side / c->bed->info->spatial;
    return (size_t) side * (size_t) side *
           (size_t) c->bed->info->latent_channels;
}

static size_t
frame_numbers(const Case *c)
{
    return (size_t) c->side * clip_row(&c->all);
}

/* Returns the clip from step k on as a separate sequence, with memory for its
 * own results. */
static TestClip
rest_of(const Case *c, int k)
{
    const bool decode = c->direction == VAE_DECODE;
    TestClip clip = c->all;
    const int latents = before(c, k, decode), frames = before(c, k, !decode);
    clip.t = c->all.t - latents;
    clip.frames = c->all.frames - frames;
    clip.latents += (size_t) latents * latent_numbers(c);
    clip.video += (size_t) frames * frame_numbers(c);
    const size_t n =
        decode ? clip_video_count(&clip) : clip_latent_count(c->bed, &clip);
    float *result = test_alloc(n * sizeof *result);
    *(decode ? &clip.video : &clip.latents) = result;
    clip_poison(c->bed, &clip, c->direction);
    return clip;
}

static void
free_result(const Case *c, TestClip *clip)
{
    free(c->direction == VAE_DECODE ? clip->video : clip->latents);
}

static size_t
out_numbers(const Case *c)
{
    return c->direction == VAE_DECODE ? frame_numbers(c) : latent_numbers(c);
}

/* Decodes or encodes from step k - n on, without context. */
static void
preroll(const Case *c, int k, int n)
{
    TestClip clip = rest_of(c, k - n);
    VaeStream *stream = open_stream(c);
    VaeError error;
    must(vae_stream_restart(stream, (uint64_t) (k - n), &error), &error);
    run_clip(c->bed, stream, c->direction, &clip, threes);
    vae_stream_free(&stream);
    size_t bytes;
    const float *got = clip_result(c->bed, &clip, c->direction, &bytes);
    const float *want = clip_result(c->bed, &c->all, c->direction, &bytes);
    const size_t one = out_numbers(c);
    const size_t at = (size_t) before(c, k, false) * one;
    const size_t left = bytes / sizeof *want - at;
    const size_t skip = at - (size_t) before(c, k - n, false) * one;
    expect(
        memcmp(got + skip, want + at, left * sizeof *want) == 0,
        "from %d steps before step %d: %zu numbers from there on are the same",
        n, k, left);
    free_result(c, &clip);
}

/* Returns the number of operations of the runs of a stream. */
static double
computed(const VaeStream *stream)
{
    VaeProfileRow row;
    double flop = 0;
    for (size_t i = 0; vae_stream_profile_row(stream, i, &row); i++)
        flop += (double) row.calls * row.flop;
    return flop;
}

/* Like preroll(), but vae_stream_warm_up() says that the results before step k
 * are not needed. The stream does not write them, and computes less. */
static void
warm_up(const Case *c, int k, int n, const int *plan)
{
    double flop[2];
    for (int told = 0; told < 2; told++) {
        TestClip clip = rest_of(c, k - n);
        VaeStream *stream = open_stream(c);
        VaeError error;
        vae_stream_profile(stream, true);
        must(vae_stream_restart(stream, (uint64_t) (k - n), &error), &error);
        if (told)
            vae_stream_warm_up(stream, n);
        run_clip(c->bed, stream, c->direction, &clip, plan);
        flop[told] = computed(stream);
        vae_stream_free(&stream);
        size_t bytes;
        const float *got = clip_result(c->bed, &clip, c->direction, &bytes);
        const float *want = clip_result(c->bed, &c->all, c->direction, &bytes);
        const size_t one = out_numbers(c);
        const size_t at = (size_t) before(c, k, false) * one;
        const size_t skip = at - (size_t) before(c, k - n, false) * one;
        expect(memcmp(got + skip, want + at, bytes - at * sizeof *want) == 0,
               "%s %d steps before step %d: the same from there on",
               told ? "a warm-up of" : "without a warm-up,", n, k);
        uint32_t first;
        memcpy(&first, got + skip - 1, sizeof first);
        expect((first == 0xeeeeeeee) == told,
               "the result before it is %swritten", told ? "not " : "");
        free_result(c, &clip);
    }
    const double expected = flop[0] * AFTER / (n + AFTER);
    expect(flop[1] < flop[0],
           "the warm-up has %.1f %% of the operations of as many steps",
           100 * (flop[1] - expected) / (flop[0] - expected));
}

/* Like preroll(), with a new sequence. It needs one more step, because its
 * first step differs. */
static void
preroll_reset(const Case *c, int k, int n)
{
    TestClip clip = rest_of(c, k - n);
    const bool decode = c->direction == VAE_DECODE;
    const int lost_in = c->steps->step_in - c->steps->first_in;
    const int lost_out = c->steps->step_out - c->steps->first_out;
    /* The first step takes the last unit of its group, and gives the last
     * one. */
    clip.video += (size_t) (decode ? 0 : lost_in) * frame_numbers(c);
    clip.frames -= decode ? lost_out : lost_in;
    VaeStream *stream = open_stream(c);
    run_clip(c->bed, stream, c->direction, &clip, threes);
    vae_stream_free(&stream);
    size_t bytes, rest;
    const float *got = clip_result(c->bed, &clip, c->direction, &rest);
    const float *want = clip_result(c->bed, &c->all, c->direction, &bytes);
    const size_t at = (size_t) before(c, k, false) * out_numbers(c);
    const size_t left = bytes - at * sizeof *want;
    expect(memcmp((const char *) got + rest - left, want + at, left) == 0,
           "a sequence from %d steps before step %d: the same from there on", n,
           k);
    free_result(c, &clip);
}

/* True if step k differs from that of the run from the start. */
static bool
differs(const Case *c, const float *result, int k)
{
    size_t bytes;
    const float *all = clip_result(c->bed, &c->all, c->direction, &bytes);
    const size_t one = out_numbers(c);
    const size_t from = (size_t) before(c, k, false) * one;
    const size_t to = (size_t) before(c, k + 1, false) * one;
    return memcmp(result + from, all + from, (to - from) * sizeof *all) != 0;
}

/* A fault in step 2 reaches as many later steps as the network looks back, and
 * no other. NaN passes through norms and sums for any weights. ReLUs stop NaN,
 * and most effects of other numbers. */
static void
reach(const Case *c)
{
    enum { AT = 2 };
    const bool decode = c->direction == VAE_DECODE;
    const bool relu = bed_has_relu(c->bed, c->direction);
    TestClip clip = rest_of(c, 0);
    const int from = before(c, AT, true), to = before(c, AT + 1, true);
    const size_t one = decode ? latent_numbers(c) : frame_numbers(c);
    float *input = (decode ? c->all.latents : c->all.video);
    input += (size_t) from * one;
    const size_t n = (size_t) (to - from) * one;
    float *kept = test_alloc(n * sizeof *kept);
    memcpy(kept, input, n * sizeof *kept);
    for (size_t i = 0; i < n; i++)
        input[i] = relu ? -1000 * input[i] : NAN;
    VaeStream *stream = open_stream(c);
    run_clip(c->bed, stream, c->direction, &clip, threes);
    vae_stream_free(&stream);
    memcpy(input, kept, n * sizeof *kept);
    free(kept);
    size_t bytes;
    const float *got = clip_result(c->bed, &clip, c->direction, &bytes);
    int first = -1, last = -1;
    for (int k = 0; k < c->t; k++)
        if (differs(c, got, k)) {
            first = first < 0 ? k : first;
            last = k;
        }
    expect(first == AT &&
               (relu && c->history > 0 ? last > AT && last <= AT + c->history
                                       : last == AT + c->history),
           "a fault in step %d changes steps %d to %d of %d", AT, first, last,
           c->t);
    free_result(c, &clip);
}

static void
look(const Bed *bed, VaeDirection direction)
{
    const bool decode = direction == VAE_DECODE;
    Case c = {.bed = bed,
              .direction = direction,
              .steps = decode ? &bed->info->decode : &bed->info->encode,
              .side = bed->info->spatial};
    VaeError error;
    must(vae_model_history(bed->model, direction, &c.history, &error), &error);
    printf("%s of %s looks back %d steps\n", decode ? "decoder" : "encoder",
           bed->info->arch, c.history);
    const int k = c.history + 3;
    c.t = k + AFTER;
    c.all = bed_clip(bed, c.t, c.side, c.side, 1);
    if (!decode)
        c.all.frames = before(&c, c.t, true);
    free(c.all.video);
    c.all.video = test_alloc(clip_video_count(&c.all) * sizeof(float));
    vae_generate("video", (int64_t[]){(int64_t) clip_video_count(&c.all)}, 1,
                 c.all.video);
    VaeStream *stream = open_stream(&c);
    run_clip(bed, stream, direction, &c.all, threes);
    vae_stream_free(&stream);
    preroll(&c, k, c.history);
    preroll(&c, k, c.history + 1);
    if (c.history > 0)
        warm_up(&c, k, c.history, threes);
    warm_up(&c, k, c.history + 2, ones);
    if (!bed->info->chunk) /* a sequence begins with a chunk */
        preroll_reset(&c, k, c.history + 1);
    reach(&c);
    clip_free(&c.all);
}

/* The expected numbers of the released networks. Those of Wan were calculated
 * by hand: 12 convolutions of three frames at the rate of latents look back two
 * frames each, 7 at twice the rate one each, 13 at four times the rate a half
 * each: 37.5. */
static void
released(void)
{
    static const struct {
        const char *arch;
        int decode, encode;
    } known[] = {{"wan2.1", 38, 28},       {"wan2.2", 38, 28},
                 {"seedvr2", 37, 28},      {"taew2_1", 8, 8},
                 {"taew2_2", 8, 8},        {"taew2_2_super", 8, 8},
                 {"taehv", 8, 8},          {"taehv1_5", 8, 8},
                 {"taehv1_5_super", 8, 8}, {"taeltx_2", 6, 6},
                 {"ltx2.0", 22, 28},       {"ltx2.3", 14, 26},
                 {"taeltx2_3_wide", 6, 6}, {"taeh3", 8, 4},
                 {"taef2", 0, 0},          {"flux2", 0, 0},
                 {"hunyuan1.5", ALL, ALL}, {"qwenimage2.1", 0, 0}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        SCOPED_MODEL VaeModel *model = NULL;
        VaeError error;
        int steps;
        must(vae_model_outline(known[i].arch, &model, &error), &error);
        must(vae_model_history(model, VAE_DECODE, &steps, &error), &error);
        expect(steps == known[i].decode,
               "released %s: the decoder looks back %d steps", known[i].arch,
               steps);
        must(vae_model_history(model, VAE_ENCODE, &steps, &error), &error);
        expect(steps == known[i].encode,
               "released %s: the encoder looks back %d steps", known[i].arch,
               steps);
    }
}

int
main(int argc, char **argv)
{
    Bed bed;
    bed_open_main(&bed, argc, argv);
    look(&bed, VAE_DECODE);
    look(&bed, VAE_ENCODE);
    released();
    return bed_close(&bed);
}

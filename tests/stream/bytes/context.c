/*
 * context.c: tests a step without context in the middle of a sequence.
 *
 * context MODEL BACKEND PRECISION
 */
#include "sample.h"
#include "../streams.h"

#include "model.h"

enum { T = 4, W = 48, H = 32 };
static const int one_by_one[] = {1, 0}, threes[] = {3, 0}, whole[] = {T, 0};

static const VaeSteps *
steps_of(const Bed *bed, VaeDirection direction)
{
    return direction == VAE_DECODE ? &bed->info->decode : &bed->info->encode;
}

/* Returns t later steps as a clip without results. */
static TestClip
later_clip(const Bed *bed, VaeDirection direction, int t)
{
    TestClip clip = bed_later_clip(bed, direction, t, W, H, 1);
    clip_poison(bed, &clip, direction);
    return clip;
}

/* Slices of three steps compute one frame at a time, in strips of rows. */
static VaeStream *
open_stream(const Bed *bed, VaeDirection direction, int slice)
{
    return bed_stream(bed, (VaeStreamParams){.direction = direction,
                                             .width = W,
                                             .height = H,
                                             .slice_size = slice,
                                             .frames_at_once = slice == 3,
                                             .strips = slice == 3 ? 3 : 1,
                                             .restarts = true});
}

static void
restart(VaeStream *stream, uint64_t latents)
{
    VaeError error;
    must(vae_stream_restart(stream, latents, &error), &error);
}

/* ------------------------------------------------------------------ */
/* The program.                                                        */

static VaeProgram *
build(const Bed *bed, VaeDirection direction, bool first, bool without_context,
      VaeCarrySet *carries)
{
    VaeProgram *program;
    VaeError error;
    const int down = direction == VAE_DECODE ? bed->info->spatial : 1;
    must(vae_model_build(bed->model,
                         &(VaeBuildParams){.direction = direction,
                                           .first = first,
                                           .without_context = without_context,
                                           .steps = 1,
                                           .height = H / down,
                                           .width = W / down,
                                           .label = "test",
                                           .carries = carries},
                         &program, &error),
         &error);
    return program;
}

/* Returns the kind of the ops that fill the context at the start of a sequence.
 */
static VaeOpKind
head_of(const VaeProgram *first)
{
    for (int i = 0; i < first->n_ops; i++)
        if (first->ops[i].kind == VAE_OP_HEAD_ZERO ||
            first->ops[i].kind == VAE_OP_HEAD_REPEAT)
            return first->ops[i].kind;
    return VAE_OP_KINDS;
}

static bool
same_shape(const VaeTensor *a, const VaeTensor *b)
{
    return !a == !b &&
           (!a || memcmp(&a->shape, &b->shape, sizeof a->shape) == 0);
}

/* Without context, the program is that of a later step, except for the ops that
 * fill the context. */
static void
like_next(const Bed *bed, VaeDirection direction)
{
    VaeCarrySet carries = {0};
    VaeProgram *first = build(bed, direction, true, false, &carries);
    VaeProgram *next = build(bed, direction, false, false, &carries);
    const size_t bytes = carries.bytes;
    VaeProgram *without_context = build(bed, direction, false, true, &carries);
    const VaeOpKind head = head_of(first);
    int heads = 0, bad = next->n_ops != without_context->n_ops;
    for (int i = 0; !bad && i < next->n_ops; i++) {
        const VaeOp *a = &next->ops[i], *b = &without_context->ops[i];
        const bool is_head = a->kind == VAE_OP_HEAD_CARRY;
        heads += is_head;
        bad += b->kind != (is_head ? head : a->kind) ||
               strcmp(a->name, b->name) != 0 ||
               b->carry != (is_head ? NULL : a->carry) ||
               !same_shape(a->x, b->x) || !same_shape(a->y, b->y) ||
               !a->add != !b->add;
        if (a->x && b->x)
            bad += a->x->ctx != b->x->ctx || a->x->id != b->x->id;
        if (a->y && b->y)
            bad += a->y->id != b->y->id;
    }
    const bool fills = bed->info->temporal > 1; /* else no step reads another */
    expect(!bad && (heads > 0) == fills && (head != VAE_OP_KINDS) == fills &&
               carries.bytes == bytes && without_context->n_in == next->n_in &&
               without_context->n_out == next->n_out,
           "%d ops as in a later step, of which %d fill the context by %s",
           without_context->n_ops, heads,
           head == VAE_OP_KINDS ? "nothing" : vae_op_name(head));
    vae_program_free(&first);
    vae_program_free(&next);
    vae_program_free(&without_context);
    vae_carry_set_free(&carries);
}

/* True if the first step computes all that a later step computes, and only
 * discards results. */
static bool
first_is_whole(const Bed *bed, VaeDirection direction)
{
    VaeCarrySet carries = {0};
    VaeProgram *first = build(bed, direction, true, false, &carries);
    VaeProgram *next = build(bed, direction, false, false, &carries);
    bool same = first->n_ops == next->n_ops;
    for (int i = 0; same && i < first->n_ops; i++)
        same = same_shape(first->ops[i].x, next->ops[i].x) &&
               same_shape(first->ops[i].y, next->ops[i].y);
    vae_program_free(&first);
    vae_program_free(&next);
    vae_carry_set_free(&carries);
    return same;
}

/* ------------------------------------------------------------------ */
/* The stream.                                                         */

/* Runs the clip of seed 1 after a restart of a new stream. */
static TestClip
clip_without_context(const Bed *bed, VaeDirection direction, int slice,
                     const int *plan)
{
    TestClip clip = later_clip(bed, direction, T);
    SCOPED_STREAM VaeStream *stream = open_stream(bed, direction, slice);
    restart(stream, 0);
    run_clip(bed, stream, direction, &clip, plan);
    return clip;
}

static void
counts(const Bed *bed, VaeDirection direction)
{
    const VaeSteps *s = steps_of(bed, direction);
    SCOPED_STREAM VaeStream *stream = open_stream(bed, direction, 1);
    VaeStreamStats stats;
    int n_in, n_out;
    restart(stream, 0);
    vae_stream_count(stream, 2, &n_in, &n_out);
    expect(!vae_stream_at_start(stream) && n_in == 2 * s->step_in &&
               n_out == 2 * s->step_out,
           "two steps after a restart: %d in, %d out", n_in, n_out);
    SCOPED_CLIP TestClip clip = later_clip(bed, direction, T);
    run_clip(bed, stream, direction, &clip, one_by_one);
    stats = *vae_stream_stats(stream);
    expect(stats.runs_without_context == 1 && stats.runs_first == 0 &&
               stats.runs_next == T - 1,
           "programs run: without context %llu, first %llu, next %llu",
           (unsigned long long) stats.runs_without_context,
           (unsigned long long) stats.runs_first,
           (unsigned long long) stats.runs_next);
}

/* The bytes do not depend on earlier work or the slice size, and differ from
 * those of a sequence that continues. */
static void
no_past(const Bed *bed, VaeDirection direction)
{
    SCOPED_CLIP TestClip want =
        clip_without_context(bed, direction, 1, one_by_one);
    TestClip got = clip_without_context(bed, direction, 3, threes);
    same_result(bed, &got, &want, direction,
                "slices of three, one frame at once, three strips");
    clip_free(&got);
    got = clip_without_context(bed, direction, T - 1, whole);
    same_result(bed, &got, &want, direction, "one call");
    clip_free(&got);

    SCOPED_CLIP TestClip before = bed_clip(bed, T, W, H, 0);
    SCOPED_STREAM VaeStream *stream = open_stream(bed, direction, 1);
    run_clip(bed, stream, direction, &before, one_by_one);
    SCOPED_CLIP TestClip on = later_clip(bed, direction, T);
    run_clip(bed, stream, direction, &on, one_by_one);
    size_t bytes;
    const void *a = clip_result(bed, &on, direction, &bytes);
    const void *b = clip_result(bed, &want, direction, &bytes);
    expect((memcmp(a, b, bytes) != 0) == (bed->info->temporal > 1),
           "only a network that reads earlier steps continues otherwise");
    restart(stream, T);
    clip_poison(bed, &on, direction);
    run_clip(bed, stream, direction, &on, one_by_one);
    same_result(bed, &on, &want, direction, "after a clip");
    restart(stream, T);
    clip_poison(bed, &on, direction);
    run_clip(bed, stream, direction, &on, one_by_one);
    same_result(bed, &on, &want, direction, "after a restart");

    vae_stream_reset(stream);
    SCOPED_CLIP TestClip again = bed_clip(bed, T, W, H, 0);
    clip_poison(bed, &again, direction);
    run_clip(bed, stream, direction, &again, one_by_one);
    same_result(bed, &again, &before, direction, "a reset begins a sequence");
}

/* For networks whose first step is whole. A decoder computes all frames of the
 * first latent, and gives only the last ones. A step without context gives the
 * same last frames, and later frames are the same. An encoder begins with as
 * many frames as a later step has. */
static void
like_first(const Bed *bed, VaeDirection direction)
{
    const VaeSteps *s = steps_of(bed, direction);
    SCOPED_CLIP TestClip want = later_clip(bed, direction, T);
    SCOPED_CLIP TestClip without_context =
        clip_without_context(bed, direction, 1, one_by_one);
    const int skip = direction == VAE_DECODE ? s->step_out - s->first_out : 0;
    const size_t frame = H * clip_row(&want);
    SCOPED_STREAM VaeStream *stream = open_stream(bed, direction, 1);
    want.frames -= skip;
    run_clip(bed, stream, direction, &want, one_by_one);
    TestClip got = without_context;
    got.frames -= skip;
    got.video += (size_t) skip * frame;
    same_result(bed, &got, &want, direction, "the same as from the start");
}

/* The random numbers of samples depend on the number of the latent, which
 * counts from the latent of the restart. */
static void
sample_place(const Bed *bed)
{
    enum { BEFORE = 5, SEED = 11 };
    const VaeModelInfo *info = bed->info;
    const int h = H / info->spatial, w = W / info->spatial;
    SCOPED_CLIP TestClip clip = later_clip(bed, VAE_ENCODE, 1);
    const size_t n = clip_latent_count(bed, &clip);
    clip.mean = test_alloc(n * sizeof *clip.mean);
    clip.logvar = test_alloc(n * sizeof *clip.logvar);
    SCOPED_STREAM VaeStream *stream =
        bed_stream(bed, (VaeStreamParams){.direction = VAE_ENCODE,
                                          .width = W,
                                          .height = H,
                                          .normalization = VAE_RAW,
                                          .posterior = VAE_POSTERIOR_SAMPLE,
                                          .seed = SEED,
                                          .restarts = true});
    restart(stream, BEFORE);
    run_clip(bed, stream, VAE_ENCODE, &clip, one_by_one);
    size_t bad = 0, at = 0;
    for (int c = 0; c < info->latent_channels; c++)
        for (int p = 0; p < h * w; p++, at++)
            bad += clip.latents[at] !=
                   vae_sample(clip.mean[at], clip.logvar[at],
                              vae_normal(SEED, BEFORE, c, p / w, p % w));
    expect(bad == 0, "%zu samples of latent %d: %zu differ", n, BEFORE, bad);
}

static void
refused(const Bed *bed)
{
    SCOPED_STREAM VaeStream *stream =
        bed_stream(bed, (VaeStreamParams){.width = W, .height = H});
    VaeError error = {0};
    expect(vae_stream_restart(stream, 1, &error) == VAE_ERR_ARGUMENT,
           "a stream without `restarts`: %s", error.message);
    expect(vae_stream_at_start(stream), "the stream is unchanged");
}

int
main(int argc, char **argv)
{
    Bed bed;
    bed_open_main(&bed, argc, argv);
    for (VaeDirection d = VAE_DECODE; d <= VAE_ENCODE; d++) {
        printf("%s\n", d == VAE_DECODE ? "decode" : "encode");
        like_next(&bed, d);
        counts(&bed, d);
        no_past(&bed, d);
        if (first_is_whole(&bed, d))
            like_first(&bed, d);
    }
    if (bed.info->has_posterior)
        sample_place(&bed);
    refused(&bed);
    return bed_close(&bed);
}

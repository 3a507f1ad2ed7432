/*
 * guard.c: tests the policies for results that are not finite, and the fallback
 * to fp32.
 *
 * guard BACKEND [few|encoder]
 */
#include "../../golden/overflow.h"
#include "../streams.h"

#include "vae-private/stream.h"

enum { T = 13, W = 48, H = 32, BAD = 5, LATE = 10, LASTS = 3 };

static float *
first_channel(const TestClip *clip, int k)
{
    return clip->latents + (size_t) k * 16 * (H / 8) * (W / 8);
}

/* Makes a clip. Latents whose bit is set in `bad` overflow. */
static TestClip
clip_of(const Bed *bed, unsigned bad)
{
    TestClip clip = bed_clip(bed, T, W, H, 0);
    for (int k = 0; k < T; k++)
        for (int i = 0; i < (H / 8) * (W / 8); i++)
            first_channel(&clip, k)[i] = bad >> k & 1 ? OVERFLOW_Z : 0;
    clip_poison(bed, &clip, VAE_DECODE);
    return clip;
}

static VaeStreamParams
params_of(VaeNanPolicy policy, int slice)
{
    return (VaeStreamParams){.struct_size = sizeof(VaeStreamParams),
                             .width = W,
                             .height = H,
                             .slice_size = slice,
                             .frames_at_once = 1000, /* all */
                             .strips = 1,
                             .spill = VAE_SPILL_OFF,
                             .restarts = true,
                             .normalization = VAE_RAW,
                             .nan_policy = policy};
}

static VaeStreamStats
run(const Bed *bed, const TestClip *clip, VaeNanPolicy policy, int slice)
{
    const int plan[] = {slice, 0};
    VaeStreamStats stats;
    SCOPED_STREAM VaeStream *stream = bed_stream(bed, params_of(policy, slice));
    run_clip(bed, stream, VAE_DECODE, clip, plan);
    stats = *vae_stream_stats(stream);
    return stats;
}

/* The same in calls of `slice` steps. One call is in flight while the next
 * begins, and its latents are freed. */
static VaeStreamStats
run_in_flight(const Bed *bed, const TestClip *clip, VaeNanPolicy policy,
              int slice, VaeStatus *status, VaeError *error)
{
    enum { MOST = 8 };
    const size_t n = (size_t) 16 * (H / 8) * (W / 8);
    SCOPED_BLOCK float *gone = test_alloc(MOST * n * sizeof(float));
    SCOPED_STREAM VaeStream *stream = bed_stream(bed, params_of(policy, slice));
    VaeStreamStats stats;
    int at = 0, frame = 0, n_in, n_out;
    *status = VAE_OK;
    while (at < T && *status == VAE_OK) {
        VaeLatentIn in[MOST];
        VaePicture out[4 * MOST];
        vae_stream_count(stream, at + slice < T ? slice : T - at, &n_in,
                         &n_out);
        memcpy(gone, first_channel(clip, at), (size_t) n_in * n * sizeof *gone);
        for (int i = 0; i < n_in; i++)
            in[i] = (VaeLatentIn){VAE_TYPE_F32, gone + (size_t) i * n};
        for (int i = 0; i < n_out; i++)
            out[i] = (VaePicture){
                .pixels = VAE_PIXELS_RGB_F32,
                .width = W,
                .height = H,
                .data = {(uint8_t *) (clip->video +
                                      (size_t) (frame + i) * W * H * 3)},
                .stride = {W * 3 * 4}};
        *status = vae_stream_decode_begin(stream, in, n_in, out, n_out, error);
        memset(gone, 0xff, MOST * n * sizeof(float));
        memset(in, 0xff, sizeof in);
        memset(out, 0xff, sizeof out);
        if (*status == VAE_OK)
            *status = vae_stream_wait(stream, 1, error);
        at += n_in;
        frame += n_out;
    }
    if (*status == VAE_OK)
        *status = vae_stream_wait(stream, 0, error);
    stats = *vae_stream_stats(stream);
    return stats;
}

/* Returns the number of values before the frames of latent k. */
static size_t
before(int k)
{
    return (size_t) (k ? 1 + 4 * (k - 1) : 0) * W * H * 3;
}

static size_t
not_finite(const TestClip *clip, int from, int to)
{
    size_t n = 0;
    for (size_t i = before(from); i < before(to); i++)
        n += !isfinite(clip->video[i]);
    return n;
}

static double
relative(const TestClip *a, const TestClip *b)
{
    double error = 0, power = 0;
    for (size_t i = 0; i < before(T); i++) {
        const double x = (double) a->video[i], y = (double) b->video[i];
        error += (x - y) * (x - y);
        power += x * x;
    }
    return sqrt(error / power);
}

static void
fallback(const Bed *bed, unsigned bad, int nonfinite)
{
    Bed wide = *bed;
    wide.precision = VAE_PRECISION_FP32;
    SCOPED_CLIP TestClip want = clip_of(bed, bad), got = clip_of(bed, bad);
    SCOPED_CLIP TestClip one = clip_of(bed, bad);
    VaeStreamStats s = run(&wide, &want, VAE_NAN_FALLBACK, 1);
    expect(not_finite(&want, 0, T) == 0 && s.nonfinite_steps == 0,
           "in fp32 all frames are finite");
    s = run(bed, &one, VAE_NAN_FALLBACK, 1);
    expect(s.nonfinite_steps == (uint64_t) nonfinite &&
               s.recovered_steps == s.nonfinite_steps && s.nonfinite == 0,
           "latents %#x: %llu steps overflowed, %llu recovered", bad,
           (unsigned long long) s.nonfinite_steps,
           (unsigned long long) s.recovered_steps);
    expect(not_finite(&one, 0, T) == 0,
           "with the fallback all frames are finite");
    const double r = relative(&want, &one);
    /* The bounds are those of scaled.c: roundings of bf16. */
    expect(r < 0.03 && r > 1e-4, "and differs from fp32 by %.2g", r);
    for (int slice = 3; slice < 5; slice++) {
        clip_poison(bed, &got, VAE_DECODE);
        const VaeStreamStats t = run(bed, &got, VAE_NAN_FALLBACK, slice);
        same_result(bed, &got, &one, VAE_DECODE, "in larger slices");
        expect(t.nonfinite_steps == s.nonfinite_steps &&
                   t.units_out == s.units_out,
               "as many steps overflow");
    }
    for (int slice = 1; slice < 4; slice += 2) {
        VaeStatus status;
        VaeError error = {0};
        clip_poison(bed, &got, VAE_DECODE);
        const VaeStreamStats t =
            run_in_flight(bed, &got, VAE_NAN_FALLBACK, slice, &status, &error);
        expect(status == VAE_OK, "calls in flight: %s", error.message);
        same_result(bed, &got, &one, VAE_DECODE, "with calls in flight");
        expect(t.nonfinite_steps == s.nonfinite_steps &&
                   t.recovered_steps == s.recovered_steps && t.nonfinite == 0 &&
                   t.units_out == s.units_out,
               "as many steps overflow");
    }
}

static void
others(const Bed *bed)
{
    const int plan[] = {1, 0};
    SCOPED_CLIP TestClip pass = clip_of(bed, 1u << BAD),
                         got = clip_of(bed, 1u << BAD);
    VaeStreamStats s = run(bed, &pass, VAE_NAN_PASS, 1);
    expect(not_finite(&pass, 0, BAD) == 0 &&
               not_finite(&pass, BAD, T) == before(T) - before(BAD) &&
               s.nonfinite_steps == 0,
           "without the fallback, all later frames have NaN");
    s = run(bed, &got, VAE_NAN_FALLBACK, 3);
    expect(memcmp(got.video, pass.video, before(BAD) * sizeof(float)) == 0,
           "the fallback does not change finite frames");
    VaeStream *stream = bed_stream(bed, params_of(VAE_NAN_ERROR, 3));
    VaeError error = {0};
    const VaeStatus status =
        test_run(stream, bed->info, VAE_DECODE, &got, plan, &error);
    expect(status == VAE_ERR_BACKEND && strstr(error.message, "latent 5") &&
               strstr(error.message, "not finite") &&
               strstr(error.message, "fallback"),
           "error: %s", error.message);
    vae_stream_free(&stream);
    for (int slice = 1; slice < 4; slice += 2) {
        VaeStatus again;
        clip_poison(bed, &got, VAE_DECODE);
        run_in_flight(bed, &got, VAE_NAN_ERROR, slice, &again, &error);
        expect(
            again == VAE_ERR_BACKEND && strstr(error.message, "latent 5 is") &&
                memcmp(got.video, pass.video, before(BAD) * sizeof(float)) == 0,
            "with calls of %d steps in flight: %s", slice, error.message);
    }
}

/* A NaN in the input is not recovered. It is counted, and no step is computed
 * twice. With the policy ERROR it is an error. */
static void
bad_input(const Bed *bed)
{
    const int plan[] = {1, 0};
    SCOPED_CLIP TestClip pass = clip_of(bed, 0), got = clip_of(bed, 0);
    first_channel(&pass, 7)[40] = first_channel(&got, 7)[40] = NAN;
    VaeStreamStats s = run(bed, &pass, VAE_NAN_PASS, 1);
    const uint64_t count = s.nonfinite;
    s = run(bed, &got, VAE_NAN_FALLBACK, 1);
    size_t bytes;
    clip_result(bed, &got, VAE_DECODE, &bytes);
    expect(count == 1 && s.nonfinite == 1 && s.nonfinite_steps == T - 7 &&
               s.recovered_steps == 0 &&
               memcmp(got.video, pass.video, bytes) == 0,
           "a NaN of the input: %llu counted, %llu steps, %llu recovered",
           (unsigned long long) s.nonfinite,
           (unsigned long long) s.nonfinite_steps,
           (unsigned long long) s.recovered_steps);
    Bed wide = *bed;
    wide.precision = VAE_PRECISION_FP32;
    s = run(&wide, &got, VAE_NAN_FALLBACK, 4);
    expect(s.nonfinite_steps == T - 7 && s.recovered_steps == 0,
           "%llu steps in fp32, of slices of 4",
           (unsigned long long) s.nonfinite_steps);
    SCOPED_STREAM VaeStream *stream =
        bed_stream(bed, params_of(VAE_NAN_ERROR, 1));
    VaeError error = {0};
    expect(test_run(stream, bed->info, VAE_DECODE, &got, plan, &error) ==
                   VAE_ERR_BACKEND &&
               strstr(error.message, "latent 7"),
           "error: %s", error.message);
}

static void
plans(const Bed *bed)
{
    VaeStreamParams p = params_of(VAE_NAN_PASS, 2);
    VaeError error = {0};
    p.backend = bed->backend;
    p.precision = bed->precision;
    p.threads = bed->threads;
    VaePlan none = plan_of(bed->model, &p);
    p.nan_policy = VAE_NAN_FALLBACK;
    VaePlan plan = plan_of(bed->model, &p);
    p.precision = VAE_PRECISION_FP32;
    p.slice_size = 1;
    VaePlan wide = plan_of(bed->model, &p);
    expect(none.fallback == 0 && wide.fallback == 0 &&
               plan.fallback == wide.total + plan.carries &&
               plan.total == none.total + plan.fallback,
           "planned: %llu bytes, and %llu for the fallback",
           (unsigned long long) none.total, (unsigned long long) plan.fallback);
    p.precision = bed->precision;
    p.slice_size = 2;
    p.memory_limit = (size_t) plan.peak - 1;
    VaeStream *stream = NULL;
    expect(vae_stream_new(bed->model, &p, &stream, &error) == VAE_ERR_MEMORY &&
               !stream,
           "too little memory for the fallback: %s", error.message);
}

/* After a fallback some carries have values that only fp32 can represent. Until
 * these are gone, a checkpoint with carries is refused. */
static void
checkpoints(const Bed *bed)
{
    const int plan[] = {1, 0};
    char folder[] = "/tmp/vae-guard-XXXXXX", path[64];
    if (!mkdtemp(folder))
        exit(1);
    snprintf(path, sizeof path, "%s/checkpoint", folder);
    VaeStream *stream = bed_stream(bed, params_of(VAE_NAN_FALLBACK, 1));
    VaeCheckpointParams at = {.struct_size = sizeof(VaeCheckpointParams),
                              .path = path,
                              .carries = true};
    TestClip clip = clip_of(bed, 1u << BAD), part = clip;
    VaeCheckpoint c = VAE_INIT(VaeCheckpoint);
    VaeError error = {0};
    part.t = BAD + 1;
    part.frames = 1 + 4 * BAD;
    run_clip(bed, stream, VAE_DECODE, &part, plan);
    expect(vae_stream_save(stream, &at, &error) == VAE_ERR_UNSUPPORTED,
           "checkpoint: %s", error.message);
    part.t = 3;
    part.frames = 12;
    part.latents = first_channel(&clip, BAD + 1);
    run_clip(bed, stream, VAE_DECODE, &part, plan);
    must(vae_stream_save(stream, &at, &error), &error);
    part.t = T - BAD - 4;
    part.frames = 4 * part.t;
    part.latents = first_channel(&clip, BAD + 4);
    TestClip again = part;
    again.video = part.video + (size_t) 12 * W * H * 3;
    run_clip(bed, stream, VAE_DECODE, &part, plan);
    vae_stream_free(&stream);
    stream = bed_stream(bed, params_of(VAE_NAN_FALLBACK, 1));
    must(vae_stream_load(stream, &at, &c, &error), &error);
    again.video = test_alloc(clip_video_count(&again) * sizeof(float));
    run_clip(bed, stream, VAE_DECODE, &again, plan);
    same_result(bed, &again, &part, VAE_DECODE, "after a checkpoint");
    vae_stream_free(&stream);
    free(again.video);
    clip_free(&clip);
    unlink(path);
    expect(rmdir(folder) == 0, "nothing is left behind");
}

/* ------------------------------------------------------------------ */
/* Encoders on a device. */

enum { SIDE = 16, GROUPS = 4, BIG = 2 };

/* Makes one call for each latent. Its frames are freed after the call.
 * in_flight: waits for results only after the next call has begun; otherwise at
 * once. */
static VaeStatus
encode(const Bed *bed, const TestClip *clip, VaeNanPolicy policy,
       bool in_flight, VaeStreamStats *stats, VaeError *error)
{
    const size_t frame = (size_t) SIDE * SIDE * 3;
    const size_t latent = clip_latent_count(bed, clip) / GROUPS;
    SCOPED_BLOCK float *gone = test_alloc(4 * frame * sizeof(float));
    SCOPED_STREAM VaeStream *stream =
        bed_stream(bed, (VaeStreamParams){.direction = VAE_ENCODE,
                                          .width = SIDE,
                                          .height = SIDE,
                                          .slice_size = 1,
                                          .pixels = VAE_PIXELS_RGB_F32,
                                          .nan_policy = policy});
    VaeStatus status = VAE_OK;
    int at = 0, n_in, n_out;
    for (int k = 0; k < GROUPS && status == VAE_OK; k++) {
        VaePicture in[4];
        VaeLatentOut out = {.type = VAE_TYPE_F32,
                            .data = clip->latents + (size_t) k * latent};
        vae_stream_count(stream, 1, &n_in, &n_out);
        memcpy(gone, clip->video + (size_t) at * frame,
               (size_t) n_in * frame * sizeof *gone);
        for (int i = 0; i < n_in; i++)
            in[i] = (VaePicture){.pixels = VAE_PIXELS_RGB_F32,
                                 .width = SIDE,
                                 .height = SIDE,
                                 .data = {(uint8_t *) (gone + i * frame)},
                                 .stride = {SIDE * 3 * 4}};
        status = vae_stream_encode_begin(stream, in, n_in, &out, n_out, error);
        memset(gone, 0xff, 4 * frame * sizeof *gone);
        memset(in, 0xff, sizeof in);
        memset(&out, 0xff, sizeof out);
        if (status == VAE_OK)
            status = vae_stream_wait(stream, in_flight ? 1 : 0, error);
        at += n_in;
    }
    if (status == VAE_OK)
        status = vae_stream_wait(stream, 0, error);
    *stats = *vae_stream_stats(stream);
    expect(vae_stream_overlaps(stream), "calls of an encoder overlap");
    return status;
}

/* Frames that overflow in fp16 are computed again, although they are freed.
 * With the policy ERROR, the error says that the frames were finite. */
static void
encoder(void)
{
    Bed bed;
    VaeError error = {0};
    VaeStreamStats a, b;
    size_t bytes;
    bed_open(&bed, "wan21", "cuda", "fp16");
    TestClip want = bed_clip(&bed, GROUPS, SIDE, SIDE, 0);
    TestClip got = bed_clip(&bed, GROUPS, SIDE, SIDE, 0);
    for (int i = 0; i < SIDE * SIDE * 3; i++)
        want.video[(4 * BIG - 1) * SIDE * SIDE * 3 + i] = 1e7f;
    memcpy(got.video, want.video, clip_video_count(&got) * sizeof(float));
    must(encode(&bed, &want, VAE_NAN_FALLBACK, false, &a, &error), &error);
    must(encode(&bed, &got, VAE_NAN_FALLBACK, true, &b, &error), &error);
    clip_result(&bed, &got, VAE_ENCODE, &bytes);
    expect(a.recovered_steps > 0 && a.recovered_steps == b.recovered_steps &&
               memcmp(got.latents, want.latents, bytes) == 0,
           "encoding in flight: %llu steps recovered, %llu one after another",
           (unsigned long long) b.recovered_steps,
           (unsigned long long) a.recovered_steps);
    const VaeStatus status =
        encode(&bed, &got, VAE_NAN_ERROR, true, &b, &error);
    expect(status == VAE_ERR_BACKEND && strstr(error.message, "latent 2") &&
               strstr(error.message, "although the input is"),
           "error: %s", error.message);
    clip_free(&want);
    clip_free(&got);
    vae_model_free(&bed.model);
}

int
main(int argc, char **argv)
{
    Bed bed;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 2) {
        fprintf(stderr, "usage: guard BACKEND [few|encoder]\n");
        return 2;
    }
    if (argc > 2 && strcmp(argv[2], "encoder") == 0) {
        encoder();
        return tests_end();
    }
    bed_open(&bed, "wan21", argv[1], "bf16");
    bed.threads = 1;
    bed_rewrite(&bed, overflow_write);
    fallback(&bed, 1u << BAD, LASTS);
    if (argc > 2)
        return bed_close(&bed);
    fallback(&bed, 1u | 1u << BAD | 1u << LATE, 3 * LASTS);
    fallback(&bed, 3u << BAD, LASTS + 1);
    others(&bed);
    bad_input(&bed);
    plans(&bed);
    checkpoints(&bed);
    return bed_close(&bed);
}

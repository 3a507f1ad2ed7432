/*
 * stream.c: tests what a stream promises besides its results: no allocation per
 * step, resets, cancels, independent streams, odd sizes, memory limits, and
 * errors for wrong calls.
 *
 * stream MODEL BACKEND PRECISION
 */
#include "streams.h"

#include <malloc.h>
#include <math.h>

enum { T = 6, W = 48, H = 32 };
static const int one_by_one[] = {1, 0};

static VaeStream *
plain(const Bed *bed, VaeDirection direction)
{
    return bed_slices(bed, direction, W, H, 1);
}

/* Runs a clip in a new stream. */
static TestClip
alone(const Bed *bed, VaeDirection direction, int t, int width, int height,
      int seed)
{
    TestClip clip = bed_clip(bed, t, width, height, seed);
    SCOPED_STREAM VaeStream *stream =
        bed_slices(bed, direction, width, height, 1);
    run_clip(bed, stream, direction, &clip, one_by_one);
    return clip;
}

/* ------------------------------------------------------------------ */

/* Returns step k of a clip as a separate clip. */
static TestClip
part(const Bed *bed, const TestClip *clip, VaeDirection direction, int k)
{
    const VaeSteps *d = &bed->info->decode, *e = &bed->info->encode;
    const bool decode = direction == VAE_DECODE;
    const int first = decode ? d->first_out : e->first_in;
    const int step = decode ? d->step_out : e->step_in;
    TestClip one = *clip;
    const int before = k ? first + (k - 1) * step : 0;
    one.t = 1;
    one.frames = k ? step : first;
    if (one.frames >
        clip->frames - before) /* the other frames repeat the last one */
        one.frames = clip->frames - before;
    one.latents += (size_t) k * clip_latent_count(bed, clip) / (size_t) clip->t;
    one.video +=
        (size_t) before * clip_video_count(clip) / (size_t) clip->frames;
    return one;
}

static void
interleaved(const Bed *bed, VaeDirection direction)
{
    TestClip clips[2], want[2];
    VaeStream *streams[2];
    for (int i = 0; i < 2; i++) {
        clips[i] = bed_clip(bed, T, W, H, i);
        clip_poison(bed, &clips[i], direction);
        want[i] = alone(bed, direction, T, W, H, i);
        streams[i] = plain(bed, direction);
    }
    for (int k = 0; k < T; k++)
        for (int i = 0; i < 2; i++) {
            const TestClip one = part(bed, &clips[i], direction, k);
            run_clip(bed, streams[i], direction, &one, one_by_one);
        }
    for (int i = 0; i < 2; i++) {
        same_result(bed, &clips[i], &want[i], direction,
                    i ? "two streams in turn, second"
                      : "two streams in turn, first");
        vae_stream_free(&streams[i]);
        clip_free(&clips[i]);
        clip_free(&want[i]);
    }
}

/* Resets after a whole clip, and after half a clip. */
static void
reset(const Bed *bed, VaeDirection direction)
{
    SCOPED_CLIP TestClip other = bed_clip(bed, T, W, H, 1);
    SCOPED_CLIP TestClip clip = bed_clip(bed, T, W, H, 0);
    SCOPED_CLIP TestClip want = alone(bed, direction, T, W, H, 0);
    SCOPED_STREAM VaeStream *stream = plain(bed, direction);
    run_clip(bed, stream, direction, &other, one_by_one);
    for (int i = 0; i < 2; i++) {
        vae_stream_reset(stream);
        expect(vae_stream_at_start(stream), "at the start after a reset");
        clip_poison(bed, &clip, direction);
        run_clip(bed, stream, direction, &clip, one_by_one);
        same_result(bed, &clip, &want, direction,
                    i ? "reset in mid-clip equals new" : "reset equals new");
        vae_stream_reset(stream);
        for (int k = 0; k < 3; k++) {
            const TestClip one = part(bed, &other, direction, k);
            run_clip(bed, stream, direction, &one, one_by_one);
        }
    }
}

static void
five_runs(const Bed *bed, VaeDirection direction)
{
    SCOPED_CLIP TestClip want = alone(bed, direction, T, W, H, 0);
    for (int i = 0; i < 4; i++) {
        SCOPED_CLIP TestClip again = alone(bed, direction, T, W, H, 0);
        same_result(bed, &again, &want, direction, "run again");
    }
}

/* ------------------------------------------------------------------ */

/* Runs steps without any allocation by the test. */
typedef struct Loop {
    VaeStream *stream;
    VaeDirection direction;
    VaeLatentIn latents[16];
    VaeLatentOut results[16];
    VaePicture pictures[64];
} Loop;

static void
loop_steps(Loop *loop, int calls, int steps)
{
    VaeError error;
    int n_in, n_out;
    for (int i = 0; i < calls; i++) {
        vae_stream_count(loop->stream, steps, &n_in, &n_out);
        if (loop->direction == VAE_DECODE)
            must(vae_stream_decode(loop->stream, loop->latents, n_in,
                                   loop->pictures, n_out, &error),
                 &error);
        else
            must(vae_stream_encode(loop->stream, loop->pictures, n_in,
                                   loop->results, n_out, &error),
                 &error);
    }
}

static void
loop_fill(Loop *loop, const TestClip *clip)
{
    for (int i = 0; i < 16; i++) {
        loop->latents[i] =
            (VaeLatentIn){.type = VAE_TYPE_F32, .data = clip->latents};
        loop->results[i] =
            (VaeLatentOut){.type = VAE_TYPE_F32, .data = clip->latents};
    }
    for (int i = 0; i < 64; i++)
        loop->pictures[i] = clip_picture(clip, NULL, 0);
}

static size_t
heap(void)
{
    const struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

/* Measures from the second slice on, when every program has run. */
static void
memory(const Bed *bed, VaeDirection direction)
{
    SCOPED_CLIP TestClip clip = bed_clip(bed, 1, W, H, 0);
    Loop loop = {.stream = bed_slices(bed, direction, W, H, 2),
                 .direction = direction};
    loop_fill(&loop, &clip);
    loop_steps(&loop, 2, 1);
    loop_steps(&loop, 2, 3);
    const uint64_t taken = vae_allocation_count();
    size_t used, now;
    /* The library has state for each thread. The C library allocates it when
     * the thread first needs it. On a busy machine this may be late, but it
     * happens only once. A step that leaks does so in every round. */
    int round = 0;
    do {
        used = heap();
        loop_steps(&loop, 10, 3);
        vae_stream_reset(loop.stream);
        loop_steps(&loop, 10, 4);
        now = heap();
    } while (now > used && ++round < 5);
    expect(vae_allocation_count() == taken,
           "no allocation after the first slices: %llu",
           (unsigned long long) (vae_allocation_count() - taken));
    /* the heap also has the emulated device's memory and its pending work */
    if (bed->backend != VAE_BACKEND_CUDA)
        expect(now <= used, "the heap does not grow: %zu, then %zu bytes", used,
               now);
    vae_stream_free(&loop.stream);
}

/* ------------------------------------------------------------------ */

typedef struct Canceller {
    VaeStream *stream;
    int at, seen, ops_after;
    bool cancelled;
    char op[128];
} Canceller;

static void
cancel_at(void *user, const VaeDump *dump)
{
    Canceller *k = user;
    k->seen++;
    if (k->cancelled && strcmp(k->op, dump->name) != 0)
        k->ops_after++;
    if (k->seen != k->at)
        return;
    vae_stream_cancel(k->stream);
    k->cancelled = true;
    snprintf(k->op, sizeof k->op, "%s", dump->name);
}

/* Cancels from inside an op, so that a call is running. */
static void
cancel(const Bed *bed, VaeDirection direction)
{
    SCOPED_CLIP TestClip clip = bed_clip(bed, T, W, H, 0);
    SCOPED_CLIP TestClip want = alone(bed, direction, T, W, H, 0);
    Canceller k = {.at = 20};
    VaeError error;
    SCOPED_STREAM VaeStream *stream =
        bed_stream(bed, (VaeStreamParams){.direction = direction,
                                          .width = W,
                                          .height = H,
                                          .dump = cancel_at,
                                          .dump_user = &k});
    k.stream = stream;
    vae_stream_cancel(stream); /* no op runs, so it cancels the next call */
    VaeStatus status =
        try_run(bed, stream, direction, &clip, one_by_one, &error);
    expect(status == VAE_ERR_CANCELLED && k.seen == 0,
           "cancelled before the call: %d ops ran", k.seen);
    vae_stream_cancel(stream);
    vae_stream_reset(stream); /* clears the cancel */
    status = try_run(bed, stream, direction, &clip, one_by_one, &error);
    expect(status == VAE_ERR_CANCELLED && k.cancelled &&
               strcmp(error.message, "the computation was cancelled") == 0,
           "cancelled: %s", status == VAE_OK ? "no error" : error.message);
    /* The dump may show the op a second time, as the result of its block. */
    expect(k.ops_after <= 1, "%d ops after the cancel", k.ops_after);
    const TestClip one = part(bed, &clip, direction, 0);
    const VaeStatus broken =
        try_run(bed, stream, direction, &one, one_by_one, &error);
    expect(broken != VAE_OK, "a broken sequence does not continue: %s",
           broken ? error.message : "it continued");
    vae_stream_reset(stream);
    clip_poison(bed, &clip, direction);
    run_clip(bed, stream, direction, &clip, one_by_one);
    same_result(bed, &clip, &want, direction, "reset after a cancel");
}

/* ------------------------------------------------------------------ */

/* Sizes that are no multiple of the network's factor: output is cropped, and
 * input is repeated at the edge. */
static void
odd_size(const Bed *bed)
{
    enum { OW = 37, OH = 21 };
    const int channels = bed->info->out_channels;
    const int unit = bed->info->spatial;
    const int pw = (OW + unit - 1) / unit * unit;
    const int ph = (OH + unit - 1) / unit * unit;
    SCOPED_CLIP TestClip padded = alone(bed, VAE_DECODE, 3, pw, ph, 0);
    SCOPED_CLIP TestClip odd = alone(bed, VAE_DECODE, 3, OW, OH, 0);
    size_t differ = 0;
    for (int i = 0; i < odd.frames * OH * OW * channels; i++) {
        const int row = OW * channels, y = i / row % OH, f = i / (row * OH);
        differ += odd.video[i] !=
                  padded.video[(f * ph + y) * pw * channels + i % row];
    }
    expect(differ == 0, "%dx%d decoded is cropped %dx%d: %zu differ", OW, OH,
           pw, ph, differ);
    for (int i = 0; i < padded.frames * ph * pw; i++) {
        const int x = i % pw < OW ? i % pw : OW - 1;
        const int y = i / pw % ph < OH ? i / pw % ph : OH - 1;
        memcpy(padded.video + i * channels,
               odd.video + ((i / (pw * ph) * OH + y) * OW + x) * channels,
               (size_t) channels * sizeof(float));
    }
    TestClip want = padded, got = odd;
    SCOPED_STREAM VaeStream *big = bed_slices(bed, VAE_ENCODE, pw, ph, 1);
    SCOPED_STREAM VaeStream *small = bed_slices(bed, VAE_ENCODE, OW, OH, 1);
    clip_poison(bed, &want, VAE_ENCODE);
    run_clip(bed, big, VAE_ENCODE, &want, one_by_one);
    run_clip(bed, small, VAE_ENCODE, &got, one_by_one);
    same_result(bed, &got, &want, VAE_ENCODE, "37x21 encoded is padded");
}

static void
not_finite(const Bed *bed)
{
    SCOPED_CLIP TestClip clip = bed_clip(bed, 3, W, H, 0);
    VaeStreamStats stats;
    size_t bad = 0;
    clip.latents[7] = NAN;
    clip.latents[clip_latent_count(bed, &clip) / 2] = INFINITY;
    SCOPED_STREAM VaeStream *stream = plain(bed, VAE_DECODE);
    run_clip(bed, stream, VAE_DECODE, &clip, one_by_one);
    stats = *vae_stream_stats(stream);
    for (size_t i = 0; i < clip_video_count(&clip); i++)
        bad += !isfinite(clip.video[i]);
    /* A ReLU turns NaN into 0. */
    expect(stats.nonfinite == 2 && (bed_has_relu(bed, VAE_DECODE) || bad > 0),
           "2 latents not finite: %llu counted, %zu values of the frames",
           (unsigned long long) stats.nonfinite, bad);
    vae_stream_free(&stream);
    stream = plain(bed, VAE_ENCODE);
    clip.video[0] = NAN;
    run_clip(bed, stream, VAE_ENCODE, &clip, one_by_one);
    stats = *vae_stream_stats(stream);
    expect(bed_has_relu(bed, VAE_ENCODE) || stats.nonfinite > 0,
           "NaN in the frames: %llu numbers counted",
           (unsigned long long) stats.nonfinite);
}

/* The time of a call is the sum of upload, network and download. A device has
 * its own clock, which does not advance in the emulation. */
static void
times(const Bed *bed)
{
    SCOPED_CLIP TestClip clip = bed_clip(bed, 3, W, H, 0);
    SCOPED_STREAM VaeStream *stream = plain(bed, VAE_DECODE);
    const bool host = vae_stream_get_plan(stream)->backend != VAE_BACKEND_CUDA;
    VaeStreamStats s;
    run_clip(bed, stream, VAE_DECODE, &clip, one_by_one);
    s = *vae_stream_stats(stream);
    expect(s.upload_ns > 0 && s.download_ns > 0 &&
               (!host ||
                (s.compute_ns > 0 &&
                 s.upload_ns + s.compute_ns + s.download_ns <= s.busy_ns)),
           "%llu + %llu + %llu of %llu ns on %s",
           (unsigned long long) s.upload_ns, (unsigned long long) s.compute_ns,
           (unsigned long long) s.download_ns, (unsigned long long) s.busy_ns,
           vae_stream_get_plan(stream)->device);
    expect(strlen(vae_stream_get_plan(stream)->device) > 0,
           "the device has a name");
}

/* ------------------------------------------------------------------ */

static void
expect_status(VaeStatus got, VaeStatus want, const VaeError *error,
              const char *what)
{
    expect(got == want && (got == VAE_OK || error->message[0]), "%s: %s (%s)",
           what, vae_status_name(got), got == VAE_OK ? "-" : error->message);
}

/* More frames at once than a slice has, so that the ladder can only make slices
 * smaller. */
enum { ALL = 1000 };

/* Returns the slice size that AUTO selects within a limit; 0: none fits. */
static int
fitting_slice(const Bed *bed, VaeStreamParams params, uint64_t limit,
              VaeError *error)
{
    VaePlan plan = VAE_INIT(VaePlan);
    params.slice_size = 0;
    params.memory_limit = (size_t) limit;
    const VaeStatus status = vae_stream_plan(bed->model, &params, &plan, error);
    expect(status == VAE_OK || status == VAE_ERR_MEMORY, "%s",
           vae_status_name(status));
    return status == VAE_OK ? plan.slice_size : 0;
}

static void
memory_limits(const Bed *bed)
{
    VaeStreamParams p = {.struct_size = sizeof(VaeStreamParams),
                         .backend = bed->backend,
                         .precision = bed->precision,
                         .width = W,
                         .height = H,
                         .frames_at_once = ALL,
                         .strips = 1,
                         .spill = VAE_SPILL_OFF};
    VaePlan plan = VAE_INIT(VaePlan);
    VaeError error = {0};
    uint64_t peak[5] = {0};
    /* A network of images takes one latent at a time. */
    const int most = bed->info->temporal > 1 ? 4 : 1;
    for (p.slice_size = 1; p.slice_size <= 4; p.slice_size *= 2) {
        plan = plan_of(bed->model, &p);
        peak[p.slice_size] = plan.peak;
    }
    for (int slice = most; slice; slice /= 2) {
        expect(fitting_slice(bed, p, peak[slice], &error) == slice,
               "a limit of its bytes gives slices of %d", slice);
        expect(fitting_slice(bed, p, peak[slice] - 1, &error) == slice / 2,
               "one byte less gives slices of %d", slice / 2);
    }
    expect(strstr(error.message, "the memory limit is"), "%s", error.message);
    p.slice_size = 0;
    p.memory_limit = (size_t) peak[most > 1 ? 2 : 1];
    VaeStream *stream = new_stream(bed->model, &p);
    expect(vae_stream_get_plan(stream)->slice_size == (most > 1 ? 2 : 1),
           "the stream has slices of %d", most > 1 ? 2 : 1);
    vae_stream_free(&stream);
    p.memory_limit = 0;
    p.memory_share = 1e-9;
    expect_status(vae_stream_new(bed->model, &p, &stream, &error),
                  VAE_ERR_MEMORY, &error, "a tiny share of the free memory");
    p.memory_share = 0;
    p.width = 1280;
    p.height = 720;
    expect(fitting_slice(bed, p, SIZE_MAX, &error) == 1,
           "slices of 1 at 1280x720");
    p.height = 704;
    expect(fitting_slice(bed, p, SIZE_MAX, &error) == most,
           "slices of %d at 1280x704", most);
}

/* Checks that no stream can be created with these parameters. Returns the
 * error. */
static VaeError
refuse(const Bed *bed, VaeStreamParams params, VaeStatus status,
       const char *what)
{
    VaeStream *stream = NULL;
    VaeError error = {0};
    const VaeStatus got = vae_stream_new(bed->model, &params, &stream, &error);
    if (status == VAE_ERR_ARGUMENT || status == VAE_ERR_SIZE)
        expect_misuse(got, status, &error, what);
    else
        expect_status(got, status, &error, what);
    expect(stream == NULL, "no stream after an error");
    return error;
}

static void
bad_params(const Bed *bed)
{
    const VaeStreamParams good = {.struct_size = sizeof(VaeStreamParams),
                                  .backend = bed->backend,
                                  .precision = bed->precision,
                                  .width = W,
                                  .height = H,
                                  .slice_size = 1,
                                  .frames_at_once = ALL,
                                  .strips = 1,
                                  .spill = VAE_SPILL_OFF};
    VaeError error = {0};
    VaeStreamParams p = good;
    p.width = 0;
    refuse(bed, p, VAE_ERR_SIZE, "width 0");
    p = good;
    p.slice_size = -1;
    refuse(bed, p, VAE_ERR_ARGUMENT, "slice size -1");
    p = good;
    p.threads = -1;
    refuse(bed, p, VAE_ERR_ARGUMENT, "threads -1");
    p = good;
    p.device = -2;
    refuse(bed, p, VAE_ERR_ARGUMENT, "device -2");
    p = good;
    p.direction = (VaeDirection) 2;
    refuse(bed, p, VAE_ERR_ARGUMENT, "direction 2");
    p = good;
    p.pixels = (VaePixels) -1;
    refuse(bed, p, VAE_ERR_ARGUMENT, "pixels -1");
    p = good;
    p.memory_share = NAN;
    refuse(bed, p, VAE_ERR_ARGUMENT, "a memory share of NaN");
    p = good;
    p.memory_limit = 1000;
    error = refuse(bed, p, VAE_ERR_MEMORY, "a limit of 1000 bytes");
    expect(strstr(error.message, "activations") &&
               strstr(error.message, "others not counted") &&
               strncmp(error.found, "more than ", 10) == 0,
           "the error names the purposes known so far");
    p = good;
    VaePlan plan = plan_of(bed->model, &p);
    p.memory_limit = (size_t) plan.peak - 1;
    error = refuse(bed, p, VAE_ERR_MEMORY, "a byte less than planned");
    expect(strstr(error.message, "weights") &&
               strstr(error.message, "library about") &&
               !strstr(error.message, "not counted") &&
               !strstr(error.message, "more than"),
           "the error names every purpose");
    p = good;
    p.backend = VAE_BACKEND_REF;
    p.precision = VAE_PRECISION_FP16;
    refuse(bed, p, VAE_ERR_UNSUPPORTED, "fp16 by ref");
}

static void
bad_calls(const Bed *bed)
{
    SCOPED_CLIP TestClip clip = bed_clip(bed, 1, W, H, 0);
    SCOPED_CLIP TestClip want = alone(bed, VAE_DECODE, 1, W, H, 0);
    Loop loop = {.stream = plain(bed, VAE_DECODE), .direction = VAE_DECODE};
    SCOPED_STREAM VaeStream *s = loop.stream;
    VaeStreamStats stats;
    VaeError error = {0};
    loop_fill(&loop, &clip);
    const VaeLatentIn *l = loop.latents;
    expect_misuse(vae_stream_decode(s, l, 1, loop.pictures, 4, &error),
                  VAE_ERR_ARGUMENT, &error, "4 frames of the first latent");
    expect_misuse(vae_stream_decode(s, l, 0, loop.pictures, 0, &error),
                  VAE_ERR_ARGUMENT, &error, "no latents");
    expect_misuse(vae_stream_decode(s, l, 2, loop.pictures, 1, &error),
                  VAE_ERR_ARGUMENT, &error, "1 frame of two latents");
    expect_misuse(
        vae_stream_encode(s, loop.pictures, 1, loop.results, 1, &error),
        VAE_ERR_ARGUMENT, &error, "encode with a decoder");
    loop.pictures[0].width = W - 1;
    expect_misuse(vae_stream_decode(s, l, 1, loop.pictures, 1, &error),
                  VAE_ERR_SIZE, &error, "a picture of another size");
    loop.pictures[0].width = W;
    stats = *vae_stream_stats(s);
    expect(stats.runs_first == 0 && vae_stream_at_start(s),
           "a refused call runs nothing");
    clip_poison(bed, &clip, VAE_DECODE);
    expect_status(vae_stream_decode(s, l, 1, loop.pictures, 1, &error), VAE_OK,
                  &error, "the right call after wrong ones");
    same_result(bed, &clip, &want, VAE_DECODE, "after refused calls");
    if (bed->info->temporal > 1)
        expect_misuse(vae_stream_decode(s, l, 1, loop.pictures, 1, &error),
                      VAE_ERR_ARGUMENT, &error, "1 frame of a later latent");
}

/* A frame without memory for its result is still computed. */
static void
skipped_frames(const Bed *bed)
{
    SCOPED_CLIP TestClip clip = bed_clip(bed, 1, W, H, 0);
    SCOPED_CLIP TestClip want = alone(bed, VAE_DECODE, 2, W, H, 0);
    Loop loop = {.stream = plain(bed, VAE_DECODE), .direction = VAE_DECODE};
    const size_t latent = clip_latent_count(bed, &want) / 2;
    const int skipped = bed->info->decode.step_out;
    const size_t frame = clip_video_count(&want) / (size_t) (1 + skipped);
    VaeError error;
    loop_fill(&loop, &clip);
    loop.latents[0].data = want.latents;
    loop.latents[1].data = want.latents + latent;
    for (int i = 0; i < skipped; i++)
        loop.pictures[i].data[0] = NULL;
    must(vae_stream_decode(loop.stream, loop.latents, 2, loop.pictures,
                           1 + skipped, &error),
         &error);
    const float *last = want.video + (size_t) skipped * frame;
    expect(memcmp(clip.video, last, frame * sizeof(float)) == 0,
           "only the last of %d frames has memory", 1 + skipped);
    vae_stream_free(&loop.stream);
}

/* Converts normalized latents to raw ones, and rounds as the library does. */
static void
make_raw(const Bed *bed, const TestClip *clip)
{
    const int channels = bed->info->latent_channels;
    const size_t n = clip_latent_count(bed, clip);
    const size_t plane = n / (size_t) clip->t / (size_t) channels;
    for (size_t i = 0; i < n; i++) {
        const size_t c = i / plane % (size_t) channels;
        const volatile float v = clip->latents[i] * bed->info->std[c];
        clip->latents[i] = v + bed->info->mean[c];
    }
}

static double
rms(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += ((double) a[i] - b[i]) * ((double) a[i] - b[i]);
    return sqrt(sum / (double) n);
}

/* If the caller applies the mean and deviation itself, the results are the
 * same: to the byte, or, if the network takes normalized latents, except for
 * two roundings. */
static void
raw_latents(const Bed *bed, VaeDirection direction)
{
    const bool decode = direction == VAE_DECODE;
    SCOPED_CLIP TestClip want = alone(bed, direction, 2, W, H, 0);
    SCOPED_CLIP TestClip clip = bed_clip(bed, 2, W, H, 0);
    make_raw(bed, decode ? &clip : &want);
    SCOPED_STREAM VaeStream *stream =
        bed_stream(bed, (VaeStreamParams){.direction = direction,
                                          .width = W,
                                          .height = H,
                                          .normalization = VAE_RAW});
    run_clip(bed, stream, direction, &clip, one_by_one);
    size_t bytes;
    const float *got = clip_result(bed, &clip, direction, &bytes);
    const double error =
        rms(got, clip_result(bed, &want, direction, &bytes), bytes / 4);
    const double bound = bed->precision == VAE_PRECISION_BF16 ? 0.02 : 1e-5;
    if (decode && !bed->info->takes_normalized)
        same_result(bed, &clip, &want, direction, "raw latents");
    else
        expect(error < bound, "raw latents %s: rms %.3g, bound %.3g",
               decode ? "in" : "out", error, bound);
}

int
main(int argc, char **argv)
{
    Bed bed;
    bed_open_main(&bed, argc, argv);
    bed.threads = 2;
    const VaeDirection directions[] = {VAE_DECODE, VAE_ENCODE};
    for (int i = 0; i < 2; i++) {
        const VaeDirection d = directions[i];
        printf("%s\n", d == VAE_DECODE ? "decode" : "encode");
        memory(&bed, d);
        interleaved(&bed, d);
        reset(&bed, d);
        five_runs(&bed, d);
        cancel(&bed, d);
    }
    odd_size(&bed);
    not_finite(&bed);
    times(&bed);
    memory_limits(&bed);
    bad_params(&bed);
    bad_calls(&bed);
    skipped_frames(&bed);
    raw_latents(&bed, VAE_DECODE);
    raw_latents(&bed, VAE_ENCODE);
    return bed_close(&bed);
}

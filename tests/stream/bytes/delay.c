/*
 * delay.c: tests a decoder whose frames come later than their latents. Slices,
 * resets, restarts, checkpoints, released memory and single units do not change
 * the bytes.
 *
 * delay MODEL BACKEND PRECISION [short|lengths]
 *   lengths  nothing but clips of every length
 */
#include "../streams.h"
#include "model.h"

enum { W = 64, H = 64, MOST = 33, EXACT = -1 };
static const int ones[] = {1, 0};

typedef struct Case {
    const Bed *bed;
    int ahead, delay; /* look-ahead and delay of the model */
    int held;         /* first frames that come with the one after them */
    int rate;         /* frames for a latent */
    VaeWindows windows;
    VaeTileLatents tile; /* or 0 */
    TestClip all;        /* the longest clip, and the number of its frames */
} Case;

static VaeStream *
open_stream(const Case *c, int slice, int look_ahead)
{
    const int n = look_ahead < 0 ? 0 : look_ahead;
    return bed_stream(c->bed, (VaeStreamParams){.width = W,
                                                .height = H,
                                                .slice_size = slice,
                                                .restarts = true,
                                                .low_latency = look_ahead >= 0,
                                                .look_ahead = n});
}

static size_t
latent_numbers(const Case *c)
{
    return clip_latent_count(c->bed, &c->all) / (size_t) c->all.t;
}

/* Returns latents from .. from+t-1 as a clip with its own frames. */
static TestClip
part(const Case *c, int from, int t, int frames)
{
    TestClip clip = c->all;
    clip.t = t;
    clip.frames = frames;
    clip.latents += (size_t) from * latent_numbers(c);
    clip.video =
        test_alloc(clip_video_count(&clip) * sizeof(float) + sizeof(float));
    clip_poison(c->bed, &clip, VAE_DECODE);
    return clip;
}

static int
frames_of(const Case *c, int t)
{
    return t ? (int) vae_model_frames_of(c->bed->model, t) : 0;
}

/* Returns the frames of the first t latents alone, which the caller frees. */
static TestClip
first(const Case *c, int t, int slice, const int *calls)
{
    TestClip clip = part(c, 0, t, frames_of(c, t));
    SCOPED_STREAM VaeStream *stream = open_stream(c, slice, EXACT);
    run_clip(c->bed, stream, VAE_DECODE, &clip, calls);
    return clip;
}

/* True if n frames of a and b are equal, from these indices on. */
static bool
same(const TestClip *a, int from_a, const TestClip *b, int from_b, int n)
{
    const size_t one = (size_t) W * H * 3;
    return n <= 0 || memcmp(a->video + (size_t) from_a * one,
                            b->video + (size_t) from_b * one,
                            (size_t) n * one * sizeof(float)) == 0;
}

/* ------------------------------------------------------------------ */

/* The first latent of the window with this latent, or of the one after it. */
static int
window_begin(const Case *c, int latent, bool after)
{
    const VaeWindows *w = &c->windows;
    const int index = latent < w->first ? 0 : (latent - w->first) / w->size + 1;
    return index + after ? w->first + (index + after - 1) * w->size : 0;
}

/* The first frames of t latents that do not depend on the end. */
static int
sure_frames(const Case *c, int t)
{
    const int wait =
        c->windows.size ? t - window_begin(c, t - 1, false) : c->ahead;
    if (!c->tile.size)
        return frames_of(c, t > wait ? t - wait : 0);
    const int more = t - c->tile.size, each = c->rate * c->tile.stride;
    return more < 0 ? 0 : each * (more / c->tile.stride + 1) + 1;
}

/* Decodes clips of every length. Frames that do not depend on the end are those
 * of the longest clip. Slices and calls do not change the bytes. */
static void
lengths(const Case *c, int step)
{
    for (int t = 1; t <= MOST; t += step) {
        const int whole[] = {t, 0}, uneven[] = {2, 1, 3, 0};
        TestClip a = first(c, t, 1, ones), b = first(c, t, 3, uneven),
                 d = first(c, t, t, whole);
        const int sure = sure_frames(c, t);
        expect(same(&a, 0, &b, 0, a.frames) && same(&a, 0, &d, 0, a.frames),
               "%d latents in slices of 1, 3 and all: the same %d frames", t,
               a.frames);
        expect(same(&a, 0, &c->all, 0, sure),
               "  the first %d are those of a longer clip", sure);
        if (t > c->ahead && t < MOST)
            expect(!same(&a, sure, &c->all, sure,
                         c->windows.size || c->tile.size ? a.frames - sure
                                                         : c->rate),
                   "  the frames behind them depend on the end");
        free(a.video);
        free(b.video);
        free(d.video);
    }
}

/* The announced numbers of frames follow the delay. */
static void
counts(const Case *c)
{
    SCOPED_STREAM VaeStream *stream = open_stream(c, 2, EXACT);
    VaeError error;
    int n_in, n_out, given = 0, steps, total = 0;
    bool good = vae_stream_drain_count(stream, 0, NULL) == 0;
    TestClip clip = part(c, 0, MOST, frames_of(c, MOST));
    VaePicture none[16] = {{0}};
    vae_stream_count(stream, 3 << 27, &n_in, &n_out);
    expect(n_in == 1 << 24 && n_out > 0 &&
               vae_stream_decode(stream, NULL, 3 << 27, NULL, n_out, &error) ==
                   VAE_ERR_ARGUMENT,
           "more latents than a call can take: %s", error.message);
    for (int t = 0; t < MOST; t++) {
        const VaeLatentIn latent = {
            VAE_TYPE_F32, clip.latents + (size_t) t * latent_numbers(c)};
        vae_stream_count(stream, 1, &n_in, &n_out);
        given += n_out;
        const int law = frames_of(c, t + 1) - c->delay;
        good = good && n_in == 1 && given == (law > c->held ? law : 0);
        must(vae_stream_decode(stream, &latent, 1, none, n_out, &error),
             &error);
    }
    expect(good,
           "each of %d latents gives its frames after the delay of %d frames",
           MOST, c->delay);
    steps = vae_stream_drain_count(stream, 0, NULL);
    vae_stream_drain_count(stream, steps, &total);
    vae_stream_drain_count(stream, INT32_MAX, &n_out);
    expect(steps == c->ahead && given + total == clip.frames && n_out == total,
           "%d steps at the end give %d frames", steps, total);
    expect(vae_stream_drain(stream, steps + 1, none, total, &error) ==
               VAE_ERR_ARGUMENT,
           "one step too many: %s", error.message);
    expect(vae_stream_drain(stream, 1, none, 9, &error) == VAE_ERR_ARGUMENT,
           "frames too many: %s", error.message);
    const VaeStreamStats *stats = vae_stream_stats(stream);
    for (int left = steps; left > 0; left--) {
        vae_stream_drain_count(stream, 1, &n_out);
        must(vae_stream_drain(stream, 1, none, n_out, &error), &error);
        given += n_out;
        good = good && vae_stream_drain_count(stream, 0, NULL) == left - 1;
    }
    expect(good && given == clip.frames &&
               stats->units_out == (uint64_t) clip.frames &&
               stats->units_in == MOST,
           "step by step: %d frames", given);
    const VaeLatentIn latent = {VAE_TYPE_F32, clip.latents};
    expect(vae_stream_decode(stream, &latent, 1, none, 8, &error) ==
               VAE_ERR_ARGUMENT,
           "a latent after the end: %s", error.message);
    const VaeCheckpointParams place = {.struct_size = sizeof place,
                                       .path = "delay.ckpt"};
    expect(vae_stream_save(stream, &place, &error) == VAE_ERR_ARGUMENT,
           "saved after the end: %s", error.message);
    free(clip.video);
}

/* Earlier steps do not matter after a reset in the middle or at the end of a
 * clip. */
static void
resets(const Case *c)
{
    SCOPED_STREAM VaeStream *stream = open_stream(c, 2, EXACT);
    const int uneven[] = {1, 2, 0};
    for (int t = 3; t < MOST; t += 11) {
        TestClip want = first(c, t, 1, ones), got = part(c, 0, t, want.frames);
        run_clip(c->bed, stream, VAE_DECODE, &got, uneven);
        const bool good = same(&got, 0, &want, 0, want.frames);
        vae_stream_reset(stream);
        expect(good, "%d latents after %s", t,
               t == 3 ? "nothing" : "a shorter clip");
        /* Runs some steps, and resets before the end. */
        VaeError error;
        int n_in, n_out;
        VaePicture none[64] = {{0}};
        VaeLatentIn latents[4];
        for (int i = 0; i < 4; i++)
            latents[i] = (VaeLatentIn){VAE_TYPE_F32, c->all.latents};
        for (int i = 0; i < 6; i++) {
            vae_stream_count(stream, 4, &n_in, &n_out);
            must(vae_stream_decode(stream, latents, n_in, none, n_out, &error),
                 &error);
        }
        vae_stream_reset(stream);
        free(want.video);
        free(got.video);
    }
}

/* A restart in the middle gives as many frames for the first latent as for the
 * later ones. Frames that do not depend on earlier latents are exact, such as
 * those of the next window. */
static void
restarts(const Case *c)
{
    const int at = 3, t = MOST - at;
    int history;
    VaeError error;
    must(vae_model_history(c->bed->model, VAE_DECODE, &history, &error),
         &error);
    TestClip got = part(c, at, t, c->rate * t);
    VaeStream *stream = open_stream(c, 3, EXACT);
    must(vae_stream_restart(stream, (uint64_t) at, &error), &error);
    run_clip(c->bed, stream, VAE_DECODE, &got, ones);
    vae_stream_free(&stream);
    const int exact = c->windows.size ? window_begin(c, at, true) - at
                      : c->tile.size  ? c->tile.size - c->tile.stride
                                      : history;
    const int skip = c->rate * exact, from = frames_of(c, at) + skip;
    const VaeWindows *w = &c->windows;
    const int most = w->size > w->first ? w->size : w->first;
    expect(history == (w->size ? most : c->ahead) &&
               same(&got, skip, &c->all, from, got.frames - skip),
           "restarted at latent %d: exact from %d latents on", at, exact);
    expect(!same(&got, skip - c->rate, &c->all, from - c->rate, c->rate),
           "  and not exact before");
    free(got.video);
}

/* ------------------------------------------------------------------ */

/* Saves after `at` latents; another stream continues. */
static void
checkpoint(const Case *c, int at, bool carries)
{
    char path[] = "/tmp/delay-XXXXXX";
    close(mkstemp(path));
    VaeCheckpointParams place = {
        .struct_size = sizeof place, .path = path, .carries = carries};
    VaeCheckpoint found = VAE_INIT(VaeCheckpoint);
    VaeError error;
    int n_in, n_out, given = 0;
    VaePicture none[16] = {{0}};
    VaeStream *stream = open_stream(c, 1, EXACT),
              *next = open_stream(c, 2, EXACT);
    for (int i = 0; i < at; i++) {
        const VaeLatentIn latent = {
            VAE_TYPE_F32, c->all.latents + (size_t) i * latent_numbers(c)};
        vae_stream_count(stream, 1, &n_in, &n_out);
        must(vae_stream_decode(stream, &latent, 1, none, n_out, &error),
             &error);
        given += n_out;
    }
    must(vae_stream_save(stream, &place, &error), &error);
    vae_stream_free(&stream);
    must(vae_stream_load(next, &place, &found, &error), &error);
    const int begin = (int) found.begin;
    int lost = 0; /* frames of latents before the checkpoint */
    for (int i = begin; i < at; i++) {
        const VaeLatentIn latent = {
            VAE_TYPE_F32, c->all.latents + (size_t) i * latent_numbers(c)};
        vae_stream_count(next, 1, &n_in, &n_out);
        must(vae_stream_decode(next, &latent, 1, none, n_out, &error), &error);
        lost += n_out;
    }
    TestClip rest = part(c, at, MOST - at, c->all.frames - given);
    run_clip(c->bed, next, VAE_DECODE, &rest, ones);
    expect((int) found.latents == at && (carries || !at || begin < at) &&
               (int) found.frame == given - lost &&
               same(&rest, 0, &c->all, given, rest.frames),
           "saved after %d latents and %d frames %s carries: %d more frames "
           "(begins with latent %d, %d frames thrown away)",
           at, given, carries ? "with" : "without", rest.frames, begin, lost);
    vae_stream_free(&next);
    free(rest.video);
    unlink(path);
}

/* A stream with another look-ahead would repeat or miss frames. */
static void
other_look_ahead(const Case *c)
{
    char path[] = "/tmp/delay-XXXXXX";
    close(mkstemp(path));
    const VaeCheckpointParams place = {.struct_size = sizeof place,
                                       .path = path};
    VaeCheckpoint found = VAE_INIT(VaeCheckpoint);
    VaeError error = {0};
    SCOPED_STREAM VaeStream *saved = open_stream(c, 1, 0),
                            *next = open_stream(c, 1, EXACT);
    must(vae_stream_save(saved, &place, &error), &error);
    const VaeStatus status = vae_stream_load(next, &place, &found, &error);
    expect(status == VAE_ERR_ARGUMENT &&
               strstr(error.message, "the delay in frames is \"0\" there"),
           "a checkpoint of another look-ahead is refused: %s", error.message);
    unlink(path);
}

/* Returns pictures for the next n frames of a clip. */
static void
fill(const TestClip *clip, int from, int n, VaePicture *out)
{
    for (int i = 0; i < n; i++)
        out[i] = (VaePicture){
            .pixels = VAE_PIXELS_RGB_F32,
            .width = W,
            .height = H,
            .data = {(uint8_t *) (clip->video +
                                  (size_t) (from + i) * W * H * 3)},
            .stride = {W * 3 * sizeof(float)}};
}

/* The memory is released before some steps, also at the end. */
static void
releases(const Case *c)
{
    TestClip got = part(c, 0, MOST, c->all.frames);
    SCOPED_STREAM VaeStream *stream = open_stream(c, 1, EXACT);
    VaePicture pictures[16];
    VaeError error;
    int n_in, n, given = 0;
    for (int i = 0; i < MOST + c->ahead; i++) {
        if (i % 8 == 5)
            must(vae_stream_release(stream, &error), &error);
        if (i < MOST)
            vae_stream_count(stream, 1, &n_in, &n);
        else
            vae_stream_drain_count(stream, 1, &n);
        fill(&got, given, n, pictures);
        const VaeLatentIn latent = {
            VAE_TYPE_F32,
            c->all.latents + (size_t) (i < MOST ? i : 0) * latent_numbers(c)};
        must(i < MOST
                 ? vae_stream_decode(stream, &latent, 1, pictures, n, &error)
                 : vae_stream_drain(stream, 1, pictures, n, &error),
             &error);
        given += n;
    }
    expect(given == got.frames && same(&got, 0, &c->all, 0, got.frames),
           "released and reloaded: the same %d frames", given);
    free(got.video);
}

/* Sends and receives single units. */
static void
sends(const Case *c, int t, int slice)
{
    SCOPED_STREAM VaeStream *stream = open_stream(c, slice, EXACT);
    TestClip want = first(c, t, 1, ones), got = part(c, 0, t, want.frames);
    VaeStatus status = VAE_OK;
    VaeError error;
    int sent = 0, received = 0;
    while (status != VAE_END) {
        const int at = received < got.frames ? received : got.frames - 1;
        VaePicture picture;
        fill(&got, at, 1, &picture);
        status = vae_stream_receive_picture(stream, &picture, &error);
        received += status == VAE_OK;
        if (status == VAE_AGAIN) {
            const VaeLatentIn latent = {
                VAE_TYPE_F32, got.latents + (size_t) sent * latent_numbers(c)};
            status = vae_stream_send_latent(stream, sent < t ? &latent : NULL,
                                            &error);
            sent++;
        }
        must(status == VAE_END ? VAE_OK : status, &error);
    }
    expect(received == want.frames && same(&got, 0, &want, 0, want.frames),
           "%d latents sent, slices of %d: %d frames received", t, slice,
           received);
    free(want.video);
    free(got.video);
}

/* With a look-ahead of n, the frames of latent k are those of a clip that ends
 * with latent k + n. */
static void
looks_ahead(const Case *c, int n, int t)
{
    const int uneven[] = {3, 1, 2, 0};
    TestClip a = part(c, 0, t, frames_of(c, t)), b = part(c, 0, t, a.frames);
    SCOPED_STREAM VaeStream *one = open_stream(c, 1, n),
                            *two = open_stream(c, 2, n);
    run_clip(c->bed, one, VAE_DECODE, &a, ones);
    run_clip(c->bed, two, VAE_DECODE, &b, uneven);
    const int exact = c->ahead * 8 < c->delay ? c->ahead * 8 : c->delay;
    const int delay = n * 8 < exact ? n * 8 : exact;
    expect(vae_stream_get_plan(one)->delay == delay &&
               same(&a, 0, &b, 0, a.frames),
           "a look-ahead of %d: a delay of %d frames, the same for all slices",
           n, delay);
    bool good = true;
    for (int k = 0; k < t; k++) {
        const int cut = k + n + 1 < t ? k + n + 1 : t;
        TestClip want = first(c, cut, 1, ones);
        const int from = frames_of(c, k);
        good = good && same(&a, from, &want, from, frames_of(c, k + 1) - from);
        free(want.video);
    }
    expect(good,
           "  the frames of each latent are those of a clip that ends %d "
           "latents later",
           n);
    free(a.video);
    free(b.video);
}

/* ------------------------------------------------------------------ */

/* Counts allocations in calls for which the test itself allocates nothing. */
static void
allocations(const Case *c, int look_ahead)
{
    SCOPED_STREAM VaeStream *stream = open_stream(c, 2, look_ahead);
    VaeLatentIn latents[4];
    VaePicture none[MOST * 8] = {{0}};
    VaeError error;
    int n_in, n_out;
    uint64_t taken = 0;
    for (int i = 0; i < 4; i++)
        latents[i] = (VaeLatentIn){VAE_TYPE_F32, c->all.latents};
    for (int round = 0; round < 2; round++) {
        if (round)
            taken = vae_allocation_count();
        for (int i = 0; i < 7; i++) {
            vae_stream_count(stream, 4, &n_in, &n_out);
            must(vae_stream_decode(stream, latents, n_in, none, n_out, &error),
                 &error);
        }
        const int steps = vae_stream_drain_count(stream, 0, NULL);
        vae_stream_drain_count(stream, steps, &n_out);
        must(vae_stream_drain(stream, steps, none, n_out, &error), &error);
        vae_stream_reset(stream);
    }
    expect(vae_allocation_count() == taken,
           "no allocation by steps or at the end");
}

/* A NaN reaches exactly the frames of the look-ahead and the look-back. */
static void
reach(const Case *c)
{
    const int at = MOST / 2;
    const size_t n = latent_numbers(c);
    float *bad = c->all.latents + (size_t) at * n;
    float *kept = test_alloc(n * sizeof *kept);
    memcpy(kept, bad, n * sizeof *kept);
    for (size_t i = 0; i < n; i++)
        bad[i] = NAN;
    TestClip clip = first(c, MOST, 2, ones);
    memcpy(bad, kept, n * sizeof *kept);
    free(kept);
    int from = -1, to = -1;
    for (int f = 0; f < clip.frames; f++)
        if (!same(&clip, f, &c->all, f, 1)) {
            from = from < 0 ? f : from;
            to = f;
        }
    /* Frame f depends on latents from (f - D') / 8 to (f + D) / 8, where D =
     * delay + 7, and symmetrically in front. */
    int low = 8 * at - c->delay - 7, high = 8 * at + c->delay;
    if (c->windows.size) { /* of all windows that read the latent */
        low = c->rate * (window_begin(c, at - 1, false) - 1) + 1;
        high = c->rate * (window_begin(c, at + 1, true) - 1);
    }
    if (c->tile.size) { /* those of two tiles, and the blended ones */
        const int stride = c->tile.stride, over = c->tile.size - 1 - stride;
        low = c->rate * stride * ((at - c->tile.size) / stride + 1) + 1;
        high = c->rate * (stride * (at / stride + 1) + over);
    }
    expect(from == (low > 0 ? low : 0) &&
               to == (high < clip.frames ? high : clip.frames - 1),
           "a NaN in latent %d reaches frames %d to %d", at, from, to);
    free(clip.video);
}

/* With a smaller look-ahead than that of the model. */
static void
shorter(const Case *c, bool brief)
{
    other_look_ahead(c);
    looks_ahead(c, 0, 3);
    looks_ahead(c, 2, 5);
    if (!brief)
        looks_ahead(c, c->ahead - 1, c->ahead + 3);
    allocations(c, 1);
}

static void
refused(const Case *c)
{
    const VaeStreamParams params = {.struct_size = sizeof params,
                                    .backend = c->bed->backend,
                                    .width = W,
                                    .height = H,
                                    .low_latency = true,
                                    .look_ahead = c->ahead - 1};
    VaeStream *stream = NULL;
    VaeError error = {0};
    expect(vae_stream_new(c->bed->model, &params, &stream, &error) ==
                   VAE_ERR_UNSUPPORTED &&
               strstr(error.message,
                      c->windows.size ? "windows of " : "tiles of 5 latents"),
           "windows and tiles need all of their latents: %s", error.message);
    vae_stream_free(&stream);
}

int
main(int argc, char **argv)
{
    Bed bed;
    const bool brief = argc == 5;
    const bool every = brief && strcmp(argv[4], "lengths") == 0;
    bed_open_main(&bed, brief ? 4 : argc, argv);
    Case c = {.bed = &bed,
              .ahead = bed.info->look_ahead,
              .delay = bed.info->delay,
              .held = bed.info->held,
              .rate = bed.info->temporal,
              .windows = bed.model->windows,
              .tile = bed.info->in_tiles
                          ? vae_tile_latents(VAE_TILE_PLAN_DIFFUSERS)
                          : (VaeTileLatents){0},
              .all = bed_clip(&bed, MOST, W, H, 0)};
    clip_poison(&bed, &c.all, VAE_DECODE);
    VaeStream *stream = open_stream(&c, 1, EXACT);
    run_clip(&bed, stream, VAE_DECODE, &c.all, ones);
    vae_stream_free(&stream);
    if (every) {
        lengths(&c, 1);
        clip_free(&c.all);
        vae_model_free(&bed.model);
        return tests_end();
    }
    counts(&c);
    lengths(&c, brief ? 8 : 1);
    resets(&c);
    restarts(&c);
    for (int at = 0; at < MOST; at += brief ? 13 : 4) {
        checkpoint(&c, at, true);
        checkpoint(&c, at, false);
    }
    releases(&c);
    sends(&c, 2, 1);
    sends(&c, MOST - 3, 4);
    allocations(&c, EXACT);
    reach(&c);
    if (c.windows.size || c.tile.size)
        refused(&c);
    else
        shorter(&c, brief);
    clip_free(&c.all);
    return bed_close(&bed);
}

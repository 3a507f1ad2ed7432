/*
 * checkpoint.c: a stream that continues from a checkpoint gives the same bytes.
 * Files of other runs and damaged files are refused.
 *
 * checkpoint MODEL BACKEND PRECISION
 */
#include "../streams.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "vae-private/stream.h"

/* AFTER: steps after the checkpoint. */
enum { AFTER = 3, W = 32, H = 16 };
static const int threes[] = {3, 0}, ones[] = {1, 0};
static char folder[64], file[96];

typedef struct Case {
    const Bed *bed;
    VaeDirection direction;
    const VaeSteps *steps;
    int t;        /* steps */
    int history;  /* steps that the network looks back. 0: it has no carries, so
                     that each checkpoint counts as one with carries */
    TestClip all; /* a clip from the start, and its results */
} Case;

static VaeStreamParams
params_of(const Case *c)
{
    return (VaeStreamParams){.struct_size = sizeof(VaeStreamParams),
                             .direction = c->direction,
                             .width = W,
                             .height = H,
                             .slice_size = 3,
                             .restarts = true};
}

/* Returns the number of units before step k, in or out. */
static int
before(const Case *c, int k, bool in)
{
    return units_before(c->bed, c->direction, k, in);
}

/* Returns steps k .. to of the clip, with a new block of results, which the
 * caller frees. A sequence without context gives a whole first group. */
static TestClip
part(const Case *c, int k, int to, float **result)
{
    const bool decode = c->direction == VAE_DECODE;
    const int side = c->bed->info->spatial;
    const size_t latent =
        (size_t) c->bed->info->latent_channels * (H / side) * (W / side);
    TestClip clip = c->all;
    const int latents = before(c, k, decode), frames = before(c, k, !decode);
    clip.t = before(c, to, decode) - latents;
    clip.frames = before(c, to, !decode) - frames;
    clip.latents += (size_t) latents * latent;
    clip.video += (size_t) frames * W * H * 3;
    const size_t n =
        decode ? clip_video_count(&clip) : clip_latent_count(c->bed, &clip);
    *result = test_alloc((n + 1) * sizeof **result);
    *(decode ? &clip.video : &clip.latents) = *result;
    clip_poison(c->bed, &clip, c->direction);
    return clip;
}

static size_t
step_numbers(const Case *c, int from, int to)
{
    const int side = c->bed->info->spatial;
    const size_t one =
        c->direction == VAE_DECODE
            ? (size_t) W * H * 3
            : (size_t) c->bed->info->latent_channels * (H / side) * (W / side);
    return one * (size_t) (before(c, to, false) - before(c, from, false));
}

/* Runs steps k .. to, and compares the results of step `check` and later
 * ones. */
static bool
goes_on(const Case *c, VaeStream *stream, int k, int check, int to,
        const int *plan)
{
    SCOPED_BLOCK float *result = NULL;
    TestClip clip = part(c, k, to, &result);
    if (to > k)
        run_clip(c->bed, stream, c->direction, &clip, plan);
    size_t bytes;
    const float *want = clip_result(c->bed, &c->all, c->direction, &bytes);
    const bool same = memcmp(result + step_numbers(c, k, check),
                             want + step_numbers(c, 0, check),
                             step_numbers(c, check, to) * sizeof *want) == 0;
    return same;
}

static VaeCheckpointParams
place(bool carries, uint64_t frames)
{
    static const VaeMetadata own[] = {{"input", "some clip"}};
    return (VaeCheckpointParams){.struct_size = sizeof(VaeCheckpointParams),
                                 .path = file,
                                 .carries = carries,
                                 .frames = frames,
                                 .own = own,
                                 .n_own = 1};
}

/* Saves after k steps, and loads into a stream of another rung. */
static void
at_step(const Case *c, int k, bool carries)
{
    VaeStreamParams params = params_of(c);
    VaeStream *stream = bed_stream(c->bed, params), *next;
    VaeCheckpointParams p = place(carries, (uint64_t) before(c, k, false));
    VaeCheckpoint found = VAE_INIT(VaeCheckpoint);
    VaeError error;
    bool good = goes_on(c, stream, 0, 0, k, threes);
    must(vae_stream_save(stream, &p, &error), &error);
    good = good && goes_on(c, stream, k, k, c->t, threes);
    vae_stream_free(&stream);
    params.slice_size = 1;
    params.frames_at_once = 1;
    params.strips = 3;
    next = bed_stream(c->bed, params);
    /* Earlier work of the loading stream does not matter. */
    if (k % 2)
        good = good && goes_on(c, next, 0, 0, 2, ones);
    must(vae_stream_load(next, &p, &found, &error), &error);
    const int latents =
        c->direction == VAE_DECODE ? before(c, k, true) : before(c, k, false);
    good = good && found.latents == (uint64_t) latents &&
           found.frames == p.frames && found.begin <= found.latents &&
           found.carries == ((carries && k > 0) || !c->history) &&
           (!found.carries || found.begin == found.latents) &&
           found.next == (uint64_t) before(c, (int) found.begin, true) &&
           found.frame == (uint64_t) before(c, (int) found.begin,
                                            c->direction == VAE_ENCODE);
    /* A step has one latent in all networks. */
    good = good && goes_on(c, next, (int) found.begin, k, c->t,
                           carries ? ones : threes);
    vae_stream_free(&next);
    expect(good,
           "after %d steps, %s: continues from step %d with the same bytes", k,
           carries ? "with carries" : "without", (int) found.begin);
}

/* After a restart, a checkpoint begins no earlier than the restart. */
static void
after_restart(const Case *c, int origin)
{
    const int k = origin + 2, first = origin ? origin : 1;
    const int begin = c->history ? first : k;
    SCOPED_STREAM VaeStream *stream = bed_stream(c->bed, params_of(c));
    SCOPED_STREAM VaeStream *next = bed_stream(c->bed, params_of(c));
    VaeCheckpointParams p = place(false, 0);
    VaeCheckpoint found = VAE_INIT(VaeCheckpoint);
    VaeError error;
    SCOPED_BLOCK float *want = NULL, *got = NULL;
    TestClip all = part(c, first, c->t, &want);
    must(vae_stream_restart(stream, (uint64_t) origin, &error), &error);
    TestClip head = part(c, first, k, &got);
    run_clip(c->bed, stream, c->direction, &head, ones);
    must(vae_stream_save(stream, &p, &error), &error);
    vae_stream_free(&stream);
    stream = bed_stream(c->bed, params_of(c));
    must(vae_stream_restart(stream, (uint64_t) origin, &error), &error);
    run_clip(c->bed, stream, c->direction, &all, ones);
    must(vae_stream_load(next, &p, &found, &error), &error);
    free(got);
    TestClip rest = part(c, begin, c->t, &got);
    run_clip(c->bed, next, c->direction, &rest, ones);
    size_t bytes;
    clip_result(c->bed, &rest, c->direction, &bytes);
    expect(found.begin == (uint64_t) (origin + begin - first) &&
               memcmp(got, want + step_numbers(c, first, begin), bytes) == 0,
           "a restart at %d: continues from there with the same bytes", origin);
}

/* ------------------------------------------------------------------ */
/* An encoder that gets frames one at a time.                          */

static VaeStatus
send_frame(const Case *c, VaeStream *stream, int k, VaeError *error)
{
    const VaePicture p = {
        .pixels = VAE_PIXELS_RGB_F32,
        .width = W,
        .height = H,
        .data = {(uint8_t *) (c->all.video + (size_t) k * W * H * 3)},
        .stride = {W * 3 * sizeof(float)}};
    return vae_stream_send_picture(stream, k < 0 ? NULL : &p, error);
}

/* Sends frames from .. to, and the end. Returns the number of latents. */
static int
encode_frames(const Case *c, VaeStream *stream, int from, int to, bool end,
              float *latents)
{
    VaeError error;
    for (int n = 0;;) {
        const VaeLatentOut out = {.type = VAE_TYPE_F32,
                                  .data = latents + n * step_numbers(c, 0, 1)};
        const VaeStatus status =
            vae_stream_receive_latent(stream, &out, &error);
        if (status == VAE_END || (status == VAE_AGAIN && from == to && !end))
            return n;
        if (status == VAE_OK)
            n++;
        else if (status != VAE_AGAIN)
            must(status, &error);
        else
            must(send_frame(c, stream, from < to ? from++ : -1, &error),
                 &error);
    }
}

/* A sequence of n frames with a checkpoint after two steps has the same latents
 * as one without, also those of the last frame's copies. */
static void
sent_in_parts(const Case *c, int n, bool carries)
{
    const size_t one = step_numbers(c, 0, 1);
    const int cut = before(c, 2, true);
    SCOPED_BLOCK float *want =
        test_alloc((size_t) (n + 2) * one * sizeof *want);
    SCOPED_BLOCK float *got = test_alloc((size_t) (n + 2) * one * sizeof *got);
    SCOPED_STREAM VaeStream *whole = bed_stream(c->bed, params_of(c));
    SCOPED_STREAM VaeStream *first = bed_stream(c->bed, params_of(c));
    SCOPED_STREAM VaeStream *rest = bed_stream(c->bed, params_of(c));
    const VaeCheckpointParams p = place(carries, 0);
    VaeCheckpoint found = VAE_INIT(VaeCheckpoint);
    VaeError error;
    const int latents = encode_frames(c, whole, 0, n, true, want);
    encode_frames(c, first, 0, cut, false, got);
    must(vae_stream_save(first, &p, &error), &error);
    must(vae_stream_load(rest, &p, &found, &error), &error);
    int next = (int) found.next;
    if (next == n && latents > 2) {
        expect_misuse(send_frame(c, rest, -1, &error), VAE_ERR_ARGUMENT, &error,
                      "the end, but the last frame has to be repeated");
        next--;
    }
    const int more =
        encode_frames(c, rest, next, n, true, got + found.begin * one);
    expect(latents == (int) found.begin + more &&
               memcmp(want + 2 * one, got + 2 * one,
                      (size_t) (latents - 2) * one * sizeof *want) == 0,
           "%d frames in two parts, %s: %d latents, and %d in one part", n,
           carries ? "with carries" : "without", (int) found.begin + more,
           latents);
}

/* ------------------------------------------------------------------ */
/* Refused checkpoints.                                                */

static void *
read_file(const char *path, size_t *size)
{
    struct stat st;
    const int fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &st) != 0)
        exit(1);
    *size = (size_t) st.st_size;
    char *data = test_alloc(*size + 1);
    if (read(fd, data, *size) != (ssize_t) *size)
        exit(1);
    close(fd);
    return data;
}

static void
write_file(const char *path, const void *data, size_t size)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t) size || close(fd) != 0)
        exit(1);
}

/* Checks that loading into a stream of params fails with this status and all of
 * these words. */
static void
refused(const Bed *bed, const char *what, VaeStreamParams params,
        VaeCheckpointParams p, VaeStatus status, const char *const *words)
{
    SCOPED_STREAM VaeStream *stream = bed_stream(bed, params);
    VaeCheckpoint c = VAE_INIT(VaeCheckpoint);
    VaeError error = {0};
    const VaeStatus got = vae_stream_load(stream, &p, &c, &error);
    bool said = true;
    for (int i = 0; words[i]; i++)
        said = said && strstr(error.message, words[i]);
    expect(got == status && said && vae_stream_at_start(stream), "%s: %s", what,
           error.message);
}
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void
save_at(const Case *c, int k, bool carries, VaeStreamParams params)
{
    SCOPED_STREAM VaeStream *stream = bed_stream(c->bed, params);
    VaeCheckpointParams p = place(carries, 7);
    VaeError error;
    goes_on(c, stream, 0, 0, k, threes);
    must(vae_stream_save(stream, &p, &error), &error);
}

static void
other_posteriors(const Case *c, VaeStreamParams params)
{
    const VaeCheckpointParams at = place(true, 0);
    VaeStreamParams p = params;
    p.posterior = VAE_POSTERIOR_SAMPLE;
    refused(c->bed, "another posterior", p, at, VAE_ERR_ARGUMENT,
            WORDS(file, "run: posterior is", "mean", "sample"));
    save_at(c, 3, true, p);
    p.seed = 5;
    refused(c->bed, "another seed", p, at, VAE_ERR_ARGUMENT,
            WORDS(file, "run: seed is", "\"0\"", "\"5\""));
    save_at(c, 3, true, params);
}

static void
other_runs(const Case *c)
{
    VaeStreamParams params = params_of(c), p;
    VaeCheckpointParams at = place(true, 0);
    Bed bed = *c->bed;
    const bool decode = c->direction == VAE_DECODE;
    save_at(c, 3, true, params);
    p = params;
    p.width = 2 * W;
    refused(c->bed, "another size", p, at, VAE_ERR_ARGUMENT,
            WORDS(file, "the size", "32x16", "64x16"));
    p = params;
    p.normalization = VAE_RAW;
    refused(c->bed, "another normalization", p, at, VAE_ERR_ARGUMENT,
            WORDS(file, "run: normalization is", "raw", "normalized"));
    p = params;
    p.direction = decode ? VAE_ENCODE : VAE_DECODE;
    refused(c->bed, "the other direction", p, at, VAE_ERR_ARGUMENT,
            WORDS(file, "the direction", "encode", "decode"));
    if (c->bed->backend == VAE_BACKEND_CPU) {
        p = params;
        p.threads = 2;
        refused(c->bed, "another number of threads", p, at, VAE_ERR_ARGUMENT,
                WORDS(file, "the number of threads", "\"1\"", "\"2\""));
        bed.backend = VAE_BACKEND_REF;
        bed.precision = VAE_PRECISION_FP32;
        refused(&bed, "another backend", params, at, VAE_ERR_ARGUMENT,
                WORDS(file, "the backend", "cpu", "ref"));
    }
    if (!decode && c->bed->info->has_posterior)
        other_posteriors(c, params);
    must(vae_model_generate("taew2_1", &bed.model, NULL), NULL);
    bed.info = vae_model_info(bed.model);
    bed.backend = c->bed->backend;
    bed.precision = c->bed->precision;
    refused(&bed, "other weights", params, at, VAE_ERR_ARGUMENT,
            strcmp(c->bed->info->arch, "taew2_1") == 0
                ? WORDS(file, "the fingerprint of the weights")
                : WORDS(file, "the network", "taew2_1", c->bed->info->arch));
    vae_model_free(&bed.model);
    static const VaeMetadata own[] = {{"input", "another clip"}};
    at.own = own;
    refused(c->bed, "another input", params, at, VAE_ERR_ARGUMENT,
            WORDS(file, "input", "some clip", "another clip"));
    p = params;
    p.restarts = false;
    save_at(c, 3, false, params);
    at = place(false, 0);
    SCOPED_STREAM VaeStream *stream = bed_stream(c->bed, p);
    VaeCheckpoint found = VAE_INIT(VaeCheckpoint);
    expect(vae_stream_load(stream, &at, &found, NULL) == VAE_OK &&
               found.begin == (c->history ? 0 : 3),
           "near the start no restart is needed");
}

/* Every changed byte and every shorter length is refused. */
static void
damaged(const Case *c, bool carries)
{
    const VaeStreamParams params = params_of(c);
    VaeCheckpointParams at = place(carries, 0);
    SCOPED_STREAM VaeStream *stream = bed_stream(c->bed, params);
    VaeCheckpoint found = VAE_INIT(VaeCheckpoint);
    VaeError error;
    size_t size, taken = 0, unnamed = 0, tried = 0;
    save_at(c, 2, carries, params);
    SCOPED_BLOCK char *good = read_file(file, &size);
    /* With carries, only a hundred positions are tested. */
    const size_t stride = carries ? size / 100 + 1 : 1;
    for (size_t i = 0; i < size; i += stride, tried++) {
        good[i] ^= 0x10;
        write_file(file, good, size);
        good[i] ^= 0x10;
        if (vae_stream_load(stream, &at, &found, &error) == VAE_OK)
            taken++;
        else if (!strstr(error.message, file))
            unnamed++;
    }
    for (size_t n = 0; n < size; n += stride, tried++) {
        write_file(file, good, n);
        if (vae_stream_load(stream, &at, &found, &error) == VAE_OK)
            taken++;
        else if (!strstr(error.message, file))
            unnamed++;
    }
    expect(taken == 0 && unnamed == 0,
           "%s: %zu damaged files of %zu bytes, %zu accepted, %zu without "
           "their name in the error",
           carries ? "with carries" : "without", tried, size, taken, unnamed);
    write_file(file, good, size);
    must(vae_stream_load(stream, &at, &found, &error), &error);
}

static void
no_checkpoints(const Case *c)
{
    const VaeStreamParams params = params_of(c);
    VaeCheckpointParams at = place(false, 0);
    static const VaeTensorOut latent = {"latent", VAE_TYPE_U8, 1, {2}, "ab"};
    VaeError error;
    must(vae_tensor_file_write(file, &latent, 1, NULL, 0, &error), &error);
    refused(c->bed, "a foreign file", params, at, VAE_ERR_FORMAT,
            WORDS(file, "is no checkpoint"));
    write_file(file, "", 0);
    refused(c->bed, "an empty file", params, at, VAE_ERR_FORMAT, WORDS(file));
    unlink(file);
    refused(c->bed, "no file", params, at, VAE_ERR_NOT_FOUND, WORDS(file));
    at.path = folder;
    refused(c->bed, "a folder", params, at, VAE_ERR_NOT_FOUND, WORDS(folder));
}

/* After a failed write the old file is complete, and the stream continues. */
static void
unwritable(const Case *c)
{
    char path[128];
    VaeStream *stream = bed_stream(c->bed, params_of(c));
    VaeCheckpointParams at = place(true, 0);
    VaeError error = {0};
    bool good = goes_on(c, stream, 0, 0, 2, threes);
    must(vae_stream_save(stream, &at, &error), &error);
    at.path = path;
    snprintf(path, sizeof path, "%s/none/a.safetensors", folder);
    expect(vae_stream_save(stream, &at, &error) == VAE_ERR_WRITE &&
               strstr(error.message, path),
           "no such folder: %s", error.message);
    snprintf(path, sizeof path, "%s/a", file);
    expect(vae_stream_save(stream, &at, &error) == VAE_ERR_WRITE &&
               strstr(error.message, path),
           "a file as folder: %s", error.message);
    at.path = "/dev/full";
    expect(vae_stream_save(stream, &at, &error) == VAE_ERR_WRITE &&
               strstr(error.message, "/dev/full"),
           "a full device: %s", error.message);
    at = place(true, 0);
    at.n_own = 1000;
    expect_misuse(vae_stream_save(stream, &at, &error), VAE_ERR_ARGUMENT,
                  &error, "too many fields");
    good = good && goes_on(c, stream, 2, 2, c->t, threes);
    expect(good, "the stream continues");
    vae_stream_free(&stream);
    /* A killed process may leave such files. */
    snprintf(path, sizeof path, "%s.tmp", file);
    write_file(path, "half", 4);
    save_at(c, 3, false, params_of(c));
    expect(access(path, F_OK) != 0, "the file of a killed process is removed");
    unlink(file);
}

static void
look(const Bed *bed, VaeDirection direction)
{
    const bool decode = direction == VAE_DECODE;
    Case c = {.bed = bed,
              .direction = direction,
              .steps = decode ? &bed->info->decode : &bed->info->encode};
    VaeError error;
    must(vae_model_history(bed->model, direction, &c.history, &error), &error);
    if (c.history == VAE_FROM_START)
        c.history = 6; /* it begins at the start, after any number of steps */
    printf("%s\n", decode ? "decode" : "encode");
    c.t = c.history + 3 + AFTER;
    c.all = bed_clip(bed, c.t, W, H, 1);
    if (!decode) {
        free(c.all.video);
        c.all.frames = before(&c, c.t, true);
        c.all.video = test_alloc(clip_video_count(&c.all) * sizeof(float));
        vae_generate("video", (int64_t[]){(int64_t) clip_video_count(&c.all)},
                     1, c.all.video);
    }
    VaeStream *stream = bed_stream(bed, params_of(&c));
    run_clip(bed, stream, direction, &c.all, threes);
    vae_stream_free(&stream);
    const int steps[] = {0, 1, 4, c.history + 1, c.history + 3};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        for (int carries = 0; carries < 2; carries++)
            at_step(&c, steps[i], carries);
    after_restart(&c, 0);
    after_restart(&c, 3);
    for (int n = before(&c, 2, true); !decode && n <= before(&c, 3, true); n++)
        for (int carries = 0; carries < 2; carries++)
            sent_in_parts(&c, n, carries);
    other_runs(&c);
    damaged(&c, false);
    damaged(&c, true);
    no_checkpoints(&c);
    unwritable(&c);
    clip_free(&c.all);
}

int
main(int argc, char **argv)
{
    Bed bed;
    bed_open_main(&bed, argc, argv);
    snprintf(folder, sizeof folder, "%s/vae-checkpoint-XXXXXX", P_tmpdir);
    if (!mkdtemp(folder))
        return 1;
    snprintf(file, sizeof file, "%s/a.safetensors", folder);
    look(&bed, VAE_DECODE);
    look(&bed, VAE_ENCODE);
    expect(rmdir(folder) == 0, "nothing is left behind");
    return bed_close(&bed);
}

/*
 * backend.c: the CUDA backend over the emulated device: order of work, memory
 * and failures.
 *
 * backend MODEL STRIDE
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../stream/streams.h"
#include "emu_state.h"
#include "stream.h"

/* First, next, next1, next. */
enum { LATENTS = 6, SLICE = 2, SIZE = 16 };
static const int calls[] = {4, 2, 0};

static VaeStreamParams
params_of(VaeDirection direction)
{
    return (VaeStreamParams){.struct_size = sizeof(VaeStreamParams),
                             .direction = direction,
                             .backend = VAE_BACKEND_CUDA,
                             .precision = VAE_PRECISION_FP32,
                             .width = SIZE,
                             .height = SIZE,
                             .slice_size = SLICE,
                             .device = -1,
                             .spill = VAE_SPILL_OFF,
                             .deterministic = true};
}

/* ------------------------------------------------------------------ */
/* Order.                                                              */

static void
one_order(const Bed *bed, VaeDirection direction, const TestClip *input,
          const TestClip *want, const char *what)
{
    TestClip clip = *input;
    TestClip results = bed_clip(bed, LATENTS, SIZE, SIZE, 0);
    clip_poison(bed, &results, direction);
    if (direction == VAE_DECODE)
        clip.video = results.video;
    else
        clip.latents = results.latents;
    VaeStream *stream = bed_stream(bed, params_of(direction));
    run_clip(bed, stream, direction, &clip, calls);
    same_result(bed, &clip, want, direction, what);
    vae_stream_free(&stream);
    clip_free(&results);
}

/* Whichever streams do their work at once or late, with graphs or without,
 * and however many frames a convolution takes. */
static void
all_orders(const Bed *bed, VaeDirection direction)
{
    TestClip input = bed_clip(bed, LATENTS, SIZE, SIZE, 0);
    TestClip want = bed_clip(bed, LATENTS, SIZE, SIZE, 0);
    VaeStream *stream = bed_stream(bed, params_of(direction));
    run_clip(bed, stream, direction, &want, calls);
    vae_stream_free(&stream);
    for (unsigned eager = 0; eager < 8; eager++) {
        char what[100];
        setenv("VAE_CUDA_GRAPHS", eager & 1 ? "0" : "1", 1);
        emu_set_conv_frames(eager & 2 ? 1 : 0);
        emu_set_eager(eager);
        snprintf(what, sizeof what, "%s, eager streams %u, graphs %s%s",
                 direction == VAE_DECODE ? "decode" : "encode", eager,
                 eager & 1 ? "off" : "on",
                 eager & 2 ? ", convolutions in parts" : "");
        one_order(bed, direction, &input, &want, what);
    }
    unsetenv("VAE_CUDA_GRAPHS");
    emu_set_conv_frames(0);
    emu_set_eager(0);
    clip_free(&input);
    clip_free(&want);
}

/* ------------------------------------------------------------------ */
/* Calls under way.                                                    */

/* One step per call on the units from *in and *out on. */
static void
begin_step(const Bed *bed, VaeStream *stream, const TestClip *clip, int *in,
           int *out)
{
    VaeLatentIn latent;
    VaePicture pictures[8];
    VaeError error;
    int n_in, n_out;
    vae_stream_count(stream, 1, &n_in, &n_out);
    latent = (VaeLatentIn){.type = VAE_TYPE_F32,
                           .data = clip->latents +
                                   (size_t) *in * clip_latent_count(bed, clip) /
                                       (size_t) clip->t};
    for (int i = 0; i < n_out; i++)
        pictures[i] = (VaePicture){
            .pixels = VAE_PIXELS_RGB_F32,
            .width = SIZE,
            .height = SIZE,
            .data = {(uint8_t *) (clip->video +
                                  (size_t) (*out + i) * SIZE * SIZE * 3)},
            .stride = {SIZE * 3 * 4}};
    must(
        vae_stream_decode_begin(stream, &latent, n_in, pictures, n_out, &error),
        &error);
    *in += n_in;
    *out += n_out;
}

/* Whether frames from..to-1 are still as clip_poison() left them. */
static bool
untouched(const TestClip *clip, int from, int to)
{
    const uint8_t *p = (const uint8_t *) clip->video;
    const size_t frame = (size_t) SIZE * SIZE * 3 * sizeof(float);
    for (size_t i = (size_t) from * frame; i < (size_t) to * frame; i++)
        if (p[i] != 0xee)
            return false;
    return true;
}

/* Nothing waits in a call while there is a free slot; each call's results are
 * there once it was waited for. */
static void
calls_under_way(const Bed *bed)
{
    TestClip want = bed_clip(bed, LATENTS, SIZE, SIZE, 0);
    TestClip clip = bed_clip(bed, LATENTS, SIZE, SIZE, 0);
    VaeError error;
    int in = 0, out = 0, ends[LATENTS + 1] = {0}, late = 0, early = 0;
    VaeStream *stream = bed_stream(bed, params_of(VAE_DECODE));
    run_clip(bed, stream, VAE_DECODE, &want, calls);
    vae_stream_reset(stream);
    clip_poison(bed, &clip, VAE_DECODE);
    for (int i = 0; i < LATENTS; i++) {
        begin_step(bed, stream, &clip, &in, &out);
        ends[i + 1] = out;
        early += !untouched(&clip, ends[i], out);
        must(vae_stream_wait(stream, 1, &error), &error);
        early += !untouched(&clip, ends[i], out);
        late += i > 0 && untouched(&clip, ends[i - 1], ends[i]);
    }
    must(vae_stream_wait(stream, 0, &error), &error);
    expect(early == 0 && late == 0,
           "a call at a time under way: %d waited, %d came late", early, late);
    same_result(bed, &clip, &want, VAE_DECODE, "calls under way");
    clip_poison(bed, &clip, VAE_DECODE);
    in = out = 0;
    vae_stream_reset(stream);
    begin_step(bed, stream, &clip, &in, &out);
    begin_step(bed, stream, &clip, &in, &out);
    vae_stream_reset(stream);
    must(vae_stream_wait(stream, 0, &error), &error);
    expect(untouched(&clip, 0, out), "a reset forgets what was not waited for");
    in = out = 0;
    begin_step(bed, stream, &clip, &in, &out);
    vae_stream_free(&stream);
    expect(untouched(&clip, 0, out), "so does the stream's end");
    clip_free(&clip);
    clip_free(&want);
}

/* ------------------------------------------------------------------ */
/* Choices.                                                            */

/* The first convolution's way, as the profile tells it. */
static void
expect_choice(const Bed *bed, bool deterministic, const char *want)
{
    VaeProfileRow row = {0};
    VaeStreamParams params = params_of(VAE_DECODE);
    params.deterministic = deterministic;
    VaeStream *stream = bed_stream(bed, params);
    for (size_t i = 0; vae_stream_profile_row(stream, i, &row); i++)
        if (strcmp(row.op, "conv") == 0)
            break;
    expect(row.impl && strcmp(row.impl, want) == 0,
           "%s: convolutions by %s, wanted %s",
           deterministic ? "deterministic" : "timed", row.impl, want);
    vae_stream_free(&stream);
}

/* ------------------------------------------------------------------ */
/* Ranges for profilers.                                               */

/* Each run of a program is one, and each op in it, by its tensor's path. */
static void
ranges(const Bed *bed)
{
    VaeProfileRow row = {0};
    TestClip clip = bed_clip(bed, LATENTS, SIZE, SIZE, 0);
    setenv("VAE_CUDA_GRAPHS", "0", 1);
    VaeStream *stream = bed_stream(bed, params_of(VAE_DECODE));
    for (size_t i = 0; vae_stream_profile_row(stream, i, &row); i++)
        if (strcmp(row.op, "conv") == 0)
            break;
    emu_watch_ranges(row.name);
    run_clip(bed, stream, VAE_DECODE, &clip, calls);
    const int ops = emu_ranges();
    vae_stream_reset(stream);
    emu_watch_ranges("next");
    run_clip(bed, stream, VAE_DECODE, &clip, calls);
    expect(ops >= 4 && emu_ranges() >= 2 && emu_ranges_open() == 0,
           "%d ranges %s, %d next, %d left open", ops, row.name, emu_ranges(),
           emu_ranges_open());
    emu_watch_ranges(NULL);
    vae_stream_free(&stream);
    unsetenv("VAE_CUDA_GRAPHS");
    clip_free(&clip);
}

/* ------------------------------------------------------------------ */
/* Memory.                                                             */

static void
plan_is_kept(const Bed *bed, VaeDirection direction)
{
    VaePlan plan = VAE_INIT(VaePlan);
    VaeError error;
    const VaeStreamParams params = params_of(direction);
    uint64_t before, after;
    /* All weights anew. */
    VaeModel *model;
    must(vae_model_open(bed->info->path, NULL, &model, &error), &error);
    must(vae_stream_plan(model, &params, &plan, &error), &error);
    vae_rt_memory_left(&before);
    VaeStream *stream;
    must(vae_stream_new(model, &params, &stream, &error), &error);
    vae_rt_memory_left(&after);
    /* A bias of zeros is there once for all layers of its size. */
    const uint64_t taken = before - after;
    expect(taken <= plan.total && plan.total <= taken + taken / 100,
           "%s: %llu bytes of the device taken, %llu planned (weights %llu, "
           "carries %llu, arena %llu, scratch %llu, staging %llu)",
           direction == VAE_DECODE ? "decode" : "encode",
           (unsigned long long) taken, (unsigned long long) plan.total,
           (unsigned long long) plan.weights, (unsigned long long) plan.carries,
           (unsigned long long) plan.arena, (unsigned long long) plan.scratch,
           (unsigned long long) plan.staging);
    vae_stream_free(&stream);
    vae_model_free(&model);
    vae_rt_memory_left(&after);
    expect(before == after, "all of it given back");
}

/* Nothing is allocated once a stream is open. */
static void
steps_take_nothing(const Bed *bed, VaeDirection direction)
{
    TestClip clip = bed_clip(bed, LATENTS, SIZE, SIZE, 0);
    VaeStream *stream = bed_stream(bed, params_of(direction));
    emu_fail_alloc(0);
    const uint64_t host = vae_allocation_count();
    run_clip(bed, stream, direction, &clip, calls);
    const int device = emu_fail_alloc(0);
    expect(device == 0 && vae_allocation_count() == host,
           "steps take %d blocks of the device, %llu of the host", device,
           (unsigned long long) (vae_allocation_count() - host));
    vae_stream_free(&stream);
    clip_free(&clip);
}

/* One picture of Y'CbCr after another. */
static VaeStatus
run_yuv(const Bed *bed, VaeStream *stream, VaeDirection direction,
        VaeError *error)
{
    enum { MOST = 8 };
    static uint8_t planes[MOST][SIZE * SIZE * 2];
    TestClip clip = bed_clip(bed, 1, SIZE, SIZE, 0);
    const VaeLatentIn in = {.type = VAE_TYPE_F16, .data = clip.latents};
    const VaeLatentOut out = {.type = VAE_TYPE_F16, .data = clip.latents};
    VaePicture pictures[MOST];
    int n_in, n_out;
    for (int i = 0; i < MOST; i++)
        pictures[i] = (VaePicture){.pixels = VAE_PIXELS_I420,
                                   .width = SIZE,
                                   .height = SIZE,
                                   .data = {planes[i], planes[i] + SIZE * SIZE,
                                            planes[i] + SIZE * SIZE * 3 / 2},
                                   .stride = {SIZE, SIZE / 2, SIZE / 2}};
    vae_stream_reset(stream);
    vae_stream_count(stream, 1, &n_in, &n_out);
    const VaeStatus status =
        direction == VAE_DECODE
            ? vae_stream_decode(stream, &in, n_in, pictures, n_out, error)
            : vae_stream_encode(stream, pictures, n_in, &out, n_out, error);
    clip_free(&clip);
    return status;
}

/* Whatever the pictures are like, no code is loaded once a stream is open. */
static void
steps_load_nothing(const Bed *bed, VaeDirection direction)
{
    TestClip clip = bed_clip(bed, LATENTS, SIZE, SIZE, 0);
    VaeError error;
    for (int graphs = 0; graphs < 2; graphs++) {
        setenv("VAE_CUDA_GRAPHS", graphs ? "1" : "0", 1);
        emu_unload();
        emu_loads();
        VaeStream *stream = bed_stream(bed, params_of(direction));
        const int before = emu_loads();
        run_clip(bed, stream, direction, &clip, calls);
        must(run_yuv(bed, stream, direction, &error), &error);
        const int after = emu_loads();
        expect(before > 0 && after == 0,
               "%d kernels and plans loaded by opening, %d by steps", before,
               after);
        vae_stream_free(&stream);
    }
    unsetenv("VAE_CUDA_GRAPHS");
    clip_free(&clip);
}

/* Allocations refused in turn: all of the first, then every stride-th. */
static void
refused_memory(const Bed *bed, VaeDirection direction, int stride)
{
    VaeStream *stream = NULL;
    VaeError error;
    const VaeStreamParams params = params_of(direction);
    int n = 0, tried = 0, wrong = 0, left = 0;
    for (;; n += n < 20 ? 1 : stride) {
        VaeModel *model;
        must(vae_model_open(bed->info->path, NULL, &model, &error), &error);
        const int before = emu_alive();
        emu_fail_alloc(n + 1);
        const VaeStatus status =
            vae_stream_new(model, &params, &stream, &error);
        const bool all = emu_fail_alloc(0) <= n;
        vae_stream_free(&stream);
        vae_model_free(&model);
        left += emu_alive() != before || emu_convs_alive();
        if (all) {
            expect(status == VAE_OK, "with all memory: %s",
                   vae_status_name(status));
            break;
        }
        tried++;
        wrong += status != VAE_ERR_MEMORY;
    }
    expect(tried > 5 && wrong == 0 && left == 0,
           "%s, %d allocations refused: %d not told as memory, %d left "
           "something",
           direction == VAE_DECODE ? "decode" : "encode", tried, wrong, left);
}

/* Leaves streams that many bytes of the device. */
static void
leave(uint64_t bytes)
{
    uint64_t left;
    emu_set_memory((uint64_t) 4 << 30);
    vae_rt_memory_left(&left);
    emu_set_memory(((uint64_t) 4 << 30) - left + ((uint64_t) 128 << 20) +
                   bytes);
}

static void
count_warning(void *user, const char *line)
{
    printf("warning: %s\n", line);
    *(int *) user += strstr(line, "the cpu backend computes, not") != NULL;
}

/* AUTO and a device that is full. */
static void
full_device(const Bed *bed)
{
    VaeStream *stream = NULL;
    VaeError error = {0};
    int warnings = 0;
    VaeStreamParams params = params_of(VAE_DECODE);
    params.backend = VAE_BACKEND_AUTO;
    params.warn = count_warning;
    params.log_user = &warnings;
    must(vae_stream_new(bed->model, &params, &stream, &error), &error);
    expect(vae_stream_get_plan(stream)->backend == VAE_BACKEND_CUDA &&
               warnings == 0,
           "auto takes the device");
    vae_stream_free(&stream);
    leave(4096);
    const VaeStatus status =
        vae_stream_new(bed->model, &params, &stream, &error);
    if (vae_backend_available(VAE_BACKEND_CPU, NULL, 0))
        expect(status == VAE_OK && warnings == 1 &&
                   vae_stream_get_plan(stream)->backend == VAE_BACKEND_CPU,
               "and the processor, with one warning, where that is full");
    else
        expect(status == VAE_ERR_MEMORY, "full: %s", error.message);
    vae_stream_free(&stream);
    emu_set_memory((uint64_t) 4 << 30);
}

static void
small_memory(const Bed *bed)
{
    VaeStream *stream = NULL;
    VaeError error = {0};
    VaePlan plan = VAE_INIT(VaePlan);
    VaeStreamParams params = params_of(VAE_DECODE);
    leave(4096);
    VaeStatus status = vae_stream_new(bed->model, &params, &stream, &error);
    expect(status == VAE_ERR_MEMORY &&
               strstr(error.message, "decode of 16x16 in fp32 with ") &&
               strstr(error.message, "on the device"),
           "4 KiB left: %s", error.message);
    expect(!strstr(error.message, "what would fit: backend cpu (") ==
               !vae_backend_available(VAE_BACKEND_CPU, NULL, 0),
           "what would: the processor, where there is one");
    emu_set_memory((uint64_t) 4 << 30);
    params.direction = VAE_ENCODE;
    params.precision = VAE_PRECISION_BF16;
    must(vae_stream_plan(bed->model, &params, &plan, &error), &error);
    leave(plan.peak);
    params.precision = VAE_PRECISION_TF32;
    status = vae_stream_new(bed->model, &params, &stream, &error);
    expect(status == VAE_ERR_MEMORY &&
               strstr(error.message, "encode of 16x16 in tf32 with ") &&
               strstr(error.message, "precision bf16 ("),
           "of bf16 enough: %s", error.message);
    emu_set_memory((uint64_t) 4 << 30);
}

/* Memory that was free when the stream was planned, and is not when it is
 * taken: fewer steps per slice, where the number was the stream's to choose. */
static void
lost_memory(const Bed *bed, bool asked)
{
    enum { WIDE = 512 };
    VaeStream *stream = NULL;
    VaeError error = {0};
    VaePlan most = VAE_INIT(VaePlan);
    VaePlan least = VAE_INIT(VaePlan);
    VaeStreamParams params = params_of(VAE_DECODE);
    params.width = params.height = WIDE;
    params.slice_size = 1;
    must(vae_stream_plan(bed->model, &params, &least, &error), &error);
    params.slice_size = 4;
    must(vae_stream_plan(bed->model, &params, &most, &error), &error);
    const uint64_t beside = (uint64_t) 128 << 20;
    const uint64_t gain = most.total - least.total;
    if (!expect(gain > beside, "slices of 4 take %.1f MiB more",
                (double) gain / 1048576))
        return;
    uint64_t left;
    vae_rt_memory_left(&left);
    /* AUTO takes nine tenths of what is free. */
    const uint64_t free = most.peak / 9 * 10 + beside;
    emu_set_memory(((uint64_t) 4 << 30) - left + beside + free);
    params.slice_size = asked ? 4 : 0;
    emu_skip_work(true);
    emu_take_memory(1, gain + free - most.peak);
    const VaeStatus status =
        vae_stream_new(bed->model, &params, &stream, &error);
    emu_take_memory(0, 0);
    if (asked)
        expect(status == VAE_ERR_MEMORY, "what was asked for: %s",
               vae_status_name(status));
    else if (expect(status == VAE_OK, "memory that went: %s", error.message)) {
        const int slice = vae_stream_get_plan(stream)->slice_size;
        expect(slice < 4, "slices of %d", slice);
    }
    vae_stream_free(&stream);
    emu_skip_work(false);
    emu_set_memory((uint64_t) 4 << 30);
}

/* ------------------------------------------------------------------ */
/* Failures.                                                           */

static VaeStatus
run_calls(const Bed *bed, VaeStream *stream, VaeDirection direction,
          const TestClip *clip, VaeError *error)
{
    return direction == VAE_DECODE
               ? test_decode(stream, bed->info, clip, calls, error)
               : test_encode(stream, bed->info, clip, calls, error);
}

static bool
is_same_clip(const Bed *bed, const TestClip *a, const TestClip *b,
             VaeDirection direction)
{
    size_t bytes;
    const void *first = clip_result(bed, a, direction, &bytes);
    return memcmp(first, clip_result(bed, b, direction, &bytes), bytes) == 0;
}

static VaeStatus
try_clip(const Bed *bed, VaeModel *model, VaeDirection direction,
         VaeError *error)
{
    TestClip clip = bed_clip(bed, LATENTS, SIZE, SIZE, 0);
    VaeStream *stream = NULL;
    const VaeStreamParams params = params_of(direction);
    VaeStatus status = vae_stream_new(model, &params, &stream, error);
    if (status == VAE_OK)
        status = run_calls(bed, stream, direction, &clip, error);
    vae_stream_free(&stream);
    clip_free(&clip);
    return status;
}

/* The device fails somewhere, at about 20 places, and works again for the next
 * stream. */
static void
failing_device(const Bed *bed, VaeDirection direction)
{
    VaeError error;
    int n = 1, wrong = 0, left = 0, recovered = 0;
    VaeStatus status;
    emu_fail_work(0);
    must(try_clip(bed, bed->model, direction, &error), &error);
    const int step = emu_fail_work(0) / 20 + 1;
    do {
        VaeModel *model;
        must(vae_model_open(bed->info->path, NULL, &model, &error), &error);
        const int before = emu_alive();
        emu_fail_work(n);
        status = try_clip(bed, model, direction, &error);
        emu_fail_work(0);
        if (status != VAE_OK) {
            wrong +=
                status != VAE_ERR_BACKEND || !strstr(error.message, "failed");
            recovered += try_clip(bed, model, direction, &error) == VAE_OK;
        }
        vae_model_free(&model);
        left += emu_alive() != before || emu_convs_alive();
        n += step;
    } while (status != VAE_OK);
    const int failures = (n - 1) / step - 1;
    expect(failures > 5 && wrong == 0 && left == 0 && recovered == failures,
           "%d failures: %d not told, %d left something, %d recovered",
           failures, wrong, left, recovered);
}

/* A stream from its beginning to its end; tells at which call it fails. */
static VaeStatus
whole_life(const Bed *bed, VaeModel *model, VaeDirection direction,
           TestClip *clip, VaeError *error)
{
    VaeStream *stream = NULL;
    const VaeStreamParams params = params_of(direction);
    VaeStatus status = vae_stream_new(model, &params, &stream, error);
    for (int i = 0; i < 2 && status == VAE_OK; i++) {
        status = run_calls(bed, stream, direction, clip, error);
        if (status == VAE_OK && i == 0)
            status = vae_stream_release(stream, error);
        if (stream)
            vae_stream_reset(stream);
    }
    /* What failed once can be done after all. */
    if (stream && status != VAE_OK) {
        VaeError again;
        vae_stream_reset(stream);
        clip_poison(bed, clip, direction);
        must(run_calls(bed, stream, direction, clip, &again), &again);
    }
    vae_stream_free(&stream);
    return status;
}

/* Each call of the run time and of the library fails once. */
static void
refused_calls(const Bed *bed, VaeDirection direction, int step)
{
    TestClip want = bed_clip(bed, LATENTS, SIZE, SIZE, 0);
    VaeError error = {0};
    int tried = 0, wrong = 0, left = 0, told = 0;
    must(whole_life(bed, bed->model, direction, &want, &error), &error);
    emu_refuse_call(0);
    for (int n = 1;; n += n < 60 ? 1 : step) {
        VaeModel *model;
        TestClip clip = bed_clip(bed, LATENTS, SIZE, SIZE, 0);
        must(vae_model_open(bed->info->path, NULL, &model, &error), &error);
        const int before = emu_alive();
        emu_refuse_call(n);
        VaeStatus status = whole_life(bed, model, direction, &clip, &error);
        const bool last = emu_refuse_call(0) < n;
        told += status != VAE_OK;
        const bool unavailable =
            n == 1 && strstr(error.message, "backend cuda: it does not want");
        if (status != VAE_OK && status != VAE_ERR_BACKEND && !unavailable) {
            printf("call %d: %s, %s\n", n, vae_status_name(status),
                   error.message);
            wrong++;
        }
        /* A stream that could not be made can be made now. */
        if (status != VAE_OK)
            must(whole_life(bed, model, direction, &clip, &error), &error);
        if (!is_same_clip(bed, &clip, &want, direction)) {
            printf("call %d: another result\n", n);
            wrong++;
        }
        clip_free(&clip);
        vae_model_free(&model);
        if (emu_alive() != before || emu_convs_alive()) {
            printf("call %d: something left\n", n);
            left++;
        }
        if (last)
            break;
        tried++;
    }
    expect(tried > 60 && told > 30 && wrong == 0 && left == 0,
           "%d calls refused, %d told, %d wrong, %d left something", tried,
           told, wrong, left);
    clip_free(&want);
}

/* Each of the first calls by which a stream takes its memory again fails once.
 */
static void
refused_reload(const Bed *bed)
{
    TestClip want = bed_clip(bed, LATENTS, SIZE, SIZE, 0);
    TestClip clip = bed_clip(bed, LATENTS, SIZE, SIZE, 0);
    VaeError error;
    VaeModel *model;
    VaeStream *stream;
    int told = 0, wrong = 0;
    const VaeStreamParams params = params_of(VAE_DECODE);
    must(vae_model_open(bed->info->path, NULL, &model, &error), &error);
    must(vae_stream_new(model, &params, &stream, &error), &error);
    run_clip(bed, stream, VAE_DECODE, &want, calls);
    for (int n = 1; n <= 30; n++) {
        must(vae_stream_release(stream, &error), &error);
        vae_stream_reset(stream);
        emu_refuse_call(n);
        const VaeStatus status =
            run_calls(bed, stream, VAE_DECODE, &clip, &error);
        emu_refuse_call(0);
        told += status != VAE_OK;
        wrong += status != VAE_OK && status != VAE_ERR_BACKEND;
        vae_stream_reset(stream);
        clip_poison(bed, &clip, VAE_DECODE);
        must(run_calls(bed, stream, VAE_DECODE, &clip, &error), &error);
        wrong += !is_same_clip(bed, &clip, &want, VAE_DECODE);
    }
    expect(told > 20 && wrong == 0, "after a release: %d told, %d wrong", told,
           wrong);
    vae_stream_free(&stream);
    vae_model_free(&model);
    clip_free(&clip);
    clip_free(&want);
}

/* The device fails amid a clip and stays so, as after an access outside its
 * memory: a new stream says so, and nothing of it is left. */
static void
lost_device(const Bed *bed)
{
    VaeModel *model;
    VaeError error;
    int wrong = 0;
    must(vae_model_open(bed->info->path, NULL, &model, &error), &error);
    const int before = emu_alive();
    emu_fail_work(0);
    must(try_clip(bed, model, VAE_DECODE, &error), &error);
    emu_fail_work(emu_fail_work(0) / 2);
    wrong += try_clip(bed, model, VAE_DECODE, &error) != VAE_ERR_BACKEND;
    for (int i = 0; i < 2; i++) {
        wrong += try_clip(bed, model, i ? VAE_ENCODE : VAE_DECODE, &error) !=
                     VAE_ERR_BACKEND ||
                 !strstr(error.message, "has failed");
        wrong += emu_convs_alive();
    }
    vae_model_free(&model);
    expect(wrong == 0 && emu_alive() == before,
           "a lost device: %d not told, %d things left; %s", wrong,
           emu_alive() - before, error.message);
    emu_fail_work(0);
    must(try_clip(bed, bed->model, VAE_DECODE, &error), &error);
}

static void
expect_refused(const Bed *bed, VaeStreamParams params, VaeStatus wanted,
               const char *words)
{
    VaeStream *stream = NULL;
    VaeError error = {0};
    const VaeStatus status =
        vae_stream_new(bed->model, &params, &stream, &error);
    expect(status == wanted && strstr(error.message, words), "%s (%s)",
           error.message, vae_status_name(status));
    vae_stream_free(&stream);
}

enum { SAID = 1000 };

static void
listen(void *user, const char *line)
{
    const size_t n = strlen(user);
    snprintf((char *) user + n, SAID - n, "%s\n", line);
}

static void
devices(const Bed *bed)
{
    VaeStreamParams params = params_of(VAE_DECODE);
    params.device = 3;
    expect_refused(bed, params, VAE_ERR_UNSUPPORTED, "no CUDA device 3");
    params.device = 0;
    emu_set_devices(1, 75);
    params.precision = VAE_PRECISION_BF16;
    expect_refused(bed, params, VAE_ERR_UNSUPPORTED, "use fp16 or fp32");
    emu_set_devices(1, 70);
    params.precision = VAE_PRECISION_FP32;
    expect_refused(bed, params, VAE_ERR_UNSUPPORTED, "7.5 or later");
    emu_set_devices(0, 90);
    expect_refused(bed, params, VAE_ERR_UNSUPPORTED,
                   "backend cuda: there is no NVIDIA GPU");
    VaePlan plan = VAE_INIT(VaePlan);
    VaeError error;
    char said[SAID] = "";
    params.backend = VAE_BACKEND_AUTO;
    params.log = listen;
    params.log_user = said;
    must(vae_stream_plan(bed->model, &params, &plan, &error), &error);
    expect(plan.backend != VAE_BACKEND_CUDA &&
               strstr(said, "backend cuda is not taken: there is no NVIDIA "
                            "GPU"),
           "auto without a GPU takes %s: %s", vae_backend_name(plan.backend),
           said);
    params.log = NULL;
    emu_set_devices(1, 90);
    params.precision = VAE_PRECISION_AUTO;
    for (int i = 0; i < 2; i++) {
        params.direction = i ? VAE_ENCODE : VAE_DECODE;
        must(vae_stream_plan(bed->model, &params, &plan, &error), &error);
        expect(
            plan.backend == VAE_BACKEND_CUDA &&
                plan.precision == (i ? VAE_PRECISION_TF32 : VAE_PRECISION_BF16),
            "auto with a GPU %s by %s in %s", i ? "encodes" : "decodes",
            vae_backend_name(plan.backend), vae_precision_name(plan.precision));
    }
}

/* What cannot be recorded is run op by op, what was broken off is recorded
 * again. */
static void
unrecorded(const Bed *bed)
{
    TestClip clip = bed_clip(bed, LATENTS, SIZE, SIZE, 0);
    TestClip want = bed_clip(bed, LATENTS, SIZE, SIZE, 0);
    VaeStreamParams params = params_of(VAE_DECODE);
    VaeError error = {0};
    char said[SAID] = "";
    VaeStream *stream = bed_stream(bed, params);
    run_clip(bed, stream, VAE_DECODE, &want, calls);
    vae_stream_free(&stream);
    params.log = listen;
    params.log_user = said;
    for (int i = 0; i < 2; i++) {
        said[0] = '\0';
        emu_set_fault(i ? EMU_FAULT_CAPTURES : EMU_FAULT_CAPTURE, 1);
        const VaeStatus status =
            vae_stream_new(bed->model, &params, &stream, &error);
        const int struck = emu_fault_done();
        emu_set_fault(EMU_FAULT_NONE, 0);
        expect(status == VAE_OK && struck > 0 &&
                   (i == 1) == (strstr(said, "runs op by op") != NULL),
               "a program that cannot be recorded%s: %s%s", i ? "" : " at once",
               error.message, said);
        if (stream) {
            run_clip(bed, stream, VAE_DECODE, &clip, calls);
            same_result(bed, &clip, &want, VAE_DECODE, "and runs all the same");
        }
        vae_stream_free(&stream);
    }
    clip_free(&clip);
    clip_free(&want);
}

/* A step copies each carry in front of a convolution's input, and the last
 * frames of the input back into it unless a norm has written them. */
static void
copies_of_a_step(const Bed *bed)
{
    static const int first[] = {1, 0}, next[] = {SLICE, 0};
    TestClip clip = bed_clip(bed, LATENTS, SIZE, SIZE, 0), part = clip;
    const VaeStreamParams params = params_of(VAE_DECODE);
    VaeStream *stream;
    VaeError error;
    int heads = 0, tails = 0, by_norms = 0, norms = 0;
    setenv("VAE_CUDA_GRAPHS", "0", 1); /* recorded copies are not seen */
    must(vae_stream_new(bed->model, &params, &stream, &error), &error);
    unsetenv("VAE_CUDA_GRAPHS");
    vae_stream_count(stream, 1, &part.t, &part.frames);
    must(test_decode(stream, bed->info, &part, first, &error), &error);
    emu_set_fault(EMU_FAULT_NO_COPY, -1);
    vae_stream_count(stream, SLICE, &part.t, &part.frames);
    must(test_decode(stream, bed->info, &part, next, &error), &error);
    const int copies = emu_fault_count(EMU_FAULT_NO_COPY);
    emu_set_fault(EMU_FAULT_NONE, 0);
    for (int i = 0; i < PROGRAMS; i++) {
        const VaeProgram *p = stream->programs[i];
        if (!p || strcmp(p->label, "next") != 0)
            continue;
        for (int k = 0; k < p->n_ops; k++) {
            const VaeOp *op = &p->ops[k];
            const bool norm = op->kind == VAE_OP_NORM && op->carry;
            heads += op->kind == VAE_OP_HEAD_CARRY ||
                     (norm && op->norm.fills_context);
            tails += op->kind == VAE_OP_TAIL;
            by_norms += norm;
            norms += op->kind == VAE_OP_NORM;
        }
    }
    expect((by_norms > 0) == (norms > 0) && heads == tails + by_norms &&
               copies == heads + tails,
           "%d copies in a step: %d in, %d out, %d by norms", copies, heads,
           tails, by_norms);
    vae_stream_free(&stream);
    clip_free(&clip);
}

/* Whether a call left this thread another device or mode. */
static bool
is_changed(void)
{
    return emu_current() != 0 || emu_is_relaxed();
}

/* The second of two, for callers whose threads use the first. */
static void
second_device(const Bed *bed)
{
    TestClip clip = bed_clip(bed, LATENTS, SIZE, SIZE, 0);
    TestClip want = bed_clip(bed, LATENTS, SIZE, SIZE, 0);
    VaeStreamParams params = params_of(VAE_DECODE);
    VaeModel *model;
    VaeError error;
    must(vae_model_open(bed->info->path, NULL, &model, &error), &error);
    emu_set_devices(2, 90);
    params.device = 1;
    VaeStream *stream;
    VaePlan plan = VAE_INIT(VaePlan);
    int changed = 0;
    emu_set_wrong(EMU_WRONG_LARGE);
    changed += vae_stream_new(model, &params, &stream, &error) == VAE_OK;
    emu_set_wrong(EMU_WRONG_NONE);
    changed += is_changed();
    must(vae_stream_plan(model, &params, &plan, &error), &error);
    changed += is_changed();
    must(vae_stream_new(model, &params, &stream, &error), &error);
    changed += is_changed();
    run_clip(bed, stream, VAE_DECODE, &want, calls);
    changed += is_changed();
    vae_stream_profile(stream, true);
    changed += is_changed();
    vae_stream_reset(stream);
    run_clip(bed, stream, VAE_DECODE, &clip, calls);
    changed += is_changed();
    vae_stream_profile(stream, false);
    changed += is_changed();
    must(vae_stream_release(stream, &error), &error);
    changed += is_changed();
    vae_stream_reset(stream);
    run_clip(bed, stream, VAE_DECODE, &clip, calls);
    changed += is_changed();
    vae_stream_free(&stream);
    changed += is_changed();
    vae_model_free(&model);
    changed += is_changed();
    expect(changed == 0, "%d calls changed their thread", changed);
    emu_set_devices(1, 90);
    same_result(bed, &clip, &want, VAE_DECODE, "a second device");
    clip_free(&clip);
    clip_free(&want);
}

/* An application records its own work in another thread, from before a stream
 * is planned until it is gone. */
static void
foreign_recording(const Bed *bed)
{
    TestClip clip = bed_clip(bed, LATENTS, SIZE, SIZE, 0);
    TestClip want = bed_clip(bed, LATENTS, SIZE, SIZE, 0);
    VaeStreamParams params = params_of(VAE_DECODE);
    VaeStream *stream = bed_stream(bed, params);
    VaeModel *model;
    VaeError error = {0};
    run_clip(bed, stream, VAE_DECODE, &want, calls);
    vae_stream_free(&stream);
    must(vae_model_open(bed->info->path, NULL, &model, &error), &error);
    params.deterministic = false;
    emu_begin_foreign();
    VaeStatus status = vae_stream_new(model, &params, &stream, &error);
    if (status == VAE_OK) {
        run_clip(bed, stream, VAE_DECODE, &clip, calls);
        status = vae_stream_release(stream, &error);
        vae_stream_reset(stream);
        run_clip(bed, stream, VAE_DECODE, &clip, calls);
    }
    vae_stream_free(&stream);
    vae_model_free(&model);
    expect(emu_end_foreign() && status == VAE_OK,
           "an application records in another thread: %s", error.message);
    same_result(bed, &clip, &want, VAE_DECODE, "while it does");
    clip_free(&clip);
    clip_free(&want);
}

/* A wider kind of pixels than was planned. */
static void
wide_pictures(const Bed *bed)
{
    TestClip clip = bed_clip(bed, LATENTS, SIZE, SIZE, 0);
    VaeStreamParams params = params_of(VAE_DECODE);
    VaeStream *stream = NULL;
    VaeError error = {0};
    params.pixels = VAE_PIXELS_RGB;
    must(vae_stream_new(bed->model, &params, &stream, &error), &error);
    const VaeStatus status =
        test_decode(stream, bed->info, &clip, calls, &error);
    expect(status == VAE_ERR_ARGUMENT && strstr(error.message, "wider kind"),
           "floats where bytes were planned: %s", error.message);
    vae_stream_free(&stream);
    clip_free(&clip);
}

int
main(int argc, char **argv)
{
    Bed bed;
    const int stride = bed_open_device(&bed, argc, argv);
    for (int i = 0; i < 2; i++) {
        const VaeDirection direction = i ? VAE_ENCODE : VAE_DECODE;
        all_orders(&bed, direction);
        plan_is_kept(&bed, direction);
        steps_take_nothing(&bed, direction);
        steps_load_nothing(&bed, direction);
        failing_device(&bed, direction);
        refused_calls(&bed, direction, 37 * stride);
    }
    copies_of_a_step(&bed);
    calls_under_way(&bed);
    expect_choice(&bed, true, "cudnn:1 3");
    expect_choice(&bed, false, "cudnn:2 1");
    ranges(&bed);
    refused_memory(&bed, VAE_DECODE, stride);
    refused_memory(&bed, VAE_ENCODE, stride);
    refused_reload(&bed);
    lost_device(&bed);
    small_memory(&bed);
    full_device(&bed);
    lost_memory(&bed, true);
    lost_memory(&bed, false);
    devices(&bed);
    unrecorded(&bed);
    second_device(&bed);
    foreign_recording(&bed);
    wide_pictures(&bed);
    vae_model_free(&bed.model);
    expect(emu_alive() == 0, "%d things of the device left", emu_alive());
    return tests_end();
}

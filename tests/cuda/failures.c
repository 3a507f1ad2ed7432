/*
 * failures.c: the emulated device or one of its calls fails. The stream reports
 * an error, leaves nothing behind, and works at the next attempt.
 *
 * failures MODEL STRIDE
 */

#include "clips.h"
#include "emu_state.h"
#include "gpu.h"

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
    SCOPED_CLIP TestClip clip = new_clip(bed);
    SCOPED_STREAM VaeStream *stream = NULL;
    const VaeStreamParams params = params_of(direction);
    VaeStatus status = vae_stream_new(model, &params, &stream, error);
    if (status == VAE_OK)
        status = try_run(bed, stream, direction, &clip, calls, error);
    return status;
}

/* The device fails at about 20 places in turn, and works again for the next
 * stream. */
static void
failing_device(const Bed *bed, VaeDirection direction)
{
    VaeError error;
    int recovered = 0;
    emu_fail_work(0);
    must(try_clip(bed, bed->model, direction, &error), &error);
    Refusals r = {.refuse = emu_fail_work, .stride = emu_fail_work(0) / 20 + 1};
    while (refuse_next(&r)) {
        VaeModel *model = open_model(bed);
        const int before = emu_alive();
        refuse_begin(&r);
        const VaeStatus status = try_clip(bed, model, direction, &error);
        if (refuse_end(&r)) {
            r.wrong +=
                status != VAE_ERR_BACKEND || !strstr(error.message, "failed");
            recovered += try_clip(bed, model, direction, &error) == VAE_OK;
        }
        vae_model_free(&model);
        r.left += emu_alive() != before || emu_convs_alive();
    }
    expect(r.refused > 5 && r.wrong == 0 && r.left == 0 &&
               recovered == r.refused,
           "%d failures: %d without the right error, %d left something, %d "
           "recovered",
           r.refused, r.wrong, r.left, recovered);
}

/* Opens, runs and frees a stream. Returns the first error. */
static VaeStatus
whole_life(const Bed *bed, VaeModel *model, VaeDirection direction,
           TestClip *clip, VaeError *error)
{
    SCOPED_STREAM VaeStream *stream = NULL;
    const VaeStreamParams params = params_of(direction);
    VaeStatus status = vae_stream_new(model, &params, &stream, error);
    for (int i = 0; i < 2 && status == VAE_OK; i++) {
        status = try_run(bed, stream, direction, clip, calls, error);
        if (status == VAE_OK && i == 0)
            status = vae_stream_release(stream, error);
        if (stream)
            vae_stream_reset(stream);
    }
    /* a failed call succeeds when repeated */
    if (stream && status != VAE_OK) {
        VaeError again;
        vae_stream_reset(stream);
        clip_poison(bed, clip, direction);
        must(try_run(bed, stream, direction, clip, calls, &again), &again);
    }
    return status;
}

/* Each call of the run time and of the library fails once. */
static void
refused_calls(const Bed *bed, VaeDirection direction, int step)
{
    SCOPED_CLIP TestClip want = new_clip(bed);
    VaeError error = {0};
    int told = 0;
    Refusals r = {.refuse = emu_refuse_call, .dense = 60, .stride = step};
    must(whole_life(bed, bed->model, direction, &want, &error), &error);
    while (refuse_next(&r)) {
        TestClip clip = new_clip(bed);
        VaeModel *model = open_model(bed);
        const int before = emu_alive();
        refuse_begin(&r);
        VaeStatus status = whole_life(bed, model, direction, &clip, &error);
        refuse_end(&r);
        told += status != VAE_OK;
        const bool unavailable =
            r.n == 1 &&
            strstr(error.message, "backend cuda: the emulated device refuses");
        if (status != VAE_OK && status != VAE_ERR_BACKEND && !unavailable) {
            printf("call %d: %s, %s\n", r.n, vae_status_name(status),
                   error.message);
            r.wrong++;
        }
        /* a stream that could not be opened can be opened next time */
        if (status != VAE_OK)
            must(whole_life(bed, model, direction, &clip, &error), &error);
        if (!is_same_clip(bed, &clip, &want, direction)) {
            printf("call %d: another result\n", r.n);
            r.wrong++;
        }
        clip_free(&clip);
        vae_model_free(&model);
        if (emu_alive() != before || emu_convs_alive()) {
            printf("call %d: something left\n", r.n);
            r.left++;
        }
    }
    expect(r.refused > 60 && told > 30 && r.wrong == 0 && r.left == 0,
           "%d calls refused, %d with an error, %d wrong, %d left something",
           r.refused, told, r.wrong, r.left);
}

/* Each allocation of a new stream fails once for another reason than missing
 * memory. The stream reports this error, and tries no smaller slice. */
static void
refused_blocks(const Bed *bed)
{
    VaeError error = {0};
    int n = 0, wrong = 0;
    for (bool struck = true; struck; n += struck) {
        VaeModel *model = open_model(bed);
        emu_set_fault(EMU_FAULT_ALLOC, n);
        const VaeStatus status = try_clip(bed, model, VAE_DECODE, &error);
        struck = emu_fault_done();
        emu_set_fault(EMU_FAULT_NONE, 0);
        if (struck &&
            (status != VAE_ERR_BACKEND ||
             !strstr(error.message, "the emulated device refuses the call"))) {
            printf("allocation %d: %s, %s\n", n, vae_status_name(status),
                   error.message);
            wrong++;
        }
        vae_model_free(&model);
    }
    expect(n > 8 && wrong == 0,
           "%d allocations refused, %d without the right error", n, wrong);
}

/* Each call of the run time for one allocation fails once, also its last one, a
 * wait. */
static void
refused_alloc(VaePlace place)
{
    const VaeBackendParams params = {.precision = VAE_PRECISION_FP32,
                                     .device = -1};
    VaeBackend *backend;
    VaeDevice device;
    VaeError error = {0};
    void *block;
    int told = 0;
    Refusals r = {.refuse = emu_refuse_call};
    must(vae_backend_cuda.open(&params, &backend, &device, &error), &error);
    const int before = emu_alive();
    while (refuse_next(&r)) {
        refuse_begin(&r);
        const VaeStatus status =
            vae_backend_cuda.alloc(backend, place, 1, &block, &error);
        if (refuse_end(&r))
            told +=
                status == VAE_ERR_BACKEND && !block &&
                strstr(error.message, "the emulated device refuses the call");
        else
            must(status, &error);
    }
    vae_backend_cuda.free(backend, place, block);
    expect(
        r.refused > 1 && told == r.refused && emu_alive() == before,
        "an allocation of %d calls: %d refusals with an error, %d blocks left",
        r.refused, told, emu_alive() - before);
    vae_backend_cuda.close(&backend);
}

/* Each call of the run time in the steps of an open stream fails once; with
 * `by`, only some of them. */
static void
refused_steps(const Bed *bed, VaeDirection direction, int by)
{
    SCOPED_CLIP TestClip want = new_clip(bed);
    SCOPED_CLIP TestClip clip = new_clip(bed);
    VaeError error = {0};
    SCOPED_STREAM VaeStream *stream = open_stream(bed->model, direction);
    int told = 0;
    Refusals r = {.refuse = emu_refuse_call, .stride = by};
    run_clip(bed, stream, direction, &want, calls);
    while (refuse_next(&r)) {
        vae_stream_reset(stream);
        clip_poison(bed, &clip, direction);
        refuse_begin(&r);
        const VaeStatus status =
            try_run(bed, stream, direction, &clip, calls, &error);
        refuse_end(&r);
        told += status != VAE_OK;
        r.wrong += status != VAE_OK && status != VAE_ERR_BACKEND;
        if (status != VAE_OK) {
            vae_stream_reset(stream);
            clip_poison(bed, &clip, direction);
            must(try_run(bed, stream, direction, &clip, calls, &error), &error);
        }
        if (!is_same_clip(bed, &clip, &want, direction)) {
            printf("call %d of the steps: another result\n", r.n);
            r.wrong++;
        }
    }
    expect(told * by > 20 && r.wrong == 0,
           "%d calls of steps refused, %d with an error, %d wrong", r.refused,
           told, r.wrong);
}

/* When a stream reloads its memory, each of the first calls fails once. */
static void
refused_reload(const Bed *bed)
{
    SCOPED_CLIP TestClip want = new_clip(bed);
    SCOPED_CLIP TestClip clip = new_clip(bed);
    VaeError error;
    int told = 0, wrong = 0;
    const VaeStreamParams params = params_of(VAE_DECODE);
    SCOPED_MODEL VaeModel *model = open_model(bed);
    SCOPED_STREAM VaeStream *stream = new_stream(model, &params);
    run_clip(bed, stream, VAE_DECODE, &want, calls);
    for (int n = 1; n <= 30; n++) {
        must(vae_stream_release(stream, &error), &error);
        vae_stream_reset(stream);
        emu_refuse_call(n);
        const VaeStatus status =
            try_run(bed, stream, VAE_DECODE, &clip, calls, &error);
        emu_refuse_call(0);
        told += status != VAE_OK;
        wrong += status != VAE_OK && status != VAE_ERR_BACKEND;
        vae_stream_reset(stream);
        clip_poison(bed, &clip, VAE_DECODE);
        must(try_run(bed, stream, VAE_DECODE, &clip, calls, &error), &error);
        wrong += !is_same_clip(bed, &clip, &want, VAE_DECODE);
    }
    expect(told > 20 && wrong == 0,
           "after a release: %d refusals with an error, %d wrong", told, wrong);
}

/* The device fails in the middle of a clip and does not recover, as after an
 * access outside of memory. A new stream reports this and leaves nothing
 * behind. */
static void
lost_device(const Bed *bed)
{
    VaeError error;
    int wrong = 0;
    VaeModel *model = open_model(bed);
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
           "a failed device: %d without the right error, %d objects left; %s",
           wrong, emu_alive() - before, error.message);
    emu_fail_work(0);
    must(try_clip(bed, bed->model, VAE_DECODE, &error), &error);
}

int
main(int argc, char **argv)
{
    Bed bed;
    const int stride = bed_open_device(&bed, argc, argv);
    for (int i = 0; i < 2; i++) {
        const VaeDirection direction = i ? VAE_ENCODE : VAE_DECODE;
        failing_device(&bed, direction);
        refused_calls(&bed, direction, 37 * stride);
        refused_steps(&bed, direction, stride);
    }
    refused_blocks(&bed);
    refused_alloc(VAE_ON_HOST);
    refused_alloc(VAE_ON_DEVICE);
    refused_reload(&bed);
    lost_device(&bed);
    return device_close(&bed);
}

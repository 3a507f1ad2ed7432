/*
 * devices.c: tests which device a stream uses, and that a stream does not
 * change the threads and recordings of the application.
 *
 * devices MODEL STRIDE
 */

#include "clips.h"
#include "emu_state.h"
#include "stream.h"

static void
expect_unsupported(const Bed *bed, VaeStreamParams params, const char *words)
{
    SCOPED_STREAM VaeStream *stream = NULL;
    VaeError error = {0};
    const VaeStatus status =
        vae_stream_new(bed->model, &params, &stream, &error);
    expect(status == VAE_ERR_UNSUPPORTED && strstr(error.message, words),
           "%s (%s)", error.message, vae_status_name(status));
}

static void
devices(const Bed *bed)
{
    VaeStreamParams params = params_of(VAE_DECODE);
    params.device = 3;
    expect_unsupported(bed, params, "no CUDA device 3");
    params.device = 0;
    emu_set_devices(1, 75);
    params.precision = VAE_PRECISION_BF16;
    expect_unsupported(bed, params, "use fp16 or fp32");
    emu_set_devices(1, 70);
    params.precision = VAE_PRECISION_FP32;
    expect_unsupported(bed, params, "7.5 or later");
    emu_set_devices(0, 90);
    expect_unsupported(bed, params, "backend cuda: there is no NVIDIA GPU");
    char said[SAID] = "";
    params.backend = VAE_BACKEND_AUTO;
    params.log = listen;
    params.log_user = said;
    VaePlan plan = plan_of(bed->model, &params);
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
        plan = plan_of(bed->model, &params);
        expect(
            plan.backend == VAE_BACKEND_CUDA &&
                plan.precision == (i ? VAE_PRECISION_TF32 : VAE_PRECISION_BF16),
            "auto with a GPU %s by %s in %s", i ? "encodes" : "decodes",
            vae_backend_name(plan.backend), vae_precision_name(plan.precision));
    }
}

/* True if a call has changed the device or the mode of this thread. */
static bool
is_changed(void)
{
    return emu_current() != 0 || emu_is_relaxed();
}

/* Uses the second device while the caller's threads use the first. */
static void
second_device(const Bed *bed)
{
    SCOPED_CLIP TestClip clip = new_clip(bed);
    SCOPED_CLIP TestClip want = new_clip(bed);
    VaeStreamParams params = params_of(VAE_DECODE);
    VaeError error;
    VaeModel *model = open_model(bed);
    emu_set_devices(2, 90);
    params.device = 1;
    VaeStream *stream;
    int changed = 0;
    emu_set_wrong(EMU_WRONG_LARGE);
    changed += vae_stream_new(model, &params, &stream, &error) == VAE_OK;
    emu_set_wrong(EMU_WRONG_NONE);
    changed += is_changed();
    plan_of(model, &params);
    changed += is_changed();
    stream = new_stream(model, &params);
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
    expect(changed == 0, "%d calls changed the state of their thread", changed);
    emu_set_devices(1, 90);
    same_result(bed, &clip, &want, VAE_DECODE, "a second device");
}

/* An application records its own work in another thread, from before the plan
 * of a stream until after its end. Meanwhile the stream times its layers,
 * counts NaN, pins memory, and frees and reloads the device's memory once. */
static void
foreign_recording(const Bed *bed)
{
    SCOPED_CLIP TestClip clip = new_clip(bed);
    SCOPED_CLIP TestClip want = new_clip(bed);
    VaeStreamParams params = params_of(VAE_DECODE);
    VaeStream *stream = bed_stream(bed, params);
    VaeError error = {0};
    run_clip(bed, stream, VAE_DECODE, &want, calls);
    vae_stream_free(&stream);
    VaeModel *model = open_model(bed);
    setenv("XDG_CACHE_HOME", "", 1); /* no stored times */
    setenv("HOME", "", 1);
    params.deterministic = false;
    params.nan_policy = VAE_NAN_ERROR;
    emu_conv_searches();
    emu_unload();
    emu_begin_foreign();
    VaeStatus status = vae_stream_new(model, &params, &stream, &error);
    const bool timed = emu_conv_searches() > 0;
    if (status == VAE_OK) {
        VaePin *pin = vae_stream_pin(stream, clip.video,
                                     clip_video_count(&clip) * sizeof(float));
        run_clip(bed, stream, VAE_DECODE, &clip, calls);
        expect(timed && pin, "layers are timed, memory is pinned");
        vae_pin_free(&pin);
        status = vae_stream_release(stream, &error);
        vae_stream_reset(stream);
        run_clip(bed, stream, VAE_DECODE, &clip, calls);
    }
    vae_stream_free(&stream);
    vae_model_free(&model);
    expect(emu_end_foreign() && status == VAE_OK,
           "an application records in another thread: %s", error.message);
    same_result(bed, &clip, &want, VAE_DECODE,
                "a stream while an application records");
}

int
main(int argc, char **argv)
{
    Bed bed;
    bed_open_device(&bed, argc, argv);
    devices(&bed);
    second_device(&bed);
    foreign_recording(&bed);
    return device_close(&bed);
}

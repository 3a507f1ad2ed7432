/*
 * cancel.c: cancels a call while it submits tasks to the device, at each task
 * in turn. When the call returns, no task of it or of an earlier call is
 * pending, so the caller may free their input and output. The same holds for
 * steps that overflow and are computed again in fp32.
 */

#include "../golden/overflow.h"
#include "../stream/streams.h"
#include "emu_rt.h"

enum { LATENTS = 4, BAD = 2, SIZE = 16, MOST = 8 };

static VaeStream *
open_stream(const Bed *bed, VaeNanPolicy policy)
{
    return bed_stream(bed, (VaeStreamParams){.width = SIZE,
                                             .height = SIZE,
                                             .slice_size = 1,
                                             .deterministic = true,
                                             .normalization = VAE_RAW,
                                             .nan_policy = policy});
}

/* Makes latents of zeros. If bad is set, latent BAD overflows. */
static TestClip
clip_of(const Bed *bed, bool bad)
{
    TestClip clip = bed_clip(bed, LATENTS, SIZE, SIZE, 0);
    const size_t n = clip_latent_count(bed, &clip) / LATENTS;
    const size_t first = n / (size_t) bed->info->latent_channels;
    for (size_t k = 0; k < LATENTS; k++)
        for (size_t i = 0; i < first; i++)
            clip.latents[k * n + i] = bad && k == BAD ? OVERFLOW_Z : 0;
    clip_poison(bed, &clip, VAE_DECODE);
    return clip;
}

/* Runs one step per call, with two calls in flight, until a call fails. */
static VaeStatus
run(const Bed *bed, VaeStream *stream, const TestClip *clip)
{
    const size_t latent = clip_latent_count(bed, clip) / LATENTS;
    const size_t frame = (size_t) SIZE * SIZE * 3;
    VaeStatus status = VAE_OK;
    VaeError error;
    int out = 0, n_in, n_out;
    for (size_t i = 0; i < LATENTS && status == VAE_OK; i++) {
        const VaeLatentIn l = {.type = VAE_TYPE_F32,
                               .data = clip->latents + i * latent};
        VaePicture pictures[MOST];
        vae_stream_count(stream, 1, &n_in, &n_out);
        for (int k = 0; k < n_out; k++)
            pictures[k] = (VaePicture){
                .pixels = VAE_PIXELS_RGB_F32,
                .width = SIZE,
                .height = SIZE,
                .data = {(uint8_t *) (clip->video + (size_t) out++ * frame)},
                .stride = {SIZE * 3 * sizeof(float)}};
        status =
            vae_stream_decode_begin(stream, &l, 1, pictures, n_out, &error);
        if (status == VAE_OK)
            status = vae_stream_wait(stream, 1, &error);
    }
    return status == VAE_OK ? vae_stream_wait(stream, 0, &error) : status;
}

static void
cancel(void *stream)
{
    vae_stream_cancel(stream);
}

static void
each_place(const Bed *bed, VaeNanPolicy policy, const char *what)
{
    SCOPED_STREAM VaeStream *stream = open_stream(bed, policy);
    SCOPED_CLIP TestClip want = clip_of(bed, policy != VAE_NAN_PASS);
    SCOPED_CLIP TestClip clip = clip_of(bed, policy != VAE_NAN_PASS);
    int wrong = 0, left = 0, cancelled = 0;
    VaeStreamStats stats;
    expect(run(bed, stream, &want) == VAE_OK, "%s: a whole clip", what);
    stats = *vae_stream_stats(stream);
    expect((stats.recovered_steps > 0) == (policy == VAE_NAN_FALLBACK),
           "%llu steps computed in fp32",
           (unsigned long long) stats.recovered_steps);
    vae_stream_reset(stream);
    emu_fail_work(0);
    run(bed, stream, &clip);
    const int n = emu_fail_work(0);
    for (int i = 1; i <= n; i++) {
        vae_stream_reset(stream);
        emu_at_work(i, cancel, stream);
        const VaeStatus status = run(bed, stream, &clip);
        emu_at_work(0, NULL, NULL);
        wrong += status != VAE_OK && status != VAE_ERR_CANCELLED;
        cancelled += status == VAE_ERR_CANCELLED;
        left += emu_pending() > 0;
    }
    expect(wrong == 0 && left == 0 && cancelled > LATENTS,
           "%s: at %d tasks, %d cancelled, %d with another error, %d with "
           "pending work",
           what, n, cancelled, wrong, left);
    clip_poison(bed, &clip, VAE_DECODE);
    vae_stream_reset(stream);
    run(bed, stream, &clip);
    same_result(bed, &clip, &want, VAE_DECODE, "a whole clip after that");
}

int
main(void)
{
    Bed bed;
    setvbuf(stdout, NULL, _IOLBF, 0);
    bed_open(&bed, "wan21", "cuda", "bf16");
    bed_rewrite(&bed, overflow_write);
    each_place(&bed, VAE_NAN_PASS, "slices");
    each_place(&bed, VAE_NAN_FALLBACK, "with the fallback");
    vae_model_free(&bed.model);
    expect(emu_alive() == 0, "%d objects of the device are not freed",
           emu_alive());
    return tests_end();
}

/*
 * lateguard.c: tests the fallback to fp32 of a decoder with a delay. An
 * overflow in its first layers happens many steps before the frames that it
 * changes.
 *
 * lateguard BACKEND
 */
#include "../../golden/overflow.h"
#include "../streams.h"

enum { T = 18, W = 64, H = 32, LASTS = 3 };

/* ahead: the look-ahead; -1: the model's, which is exact. */
static VaeStreamStats
run_ahead(const Bed *bed, TestClip *clip, VaeNanPolicy policy, int slice,
          int ahead)
{
    const int plan[] = {slice, 0};
    SCOPED_STREAM VaeStream *stream =
        bed_stream(bed, (VaeStreamParams){.width = W,
                                          .height = H,
                                          .slice_size = slice,
                                          .low_latency = ahead >= 0,
                                          .look_ahead = ahead < 0 ? 0 : ahead,
                                          .nan_policy = policy});
    clip_poison(bed, clip, VAE_DECODE);
    run_clip(bed, stream, VAE_DECODE, clip, plan);
    const VaeStreamStats stats = *vae_stream_stats(stream);
    return stats;
}

static VaeStreamStats
run(const Bed *bed, TestClip *clip, VaeNanPolicy policy, int slice)
{
    return run_ahead(bed, clip, policy, slice, -1);
}

/* Makes a clip. Latents whose bit is set in `bad` overflow. */
static TestClip
clip_of(const Bed *bed, unsigned bad)
{
    TestClip clip = bed_clip(bed, T, W, H, 0);
    const size_t plane = (size_t) (H / 32) * (W / 32);
    const size_t latent = plane * (size_t) bed->info->latent_channels;
    for (size_t k = 0; k < T; k++)
        for (size_t i = 0; i < plane; i++)
            clip.latents[k * latent + i] = bad >> k & 1 ? OVERFLOW_Z : 0;
    return clip;
}

static size_t
not_finite(const TestClip *clip)
{
    size_t n = 0;
    for (size_t i = 0; i < clip_video_count(clip); i++)
        n += !isfinite(clip->video[i]);
    return n;
}

static double
relative(const TestClip *a, const TestClip *b)
{
    double error = 0, power = 0;
    for (size_t i = 0; i < clip_video_count(a); i++) {
        const double x = (double) a->video[i], y = (double) b->video[i];
        error += (x - y) * (x - y);
        power += x * x;
    }
    return sqrt(error / power);
}

static void
fallback(const Bed *bed, unsigned bad, int steps)
{
    Bed wide = *bed;
    wide.precision = VAE_PRECISION_FP32;
    SCOPED_CLIP TestClip want = clip_of(bed, bad), one = clip_of(bed, bad);
    SCOPED_CLIP TestClip got = clip_of(bed, bad);
    run(bed, &got, VAE_NAN_PASS, 1);
    expect(not_finite(&got) > 0,
           "latents %#x: without the fallback, frames have NaN", bad);
    run(&wide, &want, VAE_NAN_PASS, 1);
    const VaeStreamStats s = run(bed, &one, VAE_NAN_FALLBACK, 1);
    expect(not_finite(&one) == 0 && s.nonfinite_steps == (uint64_t) steps &&
               s.recovered_steps == s.nonfinite_steps && s.nonfinite == 0,
           "  with the fallback, all frames are finite; %llu steps overflowed, "
           "%llu recovered",
           (unsigned long long) s.nonfinite_steps,
           (unsigned long long) s.recovered_steps);
    const double r = relative(&want, &one);
    /* The bounds are those of guard.c: roundings of bf16. */
    expect(r < 0.03 && r > 1e-4, "  and differs from fp32 by %.2g", r);
    for (int slice = 2; slice < 8; slice += slice) {
        const VaeStreamStats t = run(bed, &got, VAE_NAN_FALLBACK, slice);
        same_result(bed, &got, &one, VAE_DECODE, "  in larger slices");
        expect(t.nonfinite_steps == s.nonfinite_steps &&
                   t.recovered_steps == s.recovered_steps &&
                   t.units_out == s.units_out,
               "  as many steps overflow and recover");
    }
}

/* With a smaller look-ahead, the stream computes the next frames after each
 * step as if the clip ended there. The fallback also works for these frames. */
static void
guesses(const Bed *bed, unsigned bad, int ahead)
{
    Bed wide = *bed;
    wide.precision = VAE_PRECISION_FP32;
    SCOPED_CLIP TestClip want = clip_of(bed, bad), got = clip_of(bed, bad);
    run_ahead(bed, &got, VAE_NAN_PASS, 1, ahead);
    expect((not_finite(&got) > 0) == (bad != 0),
           "latents %#x, look-ahead %d: without the fallback, %zu values are "
           "not finite",
           bad, ahead, not_finite(&got));
    if (bad)
        run_ahead(&wide, &want, VAE_NAN_PASS, 1, ahead);
    else
        run_ahead(bed, &want, VAE_NAN_PASS, 1, ahead);
    const VaeStreamStats s = run_ahead(bed, &got, VAE_NAN_FALLBACK, 4, ahead);
    expect(not_finite(&got) == 0 && (s.nonfinite_steps > 0) == (bad != 0) &&
               s.recovered_steps == s.nonfinite_steps && s.nonfinite == 0,
           "  with the fallback, all frames are finite; %llu steps overflowed, "
           "%llu recovered",
           (unsigned long long) s.nonfinite_steps,
           (unsigned long long) s.recovered_steps);
    if (bad)
        expect(relative(&want, &got) < 0.03, "  and differs from fp32 by %.2g",
               relative(&want, &got));
    else
        same_result(bed, &got, &want, VAE_DECODE,
                    "  without an overflow, the same bytes");
}

/* A non-finite latent is not recovered. */
static void
bad_input(const Bed *bed)
{
    SCOPED_CLIP TestClip pass = clip_of(bed, 0), got = clip_of(bed, 0);
    const size_t latent = clip_latent_count(bed, &pass) / T;
    pass.latents[latent + 5] = got.latents[latent + 5] = NAN;
    run(bed, &pass, VAE_NAN_PASS, 1);
    const VaeStreamStats s = run(bed, &got, VAE_NAN_FALLBACK, 1);
    same_result(bed, &got, &pass, VAE_DECODE,
                "a NaN of the input reaches the output");
    expect(s.recovered_steps == 0, "  and is not recovered");
}

int
main(int argc, char **argv)
{
    Bed bed;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 2) {
        fprintf(stderr, "usage: lateguard BACKEND\n");
        return 2;
    }
    bed_open(&bed, "ltx2_3", argv[1], "bf16");
    bed.threads = 1;
    bed_rewrite(&bed, overflow_write);
    fallback(&bed, 1u << 2, LASTS);
    /* Overflows in the first step, in a step that gives frames, and in the last
     * one, after which the stream computes one more step for the end. */
    fallback(&bed, 1u | 1u << 14 | 1u << (T - 1), 3 * LASTS + 1);
    /* With a smaller look-ahead, the end needs more steps, which are slow on
     * the emulated device. */
    const int ahead = bed.backend == VAE_BACKEND_CUDA ? 12 : 2;
    guesses(&bed, 0, ahead);
    guesses(&bed, 1u << 2 | 1u << (T - 1), ahead);
    if (bed.backend != VAE_BACKEND_CUDA)
        guesses(&bed, 1u << 9, 0);
    bad_input(&bed);
    return bed_close(&bed);
}

/*
 * posterior.c: the samples of a posterior depend only on the seed and on their
 * position.
 *
 * posterior MODEL BACKEND PRECISION
 */
#include "sample.h"
#include "../streams.h"

enum { T = 7, W = 48, H = 32 };
static const int one_by_one[] = {1, 0}, threes[] = {3, 0}, whole[] = {T, 0};

/* Bounds are five standard errors wide. */
static void
moments(void)
{
    enum { N = 1 << 20 };
    double sum[4] = {0}, near[5] = {0}, most = 0;
    for (int i = 0; i < N; i++) {
        const int x = i & 127, y = i >> 7 & 127, c = i >> 14 & 15, k = i >> 18;
        const double v = vae_normal(7, (uint64_t) k, c, y, x);
        const double beside[5] = {
            vae_normal(7, (uint64_t) k, c, y, x + 1),
            vae_normal(7, (uint64_t) k, c, y + 1, x),
            vae_normal(7, (uint64_t) k, c + 1, y, x),
            vae_normal(7, (uint64_t) k + 1, c, y, x),
            vae_normal(8, (uint64_t) k, c, y, x),
        };
        sum[0] += v;
        sum[1] += v * v;
        sum[2] += v * v * v;
        sum[3] += v * v * v * v;
        for (int j = 0; j < 5; j++)
            near[j] += v * beside[j];
        most = fabs(v) > most ? fabs(v) : most;
    }
    const double e = 5 / sqrt((double) N);
    expect(fabs(sum[0] / N) < e, "mean %.5f", sum[0] / N);
    expect(fabs(sum[1] / N - 1) < e * sqrt(2.0), "second moment %.5f",
           sum[1] / N);
    expect(fabs(sum[2] / N) < e * sqrt(15.0), "third moment %.5f", sum[2] / N);
    expect(fabs(sum[3] / N - 3) < e * sqrt(96.0), "fourth moment %.5f",
           sum[3] / N);
    expect(most > 4 && most < 8.6, "largest %.3f", most);
    for (int j = 0; j < 5; j++)
        expect(fabs(near[j] / N) < e, "product with a neighbour %.5f",
               near[j] / N);
}

/* The expected numbers were computed with another implementation of the two
 * formulas. */
static void
pinned(void)
{
    static const struct {
        uint64_t seed, latent;
        int c, y, x;
        double want;
    } rows[] = {
        {0u, 0u, 0, 0, 0, -0.17660189265402354},
        {1u, 0u, 0, 0, 1, 0.45547249505594262},
        {0u, 1u, 0, 1, 0, -0.85420507304248361},
        {18446744073709551615u, 225u, 15, 269, 479, 0.8712810860070106},
        {42u, 8589934592u, 255, 65535, 65535, -0.069859146913798298},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const double got = vae_normal(rows[i].seed, rows[i].latent, rows[i].c,
                                      rows[i].y, rows[i].x);
        expect(fabs(got - rows[i].want) < 1e-12, "number %zu is %.15g", i, got);
    }
    expect(vae_sample(1, 0, 0.5) == 1.5f && vae_sample(1, 100, 0) == 1 &&
               vae_sample(0, 100, 1) == (float) exp(10) &&
               vae_sample(0, -100, 1) == (float) exp(-15) &&
               isnan(vae_sample(0, NAN, 1)),
           "logvar is clamped to -30..20");
}

/* ------------------------------------------------------------------ */

/* Encodes the clip of seed 0. with_head: also gives mean and logvar. */
static TestClip
encode(const Bed *bed, VaeStreamParams params, const int *plan, bool with_head)
{
    TestClip clip = bed_clip(bed, T, W, H, 0);
    const size_t n = clip_latent_count(bed, &clip);
    if (with_head) {
        clip.mean = test_alloc(n * sizeof *clip.mean);
        clip.logvar = test_alloc(n * sizeof *clip.logvar);
    }
    params.direction = VAE_ENCODE;
    params.width = W;
    params.height = H;
    SCOPED_STREAM VaeStream *stream = bed_stream(bed, params);
    clip_poison(bed, &clip, VAE_ENCODE);
    run_clip(bed, stream, VAE_ENCODE, &clip, plan);
    return clip;
}

static const VaeStreamParams sampling = {.struct_size = sizeof(VaeStreamParams),
                                         .posterior = VAE_POSTERIOR_SAMPLE,
                                         .seed = 0x123456789abcdef0u,
                                         .slice_size = 1};

/* Each latent follows from its mean, its logvar and its random number. */
static void
by_formula(const Bed *bed)
{
    const VaeModelInfo *info = bed->info;
    const int h = (H + info->spatial - 1) / info->spatial;
    const int w = (W + info->spatial - 1) / info->spatial;
    SCOPED_CLIP TestClip raw = encode(bed, sampling, one_by_one, true);
    VaeStreamParams params = sampling;
    params.normalization = VAE_RAW;
    SCOPED_CLIP TestClip own = encode(bed, params, one_by_one, false);
    size_t n = clip_latent_count(bed, &raw), bad = 0, at = 0;
    double sum = 0, squares = 0;
    for (int k = 0; k < T; k++)
        for (int c = 0; c < info->latent_channels; c++)
            for (int p = 0; p < h * w; p++, at++) {
                const double e =
                    vae_normal(sampling.seed, (uint64_t) k, c, p / w, p % w);
                const float v = vae_sample(raw.mean[at], raw.logvar[at], e);
                bad += own.latents[at] != v;
                bad += raw.latents[at] != (v - info->mean[c]) / info->std[c];
                const double back =
                    ((double) v - raw.mean[at]) / exp(raw.logvar[at] / 2.0);
                sum += back;
                squares += back * back;
            }
    expect(bad == 0, "%zu latents by mean, logvar and number: %zu differ", n,
           bad);
    expect(fabs(sum) < 5 * sqrt((double) n) &&
               fabs(squares - (double) n) < 5 * sqrt(2.0 * (double) n),
           "noise of mean %.3f and variance %.3f", sum / (double) n,
           squares / (double) n);
}

static void
same_numbers(Bed *bed)
{
    VaeStreamParams params = sampling;
    SCOPED_CLIP TestClip want = encode(bed, params, one_by_one, false);
    static const int *const plans[] = {one_by_one, threes, whole};
    for (int threads = 1; threads <= (bed->backend == VAE_BACKEND_CPU ? 3 : 1);
         threads++)
        for (int i = 0; i < 3; i++) {
            char what[64];
            Bed other = *bed;
            other.threads = threads;
            params.slice_size = plans[i][0];
            SCOPED_CLIP TestClip first =
                encode(&other, params, one_by_one, false);
            SCOPED_CLIP TestClip got = encode(&other, params, plans[i], false);
            snprintf(what, sizeof what, "%d threads, calls of %d", threads,
                     plans[i][0]);
            same_result(bed, &got, threads == 1 ? &want : &first, VAE_ENCODE,
                        what);
        }
}

static size_t
differing(const Bed *bed, const TestClip *a, const TestClip *b)
{
    size_t bad = 0;
    for (size_t i = 0; i < clip_latent_count(bed, a); i++)
        bad += a->latents[i] != b->latents[i];
    return bad;
}

static void
seeds_and_reset(const Bed *bed)
{
    VaeStreamParams params = sampling;
    SCOPED_CLIP TestClip want = encode(bed, params, one_by_one, false);
    const size_t n = clip_latent_count(bed, &want);
    params.seed++;
    TestClip other = encode(bed, params, one_by_one, false);
    size_t bad = differing(bed, &want, &other);
    expect(bad > n * 9 / 10, "another seed: %zu of %zu differ", bad, n);
    clip_free(&other);
    params.posterior = VAE_POSTERIOR_MEAN;
    TestClip mean = encode(bed, params, one_by_one, true);
    bad = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t c = i / (n / T / (size_t) bed->info->latent_channels) %
                         (size_t) bed->info->latent_channels;
        bad += mean.latents[i] !=
               (mean.mean[i] - bed->info->mean[c]) / bed->info->std[c];
    }
    expect(bad == 0, "the mean does not depend on the seed: %zu differ", bad);
    clip_free(&mean);
    params = sampling;
    params.direction = VAE_ENCODE;
    params.width = W;
    params.height = H;
    SCOPED_STREAM VaeStream *stream = bed_stream(bed, params);
    SCOPED_CLIP TestClip clip = bed_clip(bed, T, W, H, 1);
    run_clip(bed, stream, VAE_ENCODE, &clip, one_by_one);
    clip_free(&clip);
    vae_stream_reset(stream);
    clip = bed_clip(bed, T, W, H, 0);
    run_clip(bed, stream, VAE_ENCODE, &clip, one_by_one);
    same_result(bed, &clip, &want, VAE_ENCODE, "a reset begins again");
}

/* Backends may differ only by rounding. Other random numbers would differ by
 * the standard deviation. */
static void
like_ref(const Bed *bed)
{
    Bed ref = *bed;
    ref.backend = VAE_BACKEND_REF;
    ref.precision = VAE_PRECISION_FP32;
    SCOPED_CLIP TestClip want = encode(&ref, sampling, one_by_one, false);
    SCOPED_CLIP TestClip got = encode(bed, sampling, one_by_one, false);
    const size_t n = clip_latent_count(bed, &want);
    double squares = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double) want.latents[i] - got.latents[i];
        squares += d * d;
    }
    const double rms = sqrt(squares / (double) n);
    const double bound = bed->precision == VAE_PRECISION_BF16 ? 0.1 : 1e-4;
    expect(rms < bound, "ref differs by %.3g, bound %.3g", rms, bound);
}

static void
refused(const Bed *bed)
{
    VaeStreamParams params = sampling;
    SCOPED_STREAM VaeStream *stream = NULL;
    VaeError error = {0};
    params.direction = VAE_ENCODE;
    params.width = W;
    params.height = H;
    params.backend = bed->backend;
    params.precision = bed->precision;
    const VaeStatus status =
        vae_stream_new(bed->model, &params, &stream, &error);
    expect(status == VAE_ERR_UNSUPPORTED && !stream &&
               strstr(error.message, "no posterior"),
           "refused: %s", error.message);
}

int
main(int argc, char **argv)
{
    Bed bed;
    bed_open_main(&bed, argc, argv);
    if (bed.info->has_posterior) {
        moments();
        pinned();
        by_formula(&bed);
        same_numbers(&bed);
        seeds_and_reset(&bed);
        like_ref(&bed);
    } else
        refused(&bed);
    return bed_close(&bed);
}

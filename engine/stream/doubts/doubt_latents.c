/*
 * doubt_latents.c: compares the numbers of a latent with the statistics of its
 * space.
 */
#include "doubts.h"

#include <math.h>
#include <stdio.h>

#include "vae-private/spaces.h"

/*
 * The model: how the channels of one latent differ from the statistics of its
 * space, in standard deviations of the channel. The common spread depends on
 * the picture and the network, so it is not known. How much the spreads of
 * channels differ, and their means, is not known either. Only their pattern
 * tells: the right statistics make the channels alike. The logarithms of the
 * spreads differ by SPREADS or more, and the means by MEANS of the spread or
 * more.
 */
#define SPREADS 0.25
#define MEANS 0.5

/* One latent of samples has about the spread USUAL. Another is less likely by
 * SCALE times the square of the logarithm, up to FAR. */
#define USUAL 0.8
#define SCALE 0.25
#define FAR 1.0

/* The other normalization must be more likely by this margin, in nats per
 * channel. With the wrong one, sample clips of wan2.1 have 0.53 or more after
 * their first latent. With the right one they have 0 or less. TAEF2 on test
 * patterns has up to 0.11, if its channels are given the statistics of wan2.1,
 * and less than 0 with those of wan2.2 and qwenimage2.1. */
static double
margin(int channels)
{
    return 0.1 + 6.0 / channels;
}

/* Where all channels have one scale, only the spread tells. Normalized latents
 * of a whole data set have a spread of 1. Those of one picture have up to 1 in
 * all samples, and with a contrast of twice that they are still no doubt.
 * Outside of FLAT to WIDE, the other normalization is told if its spread is
 * nearer to USUAL, by a factor of TIMES. Its pattern must not speak against it
 * by more than AGAINST. */
#define FLAT 0.25
#define WIDE 2.4
#define TIMES 2.0
#define AGAINST 0.1

/* Latents that were scaled twice, such as by 0.18215, or by 0.1, have less than
 * NARROW: sample clips have 0.6 in their first latent and 0.8 in the others. A
 * picture of one colour may have as little, but then most of it is the distance
 * from the means, and the channels vary around their own means by less than
 * OWN of it. Grey has a spread of 0.23 and 0.05 with the demo model, 0.5 and
 * 0.17 with TAEF2. */
#define NARROW 0.2
#define OWN 0.5

/* Test patterns have up to 3.7 around the means of their channels with the demo
 * model, and up to 9 around 0, because full colours move all means. Raw latents
 * of sd have 5.5. */
#define VERY_WIDE 4.0
#define VERY_FAR 20.0

/* The means of a latent of fewer numbers than FEW are left to chance, and only
 * a spread of VERY_WIDE is a doubt. Fewer than TOO_FEW are not judged. */
#define FEW 512
#define TOO_FEW 64

typedef struct Channel {
    double mean, log_spread;
} Channel;

enum { BLOCK = 256 };

static Channel
measure(const uint8_t *data, VaeType type, size_t n)
{
    const size_t size = vae_type_size(type);
    double sum = 0, squares = 0, mean;
    float block[BLOCK];

    for (size_t i = 0; i < n; i += BLOCK) {
        const size_t m = n - i < BLOCK ? n - i : BLOCK;

        vae_type_to_float(block, data + i * size, type, m);
        for (size_t j = 0; j < m; j++) {
            sum += block[j];
            squares += (double) block[j] * (double) block[j];
        }
    }
    mean = sum / (double) n;
    /* A constant channel counts as one with a spread of 0.001. */
    squares = fmax(squares / (double) n - mean * mean, 1e-6);
    return (Channel){mean, log(squares) / 2};
}

/* How channels fit a normalization. The spreads are in standard deviations of
 * the space. */
typedef struct Fit {
    double all;        /* the spread around the means of the space */
    double own;        /* that of each channel around its own mean */
    double pattern;    /* log of the likelihood per channel, for any spread */
    double likelihood; /* with that of the spread */
} Fit;

/* Sums over the channels, divided by their number. */
typedef struct Sums {
    double means;         /* squares */
    double own;           /* variances */
    double logs, squares; /* of the logarithms of the spreads */
    double scales;        /* the logarithm of the unit */
} Sums;

static Sums
sum(const Channel *channels, const VaeModelInfo *info, VaeNormalization taken)
{
    const int n = info->latent_channels;
    Sums sums = {.means = 0};
    for (int i = 0; i < n; i++) {
        const double m = taken == VAE_RAW ? (double) info->mean[i] : 0;
        const double s = taken == VAE_RAW ? (double) info->std[i] : 1;
        const double off = (channels[i].mean - m) / s;
        const double wide = channels[i].log_spread - log(s);
        sums.means += off * off / n;
        sums.own += exp(2 * wide) / n;
        sums.logs += wide / n;
        sums.squares += wide * wide / n;
        sums.scales += log(s) / n;
    }
    return sums;
}

static Fit
fit(const Channel *channels, const VaeModelInfo *info, VaeNormalization taken)
{
    const Sums s = sum(channels, info, taken);
    const double spreads = s.squares - s.logs * s.logs + SPREADS * SPREADS;
    const double means = s.means + MEANS * MEANS * exp(2 * s.logs);
    const double all = sqrt(s.means + s.own), far = log(all / USUAL);
    const double pattern = -log(spreads * means) / 2 - s.scales;
    return (Fit){.all = all,
                 .own = sqrt(s.own),
                 .pattern = pattern,
                 .likelihood = pattern - SCALE * fmin(far * far, FAR)};
}

/* True if the pattern over the channels is that of the other normalization. */
static bool
pattern_tells(const Fit *found, const Fit *other, int channels)
{
    return other->likelihood - found->likelihood > margin(channels);
}

/* True if the spread is that of the other normalization. */
static bool
spread_tells(const Fit *found, const Fit *other, bool few)
{
    const bool unusual =
        few ? found->own > VERY_WIDE : found->all < FLAT || found->own > WIDE;
    return unusual && other->pattern > found->pattern - AGAINST &&
           fabs(log(found->all / USUAL)) >
               fabs(log(other->all / USUAL)) + log(TIMES);
}

static bool
looks_other(const Fit *found, const Fit *other, int channels, bool few)
{
    return other->own >= NARROW && other->own <= WIDE &&
           ((!few && pattern_tells(found, other, channels)) ||
            spread_tells(found, other, few));
}

/* True if no latents of the space have such a spread. */
static bool
is_strange(const Fit *f, bool few)
{
    return f->own > VERY_WIDE || f->all > VERY_FAR ||
           (!few && f->all < NARROW && f->own > OWN * f->all);
}

static void
tell_normalization(const VaeModelInfo *info, const VaeDoubtWords *words,
                   VaeNormalization n, Line line)
{
    const char *other =
        vae_normalization_name(n == VAE_RAW ? VAE_NORMALIZED : VAE_RAW);
    snprintf(line.text, line.size,
             "%s%s %s, but by the statistics of %s they look %s: if they are, "
             "set normalization%s to %s",
             words->stated ? words->stated : "the latents are taken as",
             words->stated ? " that the latents are" : "",
             vae_normalization_name(n), info->space, other,
             words->owner ? words->owner : "", other);
}

bool
vae_doubt_one_latent(const VaeModelInfo *info, Taken taken,
                     const VaeLatentIn *latent, size_t plane, Line line)
{
    const VaeNormalization n =
        vae_space_normalization(info->space, taken.normalization);
    const size_t bytes = plane * vae_type_size(latent->type);
    Channel channels[VAE_MAX_LATENT_CHANNELS];
    const size_t numbers = (size_t) info->latent_channels * plane;
    if (numbers < TOO_FEW)
        return false;
    for (int i = 0; i < info->latent_channels; i++)
        channels[i] =
            measure((const uint8_t *) latent->data + (size_t) i * bytes,
                    latent->type, plane);
    const Fit found = fit(channels, info, n);
    const Fit other =
        fit(channels, info, n == VAE_RAW ? VAE_NORMALIZED : VAE_RAW);
    const bool few = numbers < FEW;
    if (!isfinite(found.all))
        return false;
    if (looks_other(&found, &other, info->latent_channels, few))
        tell_normalization(info, &taken.words, n, line);
    else if (is_strange(&found, few))
        snprintf(line.text, line.size,
                 "the latents have %.2g times the spread that %s latents of %s "
                 "have: is this the right input?",
                 found.all, vae_normalization_name(n), info->space);
    else
        return false;
    return true;
}

bool
vae_doubt_latent(const VaeModelInfo *info, VaeNormalization normalization,
                 const VaeLatentIn *latent, size_t plane, char *text,
                 size_t size)
{
    const Taken taken = {.normalization = normalization};
    return vae_doubt_one_latent(info, taken, latent, plane, (Line){text, size});
}

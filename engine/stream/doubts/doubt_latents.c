/*
 * doubt_latents.c: compares the numbers of a latent with the statistics of its
 * space.
 */
#include "doubts.h"

#include <math.h>
#include <stdio.h>

#include "vae-private/spaces.h"

/*
 * The model: how one latent differs from the statistics of its space, in
 * standard deviations of the channel. The means are around 0. The logarithms of
 * the spreads are around that of SPREAD; they share a deviation for the latent
 * (flat or rich pictures), and each channel has one of its own. The numbers
 * allow for all sample clips, with latents multiplied by 0.1 to 2.
 */
#define MEAN_SD 0.5
#define SPREAD 0.8
#define COMMON_SD 0.5
#define OWN_SD 0.35

/* The other normalization must be more likely by a margin, in nats per channel,
 * and its fit must be at most GOOD_FIT. Sample clips with the wrong one
 * have 1.1 or more, and with the right one -1.2 or less if they are normalized.
 * The first latent of a video has half the spread, so a raw one of wan2.1 looks
 * more normalized, by 0.2, and a normalized one that is taken as raw has 1.6.
 */
#define GOOD_FIT 1.5

static double
margin(VaeNormalization declared, bool first)
{
    return declared == VAE_NORMALIZED ? 0.5 : first ? 1.2 : 0.75;
}

/* Normalized latents of a whole data set have a spread of 1 around the mean of
 * the space. Those of one picture have up to 1 in all samples, and with a
 * contrast of twice that they are still no doubt. */
#define WIDE 2.4

/* Latents that were scaled twice, such as by 0.18215, or by 0.1, have less than
 * NARROW: sample clips have 0.6 in their first latent and 0.8 in the others. A
 * picture of one colour may have as little, but then most of it is the distance
 * from the means, and the channels vary around their own means by less than
 * OWN of it. Grey has a spread of 0.23 and 0.05 with the demo model, 0.5 and
 * 0.17 with TAEF2. */
#define NARROW 0.2
#define OWN 0.5

/* The means of a latent of fewer numbers than FEW are left to chance, and only
 * a spread of VERY_WIDE is a doubt. Parts of sample clips with TOO_FEW numbers
 * have up to 2.7, raw latents of sd have 5.5. */
#define FEW 512
#define VERY_WIDE 4.0
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

/* Returns the logarithm of the likelihood of n channels, if numbers have these
 * means and standard deviations (NULL: 0 and 1). *fit: receives the squared
 * distance per degree of freedom, which is about 1 if the model is right. */
static double
likelihood(const Channel *channels, int n, const float *mean, const float *std,
           double *fit)
{
    const double own = OWN_SD * OWN_SD, common = COMMON_SD * COMMON_SD;
    double means = 0, squares = 0, sum = 0, logs = 0, spreads;

    for (int i = 0; i < n; i++) {
        const double m = mean ? mean[i] : 0, s = std ? std[i] : 1;
        const double off = (channels[i].mean - m) / (s * MEAN_SD);
        const double wide = channels[i].log_spread - log(s * SPREAD);

        means += off * off;
        squares += wide * wide;
        sum += wide;
        logs += log(s);
    }
    /* The inverse of own * I + common * 1 1^T. */
    spreads = squares / own - common * sum * sum / (own * (own + n * common));
    *fit = (means + spreads) / (2 * n);
    return -(means + spreads) / 2 - logs;
}

/* Returns true if the latent clearly does not have the stated normalization. */
static bool
looks_other(const Channel *channels, const VaeModelInfo *info,
            VaeNormalization declared, bool first)
{
    const int n = info->latent_channels;
    double fit[2], logs[2];

    logs[VAE_NORMALIZED] =
        likelihood(channels, n, NULL, NULL, &fit[VAE_NORMALIZED]);
    logs[VAE_RAW] =
        likelihood(channels, n, info->mean, info->std, &fit[VAE_RAW]);
    return logs[!declared] - logs[declared] > n * margin(declared, first) &&
           fit[!declared] < GOOD_FIT;
}

/* In standard deviations of the space. */
typedef struct Spread {
    double all; /* of all channels around the means of the space */
    double own; /* of each channel around its own mean */
} Spread;

static Spread
spread(const Channel *channels, const VaeModelInfo *info, VaeNormalization n)
{
    Spread sum = {0, 0};
    for (int i = 0; i < info->latent_channels; i++) {
        const double m = n == VAE_RAW ? info->mean[i] : 0;
        const double s = n == VAE_RAW ? info->std[i] : 1;
        const double off = channels[i].mean - m;
        const double own = exp(2 * channels[i].log_spread);
        sum.all += (off * off + own) / (s * s);
        sum.own += own / (s * s);
    }
    return (Spread){sqrt(sum.all / info->latent_channels),
                    sqrt(sum.own / info->latent_channels)};
}

/* True if no latents of the space have such a spread. */
static bool
is_strange(Spread s, bool few)
{
    if (few)
        return s.all > VERY_WIDE;
    return s.all > WIDE || (s.all < NARROW && s.own > OWN * s.all);
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
                     const VaeLatentIn *latent, size_t plane, bool first,
                     Line line)
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
    const Spread found = spread(channels, info, n);
    const Spread other =
        spread(channels, info, n == VAE_RAW ? VAE_NORMALIZED : VAE_RAW);
    const bool few = numbers < FEW;
    const bool strange = isfinite(found.all) && is_strange(found, few);
    if (other.all <= WIDE &&
        (strange ? other.own >= NARROW
                 : !few && looks_other(channels, info, n, first)))
        tell_normalization(info, &taken.words, n, line);
    else if (strange)
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
    return vae_doubt_one_latent(info, taken, latent, plane, false,
                                (Line){text, size});
}

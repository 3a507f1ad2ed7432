/*
 * doubts.c: finds input that can be computed, but looks like something else
 * than what it is taken as.
 */
#include <math.h>
#include <stdio.h>

#include "pixels.h"
#include "stream.h"
#include "vae/doubts.h"
#include "vae-private/spaces.h"

/* Where a doubt is written. */
typedef struct Line {
    char *text;
    size_t size;
} Line;

/* ------------------------------------------------------------------ */
/* The normalization of latents.                                       */

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

/* The other normalization must be more likely by MARGIN, in nats per channel
 * (sample clips with the wrong normalization have 1.1 or more), and its fit
 * must be at most GOOD_FIT. */
#define MARGIN 0.75
#define GOOD_FIT 1.5

/* Normalized latents of a whole data set have a spread of 1 around the mean of
 * the space. Those of one picture have up to 1 in all samples, and with a
 * contrast of twice that they are still no doubt. */
#define WIDE 2.4

/* A latent of fewer numbers is not judged: its means are left to chance. */
#define FEW 512

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
            VaeNormalization declared)
{
    const int n = info->latent_channels;
    double fit[2], logs[2];

    logs[VAE_NORMALIZED] =
        likelihood(channels, n, NULL, NULL, &fit[VAE_NORMALIZED]);
    logs[VAE_RAW] =
        likelihood(channels, n, info->mean, info->std, &fit[VAE_RAW]);
    return logs[!declared] - logs[declared] > n * MARGIN &&
           fit[!declared] < GOOD_FIT;
}

/* The spread of all channels around the means of the space, in standard
 * deviations of the space. */
static double
spread(const Channel *channels, const VaeModelInfo *info, VaeNormalization n)
{
    double sum = 0;
    for (int i = 0; i < info->latent_channels; i++) {
        const double m = n == VAE_RAW ? info->mean[i] : 0;
        const double s = n == VAE_RAW ? info->std[i] : 1;
        const double off = channels[i].mean - m;
        sum += (off * off + exp(2 * channels[i].log_spread)) / (s * s);
    }
    return sqrt(sum / info->latent_channels);
}

static void
tell_normalization(const VaeModelInfo *info, const VaeStreamParams *params,
                   VaeNormalization n, Line line)
{
    const char *other =
        vae_normalization_name(n == VAE_RAW ? VAE_NORMALIZED : VAE_RAW);
    const char *format =
        params->normalization_stated
            ? "the latents are marked as %s, but by the statistics of %s they "
              "may be %s: if the mark is wrong, set normalization to %s"
            : "the latents are taken as %s, but by the statistics of %s they "
              "look %s: if they are, set normalization to %s";
    snprintf(line.text, line.size, format, vae_normalization_name(n),
             info->space, other, other);
}

/* first: of a video. Only its spread is judged. */
static bool
doubt_latent(const VaeModelInfo *info, const VaeStreamParams *params,
             const VaeLatentIn *latent, size_t plane, bool first, Line line)
{
    const VaeNormalization n =
        vae_space_normalization(info->space, params->normalization);
    const size_t bytes = plane * vae_type_size(latent->type);
    Channel channels[VAE_MAX_LATENT_CHANNELS];
    double found, other;
    if ((size_t) info->latent_channels * plane < FEW)
        return false;
    for (int i = 0; i < info->latent_channels; i++)
        channels[i] =
            measure((const uint8_t *) latent->data + (size_t) i * bytes,
                    latent->type, plane);
    found = spread(channels, info, n);
    other = spread(channels, info, n == VAE_RAW ? VAE_NORMALIZED : VAE_RAW);
    const bool wide = found > WIDE && isfinite(found);
    if (other <= WIDE && (wide || (!first && looks_other(channels, info, n))))
        tell_normalization(info, params, n, line);
    else if (wide)
        snprintf(line.text, line.size,
                 "the latents have %.2g times the spread that %s latents of %s "
                 "have: is this the right input?",
                 found, vae_normalization_name(n), info->space);
    else
        return false;
    return true;
}

bool
vae_doubt_latent(const VaeModelInfo *info, VaeNormalization normalization,
                 const VaeLatentIn *latent, size_t plane, char *text,
                 size_t size)
{
    const VaeStreamParams params = {.normalization = normalization};
    return doubt_latent(info, &params, latent, plane, false,
                        (Line){text, size});
}

/* ------------------------------------------------------------------ */
/* The range of pictures of floats.                                    */

/* Finds the least and the greatest value of the colours; NaN is neither.
 * Returns true if there is a NaN. */
static bool
find_range(const VaePicture *p, float *least, float *greatest)
{
    const int step = vae_layout(p->pixels)->part[0].step;
    bool nan = false;
    *least = INFINITY;
    *greatest = -INFINITY;
    for (int y = 0; y < p->height; y++) {
        const uint8_t *row = p->data[0] + y * p->stride[0];
        for (int i = 0; i < 3 * p->width; i++) {
            float v;
            memcpy(&v, row + i / 3 * step + i % 3 * (int) sizeof v, sizeof v);
            *least = v < *least ? v : *least;
            *greatest = v > *greatest ? v : *greatest;
            nan |= v != v;
        }
    }
    return nan;
}

/* Values of black and white. */
typedef struct Range {
    float low, high;
} Range;

/* The range that the values look like, or NULL if they may be those of the
 * range that they are taken as. Results of a network may exceed its range a
 * little. Few pictures of -1..1 have their darkest pixel in 0..0.25, so this is
 * the sign of 0..1. */
static const char *
other_range(Range taken, Range found)
{
    const bool is_signed = taken.low < 0;
    if (found.low >= 0 && found.high > 2)
        return taken.high > 2 ? NULL : "0 255";
    if (is_signed && found.low >= 0 && found.low <= 0.25f && found.high <= 1 &&
        found.high - found.low > 0.1f)
        return "0 1";
    if (!is_signed && found.low < -0.25f && found.low >= -1.5f &&
        found.high <= 1.5f)
        return "-1 1";
    return NULL;
}

/* True if values are further outside of the range than results of a network. */
static bool
is_outside(Range taken, Range found)
{
    const float spare = (taken.high - taken.low) / 4;
    return found.low < taken.low - spare || found.high > taken.high + spare;
}

static bool
doubt_picture(const VaeModelInfo *info, const VaeStreamParams *params,
              const VaePicture *picture, Line line)
{
    const Range network = {info->pixel_low, info->pixel_high};
    const bool converts = params->picture_low != params->picture_high;
    const Range taken =
        converts ? (Range){params->picture_low, params->picture_high} : network;
    const float scale = (taken.high - taken.low) / (network.high - network.low);
    char advice[120] = "is this their range?";
    Range found;
    if (!vae_layout_floats(vae_layout(picture->pixels)) || picture->on_device)
        return false;
    if (find_range(picture, &found.low, &found.high)) {
        snprintf(line.text, line.size, "values of the frames are NaN");
        return true;
    }
    found.low = taken.low + (found.low - network.low) * scale;
    found.high = taken.low + (found.high - network.low) * scale;
    const char *other = other_range(taken, found);
    if (!other && !is_outside(taken, found))
        return false;
    if (other && converts)
        snprintf(advice, sizeof advice,
                 "if black and white are \"%s\", set pixel-range to \"%s\"",
                 other, other);
    else if (other)
        snprintf(advice, sizeof advice,
                 "if black and white are \"%s\", convert the values to %g to "
                 "%g",
                 other, (double) taken.low, (double) taken.high);
    snprintf(line.text, line.size,
             "the values of the frames are taken as %g to %g, but are from %g "
             "to %g: %s",
             (double) taken.low, (double) taken.high, (double) found.low,
             (double) found.high, advice);
    return true;
}

bool
vae_doubt_picture(const VaeModelInfo *info, const VaePicture *picture,
                  char *text, size_t size)
{
    const VaeStreamParams params = {.picture_low = 0};
    return doubt_picture(info, &params, picture, (Line){text, size});
}

/* ------------------------------------------------------------------ */
/* Alpha that is lost.                                                 */

/* True if a pixel is not opaque. A float may be half a step of 8 bits below. */
static bool
is_transparent(const VaeModelInfo *info, const VaePicture *p)
{
    const VaeSamples s = vae_picture_alpha(p);
    const bool floats = vae_layout_floats(vae_layout(p->pixels));
    const float least =
        info->pixel_high - (info->pixel_high - info->pixel_low) / 510;
    for (int y = 0; y < p->height; y++)
        for (int x = 0; x < p->width; x++) {
            const uint8_t *at = vae_sample_at(&s, y, x);
            float v = least;
            if (floats)
                memcpy(&v, at, sizeof v);
            if (floats ? !(v >= least) : *at != UINT8_MAX)
                return true;
        }
    return false;
}

bool
vae_doubt_alpha(const VaeModelInfo *info, VaeDirection direction,
                const VaePicture *picture, char *text, size_t size)
{
    const bool decode = direction == VAE_DECODE;
    const bool network = (decode ? info->out_channels : info->in_channels) == 4;
    if (network != decode || vae_layout(picture->pixels)->alpha == decode)
        return false;
    if (decode) {
        snprintf(text, size,
                 "the network makes alpha, which is lost here, because the "
                 "pictures have no place for it; RGBA, .safetensors and .npy "
                 "have one");
        return true;
    }
    if (!picture->on_device && !is_transparent(info, picture))
        return false;
    snprintf(text, size,
             "the frames %s transparent pixels, and the network reads no "
             "alpha: their colours are encoded as if they were opaque; if this "
             "is wrong, blend the frames with a background before",
             picture->on_device ? "may have" : "have");
    return true;
}

/* ------------------------------------------------------------------ */
/* Input of one value.                                                 */

/* True if all samples of part c of the picture are equal. */
static bool
part_is_constant(const VaePicture *p, int c)
{
    const VaeLayout *l = vae_layout(p->pixels);
    const VaePart *part = &l->part[c];
    const uint8_t *first = p->data[part->plane] + part->at;
    for (int y = 0; y < vae_part_height(p, c); y++) {
        const uint8_t *at = first + y * p->stride[part->plane];
        for (int x = 0; x < vae_part_width(p, c); x++)
            if (memcmp(at + (size_t) x * part->step, first, l->bytes) != 0)
                return false;
    }
    return true;
}

/* Floats may differ by a step of 8 bits, as values of 0..1 do that are taken as
 * 0..255. */
static bool
picture_is_constant(const VaeModelInfo *info, const VaePicture *p)
{
    if (vae_layout_floats(vae_layout(p->pixels))) {
        const float range = info->pixel_high - info->pixel_low;
        float least, greatest;
        find_range(p, &least, &greatest);
        if (greatest - least <= range * 1.001f / 255)
            return true;
    }
    return part_is_constant(p, 0) && part_is_constant(p, 1) &&
           part_is_constant(p, 2);
}

/* 0 and -0 are equal. */
static bool
latent_is_constant(const VaeLatentIn *latent, size_t n)
{
    const size_t size = vae_type_size(latent->type);
    const uint8_t *data = latent->data;
    float first, other;
    vae_type_to_float(&first, data, latent->type, 1);
    for (size_t i = 1; i < n; i++) {
        vae_type_to_float(&other, data + i * size, latent->type, 1);
        if (!(other == first))
            return false;
    }
    return n > 1;
}

/* ------------------------------------------------------------------ */
/* The doubts of a stream.                                             */

/* Latent 0 of a video has one frame and half the spread of the others. */
enum { LAST_LATENT = 3, PICTURES = 16 };
/* A film may begin with two seconds of black. */
enum { SAME_LATENTS = 4, SAME_PICTURES = 48 };

static void
tell_constant(VaeStream *s)
{
    const bool decode = s->main.params.direction == VAE_DECODE;
    const unsigned long long n = s->doubts.same;
    char line[160], which[40] = "the first";
    if (n > 1)
        snprintf(which, sizeof which, "each of the first %llu", n);
    snprintf(line, sizeof line,
             "%s %s%s has only one %s: is this the right "
             "input?",
             which, decode ? "latent" : "frame", n > 1 ? "s" : "",
             decode ? "number in all places" : "colour");
    s->main.params.doubt(s->main.params.log_user, line);
    s->doubts.varies = true;
}

static void
count_constant(VaeStream *s, bool constant)
{
    const bool decode = s->main.params.direction == VAE_DECODE;
    VaeDoubts *d = &s->doubts;
    d->varies = !constant;
    d->same++;
    if (constant && d->same == (decode ? SAME_LATENTS : SAME_PICTURES))
        tell_constant(s);
}

static void
judge_latent(VaeStream *s, const VaeLatentIn *latent)
{
    const VaeModelInfo *info = &s->main.model->info;
    const size_t n = vae_stream_latent_elements(s);
    VaeDoubts *d = &s->doubts;
    char line[300];
    if (!d->varies)
        count_constant(s, latent_is_constant(latent, n));
    if (d->told || d->judged > LAST_LATENT)
        return;
    d->told = doubt_latent(
        info, &s->main.params, latent, n / (size_t) info->latent_channels,
        d->judged++ == 0 && info->temporal > 1, (Line){line, sizeof line});
    if (d->told)
        s->main.params.doubt(s->main.params.log_user, line);
}

static void
judge_picture(VaeStream *s, const VaePicture *picture)
{
    VaeDoubts *d = &s->doubts;
    char line[300];
    if (picture->on_device)
        return;
    if (!d->varies)
        count_constant(s, picture_is_constant(&s->main.model->info, picture));
    if (d->told || d->judged++ >= PICTURES)
        return;
    d->told = doubt_picture(&s->main.model->info, &s->main.params, picture,
                            (Line){line, sizeof line});
    if (d->told)
        s->main.params.doubt(s->main.params.log_user, line);
}

/* pictures: those of a call, in or out. A decoder has no data for those that
 * the caller does not want. */
static void
judge_alpha(VaeStream *s, const VaePicture *pictures, int n)
{
    char line[300];
    for (int i = 0; i < n && !s->doubts.alpha; i++)
        if (pictures[i].data[0])
            s->doubts.alpha =
                vae_doubt_alpha(&s->main.model->info, s->main.params.direction,
                                &pictures[i], line, sizeof line);
    if (n > 0 && s->doubts.alpha)
        s->main.params.doubt(s->main.params.log_user, line);
}

void
vae_stream_judge(VaeStream *s, const VaeUnits *units, int n_in, int n_out)
{
    if (!s->main.params.doubt)
        return;
    if (!s->doubts.alpha)
        judge_alpha(s, units->pictures, units->in ? n_out : n_in);
    if (s->main.model->doubt && !s->doubts.begun)
        s->main.params.doubt(s->main.params.log_user, s->main.model->doubt);
    s->doubts.begun = true;
    if (s->main.params.direction == VAE_DECODE && s->at.next != NEXT) {
        s->doubts.judged = 0;
        s->doubts.told = false;
    }
    for (int i = 0; i < n_in; i++)
        if (units->in)
            judge_latent(s, &units->in[i]);
        else
            judge_picture(s, &units->pictures[i]);
}

void
vae_stream_judge_end(VaeStream *s)
{
    if (s->main.params.doubt && s->doubts.same > 0 && !s->doubts.varies)
        tell_constant(s);
}

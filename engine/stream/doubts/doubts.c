/*
 * doubts.c: finds input that can be computed, but looks like something else
 * than what it is taken as.
 */
#include "doubts.h"

#include <math.h>
#include <stdio.h>

#include "pixels.h"

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

/* True for values of 0..255. Filters and networks exceed the range a little;
 * below 16, negative values are rather those of another range. */
static bool
may_be_bytes(Range found)
{
    const float least = found.high > 16 ? -255 / 4.f : 0;
    return found.low >= least && found.high > 2 && found.high <= 255 * 1.25f;
}

/* The range that the values look like, or NULL if they may be those of the
 * range that they are taken as. Results of a network may exceed its range a
 * little. Few pictures of -1..1 have their darkest pixel in 0..0.25, so this is
 * the sign of 0..1. */
static const char *
other_range(Range taken, Range found)
{
    const bool is_signed = taken.low < 0;
    if (may_be_bytes(found))
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
has_nan(const VaePicture *picture)
{
    float least, greatest;
    return vae_layout_floats(vae_layout(picture->pixels)) &&
           !picture->on_device && find_range(picture, &least, &greatest);
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
    find_range(picture, &found.low, &found.high);
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
    else if (converts)
        snprintf(advice, sizeof advice,
                 "if this is not their range, set pixel-range to the values of "
                 "black and white");
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
    if (has_nan(picture)) {
        snprintf(text, size, "values of the frame are NaN");
        return true;
    }
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

/* The first units of a sequence whose numbers are judged. */
enum { LATENTS = 4, PICTURES = 16 };
/* A film may begin with two seconds of black. */
enum { SAME_LATENTS = 4, SAME_PICTURES = 48 };

static void
tell(VaeStream *s, const char *line)
{
    s->main.params.doubt(s->main.params.log_user, line);
}

static void
tell_constant(VaeStream *s)
{
    const bool decode = s->main.params.direction == VAE_DECODE;
    const unsigned long long n = s->doubts.units;
    char line[160], which[40] = "the first";
    if (n > 1)
        snprintf(which, sizeof which, "each of the first %llu", n);
    snprintf(line, sizeof line,
             "%s %s%s has only one %s: is this the right "
             "input?",
             which, decode ? "latent" : "frame", n > 1 ? "s" : "",
             decode ? "number in all places" : "colour");
    tell(s, line);
    s->doubts.varies = s->doubts.constant = true;
}

/* Warns of the first latent of one number in a sequence in which others vary.
 * index: of this latent. Frames of one colour are usual. */
static void
tell_one_constant(VaeStream *s, bool constant, uint64_t index)
{
    VaeDoubts *d = &s->doubts;
    char line[160];
    if (d->constant || d->units == 0 || d->varies != constant)
        return;
    snprintf(line, sizeof line,
             "latent %llu has only one number in all places, unlike others: is "
             "it damaged?",
             (unsigned long long) (constant ? index : index - d->units));
    tell(s, line);
    d->constant = true;
}

/* Counts a unit of the sequence. */
static void
count_unit(VaeStream *s, bool constant)
{
    const bool decode = s->main.params.direction == VAE_DECODE;
    VaeDoubts *d = &s->doubts;
    d->varies = d->varies || !constant;
    d->units++;
    if (!d->varies && d->units == (decode ? SAME_LATENTS : SAME_PICTURES))
        tell_constant(s);
}

static void
judge_latent(VaeStream *s, const VaeLatentIn *latent, uint64_t index)
{
    const VaeModelInfo *info = &s->main.model->info;
    const size_t n = vae_stream_latent_elements(s);
    VaeDoubts *d = &s->doubts;
    char line[300];
    const bool judged = !d->told && d->units < LATENTS;
    const bool constant =
        (judged || !d->constant) && latent_is_constant(latent, n);
    if (judged && !constant) {
        d->told = vae_doubt_one_latent(
            info, (Taken){s->main.params.normalization, s->words}, latent,
            n / (size_t) info->latent_channels, (Line){line, sizeof line});
        if (d->told)
            tell(s, line);
    }
    tell_one_constant(s, constant, index);
    count_unit(s, constant);
}

static void
judge_picture(VaeStream *s, const VaePicture *picture)
{
    const VaeModelInfo *info = &s->main.model->info;
    VaeDoubts *d = &s->doubts;
    char line[300];
    if (picture->on_device)
        return;
    if (!d->nan && has_nan(picture)) {
        d->nan = true;
        snprintf(line, sizeof line, "values of frame %llu are NaN",
                 (unsigned long long) d->units);
        tell(s, line);
    }
    if (!d->told && d->units < PICTURES) {
        d->told = doubt_picture(info, &s->main.params, picture,
                                (Line){line, sizeof line});
        if (d->told)
            tell(s, line);
    }
    count_unit(s, !d->varies && picture_is_constant(info, picture));
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
        tell(s, line);
}

/* Counts the repeated frames. They are of a program that sends one buffer
 * again, because frames that only fill the last call of a clip have nothing
 * after them. */
static void
count_repeated(VaeStream *s)
{
    for (; s->doubts.repeated > 0; s->doubts.repeated--)
        count_unit(s, true); /* as the one before, which was counted */
}

static void
judge_pictures(VaeStream *s, const VaePicture *pictures, int n)
{
    count_repeated(s);
    for (int i = 0; i < n; i++) {
        if (i > 0 && pictures[i].data[0] == pictures[i - 1].data[0]) {
            s->doubts.repeated++;
            continue;
        }
        count_repeated(s);
        judge_picture(s, &pictures[i]);
    }
}

void
vae_stream_judge(VaeStream *s, const VaeUnits *units, int n_in, int n_out)
{
    if (!s->main.params.doubt)
        return;
    if (!s->doubts.alpha)
        judge_alpha(s, units->pictures, units->in ? n_out : n_in);
    if (s->main.model->doubt && !s->doubts.begun && !s->words.chosen)
        tell(s, s->main.model->doubt);
    s->doubts.begun = true;
    if (!units->in)
        judge_pictures(s, units->pictures, n_in);
    for (int i = 0; units->in && i < n_in; i++)
        judge_latent(s, &units->in[i], s->at.latents + (uint64_t) i);
}

void
vae_stream_word_doubts(VaeStream *s, VaeDoubtWords words)
{
    s->words = words;
}

void
vae_stream_judge_reset(VaeStream *s)
{
    s->doubts = (VaeDoubts){.begun = s->doubts.begun, .alpha = s->doubts.alpha};
}

void
vae_stream_judge_end(VaeStream *s)
{
    const VaeDoubts *d = &s->doubts;
    if (s->main.params.doubt && !atomic_load(&s->cancel) && d->units > 0 &&
        !d->varies)
        tell_constant(s);
    vae_stream_judge_reset(s);
}

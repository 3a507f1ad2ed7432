/*
 * axes.c: which axis of an array of latents has the channels.
 */
#include "vae-private/axes.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "vae-private/spaces.h"
#include "vae-private/tensors.h"
#include "sized.h"

#define MAX_CHANNELS 1024

/* The usual space with so many channels, or NULL. */
static const VaeSpace *
usual_space(int64_t n)
{
    return n <= MAX_CHANNELS ? vae_space_usual((int) n) : NULL;
}

/* The 4 channels of images do not count: 4 is also a usual number of latents.
 */
bool
vae_axes_video_channels(int64_t n)
{
    const VaeSpace *s = usual_space(n);
    return s && s->counts.temporal > 1;
}

void
vae_axes_order(int n_dims, VaeLatentLayout layout, int axes[4])
{
    const int first = n_dims - 4;
    const bool tchw = layout == VAE_LAYOUT_TCHW && n_dims > 3;
    axes[0] = n_dims == 3 ? 0 : first + tchw;
    axes[1] = n_dims == 3 ? -1 : first + !tchw;
    axes[2] = n_dims - 2;
    axes[3] = n_dims - 1;
}

/* The order of the two first axes of 4-D. A dimension of 1 is one image or one
 * latent, as no latent has one channel. *guessed: both orders are possible. */
static VaeLatentLayout
find_order(const int64_t *dims, const VaeAxesKnown *known, bool *guessed)
{
    const int64_t first = dims[0], second = dims[1];
    const int64_t channels = known->channels;
    *guessed = false;
    if (channels && (first == channels) != (second == channels))
        return second == channels ? VAE_LAYOUT_TCHW : VAE_LAYOUT_CTHW;
    if (known->comfyui && second != 1)
        return VAE_LAYOUT_TCHW;
    if (channels && second == channels && known->images) {
        *guessed = true;
        return VAE_LAYOUT_TCHW;
    }
    if ((first == 1 && usual_space(second)) ||
        (first > MAX_CHANNELS && second > 1))
        return VAE_LAYOUT_TCHW;
    const bool tchw =
        vae_axes_video_channels(second) && !vae_axes_video_channels(first);
    const bool certain = !channels && usual_space(tchw ? second : first) &&
                         !usual_space(tchw ? first : second);
    *guessed = second != 1 && !certain;
    return tchw ? VAE_LAYOUT_TCHW : VAE_LAYOUT_CTHW;
}

VaeLatentLayout
vae_axes_find(const int64_t *dims, int n_dims, const VaeAxesKnown *known,
              bool *order_guessed, bool *may_be_last, bool *may_be_video)
{
    VaeLatentLayout layout = VAE_LAYOUT_CTHW;
    int axes[4];
    *order_guessed = false;
    if (n_dims == 4)
        layout = find_order(dims, known, order_guessed);
    if (*order_guessed && known->guess != VAE_LAYOUT_AUTO)
        layout = known->guess;
    vae_axes_order(n_dims, layout, axes);
    const int64_t channels = dims[axes[0]], last = dims[axes[3]];
    const int64_t latents = n_dims == 3 ? 1 : dims[axes[1]];
    const bool fits = !known->channels || channels == known->channels;
    /* ComfyUI's are images, each a clip of its own. */
    if (n_dims == 4 && known->comfyui && known->channels && !known->images &&
        latents > 1)
        *order_guessed = true;
    if (n_dims == 5)
        *order_guessed =
            fits && latents == channels && channels > 1 && !known->comfyui;
    *may_be_last = fits && last == channels && last > 1 && !known->comfyui;
    *may_be_video = layout == VAE_LAYOUT_TCHW && fits && known->images &&
                    channels > 1 && latents != channels &&
                    vae_axes_video_channels(latents) && !known->comfyui;
    return layout;
}

/* ------------------------------------------------------------------ */
/* Evidence by the numbers.                                            */

/* As many numbers are enough. */
#define ENOUGH (4 << 20)

typedef struct Sums {
    double channel[MAX_CHANNELS], latent[MAX_CHANNELS], column[MAX_CHANNELS];
    double all, squares;
    int64_t n;
} Sums;

static void
add_row(Sums *s, const VaeAxes *a, int64_t c, int64_t t, int64_t y)
{
    const int64_t size = (int64_t) vae_type_size(a->type);
    const uint8_t *row = (const uint8_t *) a->data + c * a->strides[0] +
                         t * a->strides[1] + y * a->strides[2];
    float block[256];
    for (int64_t x = 0; x < a->dims[3];) {
        int64_t n = a->strides[3] == size ? a->dims[3] - x : 1;
        n = n < 256 ? n : 256;
        vae_type_to_float(block, row + x * a->strides[3], a->type, (size_t) n);
        for (int64_t i = 0; i < n; i++, x++) {
            const double v = (double) block[i];
            s->channel[c] += v;
            s->latent[t % MAX_CHANNELS] += v;
            s->column[x % MAX_CHANNELS] += v;
            s->all += v;
            s->squares += v * v;
        }
    }
    s->n += a->dims[3];
}

/* The part of the variance that is between n slices of an axis. */
static double
between(const Sums *s, const double *slices, int64_t n)
{
    const double mean = s->all / (double) s->n;
    const double each = (double) s->n / (double) n;
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += pow(slices[i] / each - mean, 2);
    return sum / (double) n / (s->squares / (double) s->n - mean * mean);
}

/* How the numbers speak: for the axis that was taken, against it, or neither.
 */
typedef enum Evidence { NEITHER, FOR, AGAINST } Evidence;

/* In a real clip of wan2.1, 0.15 of the variance is between the channels, 0.03
 * between rows, 0.003 between columns and 0.0005 between latents. */
static Evidence
weigh(double taken, double other, double chance)
{
    if (taken > 2 * other && taken > 4 * chance)
        return FOR;
    return other > 2 * taken && other > 4 * chance ? AGAINST : NEITHER;
}

/* Returns false if there are no numbers that vary. *order, *last: about the
 * latents, and the columns, as the axis of the channels. */
static bool
weigh_axes(const VaeAxes *a, Evidence *order, Evidence *last)
{
    const int64_t c = a->dims[0], rows = c * a->dims[1] * a->dims[2];
    const int64_t most = ENOUGH / (a->dims[3] + 1) + 1;
    const int64_t step = rows / most + 1;
    Sums s = {.n = 0};
    *order = *last = NEITHER;
    if (!a->data || rows == 0 || a->dims[3] == 0 || c > MAX_CHANNELS)
        return false;
    for (int64_t i = 0; i < c; i++)
        for (int64_t k = 0; k < a->dims[1]; k++)
            for (int64_t y = 0; y < a->dims[2]; y += step)
                add_row(&s, a, i, k, y);
    const double chance = (double) c / (double) s.n;
    const double taken = between(&s, s.channel, c);
    if (!isfinite(taken))
        return false;
    if (a->dims[1] == c || a->may_be_video)
        *order = weigh(taken, between(&s, s.latent, c), chance);
    if (a->dims[3] == c)
        *last = weigh(taken, between(&s, s.column, c), chance);
    return true;
}

/* The clip in words: "tchw, 16 latents of 4 channels". */
static const char *
reading_text(const char *layout, int64_t latents, int64_t channels, char *text,
             size_t size)
{
    snprintf(text, size, "%s, %" PRId64 " latent%s of %" PRId64 " channel%s",
             layout, latents, latents == 1 ? "" : "s", channels,
             channels == 1 ? "" : "s");
    return text;
}

bool
vae_axes_doubt(const VaeAxes *a, char *text, size_t size)
{
    const bool tchw = a->layout == VAE_LAYOUT_TCHW;
    const int64_t shape[] = {a->dims[tchw], a->dims[!tchw], a->dims[2],
                             a->dims[3]};
    const char *taken = tchw ? "tchw" : "cthw", *other = tchw ? "cthw" : "tchw";
    Evidence order, last;
    char dims[100], reading[100], video[100];
    if (!a->order_guessed && !a->may_be_last && !a->may_be_video)
        return false;
    vae_dims_text(shape, 4, dims, sizeof dims);
    reading_text(taken, a->dims[1], a->dims[0], reading, sizeof reading);
    const bool numbers = weigh_axes(a, &order, &last);
    const bool may_be_last = a->may_be_last && numbers && last != FOR;
    if (a->may_be_video && order == AGAINST) {
        snprintf(
            text, size,
            "%s %s: %s, is taken by the channels of the model, but the "
            "means along the axes speak for a video, %s: is this the "
            "right model? If it is, set layout to %s",
            a->what, dims, reading,
            reading_text(other, a->dims[0], a->dims[1], video, sizeof video),
            taken);
        return true;
    }
    if (!a->order_guessed && !may_be_last)
        return false;
    int n = snprintf(text, size, "%s %s: no layout is stated; %s, is a guess",
                     a->what, dims, reading);
    if (n < 0 || (size_t) n >= size)
        return true;
    if (may_be_last)
        snprintf(text + n, size - (size_t) n,
                 "; the last dimension is also %" PRId64
                 "%s: if it has the channels, permute the tensor to [C, T, h, "
                 "w], otherwise set layout to %s",
                 a->dims[3],
                 last == AGAINST ? ", and the means along it differ more" : "",
                 a->order_guessed ? "cthw or tchw" : taken);
    else
        snprintf(
            text + n, size - (size_t) n, ": set layout to cthw or tchw%s%s",
            order == NEITHER ? "" : "; the means along the axes speak for ",
            order == NEITHER ? ""
            : order == FOR   ? taken
                             : other);
    return true;
}

/* True if one of the axes that may have the channels has those of a known
 * space; 4 is also a usual number of latents. */
static bool
has_known_channels(const int64_t *dims, int n_dims)
{
    const int first = n_dims == 5;
    for (int i = first; i < first + (n_dims == 3 ? 1 : 2); i++)
        if (dims[i] > 4 && usual_space(dims[i]))
            return true;
    return false;
}

const char *
vae_axes_advice(const int64_t *dims, int n_dims, VaeLatentLayout layout,
                int64_t channels, char *text, size_t size)
{
    const bool tchw = layout == VAE_LAYOUT_TCHW;
    int axes[4];
    vae_axes_order(n_dims, layout, axes);
    const bool order = n_dims >= 4 && dims[axes[1]] == channels;
    const bool last = n_dims >= 3 && dims[n_dims - 1] == channels;
    text[0] = '\0';
    if (order)
        snprintf(text, size,
                 "; the other dimension has %" PRId64
                 ": if these are the channels, set layout to %s%s",
                 channels, tchw ? "cthw" : "tchw",
                 last ? ", or, if the last dimension has the channels, permute "
                        "the tensor"
                      : "");
    else if (last && !has_known_channels(dims, n_dims))
        snprintf(
            text, size,
            "; the last dimension has %" PRId64
            ": if these are the channels, permute the tensor to [%sC, %sh, "
            "w], by moveaxis(x, -1, %d) of numpy or torch",
            channels, n_dims == 5 ? "B, " : "", n_dims == 3 ? "" : "T, ",
            n_dims == 5);
    else if (n_dims == 3)
        snprintf(text, size,
                 "; if it is [B, N, C], tokens of a transformer, its pipeline "
                 "unpacks them");
    return text;
}

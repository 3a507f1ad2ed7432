/*
 * statements.c: reads the metadata of a file of latents.
 */
#include "statements.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "vae-private/spaces.h"
#include "vae-private/tensors.h"

/* Eight frames per latent still fit in an int. */
#define MAX_PIXELS (1 << 20)
/* Frames of a latent. */
#define MAX_TEMPORAL 64

void
vae_latent_warn(const VaeLatentOptions *o, const char *line)
{
    if (o->warn)
        o->warn(o->user, line);
}

int64_t
vae_latent_channels(const VaeTensorFile *file, const VaeLatentOptions *o,
                    bool *images)
{
    const VaeSpace *space =
        vae_space_find(vae_tensor_file_metadata(file, "vae.latent_space"));
    if (!space)
        space = vae_space_find(o->space);
    const bool by_model = o->channels > 0;
    *images =
        by_model ? o->temporal == 1 : space && space->counts.temporal == 1;
    return by_model ? o->channels : space ? space->channels : 0;
}

VaeStatus
vae_statement_refuse(const VaeTensorFile *file, const VaeLatentOptions *o,
                     const VaeStatement *s, const char *value, VaeError *error)
{
    VaeError why;
    vae_mismatch(&why, VAE_ERR_FORMAT, NULL,
                 "%s: metadata %s is \"{%.*s}\", expected {=%s}%s%s",
                 file->label, s->key, VAE_NAME_SHOWN, value, s->expected,
                 !s->ignored && s->option ? "; to override it, set "
                 : s->ignored             ? "; it is ignored"
                                          : "",
                 !s->ignored && s->option ? s->option : "");
    if (!s->ignored)
        return vae_pass_on(error, &why);
    vae_latent_warn(o, why.message);
    return VAE_OK;
}

/* Accepts decimal digits only, with a value from low to high. */
static bool
parse_number(const char *text, int64_t low, int64_t high, int64_t *out)
{
    char *end;
    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    const long long v = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0' || v < low || v > high)
        return false;
    *out = v;
    return true;
}

static bool
parse_rate(const char *text, int *n, int *d)
{
    const char *slash = strchr(text, '/');
    char first[16];
    int64_t above, below;
    if (slash == NULL || (size_t) (slash - text) >= sizeof first)
        return false;
    memcpy(first, text, (size_t) (slash - text));
    first[slash - text] = '\0';
    if (!parse_number(first, 0, INT_MAX, &above) ||
        !parse_number(slash + 1, 1, INT_MAX, &below))
        return false;
    *n = (int) above;
    *d = (int) below;
    return true;
}

static VaeStatus
read_pixels(const VaeTensorFile *file, const char *key, int *out,
            VaeError *error)
{
    const char *value = vae_tensor_file_metadata(file, key);
    char expected[48];
    int64_t pixels = 0;
    snprintf(expected, sizeof expected, "a number from 1 to %d", MAX_PIXELS);
    const VaeStatement s = {.key = key, .expected = expected};
    if (value != NULL && !parse_number(value, 1, MAX_PIXELS, &pixels))
        return vae_statement_refuse(file, NULL, &s, value, error);
    *out = (int) pixels;
    return VAE_OK;
}

VaeStatus
vae_tensor_file_framerate(const VaeTensorFile *file, const VaeLatentOptions *o,
                          int *n, int *d, VaeError *error)
{
    const VaeStatement s = {"vae.framerate", "a fraction like 16/1",
                            "framerate", o && o->own_framerate};
    const char *rate = vae_tensor_file_metadata(file, s.key);
    *n = *d = 0;
    if (rate == NULL || parse_rate(rate, n, d))
        return VAE_OK;
    return vae_statement_refuse(file, o, &s, rate, error);
}

/* The file can be read whatever it states about its recording. */
static void
check_recording(const VaeTensorFile *file, const VaeLatentOptions *o)
{
    const VaeStatement s = {"vae.recording", "open", NULL, true};
    const char *word = vae_tensor_file_metadata(file, s.key);
    if (word != NULL && strcmp(word, s.expected) != 0)
        vae_statement_refuse(file, o, &s, word, NULL);
}

/* Tells a factor that cannot be read, or that the model contradicts. */
static void
check_factor(const VaeTensorFile *file, const VaeLatentOptions *o)
{
    const char *word = vae_tensor_file_metadata(file, "vae.temporal_factor");
    char expected[48];
    int64_t stated;
    if (word == NULL || (parse_number(word, 1, MAX_TEMPORAL, &stated) &&
                         (!o->temporal || stated == o->temporal)))
        return;
    snprintf(expected, sizeof expected,
             o->temporal ? "%d, as the model has" : "a number from 1 to %d",
             o->temporal ? o->temporal : MAX_TEMPORAL);
    const VaeStatement s = {"vae.temporal_factor", expected, NULL, true};
    vae_statement_refuse(file, o, &s, word, NULL);
}

/* Frames per latent of the model, the space or the file; 0: not known. */
static VaeCounts
known_counts(const VaeTensorFile *file, const VaeLatentOptions *o,
             const VaeSpace *space)
{
    const char *factor = vae_tensor_file_metadata(file, "vae.temporal_factor");
    VaeCounts counts = space ? space->counts : (VaeCounts){0};
    int64_t stated;
    if (o->temporal)
        return (VaeCounts){o->temporal, o->chunk};
    if (factor != NULL && parse_number(factor, 1, MAX_TEMPORAL, &stated))
        counts.temporal = (int) stated;
    return counts;
}

/* Finds how many frames the latents can be: those of the last one may be
 * missing. Sequences begin with fewer. */
static void
possible_frames(const VaeTensorFile *file, VaeCounts counts, int t,
                int64_t range[2])
{
    const bool any = counts.temporal == 0;
    if (any)
        counts.temporal = MAX_TEMPORAL;
    range[0] = any || vae_tensor_file_find(file, VAE_SEQUENCES)
                   ? t
                   : vae_count_frames(counts, t - 1) + 1;
    range[1] = vae_count_frames(counts, t);
}

/* Ignores a number of frames that so many latents cannot be, or that is no
 * number. */
static void
read_frames(const VaeTensorFile *file, const VaeLatentOptions *o,
            VaeLatentClip *clip)
{
    const char *value = vae_tensor_file_metadata(file, "vae.frames");
    const VaeSpace *space = vae_space_find(o->space ? o->space : clip->space);
    const VaeCounts counts = known_counts(file, o, space);
    int64_t range[2];
    char frames[48], expected[160];
    possible_frames(file, counts, clip->t, range);
    if (value == NULL || parse_number(value, range[0], range[1], &clip->frames))
        return;
    snprintf(frames, sizeof frames,
             range[0] == range[1] ? "%" PRId64 : "%" PRId64 " to %" PRId64,
             range[0], range[1]);
    snprintf(expected, sizeof expected, "%s for %s of %s", frames,
             VAE_COUNTED(clip->t, "latent"),
             o->temporal       ? "the model"
             : space           ? space->name
             : counts.temporal ? "the stated vae.temporal_factor"
                               : "any network");
    const VaeStatement s = {"vae.frames", expected, NULL, true};
    vae_statement_refuse(file, o, &s, value, NULL);
}

VaeStatus
vae_latent_metadata_read(const VaeTensorFile *file, const VaeLatentOptions *o,
                         VaeLatentClip *clip, VaeError *error)
{
    clip->space = vae_tensor_file_metadata(file, "vae.latent_space");
    check_recording(file, o);
    check_factor(file, o);
    VaeStatus status =
        vae_tensor_file_framerate(file, o, &clip->fps_n, &clip->fps_d, error);
    if (status == VAE_OK)
        status = read_pixels(file, "vae.width", &clip->width_px, error);
    if (status == VAE_OK)
        status = read_pixels(file, "vae.height", &clip->height_px, error);
    if (status == VAE_OK)
        read_frames(file, o, clip);
    return status;
}

/*
 * Finds the clip of latents in a tensor file: its axes and metadata.
 */
#include "vae-private/tensors.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "vae-private/axes.h"
#include "vae-private/spaces.h"
#include "arguments.h"
#include "sized.h"

#define MAX_SIDE 16384
#define MAX_CHANNELS 1024
/* Eight frames per latent still fit in an int. */
#define MAX_PIXELS (1 << 20)
/* Frames of a latent. */
#define MAX_TEMPORAL 64

static void
warn(const VaeLatentOptions *o, const char *line)
{
    if (o->warn)
        o->warn(o->user, line);
}

/* A statement in the metadata. */
typedef struct Statement {
    const char *key, *expected;
    const char *option; /* overrides it; NULL: none does */
    bool ignored;       /* so that a value that cannot be read is a warning */
} Statement;

/* Reports a value that cannot be read. */
static VaeStatus
bad_value(const VaeTensorFile *file, const VaeLatentOptions *o,
          const Statement *s, const char *value, VaeError *error)
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
    warn(o, why.message);
    return VAE_OK;
}

bool
vae_layout_parse(const char *word, VaeLatentLayout *out)
{
    static const struct {
        const char *word;
        VaeLatentLayout layout;
    } words[] = {{"auto", VAE_LAYOUT_AUTO},
                 {"cthw", VAE_LAYOUT_CTHW},
                 {"tchw", VAE_LAYOUT_TCHW},
                 {"bcthw", VAE_LAYOUT_CTHW},
                 {"btchw", VAE_LAYOUT_TCHW}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(word, words[i].word) == 0) {
            *out = words[i].layout;
            return true;
        }
    return false;
}

/* The order of the axes in the metadata; AUTO if it is not stated. */
static VaeStatus
stated_layout(const VaeTensorFile *file, const VaeLatentOptions *o,
              VaeLatentLayout *out, VaeError *error)
{
    const Statement s = {"vae.layout", "cthw or tchw", "layout",
                         o->layout != VAE_LAYOUT_AUTO};
    const char *word = vae_tensor_file_metadata(file, s.key);
    *out = VAE_LAYOUT_AUTO;
    if (word == NULL ||
        (vae_layout_parse(word, out) && *out != VAE_LAYOUT_AUTO))
        return VAE_OK;
    return bad_value(file, o, &s, word, error);
}

/* ComfyUI marks its files with a tensor without elements. */
#define COMFYUI_MARK "latent_format_version_0"

static bool
has_comfyui_name(const VaeTensorInfo *info)
{
    return strcmp(info->name, "latent_tensor") == 0;
}

static bool
is_comfyui(const VaeTensorFile *file, const VaeTensorInfo *info)
{
    return has_comfyui_name(info) &&
           (vae_tensor_file_find(file, COMFYUI_MARK) != NULL ||
            vae_tensor_file_metadata(file, COMFYUI_MARK) != NULL);
}

/* ComfyUI's first files have no mark, and normalized latents of Stable
 * Diffusion: its node LoadLatent divides them by 0.18215. */
static void
tell_unmarked(const VaeTensorFile *file, const VaeLatentOptions *o)
{
    char line[500];
    snprintf(line, sizeof line,
             "%s: tensor \"latent_tensor\" has the name that ComfyUI writes, "
             "but the file has no " COMFYUI_MARK ": it is taken as normalized, "
             "as the first files of ComfyUI were; if it is a later one, set "
             "normalization to comfyui",
             file->label);
    warn(o, line);
}

/* Returns the channels that the model or the latent space says, or 0. */
static int64_t
said_channels(const VaeTensorFile *file, const VaeLatentOptions *o,
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

/* Refuses a tensor that has the channels of the model on another axis, and
 * settles that no order is right if none has them. */
static VaeStatus
check_axis(const VaeTensorFile *file, const VaeTensorInfo *info,
           VaeLatentLayout layout, int channels, VaeLatentClip *clip,
           VaeError *error)
{
    int axes[4];
    char dims[200], advice[240];
    vae_axes_order(info->n_dims, layout, axes);
    const int64_t found = info->dims[axes[0]];
    if (!channels || found == channels)
        return VAE_OK;
    clip->layout_guessed = false;
    if (!*vae_axes_advice(info->dims, info->n_dims, layout, channels, advice,
                          sizeof advice))
        return VAE_OK;
    return vae_mismatch(
        error, VAE_ERR_SIZE, info->name,
        "%s: tensor \"%.*s\" (%s) has {%" PRId64 "} channel%s as %s, the model "
        "expects {=%d}%s",
        file->label, VAE_NAME_SHOWN, info->name,
        vae_dims_text(info->dims, info->n_dims, dims, sizeof dims), found,
        found == 1 ? "" : "s", layout == VAE_LAYOUT_TCHW ? "tchw" : "cthw",
        channels, advice);
}

/* Sets layout_guessed, channels_may_be_last and may_be_video, too. */
static VaeStatus
choose_layout(const VaeTensorFile *file, const VaeTensorInfo *info,
              const VaeLatentOptions *o, VaeLatentLayout *out,
              VaeLatentClip *clip, VaeError *error)
{
    VaeAxesKnown known = {.comfyui = is_comfyui(file, info)};
    const VaeStatus status = stated_layout(file, o, out, error);
    if (status != VAE_OK)
        return status;
    if (o->layout != VAE_LAYOUT_AUTO)
        *out = o->layout;
    if (*out == VAE_LAYOUT_AUTO) {
        known.channels = said_channels(file, o, &known.images);
        *out = vae_axes_find(info->dims, info->n_dims, &known,
                             &clip->layout_guessed, &clip->channels_may_be_last,
                             &clip->may_be_video);
    }
    return check_axis(file, info, *out, o->channels, clip, error);
}

const char *
vae_layout_name(const VaeLatentClip *clip)
{
    const uint64_t plane = (uint64_t) clip->height * (uint64_t) clip->width *
                           vae_type_size(clip->stored);
    return clip->t_stride > plane ? "tchw" : "cthw";
}

bool
vae_layout_doubt(const VaeLatentClip *clip, char *text, size_t size)
{
    const int64_t bytes = (int64_t) vae_type_size(clip->stored);
    char what[400];
    snprintf(what, sizeof what, "%s: tensor \"%.*s\",", clip->file,
             VAE_NAME_SHOWN, clip->tensor);
    const VaeAxes axes = {
        .what = what,
        .layout =
            *vae_layout_name(clip) == 't' ? VAE_LAYOUT_TCHW : VAE_LAYOUT_CTHW,
        .order_guessed = clip->layout_guessed,
        .may_be_last = clip->channels_may_be_last,
        .may_be_video = clip->may_be_video,
        .data = clip->data,
        .type = clip->stored,
        .dims = {clip->channels, clip->t, clip->height, clip->width},
        .strides = {(int64_t) clip->c_stride, (int64_t) clip->t_stride,
                    clip->width * bytes, bytes}};
    return vae_axes_doubt(&axes, text, size);
}

static VaeStatus
choose_batch(const VaeTensorFile *file, const VaeTensorInfo *info,
             int requested, int64_t *out, VaeError *error)
{
    const int64_t n = info->n_dims == 5 ? info->dims[0] : 1;
    *out = requested < 0 ? 0 : requested;
    if (*out > 0 && info->n_dims < 5)
        return vae_mismatch(
            error, VAE_ERR_SIZE, info->name,
            "%s: tensor \"%.*s\" has {%d dimensions}, which are the latents of "
            "one clip, but a batch index of %" PRId64
            " is set, expected {=5 dimensions}",
            file->label, VAE_NAME_SHOWN, info->name, info->n_dims, *out);
    if (n == 0 || (requested < 0 && n > 1))
        return vae_mismatch(error, VAE_ERR_SIZE, info->name,
                            "%s: tensor \"%.*s\" holds a batch of {%" PRId64
                            "} clips, expected {=1}: select one with "
                            "batch-index",
                            file->label, VAE_NAME_SHOWN, info->name, n);
    if (*out >= n)
        return vae_mismatch(error, VAE_ERR_SIZE, info->name,
                            "%s: tensor \"%.*s\" holds a batch of %" PRId64
                            ", but the batch index is {%" PRId64
                            "}, expected {=0 to %" PRId64 "}",
                            file->label, VAE_NAME_SHOWN, info->name, n, *out,
                            n - 1);
    return VAE_OK;
}

static VaeStatus
check_range(const VaeTensorFile *file, const VaeTensorInfo *info,
            const char *axis, int64_t value, int64_t most, VaeError *error)
{
    char text[200];
    if (value >= 1 && value <= most)
        return VAE_OK;
    return vae_mismatch(
        error, VAE_ERR_SIZE, info->name,
        "%s: tensor \"%.*s\" (%s): {%s %" PRId64 "}, expected {=1 to %" PRId64
        "}",
        file->label, VAE_NAME_SHOWN, info->name,
        vae_dims_text(info->dims, info->n_dims, text, sizeof text), axis, value,
        most);
}

/* Fills the clip's axes, strides and offset. */
static VaeStatus
set_geometry(const VaeTensorFile *file, const VaeTensorInfo *info,
             VaeLatentLayout layout, int64_t batch, VaeLatentClip *clip,
             VaeError *error)
{
    const bool tchw = layout == VAE_LAYOUT_TCHW && info->n_dims > 3;
    int axes[4];
    vae_axes_order(info->n_dims, layout, axes);
    const int64_t c = info->dims[axes[0]],
                  t = axes[1] < 0 ? 1 : info->dims[axes[1]];
    const int64_t h = info->dims[axes[2]], w = info->dims[axes[3]];
    VaeStatus status =
        check_range(file, info, "channels", c, MAX_CHANNELS, error);
    if (status == VAE_OK)
        status = check_range(file, info, "latents", t, VAE_MAX_LATENTS, error);
    if (status == VAE_OK)
        status = check_range(file, info, "height", h, MAX_SIDE, error);
    if (status == VAE_OK)
        status = check_range(file, info, "width", w, MAX_SIDE, error);
    if (status != VAE_OK)
        return status;
    clip->t = (int) t;
    clip->channels = (int) c;
    clip->height = (int) h;
    clip->width = (int) w;
    clip->batch = info->n_dims == 5 ? info->dims[0] : 1;
    const uint64_t plane = (uint64_t) (h * w) * vae_type_size(info->type);
    clip->t_stride = tchw ? plane * (uint64_t) c : plane;
    clip->c_stride = tchw ? plane : plane * (uint64_t) t;
    const uint64_t skip =
        (uint64_t) batch * (uint64_t) t * (uint64_t) c * plane;
    clip->offset = info->offset + skip;
    if (info->data != NULL)
        clip->data = (const uint8_t *) info->data + skip;
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
read_count(const VaeTensorFile *file, const char *key, int64_t most,
           int64_t *out, VaeError *error)
{
    const char *value = vae_tensor_file_metadata(file, key);
    *out = 0;
    if (value == NULL || parse_number(value, 1, most, out))
        return VAE_OK;
    char expected[48];
    snprintf(expected, sizeof expected, "a number from 1 to %" PRId64, most);
    const Statement s = {.key = key, .expected = expected};
    return bad_value(file, NULL, &s, value, error);
}

static VaeStatus
read_normalization(const VaeTensorFile *file, const VaeTensorInfo *info,
                   const VaeLatentOptions *o, VaeLatentClip *clip,
                   VaeError *error)
{
    const Statement s = {"vae.normalization", "normalized, raw or comfyui",
                         "normalization", o->own_normalization};
    const char *word = vae_tensor_file_metadata(file, s.key);
    clip->normalization = is_comfyui(file, info) ? VAE_COMFYUI : VAE_NORMALIZED;
    clip->normalization_stated =
        word != NULL && vae_normalization_parse(word, &clip->normalization);
    if (word == NULL && has_comfyui_name(info) && !is_comfyui(file, info) &&
        !o->own_normalization)
        tell_unmarked(file, o);
    return word == NULL || clip->normalization_stated
               ? VAE_OK
               : bad_value(file, o, &s, word, error);
}

VaeStatus
vae_tensor_file_framerate(const VaeTensorFile *file, const VaeLatentOptions *o,
                          int *n, int *d, VaeError *error)
{
    const Statement s = {"vae.framerate", "a fraction like 16/1", "framerate",
                         o && o->own_framerate};
    const char *rate = vae_tensor_file_metadata(file, s.key);
    *n = *d = 0;
    if (rate == NULL || parse_rate(rate, n, d))
        return VAE_OK;
    return bad_value(file, o, &s, rate, error);
}

/* The file can be read whatever it states about its recording. */
static void
check_recording(const VaeTensorFile *file, const VaeLatentOptions *o)
{
    const Statement s = {"vae.recording", "open", NULL, true};
    const char *word = vae_tensor_file_metadata(file, s.key);
    if (word != NULL && strcmp(word, s.expected) != 0)
        bad_value(file, o, &s, word, NULL);
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

/* Ignores a number of frames that so many latents cannot be. */
static void
check_frames(const VaeTensorFile *file, const VaeLatentOptions *o,
             VaeLatentClip *clip)
{
    const VaeSpace *space = vae_space_find(o->space ? o->space : clip->space);
    const VaeCounts counts = known_counts(file, o, space);
    int64_t range[2];
    char frames[48], expected[160];
    possible_frames(file, counts, clip->t, range);
    if (!clip->frames || (clip->frames >= range[0] && clip->frames <= range[1]))
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
    const Statement s = {"vae.frames", expected, NULL, true};
    bad_value(file, o, &s, vae_tensor_file_metadata(file, s.key), NULL);
    clip->frames = 0;
}

static VaeStatus
read_metadata(const VaeTensorFile *file, const VaeLatentOptions *o,
              VaeLatentClip *clip, VaeError *error)
{
    clip->space = vae_tensor_file_metadata(file, "vae.latent_space");
    int64_t width, height;
    check_recording(file, o);
    VaeStatus status =
        vae_tensor_file_framerate(file, o, &clip->fps_n, &clip->fps_d, error);
    if (status == VAE_OK)
        status = read_count(file, "vae.width", MAX_PIXELS, &width, error);
    if (status == VAE_OK)
        status = read_count(file, "vae.height", MAX_PIXELS, &height, error);
    if (status == VAE_OK)
        status =
            read_count(file, "vae.frames", INT64_MAX, &clip->frames, error);
    if (status != VAE_OK)
        return status;
    clip->width_px = (int) width;
    clip->height_px = (int) height;
    check_frames(file, o, clip);
    return VAE_OK;
}

VaeStatus
vae_latent_clip_find(const VaeTensorFile *file, const VaeLatentOptions *options,
                     VaeLatentClip *out, VaeError *error)
{
    VaeLatentOptions own = VAE_INIT(VaeLatentOptions);
    const VaeLatentOptions *o = &own;
    const VaeTensorInfo *info;
    own.batch_index = -1;
    VaeStatus status = vae_check_pointers(error, "file, out", file, out);
    if (status == VAE_OK)
        status = vae_sized_check(out, VAE_SIZE_UP_TO(VaeLatentClip, tensor),
                                 "VaeLatentClip", error);
    if (status != VAE_OK)
        return status;
    vae_sized_write(out, &(VaeLatentClip){0}, sizeof *out);
    if (options)
        status = vae_sized_read(&own, sizeof own, options,
                                VAE_SIZE_UP_TO(VaeLatentOptions, batch_index),
                                "VaeLatentOptions", error);
    if (status == VAE_OK)
        status = vae_check_range("layout", (int) own.layout, VAE_LAYOUT_AUTO,
                                 VAE_LAYOUT_TCHW, error);
    if (status == VAE_OK)
        status = vae_check_range("batch index", own.batch_index, -1, INT64_MAX,
                                 error);
    if (status == VAE_OK)
        status = vae_latent_tensor_select(file, o, &info, error);
    if (status != VAE_OK)
        return status;
    char text[200];
    vae_dims_text(info->dims, info->n_dims, text, sizeof text);
    /* No latent has one channel. */
    const bool tokens = info->n_dims == 3 && info->dims[0] == 1;
    if (info->n_dims < 3 || info->n_dims > 5 || tokens)
        return vae_mismatch(
            error, VAE_ERR_SIZE, info->name,
            "%s: tensor \"%.*s\" has %s ({%s}), expected {=[C, h, w] of one "
            "latent, or 4 or 5 dimensions}%s",
            file->label, VAE_NAME_SHOWN, info->name,
            VAE_COUNTED(info->n_dims, "dimension"), text,
            tokens ? "; [1, N, C] are tokens of a transformer, which its "
                     "pipeline unpacks"
                   : "");
    /* A program with older headers would take float64 for float32. */
    const bool wide = info->type == VAE_TYPE_F64;
    const bool knows_wide =
        out->struct_size >= VAE_SIZE_UP_TO(VaeLatentClip, stored);
    if (!info->supported || info->type == VAE_TYPE_U8 || (wide && !knows_wide))
        return vae_tensor_refuse(
            file, info, "float32, float16, bfloat16 or float64",
            ": convert it, by x.float() of torch or x.astype(\"float32\") of "
            "numpy",
            error);
    VaeLatentClip clip = {.type = wide ? VAE_TYPE_F32 : info->type,
                          .stored = info->type,
                          .tensor = info->name,
                          .file = file->label};
    VaeLatentLayout layout;
    int64_t batch;
    status = choose_layout(file, info, o, &layout, &clip, error);
    if (status == VAE_OK)
        status = choose_batch(file, info, o->batch_index, &batch, error);
    if (status == VAE_OK)
        status = set_geometry(file, info, layout, batch, &clip, error);
    if (status == VAE_OK)
        status = read_normalization(file, info, o, &clip, error);
    if (status == VAE_OK)
        status = read_metadata(file, o, &clip, error);
    if (status == VAE_OK)
        vae_sized_write(out, &clip, sizeof clip);
    return status;
}

void
vae_latent_clip_read(const VaeLatentClip *clip, int k, void *dst)
{
    const size_t n = (size_t) clip->height * (size_t) clip->width;
    const size_t plane = n * vae_type_size(clip->type);
    const uint8_t *src = clip->data + (uint64_t) k * clip->t_stride;
    uint8_t *to = dst;
    for (int c = 0; c < clip->channels; c++, to += plane, src += clip->c_stride)
        if (clip->struct_size >= VAE_SIZE_UP_TO(VaeLatentClip, stored) &&
            clip->stored == VAE_TYPE_F64)
            vae_type_to_float((float *) to, src, clip->stored, n);
        else
            memcpy(to, src, plane);
}

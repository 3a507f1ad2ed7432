/*
 * Finds the clip of latents in a tensor file: its axes and metadata.
 */
#include "vae-private/tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "files.h"
#include "statements.h"
#include "vae-private/axes.h"
#include "vae-private/spaces.h"
#include "arguments.h"
#include "sized.h"

#define MAX_SIDE 16384
#define MAX_CHANNELS 1024

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

/* The order of the axes that the metadata state; AUTO if they do not. */
static VaeStatus
stated_layout(const VaeTensorFile *file, const VaeLatentOptions *o,
              const VaeStatement *s, VaeLatentLayout *out, VaeError *error)
{
    const char *word = vae_tensor_file_metadata(file, s->key);
    *out = VAE_LAYOUT_AUTO;
    if (word == NULL ||
        (vae_layout_parse(word, out) && *out != VAE_LAYOUT_AUTO))
        return VAE_OK;
    return vae_statement_refuse(file, o, s, word, error);
}

static const char *
layout_word(VaeLatentLayout layout)
{
    return layout == VAE_LAYOUT_TCHW ? "tchw" : "cthw";
}

/* The layout that the caller or the file states; AUTO if neither does. */
static VaeStatus
known_layout(const VaeTensorFile *file, const VaeLatentOptions *o,
             VaeLatentLayout *out, VaeError *error)
{
    const bool own = o->layout != VAE_LAYOUT_AUTO;
    const VaeStatement s = {"vae.layout", "cthw or tchw", "layout", own};
    const VaeStatus status = stated_layout(file, o, &s, out, error);
    char line[700];
    if (status != VAE_OK || !own)
        return status;
    if (*out != VAE_LAYOUT_AUTO &&
        vae_overrides(file->label, "layout", layout_word(*out),
                      layout_word(o->layout), line, sizeof line))
        vae_latent_warn(o, line);
    *out = o->layout;
    return VAE_OK;
}

/* ComfyUI marks its files with a tensor without elements. */
#define COMFYUI_MARK "latent_format_version_0"

static bool
has_comfyui_name(const VaeTensorInfo *info)
{
    return strcmp(info->name, VAE_COMFYUI_TENSOR) == 0;
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
             "%s: tensor \"" VAE_COMFYUI_TENSOR
             "\" has the name that ComfyUI writes, "
             "but the file has no " COMFYUI_MARK ": it is taken as normalized, "
             "as the first files of ComfyUI were; if it is a later one, set "
             "normalization to comfyui",
             file->label);
    vae_latent_warn(o, line);
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
        found == 1 ? "" : "s", layout_word(layout), channels, advice);
}

/* Sets layout_guessed, channels_may_be_last and may_be_video, too. */
static VaeStatus
choose_layout(const VaeTensorFile *file, const VaeTensorInfo *info,
              const VaeLatentOptions *o, VaeLatentLayout *out,
              VaeLatentClip *clip, VaeError *error)
{
    static const VaeStatement guess = {"vae.layout_guess", "cthw or tchw", NULL,
                                       true};
    VaeAxesKnown known = {.comfyui = is_comfyui(file, info)};
    const VaeStatus status = known_layout(file, o, out, error);
    if (status != VAE_OK)
        return status;
    if (*out == VAE_LAYOUT_AUTO) {
        stated_layout(file, o, &guess, &known.guess, NULL);
        known.channels = vae_latent_channels(file, o, &known.images);
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

/* The warning about a file of ComfyUI without a mark says it. */
bool
vae_normalization_assumed(const VaeLatentClip *clip)
{
    return !clip->normalization_stated &&
           clip->normalization == VAE_NORMALIZED &&
           strcmp(clip->tensor, VAE_COMFYUI_TENSOR) != 0;
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
            "one clip or of several pictures, and are decoded whole; a batch "
            "index of %" PRId64 " is for {=5 dimensions}",
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

/* The mean of a posterior, beside its logvar, is raw. vae.normalization is of
 * the latents. */
static bool
is_moment(const VaeTensorFile *file, const VaeTensorInfo *info)
{
    return strcmp(info->name, "mean") == 0 &&
           vae_tensor_file_find(file, "logvar");
}

static VaeStatus
read_normalization(const VaeTensorFile *file, const VaeTensorInfo *info,
                   const VaeLatentOptions *o, VaeLatentClip *clip,
                   VaeError *error)
{
    const VaeStatement s = {"vae.normalization", "normalized, raw or comfyui",
                            "normalization", o->own_normalization};
    const char *word = is_moment(file, info)
                           ? vae_normalization_name(VAE_RAW)
                           : vae_tensor_file_metadata(file, s.key);
    clip->normalization = is_comfyui(file, info) ? VAE_COMFYUI : VAE_NORMALIZED;
    clip->normalization_stated =
        word != NULL && vae_normalization_parse(word, &clip->normalization);
    if (word == NULL && has_comfyui_name(info) && !is_comfyui(file, info) &&
        !o->own_normalization)
        tell_unmarked(file, o);
    return word == NULL || clip->normalization_stated
               ? VAE_OK
               : vae_statement_refuse(file, o, &s, word, error);
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
        status = vae_latent_metadata_read(file, o, &clip, error);
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

/*
 * video.c: video in tensor files; advice for files of other formats.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

static bool
is_frames_of(const VaeTensorInfo *t, int channels)
{
    return t->supported && t->n_dims == 4 && t->dims[0] > 0 && t->dims[1] > 0 &&
           t->dims[2] > 0 && t->dims[3] == channels;
}

bool
is_video(const VaeTensorInfo *t)
{
    return is_frames_of(t, 3);
}

/* True for [H,W,3]. */
static bool
is_frame(const VaeTensorInfo *t)
{
    return t->supported && t->n_dims == 3 && t->dims[2] == 3;
}

bool
is_any_video(const VaeTensorInfo *t)
{
    const bool named =
        strcmp(t->name, "frames") == 0 || strcmp(t->name, "video_u8") == 0;
    /* Few latents are four pixels wide and so high. */
    return is_video(t) || (is_frames_of(t, 4) &&
                           (named || (t->dims[1] >= 16 && t->dims[2] >= 16)));
}

void
video_read(float *dst, const void *src, VaeType type, size_t n,
           const VideoRange *range)
{
    vae_type_to_float(dst, src, type, n);
    if (!range || type != VAE_TYPE_U8)
        return;
    for (size_t i = 0; i < n; i++)
        dst[i] = range->low + (range->high - range->low) * dst[i] / 255;
}

/* Limit for the values of black and white: the largest of 16 bits. */
#define MOST 65535.0f

bool
video_range_parse(const char *text, VideoRange *out)
{
    char *end = NULL, *last = NULL;
    out->low = strtof(text, &end);
    if (end == text || *end != ' ')
        return false;
    out->high = strtof(end, &last);
    return last != end && !*last && out->low >= -MOST && out->high <= MOST &&
           out->high - out->low >= 1 / MOST;
}

bool
video_range(const VaeTensorFile *file, VideoRange *out)
{
    const char *text = vae_tensor_file_metadata(file, VIDEO_RANGE);
    return text && video_range_parse(text, out);
}

VaeStatus
video_range_check(const VaeTensorFile *file, const char *option, bool given,
                  VaeError *error)
{
    const char *text = vae_tensor_file_metadata(file, VIDEO_RANGE);
    VideoRange range;
    VaeError why;
    if (!text || video_range(file, &range))
        return VAE_OK;
    vae_fail(
        &why, VAE_ERR_FORMAT,
        "%s: %s is \"%.40s\", expected the values of black and white, such "
        "as \"-1 1\"",
        vae_tensor_file_name(file), VIDEO_RANGE, text);
    if (!given)
        return vae_fail(error, why.status, "%s%s%s", why.message,
                        option ? "; to override it, use " : "",
                        option ? option : "");
    warn_text("%s; it is ignored", why.message);
    return VAE_OK;
}

const VaeTensorInfo *
find_video(const VaeTensorFile *file, const char *name)
{
    static const char *const names[] = {"video_u8", "frames"};
    if (name)
        return vae_tensor_file_find(file, name);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const VaeTensorInfo *t = vae_tensor_file_find(file, names[i]);
        if (t)
            return t;
    }
    const VaeTensorInfo *only = vae_tensor_file_at(file, 0);
    return vae_tensor_file_count(file) == 1 &&
                   (is_any_video(only) || is_frame(only))
               ? only
               : NULL;
}

const char *
video_list_advice(const VaeTensorFile *file)
{
    const VaeTensorInfo *first = vae_tensor_file_at(file, 0);
    const size_t n = vae_tensor_file_count(file);
    const int d = n > 1 ? first->n_dims : 0;
    if ((d != 3 && d != 4) ||
        (first->dims[d - 1] != 3 && first->dims[d - 1] != 4))
        return "";
    for (size_t i = 1; i < n; i++) {
        const VaeTensorInfo *t = vae_tensor_file_at(file, i);
        if (t->n_dims != d || memcmp(t->dims + d - 3, first->dims + d - 3,
                                     3 * sizeof *t->dims) != 0)
            return "";
    }
    return d == 3 ? "; if these are the frames [H, W, 3] of one video, save "
                    "them as one tensor, by stack(list) of torch"
                  : "; if these are parts [T, H, W, 3] of one video, save them "
                    "as one tensor, by cat(list) of torch";
}

VaeStatus
input_is_video(const char *path, VaeError *error)
{
    const char *suffix = suffix_of(path);
    char why[sizeof error->message];
    if (!suffix || is_tensor_suffix(suffix))
        return error->status;
    memcpy(why, error->message, sizeof why);
    return vae_fail(error, error->status,
                    "%.500s; vaetool encodes tensors only: for a video, use "
                    "pipelines/video-to-latents.sh, or gst-launch-1.0 filesrc "
                    "location=VIDEO ! decodebin ! videoconvert ! vaeencode "
                    "model=WEIGHTS ! latentmux ! filesink location=OUT",
                    why);
}

VaeMetadata *
video_metadata(const VaeTensorFile *file, const VaeMetadata *own, size_t *n)
{
    static const char *const keys[] = {"vae.pixel_aspect_ratio", "vae.title",
                                       "vae.comment", "vae.application"};
    static const char tags[] = "vae.tag.";
    VaeMetadata entry;
    size_t all = 0;
    while (vae_tensor_file_metadata_at(file, all, &entry))
        all++;
    VaeMetadata *list = malloc((*n + all) * sizeof *list);
    if (!list)
        return NULL;
    memcpy(list, own, *n * sizeof *list);
    for (size_t i = 0; i < all; i++) {
        vae_tensor_file_metadata_at(file, i, &entry);
        bool kept = strncmp(entry.key, tags, strlen(tags)) == 0;
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            kept |= strcmp(entry.key, keys[k]) == 0;
        if (kept)
            list[(*n)++] = entry;
    }
    return list;
}

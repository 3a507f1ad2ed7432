/*
 * encode_frames.c: the frames of a file, which encode.c encodes.
 */
#include <string.h>

#include "encode.h"
#include "vae/doubts.h"

/* Writes which dimension of the tensor seems to have the colours. */
static const char *
other_order(const VaeTensorInfo *v, char *text, size_t size)
{
    text[0] = '\0';
    if (v->n_dims == 5 && v->dims[0] == 1 && v->dims[4] == 3)
        snprintf(text, size, "; it has a batch of 1 in front: leave this out");
    else if (v->n_dims == 5 && v->dims[4] == 3)
        snprintf(
            text, size,
            "; it has a batch in front: encode its clips one after another");
    else if (v->n_dims == 4 && v->dims[0] == 0)
        snprintf(text, size, "; it has no frames");
    for (int i = 0; i < v->n_dims - 1 && v->n_dims >= 4 && !text[0]; i++)
        if (v->dims[i] == 3)
            snprintf(
                text, size,
                "; if the dimension of 3 has the colours, make it the last "
                "one, by moveaxis(x, %d, -1) of numpy or torch",
                i);
    return text;
}

VaeStatus
encode_find_video(Encode *e, VaeError *error)
{
    const VaeTensorInfo *v = find_video(e->file, e->o->tensor);
    const char *name = vae_tensor_file_name(e->file);
    const char *like = vae_tensor_file_looks_like(e->file);
    char text[128], hint[120], names[VAE_NAMES];
    /* An error says why the only tensor is no video. Latents are no bytes. */
    const VaeTensorInfo *first = vae_tensor_file_at(e->file, 0);
    if (!v && !e->o->tensor && vae_tensor_file_count(e->file) == 1 &&
        (!like[0] || first->type == VAE_TYPE_U8))
        v = first;
    e->video = v;
    if (!v)
        return vae_fail(error, VAE_ERR_NOT_FOUND,
                        "%s: no tensor \"%s\"%s; found %s%s", name,
                        e->o->tensor ? e->o->tensor : "video_u8\" or \"frames",
                        like, vae_tensor_file_names(e->file, names),
                        e->o->tensor ? "" : video_list_advice(e->file));
    if (!v->supported)
        return vae_tensor_refuse(
            e->file, v, "uint8, float32, float16, bfloat16 or float64",
            ": convert values of 0 to 255 by x.to(torch.uint8) of torch or "
            "x.astype(\"uint8\") of numpy, those of n bits to floats by "
            "x / (2**n - 1), with --pixel-range \"0 1\"",
            error);
    if (v->n_dims == 3 && (v->dims[2] == 3 || v->dims[2] == 4)) {
        e->frame = *v;
        memmove(e->frame.dims + 1, v->dims, 3 * sizeof *v->dims);
        e->frame.dims[0] = 1;
        e->frame.n_dims = 4;
        e->video = v = &e->frame;
    }
    if (v->n_dims != 4 || v->dims[3] < 3 || v->dims[3] > 4 || v->dims[0] < 1 ||
        v->dims[1] < 1 || v->dims[1] > 65535 || v->dims[2] < 1 ||
        v->dims[2] > 65535)
        return vae_fail(error, VAE_ERR_SIZE,
                        "%s: tensor \"%s\" is %s, video is [T,H,W,3], or "
                        "[T,H,W,4] with alpha, one frame [H,W,3]%s",
                        name, v->name,
                        vae_dims_text(v->dims, v->n_dims, text, sizeof text),
                        other_order(v, hint, sizeof hint));
    e->height = (int) v->dims[1];
    e->width = (int) v->dims[2];
    if (e->o->pixel_range && v->type == VAE_TYPE_U8)
        warn_text("--pixel-range has no effect: tensor \"%s\" of %s is U8, "
                  "where 0 is black and 255 is white",
                  v->name, name);
    return VAE_OK;
}

void
encode_choose_range(Encode *e)
{
    e->range = (VideoRange){e->info->pixel_low, e->info->pixel_high};
    if (e->o->pixel_range)
        video_range_parse(e->o->pixel_range, &e->range);
    else
        video_range(e->file, &e->range);
}

/* Scales the values from the range of the file to the network's. */
static void
to_range(float *v, size_t n, const Encode *e)
{
    const VideoRange to = {e->info->pixel_low, e->info->pixel_high};
    const VideoRange from = e->range;
    if (from.low == to.low && from.high == to.high)
        return;
    const float scale = (to.high - to.low) / (from.high - from.low);
    for (size_t i = 0; i < n; i++)
        v[i] = to.low + (v[i] - from.low) * scale;
}

/* Drops the fourth float of each pixel of a frame, and warns once if it counts.
 */
static void
drop_alpha(Encode *e, float *v)
{
    const size_t n = (size_t) e->width * (size_t) e->height;
    const VaePicture picture = {
        .pixels = VAE_PIXELS_RGBA_F32,
        .width = e->width,
        .height = e->height,
        .data = {(uint8_t *) v},
        .stride = {e->width * 4 * (ptrdiff_t) sizeof *v}};
    char line[300];
    if (!e->alpha_told &&
        vae_doubt_alpha(e->info, VAE_ENCODE, &picture, line, sizeof line)) {
        e->alpha_told = true;
        warn_text("%s: tensor \"%s\": %s", vae_tensor_file_name(e->file),
                  e->video->name, line);
    }
    for (size_t i = 0; i < n; i++)
        memmove(v + 3 * i, v + 4 * i, 3 * sizeof *v);
}

void
encode_load_frame(Encode *e, int i, int64_t k)
{
    const VaeTensorInfo *v = e->video;
    const size_t size = (size_t) v->bytes / (size_t) v->dims[0];
    const uint8_t *from;
    if (k >= e->frames && i > 0) {
        e->pictures[i].data[0] = e->pictures[i - 1].data[0];
        return;
    }
    if (k >= e->frames)
        k = e->frames - 1;
    from = (const uint8_t *) v->data + (uint64_t) k * size;
    if (!e->frame_data) {
        e->pictures[i].data[0] = (uint8_t *) from; /* only read */
        return;
    }
    uint8_t *to = e->frame_data + (size_t) i * e->frame_size;
    vae_type_to_float((float *) to, from, v->type, e->frame_size / 4);
    to_range((float *) to, e->frame_size / 4, e);
    if (v->dims[3] == 4 && e->info->in_channels == 3)
        drop_alpha(e, (float *) to);
    e->pictures[i].data[0] = to;
}

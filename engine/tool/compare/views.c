/*
 * views.c: two tensors, seen in one layout.
 */
#include <string.h>

#include "compare.h"

bool
is_frames(const VaeTensorInfo *t)
{
    return strncmp(t->name, "frames", 6) == 0;
}

uint64_t
elements_of(const VaeTensorInfo *t)
{
    uint64_t n = 1;
    for (int i = 0; i < t->n_dims; i++)
        n *= (uint64_t) t->dims[i];
    return n;
}

static void
view_whole(View *v)
{
    const VaeTensorInfo *t = v->tensor;
    *v = (View){.file = v->file,
                .tensor = t,
                .path = v->path,
                .data = t->data,
                .type = t->type,
                .n_dims = t->n_dims,
                .rows = 1,
                .columns = 1,
                .plane = elements_of(t)};
    memcpy(v->dims, t->dims, sizeof v->dims);
}

/* A view of latents as [C,T,h,w] in any layout; fails if they are none.
 * --layout is for files that state none. batch_index: as in the options. */
static VaeStatus
view_clip(const Options *o, View *v, int batch_index, VaeError *error)
{
    const bool stated = vae_tensor_file_metadata(v->file, "vae.layout");
    VaeLatentOptions options = latent_options(o);
    VaeLatentClip c = VAE_INIT(VaeLatentClip);
    options.tensor = v->tensor->name;
    options.batch_index = batch_index;
    options.layout = stated ? VAE_LAYOUT_AUTO : o->layout;
    VaeStatus status = vae_latent_clip_find(v->file, &options, &c, error);
    options.layout = o->layout;
    if (status == VAE_ERR_FORMAT && stated)
        status = vae_latent_clip_find(v->file, &options, &c, error);
    if (status != VAE_OK)
        return status;
    *v = (View){.file = v->file,
                .tensor = v->tensor,
                .path = v->path,
                .data = c.data,
                .type = v->tensor->type,
                .n_dims = 4,
                .dims = {c.channels, c.t, c.height, c.width},
                .rows = c.channels,
                .columns = c.t,
                .row_stride = c.c_stride,
                .column_stride = c.t_stride,
                .plane = (uint64_t) c.height * (uint64_t) c.width};
    return VAE_OK;
}

VaeStatus
view_latents(const Options *o, View v[2], VaeError *error)
{
    const int a = v[0].tensor->n_dims, b = v[1].tensor->n_dims;
    const VaeStatus status =
        view_clip(o, &v[0], a >= b ? o->batch_index : -1, error);
    return status == VAE_OK
               ? view_clip(o, &v[1], b >= a ? o->batch_index : -1, error)
               : status;
}

VaeStatus
view_pair(const Options *o, View v[2], VaeError *error)
{
    const VaeTensorInfo *a = v[0].tensor;
    const bool clip = o->batch_index >= 0;
    const bool differ = clip || a->n_dims != v[1].tensor->n_dims ||
                        o->layout != VAE_LAYOUT_AUTO ||
                        vae_tensor_file_metadata(v[0].file, "vae.layout") ||
                        vae_tensor_file_metadata(v[1].file, "vae.layout");
    const bool video = is_frames(a) || strncmp(a->name, "video", 5) == 0;
    const VaeStatus status =
        differ && !video ? view_latents(o, v, error) : VAE_ERR_NOT_FOUND;
    if (status == VAE_OK || (clip && !video && a->n_dims > 3))
        return status;
    view_whole(&v[0]);
    view_whole(&v[1]);
    return VAE_OK;
}

void
read_view(float *out, const View *v, int64_t row, int64_t column,
          uint64_t first, size_t n)
{
    const uint8_t *from = v->data + (uint64_t) row * v->row_stride +
                          (uint64_t) column * v->column_stride +
                          first * vae_type_size(v->type);
    video_read(out, from, v->type, n, v->range);
    for (size_t i = 0; v->scaled && i < n; i++)
        out[i] = (out[i] - v->mean[row]) / v->std[row];
}

bool
same_shape(const View v[2])
{
    return v[0].n_dims == v[1].n_dims &&
           memcmp(v[0].dims, v[1].dims,
                  (size_t) v[0].n_dims * sizeof *v[0].dims) == 0;
}

/*
 * metas.c: copies the metas of a frame to its latent, and those of a latent to
 * its frame. Finds the latents of a buffer.
 */
#include "metas.h"

#include <gst/video/video.h>

#include "group.h"
#include "tensor_meta.h"

static gboolean
travels(GstMeta *meta)
{
    static const gchar *const known[] = {GST_META_TAG_VIDEO_STR,
                                         GST_META_TAG_VIDEO_ORIENTATION_STR,
                                         GST_META_TAG_VIDEO_SIZE_STR, NULL};
    const gchar *const *tags = gst_meta_api_type_get_tags(meta->info->api);

    if (!meta->info->transform_func || gst_vae_group_is_meta(meta) ||
        gst_vae_tensor_meta_is_latent(meta))
        return FALSE;
    for (; tags && *tags; tags++)
        if (!g_strv_contains(known, *tags))
            return FALSE;
    return TRUE;
}

static gboolean
copy_one(GstBuffer *from, GstMeta **meta, gpointer to)
{
    GstMetaTransformCopy all = {FALSE, 0, (gsize) -1};

    if (travels(*meta))
        (*meta)->info->transform_func(to, *meta, from, _gst_meta_transform_copy,
                                      &all);
    return TRUE;
}

static gboolean
look_at_one(GstBuffer *from, GstMeta **meta, gpointer found)
{
    *(gboolean *) found = travels(*meta);
    return !*(gboolean *) found;
}

void
gst_vae_metas_copy(GstBuffer *to, GstBuffer *from)
{
    gst_buffer_foreach_meta(from, copy_one, to);
}

GstBuffer *
gst_vae_metas_take(GstBuffer *from)
{
    gboolean found = FALSE;
    GstBuffer *metas;

    gst_buffer_foreach_meta(from, look_at_one, &found);
    if (!found)
        return NULL;
    metas = gst_buffer_new();
    gst_vae_metas_copy(metas, from);
    return metas;
}

GstBuffer *
gst_vae_metas_latents(GstBuffer *buffer, const GstVaeLatentInfo *info,
                      const gchar *space, GError **error)
{
    GstBuffer *data, *latents = NULL;
    GstClockTime duration;
    guint frames;
    const gboolean ok =
        gst_vae_tensor_meta_read(buffer, info, space, &data, error);

    if (ok && !data)
        return buffer;
    if (ok) {
        latents = gst_buffer_new();
        gst_buffer_copy_into(latents, buffer,
                             GST_BUFFER_COPY_FLAGS | GST_BUFFER_COPY_TIMESTAMPS,
                             0, -1);
        gst_buffer_copy_into(latents, data, GST_BUFFER_COPY_MEMORY, 0, -1);
        gst_vae_metas_copy(latents, buffer);
        if (gst_vae_group_get(buffer, &frames, &duration))
            gst_vae_group_add(latents, frames, duration);
    }
    gst_buffer_unref(buffer);
    return latents;
}

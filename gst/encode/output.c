/*
 * output.c: allocates the memory for latents, and adds the steps to the
 * engine's call.
 */
#include "call.h"
#include "encode.h"
#include "group.h"
#include "metas.h"

void
gst_vae_encode_decide_allocation(GstVaeBase *base, GstVaeSession *session,
                                 GstQuery *query)
{
    if (gst_query_get_n_allocation_params(query) > 0)
        gst_query_parse_nth_allocation_param(query, 0, &session->allocator,
                                             &session->allocation);
}

static VaeStatus
add_latent(GstVaeCall *call, GstVaeItem *item, VaeError *error)
{
    GstVaeSession *session = item->session;
    const gsize size = gst_vae_latent_info_size(&session->latent);
    GstVaeOut *out = &item->out[0];

    out->buffer =
        gst_buffer_new_allocate(session->allocator, size, &session->allocation);
    if (!out->buffer ||
        !gst_vae_call_add_latent(call, session, out->buffer, GST_MAP_WRITE))
        return vae_fail(error, VAE_ERR_MEMORY,
                        "no memory for a latent of %zu bytes", size);
    gst_vae_call_stamp(out);
    if (out->metas)
        gst_vae_metas_copy(out->buffer, out->metas);
    gst_vae_group_add(out->buffer, out->frames, out->length);
    if (!item->start)
        GST_BUFFER_FLAG_SET(out->buffer, GST_BUFFER_FLAG_DELTA_UNIT);
    if (item->discont)
        GST_BUFFER_FLAG_SET(out->buffer, GST_BUFFER_FLAG_DISCONT);
    return VAE_OK;
}

static VaeStatus
fail_meta(const GstVaeSession *session, const GstVideoMeta *meta, gsize size,
          VaeError *error)
{
    const GstVideoInfo *info = &session->video;
    gchar found[80], expected[80];

    g_snprintf(found, sizeof found, "%s, %ux%u, rows %d bytes apart",
               gst_video_format_to_string(meta->format), meta->width,
               meta->height, meta->stride[0]);
    g_snprintf(expected, sizeof expected, "%s, %dx%d",
               GST_VIDEO_INFO_NAME(info), GST_VIDEO_INFO_WIDTH(info),
               GST_VIDEO_INFO_HEIGHT(info));
    return vae_fail_parts(
        error, VAE_ERR_SIZE, (VaeErrorParts){NULL, found, expected},
        "a frame of %zu bytes does not hold what its GstVideoMeta says (%s), "
        "expected %s",
        size, found, expected);
}

static VaeStatus
fail_frame(const GstVaeSession *session, GstBuffer *frame, VaeError *error)
{
    const GstVideoMeta *meta = gst_buffer_get_video_meta(frame);
    gchar found[32], expected[32];

    if (meta)
        return fail_meta(session, meta, gst_buffer_get_size(frame), error);
    g_snprintf(found, sizeof found, "%zu bytes", gst_buffer_get_size(frame));
    g_snprintf(expected, sizeof expected, "%zu",
               GST_VIDEO_INFO_SIZE(&session->video));
    return vae_fail_parts(
        error, VAE_ERR_SIZE, (VaeErrorParts){NULL, found, expected},
        "a frame has %s, expected %s for %dx%d pixels", found, expected,
        session->params.width, session->params.height);
}

VaeStatus
gst_vae_encode_add_step(GstElement *element, GstVaeCall *call, GstVaeItem *item,
                        VaeError *error)
{
    GstVaeSession *session = item->session;

    for (guint i = 0; i < item->n_in; i++)
        if (!gst_vae_call_add_picture(call, session, item->in[i], GST_MAP_READ))
            return fail_frame(session, item->in[i], error);
    return add_latent(call, item, error);
}

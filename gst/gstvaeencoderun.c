/*
 * gstvaeencoderun.c: memory for latents, and the engine's call.
 */
#include "gstvaeencode.h"

#include "gstvaevideo.h"

void
gst_vae_encode_decide_allocation(GstVaeBase *base, GstVaeSession *session,
                                 GstQuery *query)
{
    if (gst_query_get_n_allocation_params(query) > 0)
        gst_query_parse_nth_allocation_param(query, 0, &session->allocator,
                                             &session->allocation);
}

static VaeStatus
make_latent(GstVaeItem *item, VaeLatent *latent, GstMapInfo *map,
            VaeError *error)
{
    GstVaeSession *session = item->session;
    const gsize size = gst_vae_latent_info_size(&session->latent);
    GstBuffer *buffer =
        gst_buffer_new_allocate(session->allocator, size, &session->allocation);

    item->out[0].buffer = buffer;
    if (!buffer || !gst_buffer_map(buffer, map, GST_MAP_WRITE))
        return vae_fail(error, VAE_ERR_MEMORY,
                        "no memory for a latent of %zu bytes", size);
    latent->type = session->latent.type;
    latent->data = map->data;
    GST_BUFFER_PTS(buffer) = item->out[0].pts;
    GST_BUFFER_DURATION(buffer) = item->out[0].duration;
    GST_BUFFER_OFFSET(buffer) = item->out[0].offset;
    GST_BUFFER_OFFSET_END(buffer) = item->out[0].offset + 1;
    if (!item->start)
        GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_DELTA_UNIT);
    if (item->discont)
        GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_DISCONT);
    return VAE_OK;
}

/* What one call of the engine needs, mapped. */
typedef struct Call {
    guint n_frames, n_latents;
    GstVideoFrame *frames;
    VaePicture *pictures;
    VaeLatent *latents;
    GstMapInfo *maps;
} Call;

static VaeStatus
add_step(Call *call, GstVaeItem *item, VaeError *error)
{
    VaeStatus status;

    for (guint i = 0; i < item->n_in; i++) {
        GstVideoFrame *frame = &call->frames[call->n_frames];

        if (!gst_video_frame_map(frame, &item->session->video, item->in[i],
                                 GST_MAP_READ))
            return vae_fail(error, VAE_ERR_SIZE,
                            "a frame of %zu bytes came, wanted %zu for "
                            "%dx%d pixels",
                            gst_buffer_get_size(item->in[i]),
                            GST_VIDEO_INFO_SIZE(&item->session->video),
                            item->session->params.width,
                            item->session->params.height);
        gst_vae_video_frame_picture(frame, &call->pictures[call->n_frames++]);
    }
    status = make_latent(item, &call->latents[call->n_latents],
                         &call->maps[call->n_latents], error);
    if (status == VAE_OK)
        call->n_latents++;
    return status;
}

VaeStatus
gst_vae_encode_run(GstVaeBase *base, VaeStream *stream, GstVaeItem **items,
                   guint n, VaeError *error)
{
    Call call = {0};
    VaeStatus status = VAE_OK;

    call.frames = g_new0(GstVideoFrame, n * GST_VAE_MAX_UNITS);
    call.pictures = g_new0(VaePicture, n * GST_VAE_MAX_UNITS);
    call.latents = g_new0(VaeLatent, n);
    call.maps = g_new0(GstMapInfo, n);
    for (guint i = 0; i < n && status == VAE_OK; i++)
        status = add_step(&call, items[i], error);
    if (status == VAE_OK)
        status = vae_stream_encode(stream, call.pictures, (int) call.n_frames,
                                   call.latents, (int) call.n_latents, error);
    for (guint i = 0; i < call.n_frames; i++)
        gst_video_frame_unmap(&call.frames[i]);
    for (guint i = 0; i < call.n_latents; i++)
        gst_buffer_unmap(items[i]->out[0].buffer, &call.maps[i]);
    g_free(call.frames);
    g_free(call.pictures);
    g_free(call.latents);
    g_free(call.maps);
    return status;
}

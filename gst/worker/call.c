/*
 * call.c: maps the latents and pictures of one call of the engine.
 */
#include "call.h"

#include "events.h"
#include "frame.h"
#include "frames.h"
#include "video.h"

GstVaeCall
gst_vae_call_new(GstVaeItem **items, guint n)
{
    guint units = 0; /* enough for either side */

    for (guint i = 0; i < n; i++)
        units += items[i]->n_in + items[i]->n_out;
    return (GstVaeCall){.latents = g_new0(VaeLatentIn, units),
                        .results = g_new0(VaeLatentOut, units),
                        .pictures = g_new0(VaePicture, units),
                        .buffers = g_new0(GstBuffer *, units),
                        .maps = g_new0(GstMapInfo, units),
                        .frames = g_new0(GstVideoFrame, units)};
}

void
gst_vae_call_clear(GstVaeCall *call)
{
    for (guint i = 0; i < call->n_latents; i++)
        gst_buffer_unmap(call->buffers[i], &call->maps[i]);
    for (guint i = 0; i < call->n_pictures; i++)
        if (call->frames[i].buffer) {
            gst_vae_cuda_ready_free(call->frames[i].buffer,
                                    call->pictures[i].ready);
            gst_video_frame_unmap(&call->frames[i]);
        }
    g_free(call->latents);
    g_free(call->results);
    g_free(call->pictures);
    g_free(call->buffers);
    g_free(call->maps);
    g_free(call->frames);
}

gboolean
gst_vae_call_add_latent(GstVaeCall *call, GstVaeSession *session,
                        GstBuffer *buffer, GstMapFlags flags)
{
    const guint i = call->n_latents;

    if (!gst_buffer_map(buffer, &call->maps[i], flags))
        return FALSE;
    call->buffers[i] = buffer;
    call->latents[i].type = call->results[i].type = session->latent.type;
    call->latents[i].data = call->results[i].data = call->maps[i].data;
    call->n_latents++;
    return TRUE;
}

static void
unpin(gpointer pin)
{
    vae_pin_free((VaePin **) &pin);
}

/* Pins the memory of a frame that the engine will write, if it is from a pool,
 * which uses it again. It stays pinned until it is freed. */
static gboolean
pin(GstVaeCall *call, const GstVideoFrame *frame)
{
    static gint refused; /* its address marks memory that cannot be pinned */
    const GQuark quark = g_quark_from_static_string("GstVaePin");
    GstBuffer *buffer = frame->buffer;
    GstMiniObject *memory;
    gpointer known;

    if (!buffer->pool || gst_buffer_n_memory(buffer) != 1 ||
        !vae_stream_overlaps(call->stream))
        return FALSE;
    memory = GST_MINI_OBJECT_CAST(gst_buffer_peek_memory(buffer, 0));
    known = gst_mini_object_get_qdata(memory, quark);
    if (known)
        return known != &refused;
    known =
        vae_stream_pin(call->stream, frame->map[0].data, frame->map[0].size);
    gst_mini_object_set_qdata(memory, quark, known ? known : &refused,
                              known ? unpin : NULL);
    return known != NULL;
}

VaeStatus
gst_vae_call_add_picture(GstVaeCall *call, GstVaeSession *session,
                         GstBuffer *buffer, GstMapFlags flags, VaeError *error)
{
    GstVideoFrame *frame = &call->frames[call->n_pictures];
    VaePicture *picture = &call->pictures[call->n_pictures];
    gboolean on_device = FALSE;
    VaeStatus status;

    if (!buffer) {
        gst_vae_video_picture(&session->video, picture);
        call->n_pictures++;
        return VAE_OK;
    }
    status = gst_vae_cuda_map(frame, &session->video, buffer, flags,
                              call->engine, &on_device, error);
    if (status != VAE_OK) {
        frame->buffer = NULL;
        return status;
    }
    gst_vae_frame_picture(frame, picture);
    picture->on_device = on_device;
    if (on_device)
        picture->ready = gst_vae_cuda_ready(buffer, flags);
    else if (flags & GST_MAP_WRITE)
        picture->pinned = pin(call, frame);
    call->n_pictures++;
    return VAE_OK;
}

void
gst_vae_call_stamp(GstVaeOut *out)
{
    GST_BUFFER_PTS(out->buffer) = out->pts;
    GST_BUFFER_DURATION(out->buffer) = out->duration;
    GST_BUFFER_OFFSET(out->buffer) = out->offset;
    GST_BUFFER_OFFSET_END(out->buffer) = out->offset + 1;
}

/*
 * none.c: replaces the other files of this folder in a build without gstreamer-
 * cuda.
 */
#include "events.h"
#include "frame.h"
#include "frames.h"
#include "share.h"

void
gst_vae_cuda_set_context(GstVaeCuda *cuda, GstContext *context)
{
}

gboolean
gst_vae_cuda_answer(GstVaeCuda *cuda, GstQuery *query)
{
    return FALSE;
}

gboolean
gst_vae_cuda_usable(GstVaeCuda *cuda)
{
    return FALSE;
}

void
gst_vae_cuda_close(GstVaeCuda *cuda)
{
}

GstBufferPool *
gst_vae_cuda_pool(GstVaeCuda *cuda, GstCaps *caps, guint size)
{
    return NULL;
}

gboolean
gst_vae_cuda_is_pool(GstBufferPool *pool)
{
    return FALSE;
}

gpointer
gst_vae_cuda_engine(GstVaeCuda *cuda, const VaeStream *stream, gint device)
{
    return NULL;
}

VaeStatus
gst_vae_cuda_map(GstVideoFrame *frame, const GstVideoInfo *info,
                 GstBuffer *buffer, GstMapFlags flags, gpointer engine,
                 gboolean *on_device, VaeError *error)
{
    *on_device = FALSE;
    return gst_vae_frame_map(frame, info, buffer, flags, error);
}

gpointer
gst_vae_cuda_ready(GstBuffer *buffer, GstMapFlags flags)
{
    return NULL;
}

void
gst_vae_cuda_ready_free(GstBuffer *buffer, gpointer event)
{
}

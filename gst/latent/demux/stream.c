/*
 * stream.c: sends the latents of a file that upstream pushes.
 *
 * The latents leave as soon as their bytes have arrived. A file in the order
 * [T, C, h, w] needs the memory of one latent, another one that of the file.
 * Some files are collected, and sent at EOS: those of PyTorch, and files with
 * times or sequences, whose tables follow the latents.
 */
#include "stream.h"

#include "metadata.h"

#include <string.h>

#define GST_CAT_DEFAULT gst_latent_demux_debug

void
gst_latent_stream_reset(GstLatentDemux *self)
{
    gst_latent_send_close(self);
    gst_latent_bytes_clear(&self->bytes);
    gst_latent_window_clear(&self->window);
    self->whole = self->eos = self->ended = FALSE;
    self->flow = GST_FLOW_OK;
    GST_OBJECT_LOCK(self);
    gst_clear_event(&self->pending);
    GST_OBJECT_UNLOCK(self);
}

static GstFlowReturn
fail(GstLatentDemux *self, const VaeError *error)
{
    gst_latent_send_fail(self, error);
    return GST_FLOW_ERROR;
}

/* Checks that `more` bytes still fit in the memory. */
static GstFlowReturn
check_room(GstLatentDemux *self, gsize more)
{
    gsize kept = self->bytes.size;
    VaeError error;
    if (self->window.adapter)
        kept += gst_adapter_available(self->window.adapter);
    GST_OBJECT_LOCK(self);
    const guint64 max = self->max_push_size;
    GST_OBJECT_UNLOCK(self);
    if (kept + more <= max)
        return GST_FLOW_OK;
    vae_fail(&error, VAE_ERR_SIZE,
             "the latent file is longer than %" G_GUINT64_FORMAT
             " bytes and upstream has no random access; set max-push-size "
             "higher or read from a plain file",
             max);
    return fail(self, &error);
}

/* TRUE if the latents can be sent as they arrive. A file that cannot be opened
 * counts: its error is posted at once. */
static gboolean
can_stream(const GstLatentBytes *bytes, guint64 need, guint64 total,
           const gchar *name)
{
    VaeTensorFile *file;
    VaeError error;
    if (vae_tensor_file_open_memory(bytes->data, need, total, name, &file,
                                    &error) != VAE_OK)
        return TRUE;
    const gboolean can = !vae_tensor_file_find(file, GST_LATENT_TIMES) &&
                         !vae_tensor_file_find(file, VAE_SEQUENCES);
    vae_tensor_file_free(&file);
    return can;
}

/* Opens the clip if its header has arrived. */
static GstFlowReturn
open_header(GstLatentDemux *self, const gchar *name)
{
    GstLatentBytes *bytes = &self->bytes;
    VaeError error;
    const guint64 total = gst_latent_length(self->sinkpad);
    guint64 need;
    if (bytes->size >= 2 &&
        memcmp(bytes->data, "PK", 2) == 0) { /* a file of PyTorch */
        self->whole = TRUE;
        return GST_FLOW_OK;
    }
    if (vae_tensor_header_size(bytes->data, bytes->size, total, name, &need,
                               &error) != VAE_OK)
        return fail(self, &error);
    if (bytes->size < need)
        return GST_FLOW_OK;
    if (!can_stream(bytes, need, total, name)) {
        self->whole = TRUE;
        return GST_FLOW_OK;
    }
    gst_latent_window_begin(&self->window, need, bytes->data + need,
                            bytes->size - need);
    bytes->size = need;
    return gst_latent_send_open(self, total, name) == GST_FLOW_OK
               ? GST_FLOW_OK
               : GST_FLOW_ERROR;
}

/* Returns the offset after the last byte of latent k. */
static guint64
end_of(const VaeLatentClip *data, gint k)
{
    const gsize plane =
        (gsize) data->height * data->width * vae_type_size(data->stored);
    return data->offset + k * data->t_stride +
           (data->channels - 1) * data->c_stride + plane;
}

/* Posts the error of a file that ends inside of its latents. */
static GstFlowReturn
fail_short(GstLatentDemux *self)
{
    const guint64 end = gst_latent_window_end(&self->window);
    const guint64 full = end_of(&self->clip.data, self->clip.data.t - 1);
    g_autofree gchar *name = gst_latent_source_name(self->sinkpad);
    VaeError error;
    vae_mismatch(&error, VAE_ERR_FORMAT, NULL,
                 "%s: ends at byte {%" G_GUINT64_FORMAT
                 "}, in latent %d of %d; expected {=%" G_GUINT64_FORMAT
                 "} bytes or more",
                 name, end, self->run.next, self->clip.data.t, full);
    return gst_latent_send_fail(self, &error);
}

GstFlowReturn
gst_latent_stream_next(GstLatentDemux *self)
{
    if (self->ended || (!self->eos && self->run.next >= self->clip.data.t))
        return GST_FLOW_CUSTOM_SUCCESS;
    const GstFlowReturn ret = gst_latent_send_advance(self);
    if (ret != GST_FLOW_OK)
        return ret;
    if (self->window.adapter && end_of(&self->clip.data, self->run.next) >
                                    gst_latent_window_end(&self->window))
        return self->eos ? fail_short(self) : GST_FLOW_CUSTOM_SUCCESS;
    return gst_latent_send_next(self);
}

/* Sends the latents that have arrived. A file that is kept is read to its end,
 * also if it is not needed now, and during a seek. */
static GstFlowReturn
send_arrived(GstLatentDemux *self)
{
    const VaeLatentClip *data = &self->clip.data;
    const gboolean kept = gst_latent_send_is_kept(self);
    GstFlowReturn ret;
    do
        ret = gst_latent_stream_next(self);
    while (ret == GST_FLOW_OK);
    if (!kept)
        gst_latent_window_drop(&self->window,
                               data->offset + self->run.next * data->t_stride);
    if (ret == GST_FLOW_EOS)
        gst_latent_send_end(self, ret);
    if (ret == GST_FLOW_CUSTOM_SUCCESS || (kept && ret == GST_FLOW_EOS) ||
        (kept && ret == GST_FLOW_FLUSHING &&
         !GST_PAD_IS_FLUSHING(self->sinkpad)))
        return GST_FLOW_OK;
    return ret == GST_FLOW_CUSTOM_ERROR ? GST_FLOW_ERROR : ret;
}

static GstFlowReturn
collect(GstLatentDemux *self, GstBuffer *buffer)
{
    VaeError error;
    GST_OBJECT_LOCK(self);
    const guint64 max = self->max_push_size;
    GST_OBJECT_UNLOCK(self);
    const gboolean ok =
        gst_latent_bytes_append(&self->bytes, buffer, max, &error);
    gst_buffer_unref(buffer);
    if (!ok)
        return fail(self, &error);
    if (self->whole)
        return GST_FLOW_OK;
    gchar *name = gst_latent_source_name(self->sinkpad);
    const GstFlowReturn ret = open_header(self, name);
    g_free(name);
    return ret;
}

GstFlowReturn
gst_latent_stream_push(GstLatentDemux *self, GstBuffer *buffer)
{
    GstFlowReturn ret = check_room(self, gst_buffer_get_size(buffer));
    if (ret != GST_FLOW_OK)
        gst_buffer_unref(buffer);
    else if (self->window.adapter)
        gst_latent_window_push(&self->window, buffer);
    else
        ret = collect(self, buffer);
    if (ret == GST_FLOW_OK && self->window.adapter)
        ret = send_arrived(self);
    self->flow = ret;
    return ret;
}

/* Ends a recording whose header did not state its length. */
static GstFlowReturn
end_open(GstLatentDemux *self)
{
    VaeError error;
    if (self->run.next == 0) {
        vae_fail(&error, VAE_ERR_FORMAT,
                 "the recording ends before its first latent is complete");
        return gst_latent_send_fail(self, &error);
    }
    GST_OBJECT_LOCK(self);
    gst_latent_clip_end(&self->clip, self->run.next, 0);
    self->segment.duration = gst_latent_clip_time(&self->clip, self->run.next);
    GST_OBJECT_UNLOCK(self);
    return GST_FLOW_EOS;
}

/* Opens a file that was collected. */
static GstFlowReturn
open_whole(GstLatentDemux *self)
{
    gchar *name = gst_latent_source_name(self->sinkpad);
    const GstFlowReturn ret =
        gst_latent_send_open(self, self->bytes.size, name);
    g_free(name);
    return ret;
}

void
gst_latent_stream_end(GstLatentDemux *self)
{
    GstFlowReturn ret = self->flow;
    self->eos = TRUE;
    if (self->ended)
        return;
    if (ret != GST_FLOW_OK)
        ret = GST_FLOW_EOS;
    else if (!self->window.adapter && !self->known)
        ret = open_whole(self);
    else if (self->clip.open)
        ret = end_open(self);
    while (ret == GST_FLOW_OK)
        ret = gst_latent_stream_next(self);
    gst_latent_send_end(self, ret);
}

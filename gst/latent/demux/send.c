/*
 * send.c: sends the latents of a clip out of the source pad.
 */
#include "send.h"

#include "details.h"
#include "error.h"
#include "group.h"
#include "metadata.h"
#include "tensor_meta.h"

GST_DEBUG_CATEGORY(gst_latent_demux_debug); /* of the whole element */
#define GST_CAT_DEFAULT gst_latent_demux_debug

GstFlowReturn
gst_latent_send_fail(GstLatentDemux *self, const VaeError *error)
{
    gchar *file = gst_latent_source_name(self->sinkpad);
    GQuark domain = GST_STREAM_ERROR;
    gint code = GST_STREAM_ERROR_DEMUX;
    if (error->status == VAE_ERR_MEMORY) {
        domain = GST_RESOURCE_ERROR;
        code = GST_RESOURCE_ERROR_NO_SPACE_LEFT;
    } else if (error->status == VAE_ERR_NOT_FOUND) {
        code = GST_STREAM_ERROR_WRONG_TYPE;
    }
    GstStructure *context =
        gst_structure_new("details", "file", G_TYPE_STRING, file, NULL);
    GST_OBJECT_LOCK(self);
    if (self->settings.tensor)
        gst_structure_set(context, "tensor", G_TYPE_STRING,
                          self->settings.tensor, NULL);
    GST_OBJECT_UNLOCK(self);
    gst_vae_post_gerror(GST_ELEMENT(self),
                        gst_vae_error_new(domain, code, error->message,
                                          gst_vae_error_parts(error)),
                        context);
    g_free(file);
    return GST_FLOW_CUSTOM_ERROR;
}

/* Reads bytes of the file. In push mode they have arrived. */
static GstFlowReturn
read_bytes(GstLatentDemux *self, guint64 offset, guint8 *dst, gsize size)
{
    VaeError error;
    if (self->window.adapter) {
        gst_latent_window_copy(&self->window, offset, dst, size);
        return GST_FLOW_OK;
    }
    const GstFlowReturn ret =
        gst_latent_pull(self->sinkpad, offset, dst, size, &error);
    return ret == GST_FLOW_CUSTOM_ERROR ? gst_latent_send_fail(self, &error)
                                        : ret;
}

/* Reads latent k to dst, as [C, h, w]. */
static GstFlowReturn
read_step(GstLatentDemux *self, gint k, guint8 *dst)
{
    const VaeLatentClip *data = &self->clip.data;
    if (data->data) {
        vae_latent_clip_read(data, k, dst);
        return GST_FLOW_OK;
    }
    const gsize pixels = (gsize) data->height * data->width;
    const gsize plane = pixels * vae_type_size(data->stored);
    const gsize step = plane * data->channels;
    const guint64 offset = data->offset + k * data->t_stride;
    const gboolean wide = data->stored != data->type;
    guint8 *to = wide ? g_malloc(step) : dst;
    GstFlowReturn ret = GST_FLOW_OK;
    if (data->c_stride == plane)
        ret = read_bytes(self, offset, to, step);
    else
        for (gint c = 0; c < data->channels && ret == GST_FLOW_OK; c++)
            ret = read_bytes(self, offset + c * data->c_stride, to + c * plane,
                             plane);
    if (wide && ret == GST_FLOW_OK)
        vae_type_to_float((gfloat *) dst, to, data->stored,
                          pixels * data->channels);
    if (wide)
        g_free(to);
    return ret;
}

static void
push_stream_start(GstLatentDemux *self)
{
    gchar *id = gst_pad_create_stream_id(self->srcpad, GST_ELEMENT(self), NULL);
    GstEvent *event = gst_event_new_stream_start(id);
    GstEvent *upstream =
        gst_pad_get_sticky_event(self->sinkpad, GST_EVENT_STREAM_START, 0);
    guint group;
    if (!upstream || !gst_event_parse_group_id(upstream, &group))
        group = gst_util_group_id_next();
    gst_event_set_group_id(event, group);
    gst_clear_event(&upstream);
    gst_pad_push_event(self->srcpad, event);
    g_free(id);
}

static void
push_tags(GstLatentDemux *self)
{
    GstTagList *file = gst_latent_metadata_tags(
        self->clip.file, self->bytes.data, self->bytes.size);
    GstTagList *stream =
        gst_tag_list_new(GST_TAG_VIDEO_CODEC, GST_VAE_LATENT_CODEC, NULL);
    GstVaeLatentInfo info = self->clip.info;
    info.temporal_factor = self->clip.counts.temporal;
    const guint bitrate = gst_vae_latent_info_bitrate(&info);
    if (bitrate > 0)
        gst_tag_list_add(stream, GST_TAG_MERGE_REPLACE, GST_TAG_BITRATE,
                         bitrate, NULL);
    /* An element that turns the pictures replaces this tag of the stream. */
    gchar *orientation;
    if (gst_tag_list_get_string(file, GST_TAG_IMAGE_ORIENTATION,
                                &orientation)) {
        gst_tag_list_add(stream, GST_TAG_MERGE_REPLACE,
                         GST_TAG_IMAGE_ORIENTATION, orientation, NULL);
        gst_tag_list_remove_tag(file, GST_TAG_IMAGE_ORIENTATION);
        g_free(orientation);
    }
    gst_pad_push_event(self->srcpad, gst_event_new_tag(stream));
    gst_pad_push_event(self->srcpad, gst_event_new_tag(file));
}

static void
push_caps(GstLatentDemux *self)
{
    GstCaps *caps = gst_vae_latent_info_to_caps(&self->clip.info);
    gst_vae_tensor_meta_describe(caps, &self->clip.info);
    GST_INFO_OBJECT(self,
                    "%d latents, %" G_GINT64_FORMAT " frames, %" GST_PTR_FORMAT,
                    self->clip.data.t, self->clip.frames, caps);
    gst_pad_push_event(self->srcpad, gst_event_new_caps(caps));
    gst_caps_unref(caps);
}

/* splitmuxsrc links a pad when it is added, and looks for no other one. It
 * reads the caps of the pad. */
static void
announce(GstLatentDemux *self)
{
    if (!gst_pad_is_linked(self->srcpad) &&
        gst_pad_has_current_caps(self->srcpad))
        g_signal_emit_by_name(self, "pad-added", self->srcpad);
    gst_element_no_more_pads(GST_ELEMENT(self));
}

/* States where the clip ends. Without it videorate of GStreamer 1.28 repeats
 * the last frame. */
static void
push_segment(GstLatentDemux *self)
{
    GstSegment segment = self->segment;
    if (!GST_CLOCK_TIME_IS_VALID(segment.stop))
        segment.stop = segment.duration;
    GstEvent *event = gst_event_new_segment(&segment);
    if (self->seqnum)
        gst_event_set_seqnum(event, self->seqnum);
    else
        self->seqnum = gst_event_get_seqnum(event);
    gst_pad_push_event(self->srcpad, event);
    push_tags(self);
}

/* Pushes the events that are due. A flushing pad drops them, so they stay
 * due. */
static GstFlowReturn
push_due(GstLatentDemux *self)
{
    if (!self->start_due && !self->segment_due)
        return GST_FLOW_OK;
    if (self->start_due) {
        push_stream_start(self);
        push_caps(self);
        announce(self);
    }
    push_segment(self);
    if (GST_PAD_IS_FLUSHING(self->srcpad))
        return GST_FLOW_FLUSHING;
    self->start_due = self->segment_due = FALSE;
    return GST_FLOW_OK;
}

static void
stamp(GstLatentDemux *self, GstBuffer *buffer, gint k)
{
    GST_BUFFER_PTS(buffer) = gst_latent_clip_time(&self->clip, k);
    GST_BUFFER_DURATION(buffer) =
        gst_latent_clip_time(&self->clip, k + 1) - GST_BUFFER_PTS(buffer);
    if (self->clip.times)
        GST_BUFFER_DURATION(buffer) =
            (GstClockTime) self->clip.times[k].duration;
    if (self->clip.times || self->clip.sequences)
        gst_vae_group_add(buffer,
                          (guint) gst_latent_clip_frames(&self->clip, k),
                          GST_BUFFER_DURATION(buffer));
    if (self->clip.sequences)
        gst_vae_group_set_frame(
            buffer, (guint64) gst_latent_clip_first_frame(&self->clip, k));
    if (self->run.stride && k == self->run.shown)
        GST_BUFFER_DURATION(buffer) =
            gst_latent_clip_time(&self->clip, self->run.until) -
            GST_BUFFER_PTS(buffer);
    GST_BUFFER_OFFSET(buffer) = k;
    GST_BUFFER_OFFSET_END(buffer) = k + 1;
    if (k < self->run.shown || k >= self->run.end)
        GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_DECODE_ONLY);
    if (self->run.discont)
        GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_DISCONT);
    else if (k != gst_latent_clip_start(&self->clip, k))
        GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_DELTA_UNIT);
    self->run.discont = FALSE;
}

/* Stores the position of the last latent that was sent, at which a seek without
 * a flush continues. */
static void
set_position(GstLatentDemux *self)
{
    const GstLatentRun *run = &self->run;
    const GstSegment *s = &self->segment;
    const gint k = run->backward ? run->shown : run->next;
    const GstClockTime time = gst_latent_clip_time(&self->clip, k);
    if (run->backward && run->next < run->end)
        return;
    GST_OBJECT_LOCK(self);
    self->segment.position = CLAMP(time, s->start, MIN(s->stop, s->duration));
    GST_OBJECT_UNLOCK(self);
}

gint
gst_latent_send_ask(GstLatentDemux *self, GstVaeDecoderFacts *facts)
{
    GstQuery *query = gst_query_new_custom(
        GST_QUERY_CUSTOM, gst_structure_new_empty(GST_VAE_LOOK_AHEAD_QUERY));
    GstVaeDecoderFacts found = {0};
    gint latents = 0;
    if (gst_pad_peer_query(self->srcpad, query))
        gst_structure_get(
            gst_query_get_structure(query), "latents", G_TYPE_INT, &latents,
            "latent_channels", G_TYPE_INT, &found.latent_channels, "temporal",
            G_TYPE_INT, &found.temporal, "chunk", G_TYPE_INT, &found.chunk,
            "fps_n", G_TYPE_INT, &found.fps_n, "fps_d", G_TYPE_INT,
            &found.fps_d, "look_back", G_TYPE_INT, &found.look_back, "window",
            G_TYPE_INT, &found.window, "own_normalization", G_TYPE_BOOLEAN,
            &found.own_normalization, NULL);
    gst_query_unref(query);
    if (facts)
        *facts = found;
    return latents;
}

/* Returns TRUE if all latents of the run were sent, and the later latents that
 * their frames depend on. */
static gboolean
is_sent(GstLatentDemux *self)
{
    const GstLatentRun *run = &self->run;
    if (run->next < run->end)
        return FALSE;
    return run->next >= self->clip.data.t || run->shown == run->end ||
           run->next >= run->end + gst_latent_send_ask(self, NULL);
}

gboolean
gst_latent_send_is_kept(const GstLatentDemux *self)
{
    const VaeLatentClip *data = &self->clip.data;
    return self->whole || data->c_stride > data->t_stride;
}

GstFlowReturn
gst_latent_send_advance(GstLatentDemux *self)
{
    const GstFlowReturn ret = push_due(self);
    if (ret == GST_FLOW_OK && is_sent(self) &&
        !gst_latent_run_continue(&self->run, &self->clip))
        return GST_FLOW_EOS;
    return ret;
}

GstFlowReturn
gst_latent_send_next(GstLatentDemux *self)
{
    GstLatentRun *run = &self->run;
    GstFlowReturn ret = gst_latent_send_advance(self);
    if (ret != GST_FLOW_OK)
        return ret;
    const gint k = run->next;
    const gsize size = gst_vae_latent_info_step_size(&self->clip.info);
    guint8 *data = g_try_malloc(size);
    if (!data) {
        const VaeError error = {VAE_ERR_MEMORY, "No memory for one latent"};
        return gst_latent_send_fail(self, &error);
    }
    ret = read_step(self, k, data);
    if (ret != GST_FLOW_OK) {
        g_free(data);
        return ret;
    }
    GstBuffer *buffer = gst_buffer_new_wrapped(data, size);
    stamp(self, buffer, k);
    gst_vae_tensor_meta_add(buffer, &self->clip.info, NULL);
    run->next = k + 1;
    set_position(self);
    GST_LOG_OBJECT(self, "latent %d: %" GST_PTR_FORMAT, k, buffer);
    if (self->clip.times || self->clip.sequences)
        gst_pad_push_event(self->srcpad, gst_vae_group_event(buffer));
    return gst_pad_push(self->srcpad, buffer);
}

/* Returns the time at which playback of a segment ends. */
static GstClockTime
end_of(const GstSegment *segment)
{
    if (segment->rate < 0)
        return segment->start;
    return GST_CLOCK_TIME_IS_VALID(segment->stop) ? segment->stop
                                                  : segment->duration;
}

/* Waits until the frames of the segment have left the decoder. */
static void
drain(GstLatentDemux *self)
{
    GstQuery *query = gst_query_new_drain();
    gst_structure_set(gst_query_writable_structure(query),
                      GST_VAE_DRAIN_DECODER, G_TYPE_BOOLEAN, TRUE, NULL);
    gst_pad_peer_query(self->srcpad, query);
    gst_query_unref(query);
}

/* A player may seek with a flush at the message, so it comes after the
 * frames. */
static void
push_segment_done(GstLatentDemux *self)
{
    const GstClockTime stop = end_of(&self->segment);
    GstEvent *event = gst_event_new_segment_done(GST_FORMAT_TIME, stop);
    GstMessage *message =
        gst_message_new_segment_done(GST_OBJECT(self), GST_FORMAT_TIME, stop);
    gst_event_set_seqnum(event, self->seqnum);
    gst_message_set_seqnum(message, self->seqnum);
    gst_pad_push_event(self->srcpad, event);
    drain(self);
    if (GST_PAD_IS_FLUSHING(self->srcpad))
        gst_message_unref(message);
    else
        gst_element_post_message(GST_ELEMENT(self), message);
}

static void
push_eos(GstLatentDemux *self)
{
    GstEvent *event = gst_event_new_eos();
    if (self->seqnum)
        gst_event_set_seqnum(event, self->seqnum);
    gst_pad_push_event(self->srcpad, event);
}

void
gst_latent_send_end(GstLatentDemux *self, GstFlowReturn ret)
{
    GST_DEBUG_OBJECT(self, "stopping: %s", gst_flow_get_name(ret));
    if (ret == GST_FLOW_FLUSHING)
        return;
    self->ended = TRUE;
    if (ret == GST_FLOW_NOT_LINKED ||
        (ret < GST_FLOW_EOS && ret != GST_FLOW_CUSTOM_ERROR))
        GST_ELEMENT_FLOW_ERROR(self, ret);
    if (self->known && (self->segment.flags & GST_SEEK_FLAG_SEGMENT))
        push_segment_done(self);
    else if (self->known)
        push_eos(self);
}
